package recurring

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// to returns a change of the period.
func to(d time.Duration) func(*schema.JobSpec) error {
	return func(s *schema.JobSpec) error {
		s.Schedule = &schema.Schedule{Every: schema.Duration(d)}
		return nil
	}
}

// TestAChangeIsAnsweredWhenItHolds: not before 2 s before its cut, and with the first run of the
// new generation held.
func TestAChangeIsAnsweredWhenItHolds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(time.Minute))
		time.Sleep(10 * time.Second)
		asked := time.Now()
		changed, err := w.ChangeJob(t.Context(), "t", job.ID, job.Current.Number, to(time.Hour))
		if err != nil {
			t.Fatalf("ChangeJob = %v", err)
		}
		if want := bucketer.CeilMilli(asked.Add(2500 * time.Millisecond)); !changed.Cut.Equal(want) {
			t.Errorf("cut = %v, want %v", changed.Cut, want)
		}
		if answered := time.Now(); !answered.Equal(changed.Cut.Add(-2 * time.Second)) {
			t.Errorf("answered %v before the cut, want 2s", changed.Cut.Sub(answered))
		}
		if changed.Current.Number <= job.Current.Number || changed.Before.Number != job.Current.Number {
			t.Errorf("generations %d and %d, want newer than %d and that", changed.Current.Number, changed.Before.Number, job.Current.Number)
		}
		next, ok := w.NextRun(changed, time.Now())
		if _, held := w.Row(next.ID); !ok || !held || next.Due.Before(changed.Cut) {
			t.Errorf("NextRun = %+v, %v, held %v, want a run from the cut on", next, ok, held)
		}
		if _, err := w.ChangeJob(t.Context(), "t", job.ID, job.Current.Number, to(time.Minute)); !errors.Is(err, ErrStale) {
			t.Errorf("ChangeJob of an old generation = %v, want ErrStale", err)
		}
		if _, err := w.ChangeJob(t.Context(), "another", job.ID, 0, to(time.Minute)); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("ChangeJob by another tenant = %v, want ErrNotFound", err)
		}
		same, err := w.ChangeJob(t.Context(), "t", job.ID, 0, func(*schema.JobSpec) error { return nil })
		if err != nil || same.Current.Number != changed.Current.Number {
			t.Errorf("ChangeJob that changes nothing = generation %d, %v, want %d", same.Current.Number, err, changed.Current.Number)
		}
	})
}

// TestAtMostTwoGenerationsAreLive: the second change waits until the first one's cut has passed.
func TestAtMostTwoGenerationsAreLive(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(time.Minute))
		first, err := w.ChangeJob(t.Context(), "t", job.ID, 0, to(2*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		second, err := w.ChangeJob(t.Context(), "t", job.ID, 0, to(3*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if second.Cut.Sub(first.Cut) < cutAhead {
			t.Errorf("cuts %v and %v, want the second change after the first cut", first.Cut, second.Cut)
		}
	})
}

// TestWhatIsLateByTwoChangesIsMissed: a run that was due while its generation was in force, and
// what was due after it before the cut, is recorded as missed, also when the job was changed again
// before the run was met.
func TestWhatIsLateByTwoChangesIsMissed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		spec := every(2 * time.Second)
		spec.JitterStated = true
		job := w.job(spec)
		late := w.occurrences(job.ID, 10*time.Second)[0]
		time.Sleep(5 * time.Second)
		first, err := w.ChangeJob(t.Context(), "t", job.ID, 0, to(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		for range MaxPast {
			if _, err := w.ChangeJob(t.Context(), "t", job.ID, 0, to(time.Duration(3600+time.Now().Second())*time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		if v := w.planOn(late); v[0] != bucketer.Dropped {
			t.Errorf("PlanOn = %v, want Dropped", v[0])
		}
		run, err := w.Run(t.Context(), "t", late.ID)
		if err != nil || len(run.Attempts) != 1 || run.State != schema.StateMissed {
			t.Fatalf("Run = %+v, %v, want a missed one with one record", run, err)
		}
		var want schema.Stretch
		for at := late.Spec.Nominal; at.Before(first.Cut); at = at.Add(2 * time.Second) {
			want.From, want.To, want.Count = late.Spec.Nominal, at, want.Count+1
		}
		got := *run.Attempts[0].Record.Missed
		got.Reason = ""
		if got != want || want.Count < 2 {
			t.Errorf("missed = %+v, want %+v", got, want)
		}
	})
}

// TestOldGenerationsAreForgotten: a job that changes seldom carries none.
func TestOldGenerationsAreForgotten(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(time.Minute))
		for i := range 2 * MaxPast {
			var err error
			if job, err = w.ChangeJob(t.Context(), "t", job.ID, 0, to(time.Duration(2+i)*time.Minute)); err != nil {
				t.Fatal(err)
			}
			if n := len(job.Current.Spec.Past); n != min(i, MaxPast) {
				t.Errorf("after %d changes %d generations are remembered, want %d", i+1, n, min(i, MaxPast))
			}
		}
		time.Sleep(pastFor + cutAhead)
		job, err := w.ChangeJob(t.Context(), "t", job.ID, 0, to(time.Hour))
		if err != nil || len(job.Current.Spec.Past) != 0 {
			t.Errorf("ChangeJob = %d generations remembered, %v, want none", len(job.Current.Spec.Past), err)
		}
	})
}

