package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// Runs that require labels of their executor call an address of pooledSource. Those of pooledTask
// require what the task says.
const (
	pooledSource = "pooled"
	pooledTask   = "pooled"
	// triedWithin is how long after an executor has come a run is tried at the latest that waits
	// for one: what is deferred at most, and what a dispatcher takes to publish it.
	triedWithin = 90*time.Second + 5*time.Second
	// unsettled is for how long after a node stops, or begins, others may not act on it yet: its
	// shards go to others, and what was published for its pool is published again.
	unsettled = 15 * time.Second
	// routedWithin is how late a run may start while an executor fits it and nothing goes wrong.
	routedWithin = time.Second
)

// labelsOf are the labels of the nodes, in turn: of each requirement one node has them, at most.
var labelsOf = []schema.Labels{{"gpu": "true", "zone": "a"}, {"zone": "b"}, nil}

// requirements are what runs require, in turn.
var requirements = []schema.Labels{{"gpu": "true"}, {"zone": "b"}, {"zone": "a", "gpu": "true"}}

// pooled are the runs that require labels.
type pooled struct {
	asked []pooledRun
	away  away // of the node that has a gpu
}

// pooledRun is a run that was acknowledged, or may have been.
type pooledRun struct {
	line     int
	id       schema.RunID
	from     time.Time // from when it may start: it is due, and acknowledged
	requires schema.Labels
}

// away is a span in which a node does not run, because it was told to stop.
type away struct{ from, to time.Time }

// labelNodes gives the nodes their labels, before they start.
func (w *world) labelNodes() {
	if w.s.Pooled == 0 {
		return
	}
	for i, n := range w.c.nodes {
		n.labels = labelsOf[i%len(labelsOf)]
	}
}

// fits notes an executor that starts what requires labels which it lacks.
func (n *Node) fits(call *target.Call) {
	if !n.labels.Meet(call.Work.Requires) {
		n.c.fault("%s, with the labels %q, starts run %s, which requires %q", n.name, n.labels, call.Run, call.Work.Requires)
	}
}

// askPooled makes the task, and asks for runs that require labels. The only node with a gpu is told
// to stop in the middle, for a third of the span.
func (w *world) askPooled(ctx context.Context, wg *sync.WaitGroup) {
	if w.s.Pooled == 0 {
		return
	}
	wg.Go(func() {
		time.Sleep(w.s.Span / 4)
		n := w.c.nodes[0]
		w.pooled.away.from = time.Now()
		n.Stop()
		time.Sleep(w.s.Span / 3)
		if err := n.Start(); err != nil {
			panic(err)
		}
		w.pooled.away.to = time.Now()
	})
	rng := rand.New(rand.NewPCG(w.s.Seed, 12)) // #nosec G404 -- drawn from the seed
	wg.Go(func() {
		time.Sleep(10 * time.Second) // until the shards have found their owners
		named := w.retry(func(b *engine.Engine) error {
			_, _, err := b.PutTask(ctx, schema.Task{Tenant: tenant, Name: pooledTask, Work: pooledWork(1, requirements[0])})
			return err
		}) == nil
		pause := w.s.Span * 2 / 3 / time.Duration(w.s.Pooled)
		for line := 1; line <= w.s.Pooled; line++ {
			run := pooledRun{line: line, requires: requirements[line%len(requirements)]}
			job := bucketer.Job{Tenant: tenant}
			if named && line%4 == 0 {
				run.requires, job.Task = requirements[0], pooledTask
			} else {
				work := pooledWork(line, run.requires)
				if w.s.Guarantees {
					work.Guarantee = guarantees[line%len(guarantees)]
				}
				job.Work = &work
			}
			if line%3 > 0 {
				job.At = time.Now().Add(time.Duration(rng.Float64() * float64(20*time.Second))).Truncate(time.Millisecond)
			}
			if b := w.someNode(); b != nil {
				if r, err := b.Submit(ctx, job); err == nil {
					run.id, run.from = r.Run, time.Now()
					if job.At.After(run.from) {
						run.from = job.At
					}
					w.pooled.asked = append(w.pooled.asked, run)
				}
			}
			time.Sleep(time.Duration(rng.Float64() * 2 * float64(pause)))
		}
	})
}

