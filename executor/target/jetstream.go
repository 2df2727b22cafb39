package target

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// JetStream is the Target of messages to streams of NATS JetStream, on the servers of the queue.
//
// A message is acknowledged by the stream that has its subject. What answers besides is passed
// over: others may listen on the subject too. Nats-Msg-Id is the id of the run, so within its
// duplicate window (2 min, unless the stream says otherwise) a stream takes the message once,
// however often it is sent.
type JetStream struct{ requester queue.Requester }

// NewJetStream returns a JetStream. It sends nothing.
func NewJetStream(r queue.Requester) *JetStream { return &JetStream{requester: r} }

// Reachable implements reacher.
func (j *JetStream) Reachable() bool { return j.requester.Reachable() }

// Run implements Target. A message succeeds once a stream has it. What the stream refuses with 4xx
// is final; no stream at all, one that is full, and all else, is tried again. While the servers are
// out of reach the message is offered again and again.
func (j *JetStream) Run(ctx context.Context, c Call) Result {
	if c.Work.JetStream == nil {
		return Result{Outcome: schema.Failed, Error: "not a message to JetStream", Final: true}
	}
	headers := messageHeaders(&c)
	headers[queue.HeaderMessageID] = c.Run.String()
	if stream := c.Work.JetStream.Stream; stream != "" {
		headers[queue.HeaderExpectedStream] = stream
	}
	for pause := declinedFirst; ; pause = min(2*pause, declinedMost) {
		res, offline := j.send(ctx, &c, headers)
		if !offline {
			return res
		}
		select {
		case <-ctx.Done():
			return Ended(ctx)
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}

// send offers the message once. offline: it was not sent.
func (j *JetStream) send(ctx context.Context, c *Call, headers map[string]string) (res Result, offline bool) {
	var ack streamAck // belongs to the function below until Request returns
	others := false
	err := j.requester.Request(ctx, c.Work.JetStream.Subject, headers, c.Payload, func(r queue.Reply) (more bool) {
		ack = streamAck{}
		if json.Unmarshal(r.Body, &ack) == nil && ack.decides() {
			return false
		}
		others = true
		return true
	})
	switch {
	case err == nil:
		return ack.result(), false
	case ctx.Err() != nil:
		res = Ended(ctx)
		if others && res.Outcome == schema.TimedOut {
			res.Error = "no stream acknowledged the message before the time-out, though something answered"
		}
		return res, false
	case errors.Is(err, queue.ErrOffline):
		return res, true
	case errors.Is(err, queue.ErrNoWorker):
		return Result{Outcome: schema.Failed, Error: "no stream has the subject"}, false
	}
	return Result{Outcome: schema.Failed, Error: "the message could not be sent"}, false
}

// streamAck is the acknowledgement of a stream.
type streamAck struct {
	Stream    string `json:"stream"`
	Sequence  uint64 `json:"seq"`
	Duplicate bool   `json:"duplicate"`
	Error     *struct {
		Code int    `json:"code"` // as of HTTP
		Text string `json:"description"`
	} `json:"error"`
}

// decides reports whether it is an acknowledgement at all.
func (a *streamAck) decides() bool { return a.Error != nil || a.Stream != "" && a.Sequence > 0 }

// result says what an acknowledgement means.
func (a *streamAck) result() Result {
	if a.Error != nil {
		code := a.Error.Code
		return Result{
			Outcome: schema.Failed, Status: code, Error: Truncate("the stream refused the message: "+oneLine(a.Error.Text), MaxError),
			Final: code >= 400 && code < 500 && code != 408 && code != 429,
		}
	}
	output, _ := json.Marshal(struct { // these always can
		Stream    string `json:"stream"`
		Sequence  uint64 `json:"sequence"`
		Duplicate bool   `json:"duplicate,omitempty"` // the stream had it already
	}{a.Stream, a.Sequence, a.Duplicate})
	return Result{Outcome: schema.Succeeded, Output: output}
}
