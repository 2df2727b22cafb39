package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/client"
)

const target = "https://example.com/hook"

func TestJobs(t *testing.T) {
	t.Parallel()
	c, ctx := open(t), t.Context()
	tomorrow := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Millisecond)
	once := client.NewJob(client.HTTP(target)).At(tomorrow).Payload(map[string]int{"n": 1})
	first, err := c.Jobs.Create(ctx, once, client.WithIdempotencyKey(`the "first"`))
	if err != nil || !first.Schedule.At.Equal(tomorrow) || first.State != client.JobActive || first.HTTP.Method != "POST" || first.NextRun == nil {
		t.Fatalf("Create = %+v, %v; want an active job of tomorrow with the values in force", first, err)
	}
	again, err := c.Jobs.Create(ctx, once, client.WithIdempotencyKey(`the "first"`))
	if err != nil || again.ID != first.ID {
		t.Errorf("Create with the same key = %s, %v; want %s", again.ID, err, first.ID)
	}
	other, err := c.Jobs.Create(ctx, once)
	if err != nil || other.ID == first.ID {
		t.Errorf("Create without a key = %s, %v; want another job", other.ID, err)
	}
	later := tomorrow.Add(time.Hour)
	if moved, err := c.Jobs.Patch(ctx, first.ID.String(), map[string]any{"schedule": map[string]any{"at": later}}); err != nil || !moved.Schedule.At.Equal(later) {
		t.Errorf("Patch = %+v, %v; want it an hour later", moved, err)
	}

	report := client.NewJob(client.HTTP(target)).Schedule(client.Every(time.Hour)).Label("team", "billing")
	if put, err := c.Jobs.Put(ctx, "report", report); err != nil || put.Name != "report" || put.Generation == 0 {
		t.Fatalf("Put = %+v, %v; want a generation", put, err)
	}
	for _, row := range []struct {
		name string
		do   func(context.Context, string) (client.JobInfo, error)
		want client.JobState
	}{
		{"Pause", c.Jobs.Pause, client.JobPaused},
		{"Resume", c.Jobs.Resume, client.JobActive},
		{"Get", c.Jobs.Get, client.JobActive},
	} {
		if got, err := row.do(ctx, "report"); err != nil || got.State != row.want {
			t.Errorf("%s = %s, %v; want %s", row.name, got.State, err, row.want)
		}
	}
	run, err := c.Jobs.Trigger(ctx, "report")
	if err != nil || run.JobName != "report" || run.Trigger != "manual" || run.State != client.Pending {
		t.Errorf("Trigger = %+v, %v; want a pending run", run, err)
	}
	if runs := collect(t, c.Jobs.Runs(ctx, "report", client.JobRunQuery{})); !slices.ContainsFunc(runs, func(r client.Run) bool { return r.ID == run.ID }) {
		t.Errorf("Runs = %+v, want %s among them", runs, run.ID)
	}
	if next, err := c.Jobs.Upcoming(ctx, "report", 3); err != nil || len(next) != 3 || next[1].NominalAt.Sub(next[0].NominalAt) != time.Hour {
		t.Errorf("Upcoming = %+v, %v; want three, an hour apart", next, err)
	}
	if jobs := collect(t, c.Jobs.List(ctx, client.JobQuery{Label: "team=billing"})); len(jobs) != 1 || jobs[0].Labels["team"] != "billing" {
		t.Errorf("List = %+v, want the report", jobs)
	}
	if jobs := collect(t, c.Jobs.List(ctx, client.JobQuery{NamePrefix: "x"})); len(jobs) != 0 {
		t.Errorf("List of another prefix = %+v, want none", jobs)
	}
	if gone, err := c.Jobs.Cancel(ctx, "report"); err != nil || !gone.State.Ended() {
		t.Errorf("Cancel = %s, %v; want cancelled", gone.State, err)
	}
}

