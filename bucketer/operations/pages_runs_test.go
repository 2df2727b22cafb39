package operations

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// meets returns the runs that an operation comes to, limit at a time.
func (w *world) meets(o *Operations, spec schema.OperationSpec, limit int) (met []schema.RunID) {
	w.T.Helper()
	op := schema.Operation{ID: schema.MakeOperationID(o.now(), 1), Tenant: "t", Spec: spec}
	for at := beginsAt(&op.Spec); ; {
		// As a build before these filters reads it: where it goes on.
		if old := new(place); at == "" || json.Unmarshal([]byte(at), old) == nil {
			w.T.Errorf("an operation with %+v goes on at %q, which a build that does not know its filter can read", spec.Filter, at)
		}
		targets, next, err := o.page(w.T.Context(), &op, at, limit)
		if err != nil || len(targets) > limit {
			w.T.Fatalf("page of %+v = %d targets, %v", spec.Filter, len(targets), err)
		}
		for _, to := range targets {
			id, err := schema.ParseEntryID(strings.TrimPrefix(to.name, "run "))
			if err != nil {
				w.T.Fatal(err)
			}
			met = append(met, id)
		}
		if next == "" {
			return met
		}
		at = next
	}
}

// An operation on runs comes to those that a list with the same filter has.
func TestOperationsSelectRunsAsListsDo(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		start := time.Now()
		mail := schema.Work{HTTP: &schema.HTTPTarget{URL: "http://mail.test:8080/send"}}
		if err := w.Counts.PutTask(t.Context(), schema.Task{Tenant: "t", Name: "mail", Work: mail, UpdatedAt: start}); err != nil {
			t.Fatal(err)
		}
		var ids []schema.RunID
		for i := range 6 { // one a minute
			job := callTo(start.Add(time.Duration(i) * time.Minute))
			job.Key = fmt.Sprintf("k%d", i)
			job.Labels = []map[string]string{{"team": "a"}, {"team": "b", "tier": "1"}}[i%2]
			if i == 2 || i == 5 {
				job.Task, job.Work = "mail", nil
			}
			ids = append(ids, w.submit(job))
		}
		if _, err := w.Cancel(t.Context(), "t", ids[4], "me"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3*time.Minute + 30*time.Second) // the first four are due and have not started
		o := w.operations("n")
		for name, row := range map[string]struct {
			filter schema.OperationFilter
			want   []int
		}{
			"a label":                {schema.OperationFilter{Label: "team=a"}, []int{0, 2, 4}},
			"labels":                 {schema.OperationFilter{Labels: []string{"team=b", "tier=1"}}, []int{1, 3, 5}},
			"a label and another":    {schema.OperationFilter{Label: "team=b", Labels: []string{"tier=2"}}, nil},
			"a key":                  {schema.OperationFilter{Key: "k3"}, []int{3}},
			"a key of another label": {schema.OperationFilter{Key: "k3", Label: "team=a"}, nil},
			"a host":                 {schema.OperationFilter{Host: "MAIL.test:8080"}, []int{2, 5}},
			"late":                   {schema.OperationFilter{Late: "1m"}, []int{0, 1, 2}},
			"late at all":            {schema.OperationFilter{Late: "0s"}, []int{0, 1, 2, 3}},
			"late at a host":         {schema.OperationFilter{Late: "1m", Host: "x.test"}, []int{0, 1}},
			"states":                 {schema.OperationFilter{States: []string{"pending", "stuck"}}, []int{0, 1, 2, 3, 5}},
			"a state that is shown":  {schema.OperationFilter{State: "waiting"}, nil},
			"a task and a label":     {schema.OperationFilter{Task: "mail", Label: "team=a"}, []int{2}},
			"a one-off job":          {schema.OperationFilter{Job: ids[3].String()}, []int{3}},
			"one of another label":   {schema.OperationFilter{Job: ids[3].String(), Label: "team=a"}, nil},
			"a job that is gone":     {schema.OperationFilter{Job: schema.MakeJobID(start, 1, 1).String()}, nil},
		} {
			f := row.filter
			f.From, f.To = start, start.Add(3*time.Hour)
			var want []schema.RunID
			for _, i := range row.want {
				want = append(want, ids[i])
			}
			for _, limit := range []int{2, 200} {
				if got := w.meets(o, asked(ActionCancel, f), limit); !slices.Equal(got, want) {
					t.Errorf("%s, %d at a time: an operation comes to %v, want %v", name, limit, got, want)
				}
			}
			if f.Job != "" {
				continue
			}
			text := runs.FilterText{States: f.States, Task: f.Task, Host: f.Host, Labels: f.Labels, Late: f.Late, Key: f.Key}
			if f.State != "" {
				text.States = []string{f.State}
			}
			if f.Label != "" {
				text.Labels = append(text.Labels, f.Label)
			}
			window := runs.Window{Tenant: "t", From: f.From, To: f.To}
			window.Filter, _ = text.Parse()
			window.CallsTo(func(tenant, task string) (schema.Task, error) { return w.Task(t.Context(), tenant, task) })
			var listed []schema.RunID
			for pos := new(runs.Position); pos != nil; {
				page, next, err := w.Runs(t.Context(), window, *pos, 100)
				if err != nil {
					t.Fatalf("%s: Runs = %v", name, err)
				}
				for i := range page {
					listed = append(listed, page[i].ID)
				}
				pos = next
			}
			if !slices.Equal(listed, want) {
				t.Errorf("%s: a list has %v, want %v", name, listed, want)
			}
		}

		team := schema.OperationFilter{From: start, To: start.Add(time.Hour), Label: "team=a"}
		begun := w.begin(o, asked(ActionCancel, team))
		if begun.Matched != 3 || !begun.All {
			t.Errorf("Begin counts %d, all %t; want 3", begun.Matched, begun.All)
		}
		if at := w.progress(o, begun.Operation.ID).At; at != filterPlace {
			t.Errorf("the operation begins at %q, want %q", at, filterPlace)
		}
		wantCounts(t, "cancel of a label", w.works(begun.Operation.ID, o), schema.Progress{Matched: 3, Changed: 2, Unchanged: 1})
		for i, id := range ids {
			run, err := w.Run(t.Context(), "t", id)
			if want := i%2 == 0; err != nil || (run.State == schema.StateCancelled) != want {
				t.Errorf("run %d is %s, %v; cancelled: %t", i, run.State, err, want)
			}
		}
	})
}

