package executor

import (
	"context"
	"time"

	"carillon.dev/carillon/schema"
)

// Call is one attempt, as a target sees it.
type Call struct {
	Tenant  string
	Run     schema.RunID // constant over attempts: the callee's idempotency key
	Job     schema.JobID
	Number  int // of the attempt, from 1
	Fence   schema.Fence
	Due     time.Time   // when it was asked for: of a first attempt when the run was due, though it was put off since; of a later one when that was
	Nominal time.Time   // what the schedule names: long before Due in a backfill; zero in a one-off job
	Work    schema.Work // in force
	Payload []byte      // JSON, or nil
	Secrets [][]byte    // by which an HTTP call is signed; none: it is not
	Tell    Teller      // takes what the callee tells while it runs; nil: nobody listens

	silent <-chan struct{} // closed when another attempt may begin any moment, though this one should be ending already; nil: that never happens
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
	Stopped    bool           // ended by ErrStopped, without an outcome of its own: where the guarantee lets it, the attempt does not count

	room holding         // what the output takes of memory that all share
	gone <-chan struct{} // nil, or what was started could not be ended with the attempt: closed when it has ended
}

// Target executes attempts of one kind of work. Run returns when the attempt has ended or ctx has: then with TimedOut,
// Cancelled, or Failed and Stopped, as ctx's cause says (ErrTimeout, ErrCancelled, ErrStopped). It may be called from many goroutines.
type Target interface {
	Run(ctx context.Context, c Call) Result
}

// reacher is a target that knows when it can reach nobody at all. Nothing starts then: the message goes back, to an executor that can.
type reacher interface {
	Reachable() bool
}

// Targets holds the target of each kind; nil = not enabled here.
type Targets struct {
	HTTP, NATS, Script Target
}

func (t Targets) of(w schema.Work) Target {
	switch {
	case w.HTTP != nil:
		return t.HTTP
	case w.NATS != nil:
		return t.NATS
	case w.Script != nil:
		return t.Script
	}
	return nil
}

// reach reports whether the target of w can be reached, as far as is known.
func (t Targets) reach(w schema.Work) bool {
	r, ok := t.of(w).(reacher)
	return !ok || r.Reachable()
}
