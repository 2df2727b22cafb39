package logs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/logs"
	"carillon.dev/carillon/bucketer/orchestration"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// TestSearchFindsLinesAndErrors: the newest minute first, in a run as it logged, whatever the size
// of the pages.
func TestSearchFindsLinesAndErrors(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.ran(w.submit("t", nil), 1, succeeded, "old")
		time.Sleep(10 * time.Minute)
		e := w.submit("t", nil)
		w.ran(e, 1, schema.Record{Outcome: schema.Failed, Error: "no route"}, "a", "b")
		time.Sleep(time.Second)
		a := w.Running(e, 2)
		w.report(&a, 1, 0, "c")
		w.report(&a, 2, 0) // progress alone
		w.report(&a, 3, 7, "d")
		w.ended(a, refused, 2)
		w.ran(w.submit("u", nil), 1, refused, "of another tenant")
		time.Sleep(time.Minute)
		w.ran(w.submit("t", nil), 1, succeeded) // without lines
		live := w.Running(w.submit("t", nil), 1)
		w.report(&live, 1, 0, "under way")
		time.Sleep(time.Second)
		const want = "1:under way 1:a 1:b 1!no route 2:c 2:d 2-7 2!refused 1:old"
		for _, limit := range []int{1, 2, 3, 4, 500} {
			q := lastHour()
			got, looked := w.search(q, limit)
			if got != want {
				t.Errorf("in pages of %d: %q, want %q", limit, got, want)
			}
			if looked.Runs < 4 || looked.Lines != 9 || !looked.Reached.Equal(q.From) {
				t.Errorf("in pages of %d it looked at %+v, want 4 runs, 9 lines, up to %v", limit, looked, q.From)
			}
		}
	})
}

func TestSearchSelects(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.task("t", "mail")
		w.ran(w.submit("t", func(j *bucketer.Job) { j.Task, j.Work = "mail", nil }), 1, refused, "sent to Ada", "SENT to Bob")
		time.Sleep(time.Minute)
		labelled := w.submit("t", func(j *bucketer.Job) { j.Labels = map[string]string{"team": "a"} })
		w.ran(labelled, 1, succeeded, "of team a")
		time.Sleep(time.Minute)
		spec := schema.JobSpec{Tenant: "t", Name: "j", Work: &schema.Work{NATS: &schema.NATSTarget{Subject: "x"}}, Schedule: &schema.Schedule{Every: schema.Duration(time.Hour)}}
		job, _, err := w.e.CreateJob(ctx, spec, "", "")
		if err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			r, err := w.e.TriggerJob(ctx, "t", job.ID, nil, "", "")
			if err != nil {
				t.Fatal(err)
			}
			e, _ := w.Row(r.Run)
			w.ran(e, 1, succeeded, fmt.Sprint("of job ", n))
			time.Sleep(time.Minute)
		}
		for name, c := range map[string]struct {
			change func(q *logs.Query)
			want   string
		}{
			"text":               {func(q *logs.Query) { q.Text = "sent to" }, "1:sent to Ada 1:SENT to Bob"},
			"text of an error":   {func(q *logs.Query) { q.Text = "REFUSED" }, "1!refused"},
			"text of none":       {func(q *logs.Query) { q.Text = "none" }, ""},
			"errors":             {func(q *logs.Query) { q.Kind = logs.ErrorKind }, "1!refused"},
			"lines":              {func(q *logs.Query) { q.Kind, q.Text = logs.LineKind, "O" }, "1:of job 2 1:of job 1 1:of job 0 1:of team a 1:sent to Ada 1:SENT to Bob"},
			"a task":             {func(q *logs.Query) { q.Task = "mail" }, "1:sent to Ada 1:SENT to Bob 1!refused"},
			"a label":            {func(q *logs.Query) { q.Labels = map[string]string{"team": "a"} }, "1:of team a"},
			"a job":              {func(q *logs.Query) { q.Job, q.From, q.To = job.ID, time.Time{}, time.Time{} }, "1:of job 2 1:of job 1 1:of job 0"},
			"a job, in a window": {func(q *logs.Query) { q.Job, q.From = job.ID, time.Now().Add(-150*time.Second) }, "1:of job 2 1:of job 1"},
			"a run":              {func(q *logs.Query) { q.Run = labelled.Run() }, "1:of team a"},
			"a window":           {func(q *logs.Query) { q.To = q.To.Add(-4*time.Minute - time.Second) }, "1:sent to Ada 1:SENT to Bob 1!refused"},
			"in words of ours": {func(q *logs.Query) {
				q.Says = func(r *schema.Record) string { return "it " + r.Error }
				q.Text = "it refused"
			}, "1!it refused"},
		} {
			q := lastHour()
			c.change(q)
			for _, limit := range []int{1, 500} {
				if got, _ := w.search(q, limit); got != c.want {
					t.Errorf("%s, in pages of %d: %q, want %q", name, limit, got, c.want)
				}
			}
		}
		for name, q := range map[string]*logs.Query{
			"another tenant's run": {Tenant: "u", Run: labelled.Run()},
			"another tenant's job": {Tenant: "u", Job: job.ID},
		} {
			if page, _, err := w.e.SearchLogs(ctx, q, logs.Position{}, 10); !errors.Is(err, schema.ErrNotFound) {
				t.Errorf("%s: SearchLogs = %+v, %v; want ErrNotFound", name, page, err)
			}
		}
	})
}

