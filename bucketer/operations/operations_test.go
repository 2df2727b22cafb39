package operations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// operations returns Operations of a node of the world.
func (w *world) operations(node string) *Operations {
	return w.operationsOf(node, nil)
}

// operationsOf returns Operations of a node of the world, with a quota.
func (w *world) operationsOf(node string, quota RunQuota) *Operations {
	return New(Config{Bucketer: w.Bucketer, Runs: w.RunParts(), Jobs: w.Recurring(), Store: w.Faulty, Quota: quota, Node: node})
}

// asked is an operation that asks for an action on the jobs, or runs, of a filter.
func asked(action string, f schema.OperationFilter) schema.OperationSpec {
	return schema.OperationSpec{Action: action, Filter: f, By: "me"}
}

// begin begins an operation that must be possible.
func (w *world) begin(o *Operations, spec schema.OperationSpec) Begun {
	w.T.Helper()
	begun, err := o.Begin(w.T.Context(), "t", spec, "", "")
	if err != nil {
		w.T.Fatalf("Begin(%+v) = %v", spec, err)
	}
	return begun
}

// progress returns how far an operation has come.
func (w *world) progress(o *Operations, id schema.OperationID) schema.Progress {
	w.T.Helper()
	op, err := o.Operation(context.Background(), "t", id)
	if err != nil {
		w.T.Fatalf("Operation = %v", err)
	}
	return op.Progress
}

// works runs nodes until the operation is done.
func (w *world) works(id schema.OperationID, nodes ...*Operations) schema.Progress {
	w.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	for _, o := range nodes {
		go func() { _ = o.Run(ctx) }()
	}
	defer synctest.Wait()
	defer cancel()
	for range 1000 {
		if p := w.progress(nodes[0], id); p.Done {
			return p
		}
		time.Sleep(time.Second)
	}
	w.T.Fatalf("operation %s is not done after 1000 s: %+v", id, w.progress(nodes[0], id))
	return schema.Progress{}
}

func (p counts) String() string {
	return fmt.Sprintf("%d matched, %d changed, %d unchanged, %d failed", p.Matched, p.Changed, p.Unchanged, p.Failed)
}

type counts schema.Progress

func wantCounts(t *testing.T, what string, got, want schema.Progress) {
	t.Helper()
	if counts(got).String() != counts(want).String() {
		t.Errorf("%s: %v, want %v; faults %q", what, counts(got), counts(want), got.Faults)
	}
}

func TestOperationActsOnEveryJobThatMatches(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const n = 250
		for i := range n {
			spec := every(time.Hour)
			spec.Labels = map[string]string{"team": []string{"a", "b"}[i%2]}
			w.job(spec)
			time.Sleep(time.Millisecond)
		}
		other := every(time.Hour)
		other.Tenant, other.Labels = "u", map[string]string{"team": "a"}
		stays := w.job(other)
		o := w.operations("n")

		dry := asked(ActionPause, schema.OperationFilter{Label: "team=a"})
		dry.DryRun = true
		begun := w.begin(o, dry)
		if begun.Matched != n/2 || !begun.All {
			t.Errorf("Begin of a dry run counts %d, all %t; want %d", begun.Matched, begun.All, n/2)
		}
		wantCounts(t, "a dry run", w.works(begun.Operation.ID, o), schema.Progress{Matched: n / 2})

		begun = w.begin(o, asked(ActionPause, schema.OperationFilter{Label: "team=a", State: "active"}))
		late := every(time.Hour)
		late.Labels = map[string]string{"team": "a"}
		time.Sleep(10 * time.Millisecond)
		after := w.job(late) // made after the operation: not one of those that it meets
		wantCounts(t, "pause", w.works(begun.Operation.ID, o), schema.Progress{Matched: n / 2, Changed: n / 2})
		if got := w.stored(after.ID).Current.State; got != schema.JobActive {
			t.Errorf("a job that was made after the operation is %s, want it active", got)
		}
		if got := w.stored(stays.ID).Current.State; got != schema.JobActive {
			t.Errorf("a job of another tenant is %s, want it active", got)
		}
		begun = w.begin(o, asked(ActionPause, schema.OperationFilter{}))
		wantCounts(t, "pause of all", w.works(begun.Operation.ID, o), schema.Progress{Matched: n + 1, Changed: n/2 + 1, Unchanged: n / 2})
		begun = w.begin(o, asked(ActionResume, schema.OperationFilter{Label: "team=b"}))
		wantCounts(t, "resume", w.works(begun.Operation.ID, o), schema.Progress{Matched: n / 2, Changed: n / 2})
		begun = w.begin(o, asked(ActionCancel, schema.OperationFilter{Label: "team=a"}))
		wantCounts(t, "cancel", w.works(begun.Operation.ID, o), schema.Progress{Matched: n/2 + 1, Changed: n/2 + 1})
		jobs, _, err := w.ListJobs(t.Context(), "t", recurring.JobFilter{State: schema.JobActive}, schema.JobID{}, 1000)
		if err != nil || len(jobs) != n/2 {
			t.Errorf("%d jobs are active, %v; want the %d of the other team", len(jobs), err, n/2)
		}
	})
}