// TestAChangeOfTheOffsetLeavesNoTimeOut: each time that the new generation names is planned if its
// run is due at the cut or later, unless the generation before had one of it that was due before
// the cut.
func TestAChangeOfTheOffsetLeavesNoTimeOut(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for i := range 40 { // jobs of other offsets
			spec := every(2 * time.Second)
			spec.JitterStated, spec.Schedule.Jitter = true, schema.Duration(time.Second)
			job := w.job(spec)
			time.Sleep(time.Duration(i) * 37 * time.Millisecond)
			job, err := w.ChangeJob(t.Context(), "t", job.ID, 0, func(s *schema.JobSpec) error {
				s.Schedule = &schema.Schedule{Every: schema.Duration(3 * time.Second), Anchor: s.Schedule.Anchor, Jitter: schema.Duration(3 * time.Second)}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			before, err := schedule.Compile(*job.Before.Spec.Schedule, SeedOf(job.ID))
			if err != nil {
				t.Fatal(err)
			}
			after, err := schedule.Compile(*job.Current.Spec.Schedule, SeedOf(job.ID))
			if err != nil {
				t.Fatal(err)
			}
			var want time.Time
			for nominal := range after.From(job.Current.Spec.Created) {
				named, _ := before.Next(nominal.Add(-time.Millisecond))
				if ran := named.Equal(nominal) && nominal.Add(before.Offset()).Before(job.Cut); !ran && !nominal.Add(after.Offset()).Before(job.Cut) {
					want = nominal
					break
				}
			}
			if _, got, ok, err := w.first(&job); err != nil || !ok || !got.Equal(want) {
				t.Errorf("offsets %v and %v, cut %v: first = %v, %v, %v; want %v", before.Offset(), after.Offset(), job.Cut, got, ok, err, want)
			}
		}
	})
}

// TestNoUpdateIsLost: of changes at once each is made of what the one before said.
func TestNoUpdateIsLost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(time.Minute))
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Microsecond)
				_, err := w.ChangeJob(t.Context(), "t", job.ID, 0, func(s *schema.JobSpec) error {
					labels := map[string]string{string(rune('a' + i)): "x"}
					for k, v := range s.Labels {
						labels[k] = v
					}
					s.Labels = labels
					return nil
				})
				if err != nil {
					t.Errorf("ChangeJob = %v", err)
				}
			})
		}
		wg.Wait()
		if labels := w.stored(job.ID).Current.Spec.Labels; len(labels) != 4 { // a and b were there
			t.Errorf("labels = %v, want those of all changes", labels)
		}
	})
}

