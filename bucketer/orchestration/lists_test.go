package orchestration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// listed returns the runs of the last minutes in these states, by their ids, as lists show them.
func (w *world) listed(states ...schema.State) map[schema.RunID]schema.State {
	w.T.Helper()
	now := time.Now()
	win := runs.Window{Tenant: "t", From: now.Add(-5 * time.Minute), To: now.Add(time.Minute), Filter: runs.Filter{States: states}}
	all := make(map[schema.RunID]schema.State)
	for pos := (&runs.Position{}); pos != nil; {
		var page []runs.Run
		var err error
		if page, pos, err = w.runs.Runs(context.Background(), win, *pos, 3); err != nil {
			w.T.Fatalf("Runs = %v", err)
		}
		for i := range page {
			all[page[i].ID] = page[i].Shown()
		}
	}
	return all
}

// viewWaits reports whether a workflow run waits as it is shown alone.
func (w *world) viewWaits(run schema.RunID) bool {
	w.T.Helper()
	r, err := w.runs.Run(context.Background(), "t", run)
	if err != nil {
		w.T.Fatal(err)
	}
	v, err := w.o.View(context.Background(), &r)
	if err != nil {
		w.T.Fatalf("View = %v", err)
	}
	return v.Waiting
}

// A list says of a workflow run that it waits where the run itself says so.
func TestListsSayWhichWorkflowRunsWait(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		plain := w.workflow("plain", steps(work("a", "")))
		waits := w.workflow("waits", steps(`{"name":"rest","wait":{"for":"24h"}}`, work("then", `,"after":["rest"]`)))
		both := w.workflow("both", steps(`{"name":"rest","wait":{"for":"24h"}}`, work("busy", "")))
		later := w.workflow("later", steps(work("first", ""), `{"name":"rest","after":["first"],"wait":{"event":"approved"}}`))
		fan := w.workflow("fan", steps(work("many", `,"for_each":{"items":[1,2,3]}`), `{"name":"rest","after":["many"],"wait":{"for":"24h"}}`))
		w.answers["busy"], w.answers["a"] = answer{hangs: true}, answer{hangs: true}
		run := map[string]schema.RunID{}
		for _, job := range []schema.Job{plain, waits, both, later, fan} {
			id := w.trigger(job, "")
			run[job.Current.Spec.Name] = id
		}
		notBegun := w.trigger(waits, "")
		for _, id := range run {
			w.drive(id)
		}
		want := map[schema.RunID]schema.State{
			run["plain"]: schema.StateRunning, run["waits"]: schema.StateWaiting, run["both"]: schema.StateRunning, run["later"]: schema.StateWaiting,
			run["fan"]: schema.StateWaiting, notBegun: schema.StatePending,
		}
		got := w.listed()
		for id, state := range want {
			if got[id] != state || w.viewWaits(id) != (state == schema.StateWaiting) {
				t.Errorf("%s is listed as %s, and waits by itself: %t; want %s", id, got[id], w.viewWaits(id), state)
			}
		}
		only := w.listed(schema.StateWaiting)
		if len(only) != 3 || only[run["waits"]] == "" || only[run["later"]] == "" || only[run["fan"]] == "" {
			t.Errorf("those that wait are %v, want three of %v", only, run)
		}
		if running := w.listed(schema.StateRunning); len(running) != 5 {
			t.Errorf("those that run are %v, want those that wait among them", running)
		}
		// The history of the workflow says the same.
		history, _, err := w.jobs.JobRuns(t.Context(), "t", waits.ID, recurring.JobRunFilter{Filter: runs.Filter{States: []schema.State{schema.StateWaiting}}}, runs.Position{}, 10)
		if err != nil || len(history) != 1 || history[0].ID != run["waits"] || history[0].Shown() != schema.StateWaiting {
			t.Errorf("history of those that wait = %+v, %v; want %s", history, err, run["waits"])
		}

		time.Sleep(25 * time.Hour)
		w.drive(run["waits"])
		if got := w.viewWaits(run["waits"]); got || w.state(run["waits"]) != schema.StateSucceeded {
			t.Errorf("after its wait the run is %s, and waits: %t", w.state(run["waits"]), got)
		}
	})
}

