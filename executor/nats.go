package executor

import (
	"context"
	"errors"
	"strings"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// maxReply bounds the reply of a worker, bytes.
const maxReply = 1 << 20

// NATS is the Target of tasks of the kind nats: a request to whichever worker listens on the subject.
//
// The headers are those of an HTTP call, less the webhook-* ones, which belong to a scheme of HTTP. A reply with the header
// Carillon-Error is a failure with that text, final if Carillon-Error-Final is "true"; any other reply is a success.
type NATS struct {
	requester queue.Requester
}

// NewNATS returns a NATS that asks through r.
func NewNATS(r queue.Requester) *NATS { return &NATS{requester: r} }

// Run implements Target.
func (n *NATS) Run(ctx context.Context, c Call) Result {
	if c.Work.NATS == nil {
		return Result{Outcome: schema.Failed, Error: "not a NATS task", Final: true}
	}
	f := factsOf(&c)
	headers := map[string]string{
		"Carillon-Run-Id": f.run, "Carillon-Job-Id": f.job, "Carillon-Attempt": f.attempt, "Carillon-Fence": f.fence,
		"Carillon-Due-At": f.due, "Idempotency-Key": f.run, "traceparent": f.trace,
	}
	if f.nominal != "" {
		headers["Carillon-Nominal-At"] = f.nominal
	}
	if c.Payload != nil {
		headers["content-type"] = "application/json"
	}
	reply, answer, err := n.requester.Request(ctx, c.Work.NATS.Subject, headers, c.Payload)
	switch {
	case err == nil:
		return replied(reply, answer)
	case ctx.Err() != nil:
		return ended(ctx)
	case errors.Is(err, queue.ErrNoWorker):
		return Result{Outcome: schema.Failed, Error: queue.ErrNoWorker.Error()}
	}
	return Result{Outcome: schema.Failed, Error: "the request could not be made"}
}

// replied says what a reply means.
func replied(reply []byte, headers map[string]string) Result {
	res := Result{Outcome: schema.Succeeded, Output: reply[:min(len(reply), maxOutput)]}
	if text, failed := header(headers, "Carillon-Error"); failed {
		res.Outcome, res.Error = schema.Failed, head(text, errorHead)
		if res.Error == "" {
			res.Error = "the worker answered with an error"
		}
		final, _ := header(headers, "Carillon-Error-Final")
		res.Final = strings.EqualFold(final, "true")
	} else if len(reply) > maxReply {
		res.Outcome, res.Error = schema.Failed, "the reply is larger than 1 MiB"
	}
	return res
}

// header returns a header of a reply. NATS distinguishes their case, but a worker that writes Carillon-Error otherwise
// does not mean a success.
func header(headers map[string]string, name string) (string, bool) {
	if value, ok := headers[name]; ok {
		return value, true
	}
	for n, value := range headers {
		if strings.EqualFold(n, name) {
			return value, true
		}
	}
	return "", false
}
