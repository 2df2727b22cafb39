package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/dispatcher/queue/jetstream"
	"carillon.dev/carillon/dispatcher/queue/jetstream/embedded"
	"carillon.dev/carillon/executor/worker"
	"carillon.dev/carillon/schema"
)

// endless is work that lasts until it is cancelled. Both methods wait: for an attempt under way,
// and for the end of everything that it started.
type endless struct {
	work         schema.Work
	begun, ended func(run schema.RunID)
}

// An executor does not poll the store for cancels of running attempts: the node that accepts a
// cancel signals it, and the executor ends the call, whatever its kind.
func TestCancelEndsWhatAnotherNodeExecutes(t *testing.T) {
	w := newWorld(t, "api", "x")
	w.members[0].Roles, w.members[1].Roles = []string{config.Bucketer, config.Dispatcher}, []string{config.ExecutorR}
	server := natsServer(t)
	scripts := commands(t)
	nodes := make([]*running, len(w.members))
	for i, m := range w.members {
		open := w.opener(m.Name)
		open.Queue = func(ctx context.Context) (Queue, error) {
			return jetstream.Connect(ctx, jetstream.Config{Server: server, Name: m.Name, Lanes: 1, Logger: slog.New(slog.DiscardHandler)})
		}
		nodes[i] = startWith(t, m.Name, open, nil, func(c *config.Config) {
			c.Roles, c.Executor.Scripts, c.Executor.DrainTimeout = m.Roles, scripts, time.Second
		}).up()
	}
	api := nodes[0]
	for name, begin := range map[string]func(t *testing.T) endless{
		"an HTTP call":            endlessCall,
		"a script":                endlessScript,
		"a handler of the Go SDK": func(t *testing.T) endless { return endlessHandler(t, server, api) },
	} {
		t.Run(name, func(t *testing.T) {
			e := begin(t)
			run := api.cancelled(e)
			if a := run.Attempts[0]; a.Executor != "x" {
				t.Errorf("attempt by %q, want it by the other node", a.Executor)
			}
		})
	}
}

// cancelled cancels a run of endless work while it is under way, and returns it once its only
// attempt is recorded as cancelled.
func (r *running) cancelled(e endless) (run httpapi.Run) {
	r.t.Helper()
	job := r.ask(request.JobRequest{Work: e.work})
	e.begun(schema.RunID(job.ID))
	if run, err := r.client().CancelRun(r.t.Context(), schema.RunID(job.ID)); err != nil {
		r.t.Fatalf("CancelRun = %s, %v", run.State, err)
	}
	e.ended(schema.RunID(job.ID))
	await(r.t, "the attempt is recorded", func() bool {
		run = r.awaitState(job.ID, schema.StateCancelled)
		return len(run.Attempts) == 1 && run.Attempts[0].Outcome != ""
	})
	if a := run.Attempts[0]; a.Outcome != schema.Cancelled {
		r.t.Errorf("attempt = %s, want cancelled", a.Outcome)
	}
	return run
}

// ask makes a job. The time-out of its attempts is longer than any test, so that only a cancel ends
// one.
func (r *running) ask(job request.JobRequest) httpapi.Job {
	r.t.Helper()
	job.Key, job.Work.Timeout = uuid.NewString(), schema.Duration(time.Hour)
	made, err := r.client().CreateJob(r.t.Context(), job)
	if err != nil {
		r.t.Fatalf("CreateJob = %v", err)
	}
	return made
}

// natsServer runs a NATS server in this process until the test ends.
func natsServer(t *testing.T) *embedded.Server {
	t.Helper()
	server, err := embedded.Start(embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatalf("start nats: %v", err)
	}
	t.Cleanup(server.Close)
	return server
}

// pass waits for an event.
func pass[T any](t *testing.T, what string, event <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-event:
	case <-time.After(patience):
		t.Fatalf("it does not come about that %s", what)
	}
	return v
}

// endlessCall is a call that is not answered. Its receiver sees when the caller hangs up.
func endlessCall(t *testing.T) endless {
	t.Helper()
	begun, gone, over := make(chan struct{}, 8), make(chan struct{}, 8), make(chan struct{})
	url := sink(t, func(_ http.ResponseWriter, r *http.Request) {
		// the end of a request is seen only once its body was read
		_, _ = io.Copy(io.Discard, r.Body)
		begun <- struct{}{}
		select {
		case <-r.Context().Done():
			gone <- struct{}{}
		case <-over:
		}
	})
	t.Cleanup(func() { close(over) }) // before the sink is closed, whatever fails
	return endless{
		work:  schema.Work{HTTP: &schema.HTTPTarget{URL: url}},
		begun: func(schema.RunID) { t.Helper(); pass(t, "the call comes", begun) },
		ended: func(schema.RunID) { t.Helper(); pass(t, "the caller goes", gone) },
	}
}

