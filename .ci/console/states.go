package console

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/client"
)

// A World is a server with a thing of each kind in each state, for views that show something.
type World struct {
	Server *Server
	Sink   *Sink
	API    *API

	// Runs by the name of their state: "succeeded", "failed", "retrying", "running", "late", "missed",
	// "cancelled", "deferred", "waiting", "pending".
	Runs map[string]client.RunID
	// Runs of workflows: "fan-out", "waits" (for an approval), "failed", "wide" (990 steps).
	Workflows map[string]client.RunID
	Operation string // the id of one
}

// absent is the id of a run that no server has.
const absent = "01890000-0000-8000-8000-000000000000"

// run returns the id of a run by the name of its state, and absent if the world has none.
func (w *World) run(name string) string {
	if id, ok := w.Runs[name]; ok {
		return id.String()
	}
	return absent
}

// workflowRun is run for those of workflows.
func (w *World) workflowRun(name string) string {
	if id, ok := w.Workflows[name]; ok {
		return id.String()
	}
	return absent
}

// nasty are texts of others that must change nothing but themselves.
var nasty = map[string]string{
	"html":  `<img src=x onerror="alert(1)"><script>document.title = 'owned'</script><b>bold</b>`,
	"rtl":   "\u202Eevil gpj.exe\u202C \u05E9\u05DC\u05D5\u05DD \u0627\u0644\u0633\u0644\u0627\u0645",
	"emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 Z̴̢̛a̷l̶g̵o̸ ﷽",
}

// NewWorld starts a server and makes the world on it. It takes some ten seconds.
func NewWorld(t testing.TB) *World {
	t.Helper()
	w := &World{Server: StartServer(t), Sink: StartSink(t), Runs: map[string]client.RunID{}, Workflows: map[string]client.RunID{}}
	w.API = Ask(t, w.Server.URL, "", "")
	w.tasks(t)
	w.stopped(t)
	w.jobs(t)
	w.workflows(t)
	w.rest(t)
	return w
}

// tasks makes tasks.
func (w *World) tasks(t testing.TB) {
	t.Helper()
	once := client.RetryPolicy{MaxAttempts: 1}
	for _, task := range []struct {
		name, path string
		call       func(*client.Call) *client.Call
		settings   client.TaskSettings
	}{
		{"send-email", "/ok/email", nil, client.TaskSettings{Description: "Sends one message"}},
		{"charge-card", "/refuse/card", func(c *client.Call) *client.Call { return c.Retry(once) }, client.TaskSettings{Description: nasty["html"]}},
		{"sync-crm", "/fail/crm", func(c *client.Call) *client.Call {
			return c.Retry(client.RetryPolicy{MaxAttempts: 9, Initial: client.Duration(10 * time.Minute), Jitter: "none"})
		}, client.TaskSettings{}},
		{"render-video", "/hold/video", func(c *client.Call) *client.Call { return c.Timeout(10 * time.Minute) }, client.TaskSettings{MaxConcurrent: 1}},
		{"ask-partner", "/ok/partner", nil, client.TaskSettings{Rate: "1/h"}},
		{"echo", "/echo/any", nil, client.TaskSettings{}},
	} {
		call := client.HTTP(w.Sink.URL + task.path)
		if task.call != nil {
			call = task.call(call)
		}
		_, err := w.API.Tasks.Put(t.Context(), task.name, call, task.settings)
		orFail(t, err)
	}
}

// stopped has jobs become due while the server is away: one is late then, and one is missed.
func (w *World) stopped(t testing.TB) {
	t.Helper()
	due := time.Now().Add(1500 * time.Millisecond)
	late, err := w.API.Jobs.Create(t.Context(), client.NewJob(client.Task("send-email")).At(due).Label("team", "billing"))
	orFail(t, err)
	missed, err := w.API.Jobs.Create(t.Context(),
		client.NewJob(client.Task("send-email")).At(due).Misfire(client.SkipMissed, time.Second).Label("team", "billing"))
	orFail(t, err)
	w.Server.Stop()
	await(patience, func() (bool, string) { return time.Since(due) > 3*time.Second, "" })
	w.Server.Start()
	w.Runs["late"] = runOf(t, late)
	w.Runs["missed"] = runOf(t, missed)
	w.API.AwaitRun(w.Runs["late"], client.Succeeded)
	w.API.AwaitRun(w.Runs["missed"], client.Missed)
}

