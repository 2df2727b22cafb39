package worker_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/queue/jetstream"
	"carillon.dev/carillon/dispatcher/queue/jetstream/embedded"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// pythonDir is where the example lies.
const pythonDir = "../../deploy/examples/python-worker"

// python returns an interpreter that has what the example needs: an environment of its own, kept
// for as long as the requirements are the same. Where there is no Python the test is left out, and
// says so; in CI that is a failure.
func python(t *testing.T) string {
	t.Helper()
	missing := func(why string, args ...any) {
		t.Helper()
		if os.Getenv("CI") == "true" {
			t.Fatalf(why, args...)
		}
		t.Skipf("THE PYTHON WORKER IS NOT TESTED: "+why, args...)
	}
	if _, err := exec.LookPath("python3"); err != nil {
		missing("there is no python3")
	}
	requirements, err := os.ReadFile(filepath.Join(pythonDir, "requirements.txt"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(requirements)
	env, err := filepath.Abs("../../.local/python-worker-" + hex.EncodeToString(sum[:4]))
	if err != nil {
		t.Fatal(err)
	}
	interpreter, done := filepath.Join(env, "bin", "python"), filepath.Join(env, "complete")
	if _, err := os.Stat(done); err == nil {
		return interpreter
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	for _, args := range [][]string{
		{"python3", "-m", "venv", "--clear", env},
		{interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", filepath.Join(pythonDir, "requirements.txt")},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil { // #nosec G204 -- of this test
			missing("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return interpreter
}

// events is an API that takes events: the second time.
type events struct {
	*httptest.Server
	mu   sync.Mutex
	sent []string
}

func newEvents(t *testing.T) *events {
	t.Helper()
	e := new(events)
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.URL.Path == "/v1/events/no name" {
		http.Error(w, "path.name", http.StatusUnprocessableEntity)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sent = append(e.sent, fmt.Sprintf("%s %s key=%s auth=%s %s", r.Method, r.URL.Path, r.Header.Get("Idempotency-Key"), r.Header.Get("Authorization"), body))
	if len(e.sent) == 1 {
		w.Header().Set("Retry-After", "0")
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write([]byte(`{"id": "e1"}`))
}

func (e *events) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.sent)
}

// TestPythonWorker runs the example against a broker and an executor's target.
func TestPythonWorker(t *testing.T) {
	interpreter := python(t)
	server, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: true})
	if err != nil {
		t.Fatalf("start nats: %v", err)
	}
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	q, err := jetstream.Connect(ctx, jetstream.Config{Server: server, MaxBytes: 4 << 20})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer func() { _ = q.Close() }() // nothing depends on it any more
	asked := target.NewNATS(target.NATSConfig{Requester: q})

	published := newEvents(t)
	cmd := exec.CommandContext(ctx, interpreter, filepath.Join(pythonDir, "worker.py")) // #nosec G204 -- of this test
	cmd.Env = append(os.Environ(), "NATS_URL="+server.URL(), "CARILLON_API="+published.URL, "CARILLON_KEY=secret", "NO_PROXY=*", "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	defer func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	if ready, err := bufio.NewReader(out).ReadString('\n'); err != nil || ready != "ready\n" {
		t.Fatalf("the worker says %q, %v; want that it is ready", ready, err)
	}

	demo := func(payload string) target.Call {
		c := call(payload)
		c.Work.NATS = &schema.NATSTarget{Subject: "work.demo"}
		return c
	}
	run := func(c target.Call, timeout time.Duration) target.Result {
		bounded, cancel := context.WithTimeoutCause(ctx, timeout, target.ErrTimeout)
		defer cancel()
		return asked.Run(bounded, c)
	}
	// Once, on a busy machine, the server did not know of the worker yet though it had confirmed
	// its subscription: a run would be tried again.
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(50 * time.Millisecond) {
		if res := run(demo(`{"n": 0}`), patience); res.Error != queue.ErrNoWorker.Error() {
			break
		}
	}
	tell := newTeller()
	c := demo(`{"n": 2, "pause": 0.7}`) // longer than its first sign of life
	c.Feedback = tell
	if res := run(c, patience); res.Outcome != schema.Succeeded || string(res.Output) != `{"counted": 2, "attempt": 2}` {
		t.Errorf("Run: got %+v %s, want it to have counted to 2", res, res.Output)
	}
	if got, want := tell.all(), "log counting 1, progress 1/2, log counting 2, progress 2/2"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	if res := run(demo(`{"n": -1}`), patience); res.Outcome != schema.Failed || !res.Final || !strings.Contains(res.Error, "less than nothing") {
		t.Errorf("Run of what cannot be: got %+v, want a final failure", res)
	}
	if res := run(demo(`{"n": "x"}`), patience); res.Outcome != schema.Failed || res.Final || !strings.HasPrefix(res.Error, "ValueError") {
		t.Errorf("Run that raises: got %+v, want a failure", res)
	}
	if res := run(demo(`{"n": 1, "pause": 60}`), 300*time.Millisecond); res.Outcome != schema.TimedOut {
		t.Errorf("Run that takes too long: got %+v, want a time-out", res)
	}

	// An event of the run: sent again until it is taken, each time as the same.
	c = demo(`{"n": 1, "event": "counted"}`)
	if res := run(c, patience); res.Outcome != schema.Succeeded || string(res.Output) != `{"counted": 1, "attempt": 2, "event": "e1"}` {
		t.Errorf("Run that publishes: got %+v %s, want the id of the event", res, res.Output)
	}
	want := fmt.Sprintf(`POST /v1/events/counted key=%[1]s:counted auth=Bearer secret {"counted": 1, "run": "%[1]s"}`, c.Run)
	if got := published.all(); !slices.Equal(got, []string{want, want}) {
		t.Errorf("published %q, want twice %q", got, want)
	}
	if res := run(demo(`{"n": 0, "event": "no name"}`), patience); res.Outcome != schema.Failed || !res.Final || !strings.Contains(res.Error, "is refused: 422") {
		t.Errorf("Run that publishes what is refused: got %+v, want a final failure", res)
	}

	if got := offered(t, server, "work.demo", -time.Hour); got != "declined" {
		t.Errorf("a run whose deadline has passed is answered %q, want that it is declined", got)
	}
	if got := offered(t, server, "work.demo", time.Hour); got != "result" {
		t.Errorf("a run whose deadline has not passed is answered %q, want its result", got)
	}

	// A cancel reaches the handler: the worker stops at once, and not after its 60 s.
	tell = newTeller()
	cancelled, stop := context.WithCancelCause(ctx)
	go func() { <-tell.told; stop(target.ErrCancelled) }()
	c = demo(`{"n": 1, "pause": 60}`)
	c.Feedback = tell
	if res := asked.Run(cancelled, c); res.Outcome != schema.Cancelled {
		t.Errorf("Run that is cancelled: got %+v", res)
	}

	// SIGTERM: what is at work ends, and the worker with it.
	tell = newTeller()
	go func() {
		<-tell.told
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("SIGTERM: %v", err)
		}
	}()
	c = demo(`{"n": 2, "pause": 0.5}`)
	c.Feedback = tell
	if res := run(c, patience); res.Outcome != schema.Succeeded {
		t.Errorf("Run at work at SIGTERM: got %+v, want a success", res)
	}
	began := time.Now()
	err = cmd.Wait()
	ended = true
	if took := time.Since(began); err != nil || took > 15*time.Second {
		t.Errorf("the worker ended with %v after %v, want soon and well", err, took)
	}
	if res := run(demo(`{}`), time.Second); res.Outcome != schema.Failed || !strings.Contains(res.Error, "no worker") {
		t.Errorf("Run after the worker's end: got %+v, want that there is no worker", res)
	}
}
