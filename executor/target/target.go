package target

import (
	"context"
	"errors"
	"time"

	"carillon.dev/carillon/executor/target/auth"
	"carillon.dev/carillon/schema"
)

// Bounds of what a callee says.
const (
	// MaxRetryAfter bounds for how long a callee may ask to be left alone.
	MaxRetryAfter = 24 * time.Hour
	// MaxError bounds the error that a record keeps, bytes.
	MaxError = 1 << 10
)

// The causes for which an attempt's context ends.
var (
	// ErrAbandoned: the session of an effectively_once attempt may have been declared dead, so
	// another attempt may start.
	ErrAbandoned = errors.New("the executor could not renew its session in time, so the attempt was stopped")
	ErrTimeout   = errors.New("time-out")
	ErrCancelled = errors.New("cancelled")
	ErrStopped   = errors.New("the executor was stopped before the attempt ended")
	// ErrPreempted ends an attempt as ErrStopped does.
	ErrPreempted = errors.New("stopped to let a critical run start")
)

// Call is one attempt, as a target sees it.
type Call struct {
	Tenant   string
	Run      schema.RunID // constant over attempts: the callee's idempotency key
	Job      schema.JobID
	Number   int // of the attempt, from 1
	Fence    schema.Fence
	Due      time.Time   // when the attempt was asked for, whatever it was deferred to
	Nominal  time.Time   // what the schedule names: long before Due in a backfill; zero in a one-off job
	Work     schema.Work // in force
	Payload  []byte      // JSON, or nil
	Secrets  [][]byte    // by which an HTTP call is signed; none: it is not
	Values   auth.Values // of the secrets that the work names
	Feedback Feedback    // takes what the callee tells while it runs; nil: that is dropped

	// Sampled: the span of the attempt will be sent, as far as is known: the callee is told so, and
	// which span it is (package trace).
	Sampled bool

	// Abandoned is closed when another attempt may begin any moment, so that this one must end at
	// once; nil: that never happens.
	Abandoned <-chan struct{}
}

// Feedback takes what a worker tells while it runs. Its methods do not block.
type Feedback interface {
	// Log keeps the lines of a text.
	Log(text string)
	// Progress notes how far the worker has come; total 0 means that it does not say of how much.
	Progress(done, total int64, text string)
}

// Result is how an attempt ended.
type Result struct {
	Outcome    schema.Outcome // Succeeded, Failed, TimedOut or Cancelled
	Error      string         // what went wrong, without secrets
	Status     int            // of HTTP
	Output     []byte         // bounded by the target
	OutputCut  bool           // the callee gave more
	RetryAfter time.Duration  // at least this long until the next attempt; 0 = as the policy says
	Final      bool           // no attempt may follow
	Ailing     bool           // the callee says that it cannot work just now, whatever Status is
	Uncalled   bool           // the target was not called: nothing is known of its health
	Stopped    bool           // ended by ErrStopped or ErrPreempted, without an outcome of its own: where the guarantee lets it, the attempt does not count

	Memory    ByteGrant       // what the output takes of memory that all share
	Lingering <-chan struct{} // nil, or what was started could not be ended with the attempt: closed when it has ended
}

// Target executes attempts of one kind of work. Run returns when the attempt has ended or ctx has:
// then with TimedOut, Cancelled, or Failed and Stopped, as ctx's cause says (ErrTimeout,
// ErrCancelled, ErrStopped, ErrPreempted). It may be called from many goroutines.
type Target interface {
	Run(ctx context.Context, c Call) Result
}

// reacher is a target that knows when it can reach no callee at all. Nothing starts then: the
// message goes back, to an executor that can.
type reacher interface {
	Reachable() bool
}

// Set holds the target of each kind; nil = not enabled here.
type Set struct {
	HTTP, NATS, Script, Lambda, Email Target

	JetStream, AWS, Kafka Target // messages; AWS: to all its services
}

// For returns the target of w, or nil.
func (t Set) For(w schema.Work) Target {
	switch {
	case w.HTTP != nil:
		return t.HTTP
	case w.NATS != nil:
		return t.NATS
	case w.Script != nil:
		return t.Script
	case w.Lambda != nil:
		return t.Lambda
	case w.Email != nil:
		return t.Email
	case w.JetStream != nil:
		return t.JetStream
	case w.AWS() != nil:
		return t.AWS
	case w.Kafka != nil:
		return t.Kafka
	}
	return nil
}

// Reachable reports whether the target of w can be reached, as far as is known.
func (t Set) Reachable(w schema.Work) bool {
	r, ok := t.For(w).(reacher)
	return !ok || r.Reachable()
}

// limiter is a target of scripts that knows how many of one may run at once.
type limiter interface {
	Limit(t *schema.ScriptTarget) int
}

// ScriptLimit returns how many attempts of a script one tenant may run at once here; 0: as many as
// there are slots.
func (t Set) ScriptLimit(s *schema.ScriptTarget) int {
	if l, ok := t.Script.(limiter); ok {
		return l.Limit(s)
	}
	return 0
}
