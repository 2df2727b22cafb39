package dispatcher

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/engine"
	jobs "carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// TestAStopOfTenMinutes: what each misfire policy makes of it.
func TestAStopOfTenMinutes(t *testing.T) {
	const down = 10 * time.Minute
	minutes := func(n int) schema.Duration { return schema.Duration(time.Duration(n) * time.Minute) }
	for _, c := range []struct {
		name   string
		policy *schema.Misfire
		period time.Duration
		// missed says which of the nominal times due in the stop are given up, by how late they are
		// at its end.
		missed func(late time.Duration, latest bool) bool
	}{
		{"by default the latest", nil, time.Minute, func(_ time.Duration, latest bool) bool { return !latest }},
		{"the latest", &schema.Misfire{Policy: schema.RunLatest}, 7 * time.Second, func(_ time.Duration, latest bool) bool { return !latest }},
		{"all", &schema.Misfire{Policy: schema.RunAll}, 7 * time.Second, func(time.Duration, bool) bool { return false }},
		{"all of many", &schema.Misfire{Policy: schema.RunAll}, time.Second, func(time.Duration, bool) bool { return false }},
		{"none that is overdue", &schema.Misfire{Policy: schema.Skip}, 7 * time.Second, func(late time.Duration, _ bool) bool { return late > time.Minute }},
		{
			"all within a deadline", &schema.Misfire{Policy: schema.RunAll, Deadline: minutes(5)}, 7 * time.Second,
			func(late time.Duration, _ bool) bool { return late > 5*time.Minute },
		},
		{
			"the latest within a deadline", &schema.Misfire{Policy: schema.RunLatest, Deadline: minutes(2)}, 4 * time.Minute,
			func(time.Duration, bool) bool { return true },
		},
		{
			"the latest of few within a deadline", &schema.Misfire{Policy: schema.RunLatest, Deadline: minutes(5)}, 4 * time.Minute,
			func(_ time.Duration, latest bool) bool { return !latest },
		},
		{"once in the stop", &schema.Misfire{Policy: schema.Skip}, 9 * time.Minute, func(time.Duration, bool) bool { return true }},
		{"once in the stop, by default", nil, 9 * time.Minute, func(time.Duration, bool) bool { return false }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, r *rig) {
				n := r.start("d1")
				h := r.hand(nil)
				time.Sleep(time.Second)
				b := r.writer(r.conn)
				job := r.job(b, spec(c.period, c.policy))
				time.Sleep(10*time.Minute + 500*time.Millisecond)
				if c.period == 4*time.Minute {
					time.Sleep(170 * time.Second) // the latest is nearly three minutes old at the end
				}
				n.stop()
				stopped := time.Now()
				time.Sleep(down)
				r.start("d1")
				back := time.Now()
				time.Sleep(down)

				var runs, missed []time.Time
				all := r.times(job, job.Current.Spec.Created, time.Now())
				for i, nominal := range all {
					latest := i+1 == len(all) || all[i+1].After(back)
					if nominal.After(stopped) && !nominal.After(back) && c.missed(back.Sub(nominal), latest) {
						missed = append(missed, nominal)
						continue
					}
					runs = append(runs, nominal)
				}
				if got := h.nominals(job.ID); !slices.Equal(got, runs) {
					t.Errorf("runs: %s", differ(got, runs))
				}
				r.missedBy(b, job, missed)
				if lag := r.lag(0); lag > 4 {
					t.Errorf("settled is %d buckets behind", lag)
				}
			})
		})
	}
}

// differ describes how two lists of times, in order, differ.
func differ(got, want []time.Time) string {
	out := fmt.Sprintf("got %d, want %d;", len(got), len(want))
	n := 0
	note := func(what string, of, in []time.Time) {
		for _, t := range of {
			if _, ok := slices.BinarySearchFunc(in, t, time.Time.Compare); !ok && n < 20 {
				n++
				out += " " + what + " " + t.Format("15:04:05.000")
			}
		}
	}
	note("missing", want, got)
	note("unexpected", got, want)
	return out
}

