package sim

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

const (
	// maxTraces bounds the runs of a seed whose traces are printed.
	maxTraces = 3
	// overrun is how much longer than planned, in fake time, a scenario may take before it counts
	// as stuck. Every retry has given up long before.
	overrun = 30 * time.Minute
	// maxStacks bounds what is printed of goroutines, bytes.
	maxStacks = 4 << 20
)

// limit returns when the scenario, defaults filled in, must have ended.
func (s *Scenario) limit() time.Duration {
	if s.Waiting {
		return 4*longWithin + settle + overrun
	}
	return 2*(s.Span+s.Outage+s.Lasting) + s.lastRead() + settle + afterwards + overrun
}

// stuck describes what a scenario that does not end waits for. It is called in the bubble, past its
// limit.
func (w *world) stuck() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d does not end: it was %v\n%s\n", w.s.Seed, w.stage.Load(), w.c.nodesNow())
	stacks := make([]byte, maxStacks)
	b.Write(stacks[:runtime.Stack(stacks, true)])
	return b.String()
}

// nodesNow describes the state of each node.
func (c *Cluster) nodesNow() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, n := range c.nodes {
		if n.life == nil {
			fmt.Fprintf(&b, "%s never ran\n", n.name)
			continue
		}
		fmt.Fprintf(&b, "%s life %d up %t frozen %t resting %t off by %v, %d messages in hand\n", n.name, n.number, n.up, n.frozen != nil, n.suspended,
			n.machine.offset(time.Now()), n.executor.Running())
	}
	return b.String()
}

// traces describes the first runs at fault, from the store and the callee.
func (w *world) traces(ctx context.Context) []string {
	var all []string
	var seen []string
	for _, f := range slices.Concat(w.out.Report.Faults, w.out.Recurring.Faults) {
		run, err := schema.ParseEntryID(f.Run)
		if err != nil || slices.Contains(seen, f.Run) || f.Kind == check.FaultDuplicateExecution && !w.s.Promise.Once {
			continue
		}
		if seen = append(seen, f.Run); len(seen) > maxTraces {
			break
		}
		all = append(all, w.trace(ctx, run))
	}
	return append(all, w.c.nodesNow())
}

// jobTrace describes the row of a job.
func (w *world) jobTrace(ctx context.Context, id schema.JobID) string {
	job, err := w.c.store.Job(ctx, id)
	if err != nil {
		return fmt.Sprintf("  its job: %v\n", err)
	}
	var b strings.Builder
	at := func(t time.Time) string { return t.UTC().Format(clockTime) }
	fmt.Fprintf(&b, "  its job: generation %d, %s", job.Current.Number, job.Current.State)
	if job.Before != nil {
		fmt.Fprintf(&b, ", until %s generation %d, %s", at(job.Cut), job.Before.Number, job.Before.State)
	}
	for _, p := range job.Current.Spec.Past {
		fmt.Fprintf(&b, ", until %s generation %d", at(p.Cut), p.Number)
	}
	b.WriteByte('\n')
	return b.String()
}

// planTrace describes the rows of a job, in order, with records of runs that never started.
func (w *world) planTrace(ctx context.Context, id schema.JobID) string {
	var b strings.Builder
	at := func(t time.Time) string { return t.UTC().Format(clockTime) }
	now := time.Now()
	for bucket := schema.BucketOf(now.Add(-w.s.Span - settle - w.s.Lasting - w.s.Outage - time.Hour)); bucket <= schema.BucketOf(now); bucket++ {
		p := schema.Partition{Bucket: bucket, Shard: id.Shard()}
		rows, err := w.c.store.Entries(ctx, p, schema.IDRange{}, 100_000)
		if err != nil {
			return err.Error()
		}
		for i := range rows {
			e := &rows[i]
			if e.Spec.Job != id {
				continue
			}
			fmt.Fprintf(&b, "\n  %s %q of %s, due %s, planned by %d for %s", e.ID, e.Spec.Kind, e.Run(), at(e.Due()), e.Spec.Generation, at(e.Spec.Nominal))
			attempts, err := w.c.store.Attempts(ctx, e.Run().Partition(), []schema.RunID{e.Run()})
			if err != nil {
				return err.Error()
			}
			for k := range attempts {
				if r := attempts[k].Record; r != nil {
					fmt.Fprintf(&b, "\n    %d %s at %s of %s to %s: %s %+v", attempts[k].Number, r.Outcome, at(r.Finished), r.Entry, r.To, r.Reason, r.Missed)
				}
			}
		}
	}
	return b.String()
}

// trace describes a run: its rows, its lease, and its calls.
func (w *world) trace(ctx context.Context, run schema.RunID) string {
	var b strings.Builder
	at := func(t time.Time) string { return t.UTC().Format(clockTime) }
	fmt.Fprintf(&b, "run %s, due %s\n", run, at(run.Time()))
	rows, err := w.c.store.EntriesByID(ctx, run.Partition(), []schema.EntryID{run})
	if err != nil {
		fmt.Fprintf(&b, "  its row: %v\n", err)
	}
	for i := range rows {
		spec := &rows[i].Spec
		fmt.Fprintf(&b, "  its row: %+v, cancelled %v, moved to %v\n", spec.Work, rows[i].Marks.Cancelled, rows[i].Marks.MovedTo)
		if !spec.Job.IsZero() {
			fmt.Fprintf(&b, "  of job %s, planned by its generation %d for %s\n%s", spec.Job, spec.Generation, at(spec.Nominal), w.jobTrace(ctx, spec.Job))
		}
	}
	attempts, err := w.c.store.Attempts(ctx, run.Partition(), []schema.RunID{run})
	if err != nil {
		fmt.Fprintf(&b, "  its attempts: %v\n", err)
	}
	for i := range attempts {
		a := &attempts[i]
		fmt.Fprintf(&b, "  attempt %d, fence %d", a.Number, a.Fence)
		if s := a.Session; s != nil {
			fmt.Fprintf(&b, ", under session %s of %s since %s", s.ID, s.Executor, at(s.Started))
		}
		if r := a.Record; r != nil {
			fmt.Fprintf(&b, ", %s by %s of entry %s, %s to %s, final %t, unstarted %t, next %s, to %s: %s%s", r.Outcome, r.Executor, r.Entry, at(r.Started),
				at(r.Finished), r.Final, r.Unstarted, r.Next, r.To, r.Error, r.Reason)
		}
		b.WriteByte('\n')
	}
	switch lease, err := w.c.store.Lease(ctx, schema.RunLease(run)); {
	case errors.Is(err, schema.ErrNotFound):
		b.WriteString("  no lease\n")
	case err != nil:
		fmt.Fprintf(&b, "  its lease: %v\n", err)
	default:
		fmt.Fprintf(&b, "  its lease: fence %d, holder %+v, %s\n", lease.Fence, lease.Holder, lease.Record)
	}
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	for _, s := range w.c.seen {
		if s.Run == run.String() {
			fmt.Fprintf(&b, "  called as attempt %d under fence %d, %s to %s: %d\n", s.Attempt, s.Fence, at(s.At), at(s.End), s.Status)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.changes {
		if c.Run == run.String() {
			fmt.Fprintf(&b, "  %s asked %s, acknowledged %s, due %s\n", c.Kind, at(c.Requested), at(c.Acked), at(c.Due))
		}
	}
	return b.String()
}