// TestStatesTurn: what pause, resume and cancel make of each state.
func TestStatesTurn(t *testing.T) {
	turns := map[string]func(*world) func(context.Context, string, schema.JobID, int64) (schema.Job, error){
		"pause": func(w *world) func(context.Context, string, schema.JobID, int64) (schema.Job, error) {
			return w.PauseJob
		},
		"resume": func(w *world) func(context.Context, string, schema.JobID, int64) (schema.Job, error) {
			return w.ResumeJob
		},
		"cancel": func(w *world) func(context.Context, string, schema.JobID, int64) (schema.Job, error) {
			return w.CancelJob
		},
	}
	for _, c := range []struct {
		does    string
		want    schema.JobState
		refused bool
	}{
		{"resume", schema.JobActive, false},
		{"pause", schema.JobPaused, false},
		{"pause pause", schema.JobPaused, false},
		{"pause resume", schema.JobActive, false},
		{"cancel", schema.JobCancelled, false},
		{"pause cancel", schema.JobCancelled, false},
		{"cancel cancel", schema.JobCancelled, false},
		{"cancel resume", schema.JobCancelled, true},
		{"cancel pause", schema.JobCancelled, true},
	} {
		t.Run(c.does, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				job := w.job(every(time.Minute))
				var err error
				for name := range strings.FieldsSeq(c.does) {
					_, err = turns[name](w)(t.Context(), "t", job.ID, 0)
				}
				if refused := errors.Is(err, bucketer.ErrFinished); refused != c.refused || err != nil && !refused {
					t.Errorf("the last answer = %v, want refused %v", err, c.refused)
				}
				if got := w.stored(job.ID).Current.State; got != c.want {
					t.Errorf("state = %s, want %s", got, c.want)
				}
			})
		})
	}
}

// TestACommitKnownTooLateIsFollowedByAnother: what read the job before could start something after
// the cut.
func TestACommitKnownTooLateIsFollowedByAnother(t *testing.T) {
	for name, fault := range map[string]schematest.Fault{
		"slow":          {Delay: time.Second},
		"its answer":    {Lose: true},
		"before it":     {Fail: true},
		"slow and lost": {Delay: time.Second, Lose: true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				job := w.job(every(time.Minute))
				w.BefallFirst(1, "SwapJob", fault)
				changed, err := w.PauseJob(t.Context(), "t", job.ID, job.Current.Number)
				if fault.Fail {
					if err == nil {
						t.Error("PauseJob = nil, want the store's error")
					}
					return
				}
				if err != nil || changed.Current.State != schema.JobPaused {
					t.Fatalf("PauseJob = %s, %v, want paused", changed.Current.State, err)
				}
				if stored := w.stored(job.ID); stored.Current.Number != changed.Current.Number {
					t.Errorf("answered generation %d, stored %d", changed.Current.Number, stored.Current.Number)
				}
				if time.Now().After(changed.Cut.Add(-knownBefore)) {
					t.Errorf("answered %v before the cut, want %v", time.Until(changed.Cut), knownBefore)
				}
				if (changed.Before.Number == job.Current.Number) != (fault.Delay == 0) {
					t.Errorf("generation before = %d, created as %d: want another in between after a slow commit only", changed.Before.Number, job.Current.Number)
				}
			})
		})
	}
}

// A change that was tried again by a clock that had been set ahead meanwhile drew its cut by it,
// and was answered: the generation before started for as long after the answer.
func TestNoCutIsDrawnByAClockThatWasSet(t *testing.T) {
	for name, row := range map[string]struct {
		op      string // takes a second, in which the clock is set
		want    error
		changed bool
	}{
		"while it is read":      {"Jobs", bucketer.ErrNotReady, false},
		"while it is committed": {"SwapJob", schema.ErrUnknown, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				var ahead atomic.Int64
				w.open(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }, func() bool { return ahead.Load() != 0 })
				job := w.job(every(time.Minute))
				w.BefallFirst(1, row.op, schematest.Fault{Delay: time.Second})
				time.AfterFunc(time.Second/2, func() { ahead.Store(int64(10 * time.Second)) })
				_, err := w.PauseJob(t.Context(), "t", job.ID, 0)
				if !errors.Is(err, row.want) || errors.Is(err, bucketer.ErrNotReady) != !row.changed {
					t.Errorf("PauseJob = %v, want %v", err, row.want)
				}
				stored := w.stored(job.ID)
				if ahead := time.Until(stored.Cut); ahead > cutAhead {
					t.Errorf("the cut lies %v ahead, want %v at most", ahead, cutAhead)
				}
				if changed := stored.Current.Number != job.Current.Number; changed != row.changed {
					t.Errorf("the job was changed = %v, want %v", changed, row.changed)
				}
			})
		})
	}
}