// What is not understood of one workflow hides no run, and what cannot be read is an error.
func TestWaitsThroughFaults(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.workflow("waits", steps(`{"name":"rest","wait":{"for":"24h"}}`))
		good, bad := w.trigger(job, ""), w.trigger(job, "")
		w.drive(good)
		w.drive(bad)
		row, _ := w.Row(schema.DefinitionID(bad))
		row.Spec.Accepted += 1000 // it is written later
		damaged, err := schema.NewEntry(row.ID, row.Spec, []byte("none"), time.Now().Add(48*time.Hour))
		if err == nil {
			err = w.Counts.PutEntries(t.Context(), []schema.Entry{damaged})
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := w.listed(); got[good] != schema.StateWaiting || got[bad] != schema.StateRunning {
			t.Errorf("lists say %v, want that %s waits, and %s runs, as far as is known", got, good, bad)
		}
		for _, op := range []string{"EntriesByID", "Attempts", "Entries"} {
			for n := 1; n < 20; n++ {
				calls := 0
				w.Befall(func(_ context.Context, called string) schematest.Fault {
					w.Mu.Lock()
					defer w.Mu.Unlock()
					if called == op {
						calls++
					}
					return schematest.Fault{Fail: called == op && calls == n}
				})
				r, err := w.runs.Run(t.Context(), "t", good)
				if err != nil {
					continue
				}
				list := []runs.Run{r}
				if _, err := w.runs.NoteWaits(t.Context(), list); err == nil && !list[0].Waits || err != nil && !errors.Is(err, schema.ErrUnavailable) {
					t.Errorf("%s %d failed: waits %t, %v; want the truth or ErrUnavailable", op, n, list[0].Waits, err)
				}
			}
		}
	})
}

// The runs of steps and items are listed with their ids, page by page, and by step and state.
func TestRunsOfSteps(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.workflow("etl", steps(
			work("extract", ""), work("transform", `,"after":["extract"],"for_each":{"items":["a","b","c","d","e"]}`),
			`{"name":"rest","after":["transform"],"when":"all_done","wait":{"for":"24h"}}`,
			work("load", `,"after":["rest"]`), work("alert", `,"after":["transform"],"when":"any_failed"`), work("never", `,"after":["extract"],"if":"false"`)))
		id := w.trigger(job, "")
		get := func() runs.Run {
			t.Helper()
			r, err := w.runs.Run(t.Context(), "t", id)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		list := func(step string, f runs.Filter) (got []string) {
			t.Helper()
			of := get()
			for _, limit := range []int{1, 2, 500} {
				var all []string
				var after schema.RunID
				for pages := 0; ; pages++ {
					page, next, err := w.o.StepRuns(t.Context(), &of, step, f, after, limit)
					if err != nil || len(page) > limit || pages > 20 {
						t.Fatalf("StepRuns(%s, %+v, %d) = %d runs, %v (page %d)", step, f, limit, len(page), err, pages)
					}
					for _, r := range page {
						number, item := r.ID.StepOf()
						all = append(all, fmt.Sprintf("%s/%d %s", r.Entry.Spec.Step.Name, item, r.Shown()))
						if alone, err := w.runs.Run(t.Context(), "t", r.ID); err != nil || alone.State != r.State || r.ID != schema.MakeStepID(id, number, item) {
							t.Errorf("run %s is listed as %s, and is %s by itself, %v", r.ID, r.State, alone.State, err)
						}
					}
					if after = next; next.IsZero() {
						break
					}
				}
				if got != nil && !slices.Equal(all, got) {
					t.Errorf("by pages of %d: %q, want %q", limit, all, got)
				}
				got = all
			}
			return got
		}
		want := func(step string, f runs.Filter, want ...string) {
			t.Helper()
			if got := list(step, f); !slices.Equal(got, want) {
				t.Errorf("runs of step %q, %+v: %q, want %q", step, f, got, want)
			}
		}
		want("", runs.Filter{}) // it has not begun
		want("transform", runs.Filter{})
		w.answers["transform"] = answer{fails: true}
		w.drive(id)
		in := func(states ...schema.State) runs.Filter { return runs.Filter{States: states} }
		items := []string{"transform/1 failed", "transform/2 failed", "transform/3 failed", "transform/4 failed", "transform/5 failed"}
		want("", runs.Filter{}, slices.Concat([]string{"extract/0 succeeded"}, items, []string{"rest/0 waiting", "alert/0 succeeded", "never/0 skipped"})...)
		want("transform", runs.Filter{}, items...)
		want("transform", in(schema.StateFailed), items...)
		want("transform", in(schema.StateSucceeded))
		want("", in(schema.StateWaiting, schema.StateSkipped), "rest/0 waiting", "never/0 skipped")
		want("rest", runs.Filter{}, "rest/0 waiting")
		want("load", runs.Filter{})
		want("", runs.Filter{Late: bucketertest.Pointer(time.Hour)})
		of := get()
		if _, _, err := w.o.StepRuns(t.Context(), &of, "none", runs.Filter{}, schema.RunID{}, 10); !errors.Is(err, ErrNoStep) {
			t.Errorf("StepRuns of a step that is not there = %v, want ErrNoStep", err)
		}
		// Another run of the same workflow has runs of its own.
		if other := w.trigger(job, ""); other == id {
			t.Fatal("two runs are one")
		}
		want("extract", runs.Filter{}, "extract/0 succeeded")
	})
}
