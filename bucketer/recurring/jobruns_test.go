package recurring

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// jobRuns returns the runs of a job, limit at a time. between is called before each page but the
// first.
func (w *world) jobRuns(job schema.JobID, f JobRunFilter, limit int, between func()) (all []runs.Run) {
	w.T.Helper()
	for pos := (&runs.Position{}); ; between() {
		page, next, err := w.JobRuns(w.T.Context(), "t", job, f, *pos, limit)
		if err != nil {
			w.T.Fatalf("JobRuns(%+v) = %v", f, err)
		}
		if len(page) > limit {
			w.T.Fatalf("JobRuns at most %d = %d runs", limit, len(page))
		}
		if all = append(all, page...); next == nil {
			return all
		}
		pos = next
	}
}

// states returns what the runs are, in their order.
func states(got []runs.Run) string {
	s := make([]schema.State, len(got))
	for i := range got {
		s[i] = got[i].State
	}
	return fmt.Sprint(s)
}

// end records an outcome of a run, and what follows from it.
func (w *world) end(e schema.Entry, number int, rec schema.Record) {
	w.T.Helper()
	w.FollowUp(w.T.Context(), []bucketer.Finished{{Entry: e, Attempt: w.Recorded(e, number, rec)}}, func(_ int, err error) {
		if err != nil {
			w.T.Errorf("FollowUp = %v", err)
		}
	})
}

// TestJobRunsAreAllOfThem: those that have ended, those under way, those that wait, and the next
// one, the latest first.
func TestJobRunsAreAllOfThem(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(time.Minute))
		retry := schema.MakeEntryID(time.Now().Add(time.Hour), job.ID.Shard(), 1)
		for i, what := range []func(e schema.Entry){
			func(e schema.Entry) { w.end(e, 1, schema.Record{Outcome: schema.Succeeded}) },
			func(e schema.Entry) { w.end(e, 1, schema.Record{Outcome: schema.Failed, Final: true}) },
			func(e schema.Entry) { w.Recorded(e, 1, schema.Record{Outcome: schema.Failed, Next: retry}) },
			func(e schema.Entry) {
				w.Recorded(e, 0, schema.Record{Outcome: schema.Replaced, Reason: "concurrency: a run of the job was under way"})
			},
			func(e schema.Entry) { w.Running(e, 1) },
			func(e schema.Entry) {
				w.Running(e, 1)
				if _, err := w.Cancel(t.Context(), "t", e.ID, "me"); err != nil {
					t.Fatal(err)
				}
			},
			func(e schema.Entry) { w.end(e, 0, schema.Record{Outcome: schema.Missed, Reason: "x"}) },
		} {
			rows := w.occurrences(job.ID, time.Hour)
			e := rows[len(rows)-1]
			time.Sleep(time.Until(e.Due()))
			if v := w.planOn(e); v[0] != bucketer.Publish {
				t.Fatalf("PlanOn of run %d = %v, want it published", i, v)
			}
			what(e)
		}
		// another execution of the first: a success stays one
		s := w.Running(w.occurrences(job.ID, time.Hour)[0], 9)
		w.LeaveUnstarted(s)
		const want = "[pending missed running running pending retrying failed succeeded]"
		for _, limit := range []int{1, 2, 100} {
			if got := states(w.jobRuns(job.ID, JobRunFilter{}, limit, func() {})); got != want {
				t.Errorf("JobRuns %d at a time = %s, want %s", limit, got, want)
			}
			for state, n := range map[schema.State]int{
				schema.StatePending: 2, schema.StateRunning: 2, schema.StateRetrying: 1, schema.StateSucceeded: 1, schema.StateFailed: 1,
				schema.StateMissed: 1, schema.StateCancelled: 0,
			} {
				got := w.jobRuns(job.ID, JobRunFilter{Filter: in(state)}, limit, func() {})
				if len(got) != n || slices.ContainsFunc(got, func(r runs.Run) bool { return r.State != state }) {
					t.Errorf("JobRuns that are %s, %d at a time = %s, want %d", state, limit, states(got), n)
				}
			}
		}
	})
}