func TestRuns(t *testing.T) {
	t.Parallel()
	c, ctx := open(t), t.Context()
	due := time.Now().Add(90 * time.Minute)
	var ids []client.RunID
	for i := range 3 {
		job, err := c.Jobs.Create(ctx, client.NewJob(client.HTTP(target)).At(due.Add(time.Duration(i)*time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, job.NextRun.ID)
	}
	var got []client.RunID
	window := client.RunQuery{From: due.Add(-time.Minute), To: due.Add(150 * time.Minute)} // more than an hour
	for range 2 {                                                                          // a list can be read twice
		got = nil
		for run, err := range c.Runs.List(ctx, window) {
			if err != nil {
				t.Fatalf("List = %v", err)
			}
			got = append(got, run.ID)
		}
		if !slices.Equal(got, ids) {
			t.Errorf("List = %v, want %v", got, ids)
		}
	}
	c.Runs.List(ctx, window)(func(client.Run, error) bool { return false }) // ends the list
	for name, row := range map[string]struct {
		query client.RunQuery
		want  int
	}{
		"of two states":    {client.RunQuery{States: []client.State{client.Pending, client.Failed}}, 3},
		"of another state": {client.RunQuery{States: []client.State{client.Failed, client.Missed}}, 0},
		"of a label":       {client.RunQuery{Labels: map[string]string{"team": "a"}}, 0},
		"that are late":    {client.RunQuery{Late: time.Second}, 0},
	} {
		row.query.From, row.query.To = window.From, window.To
		if got := collect(t, c.Runs.List(ctx, row.query)); len(got) != row.want {
			t.Errorf("List of those %s = %+v, want %d", name, got, row.want)
		}
	}
	id, err := client.ParseRunID(ids[0].String())
	if err != nil {
		t.Fatal(err)
	}
	if run, err := c.Runs.Get(ctx, id); err != nil || run.ID != id {
		t.Errorf("Get = %+v, %v", run, err)
	}
	if run, err := c.Runs.Cancel(ctx, id); err != nil || run.State != client.Cancelled {
		t.Errorf("Cancel = %s, %v; want cancelled", run.State, err)
	}
	if run, err := c.Runs.Wait(ctx, id); err != nil || run.State != client.Cancelled {
		t.Errorf("Wait = %s, %v; want cancelled", run.State, err)
	}
	if out, err := c.Runs.Output(ctx, id); err != nil || len(out.Text) > 0 || out.Attempt != 0 || out.Binary {
		t.Errorf("Output = %+v, %v; want none", out, err)
	}
	again, err := c.Runs.Retry(ctx, id)
	if err != nil || again.Origin != id {
		t.Errorf("Retry = %+v, %v; want a run of that origin", again, err)
	}
	for _, err := range c.Runs.List(ctx, client.RunQuery{From: due, To: due}) {
		if e := new(client.Error); !errors.As(err, &e) || e.Status != 422 {
			t.Errorf("List of no window = %v, want 422", err)
		}
	}
	bounded, cancel := context.WithTimeout(ctx, 150*time.Millisecond)
	defer cancel()
	if _, err := c.Runs.Wait(bounded, ids[1]); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait for a run that does not end = %v, want that time is up", err)
	}
	if _, err := client.ParseRunID("x"); err == nil {
		t.Error("ParseRunID(x) succeeds")
	}
}

func TestWorkflows(t *testing.T) {
	t.Parallel()
	c, ctx := open(t), t.Context()
	w := client.NewWorkflow("etl").Schedule(client.Cron("0 2 * * *", "Europe/Berlin"))
	extract := w.Step("extract", client.HTTP(target))
	w.Step("load", client.HTTP(target)).After(extract).Payload(extract.Output("/files"))
	if would, err := c.Workflows.Check(ctx, w); err != nil || would.Generation != 0 || len(would.Steps) != 2 {
		t.Errorf("Check = %+v, %v; want what would be", would, err)
	}
	if _, err := c.Workflows.Get(ctx, "etl"); !isKind(err, "not-found") {
		t.Errorf("Get after Check = %v, want not-found", err)
	}
	for range 2 {
		if put, err := c.Workflows.Put(ctx, w); err != nil || put.Generation == 0 || put.Schedule.Timezone != "Europe/Berlin" {
			t.Fatalf("Put = %+v, %v; want a generation", put, err)
		}
	}
	if got, err := c.Workflows.Get(ctx, "etl"); err != nil || len(got.Steps) != 2 || got.Deadline == 0 {
		t.Errorf("Get = %+v, %v; want two steps and the deadline in force", got, err)
	}
	if got, err := c.Workflows.Pause(ctx, "etl"); err != nil || got.State != client.JobPaused {
		t.Errorf("Pause = %s, %v; want paused", got.State, err)
	}
	if got, err := c.Workflows.Resume(ctx, "etl"); err != nil || got.State != client.JobActive {
		t.Errorf("Resume = %s, %v; want active", got.State, err)
	}
	if next, err := c.Workflows.Upcoming(ctx, "etl", 2); err != nil || len(next) != 2 {
		t.Errorf("Upcoming = %+v, %v; want two", next, err)
	}
	run, err := c.Workflows.Trigger(ctx, "etl", map[string]string{"date": "2026-11-21"}, client.WithIdempotencyKey("k"))
	if err != nil || run.Workflow != "etl" {
		t.Fatalf("Trigger = %+v, %v; want a run of it", run, err)
	}
	if run, err = c.Runs.Get(ctx, run.ID); err != nil || len(run.Steps) != 2 || run.Steps[1].After[0] != "extract" {
		t.Errorf("Get of the run = %+v, %v; want its steps", run, err)
	}
	for _, step := range collect(t, c.Runs.OfSteps(ctx, run.ID, "extract", client.Pending, client.Running, client.Failed)) {
		if step.Parent != run.ID || step.Step != "extract" {
			t.Errorf("OfSteps has %+v, want runs of extract alone", step)
		}
	}
	if runs := collect(t, c.Workflows.Runs(ctx, "etl", client.JobRunQuery{})); !slices.ContainsFunc(runs, func(r client.Run) bool { return r.ID == run.ID }) {
		t.Errorf("Runs = %+v, want %s among them", runs, run.ID)
	}
	if all := collect(t, c.Workflows.List(ctx, client.JobQuery{})); len(all) != 1 || all[0].Name != "etl" {
		t.Errorf("List = %+v, want etl", all)
	}
	if got, err := c.Workflows.Cancel(ctx, "etl"); err != nil || got.State != client.JobCancelled {
		t.Errorf("Cancel = %s, %v; want cancelled", got.State, err)
	}
}

func TestTasksAndEvents(t *testing.T) {
	t.Parallel()
	c, ctx := open(t), t.Context()
	put, err := c.Tasks.Put(ctx, "send-email", client.NATS("work.email"), client.TaskSettings{Rate: "10/m", MaxConcurrent: 2, Description: "mails"})
	if err != nil || put.Rate != "10/m" || put.NATS.Subject != "work.email" || put.Timeout.Std() != 30*time.Second {
		t.Fatalf("Put = %+v, %v; want the values in force", put, err)
	}
	if got, err := c.Tasks.Get(ctx, "send-email"); err != nil || got.MaxConcurrent != 2 {
		t.Errorf("Get = %+v, %v", got, err)
	}
	if all := collect(t, c.Tasks.List(ctx)); len(all) != 1 {
		t.Errorf("List = %+v, want one", all)
	}
	if _, err := c.Jobs.Create(ctx, client.NewJob(client.Task("send-email")).On("mail", client.Filter("event.to != ''"))); err != nil {
		t.Errorf("Create of a job on events = %v", err)
	}
	for range 2 {
		if err := c.Tasks.Delete(ctx, "send-email"); err != nil {
			t.Errorf("Delete = %v, also if it is deleted already", err)
		}
	}
	if _, err := c.Tasks.Put(ctx, "x", client.NATS(""), client.TaskSettings{}); err == nil || err.Error() != "body.nats.subject must not be empty" {
		t.Errorf("Put of nothing = %v, want a fault", err)
	}

	before := time.Now().Add(-time.Minute)
	id, err := c.Events.Publish(ctx, "mail", map[string]string{"to": "a@example.com"}, client.WithIdempotencyKey("k"))
	if err != nil {
		t.Fatalf("Publish = %v", err)
	}
	if again, err := c.Events.Publish(ctx, "mail", map[string]string{"to": "a@example.com"}, client.WithIdempotencyKey("k")); err != nil || again != id {
		t.Errorf("Publish with the same key = %s, %v; want %s", again, err, id)
	}
	if _, err := c.Events.Publish(ctx, "mail", nil, client.WithIdempotencyKey("k")); !isKind(err, "key-reused") {
		t.Errorf("Publish of another body with the same key = %v, want key-reused", err)
	}
	if _, err := c.Events.Publish(ctx, "mail", func() {}); err == nil || !strings.Contains(err.Error(), "cannot be encoded") {
		t.Errorf("Publish of a function = %v, want that it is no JSON", err)
	}
	events := collect(t, c.Events.List(ctx, client.EventQuery{From: before, To: time.Now().Add(time.Minute), Name: "mail"}))
	if len(events) != 1 || events[0].ID != id || string(events[0].Body) != `{"to":"a@example.com"}` {
		t.Errorf("List = %+v, want the event", events)
	}
	if runs := collect(t, c.Events.Runs(ctx, id)); len(runs) != 0 { // nothing plans them here
		t.Errorf("Runs = %+v, want none yet", runs)
	}
}

// TestJobsAfterOthers: a job runs after others as its builder says, and answers say so.
func TestJobsAfterOthers(t *testing.T) {
	t.Parallel()
	c, ctx := open(t), t.Context()
	if _, err := c.Jobs.Put(ctx, "extract", client.NewJob(client.HTTP(target)).Schedule(client.Every(time.Hour))); err != nil {
		t.Fatal(err)
	}
	load, err := c.Jobs.Put(ctx, "load", client.NewJob(client.HTTP(target)).After("extract").When(client.AnyFailed).AfterDeadline(6*time.Hour))
	want := client.AfterInfo{Jobs: []string{"extract"}, When: client.AnyFailed, Deadline: client.Duration(6 * time.Hour)}
	if err != nil || load.After == nil || !reflect.DeepEqual(*load.After, want) || load.NextRun != nil {
		t.Errorf("Put = %+v, %v; want a job after extract", load, err)
	}
	first, err := c.Jobs.Create(ctx, client.NewJob(client.HTTP(target)).At(time.Now().Add(time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	then, err := c.Jobs.Create(ctx, client.NewJob(client.HTTP(target)).After(first.ID.String()))
	if err != nil || then.After == nil || then.After.When != client.AllSucceeded || then.After.Deadline.Std() != 7*24*time.Hour || then.NextRun != nil {
		t.Fatalf("Create = %+v, %v; want a one-off job with the values in force", then, err)
	}
	id, err := client.ParseRunID(then.ID.String())
	if err != nil {
		t.Fatal(err)
	}
	if run, err := c.Runs.Get(ctx, id); err != nil || run.State != client.Waiting || run.Waiting == nil || run.DeadlineAt.IsZero() {
		t.Errorf("Get = %+v, %v; want that it waits, until when", run, err)
	}
	var faults client.Faults
	if _, err := c.Jobs.Create(ctx, client.NewJob(client.HTTP(target)).After()); !errors.As(err, &faults) || faults[0].Location != "body.after.jobs" {
		t.Errorf("Create after no jobs = %v, want a fault at body.after.jobs", err)
	}
	if stuck := collect(t, c.Runs.Stuck(ctx)); len(stuck) != 0 {
		t.Errorf("Stuck = %+v, want none yet", stuck)
	}
}

// isKind reports whether err is an error of the API of that kind.
func isKind(err error, kind string) bool {
	var e *client.Error
	return errors.As(err, &e) && e.Kind == kind
}

// TestErrorsOfTheAPI: an error has status, kind, and every fault with its location.
func TestErrorsOfTheAPI(t *testing.T) {
	t.Parallel()
	c := open(t)
	_, err := c.Jobs.Create(t.Context(), client.NewJob(client.HTTP("ftp://x")).Name("Report").Priority("urgent"))
	var e *client.Error
	if !errors.As(err, &e) || e.Status != http.StatusUnprocessableEntity || e.Kind != "invalid" || e.Title == "" {
		t.Fatalf("Create = %#v, want invalid", err)
	}
	var faults client.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("Create = %v, which has no Faults", err)
	}
	var at []string
	for _, f := range faults {
		at = append(at, f.Location)
	}
	slices.Sort(at)
	if want := []string{"body.http.url", "body.name", "body.priority"}; !slices.Equal(slices.Compact(at), want) {
		t.Errorf("faults are at %v, want %v", at, want)
	}
	if text := err.Error(); !strings.HasPrefix(text, "422 ") || !strings.Contains(text, "; body.") {
		t.Errorf("Error() = %q, want status and faults", text)
	}
	if _, err := c.Jobs.Get(t.Context(), "nothing"); !isKind(err, "not-found") || errors.As(err, &faults) {
		t.Errorf("Get of nothing = %v, want not-found without faults", err)
	}
}

// script is a node that answers as it is told, and keeps what it was asked.
type script struct {
	mu      sync.Mutex
	answers []func(w http.ResponseWriter)
	asked   []*http.Request
	bodies  []string
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	n := len(s.asked)
	s.asked, s.bodies = append(s.asked, r), append(s.bodies, string(text))
	s.mu.Unlock()
	s.answers[min(n, len(s.answers)-1)](w)
}

func (s *script) serve(t *testing.T) string {
	t.Helper()
	hs := httptest.NewServer(s)
	t.Cleanup(hs.Close)
	return hs.URL
}

func refuse(status int, headers ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte("busy"))
	}
}

func say(v any) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { _ = json.NewEncoder(w).Encode(v) }
}