// TestSearchGoesIntoWorkflows: the runs of steps lie elsewhere, and are found by their workflow
// run.
func TestSearchGoesIntoWorkflows(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.task("t", "load")
		job := w.workflow("etl", `{"steps":[{"name":"a","nats":{"subject":"a"}},{"name":"b","task":"load"},{"name":"c","nats":{"subject":"c"}}]}`)
		r, err := w.e.TriggerJob(t.Context(), "t", job.ID, nil, "", "")
		if err != nil {
			t.Fatal(err)
		}
		var state *orchestration.State
		for _, e := range w.advance(&state, r.Run) {
			w.ran(e, 1, refused, "of "+e.Spec.Step.Name)
		}
		time.Sleep(time.Second)
		for name, c := range map[string]struct {
			change func(q *logs.Query)
			want   string
		}{
			"a window":         {func(*logs.Query) {}, "1:of a 1!refused 1:of b 1!refused 1:of c 1!refused"},
			"the task of one":  {func(q *logs.Query) { q.Task = "load" }, "1:of b 1!refused"},
			"the workflow":     {func(q *logs.Query) { q.Job = job.ID }, "1:of a 1!refused 1:of b 1!refused 1:of c 1!refused"},
			"the workflow run": {func(q *logs.Query) { q.Run, q.Kind = r.Run, logs.ErrorKind }, "1!refused 1!refused 1!refused"},
		} {
			q := lastHour()
			c.change(q)
			for _, limit := range []int{1, 2, 500} {
				if got, _ := w.search(q, limit); got != c.want {
					t.Errorf("%s, in pages of %d: %q, want %q", name, limit, got, c.want)
				}
			}
		}
	})
}

// TestASearchIsBounded: an answer costs no more than it may, says so, and goes on from there.
func TestASearchIsBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const many = 150
		for n := range many {
			w.ran(w.submit("t", nil), 1, succeeded, fmt.Sprint("line ", n))
		}
		for range 50 {
			w.ran(w.submit("t", nil), 1, refused) // no log is read of these
		}
		time.Sleep(time.Second)
		w.Counts.Reset()
		q := lastHour()
		q.Text = "none of them"
		page, next, err := w.e.SearchLogs(t.Context(), q, logs.Position{}, 500)
		if err != nil || next == nil || len(page.Items) != 0 {
			t.Fatalf("SearchLogs = %+v, %v, %v; want none, and a position", page, next, err)
		}
		if got := w.Counts.Tally("Parts").Calls; got != 64 || page.Looked.Logs != got {
			t.Errorf("SearchLogs read %d logs, and says %d; want 64", got, page.Looked.Logs)
		}
		if _, looked := w.search(q, 500); looked.Logs != many || looked.Runs < many+50 || looked.Lines != many+50 {
			t.Errorf("all that was looked at: %+v; want %d logs and %d lines", looked, many, many+50)
		}
		w.Counts.Reset()
		q.Kind = logs.ErrorKind
		if _, looked := w.search(q, 500); w.Counts.Tally("Parts").Calls != 0 || looked.Lines != many+50-many {
			t.Errorf("errors alone: %d reads of logs, looked at %+v; want none", w.Counts.Tally("Parts").Calls, looked)
		}

		q = lastHour()
		q.From = q.To.Add(-24 * time.Hour)
		w.Counts.Reset()
		if _, next, err = w.e.SearchLogs(t.Context(), q, logs.Position{Minute: schema.BucketOf(q.To) - 10}, 500); err != nil || next == nil {
			t.Fatalf("SearchLogs of minutes without runs = %v, %v; want a position", next, err)
		}
		if got := w.Counts.Tally("Entries").Calls; got > 512 {
			t.Errorf("SearchLogs of minutes without runs looked into %d partitions, want at most 512", got)
		}
	})
}

