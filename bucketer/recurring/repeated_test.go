package recurring

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// ruin is the record of a run that has failed for good.
var ruin = schema.Record{Outcome: schema.Failed, Final: true, Error: "refused"}

// ruined lets the first run of a job fail for good, and returns its row.
func (w *world) ruined(job schema.Job) schema.Entry {
	w.T.Helper()
	e := w.occurrences(job.ID, time.Hour)[0]
	time.Sleep(time.Until(e.Due()))
	if v := w.planOn(e); v[0] != bucketer.Publish {
		w.T.Fatalf("PlanOn = %v, want it published", v)
	}
	w.end(e, 1, ruin)
	time.Sleep(time.Second)
	return e
}

// replayed replays the dead letter of a run, and returns the row of the new run.
func (w *world) replayed(id schema.RunID) schema.Entry {
	w.T.Helper()
	r, err := w.Replay(w.T.Context(), "t", id, "me")
	if err != nil {
		w.T.Fatalf("Replay(%s) = %v", id, err)
	}
	e, ok := w.Row(r.Run)
	if !ok {
		w.T.Fatalf("the replay %s is not there", r.Run)
	}
	time.Sleep(time.Second)
	return e
}

// TestRunsThatRepeatOthersAreListed: a replay of a run of a job, a replay of that, and a retry are
// runs of their own, and listed among the runs of the job.
func TestRunsThatRepeatOthersAreListed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(named(every(time.Hour), "nightly"))
		first := w.ruined(job)
		replay := w.replayed(first.ID)
		w.end(replay, 1, ruin)
		for _, of := range []schema.JobID{job.ID, schema.JobOf(replay.ID)} {
			q := runs.DeadLetterQuery{Tenant: "t", From: first.Due(), To: time.Now().Add(time.Hour), Job: of}
			if letters, _, err := w.DeadLetters(t.Context(), q, nil, 10); err != nil || len(letters) != 1 || letters[0].Run != replay.ID {
				t.Errorf("dead letters of job %s = %+v, %v; want that of the replay", of, letters, err)
			}
		}
		again := w.replayed(replay.ID)
		w.end(again, 1, schema.Record{Outcome: schema.Succeeded})
		retried, err := w.Retry(t.Context(), "t", first.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		next := w.occurrences(job.ID, 3*time.Hour)[1].ID
		names := map[schema.RunID]string{first.ID: "first", replay.ID: "replay", again.ID: "again", retried.Run: "retried", next: "next"}
		ids := func(got []runs.Run) (all []string) {
			for i := range got {
				all = append(all, names[got[i].ID])
			}
			return all
		}
		minute := JobRunFilter{To: replay.Due()}
		for name, row := range map[string]struct {
			filter JobRunFilter
			want   []string
		}{
			"all":                    {JobRunFilter{}, []string{"next", "retried", "again", "replay", "first"}},
			"its own":                {JobRunFilter{Own: true}, []string{"next", "first"}},
			"that failed":            {JobRunFilter{Filter: in(schema.StateFailed)}, []string{"replay", "first"}},
			"that succeeded":         {JobRunFilter{Filter: in(schema.StateSucceeded)}, []string{"again"}},
			"that wait":              {JobRunFilter{Filter: in(schema.StatePending)}, []string{"next", "retried"}},
			"due before the replay":  {minute, []string{"first"}},
			"due from the replay on": {JobRunFilter{From: replay.Due(), To: again.Due()}, []string{"replay"}},
		} {
			for _, limit := range []int{1, 2, 100} {
				if got := ids(w.jobRuns(job.ID, row.filter, limit, func() {})); !slices.Equal(got, row.want) {
					t.Errorf("runs of the job, %s, %d at a time = %v, want %v", name, limit, got, row.want)
				}
			}
		}
		for _, e := range []schema.Entry{replay, again} {
			if e.Spec.JobName != "nightly" || !e.Spec.Job.IsZero() || e.Spec.ListedWith() != job.ID {
				t.Errorf("replay %s is of the job %q %s, and repeats one of %s; want a run of its own that repeats one of %s", e.ID, e.Spec.JobName, e.Spec.Job, e.Spec.ListedWith(), job.ID)
			}
		}
		// It starts, and is listed, whatever becomes of the job.
		if _, err := w.CancelJob(t.Context(), "t", job.ID, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got, want := ids(w.jobRuns(job.ID, JobRunFilter{To: time.Now()}, 100, func() {})), []string{"retried", "again", "replay", "first"}; !slices.Equal(got, want) {
			t.Errorf("runs of the cancelled job = %v, want %v", got, want)
		}
	})
}

// TestAReplayWhoseLineIsLostIsListedOnceItHasEnded: by whatever it ends.
func TestAReplayWhoseLineIsLostIsListedOnceItHasEnded(t *testing.T) {
	for name, end := range map[string]func(w *world, e schema.Entry){
		"it succeeded": func(w *world, e schema.Entry) { w.end(e, 1, schema.Record{Outcome: schema.Succeeded}) },
		"it failed":    func(w *world, e schema.Entry) { w.end(e, 1, ruin) },
		"cancelled": func(w *world, e schema.Entry) {
			if _, err := w.Cancel(w.T.Context(), "t", e.ID, "me"); err != nil {
				w.T.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				job := w.job(every(time.Hour))
				first := w.ruined(job)
				w.BefallFirst(1, "PutJobRuns", schematest.Fault{Fail: true})
				replay := w.replayed(first.ID)
				listed := func() bool {
					return slices.ContainsFunc(w.jobRuns(job.ID, JobRunFilter{}, 100, func() {}), func(r runs.Run) bool { return r.ID == replay.ID })
				}
				if listed() {
					t.Fatal("the line of the replay was written all the same: the test shows nothing")
				}
				if end(w, replay); !listed() {
					t.Error("the replay is not listed, though it has ended")
				}
			})
		})
	}
}