func breakOff(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// TestSendsAgain: what was refused for now is sent again, as the same request.
func TestSendsAgain(t *testing.T) {
	done := say(map[string]string{"id": "0197a3c1-7a5e-8001-8000-000000000001"})
	rows := []struct {
		name    string
		answers []func(http.ResponseWriter)
		retries int
		asked   int
		status  int // of the error; 0: none
	}{
		{"answered at once", []func(http.ResponseWriter){done}, 5, 1, 0},
		{"unavailable, and broken off", []func(http.ResponseWriter){refuse(503), breakOff, done}, 5, 3, 0},
		{"too many, by a proxy too", []func(http.ResponseWriter){refuse(429), refuse(502), refuse(504), done}, 5, 4, 0},
		{"given up", []func(http.ResponseWriter){refuse(503, "Retry-After", "1")}, 1, 2, 503},
		{"never again", []func(http.ResponseWriter){refuse(503)}, 0, 1, 503},
		{"refused for good", []func(http.ResponseWriter){refuse(403)}, 5, 1, 403},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := &script{answers: row.answers}
			c := connect(t, s.serve(t)+"/", client.WithRetries(row.retries), client.WithKey("secret"), client.WithTenant("t"))
			_, err := c.Events.Publish(t.Context(), "mail", 1)
			var e *client.Error
			errors.As(err, &e)
			if (err == nil) != (row.status == 0) || err != nil && (e == nil || e.Status != row.status || e.Detail != "busy" || e.Kind != "") {
				t.Errorf("Publish = %v, want status %d", err, row.status)
			}
			if row.name == "given up" && e.RetryAfter != time.Second {
				t.Errorf("RetryAfter = %s, want 1s", e.RetryAfter)
			}
			if len(s.asked) != row.asked {
				t.Fatalf("asked %d times, want %d", len(s.asked), row.asked)
			}
			for i, r := range s.asked {
				h := r.Header
				if r.URL.Path != "/v1/events/mail" || s.bodies[i] != "1" || h.Get("Authorization") != "Bearer secret" || h.Get("Carillon-Tenant") != "t" {
					t.Errorf("try %d is %s %q with %v", i, r.URL.Path, s.bodies[i], h)
				}
				if key := h.Get("Idempotency-Key"); len(key) < 20 || key != s.asked[0].Header.Get("Idempotency-Key") {
					t.Errorf("try %d has the key %s, want one, the same each time", i, key)
				}
			}
		})
	}
}

