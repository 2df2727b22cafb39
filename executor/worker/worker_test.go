package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"carillon.dev/carillon/dispatcher/queue/jetstream"
	"carillon.dev/carillon/dispatcher/queue/jetstream/embedded"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/executor/worker"
	"carillon.dev/carillon/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come.
const patience = time.Minute

// rig is an executor's side and a broker.
type rig struct {
	t      *testing.T
	server *embedded.Server
	target *target.NATS
}

func newRig(t *testing.T) *rig {
	t.Helper()
	server, err := embedded.Start(embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatalf("start nats: %v", err)
	}
	t.Cleanup(server.Close)
	r := &rig{t: t, server: server}
	r.target = target.NewNATS(target.NATSConfig{Requester: r.queue(), MaxOutput: 100_000})
	return r
}

func (r *rig) queue() *jetstream.Queue {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	q, err := jetstream.Connect(ctx, jetstream.Config{Server: r.server, MaxBytes: 4 << 20})
	if err != nil {
		r.t.Fatalf("connect: %v", err)
	}
	r.t.Cleanup(func() { _ = q.Close() }) // a test may have closed it
	return q
}

// work runs a worker with a handler for work.a until the test ends, or stop is called, which waits.
func (r *rig) work(cfg worker.Config, h worker.Handler) (stop func()) {
	r.t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(r.server))
	if err != nil {
		r.t.Fatalf("connect: %v", err)
	}
	cfg.Logger = slog.New(slog.NewTextHandler(r.t.Output(), nil))
	w := worker.New(nc, cfg)
	w.Handle("work.a", h)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := w.Run(ctx); err != nil {
			r.t.Errorf("Run: got %v, want nil", err)
		}
		nc.Close()
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	r.t.Cleanup(stop)
	for { // until somebody listens
		err := nc.FlushTimeout(patience)
		if _, rerr := nc.Request("work.a", nil, 100*time.Millisecond); !errors.Is(rerr, nats.ErrNoResponders) || err != nil {
			return stop // what is no run is passed over
		}
	}
}

// teller writes down what it is told.
type teller struct {
	mu    sync.Mutex
	words []string
	told  chan struct{} // cap: plenty
}

func newTeller() *teller { return &teller{told: make(chan struct{}, 1000)} }

func (l *teller) note(word string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.words = append(l.words, word)
	l.told <- struct{}{}
}

func (l *teller) Log(text string) { l.note("log " + text) }
func (l *teller) Progress(done, total int64, _ string) {
	l.note(fmt.Sprintf("progress %d/%d", done, total))
}

func (l *teller) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.words, ", ")
}

var numbers atomic.Uint64

// call makes a call of the subject work.a.
func call(payload string) target.Call {
	due := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	return target.Call{
		Tenant: "t", Run: schema.MakeEntryID(due, 3, numbers.Add(1)), Number: 2, Fence: 77, Due: due,
		Work: schema.Work{NATS: &schema.NATSTarget{Subject: "work.a"}}.InForce(), Payload: []byte(payload),
	}
}

// run runs a call as an executor does, for at most a minute.
func (r *rig) run(c target.Call) target.Result {
	r.t.Helper()
	ctx, cancel := context.WithTimeoutCause(r.t.Context(), patience, target.ErrTimeout)
	defer cancel()
	return r.target.Run(ctx, c)
}

func TestHandlerGetsTheRun(t *testing.T) {
	r := newRig(t)
	got := make(chan worker.Run, 1)
	deadlines := make(chan time.Duration, 1)
	r.work(worker.Config{}, func(ctx context.Context, run worker.Run) (any, error) {
		got <- run
		d, _ := ctx.Deadline()
		deadlines <- time.Until(d)
		return map[string]int{"sent": 1}, nil
	})
	c := call(`{"to":"a@example.com"}`)
	res := r.run(c)
	if res.Outcome != schema.Succeeded || string(res.Output) != `{"sent":1}` {
		t.Errorf("Run: got %+v, want a success with the result as JSON", res)
	}
	run := <-got
	var payload struct{ To string }
	if err := run.Bind(&payload); err != nil || payload.To != "a@example.com" {
		t.Errorf("Bind: got %+v, %v", payload, err)
	}
	if run.ID != c.Run.String() || run.Tenant != "t" || run.Job != c.Run.String() || run.Attempt != 2 || run.Fence != 77 || !run.Due.Equal(c.Due) || run.Subject != "work.a" || len(run.Trace) != 55 {
		t.Errorf("the handler got %+v, want the facts of %+v", run, c)
	}
	if left := <-deadlines; left <= 0 || left > patience {
		t.Errorf("the handler has %v, want at most %v", left, patience)
	}
}