func pooledWork(line int, required schema.Labels) schema.Work {
	return schema.Work{HTTP: &schema.HTTPTarget{URL: fmt.Sprintf("http://sink/%s/%d", pooledSource, line)}, Timeout: schema.Duration(15 * time.Second), Requires: required}
}

// isPooled reports whether a run is judged by judgePooled. Other runs that require labels are
// judged by the checker.
func isPooled(r *runs.Run) bool {
	work := r.Entry.Spec.Work
	if work == nil || work.HTTP == nil {
		return r.Entry.Spec.Task == pooledTask
	}
	ref, _ := check.ParseRef(work.HTTP.URL)
	return ref.Source == pooledSource
}

// executorLabels returns the labels of the nodes, for the checker; nil where no run requires any.
func (w *world) executorLabels() map[string]map[string]string {
	if w.s.Pooled == 0 {
		return nil
	}
	all := make(map[string]map[string]string)
	for _, n := range w.c.nodes {
		all[n.name] = n.labels
	}
	return all
}

// judgePooled judges that every run which requires labels succeeds in the end: where it may start
// is judged as it does (fits). If nothing goes wrong besides that an executor is away, a run starts
// on time while one fits, and soon after one has come; what waited for it says so.
func (w *world) judgePooled(ctx context.Context, b *engine.Engine, seen []check.Sighting) error {
	if w.s.Pooled == 0 {
		return nil
	}
	first := make(map[string]time.Time)
	for i := range seen {
		if at, ok := first[seen[i].Run]; !ok || seen[i].At.Before(at) {
			first[seen[i].Run] = seen[i].At
		}
	}
	deadly := w.s.Kills+w.s.Freezes+w.s.Steps > 0 || w.s.Faults.Crash > 0
	for _, asked := range w.pooled.asked {
		run, err := b.Run(ctx, tenant, asked.id)
		if err != nil {
			return err
		}
		// a lost at_most_once attempt is the last
		failed := run.State == schema.StateFailed && (w.s.Faults.Target > 0 || w.s.Guarantees && deadly)
		if run.State != schema.StateSucceeded && !failed {
			w.c.fault("run %s that requires %q is %s in the end: %+v", asked.id, asked.requires, run.State, run.Attempts)
		}
		waited := false
		for i := range run.Attempts {
			if rec := run.Attempts[i].Record; run.Attempts[i].Number == 0 && rec != nil && rec.Cause == schema.CausePool {
				waited = true
			}
		}
		if waited {
			w.out.WaitedForPool++
		}
		if !w.s.calm() {
			continue
		}
		away, latest := w.pooled.away, asked.from.Add(routedWithin)
		since, until := asked.from.Sub(away.from), away.to.Sub(asked.from)
		switch {
		case since > -unsettled && until > -unsettled && asked.requires["gpu"] == "true":
			latest = away.to.Add(triedWithin)
			if since > unsettled && until > unsettled && !waited {
				w.c.fault("run %s requires %q, which no node has, and does not say that it waits for that: %+v", asked.id, asked.requires, run.Attempts)
			}
		case since.Abs() < unsettled || until.Abs() < unsettled:
			latest = asked.from.Add(triedWithin)
		case waited:
			w.c.fault("run %s says that it waited for %q, which a node had all the time: %+v", asked.id, asked.requires, run.Attempts)
		}
		if at, started := first[asked.id.String()]; started && at.After(latest) {
			w.c.fault("run %s that requires %q may start from %v on, and starts at %v, want until %v; the node with a gpu is away from %v to %v", asked.id, asked.requires,
				asked.from, at, latest, away.from, away.to)
		}
	}
	if w.s.calm() && w.out.WaitedForPool == 0 {
		w.c.fault("no run has waited for its pool")
	}
	return nil
}

// calm reports whether nothing goes wrong but what runs with labels are about.
func (s *Scenario) calm() bool {
	return s.Kills+s.Stops+s.Freezes+s.Steps+s.StreamLosses == 0 && s.Faults == Faults{}
}