func TestPutJob(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		job, created, err := w.PutJob(ctx, "t", "n", 0, every(time.Minute))
		if err != nil || !created {
			t.Fatalf("PutJob = created %v, %v, want a new job", created, err)
		}
		again, created, err := w.PutJob(ctx, "t", "n", 0, every(time.Minute))
		if err != nil || created || again.Current.Number != job.Current.Number {
			t.Errorf("PutJob of the same = generation %d, created %v, %v, want %d as it was", again.Current.Number, created, err, job.Current.Number)
		}
		other, created, err := w.PutJob(ctx, "t", "n", 0, every(time.Hour))
		if err != nil || created || other.ID != job.ID || other.Current.Spec.Schedule.Every != schema.Duration(time.Hour) || other.Current.Spec.Name != "n" {
			t.Errorf("PutJob of another = %+v, created %v, %v", other.Current.Spec, created, err)
		}
		if _, _, err := w.PutJob(ctx, "t", "n", job.Current.Number, every(time.Minute)); !errors.Is(err, ErrStale) {
			t.Errorf("PutJob of an old generation = %v, want ErrStale", err)
		}
		if _, _, err := w.PutJob(ctx, "t", "m", 7, every(time.Minute)); !errors.Is(err, ErrStale) {
			t.Errorf("PutJob of a generation where there is no job = %v, want ErrStale", err)
		}
		if _, err := w.CancelJob(ctx, "t", job.ID, 0); err != nil {
			t.Fatal(err)
		}
		fresh, created, err := w.PutJob(ctx, "t", "n", 0, every(time.Minute))
		if err != nil || !created || fresh.ID == job.ID {
			t.Errorf("PutJob after a cancel = %s, created %v, %v, want a new job", fresh.ID, created, err)
		}
	})
}

// A job keeps who made it, whoever replaces or changes it, and its runs say it.
func TestAJobKeepsWhoMadeIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		by := func(name string) schema.JobSpec {
			spec := every(time.Minute)
			spec.CreatedBy = name
			return spec
		}
		job, _, err := w.PutJob(t.Context(), "t", "n", 0, by("ann"))
		if err != nil {
			t.Fatal(err)
		}
		changed, err := w.ChangeJob(t.Context(), "t", job.ID, 0, func(s *schema.JobSpec) error {
			*s = by("bob")
			s.Schedule.Every = schema.Duration(time.Hour)
			return nil
		})
		if err != nil || changed.Current.Spec.CreatedBy != "ann" {
			t.Errorf("ChangeJob by another = created by %q, %v, want ann", changed.Current.Spec.CreatedBy, err)
		}
		if same, _, err := w.PutJob(t.Context(), "t", "n", 0, changed.Current.Spec); err != nil || same.Current.Number != changed.Current.Number {
			t.Errorf("PutJob of the same = generation %d, %v, want %d as it was", same.Current.Number, err, changed.Current.Number)
		}
		next, _ := w.NextRun(changed, time.Now())
		if row, held := w.Row(next.ID); !held || row.Spec.CreatedBy != "ann" {
			t.Errorf("the row of its next run is held %v, created by %q, want ann", held, row.Spec.CreatedBy)
		}
	})
}