func TestResults(t *testing.T) {
	boom := errors.New("no\nstock")
	for name, c := range map[string]struct {
		result any
		err    error
		want   target.Result
		output string
	}{
		"nothing":           {nil, nil, target.Result{Outcome: schema.Succeeded}, ""},
		"text":              {"done", nil, target.Result{Outcome: schema.Succeeded}, "done"},
		"bytes":             {[]byte("a\xff"), nil, target.Result{Outcome: schema.Succeeded}, "a\xff"},
		"raw JSON":          {json.RawMessage(`{"a":1}`), nil, target.Result{Outcome: schema.Succeeded}, `{"a":1}`},
		"a value":           {[]int{1, 2}, nil, target.Result{Outcome: schema.Succeeded}, "[1,2]"},
		"no JSON":           {func() {}, nil, target.Result{Outcome: schema.Failed, Final: true, Error: "encode result: json: unsupported type: func()"}, ""},
		"longer than kept":  {strings.Repeat("x", 100_001), nil, target.Result{Outcome: schema.Succeeded, OutputCut: true}, strings.Repeat("x", 100_000)},
		"100 MB":            {make([]byte, 100<<20), nil, target.Result{Outcome: schema.Succeeded, OutputCut: true}, string(make([]byte, 100_000))},
		"an error":          {"ignored", boom, target.Result{Outcome: schema.Failed, Error: "no stock"}, ""},
		"a final error":     {nil, fmt.Errorf("x: %w", worker.Final(boom)), target.Result{Outcome: schema.Failed, Error: "x: no stock", Final: true}, ""},
		"an error to wait":  {nil, worker.RetryAfter(boom, 90*time.Second), target.Result{Outcome: schema.Failed, Error: "no stock", RetryAfter: 90 * time.Second}, ""},
		"an empty error":    {nil, errors.New(""), target.Result{Outcome: schema.Failed, Error: "failed"}, ""},
		"no error, final":   {nil, worker.Final(nil), target.Result{Outcome: schema.Succeeded}, ""},
		"no error, to wait": {nil, worker.RetryAfter(nil, time.Second), target.Result{Outcome: schema.Succeeded}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.work(worker.Config{}, func(context.Context, worker.Run) (any, error) { return c.result, c.err })
			res := r.run(call(""))
			if string(res.Output) != c.output {
				t.Errorf("output: got %d bytes %.50q, want %d bytes %.50q", len(res.Output), res.Output, len(c.output), c.output)
			}
			if res.Outcome != c.want.Outcome || res.Error != c.want.Error || res.Final != c.want.Final || res.RetryAfter != c.want.RetryAfter || res.OutputCut != c.want.OutputCut {
				t.Errorf("Run: got %s, %q, final %t, after %v, cut %t; want %+v", res.Outcome, res.Error, res.Final, res.RetryAfter, res.OutputCut, c.want)
			}
		})
	}
}

func TestAPanicFailsItsAttemptAlone(t *testing.T) {
	r := newRig(t)
	r.work(worker.Config{}, func(_ context.Context, run worker.Run) (any, error) {
		if string(run.Payload) == "1" {
			panic("s3cret")
		}
		return nil, nil
	})
	if res := r.run(call("1")); res.Outcome != schema.Failed || res.Final || res.Error != "the handler panicked" {
		t.Errorf("Run of a handler that panics: got %+v, want a failure that says no more", res)
	}
	if res := r.run(call("2")); res.Outcome != schema.Succeeded {
		t.Errorf("the next Run: got %+v, want a success", res)
	}
}