// TestFaultsAtEveryCallOfAReplay: whatever goes wrong, a replay that is asked for again is one run,
// which is listed among those of the job once it has ended.
func TestFaultsAtEveryCallOfAReplay(t *testing.T) {
	for name, fault := range map[string]schematest.Fault{"fails": {Fail: true}, "is lost": {Lose: true}, "is silent": {Silent: true}} {
		t.Run(name, func(t *testing.T) {
			at, hit := int64(0), true
			for ; hit; at++ {
				inWorld(t, func(t *testing.T, w *world) {
					job := w.job(every(time.Hour))
					first := w.ruined(job)
					var n atomic.Int64
					w.Befall(func(context.Context, string) schematest.Fault {
						if n.Add(1) == at+1 {
							return fault
						}
						return schematest.Fault{}
					})
					_, err := w.Replay(t.Context(), "t", first.ID, "me")
					hit = n.Load() > at
					w.Befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
					time.Sleep(time.Second)
					replay := w.replayed(first.ID)
					w.end(replay, 1, schema.Record{Outcome: schema.Succeeded})
					var ids []schema.RunID
					for _, r := range w.jobRuns(job.ID, JobRunFilter{To: time.Now()}, 100, func() {}) {
						ids = append(ids, r.ID)
					}
					if want := []schema.RunID{replay.ID, first.ID}; !slices.Equal(ids, want) {
						t.Errorf("call %d %s, and Replay answers %v; then the runs of the job are %v, want %v", at, name, err, ids, want)
					}
				})
			}
			if at < 6 {
				t.Errorf("a replay makes %d calls of the store: the test shows nothing", at-1)
			}
		})
	}
}

// TestReplaysSayNothingOfTheirJob: how many runs of it failed in a row, and how far it came, is
// told by its own runs, however many others are listed after them.
func TestReplaysSayNothingOfTheirJob(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(time.Hour))
		first := w.ruined(job)
		w.end(w.replayed(first.ID), 1, ruin)
		failed, last, err := w.FailedInARow(t.Context(), job.ID, schema.RunID{}, time.Now().Add(-2*time.Hour), 10)
		if err != nil || failed != 1 || last.Run != first.ID {
			t.Errorf("FailedInARow = %d, last %s, %v; want 1, %s", failed, last.Run, err, first.ID)
		}
		lines := make([]schema.JobRun, 3*historyPage+7)
		for i := range lines {
			id := schema.MakeEntryID(time.Now(), 2, uint64(i)) // #nosec G115 -- small
			lines[i] = bucketer.OpenLine(&schema.Entry{ID: id, Spec: schema.Spec{OriginJob: &job.ID}}, time.Now().Add(time.Hour))
		}
		if err := w.PutHistory(t.Context(), lines); err != nil {
			t.Fatal(err)
		}
		s, err := w.series.of(job.ID, &job.Current)
		if err != nil {
			t.Fatal(err)
		}
		if at, ok, err := w.lastRun(t.Context(), s, time.Now()); err != nil || !ok || !at.Equal(first.Spec.Nominal) {
			t.Errorf("lastRun = %s, %t, %v; want %s", at, ok, err, first.Spec.Nominal)
		}
	})
}

// TestARunOfNoJobIsListedWithNone: nothing more is written for a one-off job, or for a step.
func TestARunOfNoJobIsListedWithNone(t *testing.T) {
	id := schema.MakeEntryID(time.Unix(1_800_000_000, 0), 1, 1)
	job := schema.MakeJobID(time.Unix(1_700_000_000, 0), 1, 2)
	for name, row := range map[string]struct {
		spec schema.Spec
		want string
	}{
		"a one-off run":      {schema.Spec{}, ""},
		"a run of a job":     {schema.Spec{Job: job}, "succeeded"},
		"a replay":           {schema.Spec{OriginJob: &job}, "pending"},
		"a step":             {schema.Spec{Job: job, Step: new(schema.Step)}, ""},
		"a retry of a step":  {schema.Spec{OriginJob: new((&schema.Spec{Job: job, Step: new(schema.Step)}).ListedWith())}, ""},
		"a replay of a step": {schema.Spec{OriginJob: &job, Step: new(schema.Step)}, ""},
	} {
		line, ok := runs.HistoryLine(&schema.Entry{ID: id, Spec: row.spec}, &schema.Attempt{Run: id, Record: &schema.Record{Outcome: schema.Succeeded}})
		got := ""
		if ok {
			got = fmt.Sprint(line.State)
		}
		if got != row.want || ok && (line.Job != job || line.Run != id) {
			t.Errorf("the line of %s = %+v, %t; want the state %q", name, line, ok, row.want)
		}
	}
}