func TestTriggerJob(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		job := w.job(named(every(time.Hour), "n"))
		if _, err := w.PauseJob(ctx, "t", job.ID, 0); err != nil {
			t.Fatal(err)
		}
		r, err := w.TriggerJob(ctx, "t", job.ID, nil, "k", "b")
		if err != nil {
			t.Fatalf("TriggerJob of a paused job = %v", err)
		}
		run := w.mustRun(r.Run)
		s := &run.Entry.Spec
		if s.Trigger != schema.TriggerManual || s.Job != job.ID || s.JobName != "n" || run.ID.Shard() != job.ID.Shard() || string(run.Entry.Payload) != `{"n":1}` {
			t.Errorf("triggered %+v", s)
		}
		if again, err := w.TriggerJob(ctx, "t", job.ID, nil, "k", "b"); err != nil || again.Run != r.Run || !again.Existing {
			t.Errorf("TriggerJob under the same key = %+v, %v, want %s", again, err, r.Run)
		}
		if v := w.planOn(run.Entry); v[0] != bucketer.Publish {
			t.Errorf("PlanOn of it = %v, want Publish", v[0])
		}
		if _, err := w.CancelJob(ctx, "t", job.ID, 0); err != nil {
			t.Fatal(err)
		}
		if v := w.planOn(run.Entry); v[0] != bucketer.Dropped {
			t.Errorf("PlanOn of it after a cancel = %v, want Dropped", v[0])
		}
		if _, err := w.TriggerJob(ctx, "t", job.ID, nil, "", ""); !errors.Is(err, bucketer.ErrFinished) {
			t.Errorf("TriggerJob of a cancelled job = %v, want ErrFinished", err)
		}
	})
}

// The cut of a change lies ahead of the clock that draws it, by more than is waited for.
func TestTheCutLiesAheadOfTheClock(t *testing.T) {
	if least := knownBefore + 100*time.Millisecond; cutAhead < least {
		t.Errorf("cutAhead is %v, want at least %v", cutAhead, least)
	}
}

// What has a name stays what it is: a workflow, or a job that is none.
func TestPutJobKeepsWorkflowsAndJobsApart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		flow := schema.JobSpec{Workflow: &schema.JobWorkflow{Definition: []byte("x"), Deadline: schema.Duration(time.Hour)}}
		put := func(name string, spec schema.JobSpec, want error) schema.Job {
			t.Helper()
			job, _, err := w.PutJob(ctx, "t", name, 0, spec)
			if !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("PutJob of %s = %v, want %v", name, err, want)
			}
			return job
		}
		a, b := put("a", every(time.Minute), nil), put("b", flow, nil)
		put("a", flow, ErrJobHasName)
		put("b", every(time.Minute), ErrWorkflowHasName)
		changed := flow
		changed.Workflow = &schema.JobWorkflow{Definition: []byte("y"), Deadline: schema.Duration(time.Hour)}
		if again := put("b", changed, nil); again.ID != b.ID || string(again.Current.Spec.Workflow.Definition) != "y" {
			t.Errorf("PutJob of another definition = %+v, want it in the place of the first", again.Current.Spec)
		}
		for kind, want := range map[JobKind][]schema.JobID{"": {b.ID, a.ID}, NoWorkflows: {a.ID}, OnlyWorkflows: {b.ID}} {
			jobs, _, err := w.ListJobs(ctx, "t", JobFilter{Kind: kind}, schema.JobID{}, 10)
			var got []schema.JobID
			for i := range jobs {
				got = append(got, jobs[i].ID)
			}
			slices.SortFunc(got, func(x, y schema.JobID) int { return schema.EntryID(y).Compare(schema.EntryID(x)) })
			slices.SortFunc(want, func(x, y schema.JobID) int { return schema.EntryID(y).Compare(schema.EntryID(x)) })
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("ListJobs of the kind %q = %v, %v; want %v", kind, got, err, want)
			}
		}
		if _, err := w.CancelJob(ctx, "t", b.ID, 0); err != nil {
			t.Fatal(err)
		}
		if job := put("b", every(time.Minute), nil); job.ID == b.ID {
			t.Error("PutJob after a cancel made a job of the workflow")
		}
	})
}