// runOf returns the run of a one-off job, which has its id.
func runOf(t testing.TB, j client.JobInfo) client.RunID {
	t.Helper()
	id, err := client.ParseRunID(j.ID.String())
	return must(t, id, err)
}

// once creates a one-off job that is due now, and returns its run.
func (w *World) once(t testing.TB, job *client.Job) client.RunID {
	t.Helper()
	made, err := w.API.Jobs.Create(t.Context(), job)
	return runOf(t, must(t, made, err))
}

// jobs makes jobs and runs of each state.
func (w *World) jobs(t testing.TB) {
	t.Helper()
	plain := func(task string) *client.Job { return client.NewJob(client.Task(task)).Label("team", "billing") }
	w.Runs["succeeded"] = w.once(t, plain("echo").Payload(nasty).Label("text", nasty["emoji"][:4]))
	w.Runs["failed"] = w.once(t, plain("charge-card").Payload(map[string]any{"customer": 17}))
	w.once(t, plain("charge-card").Payload(map[string]any{"customer": 18}))
	w.Runs["retrying"] = w.once(t, plain("sync-crm"))
	w.Runs["running"] = w.once(t, plain("render-video"))
	w.API.AwaitRun(w.Runs["running"], client.Running)
	w.once(t, plain("render-video")) // waits for the limit
	w.once(t, plain("ask-partner"))
	w.Runs["deferred"] = w.once(t, plain("ask-partner"))
	w.Runs["pending"] = w.once(t, plain("send-email").At(time.Now().Add(40*time.Minute)))
	w.Runs["cancelled"] = w.once(t, plain("send-email").At(time.Now().Add(50*time.Minute)))
	_, err := w.API.Runs.Cancel(t.Context(), w.Runs["cancelled"])
	orFail(t, err)
	for i := range 60 { // more than a page
		w.once(t, plain("echo").Payload(map[string]any{"number": i}))
	}
	// With all else that is due within a day it is well below half a page: see
	// loadAsksWhatThePageAsks.
	for i := range 10 {
		w.once(t, plain("send-email").At(time.Now().Add(time.Duration(10+i)*time.Minute)))
	}

	put := func(name string, job *client.Job) {
		_, err := w.API.Jobs.Put(t.Context(), name, job.Name(name))
		orFail(t, err)
	}
	put("nightly-report", plain("echo").Schedule(client.Cron("30 2 * * *", "Europe/Berlin")).Payload(map[string]any{"report": "books"}))
	put("each-second", plain("echo").Schedule(client.Every(time.Second)))
	put("paused-one", plain("send-email").Schedule(client.Cron("0 9 * * MON-FRI", "America/New_York")))
	_, err = w.API.Jobs.Pause(t.Context(), "paused-one")
	orFail(t, err)
	put("finished-one", plain("send-email").Schedule(client.Every(time.Second).MaxRuns(1)))
	put("cancelled-one", plain("send-email").Schedule(client.Cron("0 0 1 1 *", "UTC")))
	_, err = w.API.Jobs.Cancel(t.Context(), "cancelled-one")
	orFail(t, err)
	put("on-upload", plain("echo").On("file.uploaded", client.Filter("event.region == 'eu'")))
	put("after-nightly", plain("echo").After("nightly-report"))
	before := w.once(t, plain("render-video"))
	w.Runs["waiting"] = w.once(t, client.NewJob(client.Task("echo")).After(before.String()))
	_, err = w.API.Jobs.Trigger(t.Context(), "nightly-report")
	orFail(t, err)
	// a change, for the audit and its differences
	put("nightly-report", plain("echo").Schedule(client.Cron("30 2 * * *", "Europe/Berlin")).Payload(map[string]any{"report": "ledger"}))

	w.API.AwaitRun(w.Runs["succeeded"], client.Succeeded)
	w.API.AwaitRun(w.Runs["failed"], client.Failed)
	w.API.AwaitRun(w.Runs["retrying"], client.Retrying)
}