// TestJobRunsNeitherSkipNorRepeat: what ends, starts and is planned between two pages moves nothing
// in the list.
func TestJobRunsNeitherSkipNorRepeat(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		t.Logf("seed %d", seed)
		job := w.job(every(time.Minute))
		open := make(map[schema.RunID]schema.Entry)
		planned := func() {
			rows := w.occurrences(job.ID, 10*time.Hour)
			e := rows[len(rows)-1]
			time.Sleep(time.Until(e.Due()))
			w.planOn(e)
			if random.IntN(2) == 0 {
				w.Running(e, 1)
			}
			open[e.ID] = e
			if random.IntN(4) == 0 {
				r, err := w.TriggerJob(t.Context(), "t", job.ID, nil, "", "")
				if err != nil {
					t.Fatal(err)
				}
				open[r.Run], _ = w.Row(r.Run)
			}
		}
		for range 40 {
			planned()
		}
		want := slices.DeleteFunc(w.occurrences(job.ID, 10*time.Hour), func(e schema.Entry) bool { return e.Spec.Kind != schema.KindRun })
		got := w.jobRuns(job.ID, JobRunFilter{}, 3, func() {
			for id, e := range open {
				if random.IntN(4) > 0 {
					continue
				}
				w.end(e, 1, schema.Record{Outcome: schema.Succeeded})
				delete(open, id)
			}
			planned()
		})
		slices.Reverse(want)
		if !slices.EqualFunc(got, want, func(r runs.Run, e schema.Entry) bool { return r.ID == e.ID }) {
			t.Errorf("JobRuns, 3 at a time while runs end and come = %d runs; want the %d that there were, each once, in order", len(got), len(want))
		}
	})
}

// TestTheNextRunIsListed wherever it lies, and none that will never start.
func TestTheNextRunIsListed(t *testing.T) {
	for _, period := range []time.Duration{time.Minute, 30 * time.Hour, 9 * 365 * 24 * time.Hour} {
		inWorld(t, func(t *testing.T, w *world) {
			job := w.job(every(period))
			next, _ := w.NextRun(job, time.Now())
			is := func(what string, want ...schema.RunID) {
				t.Helper()
				for _, limit := range []int{1, 10} {
					got := w.jobRuns(job.ID, JobRunFilter{}, limit, func() {})
					if !slices.EqualFunc(got, want, func(r runs.Run, id schema.RunID) bool { return r.ID == id && r.State == schema.StatePending }) {
						t.Errorf("every %v, %s: JobRuns = %s of %d; want %v, pending", period, what, states(got), len(got), want)
					}
				}
			}
			is("made", next.ID)
			r, err := w.TriggerJob(t.Context(), "t", job.ID, nil, "", "")
			if err != nil {
				t.Fatal(err)
			}
			is("triggered", next.ID, r.Run)
			if _, err := w.PauseJob(t.Context(), "t", job.ID, 0); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			is("paused", r.Run)
			if job, err = w.ResumeJob(t.Context(), "t", job.ID, 0); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			next, _ = w.NextRun(job, time.Now())
			is("resumed", next.ID, r.Run)
		})
	}
}

// TestALineThatCannotBeWritten costs nothing but that the run is listed when it has ended.
func TestALineThatCannotBeWritten(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(time.Hour))
		w.BefallFirst(100, "PutJobRuns", schematest.Fault{Fail: true})
		r, err := w.TriggerJob(t.Context(), "t", job.ID, nil, "", "")
		if err != nil {
			t.Fatalf("TriggerJob = %v", err)
		}
		f := JobRunFilter{To: time.Now().Add(time.Second)}
		if got, n := w.jobRuns(job.ID, f, 10, func() {}), bucketertest.Gathered(t, w.registry, "carillon_job_runs_unlisted_total"); len(got) != 0 || n != 1 {
			t.Errorf("JobRuns = %s, %v unlisted; want none, and one", states(got), n)
		}
		w.Befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
		e, _ := w.Row(r.Run)
		w.end(e, 1, schema.Record{Outcome: schema.Succeeded})
		if got := w.jobRuns(job.ID, f, 10, func() {}); states(got) != "[succeeded]" {
			t.Errorf("JobRuns once it has ended = %s, want it", states(got))
		}
	})
}

