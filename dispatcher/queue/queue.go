package queue

import (
	"context"
	"errors"
	"time"

	"carillon.dev/carillon/schema"
)

// ErrFull: the stream holds as much as it may (DiscardNew). Nothing was stored; try later.
var ErrFull = errors.New("stream is full")

// ErrClosed: the connection to the queue was closed.
var ErrClosed = errors.New("queue is closed")

// Lane names one of the L streams over which the load is spread: shard mod L.
type Lane int

// Receipt says where a published envelope lies.
type Receipt struct {
	Stream   string // incarnation of the stream: another one after it was made anew
	Sequence uint64 // grows by publication within an incarnation
	Known    bool   // a message with the same id was stored before; Sequence is its
}

// Front says what the oldest unfinished message of one subject is.
type Front struct {
	Stream   string // incarnation of the stream
	Empty    bool   // the stream holds none of that subject
	Sequence uint64 // of the oldest one it holds
}

// Publisher stores envelopes in the streams.
type Publisher interface {
	// Publish hands the envelope over without waiting. done is called exactly once, from another
	// goroutine: with the receipt once the stream holds the message, or with an error (ErrFull: it
	// is not stored; anything else: it may or may not be). done must neither block nor publish.
	// Publish blocks only while MaxPublishing publications are under way, and returns an error,
	// without calling done, if the envelope was not taken: ctx ended before, the queue is closed
	// (ErrClosed), or it is too large (ErrTooLarge). Publish keeps nothing of env.
	Publish(ctx context.Context, lane Lane, env *Envelope, done func(Receipt, error)) error
}

// Load is how much there is of a lane and priority.
type Load struct {
	Waiting int // messages that no executor holds
	Held    int // messages with executors, not acknowledged
	// Delivered counts what was given to executors, redeliveries too, since the lane's stream was
	// made: of two readings the difference is what was drained between them.
	Delivered uint64
}

// Depth is the number of unfinished messages.
func (l Load) Depth() int { return l.Waiting + l.Held }

// Inspector tells what the streams hold.
type Inspector interface {
	// Front returns the oldest unfinished message of a lane and priority.
	Front(ctx context.Context, lane Lane, p schema.Priority) (Front, error)
	// Load returns how much there is of a lane and priority.
	Load(ctx context.Context, lane Lane, p schema.Priority) (Load, error)
}

// Delivery is one message handed to an executor. Exactly one of Ack and Return ends it; without
// either it is delivered again after AckWait.
type Delivery interface {
	Envelope() *Envelope
	// Redelivered reports that the message was handed out before.
	Redelivered() bool
	// Ack ends the message. It does not wait; a lost ack means another delivery.
	Ack()
	// Hold keeps the message for another AckWait.
	Hold()
	// Return gives the message back, to be delivered again at once to anybody.
	Return()
}

// Consumer hands messages to an executor.
type Consumer interface {
	// Fetch returns between 1 and limit messages of a lane and priority, oldest first, as soon as
	// there is one, or none when wait has passed or ctx has ended. An error means that nothing
	// could be asked; it comes no sooner than wait has passed unless the queue is closed
	// (ErrClosed), so that a loop over Fetch needs no pause of its own.
	Fetch(ctx context.Context, lane Lane, p schema.Priority, limit int, wait time.Duration) ([]Delivery, error)
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

// Signals carries what every node should hear at once: a cancelled run, a changed task, key or
// tenant.
type Signals interface {
	// Signal tells every subscriber of topic. It does not wait.
	Signal(topic string, body []byte)
	// SubscribeSignal calls f with the body of every signal of topic until cancel is called.
	SubscribeSignal(topic string, f func([]byte)) (cancel func(), err error)
}

// Topics of Signals.
const (
	TopicCancel  = "cancel"  // body: a run id, as text
	TopicTask    = "task"    // body: tenant, a line feed, name; besides, package bucketer asks on "task-ask"
	TopicKey     = "key"     // body: the hash of an API key that was made or revoked
	TopicTenant  = "tenant"  // body: the name of a tenant that was changed
	TopicSigning = "signing" // body: the tenant whose signing keys were changed
	// Body: a question about the targets of a tenant, which names the topic of the answers (this
	// one, a dot and a word), and maybe one whose circuit is to be closed.
	TopicTargets = "targets"

	// body: the key of a task's limit of which an executor waits for slots, or has given some up
	TopicSlots = "slots"
)

// Reply is a message that a worker sent back.
type Reply struct {
	Headers map[string]string // the first value of each
	Body    []byte            // the hearer's
	// Answer sends a message to where this one asks for one; it does not wait, and it may be called
	// until the request ends and later. Nil: it asks for none.
	Answer func(headers map[string]string, body []byte)
}

// HeaderGone is what a reply is answered with that comes when its request has ended, and asks for
// an answer: nobody waits for it.
const HeaderGone = "Carillon-Gone"

// Requester asks workers: the nats kind of task.
type Requester interface {
	// Request sends body with headers to subject and calls hear with every reply, in the order in
	// which they come and one at a time, until hear returns false: then it returns nil. hear must
	// not block: others wait behind it. Names of headers are case-sensitive; CheckHeaders says
	// which are refused. ErrNoWorker means that nobody listens on subject, ErrOffline that it was
	// not sent. When ctx ends it returns ctx's error.
	Request(ctx context.Context, subject string, headers map[string]string, body []byte, hear func(Reply) (more bool)) error
	// Reachable reports whether a request would be sent, not refused with ErrOffline. It does not
	// wait.
	Reachable() bool
}

// ErrNoWorker: nobody listens on the subject of a request.
var ErrNoWorker = errors.New("no worker listens on the subject")

// ErrOffline: there is no connection to the servers at present. The request was not sent, nor will
// it be.
var ErrOffline = errors.New("not connected to the queue")

// Prober tells how the queue is.
type Prober interface {
	// Ready returns nil while the queue answers, else why it does not. It does not wait.
	Ready() error
	// Time returns the servers' own clock; an error means that they cannot be reached.
	Time(ctx context.Context) (time.Time, error)
	// Clocks returns the clock of every server that is known, in no order. Those that do not answer
	// at present are among them. It does no I/O; the caller owns the slice.
	Clocks() []schema.HostClock
}

// Queue is everything that an adapter implements. Users take the roles they need.
type Queue interface {
	Publisher
	Inspector
	Consumer
	Bus
	Signals
	Requester
	Prober
}

// What executors keep, and dispatchers rely on.
const (
	// FreshFor is how old CheckedAt may be at a start that rests on the envelope alone: 2 s is what
	// a cancel may take to be heeded, less a margin for clocks. Whoever starts later looks at the
	// rows first.
	FreshFor = 1900 * time.Millisecond
	// TraceWithin is how long after such a start the rows say that the run is under way, or how it
	// ended.
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