func TestGivesUpWithItsContext(t *testing.T) {
	s := &script{answers: []func(http.ResponseWriter){refuse(503, "Retry-After", "60")}}
	c := connect(t, s.serve(t), client.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := c.Jobs.Get(ctx, "x")
	if e := new(client.Error); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) || e.RetryAfter != time.Minute {
		t.Errorf("Get = %v, want that time is up, and what was answered", err)
	}
}

func TestTimeoutOfATry(t *testing.T) {
	release := make(chan struct{})
	s := &script{answers: []func(http.ResponseWriter){func(http.ResponseWriter) { <-release }}}
	url := s.serve(t)
	t.Cleanup(func() { close(release) })
	c := connect(t, url, client.WithTimeout(50*time.Millisecond), client.WithRetries(1))
	if _, err := c.Jobs.Get(t.Context(), "x"); !errors.Is(err, context.DeadlineExceeded) || t.Context().Err() != nil {
		t.Errorf("Get = %v, want that its tries took too long", err)
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	s := &script{answers: []func(http.ResponseWriter){func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) }}}
	if _, err := connect(t, s.serve(t)).Jobs.Get(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "decode answer of GET jobs/x") {
		t.Errorf("Get = %v, want that the answer is no JSON", err)
	}
}

// TestNothingIsSent: a request that cannot mean what was meant is not sent.
func TestNothingIsSent(t *testing.T) {
	s := &script{answers: []func(http.ResponseWriter){refuse(500)}}
	c, ctx := connect(t, s.serve(t)), t.Context()
	var faults client.Faults
	if _, err := c.Jobs.Get(ctx, ""); !errors.As(err, &faults) { // the path would be that of the list
		t.Errorf("Get of no id = %v, want Faults", err)
	}
	if _, err := c.Workflows.Put(ctx, client.NewWorkflow("")); !errors.As(err, &faults) {
		t.Errorf("Put without a name = %v, want Faults", err)
	}
	if _, err := c.Jobs.Create(ctx, client.NewJob(nil)); !errors.As(err, &faults) {
		t.Errorf("Create of nothing = %v, want Faults", err)
	}
	if _, err := c.Jobs.Put(ctx, "x", client.NewJob(nil)); !errors.As(err, &faults) {
		t.Errorf("Put of nothing = %v, want Faults", err)
	}
	if _, err := c.Jobs.Patch(ctx, "x", func() {}); err == nil {
		t.Error("Patch by a function succeeds")
	}
	if len(s.asked) > 0 {
		t.Errorf("%d requests were sent, want none", len(s.asked))
	}
	for _, url := range []string{"", "127.0.0.1:8080", "ftp://x", "http://"} {
		if _, err := client.New(url); err == nil {
			t.Errorf("New(%q) succeeds", url)
		}
	}
	if _, err := client.New("http://127.0.0.1:8080", client.WithTimeout(0)); err == nil {
		t.Error("New with a time-out of 0 succeeds")
	}
}
