package executor

import (
	"context"
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// The generations of the job of these tests.
const (
	genBefore  = 1_000
	genCurrent = 2_000
)

// job holds the row of a job in the store, of generation genCurrent since cut; zero: it never
// changed.
func (w *world) job(state schema.JobState, cut time.Time, m *schema.Misfire) schema.Job {
	w.t.Helper()
	created := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
	spec := schema.JobSpec{
		Tenant: "t", Created: created, Misfire: m, JitterStated: true,
		Schedule: &schema.Schedule{Every: schema.Duration(time.Minute), Anchor: created},
	}
	w.mu.Lock()
	w.hash++
	hash := w.hash
	w.mu.Unlock()
	job := schema.Job{ID: schema.MakeJobID(created, 0, hash), Current: schema.Generation{Number: genCurrent, State: state, Spec: spec}}
	if !cut.IsZero() {
		job.Cut = cut.UTC()
		job.Before = &schema.Generation{Number: genBefore, State: schema.JobActive, Spec: spec}
	}
	if err := w.inner.SwapJob(context.Background(), 0, job); err != nil {
		w.t.Fatalf("job: %v", err)
	}
	return job
}

// of makes an entry one of the job's.
func of(job schema.Job, generation int64) func(*schema.Spec) {
	return func(s *schema.Spec) {
		s.Job, s.Generation, s.Misfire = job.ID, generation, job.Current.Spec.Misfire
	}
}

// TestFirstStartsAskTheJob: what is in doubt starts only if its job's row says so.
func TestFirstStartsAskTheJob(t *testing.T) {
	ahead, past := time.Minute, -time.Minute
	for _, c := range []struct {
		name       string
		state      schema.JobState
		cut        time.Duration // from now; 0 = the job never changed
		generation int64
		trigger    schema.Trigger
		want       schema.State
	}{
		{"the generation in force", schema.JobActive, 0, genCurrent, "", schema.StateSucceeded},
		{"the one before, before the cut", schema.JobActive, ahead, genBefore, "", schema.StateSucceeded},
		{"the one before, after the cut", schema.JobActive, past, genBefore, "", schema.StateCancelled},
		{"the one before, of a paused job", schema.JobPaused, past, genBefore, "", schema.StateCancelled},
		{"an older one", schema.JobActive, ahead, genBefore - 1, "", schema.StateCancelled},
		{"one that nobody knows", schema.JobActive, past, genCurrent + 1, "", schema.StateCancelled},
		{"by hand, of a paused job", schema.JobPaused, past, genCurrent, schema.TriggerManual, schema.StateSucceeded},
		{"by hand, of a cancelled job", schema.JobCancelled, past, genCurrent, schema.TriggerManual, schema.StateCancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("x")
				var cut time.Time
				if c.cut != 0 {
					cut = time.Now().Add(c.cut)
				}
				job := w.job(c.state, cut, nil)
				e := w.entry(inAWhile(time.Second), of(job, c.generation), func(s *schema.Spec) { s.Trigger = c.trigger })
				w.publish(e, time.Time{}) // read long ago
				time.Sleep(3 * time.Second)
				if got := w.state(e.ID); got != c.want {
					t.Errorf("the run is %s, want %s", got, c.want)
				}
				if starts := len(w.started()); (starts == 1) != (c.want == schema.StateSucceeded) {
					t.Errorf("%d starts", starts)
				}
				lines, err := w.inner.JobRuns(t.Context(), job.ID, schema.PeriodOf(e.Due()), schema.RunID{}, 10)
				if err != nil || len(lines) != 1 || lines[0].State != c.want || lines[0].Run != e.ID {
					t.Errorf("history = %+v, %v, want one line: %s", lines, err, c.want)
				}
				if n := w.open(); n != 0 {
					t.Errorf("%d messages are open", n)
				}
			})
		})
	}
}

// TestAFreshRunReadsNoJob: its dispatcher has.
func TestAFreshRunReadsNoJob(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x")
		job := w.job(schema.JobActive, time.Time{}, nil)
		e := w.entry(inAWhile(time.Second), of(job, genCurrent))
		w.publish(e, time.Now())
		time.Sleep(3 * time.Second)
		if got := w.state(e.ID); got != schema.StateSucceeded {
			t.Errorf("the run is %s, want succeeded", got)
		}
		if n := w.counts.Tallies()["Jobs"].Calls; n != 0 {
			t.Errorf("%d reads of jobs, want none", n)
		}
	})
}