func TestLogAndProgressAreTold(t *testing.T) {
	r := newRig(t)
	r.work(worker.Config{}, func(_ context.Context, run worker.Run) (any, error) {
		run.Log("sending %d mails", 3)
		run.Log("100 %%")
		for i := range int64(1001) {
			run.Progress(i, 1000)
		}
		return "ok", nil
	})
	tell := newTeller()
	c := call("")
	c.Feedback = tell
	if res := r.run(c); res.Outcome != schema.Succeeded {
		t.Fatalf("Run: got %+v, want a success", res)
	}
	got := tell.all()
	if !strings.HasPrefix(got, "log sending 3 mails, log 100 %, progress 0/1000") || !strings.HasSuffix(got, "progress 1000/1000") || len(tell.words) > 20 {
		t.Errorf("told %q, want both lines, the first and the last progress, and few between", got)
	}
}

// unaware is a context that says when its time is up, and does not end then.
type unaware struct {
	context.Context
	until time.Time
}

func (u unaware) Deadline() (time.Time, bool) { return u.until, true }

func TestTheContextEndsWithTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		cause   error         // of the executor's context, when the handler has begun
		timeout time.Duration // of which the worker alone knows
		want    error
		outcome schema.Outcome
	}{
		"cancelled":                           {target.ErrCancelled, 0, worker.ErrCancelled, schema.Cancelled},
		"stopped":                             {target.ErrStopped, 0, worker.ErrAbandoned, schema.Failed},
		"time-out that the executor notices":  {target.ErrTimeout, 0, worker.ErrTimeout, schema.TimedOut},
		"time-out that the worker notices":    {nil, 100 * time.Millisecond, worker.ErrTimeout, schema.TimedOut},
		"time-out of less than a millisecond": {nil, time.Nanosecond, worker.ErrTimeout, schema.TimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			causes := make(chan error, 1)
			r.work(worker.Config{}, func(ctx context.Context, run worker.Run) (any, error) {
				run.Log("begun") // the executor knows where to send a cancel
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return nil, ctx.Err()
			})
			ctx := t.Context()
			if c.timeout > 0 {
				ctx = unaware{ctx, time.Now().Add(c.timeout)}
			}
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			tell := newTeller()
			go func() {
				<-tell.told
				if c.cause != nil {
					cancel(c.cause)
				}
			}()
			co := call("")
			co.Feedback = tell
			if res := r.target.Run(ctx, co); res.Outcome != c.outcome {
				t.Errorf("Run: got %+v, want %s", res, c.outcome)
			}
			select {
			case got := <-causes:
				if !errors.Is(got, c.want) {
					t.Errorf("cause of the handler's context: got %v, want %v", got, c.want)
				}
			case <-time.After(patience):
				t.Error("the handler's context goes on")
			}
		})
	}
}

