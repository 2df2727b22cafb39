package node

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/executor/worker"
	"carillon.dev/carillon/schema"
)

// Log and progress of a worker are readable while it works, and afterwards.
func (r *running) showWorker(g ground) {
	t, c := r.t, r.client()
	seen := make(chan struct{})
	serve(t, g.server, "work.steps", func(ctx context.Context, run worker.Run) (any, error) {
		var steps int
		if err := run.Bind(&steps); err != nil {
			return nil, err
		}
		for i := range steps {
			run.Log("step %d", i+1)
		}
		run.Progress(int64(steps), 10)
		select {
		case <-seen:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		return map[string]any{"key": run.ID, "steps": steps}, nil
	})
	job := r.ask(request.JobRequest{Work: schema.Work{NATS: &schema.NATSTarget{Subject: "work.steps"}}, Payload: json.RawMessage("3")})
	await(t, "the progress of the run is seen", func() bool {
		p := r.awaitState(job.ID, schema.StateRunning).Progress
		return p != nil && p.Done == 3 && p.Total == 10
	})
	close(seen)
	run := r.awaitState(job.ID, schema.StateSucceeded)
	attempted(t, run, schema.Succeeded)
	if a := run.Attempts[0]; a.LogLines != 3 || a.Progress == nil || a.Progress.Done != 3 || a.Output != `{"key":"`+run.ID.String()+`","steps":3}` {
		t.Errorf("attempt = %+v, want its result, three lines of log and its progress", a)
	}
	var lines []string
	for line, err := range c.Logs(t.Context(), run.ID, 0, false, 0) {
		if err != nil {
			t.Fatalf("Logs = %v", err)
		}
		lines = append(lines, line.Text)
	}
	if want := []string{"step 1", "step 2", "step 3"}; !slices.Equal(lines, want) {
		t.Errorf("log = %q, want %q", lines, want)
	}
	found := 0
	for page, err := range c.SearchLogs(t.Context(), httpapi.LogQuery{Text: "STEP 2"}) {
		if err != nil {
			t.Fatalf("SearchLogs = %v", err)
		}
		for _, line := range page.Items {
			if line.RunID == run.ID && line.Text == "step 2" {
				found++
			}
		}
	}
	if found != 1 {
		t.Errorf("a search of all logs found the second step %d times, want once", found)
	}
}

func (r *running) showScript(ground) {
	t := r.t
	needsScripts(t)
	script := func(command string, args ...string) request.JobRequest {
		return request.JobRequest{Work: schema.Work{Script: &schema.ScriptTarget{Command: command, Args: args}, Retry: often(2)}, Payload: json.RawMessage(`{"to":1}`)}
	}
	run := r.awaitState(r.ask(script("speak", "0")).ID, schema.StateSucceeded)
	attempted(t, run, schema.Succeeded)
	if a := run.Attempts[0]; a.Output != "{\"to\":1} as attempt 1\n" {
		t.Errorf("output = %q, want the payload and what was written to the other output", a.Output)
	}
	run = r.awaitState(r.ask(script("speak", "7")).ID, schema.StateFailed)
	attempted(t, run, schema.Failed, schema.Failed)
	if a := run.Attempts[1]; a.StatusCode != 7 || a.Output != "{\"to\":1} as attempt 2\n" {
		t.Errorf("last attempt = code %d, %q; want code 7 and its output", a.StatusCode, a.Output)
	}
	for what, job := range map[string]request.JobRequest{"a command that is not on the list": script("rm"), "an argument that is not": script("speak", "x")} {
		var p *httpapi.Problem
		if _, err := r.client().CreateJob(t.Context(), job); !errors.As(err, &p) || p.Status != http.StatusUnprocessableEntity {
			t.Errorf("CreateJob with %s = %v, want 422", what, err)
		}
	}
}

func (r *running) showScriptOverTime(ground) {
	t := r.t
	needsScripts(t)
	work := schema.Work{Script: &schema.ScriptTarget{Command: "deaf"}, Timeout: schema.Duration(2 * time.Second), Retry: often(1)}
	job, err := r.client().CreateJob(t.Context(), request.JobRequest{Key: uuid.NewString(), Work: work})
	if err != nil {
		t.Fatalf("CreateJob = %v", err)
	}
	run := r.awaitState(job.ID, schema.StateFailed)
	attempted(t, run, schema.TimedOut)
	if run.Attempts[0].Output != "begun\n" {
		t.Errorf("output = %q, want what it said before its time was up", run.Attempts[0].Output)
	}
	if lives(t, run.ID) {
		t.Error("a process of the run is there after its attempt, want that all have ended")
	}
}

func (r *running) showOutputs(g ground) {
	t := r.t
	kept := strings.Repeat("0123456789abcdef", maxKept/16)
	long := kept + "and more"
	url := sink(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, long) })
	serve(t, g.server, "work.long", func(context.Context, worker.Run) (any, error) { return long, nil })
	for kind, work := range map[string]schema.Work{
		"http": {HTTP: &schema.HTTPTarget{URL: url}},
		"nats": {NATS: &schema.NATSTarget{Subject: "work.long"}},
	} {
		run := r.awaitState(r.ask(request.JobRequest{Work: work}).ID, schema.StateSucceeded)
		if a := run.Attempts[0]; a.Output != kept[:2<<10] || a.OutputSize != maxKept || !a.OutputCut {
			t.Errorf("%s: attempt with %d bytes of %d, cut: %t; want the first 2 KiB of %d, and that it was cut", kind, len(a.Output), a.OutputSize, a.OutputCut, maxKept)
		}
		if out, err := r.client().Output(t.Context(), run.ID, 0); err != nil || string(out.Text) != kept || !out.Cut || out.Binary {
			t.Errorf("%s: Output = %d bytes, cut: %t, binary: %t, %v; want the first %d as they came, cut", kind, len(out.Text), out.Cut, out.Binary, err, maxKept)
		}
	}
}

func (r *running) showOutputOfAnEarlierAttempt(ground) {
	t := r.t
	again, seen := make(chan struct{}, 1), make(chan struct{})
	first, second := strings.Repeat("no", 5<<10), "yes"
	url := sink(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Carillon-Attempt") == "1" {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, first)
			return
		}
		again <- struct{}{}
		<-seen
		_, _ = io.WriteString(w, second)
	})
	release := sync.OnceFunc(func() { close(seen) })
	t.Cleanup(release) // before the sink is closed, whatever fails
	output := func(run schema.RunID, attempt, want int, text string) {
		t.Helper()
		if out, err := r.client().Output(t.Context(), run, attempt); err != nil || string(out.Text) != text || out.Attempt != want {
			t.Errorf("Output of attempt %d = %d bytes of attempt %d, %v; want %d of %d", attempt, len(out.Text), out.Attempt, err, len(text), want)
		}
	}
	job := r.ask(request.JobRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: url}, Retry: often(2)}})
	run := schema.RunID(job.ID)
	pass(t, "the second call comes", again)
	output(run, 0, 1, first)
	release()
	r.awaitState(job.ID, schema.StateSucceeded)
	output(run, 0, 2, second)
	output(run, 1, 1, first)
}
