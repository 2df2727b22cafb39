package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// limitedSource is the source in the address that jobs with a limit call, whose runs last up to
// limitedTook.
const (
	limitedSource = "limited"
	limitedTook   = 6 * time.Second
)

// limited is a recurring job with a concurrency limit.
type limited struct {
	line int
	spec schema.JobSpec
	id   schema.JobID
	made time.Time // when its creation was acknowledged or given up

	values map[check.Hash]string // of a limit with a key: what it counts payloads under, by their hash
}

// askLimited creates jobs with limits that are due more often than they may run, and triggers more
// runs.
func (w *world) askLimited(ctx context.Context, wg *sync.WaitGroup) {
	onLimits := []string{schema.OnLimitQueue, schema.OnLimitSkip, schema.OnLimitCancelOldest}
	for line := 1; line <= w.s.Limited; line++ {
		rng := rand.New(rand.NewPCG(w.s.Seed, uint64(line)<<8|4)) // #nosec G404,G115 -- drawn from the seed, and small
		l := &limited{line: line, spec: schema.JobSpec{
			Tenant: "default", Name: fmt.Sprintf("limited-%d", line), JitterStated: true,
			Schedule:    &schema.Schedule{Every: schema.Duration(time.Duration(2+rng.IntN(4)) * time.Second)},
			Misfire:     misfires[rng.IntN(2)],
			Concurrency: &schema.Concurrency{Limit: 1 + rng.IntN(3), OnLimit: onLimits[line%len(onLimits)]},
			Work: &schema.Work{
				HTTP: &schema.HTTPTarget{URL: fmt.Sprintf("http://sink/%s/%d", limitedSource, line)}, Timeout: schema.Duration(15 * time.Second),
			},
		}}
		if w.s.Guarantees {
			l.spec.Work.Guarantee = guarantees[line/len(onLimits)%len(guarantees)]
		}
		if w.s.LimitKeys {
			l.spec.Concurrency.Key = limitKey
		}
		w.limited = append(w.limited, l)
		wg.Go(func() {
			time.Sleep(time.Duration(rng.Float64() * float64(10*time.Second)))
			err := w.retry(func(b *engine.Engine) error {
				job, _, err := b.CreateJob(ctx, l.spec, l.spec.Name, l.spec.Name)
				l.id = job.ID
				return err
			})
			l.made = time.Now()
			if w.s.LimitKeys && err == nil {
				w.triggerByValue(ctx, l, rng)
				return
			}
			for range rng.IntN(10) {
				time.Sleep(time.Duration(rng.Float64() * float64(w.s.Span) / 10))
				if b := w.someNode(); b != nil && err == nil {
					_, _ = b.TriggerJob(ctx, "default", l.id, nil, "", "") // a run more, if it was done
				}
			}
		})
	}
}

// retry asks one node after the other until one succeeds.
func (w *world) retry(ask func(b *engine.Engine) error) error {
	err := errors.New("no node runs")
	for range askTries {
		if b := w.someNode(); b != nil {
			if err = ask(b); err == nil {
				return nil
			}
		}
		time.Sleep(askPause)
	}
	return err
}

// pauseLimited pauses the jobs with limits after the last fault, so that waiting runs end.
func (w *world) pauseLimited(ctx context.Context) error {
	for _, l := range w.limited {
		if err := w.retry(func(b *engine.Engine) error {
			if l.id.IsZero() { // its creation was never answered
				job, err := b.JobByName(ctx, "default", l.spec.Name)
				if l.id = job.ID; errors.Is(err, schema.ErrNotFound) {
					return nil
				} else if err != nil {
					return err
				}
			}
			_, err := b.PauseJob(ctx, "default", l.id, 0)
			return err
		}); err != nil {
			return fmt.Errorf("pause %s: %w", l.spec.Name, err)
		}
	}
	return nil
}

