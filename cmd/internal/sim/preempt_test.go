package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// Runs of low priority call an address of lowSource, for up to lowTook each, and critical ones an
// address of criticalSource. Those of low priority, of two tenants, take all slots. Half of the
// critical ones are of one of these, which has its share then; for the others no slot is free.
const (
	lowSource      = "low"
	criticalSource = "critical"
	lowTook        = 30 * time.Second
	// fewSlots are those of a node then.
	fewSlots = 2
	// takenWithin is how late a critical run may start while a run could be stopped for it, where
	// nothing goes wrong.
	takenWithin = 2 * time.Second
)

// preemptingTenant returns the tenant of a run.
func preemptingTenant(ref check.Ref) string {
	switch {
	case ref.Line%2 == 0:
		return tenant
	case ref.Source == lowSource:
		return otherTenant
	}
	return "third"
}

// preempting are the runs of low priority, of which most may be stopped for others, and the
// critical ones.
type preempting struct {
	asked []check.Ask
	acks  []check.Ack
}

// askPreempting asks for runs of low priority that take all slots, and then for a critical one and
// another of low priority, Preempting times. Of the low ones three in five may be stopped; one of
// these states a deadline.
func (w *world) askPreempting(ctx context.Context, wg *sync.WaitGroup) {
	if w.s.Preempting == 0 {
		return
	}
	rng := rand.New(rand.NewPCG(w.s.Seed, 13)) // #nosec G404 -- drawn from the seed
	wait := func() time.Duration { return time.Duration(rng.Float64() * float64(5*time.Second)) }
	wg.Go(func() {
		time.Sleep(10 * time.Second) // until the shards have found their owners
		lines := 2 * fewSlots * len(w.c.nodes)
		for line := 1; line <= lines; line++ {
			w.askPreemptible(ctx, line, wait())
		}
		for n := 1; n <= w.s.Preempting; n++ {
			job := bucketer.Job{Priority: schema.Critical, Work: new(schema.Work)}
			w.submitPreempting(ctx, job, check.Ask{Ref: check.Ref{Source: criticalSource, Line: n}}, wait())
			w.askPreemptible(ctx, lines+n, wait())
			time.Sleep(time.Duration(rng.Float64() * 2 * float64(w.s.Span) * 2 / 3 / float64(w.s.Preempting)))
		}
	})
}

// askPreemptible asks for a run of low priority.
func (w *world) askPreemptible(ctx context.Context, line int, wait time.Duration) {
	job := bucketer.Job{Priority: schema.Low, Work: &schema.Work{Preemptible: line%5 > 0}}
	ask := check.Ask{Ref: check.Ref{Source: lowSource, Line: line}, Preemptible: line%5 > 1}
	switch line % 10 {
	case 1:
		job.Work.Guarantee, ask.Guarantee, ask.MaxAttempts = schema.AtMostOnce, check.AtMostOnce, 1
	case 6:
		job.Work.Guarantee, ask.Guarantee = schema.EffectivelyOnce, check.EffectivelyOnce
	case 4, 9:
		const deadline = 20 * time.Second
		job.Misfire = &schema.Misfire{Policy: "run_all", Deadline: schema.Duration(deadline)}
		ask.Misfire = check.Misfire{Policy: "run_all", Deadline: deadline}
	}
	w.submitPreempting(ctx, job, ask, wait)
}

// submitPreempting asks for a run that is due after that wait, once.
func (w *world) submitPreempting(ctx context.Context, job bucketer.Job, ask check.Ask, wait time.Duration) {
	ask.At = time.Now().Add(time.Second + wait).Truncate(time.Millisecond)
	job.Tenant, job.At = preemptingTenant(ask.Ref), ask.At
	job.Work.HTTP = &schema.HTTPTarget{URL: fmt.Sprintf("http://sink/%s/%d", ask.Ref.Source, ask.Ref.Line)}
	job.Work.Timeout = schema.Duration(45 * time.Second)
	ack := check.Ack{Ref: ask.Ref, Status: 503}
	if b := w.someNode(); b != nil {
		if r, err := b.Submit(ctx, job); err == nil {
			ack.ID, ack.Status = r.Run.String(), 201
		}
	}
	ack.At = time.Now()
	w.preempting.asked, w.preempting.acks = append(w.preempting.asked, ask), append(w.preempting.acks, ack)
}

