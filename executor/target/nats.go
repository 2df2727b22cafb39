package target

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// Bounds of talking to workers.
const (
	// maxSilence is how long a worker that has said a word may be silent.
	maxSilence = 35 * time.Second
	// declinedFirst and declinedMost are the pauses before a run is offered again that was
	// declined, at most: each is twice the one before, and drawn from its upper half.
	declinedFirst = 50 * time.Millisecond
	declinedMost  = 2 * time.Second
	// maxProgress bounds the body of a progress, bytes.
	maxProgress = 4 << 10
)

// Headers of the worker protocol (executor/worker/PROTOCOL.md).
const (
	wordHeader   = "Carillon-Word"
	cancelHeader = "Carillon-Cancel"
	ackHeader    = "Carillon-Ack"
)

// NATSConfig says how workers are asked.
type NATSConfig struct {
	Requester queue.Requester
	MaxOutput int         // bytes of a result that are kept; default DefaultMaxOutput
	Budget    *ByteBudget // for what is kept beyond 64 KiB of each
}

// NATS is the Target of tasks of the kind nats: a request to a worker that listens on the subject,
// and may report while it works. executor/worker/PROTOCOL.md is the contract. A reply without a
// word is the end: a service that just replies is a worker too.
type NATS struct {
	requester queue.Requester
	maxOutput int
	budget    *ByteBudget
}

// NewNATS returns a NATS. It sends nothing.
func NewNATS(c NATSConfig) *NATS {
	if c.MaxOutput == 0 {
		c.MaxOutput = DefaultMaxOutput
	}
	return &NATS{requester: c.Requester, maxOutput: c.MaxOutput, budget: c.Budget}
}

// errWorkerSilent is the cause for which a conversation ends whose worker fell silent.
var errWorkerSilent = errors.New("the worker fell silent")

// noReply is what an attempt says of which nobody heard a word.
const noReply = "no reply before the time-out: a worker answers; where nobody does, jetstream publishes"

// Reachable implements reacher.
func (n *NATS) Reachable() bool { return n.requester.Reachable() }

