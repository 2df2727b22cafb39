package console

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/client"
)

// A new user: from the empty page to a job that is seen to run on its second.
func TestTourFirstJob(t *testing.T) {
	t.Parallel()
	s, sink := serve(t), StartSink(t)
	api := Ask(t, s.URL, "", "")
	p := openView(t, s.Console(), "#/")
	p.In("navigation", "Views").Click("link", "Jobs")
	p.See("There are no jobs yet")
	p.Click("link", "New job")
	p.Await("heading", "New job")
	p.Choose("It runs", "Once, at an instant")
	p.Fill("URL", sink.URL+"/hold/tour")
	p.Fill("Payload, JSON…", `{"to": "ada@example.com"}`)
	due := time.Now().UTC().Add(8 * time.Second).Truncate(time.Second)
	p.Fill("At, in UTC", due.Format("2006-01-02T15:04:05"))
	p.Click("button", "Create the job")

	p.AwaitAt("#/runs/")
	id, err := client.ParseRunID(strings.TrimPrefix(p.At(), "#/runs/"))
	must(t, id, err)
	p.See("pending")
	call := sink.Await(t, "/hold/tour", 1)[0]
	if call.At.Before(due) || call.At.Sub(due) > time.Second {
		t.Errorf("the job is called at %v, want within a second of %v", call.At, due)
	}
	if call.Body != `{"to":"ada@example.com"}` && call.Body != `{"to": "ada@example.com"}` {
		t.Errorf("the job is called with %s", call.Body)
	}
	p.See("running")
	sink.Release("/hold/tour")
	p.See("succeeded")
	run := api.AwaitRun(id, client.Succeeded)
	if run.LatenessMS == nil {
		t.Fatal("the API says no lateness")
	}
	p.In("region", "Facts").See(fmt.Sprintf("Started late by %d ms", *run.LatenessMS))

	// The list of runs has it, and leads to it.
	p.In("navigation", "Views").Click("link", "Runs")
	p.AwaitAt("#/runs")
	p.Await("table", "Runs that match")
	p.In("table", "Runs that match").See("succeeded")
}

// A job that fails is seen to be tried again, and one that fails for good lies in the dead letters.
func TestTourFailure(t *testing.T) {
	t.Parallel()
	s, sink := serve(t), StartSink(t)
	p := openView(t, s.Console(), "#/jobs/new")

	p.Choose("It runs", "Once, now")
	p.Fill("URL", sink.URL+"/first/tour")
	p.Click("DisclosureTriangle", "Time-out, retries, guarantee")
	p.Fill("First pause", "3s")
	p.Choose("Pauses", "as stated")
	p.Click("button", "Create the job")
	p.AwaitAt("#/runs/")
	p.See("retrying")
	p.See("It waits:")
	p.See("succeeded")
	p.In("table", "Attempts").See("failed")
	p.In("table", "Attempts").See("500")
	if n := len(sink.Calls("/first/tour")); n != 2 {
		t.Errorf("the job was called %d times, want 2", n)
	}

	p.Open("#/jobs/new")
	p.Choose("It runs", "Once, now")
	p.Fill("URL", sink.URL+"/once/tour")
	p.Click("button", "Create the job")
	p.See("It failed for good after 1 attempt")
	p.See("422")
	failed := p.At()
	p.Click("button", "Run again")
	p.until("the page is at the new run", func() (bool, string) { at := p.At(); return at != failed && strings.HasPrefix(at, "#/runs/"), at })
	p.See("succeeded")
	p.In("region", "Facts").See("somebody, who had a run again")
}