// TestASearchOfASlowStoreEnds: an answer comes after some seconds, and comes further each time.
func TestASearchOfASlowStoreEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for n := range 3 {
			w.ran(w.submit("t", nil), 1, succeeded, fmt.Sprint("line ", n))
			time.Sleep(time.Millisecond) // the order of what is due at once is any
		}
		time.Sleep(time.Second)
		q := lastHour()
		q.From = q.To.Add(-3 * time.Minute)
		w.Befall(func(_ context.Context, op string) schematest.Fault {
			if op == "Parts" || op == "AttemptsOf" || op == "Entries" {
				return schematest.Fault{Delay: 6 * time.Second}
			}
			return schematest.Fault{}
		})
		began := time.Now()
		if _, next, err := w.e.SearchLogs(t.Context(), q, logs.Position{}, 500); err != nil || next == nil || time.Since(began) > 30*time.Second {
			t.Errorf("SearchLogs = %v, %v after %v; want a position soon", next, err, time.Since(began))
		}
		if got, _ := w.search(q, 500); got != "1:line 0 1:line 1 1:line 2" {
			t.Errorf("all of it: %q", got)
		}
		w.Befall(func(_ context.Context, op string) schematest.Fault { return schematest.Fault{Fail: op == "Parts"} })
		if page, _, err := w.e.SearchLogs(t.Context(), q, logs.Position{}, 500); !errors.Is(err, schema.ErrUnavailable) {
			t.Errorf("SearchLogs of a store that fails = %+v, %v; want ErrUnavailable", page, err)
		}
	})
}

// TestASearchPassesOverWhatIsDamaged: one part that cannot be understood hides nothing else.
func TestASearchPassesOverWhatIsDamaged(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		e := w.submit("t", nil)
		a := w.Running(e, 1)
		w.report(&a, 1, 0, "before")
		part := schema.Part{PartKey: schema.PartKey{Attempt: 1, Fence: a.Fence, Number: 2}, Data: []byte("{")}
		if err := w.Counts.PutPart(t.Context(), e.Run(), schema.ReportPart, part, a.Written, a.Expires); err != nil {
			t.Fatal(err)
		}
		w.report(&a, 3, 0, "after")
		w.ended(a, succeeded, 3)
		time.Sleep(time.Second)
		if got, looked := w.search(lastHour(), 500); got != "1:before 1:after" || looked.Damaged != 1 {
			t.Errorf("SearchLogs = %q, looked at %+v; want both, and one that is damaged", got, looked)
		}
	})
}

func TestReadingsAreText(t *testing.T) {
	var r logs.Reading
	r.Log.Report = schema.PartKey{Attempt: 2, Fence: 1795773600250123, Number: 3}
	r.Log.Line, r.Told = 4, schema.PartKey{Attempt: 1, Fence: 5}
	text, err := r.MarshalText()
	var back logs.Reading
	if err == nil {
		err = back.UnmarshalText(text)
	}
	if err != nil || back != r {
		t.Errorf("%+v is %q, and that is %+v, %v", r, text, back, err)
	}
	for _, text := range []string{"", "1.2.3.4.5", "a.b.c.d.e.f", strings.Repeat("9", 40) + ".1.1.1.1.1"} {
		if err := back.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("UnmarshalText(%q) took it", text)
		}
	}
}