// judgeLimited judges the jobs with limits: never more runs at once than the limit, no run waits
// for ever, and none starts that was given up.
func (w *world) judgeLimited(ctx context.Context, b *engine.Engine, seen []check.Sighting) error {
	if len(w.limited) == 0 {
		return nil
	}
	of := make(map[schema.JobID][]runs.Run)
	now := time.Now()
	for from := now.Add(-w.s.Span - settle - w.s.Lasting - time.Hour); from.Before(now.Add(time.Hour)); from = from.Add(time.Hour) {
		win := runs.Window{Tenant: "default", From: from, To: from.Add(time.Hour)}
		for pos := (&runs.Position{}); pos != nil; {
			page, next, err := b.Runs(ctx, win, *pos, 500)
			if err != nil {
				return err
			}
			for i := range page {
				id := page[i].Entry.Spec.Job
				of[id] = append(of[id], page[i])
			}
			pos = next
		}
	}
	w.out.Ends = make(map[string]int)
	deadly := w.s.Kills+w.s.Freezes+w.s.Steps > 0 || w.s.Faults.Crash > 0
	for _, l := range w.limited {
		if l.id.IsZero() {
			continue // it was never created
		}
		var calls []check.Sighting
		called := make(map[string]bool)
		for _, s := range seen {
			if s.Ref.Line == l.line {
				calls = append(calls, s)
				called[s.Run] = true
			}
		}
		w.out.BeyondLimit = max(w.out.BeyondLimit, atOnce(calls)-l.spec.Concurrency.Limit)
		for value, calls := range l.byValue(calls) {
			if n := atOnce(calls); n > l.spec.Concurrency.Limit && w.s.Freezes+w.s.Steps == 0 {
				w.c.fault("%d runs of %s (%s, %q) at once, which allows %d:%s", n, l.spec.Name, l.spec.Concurrency.OnLimit, value, l.spec.Concurrency.Limit, describeOverlap(calls, n))
			}
		}
		for i := range of[l.id] {
			r := &of[l.id][i]
			w.out.Ends[l.spec.Concurrency.OnLimit+" "+string(r.State)]++
			switch {
			case !r.State.Terminal() && len(r.Attempts) == 0 && r.Entry.Due().Before(l.made):
				// Due before its creation was acknowledged, and written after its sweep: not
				// promised.
			case !r.State.Terminal():
				w.c.fault("run %s of %s is %s for ever:\n%s", r.ID, l.spec.Name, r.State, w.trace(ctx, r.ID))
			case r.State == schema.StateSucceeded && !called[r.ID.String()]:
				w.c.fault("run %s of %s has succeeded, and nobody was called", r.ID, l.spec.Name)
			case r.State == schema.StateMissed && called[r.ID.String()] && !deadly:
				// unless its executor died before it recorded the call
				w.c.fault("run %s of %s is missed, and somebody was called", r.ID, l.spec.Name)
			}
		}
		for _, value := range l.allValues() {
			of := schema.Spec{Job: l.id, ConcurrencyValue: value}
			left, err := w.c.store.Waiters(ctx, of.Limit(), schema.IDRange{}, 10)
			if err != nil {
				return err
			}
			if len(left) > 0 {
				w.c.fault("%d runs of %s (%q) still wait", len(left), l.spec.Name, value)
			}
		}
	}
	return nil
}

// describeOverlap describes the calls of an instant at which n runs were called: when each began
// and ended, and when its caller hung up.
func describeOverlap(calls []check.Sighting, n int) string {
	var b strings.Builder
	for _, at := range calls {
		var open []check.Sighting
		for _, s := range calls {
			if !s.At.After(at.At) && s.End.After(at.At) {
				open = append(open, s)
			}
		}
		if len(open) < n {
			continue
		}
		for _, s := range open {
			fmt.Fprintf(&b, "\n  run %s attempt %d fence %d: %s to %s", s.Run, s.Attempt, s.Fence, s.At.Format(time.StampMilli), s.End.Format(time.StampMilli))
			if !s.Gone.IsZero() {
				fmt.Fprintf(&b, ", its caller gone at %s", s.Gone.Format(time.StampMilli))
			}
		}
		return b.String()
	}
	return ""
}

// atOnce returns the most runs that were called at one time. Two calls of one run count as one. A
// call that ends at the instant at which it began does not count.
func atOnce(calls []check.Sighting) (most int) {
	type edge struct {
		at  time.Time
		run string
		by  int
	}
	var edges []edge
	for _, s := range calls {
		if s.End.After(s.At) {
			edges = append(edges, edge{s.At, s.Run, 1}, edge{s.End, s.Run, -1})
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.by, b.by)) })
	open := make(map[string]int)
	for _, e := range edges {
		if open[e.run] += e.by; open[e.run] == 0 {
			delete(open, e.run)
		}
		most = max(most, len(open))
	}
	return most
}

// TestAtOnce: in fake time a call may be cancelled at the instant at which it begins. It must not
// count.
func TestAtOnce(t *testing.T) {
	call := func(run string, from, to int) check.Sighting {
		return check.Sighting{Run: run, At: time.Unix(int64(from), 0), End: time.Unix(int64(to), 0)}
	}
	for _, c := range []struct {
		name  string
		calls []check.Sighting
		want  int
	}{
		{"none", nil, 0},
		{"one after the other", []check.Sighting{call("a", 1, 2), call("b", 2, 3)}, 1},
		{"two at once", []check.Sighting{call("a", 1, 3), call("b", 2, 4)}, 2},
		{"two calls of one run", []check.Sighting{call("a", 1, 3), call("a", 2, 4)}, 1},
		{"one that ended as it began, beside another", []check.Sighting{call("a", 1, 3), call("b", 2, 2)}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := atOnce(c.calls); got != c.want {
				t.Errorf("atOnce = %d, want %d", got, c.want)
			}
		})
	}
}