// A dead letter is found by its task, its error and a label, and replayed once.
func TestTourDeadLetter(t *testing.T) {
	t.Parallel()
	s, sink := serve(t), StartSink(t)
	api := Ask(t, s.URL, "", "")
	call := client.HTTP(sink.URL + "/once/letter").Retry(client.RetryPolicy{MaxAttempts: 1})
	_, err := api.Tasks.Put(t.Context(), "charge-card", call, client.TaskSettings{})
	orFail(t, err)
	made, err := api.Jobs.Create(t.Context(), client.NewJob(client.Task("charge-card")).Payload(map[string]any{"customer": 17}).Label("team", "billing"))
	id := runOf(t, must(t, made, err))
	api.AwaitRun(id, client.Failed)

	p := openView(t, s.Console(), "#/dead-letters")
	p.See("charge-card")
	p.See("422")
	p.See("the books are closed")
	p.Fill("Label", "team=sales")
	p.See("No dead letter matches")
	p.Fill("Label", "team=billing")
	p.AwaitAt("#/dead-letters?label=team%3Dbilling")
	p.In("table", "Dead letters by task and error").See("the books are closed")
	p.Open("#/dead-letters/" + id.String())
	p.See("the books are closed")
	p.Click("button", "Replay")
	p.AwaitAt("#/runs/")
	replay := p.At()
	sink.Await(t, "/once/letter", 2)
	p.See("succeeded")
	p.In("region", "Facts").Click("link", id.String())
	p.AwaitAt("#/runs/" + id.String())
	p.See("It was replayed: its new run.")
	p.In("region", "Facts").See("Replayed as")
	p.In("region", "Facts").Click("link", strings.TrimPrefix(replay, "#/runs/"))
	p.AwaitAt(replay)
	p.Open("#/dead-letters/" + id.String())
	p.See("had it run again")
	p.See("its new run")
	p.Gone("button", "Replay")
	p.Open("#/dead-letters?state=replayed")
	p.In("table", "The new runs").See("succeeded")
	if n := len(sink.Calls("/once/letter")); n != 2 {
		t.Errorf("the job was called %d times, want 2", n)
	}
}

// A recurring job with a preview over changes of the clock: what the page shows is what the API says.
func TestTourClockChanges(t *testing.T) {
	t.Parallel()
	s := serve(t)
	api := Ask(t, s.URL, "", "")
	p := openView(t, s.Console(), "#/jobs/new", InZone("America/New_York"))
	spring, autumn := lastSunday(time.March), lastSunday(time.October)
	for _, row := range []struct {
		day    time.Time // with a change of the clock
		shown  []string
		choose [2]string // a list and an option; none if empty
	}{
		{day: spring, shown: []string{"03:00 +02:00"}}, // there is no 02:30
		{day: autumn, shown: []string{"02:30 +02:00"}}, // there are two
		{
			day: autumn, shown: []string{"02:30 +02:00", "02:30 +01:00"},
			choose: [2]string{"A time that the clock has twice", "runs both times"},
		},
	} {
		cron := fmt.Sprintf("30 2 %d %d *", row.day.Day(), row.day.Month())
		schedule := map[string]any{"cron": cron, "timezone": "Europe/Berlin"}
		p.Fill("Cron expression", cron)
		p.Fill("Time zone…", "Europe/Berlin")
		if row.choose[0] != "" {
			p.Choose(row.choose[0], row.choose[1])
			schedule["overlap_hour"] = "both"
		}
		var preview struct {
			Description string
			Times       []time.Time
			Notes       []string
		}
		api.Do("POST", "/v1/schedules/preview", map[string]any{"schedule": schedule, "count": 10}, &preview)
		if len(preview.Notes) == 0 {
			t.Fatalf("the API has no note on %v", schedule)
		}
		shown := p.In("complementary", "When it will run")
		for _, text := range append(append([]string{preview.Description, row.day.Format("2 Jan 2006")}, preview.Notes...), row.shown...) {
			shown.See(text)
		}
		// The zone of the person stands beside the job's.
		berlin, newYork := location(t, "Europe/Berlin"), location(t, "America/New_York")
		for _, at := range preview.Times[:2] {
			shown.See(at.In(berlin).Format("15:04"))
			shown.See(at.In(newYork).Format("15:04"))
		}
	}

	// The job is made, and says its next runs in both zones.
	sink := StartSink(t)
	p.Open("#/jobs")
	p.See("What you have typed is not saved.") // the form asks before it is left
	p.Click("button", "Leave, and lose it")
	p.Await("heading", "Jobs")
	p.Open("#/jobs/new")
	p.Fill("URL", sink.URL+"/ok/nightly")
	p.Fill("Name (may be left out)", "nightly")
	p.Fill("Cron expression", "30 2 * * *")
	p.Fill("Time zone…", "Europe/Berlin")
	p.Click("button", "Create the job")
	p.AwaitAt("#/jobs/nightly")
	job, err := api.Jobs.Upcoming(t.Context(), "nightly", 10)
	job = must(t, job, err)
	next := p.In("region", "Next runs")
	for _, run := range job[:3] {
		next.See(run.DueAt.In(location(t, "Europe/Berlin")).Format("15:04:05"))
		next.See(run.DueAt.In(location(t, "America/New_York")).Format("15:04:05"))
	}
	// A run now, by hand.
	p.Click("button", "Run now")
	p.AwaitAt("#/runs/")
	p.See("succeeded")
}

