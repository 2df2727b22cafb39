package logs_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/logs"
	"carillon.dev/carillon/bucketer/orchestration"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an Engine on a store in memory. The test stands for executors and their workers.
type world struct {
	*bucketertest.World
	e *engine.Engine
}

func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{World: bucketertest.NewWorld(t, schema.Settings{Shards: 4})}
		var err error
		if w.e, err = engine.New(bucketer.Config{Store: w.Store(), Hints: w, Signals: w}); err != nil {
			t.Fatal(err)
		}
		if err := w.e.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		f(t, w)
	})
}

// submit makes a one-off job of a tenant that is due now.
func (w *world) submit(tenant string, change func(*bucketer.Job)) schema.Entry {
	w.T.Helper()
	job := bucketer.Job{Tenant: tenant, Work: &schema.Work{NATS: &schema.NATSTarget{Subject: "work.x"}}}
	if change != nil {
		change(&job)
	}
	r, err := w.e.Submit(context.Background(), job)
	if err != nil {
		w.T.Fatalf("Submit = %v", err)
	}
	e, ok := w.Row(r.Run)
	if !ok {
		w.T.Fatalf("run %s is not there", r.Run)
	}
	return e
}

// task makes a task.
func (w *world) task(tenant, name string) {
	w.T.Helper()
	task := schema.Task{Tenant: tenant, Name: name, Work: schema.Work{NATS: &schema.NATSTarget{Subject: "work." + name}}}
	if _, _, err := w.e.PutTask(context.Background(), task); err != nil {
		w.T.Fatalf("PutTask = %v", err)
	}
}

// report writes a report of an attempt.
func (w *world) report(a *schema.Attempt, number, dropped int, lines ...string) {
	w.T.Helper()
	r := schema.Report{Dropped: dropped}
	for _, l := range lines {
		r.Lines = append(r.Lines, schema.Line{At: time.Now().UTC(), Text: l})
	}
	if err := w.e.SaveReport(context.Background(), a, number, &r); err != nil {
		w.T.Fatalf("SaveReport = %v", err)
	}
}

// ran has an attempt of e log lines, and end so.
func (w *world) ran(e schema.Entry, number int, rec schema.Record, lines ...string) {
	w.T.Helper()
	a := w.Running(e, number)
	if len(lines) > 0 {
		w.report(&a, 1, 0, lines...)
	}
	w.ended(a, rec, len(lines))
}

// ended records the end of an attempt that logged so many lines.
func (w *world) ended(a schema.Attempt, rec schema.Record, lines int) {
	w.T.Helper()
	rec.Entry, rec.Finished, rec.Lines = a.Session.Entry, time.Now().UTC(), lines
	a.Record, a.Written = &rec, time.Now().UnixMicro()
	if err := w.Counts.PutAttempts(context.Background(), []schema.Attempt{a}); err != nil {
		w.T.Fatalf("record = %v", err)
	}
}

var (
	succeeded = schema.Record{Outcome: schema.Succeeded}
	refused   = schema.Record{Outcome: schema.Failed, Final: true, Error: "refused"}
)

// lastHour asks for everything of the tenant "t" that was due within an hour.
func lastHour() *logs.Query {
	now := time.Now()
	return &logs.Query{Tenant: "t", From: now.Add(-time.Hour), To: now.Add(time.Second)}
}

// words returns items in short: the attempt, and the text; errors with "!".
func words(items []logs.Item) []string {
	out := make([]string, len(items))
	for i := range items {
		it := &items[i]
		switch {
		case it.Dropped > 0:
			out[i] = fmt.Sprintf("%d-%d", it.Attempt, it.Dropped)
		case it.Kind == logs.ErrorKind:
			out[i] = fmt.Sprintf("%d!%s", it.Attempt, it.Text)
		default:
			out[i] = fmt.Sprintf("%d:%s", it.Attempt, it.Text)
		}
	}
	return out
}

// search returns all that q finds, in pages of limit, as one text, and the sum of what was looked
// at. It checks that no item comes twice, and that every page comes further.
func (w *world) search(q *logs.Query, limit int) (string, logs.Looked) {
	w.T.Helper()
	var pos logs.Position
	var all []logs.Item
	var sum logs.Looked
	for range 10_000 {
		page, next, err := w.e.SearchLogs(context.Background(), q, pos, limit)
		if err != nil {
			w.T.Fatalf("SearchLogs = %v", err)
		}
		if len(page.Items) > limit {
			w.T.Fatalf("SearchLogs at most %d = %d items", limit, len(page.Items))
		}
		all = append(all, page.Items...)
		sum.Runs, sum.Logs, sum.Lines, sum.Damaged = sum.Runs+page.Looked.Runs, sum.Logs+page.Looked.Logs, sum.Lines+page.Looked.Lines, sum.Damaged+page.Looked.Damaged
		sum.Reached = page.Looked.Reached
		if next == nil {
			w.unique(all)
			return strings.Join(words(all), " "), sum
		}
		if *next == pos {
			w.T.Fatalf("SearchLogs from %+v goes on from there", pos)
		}
		pos = *next
	}
	w.T.Fatal("SearchLogs: no end after 10,000 pages")
	panic("unreachable")
}

func (w *world) unique(items []logs.Item) {
	w.T.Helper()
	seen := make(map[string]bool)
	for i := range items {
		if id := items[i].ID(); seen[id] {
			w.T.Errorf("item %s came twice", id)
		} else {
			seen[id] = true
		}
	}
}

// workflow makes a workflow of JSON.
func (w *world) workflow(name, definition string) schema.Job {
	w.T.Helper()
	d, err := workflow.Decode([]byte(definition))
	if err != nil {
		w.T.Fatal(err)
	}
	stored, err := orchestration.NewJobWorkflow(d)
	if err != nil {
		w.T.Fatal(err)
	}
	job, _, err := w.e.PutJob(context.Background(), "t", name, 0, schema.JobSpec{Workflow: stored})
	if err != nil {
		w.T.Fatalf("PutJob(%s) = %v", name, err)
	}
	return job
}

// advance advances a workflow run, and returns the entries of the steps that start.
func (w *world) advance(state **orchestration.State, run schema.RunID, ended ...orchestration.StepEnd) []schema.Entry {
	w.T.Helper()
	t := &orchestration.Turn{Run: run, State: *state, Ended: ended}
	w.e.Advance(context.Background(), []*orchestration.Turn{t}, 1000)
	if t.Err != nil {
		w.T.Fatalf("Advance = %v", t.Err)
	}
	*state = t.State
	return t.Start
}