// TestAPlannedRunIsNoLastRun: that a run is listed tells nobody that the job has come so far.
func TestAPlannedRunIsNoLastRun(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(time.Hour))
		s, err := w.series.of(job.ID, &job.Current)
		if err != nil {
			t.Fatal(err)
		}
		if at, ok, err := w.lastRun(t.Context(), s, time.Now()); ok || err != nil {
			t.Errorf("lastRun of a job none of whose runs has ended = %v, %v, %v; want none", at, ok, err)
		}
	})
}

// TestALineLivesAsLongAsItsRow: who keeps a run keeps its line.
func TestALineLivesAsLongAsItsRow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(time.Hour))
		e := w.occurrences(job.ID, 2*time.Hour)[0]
		if err := w.KeepRows(t.Context(), e.ID, nil, time.Now().Add(30*24*time.Hour)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * 24 * time.Hour) // the retention is 7 days
		lines, err := w.Counts.JobRuns(t.Context(), job.ID, schema.PeriodOf(e.Due()), schema.RunID{}, 10)
		if _, there := w.Row(e.ID); !there || err != nil || len(lines) != 1 {
			t.Errorf("after 20 days: row %v, lines %v, %v; want both", there, lines, err)
		}
	})
}

// TestJobRunsWalksPeriods: in order, page by page, over days.
func TestJobRunsWalksPeriods(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		spec := every(6 * time.Hour)
		spec.JitterStated = true
		job := w.job(spec)
		s, err := w.series.of(job.ID, &job.Current)
		if err != nil {
			t.Fatal(err)
		}
		var want []schema.RunID
		nominal := job.Current.Spec.Created
		for i := range 20 {
			nominal = nominal.Add(6 * time.Hour)
			time.Sleep(time.Until(nominal))
			e, err := w.occurrence(s, nominal, nominal)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Counts.PutEntries(t.Context(), []schema.Entry{e}); err != nil {
				t.Fatal(err)
			}
			rec := schema.Record{Outcome: schema.Succeeded}
			if i%5 == 0 {
				rec = schema.Record{Outcome: schema.Failed, Final: true}
			}
			w.FollowUp(t.Context(), []bucketer.Finished{{Entry: e, Attempt: w.Recorded(e, 1, rec)}}, func(int, error) {})
			want = append(want, e.ID)
		}
		slices.Reverse(want)
		walk := func(f JobRunFilter, limit int) (got []schema.RunID) {
			pos := &runs.Position{}
			for pos != nil {
				var page []runs.Run
				var err error
				if page, pos, err = w.JobRuns(t.Context(), "t", job.ID, f, *pos, limit); err != nil {
					t.Fatalf("JobRuns = %v", err)
				}
				for _, run := range page {
					got = append(got, run.ID)
				}
			}
			return got
		}
		for _, limit := range []int{1, 3, 100} {
			if got := walk(JobRunFilter{}, limit); !slices.Equal(got, want) {
				t.Errorf("JobRuns %d at a time = %d runs, want %d in order", limit, len(got), len(want))
			}
		}
		if got := walk(JobRunFilter{Filter: in(schema.StateFailed)}, 3); len(got) != 4 {
			t.Errorf("JobRuns that failed = %d, want 4", len(got))
		}
		f := JobRunFilter{From: want[9].Time(), To: want[4].Time()}
		if got := walk(f, 2); !slices.Equal(got, want[5:10]) {
			t.Errorf("JobRuns of a window = %d runs, want 5", len(got))
		}
	})
}