// lastSunday returns the next last Sunday of a month: then Europe changes its clocks.
func lastSunday(month time.Month) time.Time {
	for year := time.Now().Year(); ; year++ {
		last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC)
		if day := last.AddDate(0, 0, -int(last.Weekday())); day.After(time.Now().Add(24 * time.Hour)) {
			return day
		}
	}
}

func location(t testing.TB, name string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(name)
	return must(t, l, err)
}

// What the API finds wrong stands at its field, and somebody else's change is brought together with
// one's own.
func TestTourChangeOfAJob(t *testing.T) {
	t.Parallel()
	s, sink := serve(t), StartSink(t)
	api := Ask(t, s.URL, "", "")
	p := openView(t, s.Console(), "#/jobs/new")
	p.Expect("422 (Unprocessable Entity)")
	p.Expect("412 (Precondition Failed)")
	p.Fill("URL", "ftp://example.com/")
	p.Fill("Name (may be left out)", "Not A Name")
	p.Click("button", "Create the job")
	p.See("The job was not created")
	for _, label := range []string{"URL", "Name (may be left out)"} {
		if p.Is("field", label, "invalid") != "true" {
			t.Errorf("the field %q is not marked as wrong", label)
		}
	}
	p.Fill("URL", sink.URL+"/ok/changed")
	p.Fill("Name (may be left out)", "weekly")
	p.Click("button", "Create the job")
	p.AwaitAt("#/jobs/weekly")

	p.Click("link", "Edit")
	p.Await("heading", "Change weekly")
	p.Choose("Priority", "high")
	api.Do("PATCH", "/v1/jobs/weekly", map[string]any{"labels": map[string]any{"team": "billing"}}, nil)
	p.Click("button", "Change the job")
	p.Await("dialog", "")
	p.Axe("the dialogue that brings changes together")
	p.In("dialog", "").Click("button", "Save both together")
	p.Await("heading", "weekly") // of the job, no longer of its form
	var job struct {
		Priority string
		Labels   map[string]string
	}
	api.Do("GET", "/v1/jobs/weekly", nil, &job)
	if job.Priority != "high" || job.Labels["team"] != "billing" {
		t.Errorf("the job has the priority %q and the labels %v, want both changes", job.Priority, job.Labels)
	}
}

// An import of 100,000 lines: the page is loaded anew midway, the person picks the file again, and in
// the end each line is there once.
func TestTourImport(t *testing.T) {
	t.Parallel()
	s, sink := serve(t), StartSink(t)
	p := openView(t, s.Console(), "#/import")
	const lines = 100_000
	file := filepath.Join(t.TempDir(), "jobs.ndjson")
	text := append(importLines(sink.URL, lines), []byte(`{"http": {"url": "nowhere"}}`+"\n")...)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	p.Expect("beforeunload") // the browser asks whether to leave
	p.Upload("Choose a file", file)
	p.Click("button", "Import the file")
	p.until("some lines are there", func() (bool, string) { return p.watch.requests("POST", "/v1/imports") > 8, "few requests" })
	p.Reload()
	p.Settled()
	p.See("Pick the file again and it goes on.")
	p.Upload("Choose a file", file)
	p.See("It is the file that was begun")
	p.Click("button", "Go on")
	p.within(3*time.Minute).Await("button", "Import another file")
	p.In("region", "Import of jobs.ndjson").See("Lines answered 100,001")
	p.Axe("an import that has ended")
	p.In("table", "Lines that failed").InRow("100,001").See("http.url must be an absolute http or https URL")
	failed := p.Download("button", "Save the failed lines")
	if got := strings.TrimSpace(failed); got != `{"http": {"url": "nowhere"}}` {
		t.Errorf("the file of failed lines has %s", cut(got))
	}
	n := 0
	api := Ask(t, s.URL, "", "")
	from := time.Now().Add(50 * time.Minute)
	for _, err := range api.Runs.List(t.Context(), client.RunQuery{From: from, To: from.Add(30 * time.Minute)}) {
		orFail(t, err)
		n++
	}
	if n != lines {
		t.Errorf("%d runs are there, want each of %d lines once", n, lines)
	}
}