// workflows makes workflows and runs of them.
func (w *World) workflows(t testing.TB) {
	t.Helper()
	call := func(path string) *client.Call {
		return client.HTTP(w.Sink.URL + path).Retry(client.RetryPolicy{MaxAttempts: 1})
	}
	etl := client.NewWorkflow("etl").Label("team", "data").Schedule(client.Cron("0 2 * * *", "Europe/Berlin"))
	extract := etl.Step("extract", call("/list/etl"))
	transform := etl.Step("transform", call("/echo/etl")).After(extract).ForEach(extract.Output("/files"), client.MaxConcurrent(2)).
		Payload(map[string]any{"file": client.Item("")})
	load := etl.Step("load", call("/echo/load")).After(transform)
	etl.Step("alert", call("/ok/alert")).After(load).When(client.AnyFailed)

	approval := client.NewWorkflow("approval").Label("team", "release")
	draft := approval.Step("draft", call("/echo/draft"))
	wait := approval.Step("approve", client.WaitForEvent("approved")).After(draft)
	approval.Step("publish", call("/ok/publish")).After(wait)

	books := client.NewWorkflow("books")
	open := books.Step("open", call("/ok/open"))
	post := books.Step("post", call("/refuse/post")).After(open)
	books.Step("close", call("/ok/close")).After(post)

	wide := client.NewWorkflow("wide")
	gate := wide.Step("begin", call("/ok/begin"))
	var row []*client.Step
	for i := range 38 {
		at := gate
		for j := range 26 {
			at = wide.Step(fmt.Sprintf("part-%d-%d", i, j), client.WaitFor(time.Duration(1+j)*time.Hour)).After(at)
		}
		row = append(row, at)
	}
	wide.Step("end", call("/ok/end")).After(row...)

	for name, of := range map[string]*client.Workflow{"fan-out": etl, "waits": approval, "failed": books, "wide": wide} {
		made, err := w.API.Workflows.Put(t.Context(), of)
		made = must(t, made, err)
		run, err := w.API.Workflows.Trigger(t.Context(), made.Name, map[string]any{"version": "1.4.0"})
		w.Workflows[name] = must(t, run, err).ID
	}
	w.API.AwaitRun(w.Workflows["fan-out"], client.Succeeded)
	w.API.AwaitRun(w.Workflows["waits"], client.Waiting)
	w.API.AwaitRun(w.Workflows["failed"], client.Failed)
}

// rest makes events, secrets, operations, tenants and keys.
func (w *World) rest(t testing.TB) {
	t.Helper()
	for _, region := range []string{"eu", "us"} {
		_, err := w.API.Events.Publish(t.Context(), "file.uploaded", map[string]any{"region": region, "name": nasty["html"]})
		orFail(t, err)
	}
	type object = map[string]any
	w.API.Do("PUT", "/v1/secrets/mail-password", object{"value": "correct horse battery staple"}, nil)
	w.API.Do("PUT", "/v1/notifications/billing", object{
		"on": []string{"failed", "missed"}, "match": object{"job": "nobody"}, "description": nasty["html"],
		"sinks": []object{{"email": object{"to": []string{"ops@example.com"}, "from": "carillon@example.com", "server": object{"host": "smtp.example.com"}}}},
	}, nil)
	w.API.Do("PUT", "/v1/tenants/acme", object{"weight": 3, "quotas": object{"jobs": 1000, "runs_per_minute": 600}}, nil)
	w.API.Do("POST", "/v1/api-keys", object{"name": "deploy", "role": "operator"}, nil)
	w.API.Do("POST", "/v1/api-keys", object{"name": "wall-screen", "role": "viewer", "expires_at": time.Now().Add(240 * time.Hour).UTC()}, nil)
	w.API.Do("POST", "/v1/signing-keys", object{"name": "default"}, nil)
	var begun struct {
		ID string
	}
	w.API.Do("POST", "/v1/operations", object{"action": "pause", "filter": object{"label": "team=nobody"}, "dry_run": true}, nil)
	w.API.Do("POST", "/v1/operations", object{"action": "resume", "filter": object{"label": "team=billing"}}, &begun)
	w.Operation = begun.ID
	there, ok := await(patience, func() (bool, string) {
		var is struct{ State string }
		w.API.Do("GET", "/v1/operations/"+w.Operation, nil, &is)
		return is.State == "done", is.State
	})
	if !ok {
		t.Fatalf("the operation is %s, want done", there)
	}
	_, err := w.API.Jobs.Pause(t.Context(), "paused-one") // the operation has resumed it
	orFail(t, err)
}

// importLines returns an import of n jobs that are due in an hour, each with its key.
func importLines(url string, n int) []byte {
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	var text []byte
	for i := range n {
		line, err := json.Marshal(map[string]any{
			"key": fmt.Sprintf("line-%d", i), "schedule": map[string]any{"at": at.Add(time.Duration(i%600) * time.Second)},
			"http": map[string]any{"url": url + "/ok/import"}, "payload": map[string]any{"number": i},
		})
		if err != nil {
			panic(err) // maps of texts always can
		}
		text = append(append(text, line...), '\n')
	}
	return text
}