// A trigger is no trigger twice, whoever repeats a page.
func TestOperationIsTakenUpWhereItWasLeft(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const n = 3*operationPage + 7
		for range n {
			w.job(every(1000 * time.Hour))
			time.Sleep(time.Millisecond)
		}
		first, second := w.operations("first"), w.operations("second")
		begun := w.begin(first, asked(ActionTrigger, schema.OperationFilter{}))
		op := begun.Operation
		for range 2 { // and the second page's progress is lost with the node
			was := op.Progress
			if _, err := first.step(t.Context(), &op); err != nil {
				t.Fatalf("step = %v", err)
			}
			if was.At != "" {
				op.Progress = was
				op.Progress.Updated = w.progress(first, op.ID).Updated.Add(time.Microsecond)
				if err := w.Counts.PutOperation(t.Context(), op); err != nil {
					t.Fatal(err)
				}
			}
		}
		if p := w.progress(first, op.ID); p.Matched != operationPage || p.Done {
			t.Fatalf("after a page and a lost one: %+v, want one page", p)
		}
		wantCounts(t, "trigger", w.works(op.ID, second), schema.Progress{Matched: n, Changed: n})
		manual := 0
		for _, e := range w.Entries(time.Hour) {
			if e.Spec.Trigger == schema.TriggerManual {
				manual++
			}
		}
		if manual != n {
			t.Errorf("there are %d manual runs of %d jobs, want one each", manual, n)
		}
	})
}

func TestTurnsWithAnOperation(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for range 5 * operationPage {
			w.job(every(1000 * time.Hour))
		}
		nodes := []*Operations{w.operations("a"), w.operations("b"), w.operations("c")}
		begun := w.begin(nodes[1], asked(ActionCancel, schema.OperationFilter{}))
		ours := 0
		for range 2 {
			for _, o := range nodes {
				mine, err := o.turn(t.Context(), begun.Operation.ID)
				if err != nil {
					t.Fatal(err)
				}
				if mine {
					ours++
				}
			}
		}
		if ours != 2 {
			t.Errorf("asked twice each, three nodes have %d turns, want the 2 of one", ours)
		}
		wantCounts(t, "cancel by three nodes", w.works(begun.Operation.ID, nodes...), schema.Progress{Matched: 5 * operationPage, Changed: 5 * operationPage})
	})
}