// Run implements Target.
func (n *NATS) Run(ctx context.Context, c Call) Result {
	if c.Work.NATS == nil {
		return Result{Outcome: schema.Failed, Error: "not a NATS task", Final: true}
	}
	headers := n.headers(&c)
	for pause := declinedFirst; ; pause = min(2*pause, declinedMost) {
		if deadline, ok := ctx.Deadline(); ok {
			// Rounded up: a worker that gives up by its own clock does so no earlier than the
			// executor.
			left := max((time.Until(deadline) + time.Millisecond - 1).Truncate(time.Millisecond), time.Millisecond)
			headers["Carillon-Timeout-Ms"] = strconv.FormatInt(left.Milliseconds(), 10)
			headers["Carillon-Deadline"] = time.Now().Add(left).UTC().Format(dueForm) // the time-out begins whenever the request comes
		}
		res, declined := n.ask(ctx, &c, headers)
		if !declined {
			return res
		}
		select {
		case <-ctx.Done():
			return Ended(ctx)
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}

// headers returns what a worker is told.
func (n *NATS) headers(c *Call) map[string]string {
	headers := messageHeaders(c)
	headers["Carillon-Max-Output"], headers["Carillon-Worker-Protocol"] = strconv.Itoa(n.maxOutput), "1"
	return headers
}

// messageHeaders returns the facts of an attempt: those of an HTTP call without the webhook-* ones,
// which belong to a scheme of HTTP, and with the tenant: any tenant may name a subject.
func messageHeaders(c *Call) map[string]string {
	f := factsOf(c)
	headers := map[string]string{
		"Carillon-Run-Id": f.run, "Carillon-Tenant": c.Tenant, "Carillon-Job-Id": f.job, "Carillon-Attempt": f.attempt, "Carillon-Fence": f.fence,
		"Carillon-Due-At": f.due, "Idempotency-Key": f.run, "traceparent": f.trace,
	}
	if f.nominal != "" {
		headers["Carillon-Nominal-At"] = f.nominal
	}
	if c.Payload != nil {
		headers["content-type"] = "application/json"
	}
	return headers
}

// ask offers the run once and takes in the replies. declined: the worker gave it back before it
// began, or no worker could be asked.
func (n *NATS) ask(ctx context.Context, c *Call, headers map[string]string) (res Result, declined bool) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	t := &conversation{feedback: c.Feedback, maxOutput: n.maxOutput, res: Result{Memory: n.budget.Grant(c.Tenant)}, onSilence: func() { stop(errWorkerSilent) }}
	err := n.requester.Request(ctx, c.Work.NATS.Subject, headers, c.Payload, t.onReply)
	if t.silence != nil {
		t.silence.Stop()
	}
	if err != nil {
		t.res.Memory.Release() // a result that came with the end of ctx
	}
	switch {
	case err == nil:
		if t.res.Outcome == schema.Failed && !t.res.Final && timeIsUp(ctx) {
			// A worker that gives up when its time is up fails as its language has it. Whichever
			// notices first, it was the time-out.
			t.res.Outcome = schema.TimedOut
		}
		return t.res, t.declined
	case errors.Is(context.Cause(ctx), errWorkerSilent):
		t.cancel("timeout") // should it live
		return Result{Outcome: schema.Failed, Error: errWorkerSilent.Error()}, false
	case ctx.Err() != nil:
		res = Ended(ctx)
		if res.Outcome == schema.TimedOut && t.silence == nil {
			res.Error = noReply
		}
		t.cancel(map[schema.Outcome]string{schema.Cancelled: "cancelled", schema.TimedOut: "timeout", schema.Failed: "stopped"}[res.Outcome])
		return res, false
	case errors.Is(err, queue.ErrOffline): // it was not sent, and the connection may be there again in a moment
		return res, true
	case errors.Is(err, queue.ErrNoWorker):
		return Result{Outcome: schema.Failed, Error: queue.ErrNoWorker.Error()}, false
	}
	return Result{Outcome: schema.Failed, Error: "the request could not be made"}, false
}

// timeIsUp reports whether the deadline of ctx has come, which ctx itself may not know yet.
func timeIsUp(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}

// conversation is what one worker says about one run. Its fields belong to onReply until the
// request has ended.
type conversation struct {
	feedback  Feedback // nil: it is dropped
	maxOutput int
	onSilence func()
	silence   *time.Timer                                  // ends the talk; nil until the worker has said a word
	answer    func(headers map[string]string, body []byte) // where the worker wants to be told
	res       Result                                       // holds room from the beginning
	declined  bool
}

// onReply takes a reply in. It does not block.
func (t *conversation) onReply(r queue.Reply) (more bool) {
	word, _ := header(r.Headers, wordHeader)
	switch strings.ToLower(word) {
	case "", "result":
		t.res = t.result(r)
		if r.Answer != nil {
			r.Answer(map[string]string{ackHeader: "true"}, nil)
		}
		return false
	case "declined":
		t.declined = true
		return false
	case "log":
		if t.feedback != nil {
			t.feedback.Log(string(r.Body))
		}
	case "progress":
		t.progress(r.Body)
	}
	if r.Answer != nil {
		t.answer = r.Answer
	}
	if t.silence == nil {
		t.silence = time.AfterFunc(maxSilence, t.onSilence)
	} else {
		t.silence.Reset(maxSilence)
	}
	return true
}

// progress takes in how far the worker has come. What cannot be read is passed over: it is no
// reason to fail.
func (t *conversation) progress(body []byte) {
	var p struct {
		Done  int64  `json:"done"`
		Total int64  `json:"total"`
		Text  string `json:"text"`
	}
	if t.feedback == nil || len(body) > maxProgress || json.Unmarshal(body, &p) != nil || p.Done < 0 || p.Total < 0 {
		return
	}
	t.feedback.Progress(p.Done, p.Total, p.Text)
}

// cancel tells the worker that its result is not waited for any more. A worker that has sent no
// word cannot be told: its first word is answered that the run is gone.
func (t *conversation) cancel(why string) {
	if t.answer != nil {
		t.answer(map[string]string{cancelHeader: why}, nil)
	}
}

// result says what the last reply means.
func (t *conversation) result(r queue.Reply) Result {
	res := Result{Outcome: schema.Succeeded, Output: r.Body, Memory: t.res.Memory}
	if keep := res.Memory.Fit(min(len(r.Body), t.maxOutput)); keep < len(r.Body) {
		res.Output, res.OutputCut = bytes.Clone(r.Body[:keep]), true // a slice would hold the whole message
	}
	if cut, _ := header(r.Headers, "Carillon-Output-Cut"); strings.EqualFold(cut, "true") {
		res.OutputCut = true
	}
	text, failed := header(r.Headers, "Carillon-Error")
	if !failed {
		return res
	}
	res.Outcome, res.Error = schema.Failed, Truncate(text, MaxError)
	if res.Error == "" {
		res.Error = "the worker answered with an error"
	}
	final, _ := header(r.Headers, "Carillon-Error-Final")
	res.Final = strings.EqualFold(final, "true")
	after, _ := header(r.Headers, "Carillon-Retry-After")
	res.RetryAfter = parseSeconds(after)
	return res
}

// parseSeconds reads a number of seconds, which may have a fraction; 0 for what is none.
func parseSeconds(s string) time.Duration {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	switch {
	case err != nil || !(f > 0): // NaN too
		return 0
	case f > MaxRetryAfter.Seconds():
		return MaxRetryAfter
	}
	return time.Duration(f * float64(time.Second))
}

// header returns a header of a reply. NATS distinguishes their case, but a worker that writes
// Carillon-Error otherwise does not mean a success.
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