// TestACancelThatWasNotHeard: a cancel before the worker's first word can be sent nowhere; the
// first word is answered that nobody waits.
func TestACancelThatWasNotHeard(t *testing.T) {
	r := newRig(t)
	begun, causes := make(chan struct{}), make(chan error, 1)
	r.work(worker.Config{}, func(ctx context.Context, _ worker.Run) (any, error) {
		close(begun)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-begun; cancel(target.ErrCancelled) }()
	if res := r.target.Run(ctx, call("")); res.Outcome != schema.Cancelled {
		t.Errorf("Run: got %+v, want it cancelled", res)
	}
	select {
	case got := <-causes:
		if !errors.Is(got, worker.ErrAbandoned) {
			t.Errorf("cause of the handler's context: got %v, want ErrAbandoned", got)
		}
	case <-time.After(patience):
		t.Error("the handler's context goes on")
	}
}

// TestTheExecutorGoes: its connection closes while the worker works.
func TestTheExecutorGoes(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 30 s until a worker believes it")
	}
	r := newRig(t)
	q := r.queue()
	asked := target.NewNATS(target.NATSConfig{Requester: q})
	begun, causes := make(chan struct{}), make(chan error, 1)
	r.work(worker.Config{}, func(ctx context.Context, _ worker.Run) (any, error) {
		close(begun)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	ended := make(chan target.Result, 1)
	go func() { ended <- asked.Run(context.Background(), call("")) }()
	<-begun
	if err := q.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if res := <-ended; res.Outcome != schema.Failed {
		t.Errorf("Run whose connection closed: got %+v, want a failure", res)
	}
	select {
	case got := <-causes:
		if !errors.Is(got, worker.ErrAbandoned) {
			t.Errorf("cause of the handler's context: got %v, want ErrAbandoned", got)
		}
	case <-time.After(2 * patience):
		t.Error("the handler's context goes on")
	}
}

func TestConcurrencyIsBounded(t *testing.T) {
	r := newRig(t)
	var atWork, most atomic.Int64
	for range 2 { // two workers of two slots
		r.work(worker.Config{Concurrency: 2}, func(context.Context, worker.Run) (any, error) {
			n := atWork.Add(1)
			defer atWork.Add(-1)
			for m := most.Load(); n > m; m = most.Load() {
				most.CompareAndSwap(m, n)
			}
			time.Sleep(20 * time.Millisecond) // work, so that others come meanwhile
			return nil, nil
		})
	}
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			if res := r.run(call("")); res.Outcome != schema.Succeeded {
				t.Errorf("Run: got %+v, want a success", res)
			}
		})
	}
	all.Wait()
	if most.Load() > 4 {
		t.Errorf("%d handlers were at work at once, want at most 4", most.Load())
	}
}

func TestAStopWaitsForWorkAndDeclinesTheRest(t *testing.T) {
	r := newRig(t)
	begun, release := make(chan struct{}), make(chan struct{})
	stop := r.work(worker.Config{}, func(_ context.Context, run worker.Run) (any, error) {
		if string(run.Payload) == "1" {
			close(begun)
			<-release
		}
		return "by the first", nil
	})
	first := make(chan target.Result, 1)
	go func() { first <- r.run(call("1")) }()
	<-begun
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	r.work(worker.Config{}, func(context.Context, worker.Run) (any, error) { return "by the second", nil })
	for range 100 { // some are declined by the first, and none is lost
		if res := r.run(call("2")); res.Outcome != schema.Succeeded {
			t.Errorf("Run while a worker stops: got %+v, want a success", res)
		}
	}
	close(release)
	if res := <-first; string(res.Output) != "by the first" {
		t.Errorf("Run that was at work at the stop: got %+v, want its result", res)
	}
	<-stopped
	if res := r.run(call("3")); string(res.Output) != "by the second" {
		t.Errorf("Run after the stop: got %+v, want it by the second", res)
	}
}

func TestAStopEndsHandlersThatTakeTooLong(t *testing.T) {
	r := newRig(t)
	begun := make(chan struct{})
	stop := r.work(worker.Config{DrainTimeout: 50 * time.Millisecond}, func(ctx context.Context, _ worker.Run) (any, error) {
		close(begun)
		<-ctx.Done()
		return nil, worker.RetryAfter(context.Cause(ctx), time.Second)
	})
	ended := make(chan target.Result, 1)
	go func() { ended <- r.run(call("")) }()
	<-begun
	stop()
	if res := <-ended; res.Outcome != schema.Failed || res.Error != worker.ErrStopped.Error() || res.RetryAfter != time.Second {
		t.Errorf("Run at the end of the drain: got %+v, want what the handler returned", res)
	}
}

func TestRunNeedsHandlers(t *testing.T) {
	r := newRig(t)
	nc, err := nats.Connect("", nats.InProcessServer(r.server))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := worker.New(nc, worker.Config{}).Run(t.Context()); err == nil {
		t.Error("Run without handlers: got nil, want an error")
	}
	w := worker.New(nc, worker.Config{})
	w.Handle("not a subject", func(context.Context, worker.Run) (any, error) { return nil, nil })
	if err := w.Run(t.Context()); err == nil {
		t.Error("Run of a subject with spaces: got nil, want an error")
	}
}