func TestOperationWaitsForTheStore(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for range 10 {
			w.job(every(1000 * time.Hour))
		}
		o := w.operations("n")
		begun := w.begin(o, asked(ActionCancel, schema.OperationFilter{}))
		w.BefallFirst(4, "SwapJob", schematest.Fault{Fail: true})
		end := o.visit(t.Context(), &openOperation{OpenOperation: schema.OpenOperation{Tenant: "t", ID: begun.Operation.ID}})
		if !errors.Is(end.err, schema.ErrUnavailable) {
			t.Errorf("visit while the store is away = %v, want %v", end.err, schema.ErrUnavailable)
		}
		if p := w.progress(o, begun.Operation.ID); p.Done || p.Matched != 0 {
			t.Errorf("a page that could not be done is counted: %+v", p)
		}
		p := w.works(begun.Operation.ID, o)
		if p.Matched != 10 || p.Failed != 0 || p.Changed+p.Unchanged != 10 {
			t.Errorf("when the store is back: %v, want 10 matched and none failed", counts(p))
		}
	})
}

func TestOperationOnRuns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		start := time.Now()
		var ids []schema.RunID
		for i := range 9 { // one each 20 minutes
			r, err := w.Submit(t.Context(), bucketer.Job{Tenant: "t", At: start.Add(time.Duration(i+1) * 20 * time.Minute), Work: every(1).Work})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.Run)
		}
		o := w.operations("n")
		begun := w.begin(o, asked(ActionCancel, schema.OperationFilter{From: start, To: start.Add(2 * time.Hour)}))
		if begun.Matched != 5 || !begun.All {
			t.Errorf("Begin counts %d runs, all %t; want 5", begun.Matched, begun.All)
		}
		wantCounts(t, "cancel of two hours", w.works(begun.Operation.ID, o), schema.Progress{Matched: 5, Changed: 5})
		for i, id := range ids {
			run, err := w.Run(t.Context(), "t", id)
			if want := i < 5; err != nil || (run.State == schema.StateCancelled) != want {
				t.Errorf("run %d is %s, %v; cancelled: %t", i, run.State, err, want)
			}
		}
		begun = w.begin(o, asked(ActionCancel, schema.OperationFilter{From: start, To: start.Add(3*time.Hour + 1), State: "pending"}))
		wantCounts(t, "cancel of what is pending", w.works(begun.Operation.ID, o), schema.Progress{Matched: 4, Changed: 4})

		time.Sleep(3 * time.Hour) // all of them are due and over
		begun = w.begin(o, asked(ActionRetry, schema.OperationFilter{From: start, To: time.Now().Add(time.Hour), State: "cancelled"}))
		wantCounts(t, "retry", w.works(begun.Operation.ID, o), schema.Progress{Matched: 9, Changed: 9})
		retries := map[schema.RunID]int{}
		for _, e := range w.Entries(4 * time.Hour) {
			if e.Spec.Trigger == schema.TriggerRetry {
				retries[e.Spec.Origin]++
			}
		}
		for _, id := range ids {
			if retries[id] != 1 {
				t.Errorf("run %s was retried %d times, want once", id, retries[id])
			}
		}
	})
}