// If a task cannot be read, nobody knows whether its runs call the host: the page is tried again.
func TestOperationOnAHostWaitsForTasks(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		start := time.Now()
		mail := schema.Work{HTTP: &schema.HTTPTarget{URL: "http://mail.test/"}}
		if err := w.Counts.PutTask(t.Context(), schema.Task{Tenant: "t", Name: "mail", Work: mail, UpdatedAt: start}); err != nil {
			t.Fatal(err)
		}
		job := callTo(start.Add(time.Hour))
		job.Task, job.Work = "mail", nil
		w.submit(job)
		time.Sleep(time.Minute) // what is known of the task is too old
		o := w.operations("n")
		op := schema.Operation{ID: schema.MakeOperationID(o.now(), 1), Tenant: "t", Spec: asked(ActionCancel, schema.OperationFilter{From: start, To: start.Add(2 * time.Hour), Host: "mail.test"})}
		w.BefallFirst(1, "Task", schematest.Fault{Fail: true})
		var met int
		var failed error
		for at, i := beginsAt(&op.Spec), 0; i < 100; i++ {
			targets, next, err := o.page(t.Context(), &op, at, 10)
			if err != nil {
				failed = err
				continue // at the same place
			}
			if met += len(targets); next == "" {
				break
			}
			at = next
		}
		if !errors.Is(failed, schema.ErrUnavailable) || met != 1 {
			t.Errorf("pages while the task cannot be read, and then: %v, then %d runs; want %v and one", failed, met, schema.ErrUnavailable)
		}
	})
}

