package inproc

import (
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// Point is a place where a fault can affect a message.
type Point string

// The points.
const (
	Publish  Point = "publish"  // an envelope on its way to the stream
	Receipt  Point = "receipt"  // the stream's answer on its way back
	Delivery Point = "delivery" // a message on its way to an executor
	Ack      Point = "ack"
	Hold     Point = "hold"
	Return   Point = "return"
	Hint     Point = "hint"
	Notice   Point = "notice"
	Signal   Point = "signal"
)

// Event is one message at one point.
type Event struct {
	Point Point
	// Conn is the connection that sends the message; of a receipt or a delivery, the one that gets
	// it.
	Conn string

	Lane     queue.Lane      // of messages of a stream
	Priority schema.Priority // of messages of a stream
	Entry    schema.EntryID  // of messages of a stream

	Shard schema.Shard // of hints and notices
	Topic string       // of signals
}

// Verdict says what happens to a message. The zero value passes it on. Drop wins over Double and
// Delay; Double and Delay may be combined.
type Verdict struct {
	// Drop loses the message. A lost publish or receipt ends in an error after PublishTimeout; a
	// lost delivery, ack, hold or return means another delivery after queue.AckWait.
	Drop bool
	// Double passes it on twice: an envelope is stored twice, as if the stream had forgotten its
	// message id, and a delivery also goes to the next Fetch. It has no effect on receipts, acks,
	// holds and returns.
	Double bool
	// Delay passes it on later. Order is not kept.
	Delay time.Duration
}

// Fault judges a message. It is called from many goroutines, without any lock held.
type Fault func(Event) Verdict
