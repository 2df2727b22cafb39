package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

const (
	// pausingSource is the source in the address that jobs call which pause when their runs fail.
	// Calls of those with an odd line are refused.
	pausingSource = "pausing"
	pausingEvery  = 3 * time.Second
	// pauseTakes is how long it takes from a failure until nothing starts any more, if nothing goes
	// wrong: the record, and a change of the job.
	pauseTakes = 8 * time.Second
)

// pausing is a recurring job that pauses when runs fail.
type pausing struct {
	line    int
	spec    schema.JobSpec
	id      schema.JobID
	resumed time.Time // when it was paused, and was to be resumed; zero: it was not paused then
}

func (p *pausing) refused() bool { return p.line%2 == 1 }

// askPausing creates jobs that pause when runs fail, and resumes them in the middle.
func (w *world) askPausing(ctx context.Context, wg *sync.WaitGroup) {
	for line := 1; line <= w.s.Pausing; line++ {
		p := &pausing{line: line, spec: schema.JobSpec{
			Tenant: "default", Name: fmt.Sprintf("pausing-%d", line), JitterStated: true, PauseAfter: 1 + line%4,
			Schedule: &schema.Schedule{Every: schema.Duration(pausingEvery)}, Misfire: &schema.Misfire{Policy: schema.RunAll},
			Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: fmt.Sprintf("http://sink/%s/%d", pausingSource, line)}, Timeout: schema.Duration(15 * time.Second)},
		}}
		w.pausing = append(w.pausing, p)
		wg.Go(func() {
			err := w.retry(func(b *engine.Engine) error {
				job, _, err := b.CreateJob(ctx, p.spec, p.spec.Name, p.spec.Name)
				p.id = job.ID
				return err
			})
			if err != nil {
				return
			}
			time.Sleep(w.s.Span / 2)
			_ = w.retry(func(b *engine.Engine) error { // if it is never resumed, nothing is said of that
				job, err := b.JobByID(ctx, "default", p.id)
				if err != nil {
					return err
				}
				if p.resumed.IsZero() && job.Current.State == schema.JobPaused {
					p.resumed = time.Now()
				}
				_, err = b.ResumeJob(ctx, "default", p.id, 0)
				return err
			})
			time.Sleep(w.s.Span / 2)
		})
	}
}

// endPausing pauses those whose runs succeed, once everything is set right.
func (w *world) endPausing(ctx context.Context) error {
	for _, p := range w.pausing {
		if p.id.IsZero() || p.refused() {
			continue
		}
		if err := w.retry(func(b *engine.Engine) error {
			job, err := b.PauseJob(ctx, "default", p.id, 0)
			if because := job.Current.Spec.PausedBecause; err == nil && because != "" {
				w.c.fault("%s, of which no run fails, was paused: %s", p.spec.Name, because)
			}
			return err
		}); err != nil {
			return fmt.Errorf("pause %s: %w", p.spec.Name, err)
		}
	}
	return nil
}

// judgePausing judges that a job whose runs fail is paused in the end, and was not before as many
// had failed as it allows, also after it was resumed; and, if nothing goes wrong, that it was soon.
func (w *world) judgePausing(ctx context.Context, b *engine.Engine) error {
	for _, p := range w.pausing {
		if p.id.IsZero() {
			continue
		}
		job, err := b.JobByID(ctx, "default", p.id)
		switch {
		case errors.Is(err, schema.ErrNotFound):
			continue
		case err != nil:
			return err
		case job.Current.State != schema.JobPaused:
			w.c.fault("%s is %s in the end, want paused", p.spec.Name, job.Current.State)
			continue
		case !p.refused():
			continue
		case job.Current.Spec.PausedBecause == "":
			w.c.fault("%s is paused, and does not say why", p.spec.Name)
		}
		all, err := w.history(ctx, b, p.id)
		if err != nil {
			return err
		}
		failed := 0 // since it was resumed
		for i := range all {
			if all[i].State == check.Failed && all[i].DueAt.After(p.resumed) {
				failed++
			}
		}
		allowed := p.spec.PauseAfter
		if failed < allowed {
			w.c.fault("%s was paused when %d runs had failed since %s, which allows %d", p.spec.Name, failed, p.resumed.Format(clockTime), allowed)
		}
		if calm := w.s.Kills+w.s.Freezes == 0 && w.s.Faults == (Faults{}); calm && failed > allowed+int(pauseTakes/pausingEvery) {
			w.c.fault("%s was paused when %d runs had failed since %s, want about %d", p.spec.Name, failed, p.resumed.Format(clockTime), allowed)
		}
	}
	return nil
}
