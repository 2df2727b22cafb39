package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/wait"
)

// Observer reads every run twice.
type Observer struct {
	Client *Client
	// IDs are the runs that must be read, listed or not: those acknowledged and those changed.
	IDs []string
	// Windows are listed to find runs that nobody acknowledged.
	Windows []Window
	// WaitUntil bounds the wait for open runs to end. Runs due later are not waited for.
	WaitUntil time.Time
	// Between, if set, is called between the two reads.
	Between func(ctx context.Context) error
	// Apart lies between Between and the second read.
	Apart time.Duration
	// Concurrency bounds the requests under way; 0 = 4.
	Concurrency int
	Log         *slog.Logger
}

const (
	pollEvery = 2 * time.Second
	// pollMost bounds the open runs that are read again at once; the ids come in order of time, so
	// the oldest go first.
	pollMost      = 2000
	progressEvery = 5 * time.Second
	// unreadableLogged bounds how many errors of one kind are logged.
	unreadableLogged = 5
)

// survey is one read of everything.
type survey struct {
	readings map[string]check.Reading
	refs     map[string]check.Ref
	unlisted int
}

// Observe reads everything, waits for open runs to end until WaitUntil, waits Apart, and reads
// everything again. The first reading of a run is the first that showed its end, or else the last
// before the second read. unlisted counts windows that could not be listed, in both reads. The
// error is ErrRefused or that of ctx; a run that cannot be read is no error.
func (o *Observer) Observe(ctx context.Context) (observations []check.Observation, unlisted int, err error) {
	first, err := o.survey(ctx, "first read", o.IDs)
	if err != nil {
		return nil, 0, err
	}
	if err := o.wait(ctx, first); err != nil {
		return nil, 0, err
	}
	if o.Between != nil {
		if err := o.Between(ctx); err != nil {
			return nil, 0, fmt.Errorf("between the reads: %w", err)
		}
	}
	o.Log.Info("waiting for the second read", "apart", o.Apart)
	if err := wait.For(ctx, o.Apart); err != nil {
		return nil, 0, fmt.Errorf("wait for second read: %w", err)
	}
	ids := slices.Clone(o.IDs)
	for id := range first.readings {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	second, err := o.survey(ctx, "second read", slices.Compact(ids))
	if err != nil {
		return nil, 0, err
	}
	return join(first, second), first.unlisted + second.unlisted, nil
}

// join pairs the readings by run, in order of ids. A run that only the second read found was absent
// before.
func join(first, second *survey) []check.Observation {
	obs := make([]check.Observation, 0, len(second.readings))
	for id, r := range second.readings {
		before, ok := first.readings[id]
		if !ok {
			before.Status = check.Absent
		}
		ref := second.refs[id]
		if ref.IsZero() {
			ref = first.refs[id]
		}
		obs = append(obs, check.Observation{ID: id, Ref: ref, First: before, Second: r})
	}
	slices.SortFunc(obs, func(a, b check.Observation) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return obs
}

// survey lists all windows, then reads by id what it must read and was not listed whole.
func (o *Observer) survey(ctx context.Context, name string, ids []string) (*survey, error) {
	s := &survey{readings: make(map[string]check.Reading, len(ids)), refs: make(map[string]check.Ref, len(ids))}
	var mu sync.Mutex // guards s and partial
	var partial []string
	err := Each(ctx, o.Log, name+": windows listed", len(o.Windows), o.Concurrency, func(ctx context.Context, i int) error {
		at := time.Now()
		err := o.Client.List(ctx, o.Windows[i], func(r *Run) {
			ref := r.ref()
			mu.Lock()
			defer mu.Unlock()
			s.refs[r.ID] = ref
			if r.whole() {
				s.readings[r.ID] = check.Reading{Status: check.Found, At: at, Run: r.Run}
			} else {
				partial = append(partial, r.ID)
			}
		})
		if fatal(ctx, err) {
			return err
		}
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			if s.unlisted++; s.unlisted <= unreadableLogged {
				o.Log.Warn("window could not be listed", "from", o.Windows[i].From, "err", err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if _, ok := s.readings[id]; !ok {
			partial = append(partial, id)
		}
	}
	slices.Sort(partial)
	if err := o.byID(ctx, name+": runs read by id", slices.Compact(partial), s); err != nil {
		return nil, err
	}
	return s, nil
}

// byID reads runs one by one into s.
func (o *Observer) byID(ctx context.Context, name string, ids []string, s *survey) error {
	var mu sync.Mutex // guards s and failed
	failed := 0
	return Each(ctx, o.Log, name, len(ids), o.Concurrency, func(ctx context.Context, i int) error {
		at := time.Now()
		run, found, err := o.Client.Run(ctx, ids[i])
		if fatal(ctx, err) {
			return err
		}
		ref := run.ref()
		mu.Lock()
		defer mu.Unlock()
		r := check.Reading{At: at}
		switch {
		case err != nil:
			r.Status = check.Unreadable
			if failed++; failed <= unreadableLogged {
				o.Log.Warn("run could not be read", "run", ids[i], "err", err)
			}
		case !found:
			r.Status = check.Absent
		default:
			r.Status, r.Run = check.Found, run.Run
			s.refs[ids[i]] = ref
		}
		s.readings[ids[i]] = r
		return nil
	})
}

// wait reads open runs again until none is open, or WaitUntil.
func (o *Observer) wait(ctx context.Context, s *survey) error {
	for {
		var open []string
		for id, r := range s.readings {
			if o.open(&r) {
				open = append(open, id)
			}
		}
		if len(open) == 0 {
			return nil
		}
		if !time.Now().Before(o.WaitUntil) {
			o.Log.Warn("runs are still open, and the wait is over", "open", len(open))
			return nil
		}
		o.Log.Info("waiting for runs to end", "open", len(open), "until", o.WaitUntil.UTC().Format(time.RFC3339))
		if err := wait.For(ctx, min(pollEvery, time.Until(o.WaitUntil))); err != nil {
			return fmt.Errorf("wait for runs to end: %w", err)
		}
		slices.Sort(open)
		if err := o.byID(ctx, "open runs read again", open[:min(len(open), pollMost)], s); err != nil {
			return err
		}
	}
}

// open reports whether a run is worth waiting for.
func (o *Observer) open(r *check.Reading) bool {
	switch r.Status {
	case check.Unreadable:
		return true
	case check.Absent:
		return false
	default:
		return !r.Run.State.Terminal() && !r.Run.DueAt.After(o.WaitUntil)
	}
}

// Each calls f for 0 … n-1, limit at a time (0 = 4), until all are done or one fails. It logs how many
// are done now and then, and at the end, as what.
func Each(ctx context.Context, log *slog.Logger, what string, n, limit int, f func(ctx context.Context, i int) error) error {
	var done atomic.Int64
	say := func(context.Context) { log.Info("under way", "what", what, "done", done.Load(), "of", n) }
	stop := wait.Every(ctx, progressEvery, say)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(max(limit, 0), 4))
	for i := range n {
		if gctx.Err() != nil {
			break
		}
		g.Go(func() error {
			err := f(gctx, i)
			if err == nil {
				done.Add(1)
			}
			return err
		})
	}
	err := g.Wait()
	stop()
	if n > 1 {
		say(ctx)
	}
	return cmp.Or(err, ctx.Err())
}

// fatal reports whether an error ends the observation: the caller stopped it, or the API refuses
// us.
func fatal(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, ErrRefused))
}