// A workflow is watched while it runs, waits for an approval, fails, and is run again from there.
func TestTourWorkflow(t *testing.T) {
	t.Parallel()
	s, sink := serve(t), StartSink(t)
	api := Ask(t, s.URL, "", "")
	call := func(path string) *client.Call {
		return client.HTTP(sink.URL + path).Retry(client.RetryPolicy{MaxAttempts: 1})
	}
	w := client.NewWorkflow("release")
	draft := w.Step("draft", call("/hold/draft"))
	approve := w.Step("approve", client.WaitForEvent("approved")).After(draft)
	w.Step("publish", call("/once/publish")).After(approve)
	_, err := api.Workflows.Put(t.Context(), w)
	orFail(t, err)
	run, err := api.Workflows.Trigger(t.Context(), "release", map[string]any{"version": "1.4.0"})
	id := must(t, run, err).ID

	p := openView(t, s.Console(), "#/workflow-runs/"+id.String())
	p.See("draft")
	p.See("running")
	sink.Await(t, "/hold/draft", 1)
	sink.Release("/hold/draft")
	p.See("waiting")
	p.Click("button", "Approve: publish approved")
	p.In("dialog", "").See("Nobody else hears it.")
	p.In("dialog", "").Click("button", "Approve")
	p.See("1 step failed.")
	p.Click("button", "Retry from what failed")
	p.In("dialog", "").See("2 steps that succeeded are taken over")
	p.In("dialog", "").Click("button", "Retry")
	p.until("the page is at the new run", func() (bool, string) {
		at := p.At()
		return strings.HasPrefix(at, "#/workflow-runs/") && !strings.Contains(at, id.String()), at
	})
	p.See("succeeded")
	if n := len(sink.Calls("/hold/draft")); n != 1 {
		t.Errorf("the step that had succeeded was called %d times, want once", n)
	}
}

// Pause everything of a team: a dry run counts, the person confirms, the operation shows how far it is.
func TestTourOperation(t *testing.T) {
	t.Parallel()
	s, sink := serve(t), StartSink(t)
	api := Ask(t, s.URL, "", "")
	const jobs = 30
	for i := range jobs {
		name := fmt.Sprintf("billing-%02d", i)
		_, err := api.Jobs.Put(t.Context(), name, client.NewJob(client.HTTP(sink.URL+"/ok/billing")).Name(name).
			Schedule(client.Cron("0 3 * * *", "UTC")).Label("team", "billing"))
		orFail(t, err)
	}
	_, err := api.Jobs.Put(t.Context(), "other", client.NewJob(client.HTTP(sink.URL+"/ok/other")).Name("other").Schedule(client.Cron("0 3 * * *", "UTC")))
	orFail(t, err)

	p := openView(t, s.Console(), "#/jobs")
	p.Fill("Label", "team=billing")
	p.until("the filter stands in the address", func() (bool, string) { at := p.At(); return strings.Contains(at, "label=team%3Dbilling"), at })
	p.Await("link", "billing-00")
	p.Gone("link", "other")
	p.In("group", "With many jobs").Click("button", "all that match")
	p.In("group", "With many jobs").Click("button", "Pause")
	dialogue := p.In("dialog", "")
	dialogue.See("30 match.")
	dialogue.Fill("Type 30 to confirm", "30")
	dialogue.Click("button", "Pause 30 jobs")
	p.AwaitAt("#/operations/")
	p.SeeAny("done", "30 of 30")
	paused := 0
	for job, err := range api.Jobs.List(t.Context(), client.JobQuery{}) {
		orFail(t, err)
		if job.State == client.JobPaused {
			paused++
		}
	}
	if paused != jobs {
		t.Errorf("%d jobs are paused, want the %d that the dry run counted", paused, jobs)
	}
}

