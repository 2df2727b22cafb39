package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Defaults and bounds.
const (
	DefaultConcurrency = 64
	DefaultQueue       = "carillon-workers"
	DefaultDrain       = 30 * time.Second

	// aliveFirst and aliveEvery are when a worker says that it is at work; its executor gives it up
	// after 35 s of silence.
	aliveFirst = time.Second
	aliveEvery = 10 * time.Second
	// maxMissed is after how many signs of life in a row that nobody took the executor counts as
	// gone.
	maxMissed = 2
	// progressEvery is the least time between two words of progress.
	progressEvery = 250 * time.Millisecond
	// The pauses between two tries to send a result, and how long it is tried: longer than an
	// executor takes to reconnect.
	resultFirst = time.Second
	resultMost  = 5 * time.Second
	resultLast  = 30 * time.Second
	// maxTimeout bounds the time-out of a run that is believed.
	maxTimeout = 365 * 24 * time.Hour
	// maxSkew is by how much the clocks of a worker and an executor may differ.
	maxSkew = 5 * time.Second
	// maxLog bounds one text of a log, bytes, maxError the text of an error.
	maxLog   = 64 << 10
	maxError = 1 << 10
	// headerRoom is what the headers of a result may take of the server's largest message, bytes.
	headerRoom = 4 << 10
	// stopLast is how long a handler has to return, and its end to be heard, when it was told to
	// stop.
	stopLast = 5 * time.Second
)

// The causes for which a handler's context ends.
var (
	ErrCancelled = errors.New("the run was cancelled")
	ErrTimeout   = errors.New("the time of the attempt is up")
	ErrStopped   = errors.New("the worker stops")
	// ErrAbandoned: nobody waits for the result: the executor stopped, died, or counts the attempt
	// as lost.
	ErrAbandoned = errors.New("nobody waits for the result any more")
)

// Handler runs one attempt. Its result is kept with the run: text and bytes as they are, anything
// else as JSON, nil as nothing. An error is a failure, tried again as the task says; see Final and
// RetryAfter. When ctx ends it should return: context.Cause says why (ErrCancelled, ErrTimeout,
// ErrStopped, ErrAbandoned).
type Handler func(ctx context.Context, run Run) (result any, err error)

// Config says how a Worker works. The zero value is the default.
type Config struct {
	Queue       string // the queue group: workers of one name share the runs of a subject; default DefaultQueue
	Concurrency int    // handlers at work at once; the rest is declined, for others to take; default DefaultConcurrency
	// DrainTimeout is how long a stop waits for handlers at work before their contexts end; default
	// DefaultDrain.
	DrainTimeout time.Duration
	Logger       *slog.Logger // nil logs nothing
}

// Worker runs handlers for what comes on their subjects.
type Worker struct {
	nc       *nats.Conn
	cfg      Config
	log      *slog.Logger
	handlers map[string]Handler
	answers  string // prefix of where executors' answers come to

	slots chan struct{} // a token for each handler at work

	mu       sync.Mutex
	talks    map[string]*talk // by the rest of their reply subject
	draining bool
	atWork   sync.WaitGroup
}