// missedBy checks that the records of missed stretches cover exactly the nominal times, each once,
// and that history has them.
func (r *rig) missedBy(b *engine.Engine, job schema.Job, want []time.Time) {
	r.t.Helper()
	runs, _, err := b.JobRuns(context.Background(), "t", job.ID, jobs.JobRunFilter{Filter: runs.Filter{States: []schema.State{schema.StateMissed}}}, runs.Position{}, 1000)
	if err != nil {
		r.t.Fatalf("JobRuns = %v", err)
	}
	var got []time.Time
	for _, run := range runs {
		var rec *schema.Record
		for i := range run.Attempts {
			if run.Attempts[i].Record.Outcome == schema.Missed {
				rec = run.Attempts[i].Record
			}
		}
		if rec == nil || run.State != schema.StateMissed || rec.Missed == nil || rec.Reason == "" || rec.Missed.From != run.Entry.Spec.Nominal {
			r.t.Errorf("missed run %s: %s, %+v", run.Entry.Spec.Nominal, run.State, rec)
			continue
		}
		times := r.times(job, rec.Missed.From.Add(-time.Millisecond), rec.Missed.To)
		if int64(len(times)) != rec.Missed.Count {
			r.t.Errorf("stretch %+v counts %d, want %d", rec.Missed, rec.Missed.Count, len(times))
		}
		got = append(got, times...)
	}
	slices.SortFunc(got, time.Time.Compare)
	if !slices.Equal(got, want) {
		r.t.Errorf("recorded as missed: %s", differ(got, want))
	}
}

// TestCatchUpYields: where executors do little more than what is on time, catching up takes what is
// left, however long it takes.
func TestCatchUpYields(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		n := r.start("d1")
		h := r.slowHand(func(*queue.Envelope) fate { return finish }, 10, 500*time.Millisecond) // 20 a second
		time.Sleep(time.Second)
		b := r.writer(r.conn)
		var jobs []schema.Job
		for range 10 {
			jobs = append(jobs, r.job(b, spec(time.Second, &schema.Misfire{Policy: schema.RunAll})))
		}
		time.Sleep(time.Minute)
		n.stop()
		time.Sleep(5 * time.Minute)
		back := time.Now()
		r.start("d1")
		time.Sleep(15 * time.Minute)
		var late time.Duration
		for _, s := range h.all() {
			if due := s.env.Entry.Run().Time(); due.After(back.Add(time.Second)) {
				late = max(late, s.at.Sub(due))
			}
		}
		// 250 runs may wait before catching up does, which is 12 s of work, and as many again come
		// of one round.
		if late > 40*time.Second {
			t.Errorf("while jobs catch up a run on time comes %v late", late)
		}
		for _, job := range jobs {
			got := h.nominals(job.ID)
			if want := r.times(job, job.Current.Spec.Created, got[len(got)-1]); !slices.Equal(got, want) {
				t.Errorf("runs: %s", differ(got, want))
			}
		}
	})
}

// TestMendedJobsGoOn: a job that has no next run, however that came to be, gets one, and what was
// lost is caught up with.
func TestMendedJobsGoOn(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		r.start("d1")
		h := r.hand(nil)
		time.Sleep(time.Second)
		b := r.writer(r.conn)
		whole := r.job(b, spec(10*time.Second, nil))
		// One whose rows were all lost.
		broken := schema.Job{ID: schema.MakeJobID(time.Now(), 0, 7), Current: schema.Generation{
			Number: time.Now().UnixMicro(), State: schema.JobActive, Spec: spec(10*time.Second, &schema.Misfire{Policy: schema.RunAll}),
		}}
		created := time.Now().UTC().Truncate(time.Millisecond)
		broken.Current.Spec.Created, broken.Current.Spec.Schedule.Anchor = created, created
		if err := r.inner.CreateJob(t.Context(), broken); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		for name, job := range map[string]schema.Job{"whole": whole, "broken": broken} {
			if got, want := h.nominals(job.ID), r.times(job, job.Current.Spec.Created, time.Now()); !slices.Equal(got, want) {
				t.Errorf("%s: runs: %s", name, differ(got, want))
			}
		}
	})
}