// TestNothingOfTheOldStartsAtTheCut: a start that is held up past the cut is none.
func TestNothingOfTheOldStartsAtTheCut(t *testing.T) {
	for name, slow := range map[string]string{"by the look": "Jobs", "by the session cell": "PutAttempts"} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("x")
				cut := inAWhile(2 * time.Second)
				job := w.job(schema.JobActive, cut, nil)
				e := w.entry(cut.Add(-200*time.Millisecond), of(job, genBefore))
				first := true
				w.befall(func(_ context.Context, op string) schematest.Fault {
					if op == slow && first {
						first = false
						return schematest.Fault{Delay: time.Second}
					}
					return schematest.Fault{}
				})
				w.publish(e, time.Now(), redispatched)
				time.Sleep(20 * time.Second)
				if starts := w.started(); len(starts) != 0 {
					t.Errorf("started at %v, the cut was %v", starts[0].at, cut)
				}
				if got := w.state(e.ID); got != schema.StateMissed {
					t.Errorf("the run is %s, want missed", got)
				}
			})
		})
	}
}

// TestARetryGoesOnUnlessTheJobWasCancelled.
func TestARetryGoesOnUnlessTheJobWasCancelled(t *testing.T) {
	for _, c := range []struct {
		state schema.JobState
		want  schema.State
	}{{schema.JobActive, schema.StateSucceeded}, {schema.JobPaused, schema.StateSucceeded}, {schema.JobCancelled, schema.StateCancelled}} {
		t.Run(string(c.state), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("x")
				job := w.job(c.state, time.Now().Add(-time.Minute), nil)
				birth := w.entry(inAWhile(-10*time.Second), of(job, genBefore))
				w.attempt(birth, 1, &schema.Record{Entry: birth.ID, Outcome: schema.Failed, Next: schema.MakeEntryID(inAWhile(time.Second), 0, 99)}, nil)
				retry := w.entry(inAWhile(time.Second), of(job, genBefore), func(s *schema.Spec) {
					s.Kind, s.Of, s.Attempt = schema.KindRetry, birth.ID, 2
				})
				w.publish(retry, time.Now())
				time.Sleep(3 * time.Second)
				if got := w.state(birth.ID); got != c.want {
					t.Errorf("the run is %s, want %s", got, c.want)
				}
			})
		})
	}
}

// TestOverdueRunsObeyTheirPolicy: what lay in the stream while nobody executed.
func TestOverdueRunsObeyTheirPolicy(t *testing.T) {
	for _, c := range []struct {
		name    string
		misfire *schema.Misfire
		late    time.Duration
		want    schema.State
	}{
		{"by default not long", nil, 50 * time.Second, schema.StateSucceeded},
		{"by default, overtaken", nil, 75 * time.Second, schema.StateMissed},
		{"by default, just overtaken", nil, 65 * time.Second, schema.StateSucceeded},
		{"all", &schema.Misfire{Policy: schema.RunAll}, time.Hour, schema.StateSucceeded},
		{"skip, not overdue", &schema.Misfire{Policy: schema.Skip}, 50 * time.Second, schema.StateSucceeded},
		{"skip, overdue", &schema.Misfire{Policy: schema.Skip}, 65 * time.Second, schema.StateMissed},
		{"past the deadline", &schema.Misfire{Policy: schema.RunAll, Deadline: schema.Duration(time.Minute)}, 65 * time.Second, schema.StateMissed},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("x")
				job := w.job(schema.JobActive, time.Time{}, c.misfire)
				due := job.Current.Spec.Created.Add(70 * time.Minute)
				time.Sleep(time.Until(due.Add(c.late)))
				e := w.entry(due, of(job, genCurrent), func(s *schema.Spec) { s.Nominal = due })
				w.publish(e, time.Time{}, func(env *queue.Envelope) { env.Redispatch = true })
				time.Sleep(2 * time.Second)
				if got := w.state(e.ID); got != c.want {
					t.Errorf("the run is %s, want %s", got, c.want)
				}
				if c.want != schema.StateMissed {
					return
				}
				rec := w.attempts(e.ID)[0].Record
				if rec.Reason == "" || rec.Missed == nil || rec.Missed.Count != 1 || rec.Missed.From != due {
					t.Errorf("record = %+v, want a stretch of one and a reason", rec)
				}
			})
		})
	}
}