// New returns a Worker on a connection that is the caller's: it does not close it. It does nothing
// until Run.
func New(nc *nats.Conn, cfg Config) *Worker {
	if cfg.Queue == "" {
		cfg.Queue = DefaultQueue
	}
	if cfg.Concurrency <= 0 {
		cfg.Concurrency = DefaultConcurrency
	}
	if cfg.DrainTimeout <= 0 {
		cfg.DrainTimeout = DefaultDrain
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Worker{
		nc: nc, cfg: cfg, log: cfg.Logger, handlers: make(map[string]Handler), talks: make(map[string]*talk), slots: make(chan struct{}, cfg.Concurrency),
	}
}

// Handle has h run what comes on subject, which is that of the task ("nats": {"subject": …}). All
// handlers are given before Run. A subject may have wildcards; Run.Subject says on which one a run
// came.
func (w *Worker) Handle(subject string, h Handler) { w.handlers[subject] = h }

// Run takes runs until ctx ends, and then drains: it takes no more, what is at work may end within
// the drain time-out, and then has its context ended by ErrStopped. It returns nil when it was told
// to stop, and an error if it could not begin.
func (w *Worker) Run(ctx context.Context) (err error) {
	if len(w.handlers) == 0 {
		return errors.New("worker: no handlers")
	}
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	w.answers = w.nc.NewInbox() + "."
	answers, err := w.nc.Subscribe(w.answers+"*", w.hear)
	if err != nil {
		return fmt.Errorf("worker: listen for answers: %w", err)
	}
	defer func() { _ = answers.Unsubscribe() }() // the connection may be closed already
	var subs []*nats.Subscription
	var open sync.WaitGroup // subscriptions whose messages are not all handled
	defer func() {
		for _, s := range subs {
			_ = s.Unsubscribe() // the same
		}
	}()
	for subject, h := range w.handlers {
		sub, err := w.nc.QueueSubscribe(subject, w.cfg.Queue, func(m *nats.Msg) { w.take(work, h, m) })
		if err != nil {
			return fmt.Errorf("worker: subscribe to %s: %w", subject, err)
		}
		open.Add(1)
		sub.SetClosedHandler(func(string) { open.Done() })
		subs = append(subs, sub)
	}
	// The server refuses a subscription later, by the connection's error handler; until it is there
	// to be asked, nats.go keeps them.
	bounded, cancel := context.WithTimeout(ctx, stopLast)
	defer cancel()
	if err := w.nc.FlushWithContext(bounded); err != nil && ctx.Err() == nil && w.nc.IsConnected() {
		return fmt.Errorf("worker: subscribe: %w", err)
	}
	<-ctx.Done()
	w.mu.Lock()
	w.draining = true // what comes from now on is declined
	w.mu.Unlock()
	for _, s := range subs {
		if err := s.Drain(); err != nil { // what has come already is declined, not dropped
			w.log.Debug("could not end a subscription", "subject", s.Subject, "err", err)
		}
	}
	ended := make(chan struct{})
	go func() {
		open.Wait()
		w.atWork.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(w.cfg.DrainTimeout):
		w.log.Warn("drain time-out: handlers at work are stopped")
		stop(ErrStopped)
		select {
		case <-ended:
		case <-time.After(stopLast):
			w.log.Error("handlers do not end: their runs will be attempted again")
		}
	}
	_ = w.nc.FlushTimeout(stopLast) // what was said last
	return nil
}

// take begins a run, or declines it.
func (w *Worker) take(ctx context.Context, h Handler, m *nats.Msg) {
	run, err := newRun(m)
	if err != nil {
		w.log.Warn("a message is passed over", "subject", m.Subject, "err", err)
		return
	}
	late := run.late(time.Now())
	if late { // also by a clock that is wrong, and then each
		w.log.Warn("a run came after its deadline: it is declined", "run", run.ID, "attempt", run.Attempt, "deadline", run.deadline)
	}
	if !late && w.begin(ctx, h, m.Reply, run) {
		return
	}
	if err := m.RespondMsg(&nats.Msg{Header: nats.Header{wordHeader: {wordDeclined}}}); err != nil {
		w.log.Debug("a run could not be declined", "run", run.ID, "err", err)
	}
}

// begin begins a run if there is a slot for it.
func (w *Worker) begin(ctx context.Context, h Handler, inbox string, run Run) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.draining {
		return false
	}
	select {
	case w.slots <- struct{}{}:
	default:
		return false
	}
	own, stop := context.WithCancelCause(ctx)
	token := nats.NewInbox()[len(nats.InboxPrefix):]
	run.talk = &talk{w: w, inbox: inbox, reply: w.answers + token, stop: stop, acked: make(chan struct{})}
	w.talks[token] = run.talk
	w.atWork.Go(func() {
		defer func() {
			stop(nil)
			<-w.slots
			w.mu.Lock()
			delete(w.talks, token)
			w.mu.Unlock()
		}()
		w.work(own, h, run)
	})
	return true
}

// hear hands an executor's answer to the attempt that it is for.
func (w *Worker) hear(m *nats.Msg) {
	w.mu.Lock()
	t := w.talks[strings.TrimPrefix(m.Subject, w.answers)]
	w.mu.Unlock()
	if t != nil {
		t.hear(m)
	}
}

// work runs the handler and sends its result.
func (w *Worker) work(ctx context.Context, h Handler, run Run) {
	handling := ctx
	if run.timeout > 0 {
		bounded, cancel := context.WithTimeoutCause(ctx, run.timeout, ErrTimeout)
		defer cancel()
		handling = bounded
	}
	lively, rest := context.WithCancel(ctx)
	var alive sync.WaitGroup
	alive.Go(func() { run.talk.live(lively) })
	result, err := w.call(handling, h, run)
	rest()
	alive.Wait()
	// A result is worth sending whatever ended the context meanwhile, but not for long.
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if handling.Err() != nil {
		sending, cancel = context.WithTimeout(sending, stopLast)
		defer cancel()
	}
	if err := run.talk.end(sending, run.result(result, err, int(w.nc.MaxPayload()))); err != nil {
		w.log.Warn("a result was lost: the run may be attempted again", "run", run.ID, "attempt", run.Attempt, "err", err)
	}
}

// call calls the handler.
func (w *Worker) call(ctx context.Context, h Handler, run Run) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			// What was panicked with may hold secrets of the payload: it stays here.
			w.log.Error("a handler panicked", "run", run.ID, "panic", p, "stack", string(debug.Stack()))
			result, err = nil, errors.New("the handler panicked")
		}
	}()
	return h(ctx, run)
}
