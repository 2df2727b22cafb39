package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"carillon.dev/carillon/schema"
)

// guarded makes the work of an entry at_most_once or effectively_once.
func guarded(g schema.Guarantee) func(*schema.Spec) {
	return func(s *schema.Spec) {
		s.Work.Guarantee = g
		if g == schema.AtMostOnce {
			s.Work.Retry = nil
		}
	}
}

var guarantees = []schema.Guarantee{schema.AtMostOnce, schema.EffectivelyOnce}

// lease returns the lease of a run and what it says.
func (w *world) lease(run schema.RunID) (schema.Lease, schema.Claim) {
	w.t.Helper()
	l, err := w.inner.Lease(context.Background(), schema.RunLease(run))
	if err != nil && !errors.Is(err, schema.ErrNotFound) {
		w.t.Fatalf("Lease: %v", err)
	}
	c, err := l.Claim()
	if err != nil {
		w.t.Fatalf("Claim: %v", err)
	}
	return l, c
}

// story returns the attempts of a run in words.
func (w *world) story(run schema.RunID) string {
	w.t.Helper()
	var all []string
	for _, a := range w.attempts(run) {
		switch {
		case a.Record == nil:
			all = append(all, fmt.Sprintf("%d under way", a.Number))
		case a.Unstarted():
			all = append(all, fmt.Sprintf("%d unstarted", a.Number))
		default:
			all = append(all, fmt.Sprintf("%d %s", a.Number, a.Record.Outcome))
		}
	}
	return strings.Join(all, ", ")
}

// ends checks how a run stands, what its attempts were, and that its lease says the same.
func (w *world) ends(run schema.RunID, state schema.State, story string) {
	w.t.Helper()
	if got := w.state(run); got != state || w.story(run) != story {
		w.t.Errorf("the run is %s after %q; want %s after %q", got, w.story(run), state, story)
	}
	l, c := w.lease(run)
	if l.Holder != nil || !c.Over() {
		w.t.Errorf("lease = %+v, which says %+v; want one that nobody holds, over", l, c)
		return
	}
	for _, a := range w.attempts(run) {
		if a.Number == c.Number && a.Fence == c.Fence && a.Record != nil && a.Record.Outcome == c.Record.Outcome && a.Written == c.Written {
			return
		}
	}
	w.t.Errorf("the lease ends with %d %s under fence %d; the rows %q do not have it", c.Number, c.Record.Outcome, c.Fence, w.story(run))
}

// alone is a store whose sessions cannot be renewed while it is cut off.
type alone struct {
	Store
	cut atomic.Bool
}

func (s *alone) SwapSession(ctx context.Context, was, is schema.Session) error {
	if s.cut.Load() {
		return schema.ErrUnavailable
	}
	return s.Store.SwapSession(ctx, was, is)
}

// cutOff wires an executor to a store that may be cut off.
func cutOff(s *alone) func(*Config) {
	return func(c *Config) { s.Store, c.Store = c.Store, s }
}

// overlap counts how many calls are under way at most.
type overlap struct {
	mu        sync.Mutex
	now, most int
}

func (o *overlap) enter() func() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now++
	o.most = max(o.most, o.now)
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.now--
	}
}

// counts returns how many calls are under way, and how many were at most.
func (o *overlap) counts() (now, most int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now, o.most
}
