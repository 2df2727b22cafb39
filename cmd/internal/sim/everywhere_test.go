package sim

import (
	"context"
	"fmt"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/homes"
)

// A part of the one-off jobs is of durability everywhere (Regional.Everywhere). What is
// acknowledged of them is not lost with a region, and a guarded one is not started again by the
// next region, whatever the first was cut off from.

// everywhere reports whether a one-off job is of durability everywhere.
func (w *world) everywhere(line int) bool {
	return w.s.Regions != nil && w.s.Regions.Everywhere && line%4 < 2
}

const (
	// copiesTake is how long a question to both data centres takes at most, each way.
	copiesTake = lagMost
	// copiesWait is how long one waits for a data centre that does not answer.
	copiesWait = 2 * time.Second
)

// copies is how a process has the other data centre hold rows, as a read at EACH_QUORUM does: what
// was written of them before is there at once, and nothing else.
type copies struct {
	n *Node
	l *life
}

// Confirm implements schema.CopyStore.
func (c copies) Confirm(ctx context.Context, rows schema.Copies) error {
	c.n.pause(c.l.dead)
	to := c.n.at.to
	if err := c.wait(ctx, to.takes(copiesTake)); err != nil {
		return err
	}
	if !to.deliver(&rows) {
		if err := c.wait(ctx, copiesWait); err != nil {
			return err
		}
		return fmt.Errorf("%w: the other data centre does not answer", schema.ErrUnavailable)
	}
	return c.wait(ctx, to.takes(copiesTake))
}

// wait waits, unless the caller leaves or the process dies.
func (c copies) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", schema.ErrUnavailable, ctx.Err())
	case <-c.l.dead:
		return schema.ErrUnavailable
	}
}

// takes returns how long something takes.
func (r *replication) takes(most time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(r.rng.Float64() * float64(most))
}

// deliver has the writes of the rows arrive that are on their way; false: the way is cut. They
// arrive once more later, which is harmless.
func (r *replication) deliver(rows *schema.Copies) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut || r.closed {
		return false
	}
	for f := range r.flying {
		if !f.what.Of(rows) {
			continue
		}
		if err := r.into.Apply(context.Background(), f.what); err != nil {
			panic(err) // it has no faults
		}
	}
	return true
}

// everywhere is what has every region hold what a process of a node writes; nil without regions.
func (r *regions) everywhere(n *Node, l *life, k *homes.Keeper) *homes.Everywhere {
	if k == nil {
		return nil
	}
	return k.Everywhere(copies{n, l})
}

// judgeEverywhere judges the jobs of durability everywhere, also where a region lost what it did
// last: what was acknowledged runs to its end, a cancel that was acknowledged stands, and a guarded
// run is not called again where only one region may have called.
func (w *world) judgeEverywhere(h *check.History) {
	ends, calls, cancelled := make(map[string]check.Reading), make(map[int][]check.Sighting), make(map[string]time.Time)
	for i := range h.Runs {
		ends[h.Runs[i].ID] = h.Runs[i].Second
	}
	for _, s := range h.Seen {
		calls[s.Ref.Line] = append(calls[s.Ref.Line], s)
	}
	for _, c := range h.Changes {
		if c.Kind == check.Cancel && !c.Acked.IsZero() {
			cancelled[c.Run] = c.Acked
		}
	}
	guarantee := make(map[int]check.Guarantee)
	for _, a := range h.Asked {
		guarantee[a.Ref.Line] = a.Guarantee
	}
	judged := 0
	for _, a := range h.Acks {
		line := a.Ref.Line
		if a.Status != 201 || !w.everywhere(line) {
			continue
		}
		judged++
		end, of := ends[a.ID], calls[line]
		if end.Status != check.Found || !end.Run.State.Terminal() {
			w.c.fault("job %d, everywhere, was acknowledged at %s as %s: it is %v, %q", line, a.At.Format(clockTime), a.ID, end.Status, end.Run.State)
		}
		if at, ok := cancelled[a.ID]; ok {
			for _, s := range of {
				if s.At.After(at.Add(bucketer.TaskChangeWithin + 2*w.off())) {
					w.c.fault("job %d, everywhere: its cancel was acknowledged at %s, and it was called at %s", line, at.Format(clockTime), s.At.Format(clockTime))
				}
			}
		}
		switch g := guarantee[line]; {
		case g == check.AtMostOnce && len(of) > 1:
			w.c.fault("job %d, everywhere and at_most_once, was called %d times", line, len(of))
		case g == check.EffectivelyOnce:
			if x, y, ok := overlap(of); ok {
				w.c.fault("job %d, everywhere and effectively_once: calls by %s at %s and by %s at %s overlap", line, x.Caller, x.At.Format(clockTime), y.Caller, y.At.Format(clockTime))
			}
		}
	}
	if judged == 0 && w.s.Regions != nil && w.s.Regions.Everywhere {
		w.c.fault("no job of durability everywhere was acknowledged")
	}
}

// overlap returns two calls of different processes that were under way at once.
func overlap(calls []check.Sighting) (a, b check.Sighting, ok bool) {
	ended := func(s *check.Sighting) time.Time {
		if !s.Gone.IsZero() && (s.End.IsZero() || s.Gone.Before(s.End)) {
			return s.Gone
		}
		return s.End
	}
	for i := range calls {
		for j := range calls {
			if end := ended(&calls[i]); i != j && calls[i].Caller != calls[j].Caller && !calls[j].At.Before(calls[i].At) && (end.IsZero() || calls[j].At.Before(end)) {
				return calls[i], calls[j], true
			}
		}
	}
	return a, b, false
}

// everywhereScenarios are those of jobs whose acknowledgements every region holds.
var everywhereScenarios = []play{
	{"nothing goes wrong", 1, Scenario{
		Guarantees: true, Changes: true, Regions: &Regional{Everywhere: true}, Promise: Promise{Lateness: 2*copiesTake + 10*onTime, CalledOnce: true, NoneLost: true},
	}, nil},
	{"the link between the regions is cut", 1, Scenario{
		Guarantees: true, Changes: true, Regions: &Regional{Plan: linkIsCut, Everywhere: true}, Promise: Promise{Lateness: lateByCopies, NoneLost: true},
	}, nil},
	{"homes move to and fro", 1, Scenario{
		Guarantees: true, Changes: true, Regions: &Regional{Plan: homesMove, Everywhere: true}, Promise: Promise{NoneLost: true},
	}, nil},
	{"one is lost for good while replication takes up to a minute", 1, Scenario{
		// Without changes: of a home job the mark of a move may be there, and the entry that it
		// names lost.
		Guarantees: true, Regions: &Regional{Plan: regionDies, Most: time.Minute, Loses: true, Gone: true, Everywhere: true}, Promise: Promise{Lateness: lateByLoss},
	}, nil},
	{"one is cut off, and both believe that they serve", 1, Scenario{
		Guarantees: true, Changes: true, Regions: &Regional{Plan: regionIsApart, Loses: true, Everywhere: true}, Promise: Promise{Lateness: lateByLoss},
	}, nil},
	{"one is cut off, and nodes are killed and callees fail", 1, Scenario{
		Guarantees: true, Changes: true, Kills: 4, Faults: Faults{Target: 0.1}, Regions: &Regional{Plan: regionIsApart, Loses: true, Everywhere: true}, Promise: Promise{Lateness: lateByLoss},
	}, nil},
}

// lateByCopies is how late a guarded run may be that waits until every region knows of its claim,
// where the link to one is cut for up to a minute.
const lateByCopies = 80 * time.Second
