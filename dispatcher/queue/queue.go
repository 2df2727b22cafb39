package queue

import (
	"context"
	"errors"
	"time"

	"carillon.dev/carillon/schema"
)

// ErrFull says that the stream is full (DiscardNew). Nothing was stored; try later.
var ErrFull = errors.New("stream is full")

// ErrClosed says that the connection to the queue was closed.
var ErrClosed = errors.New("queue is closed")

// Lane names one of the L streams over which the load is spread: shard mod L.
type Lane int

// Receipt says where a published envelope is stored.
type Receipt struct {
	Stream   string // incarnation of the stream; it changes when the stream is recreated
	Sequence uint64 // grows by publication within an incarnation
	Known    bool   // a message with the same id was stored before; Sequence is its
}

// Front is the oldest unfinished message of one subject.
type Front struct {
	Stream   string // incarnation of the stream
	Empty    bool   // the stream holds no message of the subject
	Sequence uint64 // of the oldest one it holds
}

// Publisher stores envelopes in the streams.
type Publisher interface {
	// Publish sends the envelope and does not wait for the answer. done is called exactly once,
	// from another goroutine: with the receipt once the stream holds the message, or with an error.
	// ErrFull means that the message is not stored; any other error, that it may be. done must
	// neither block nor publish. Publish blocks only while MaxPublishing publications are under
	// way. It returns an error, and does not call done, if it did not send: ctx ended, the queue is
	// closed (ErrClosed), or the envelope is too large (ErrTooLarge). Publish keeps nothing of env.
	Publish(ctx context.Context, lane Lane, env *Envelope, done func(Receipt, error)) error
}

// Load counts the messages of a lane and priority.
type Load struct {
	Waiting int // messages that no executor holds
	Held    int // messages with executors, not acknowledged
	// Delivered counts deliveries to executors, with redeliveries, since the lane's stream was
	// made. The difference of two readings is what was drained between them.
	Delivered uint64
}

// Depth is the number of unfinished messages.
func (l Load) Depth() int { return l.Waiting + l.Held }

// Inspector reads what the streams hold.
type Inspector interface {
	// Front returns the oldest unfinished message of a lane and priority.
	Front(ctx context.Context, lane Lane, p schema.Priority) (Front, error)
	// Load counts the messages of a lane and priority.
	Load(ctx context.Context, lane Lane, p schema.Priority) (Load, error)
}

// Delivery is one message delivered to an executor. Exactly one of Ack and Return ends it; without
// either it is delivered again after AckWait.
type Delivery interface {
	Envelope() *Envelope
	// Published returns when the queue stored the message, by the clock of the queue.
	Published() time.Time
	// Redelivered reports whether the message was delivered before.
	Redelivered() bool
	// Ack ends the message. It does not wait; a lost ack means another delivery.
	Ack()
	// Hold keeps the message for another AckWait.
	Hold()
	// Return gives the message back: it is delivered again at once, to any executor.
	Return()
}

// Consumer fetches messages for an executor.
type Consumer interface {
	// Fetch returns between 1 and limit messages of a lane and priority, oldest first, as soon as
	// there is one. It returns none when wait has passed or ctx has ended. An error means that the
	// servers could not be asked. It comes only after wait has passed, unless the queue is closed
	// (ErrClosed), so that a loop over Fetch needs no pause.
	Fetch(ctx context.Context, lane Lane, p schema.Priority, limit int, wait time.Duration) ([]Delivery, error)
}

// PoolQueue is the messages for the executors of one pool.
type PoolQueue interface {
	Inspector
	Consumer
}

// Pools gives access to the messages of pools: those that were published with Envelope.Pool. Front,
// Load and Fetch of the queue itself see none of them.
type Pools interface {
	// Pool returns the messages of a pool, and has its subjects served soon if they are not yet. It
	// does not wait. There are as many pools as executors have different labels: few.
	Pool(pool Pool) PoolQueue
}