// The runs of other tasks, and of none, are left as they are.
func TestOperationOnRunsOfOneTask(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		start := time.Now()
		work := every(1).Work
		for _, task := range []string{"mail", "mails"} {
			if err := w.Counts.PutTask(t.Context(), schema.Task{Tenant: "t", Name: task, Work: *work, UpdatedAt: start}); err != nil {
				t.Fatal(err)
			}
		}
		tasks := make(map[schema.RunID]string)
		for i := range 9 { // one each 20 minutes
			job := bucketer.Job{Tenant: "t", At: start.Add(time.Duration(i+1) * 20 * time.Minute)}
			if job.Task = []string{"mail", "mails", ""}[i%3]; job.Task == "" {
				job.Work = work
			}
			r, err := w.Submit(t.Context(), job)
			if err != nil {
				t.Fatal(err)
			}
			tasks[r.Run] = job.Task
		}
		o := w.operations("n")
		all := schema.OperationFilter{From: start, To: start.Add(4 * time.Hour)}
		mail, mails := all, all
		mail.Task, mails.Task = "mail", "mails"
		wantCounts(t, "cancel of a task", w.works(w.begin(o, asked(ActionCancel, mail)).Operation.ID, o), schema.Progress{Matched: 3, Changed: 3})
		for id, task := range tasks {
			run, err := w.Run(t.Context(), "t", id)
			if want := task == "mail"; err != nil || (run.State == schema.StateCancelled) != want {
				t.Errorf("a run of task %q is %s, %v; cancelled: %t", task, run.State, err, want)
			}
		}
		wantCounts(t, "cancel of all", w.works(w.begin(o, asked(ActionCancel, all)).Operation.ID, o), schema.Progress{Matched: 9, Changed: 6, Unchanged: 3})

		time.Sleep(3*time.Hour + time.Minute) // all of them are due and over
		wantCounts(t, "retry of a task", w.works(w.begin(o, asked(ActionRetry, mails)).Operation.ID, o), schema.Progress{Matched: 3, Changed: 3})
		retried := 0
		for _, e := range w.Entries(4 * time.Hour) {
			if e.Spec.Trigger != schema.TriggerRetry {
				continue
			}
			if retried++; tasks[e.Spec.Origin] != "mails" {
				t.Errorf("a run of task %q was retried, want those of mails", tasks[e.Spec.Origin])
			}
		}
		if retried != 3 {
			t.Errorf("%d runs were retried, want 3", retried)
		}
	})
}

func TestBeginWithAKey(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		o := w.operations("n")
		spec := asked(ActionPause, schema.OperationFilter{})
		first, err := o.Begin(t.Context(), "t", spec, "k", "hash")
		if err != nil || first.Existing {
			t.Fatalf("Begin = %+v, %v; want a new operation", first, err)
		}
		again, err := o.Begin(t.Context(), "t", spec, "k", "hash")
		if err != nil || !again.Existing || again.Operation.ID != first.Operation.ID {
			t.Errorf("Begin again = %+v, %v; want %s", again, err, first.Operation.ID)
		}
		if _, err := o.Begin(t.Context(), "t", spec, "k", "another"); !errors.Is(err, bucketer.ErrKeyReused) {
			t.Errorf("Begin with another body = %v, want %v", err, bucketer.ErrKeyReused)
		}
		if other, err := o.Begin(t.Context(), "u", spec, "k", "another"); err != nil || other.Existing {
			t.Errorf("Begin of another tenant = %+v, %v; want a new operation", other, err)
		}
		// A key whose operation was never written makes it when it is used again.
		w.BefallFirst(1, "PutOperation", schematest.Fault{Fail: true})
		if _, err := o.Begin(t.Context(), "t", spec, "l", "hash"); !errors.Is(err, schema.ErrUnavailable) {
			t.Errorf("Begin while the store is away = %v, want %v", err, schema.ErrUnavailable)
		}
		if made, err := o.Begin(t.Context(), "t", spec, "l", "hash"); err != nil {
			t.Errorf("Begin again = %v, want it made", err)
		} else if got := w.works(made.Operation.ID, o); !got.Done {
			t.Errorf("an operation of a key that was registered before: %+v, want it done", got)
		}
		if _, err := o.Operation(t.Context(), "u", first.Operation.ID); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("Operation of another tenant = %v, want %v", err, schema.ErrNotFound)
		}
	})
}