// All runs that match a label and a job are cancelled as one operation, and no other.
func TestTourOperationOnRuns(t *testing.T) {
	t.Parallel()
	s, sink := serve(t), StartSink(t)
	api := Ask(t, s.URL, "", "")
	const runs = 12
	due := time.Now().Add(time.Hour).Truncate(time.Second)
	for i := range runs + 3 {
		team := "billing"
		if i >= runs {
			team = "other"
		}
		_, err := api.Jobs.Create(t.Context(), client.NewJob(client.HTTP(sink.URL+"/ok/"+team)).At(due).Label("team", team).Label("tour", "runs"))
		orFail(t, err)
	}
	p := openView(t, s.Console(), fmt.Sprintf("#/runs?label=team%%3Dbilling&label=tour%%3Druns&from=%s&to=%s",
		url.QueryEscape(due.Add(-time.Minute).UTC().Format(time.RFC3339)), url.QueryEscape(due.Add(time.Minute).UTC().Format(time.RFC3339))))
	p.In("group", "With many runs").Click("button", "all that match")
	p.In("group", "With many runs").Click("button", "Cancel")
	dialogue := p.In("dialog", "")
	dialogue.See("12 match.")
	dialogue.Fill("Type 12 to confirm", "12")
	dialogue.Click("button", "Cancel 12 runs")
	p.AwaitAt("#/operations/")
	p.SeeAny("done", "12 of 12")
	states := make(map[string]int)
	for run, err := range api.Runs.List(t.Context(), client.RunQuery{From: due.Add(-time.Minute), To: due.Add(time.Minute), Labels: map[string]string{"tour": "runs"}}) {
		orFail(t, err)
		states[run.Labels["team"]+" "+string(run.State)]++
	}
	if states["billing cancelled"] != runs || states["other pending"] != 3 {
		t.Errorf("in the end %v, want the %d runs of billing cancelled, and 3 of others pending", states, runs)
	}
}

// A viewer sees no button that is not for them, and the server refuses what no button offers.
func TestTourViewer(t *testing.T) {
	t.Parallel()
	s, sink := serveSecured(t), StartSink(t)
	operator := Ask(t, s.URL, s.Keys["operator"], "")
	_, err := operator.Jobs.Put(t.Context(), "nightly", client.NewJob(client.HTTP(sink.URL+"/ok/nightly")).Name("nightly").Schedule(client.Cron("0 3 * * *", "UTC")))
	orFail(t, err)

	p := open(t, s.Console())
	p.Expect("401 (Unauthorized)")
	p.Expect("403 (Forbidden)")
	p.Open("#/jobs/nightly")
	p.See("Log in")
	p.Fill("API key", "not-a-key")
	p.Click("button", "Log in")
	p.See("The key is not known, was revoked, or has expired.")
	logIn(p, s.Keys["viewer"])
	p.Await("heading", "nightly") // where the person was
	p.See("viewer")
	for _, button := range []string{"Pause", "Run now", "Backfill", "Cancel"} {
		if p.Has("button", button) {
			t.Errorf("a viewer sees the button %q", button)
		}
	}
	for _, link := range []string{"Edit", "API keys", "Signing keys", "Audit", "Tenants"} {
		if p.Has("link", link) {
			t.Errorf("a viewer sees the link %q", link)
		}
	}
	status := evaluate[int](p, `fetch(new URL('../v1/jobs/nightly/pause', location.href.replace(/#.*/, '')), { method: 'POST' }).then((r) => r.status)`)
	if status != http.StatusForbidden {
		t.Errorf("a viewer's request to pause is answered %d, want 403", status)
	}
	if kept := evaluate[string](p, "JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.cookie"); strings.Contains(kept, s.Keys["viewer"]) {
		t.Errorf("scripts can read the key: %s", kept)
	}
	p.Click("button", "Log out")
	p.See("Log in")
	p.Gone("heading", "nightly")
	p.Reload()
	p.See("Log in")
}

// logIn exchanges a key for a session, on the page for it.
func logIn(p *Page, key string) {
	p.t.Helper()
	p.Await("heading", "Log in")
	p.Fill("API key", key)
	p.Click("button", "Log in")
	p.Gone("heading", "Log in")
	p.Settled()
}

// On a node that takes no changes nobody is offered any.
func TestTourReadOnly(t *testing.T) {
	t.Parallel()
	s := serve(t, "CARILLON_API_READ_ONLY=true")
	p := openView(t, s.Console(), "#/jobs")
	p.See("This node takes no changes")
	if p.Has("link", "New job") {
		t.Error("a node that takes no changes offers to make a job")
	}
	p.Expect("403 (Forbidden)")
	status := evaluate[int](p, `fetch(new URL('../v1/events/a', location.href.replace(/#.*/, '')), { method: 'POST', body: '{}', headers: { 'Content-Type': 'application/json' } }).then((r) => r.status)`)
	if status != http.StatusForbidden {
		t.Errorf("an event on a node that takes no changes is answered %d, want 403", status)
	}
}