// endlessHandler is a handler that a worker runs. Only a handler that has logged can be told why it
// must end, so it counts as begun once the API shows its first line.
func endlessHandler(t *testing.T, server *embedded.Server, api *running) endless {
	t.Helper()
	const subject = "work.endless"
	causes := make(chan error, 8)
	serve(t, server, subject, func(ctx context.Context, run worker.Run) (any, error) {
		run.Log("begun")
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	})
	return endless{
		work: schema.Work{NATS: &schema.NATSTarget{Subject: subject}},
		begun: func(run schema.RunID) {
			t.Helper()
			if line := api.firstLine(run); line.Text != "begun" {
				t.Errorf("the first line of the log is %q, want begun", line.Text)
			}
		},
		ended: func(schema.RunID) {
			t.Helper()
			if cause := pass(t, "the handler's context ends", causes); !errors.Is(cause, worker.ErrCancelled) {
				t.Errorf("the handler's context ends with %v, want %v", cause, worker.ErrCancelled)
			}
		},
	}
}

// serve makes a worker run h for messages on a subject, until the test ends.
func serve(t *testing.T, server *embedded.Server, subject string, h worker.Handler) {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(server))
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	w := worker.New(nc, worker.Config{DrainTimeout: time.Second})
	w.Handle(subject, h)
	ctx, cancel := context.WithCancel(context.Background())
	var works sync.WaitGroup
	works.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Errorf("Run of the worker = %v, want nil", err)
		}
	})
	t.Cleanup(func() { cancel(); works.Wait(); nc.Close() })
	await(t, "the worker listens", func() bool {
		_, err := nc.Request(subject, nil, 20*time.Millisecond) // no run: it is passed over
		return !errors.Is(err, nats.ErrNoResponders)
	})
}

// firstLine waits for what a worker logs first.
func (r *running) firstLine(run schema.RunID) httpapi.LogLine {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for line, err := range r.client().Logs(ctx, run, 0, true, 20*time.Millisecond) {
		if err != nil {
			r.t.Fatalf("Logs = %v", err)
		}
		return line
	}
	r.t.Fatal("Logs ends without a line")
	return httpapi.LogLine{}
}

const sleep, shell = "/bin/sleep", "/bin/sh"

// commands writes the list of scripts of a node. endless sleeps for longer than any test; deaf does
// so in two processes that ignore SIGTERM; speak writes its input to both outputs and exits with
// the code that is its argument.
func commands(t *testing.T) (file string) {
	t.Helper()
	user := ""
	if os.Geteuid() == 0 {
		user = "root"
	}
	list, err := json.Marshal(map[string]any{"commands": map[string]any{
		"endless": map[string]any{"path": sleep, "args": []string{"1000"}, "user": user},
		"deaf":    map[string]any{"path": shell, "args": []string{"-c", `trap "" TERM; echo begun; ` + sleep + " 1000 & " + sleep + " 1000"}, "user": user, "grace": "50ms"},
		"speak":   map[string]any{"path": shell, "args": []string{"-c", `cat; echo " as attempt $CARILLON_ATTEMPT" >&2; exit $0`}, "allow_args": []string{"[0-9]"}, "user": user},
	}})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "scripts.yaml") // JSON is YAML
	if err := os.WriteFile(file, list, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// needsScripts skips a test where the programs that it runs are missing.
func needsScripts(t *testing.T) {
	t.Helper()
	for _, path := range []string{sleep, shell} {
		if _, err := os.Stat(path); err != nil || runtime.GOOS != "linux" {
			t.Skipf("scripts are run on Linux only, and this one needs %s: %v", path, err)
		}
	}
}

// endlessScript is a process.
func endlessScript(t *testing.T) endless {
	t.Helper()
	needsScripts(t)
	return endless{
		work: schema.Work{Script: &schema.ScriptTarget{Command: "endless"}},
		begun: func(run schema.RunID) {
			t.Helper()
			await(t, "the process is there", func() bool { return lives(t, run) })
		},
		ended: func(run schema.RunID) {
			t.Helper()
			await(t, "the process is gone", func() bool { return !lives(t, run) })
		},
	}
}

// lives reports whether there is a process of a run: it has its id in its environment.
func lives(t *testing.T, run schema.RunID) bool {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		env, _ := os.ReadFile(file) // of a dead one, and of those of others: empty
		if bytes.Contains(env, []byte("CARILLON_RUN_ID="+run.String())) {
			return true
		}
	}
	return false
}