func TestRetry(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		r, err := w.Submit(t.Context(), bucketer.Job{Tenant: "t", At: time.Now().Add(time.Hour), Work: every(1).Work, Payload: []byte(`{"a":1}`), Priority: schema.High})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Retry(t.Context(), "t", r.Run, ""); !errors.Is(err, runs.ErrNotFinished) {
			t.Errorf("Retry of a pending run = %v, want %v", err, runs.ErrNotFinished)
		}
		if _, err := w.Cancel(t.Context(), "t", r.Run, "me"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Retry(t.Context(), "u", r.Run, ""); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("Retry by another tenant = %v, want %v", err, schema.ErrNotFound)
		}
		first, err := w.Retry(t.Context(), "t", r.Run, "k")
		again, err2 := w.Retry(t.Context(), "t", r.Run, "k")
		if err != nil || err2 != nil || again.Run != first.Run || !again.Existing {
			t.Errorf("Retry with one key = %+v, %v and %+v, %v; want one run", first, err, again, err2)
		}
		run, err := w.Run(t.Context(), "t", first.Run)
		if err != nil || run.Entry.Spec.Origin != r.Run || string(run.Entry.Payload) != `{"a":1}` || run.Entry.Spec.Priority != schema.High {
			t.Errorf("the retried run is %+v, %v; want origin, payload and priority of the first", run.Entry, err)
		}
	})
}

func TestOperationsAreListedNewestFirst(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		o := w.operations("n1")
		ctx := t.Context()
		const n = 230
		var want []schema.OperationID // newest first
		for i := range n {
			op := schema.Operation{
				ID: schema.MakeOperationID(w.Bucketer.Now(), schema.RandomHash()), Tenant: "t", Spec: asked(ActionPause, schema.OperationFilter{}),
				Progress: schema.Progress{Done: i%100 != 50, Updated: w.Bucketer.Now().UTC().Truncate(time.Microsecond)}, // numbers 50 and 150 are open
			}
			if err := w.Counts.PutOperation(ctx, op); err != nil {
				t.Fatal(err)
			}
			want = append([]schema.OperationID{op.ID}, want...)
			time.Sleep(time.Second)
		}
		other := schema.Operation{ID: schema.MakeOperationID(w.Bucketer.Now(), 1), Tenant: "u", Progress: schema.Progress{Done: true, Updated: w.Bucketer.Now().UTC()}}
		if err := w.Counts.PutOperation(ctx, other); err != nil {
			t.Fatal(err)
		}
		listed := func(state string, limit int) (ids []schema.OperationID, pages int) {
			t.Helper()
			for before := (schema.OperationID{}); ; {
				page, next, err := o.List(ctx, "t", state, before, limit)
				if err != nil || len(page) > limit {
					t.Fatalf("List(%q, limit %d) = %d, %v", state, limit, len(page), err)
				}
				pages++
				for i := range page {
					ids = append(ids, page[i].ID)
				}
				if next == nil {
					return ids, pages
				}
				before = *next
			}
		}
		for _, limit := range []int{1, 100, n - 1, n, n + 1} {
			if ids, pages := listed("", limit); !slices.Equal(ids, want) || pages != (n+limit-1)/limit {
				t.Errorf("List, limit %d = %d operations in %d pages, want all %d newest first", limit, len(ids), pages, n)
			}
		}
		running := []schema.OperationID{want[n-1-150], want[n-1-50]}
		for _, limit := range []int{1, 2, 3, 500} {
			if ids, _ := listed(schema.OperationRunning, limit); !slices.Equal(ids, running) {
				t.Errorf("List of those that run, limit %d = %v, want %v", limit, ids, running)
			}
		}
		if ids, _ := listed(schema.OperationDone, 7); len(ids) != n-2 {
			t.Errorf("List of those that are done = %d, want %d", len(ids), n-2)
		}
		if ids, pages := listed(schema.OperationCancelled, 500); len(ids) != 0 || pages != 1 {
			t.Errorf("List of those that were cancelled = %d in %d pages, want none", len(ids), pages)
		}
		w.Counts.Reset()
		if _, next, err := o.List(ctx, "t", schema.OperationCancelled, schema.OperationID{}, 1); err != nil || next != nil || w.Counts.Tally("Operations").Rows > 400 {
			t.Errorf("List of none reads %+v, %v", w.Counts.Tally("Operations"), err)
		}
	})
}