// An operation on the runs of a job goes through the job's history, and leaves other jobs alone.
func TestOperationOnRunsOfOneJob(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		start := time.Now()
		job, other := w.job(every(1000*time.Hour)), w.job(every(1000*time.Hour))
		run := func(of schema.Job, outcome schema.Outcome) schema.RunID {
			t.Helper()
			r, err := w.TriggerJob(t.Context(), "t", of.ID, nil, "", "")
			if err != nil {
				t.Fatal(err)
			}
			e, _ := w.Row(r.Run)
			w.Recorded(e, 1, schema.Record{Outcome: outcome, Final: outcome == schema.Failed, Started: time.Now().UTC()})
			time.Sleep(time.Hour) // over several partitions
			return r.Run
		}
		var failed []schema.RunID // the latest first
		for i := range 6 {
			if i%2 == 0 {
				failed = append([]schema.RunID{run(job, schema.Failed)}, failed...)
			} else {
				run(job, schema.Succeeded)
			}
			run(other, schema.Failed)
		}
		o := w.operations("n")
		f := schema.OperationFilter{From: start, To: time.Now().Add(time.Minute), States: []string{"failed", "missed"}, Job: job.ID.String()}
		for _, limit := range []int{1, 2, 200} {
			if got := w.meets(o, asked(ActionRetry, f), limit); !slices.Equal(got, failed) {
				t.Errorf("%d at a time: an operation comes to %v, want %v", limit, got, failed)
			}
		}
		part := f
		part.From, part.To = failed[1].Time(), failed[0].Time()
		if got := w.meets(o, asked(ActionRetry, part), 10); !slices.Equal(got, failed[1:2]) {
			t.Errorf("in a part of the time an operation comes to %v, want %v", got, failed[1])
		}
		wantCounts(t, "retry", w.works(w.begin(o, asked(ActionRetry, f)).Operation.ID, o), schema.Progress{Matched: 3, Changed: 3})
		retried := map[schema.RunID]int{}
		for _, e := range w.Entries(20 * time.Hour) {
			if e.Spec.Trigger == schema.TriggerRetry {
				retried[e.Spec.Origin]++
			}
		}
		for _, id := range failed {
			if retried[id] != 1 || len(retried) != len(failed) {
				t.Errorf("retried were %v, want each of %v once", retried, failed)
			}
		}
	})
}

// Whatever a filter of runs says beyond what the first builds knew keeps them away.
func TestOlderBuildsAreKeptFromFiltersThatTheyDoNotKnow(t *testing.T) {
	known := schema.OperationFilter{From: time.UnixMilli(0), To: time.UnixMilli(1), Task: "t"}
	for _, state := range []string{"", "pending", "running", "retrying", "failed", "missed", "cancelled", "succeeded"} {
		known.State = state
		if got := beginning(&known); got != "" {
			t.Errorf("beginning of %+v = %q, want that every build goes on with it", known, got)
		}
	}
	known.State = ""
	for i := range reflect.TypeFor[schema.OperationFilter]().NumField() {
		name := reflect.TypeFor[schema.OperationFilter]().Field(i).Name
		f := known
		switch field := reflect.ValueOf(&f).Elem().Field(i); {
		case name == "From" || name == "To" || name == "Task":
			continue
		case name == "State":
			field.SetString("waiting")
		case field.Kind() == reflect.Slice:
			field.Set(reflect.ValueOf([]string{"a=b"}))
		default:
			field.SetString("a=b")
		}
		if got := beginning(&f); got != filterPlace {
			t.Errorf("beginning of a filter with %s = %q, want %q", name, got, filterPlace)
		}
	}
}