// Bus carries advice between nodes by core NATS: at most once, never waited for.
type Bus interface {
	schema.Hints
	schema.Notices
	// SubscribeNear calls f with the entries of every hint for a shard until cancel is called.
	SubscribeNear(shard schema.Shard, f func([]schema.Entry)) (cancel func(), err error)
	// SubscribeDone calls f with the notices of a shard until cancel is called.
	SubscribeDone(shard schema.Shard, f func([]schema.Notice)) (cancel func(), err error)
}

// Signals carries what every node should learn at once: a cancelled run, a changed task, key or
// tenant.
type Signals interface {
	// Signal sends body to every subscriber of topic (schema.Topic…). It does not wait.
	Signal(topic string, body []byte)
	// SubscribeSignal calls f with the body of every signal of topic until cancel is called.
	SubscribeSignal(topic string, f func([]byte)) (cancel func(), err error)
}

// Reply is a message that a worker sent back.
type Reply struct {
	Headers map[string]string // the first value of each
	Body    []byte            // the receiver owns it
	// Answer sends a message to the worker, if this one asks for an answer; else it is nil. It does
	// not wait, and may be called even after the request has ended.
	Answer func(headers map[string]string, body []byte)
}

// HeaderGone answers a reply that asks for an answer after its request has ended.
const HeaderGone = "Carillon-Gone"

// Headers of a request that a stream of JetStream takes in: it answers as a worker does, by its
// acknowledgement.
const (
	// HeaderMessageID names a message: for a while a stream takes each once.
	HeaderMessageID = "Nats-Msg-Id"
	// HeaderExpectedStream names the stream that must take the message.
	HeaderExpectedStream = "Nats-Expected-Stream"
)

// Requester asks workers: the nats kind of task.
type Requester interface {
	// Request sends body with headers to subject. It calls hear with one reply after the other, in
	// the order of arrival, until hear returns false; then it returns nil. hear must not block,
	// because other requests wait behind it. Names of headers are case-sensitive; CheckHeaders says
	// which are refused. ErrNoWorker means that nobody listens on subject, ErrOffline that nothing
	// was sent. When ctx ends, Request returns ctx's error.
	Request(ctx context.Context, subject string, headers map[string]string, body []byte, hear func(Reply) (more bool)) error
	// Reachable reports whether a request would be sent now, and not fail with ErrOffline. It does
	// not wait.
	Reachable() bool
}

// ErrNoWorker says that nobody listens on the subject of a request.
var ErrNoWorker = errors.New("no worker listens on the subject")

// ErrOffline says that there is no connection to the servers. The request was not sent, and will
// not be.
var ErrOffline = errors.New("not connected to the queue")

// Prober says whether the queue works, and reads its servers' clocks.
type Prober interface {
	// Ready returns nil while the queue answers, else why it does not. It does not wait.
	Ready() error
	// Time returns the servers' own clock; an error means that they cannot be reached.
	Time(ctx context.Context) (time.Time, error)
	// Clocks returns the clock of every known server, in no order, whether it answers or not. It
	// does no I/O; the caller owns the slice.
	Clocks() []schema.HostClock
}

// Queue is everything that an adapter implements. Users take the roles they need.
type Queue interface {
	Publisher
	Inspector
	Consumer
	Pools
	Bus
	Signals
	Requester
	Prober
}

// What executors keep, and dispatchers rely on.
const (
	// FreshFor bounds the age of CheckedAt at a start that relies on the envelope alone. It is the
	// 2 s within which a cancel takes effect, less a margin for clocks. An executor that starts
	// later checks the rows first.
	FreshFor = 1900 * time.Millisecond
	// TraceWithin bounds the time from such a start until the rows show that the run is under way
	// or has ended.
	TraceWithin = 1500 * time.Millisecond
)

// Bounds that every adapter keeps.
const (
	// AckWait is how long a delivery may go without Ack or Hold before it is delivered again.
	AckWait = 4 * time.Second
	// MaxAckPending bounds the deliveries of one lane and priority that executors hold.
	MaxAckPending = 100_000
	// DuplicateWindow is how long a stream knows a message id: longer than FreshFor and TraceWithin
	// together.
	DuplicateWindow = 20 * time.Second
	// MaxPublishing bounds the publications under way in one process.
	MaxPublishing = 4096
)