// isPreempting reports whether a run is judged by judgePreempting.
func isPreempting(r *runs.Run) bool {
	work := r.Entry.Spec.Work
	if work == nil || work.HTTP == nil {
		return false
	}
	ref, _ := check.ParseRef(work.HTTP.URL)
	return ref.Source == lowSource || ref.Source == criticalSource
}

// judgePreempting has the checker judge the runs that are stopped for others, and those others. If
// nothing goes wrong, a critical run also starts soon while one could be stopped for it.
func (w *world) judgePreempting(ctx context.Context, b *engine.Engine, seen []check.Sighting, kills []check.Kill) error {
	if w.s.Preempting == 0 {
		return nil
	}
	found, err := w.readPreempting(ctx, b, seen)
	if err != nil {
		return err
	}
	h := check.History{
		Asked: w.preempting.asked, Acks: w.preempting.acks, Seen: seen, SeenAll: true, Off: w.off(), Kills: kills, Calm: w.s.calm(),
		Doubles: w.s.doubles(), StreamLosses: w.streamLosses,
	}
	for id, reading := range found {
		h.Runs = append(h.Runs, check.Observation{ID: id, First: reading, Second: reading})
	}
	report, err := check.Judge(h)
	if err != nil {
		return err
	}
	w.out.Preempted = report.Preemptions
	if report.Failed() {
		w.c.fault("runs are stopped for others: %+v", report.Faults)
	}
	if w.s.calm() {
		if report.DoneFailed > 0 { // a guarded one that is stopped does not start again
			w.c.fault("%d runs failed, and nothing went wrong", report.DoneFailed)
		}
		w.judgeTaken(seen, found)
	}
	return nil
}

// readPreempting reads the runs that were acknowledged, or called.
func (w *world) readPreempting(ctx context.Context, b *engine.Engine, seen []check.Sighting) (map[string]check.Reading, error) {
	found := make(map[string]check.Reading)
	tenants := make(map[string]string)
	for i := range w.preempting.acks {
		if ack := &w.preempting.acks[i]; ack.ID != "" {
			tenants[ack.ID] = preemptingTenant(ack.Ref)
		}
	}
	for i := range seen {
		tenants[seen[i].Run] = preemptingTenant(seen[i].Ref)
	}
	for id, of := range tenants {
		run, err := schema.ParseEntryID(id)
		if err != nil {
			return nil, err
		}
		r, err := b.Run(ctx, of, run)
		switch {
		case errors.Is(err, schema.ErrNotFound):
			found[id] = check.Reading{Status: check.Absent, At: time.Now()}
		case err != nil:
			return nil, err
		default:
			found[id] = check.Reading{Status: check.Found, At: time.Now(), Run: view(r)}
		}
	}
	for _, of := range []string{tenant, otherTenant, "third"} {
		if err := w.noteDeadLetters(ctx, b, of, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// judgeTaken judges how late critical runs start. Its process had no run under way all that time
// that may be stopped for it, and was stopped less often than it may be.
func (w *world) judgeTaken(seen []check.Sighting, found map[string]check.Reading) {
	due, mayStop := make(map[check.Ref]time.Time), make(map[check.Ref]bool)
	for i := range w.preempting.asked {
		ask := &w.preempting.asked[i]
		due[ask.Ref], mayStop[ask.Ref] = ask.At, ask.Preemptible
	}
	for i := range seen {
		s := &seen[i]
		if s.Ref.Source != criticalSource || s.At.Sub(due[s.Ref]) <= takenWithin {
			continue
		}
		for k := range seen {
			over := seen[k].End
			if gone := seen[k].Gone; !gone.IsZero() {
				over = gone
			}
			of := preemptingTenant(s.Ref)
			if of == tenant && preemptingTenant(seen[k].Ref) != of {
				continue // it lacks a place of its tenant
			}
			if mayStop[seen[k].Ref] && seen[k].Caller == s.Caller && seen[k].At.Before(due[s.Ref]) && over.After(s.At) && found[seen[k].Run].Run.Preempted < check.MaxPreemptions {
				w.c.fault("critical run %s, due at %v, starts at %v, while %s could have been stopped for it", s.Run, due[s.Ref], s.At, seen[k].Run)
			}
		}
	}
}
