package target

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// asker is a queue.Requester made of a function.
type asker func(ctx context.Context, subject string, headers map[string]string, body []byte, hear func(queue.Reply) bool) error

func (f asker) Request(ctx context.Context, subject string, headers map[string]string, body []byte, hear func(queue.Reply) bool) error {
	return f(ctx, subject, headers, body, hear)
}

func (f asker) Reachable() bool { return true }

func newNATS(f asker) *NATS { return NewNATS(NATSConfig{Requester: f}) }

func natsCall() Call {
	c := callTo("")
	c.Work = schema.Work{NATS: &schema.NATSTarget{Subject: "work.email"}}.InForce()
	return c
}

func TestNATSSendsWhatATaskReceives(t *testing.T) {
	for name, payload := range map[string][]byte{"payload": []byte(`{"a":1}`), "no payload": nil} {
		c := natsCall()
		c.Payload, c.Tenant = payload, "t"
		if payload != nil {
			c.Nominal = c.Due.Add(-time.Hour)
		}
		n := newNATS(func(_ context.Context, subject string, headers map[string]string, body []byte, hear func(queue.Reply) bool) error {
			if subject != "work.email" || string(body) != string(payload) {
				t.Errorf("%s: request: got %q on %q, want %q on work.email", name, body, subject, payload)
			}
			if err := queue.CheckHeaders(headers); err != nil {
				t.Errorf("%s: CheckHeaders: %v", name, err)
			}
			want := map[string]string{
				"Carillon-Run-Id": c.Run.String(), "Carillon-Tenant": "t", "Carillon-Job-Id": c.Run.String(), "Carillon-Attempt": "3", "Carillon-Fence": "1790000000000042",
				"Carillon-Due-At": "2026-11-21T09:00:00.250Z", "Idempotency-Key": c.Run.String(), "traceparent": headers["traceparent"],
				"Carillon-Max-Output": "1048576", "Carillon-Worker-Protocol": "1", "Carillon-Timeout-Ms": headers["Carillon-Timeout-Ms"],
				"Carillon-Deadline": headers["Carillon-Deadline"],
			}
			if payload != nil {
				want["content-type"], want["Carillon-Nominal-At"] = "application/json", "2026-11-21T08:00:00.250Z"
			}
			if diff := cmp.Diff(want, headers); diff != "" || len(headers["traceparent"]) != 55 {
				t.Errorf("%s: headers (-want +got):\n%s", name, diff)
			}
			hear(queue.Reply{Body: []byte("done")})
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if res := n.Run(ctx, c); res.Outcome != schema.Succeeded || string(res.Output) != "done" {
			t.Errorf("%s: Run: got %+v, want a success with its output", name, res)
		}
		cancel()
	}
}

func TestNATSVerdicts(t *testing.T) {
	type headers = map[string]string
	text := strings.Repeat("é", MaxError)
	for name, c := range map[string]struct {
		reply   []byte
		headers headers
		err     error
		want    Result // Output: its length in Status
	}{
		"empty reply":            {nil, nil, nil, Result{Outcome: schema.Succeeded}},
		"other headers":          {[]byte("x"), headers{"X": "y"}, nil, Result{Outcome: schema.Succeeded, Status: 1}},
		"a result by name":       {[]byte("x"), headers{"Carillon-Word": "result"}, nil, Result{Outcome: schema.Succeeded, Status: 1}},
		"error":                  {[]byte("x"), headers{"Carillon-Error": "no stock"}, nil, Result{Outcome: schema.Failed, Error: "no stock", Status: 1}},
		"error without a text":   {nil, headers{"Carillon-Error": ""}, nil, Result{Outcome: schema.Failed, Error: "the worker answered with an error"}},
		"error in lower case":    {nil, headers{"carillon-error": "no", "carillon-error-final": "TRUE"}, nil, Result{Outcome: schema.Failed, Error: "no", Final: true}},
		"final":                  {nil, headers{"Carillon-Error": "no", "Carillon-Error-Final": "true"}, nil, Result{Outcome: schema.Failed, Error: "no", Final: true}},
		"not final":              {nil, headers{"Carillon-Error": "no", "Carillon-Error-Final": "false"}, nil, Result{Outcome: schema.Failed, Error: "no"}},
		"final without an error": {nil, headers{"Carillon-Error-Final": "true"}, nil, Result{Outcome: schema.Succeeded}},
		"retry later":            {nil, headers{"Carillon-Error": "no", "Carillon-Retry-After": "1.5"}, nil, Result{Outcome: schema.Failed, Error: "no", RetryAfter: 1500 * time.Millisecond}},
		"retry in a year":        {nil, headers{"Carillon-Error": "no", "Carillon-Retry-After": "31536000"}, nil, Result{Outcome: schema.Failed, Error: "no", RetryAfter: MaxRetryAfter}},
		"retry in no number":     {nil, headers{"Carillon-Error": "no", "Carillon-Retry-After": "NaN"}, nil, Result{Outcome: schema.Failed, Error: "no"}},
		"retry before":           {nil, headers{"Carillon-Error": "no", "Carillon-Retry-After": "-1e99"}, nil, Result{Outcome: schema.Failed, Error: "no"}},
		"a long error":           {nil, headers{"Carillon-Error": text}, nil, Result{Outcome: schema.Failed, Error: text[:MaxError]}},
		"an error of no UTF-8":   {nil, headers{"Carillon-Error": "a\xffb"}, nil, Result{Outcome: schema.Failed, Error: "ab"}},
		"all that is kept":       {make([]byte, DefaultMaxOutput), nil, nil, Result{Outcome: schema.Succeeded, Status: DefaultMaxOutput}},
		"more than is kept":      {make([]byte, DefaultMaxOutput+1), nil, nil, Result{Outcome: schema.Succeeded, Status: DefaultMaxOutput, OutputCut: true}},
		"cut by the worker":      {[]byte("x"), headers{"Carillon-Output-Cut": "true"}, nil, Result{Outcome: schema.Succeeded, Status: 1, OutputCut: true}},
		"no worker":              {nil, nil, fmt.Errorf("request: %w", queue.ErrNoWorker), Result{Outcome: schema.Failed, Error: "no worker listens on the subject"}},
		"closed":                 {nil, nil, queue.ErrClosed, Result{Outcome: schema.Failed, Error: "the request could not be made"}},
		"another error":          {nil, nil, errors.New("dial nats://user:s3cret@inner"), Result{Outcome: schema.Failed, Error: "the request could not be made"}},
	} {
		n := newNATS(func(_ context.Context, _ string, _ map[string]string, _ []byte, hear func(queue.Reply) bool) error {
			if c.err == nil && hear(queue.Reply{Body: c.reply, Headers: c.headers}) {
				t.Errorf("%s: the hearer wants more than the end", name)
			}
			return c.err
		})
		got := n.Run(t.Context(), natsCall())
		got.Status, got.Output, got.Memory = len(got.Output), nil, ByteGrant{}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(Result{}, ByteGrant{})); diff != "" {
			t.Errorf("%s: Run (-want +got):\n%s", name, diff)
		}
	}
}

// Results of workers share the room of all outputs, of which one tenant has half; what finds none
// is cut, and what is left of it holds no message.
func TestNATSResultsTakeRoom(t *testing.T) {
	const half = 3 * grantStep
	for name, c := range map[string]struct {
		reply, max, left int
		kept             int
		cut              bool
	}{
		"short":                      {freeOutput, 1 << 20, 0, freeOutput, false},
		"a byte more":                {freeOutput + 1, 1 << 20, grantStep, freeOutput + 1, false},
		"a byte more, without room":  {freeOutput + 1, 1 << 20, 0, freeOutput, true},
		"as much as there is":        {freeOutput + half, 1 << 20, 2 * half, freeOutput + half, false},
		"more than there is":         {1 << 20, 1 << 20, 2 * half, freeOutput + half, true},
		"more than is kept":          {1 << 20, 100, half, 100, true},
		"more than is kept, a step":  {1 << 20, freeOutput + 1, half, freeOutput + 1, true},
		"long, and nobody counts it": {1 << 20, 1 << 20, -1, 1 << 20, false},
	} {
		var r *ByteBudget
		if c.left >= 0 {
			r = NewByteBudget(c.left)
		}
		n := NewNATS(NATSConfig{MaxOutput: c.max, Budget: r, Requester: asker(func(_ context.Context, _ string, _ map[string]string, _ []byte, hear func(queue.Reply) bool) error {
			hear(queue.Reply{Body: make([]byte, c.reply)})
			return nil
		})})
		res := n.Run(t.Context(), natsCall())
		if res.Outcome != schema.Succeeded || len(res.Output) != c.kept || res.OutputCut != c.cut {
			t.Errorf("%s: Run: %s with %d bytes, cut %t; want a success with %d, %t", name, res.Outcome, len(res.Output), res.OutputCut, c.kept, c.cut)
		}
		if c.cut && cap(res.Output) > c.kept+c.kept/4+64 {
			t.Errorf("%s: Run: %d bytes kept hold %d", name, c.kept, cap(res.Output))
		}
		if r == nil {
			continue
		}
		want := max(0, (c.kept-freeOutput+grantStep-1)/grantStep) * grantStep
		if got := c.left - r.free; got != want || res.Memory.bytes != want {
			t.Errorf("%s: Run: %d bytes of room are gone and %d said to be, want %d", name, got, res.Memory.bytes, want)
		}
	}
}

// A result that comes as the attempt ends is dropped, and its room with it.
func TestNATSResultThatIsTooLateKeepsNoRoom(t *testing.T) {
	r := NewByteBudget(grantStep)
	ctx, cancel := context.WithCancelCause(t.Context())
	n := NewNATS(NATSConfig{Budget: r, Requester: asker(func(ctx context.Context, _ string, _ map[string]string, _ []byte, hear func(queue.Reply) bool) error {
		hear(queue.Reply{Body: make([]byte, freeOutput+1)})
		cancel(ErrCancelled)
		return ctx.Err()
	})})
	if res := n.Run(ctx, natsCall()); res.Outcome != schema.Cancelled || res.Memory.bytes != 0 || r.free != grantStep {
		t.Errorf("Run: got %+v with %d of room left, want a cancelled attempt and all of it", res, r.free)
	}
}

// listener is a Teller that writes down what it is told.
type listener []string

func (l *listener) Log(text string) { *l = append(*l, "log "+text) }
func (l *listener) Progress(done, total int64, text string) {
	*l = append(*l, fmt.Sprintf("progress %d of %d %s", done, total, text))
}

// say makes a reply of a word.
func say(word, body string) queue.Reply {
	return queue.Reply{Headers: map[string]string{"Carillon-Word": word}, Body: []byte(body)}
}

func TestNATSHearsAWorkerThatTalks(t *testing.T) {
	var heard listener
	c := natsCall()
	c.Feedback = &heard
	acks := 0
	n := newNATS(func(_ context.Context, _ string, _ map[string]string, _ []byte, hear func(queue.Reply) bool) error {
		for _, r := range []queue.Reply{
			say("alive", ""), say("log", "one\ntwo"), say("progress", `{"done":3,"total":10,"text":"half"}`), say("progress", `{"done":4}`),
			say("progress", `{"done":-1}`), say("progress", `3`), say("progress", "{"), say("progress", `{"done":1,"text":"`+strings.Repeat("x", maxProgress)+`"}`),
			say("a word of a later version", "?"), say("LOG", "three"),
		} {
			if !hear(r) {
				t.Errorf("after %v the hearer wants no more", r.Headers)
			}
		}
		end := say("result", "done")
		end.Answer = func(headers map[string]string, _ []byte) {
			if headers["Carillon-Ack"] == "true" {
				acks++
			}
		}
		if hear(end) {
			t.Error("after the end the hearer wants more")
		}
		return nil
	})
	if res := n.Run(t.Context(), c); res.Outcome != schema.Succeeded || string(res.Output) != "done" || acks != 1 {
		t.Errorf("Run: got %+v and %d acks, want a success and one", res, acks)
	}
	want := listener{"log one\ntwo", "progress 3 of 10 half", "progress 4 of 0 ", "log three"}
	if diff := cmp.Diff(want, heard); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestNATSOffersAgainWhatWasDeclined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		until := time.Now().Add(time.Minute)
		n := newNATS(func(_ context.Context, _ string, headers map[string]string, _ []byte, hear func(queue.Reply) bool) error {
			if got, err := time.Parse(time.RFC3339Nano, headers["Carillon-Deadline"]); err != nil || got.Sub(until).Abs() > time.Millisecond {
				t.Errorf("request %d has the deadline %v, %v; want %v", asked, got, err, until)
			}
			if asked++; asked < 8 {
				hear(say("declined", ""))
			} else {
				hear(say("result", "x"))
			}
			return nil
		})
		began := time.Now()
		bounded, done := context.WithDeadline(t.Context(), until)
		defer done()
		res := n.Run(bounded, natsCall())
		if took := time.Since(began); res.Outcome != schema.Succeeded || asked != 8 || took < 2*time.Second || took > 6*time.Second {
			t.Errorf("Run: got %+v after %d requests and %v, want a success after 8 and some seconds", res, asked, took)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, ErrTimeout)
		defer cancel()
		n = newNATS(func(_ context.Context, _ string, _ map[string]string, _ []byte, hear func(queue.Reply) bool) error {
			hear(say("declined", ""))
			return nil
		})
		if res := n.Run(ctx, natsCall()); res.Outcome != schema.TimedOut {
			t.Errorf("Run that is declined for ever: got %+v, want a time-out", res)
		}
	})
}

// TestNATSAsksAgainWhenItIsConnected: what could not be sent was not begun by anybody.
func TestNATSAsksAgainWhenItIsConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := time.Now().Add(5 * time.Second)
		n := newNATS(func(_ context.Context, _ string, _ map[string]string, _ []byte, hear func(queue.Reply) bool) error {
			if time.Now().Before(back) {
				return fmt.Errorf("request: %w", queue.ErrOffline)
			}
			hear(say("result", "x"))
			return nil
		})
		began := time.Now()
		res := n.Run(t.Context(), natsCall())
		if took := time.Since(began); res.Outcome != schema.Succeeded || took < 5*time.Second || took > 5*time.Second+declinedMost {
			t.Errorf("Run: got %+v after %v, want a success soon after the connection is back", res, took)
		}
		back = time.Now().Add(time.Hour)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, ErrTimeout)
		defer cancel()
		if res := n.Run(ctx, natsCall()); res.Outcome != schema.TimedOut {
			t.Errorf("Run without a connection: got %+v, want a time-out", res)
		}
	})
}

func TestNATSGivesUpASilentWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		n := newNATS(func(ctx context.Context, _ string, _ map[string]string, _ []byte, hear func(queue.Reply) bool) error {
			for range 10 {
				r := say("alive", "")
				r.Answer = func(headers map[string]string, _ []byte) { told = append(told, headers["Carillon-Cancel"]) }
				hear(r)
				time.Sleep(maxSilence - time.Second)
			}
			<-ctx.Done()
			return ctx.Err()
		})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, ErrTimeout)
		defer cancel()
		began := time.Now()
		res := n.Run(ctx, natsCall())
		if took := time.Since(began); res.Outcome != schema.Failed || res.Final || res.Error != errWorkerSilent.Error() || took != 9*(maxSilence-time.Second)+maxSilence {
			t.Errorf("Run: got %+v after %v, want a failure %v after the last word", res, took, maxSilence)
		}
		if len(told) != 1 || told[0] != "timeout" {
			t.Errorf("the worker was told %q, want once that it is over", told)
		}
	})
}

func TestNATSGivesUpAWorkerAfterItsOnlyWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNATS(func(ctx context.Context, _ string, _ map[string]string, _ []byte, hear func(queue.Reply) bool) error {
			hear(say("alive", ""))
			<-ctx.Done()
			return ctx.Err()
		})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, ErrTimeout)
		defer cancel()
		began := time.Now()
		if res := n.Run(ctx, natsCall()); res.Error != errWorkerSilent.Error() || time.Since(began) != maxSilence {
			t.Errorf("Run: got %+v after %v, want a failure after %v", res, time.Since(began), maxSilence)
		}
	})
}

func TestNATSBelievesAWorkerThatSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNATS(func(_ context.Context, _ string, _ map[string]string, _ []byte, hear func(queue.Reply) bool) error {
			time.Sleep(10 * maxSilence)
			hear(queue.Reply{})
			return nil
		})
		if res := n.Run(t.Context(), natsCall()); res.Outcome != schema.Succeeded {
			t.Errorf("Run of a plain replier that takes its time: got %+v, want a success", res)
		}
	})
}

func TestNATSEndsWithItsContext(t *testing.T) {
	for cause, want := range map[error]struct {
		outcome schema.Outcome
		told    string
	}{ErrTimeout: {schema.TimedOut, "timeout"}, ErrCancelled: {schema.Cancelled, "cancelled"}, ErrStopped: {schema.Failed, "stopped"}} {
		for _, talks := range []bool{true, false} {
			ctx, cancel := context.WithCancelCause(t.Context())
			told := ""
			n := newNATS(func(ctx context.Context, _ string, _ map[string]string, _ []byte, hear func(queue.Reply) bool) error {
				if talks {
					r := say("alive", "")
					r.Answer = func(headers map[string]string, _ []byte) { told = headers["Carillon-Cancel"] }
					hear(r)
				}
				cancel(cause)
				<-ctx.Done()
				return ctx.Err()
			})
			if res := n.Run(ctx, natsCall()); res.Outcome != want.outcome || res.Final {
				t.Errorf("Run ended by %v: got %+v, want %s and no final failure", cause, res, want.outcome)
			}
			if talks && told != want.told || !talks && told != "" {
				t.Errorf("Run ended by %v: a worker (that talks: %t) was told %q, want %q", cause, talks, told, want.told)
			}
		}
	}
}

// TestNATSTimeOutHasOneName: whoever of executor and worker notices first that the time is up, it
// is a time-out.
func TestNATSTimeOutHasOneName(t *testing.T) {
	const timeout = 300*time.Millisecond + time.Nanosecond
	for name, c := range map[string]struct {
		after   time.Duration // when the worker says that it ended
		headers map[string]string
		want    schema.Outcome
	}{
		"a failure in time":             {timeout - 1, map[string]string{"Carillon-Error": "TimeoutError: "}, schema.Failed},
		"a failure when the time is up": {timeout, map[string]string{"Carillon-Error": "TimeoutError: "}, schema.TimedOut},
		"a failure later":               {timeout + time.Second, map[string]string{"Carillon-Error": "TimeoutError: "}, schema.TimedOut},
		"a final failure later":         {timeout + time.Second, map[string]string{"Carillon-Error": "no", "Carillon-Error-Final": "true"}, schema.Failed},
		"a success later":               {timeout + time.Second, nil, schema.Succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNATS(func(_ context.Context, _ string, headers map[string]string, _ []byte, hear func(queue.Reply) bool) error {
					if got := headers["Carillon-Timeout-Ms"]; got != "301" {
						t.Errorf("the worker is given %s ms of %v, want them rounded up", got, timeout)
					}
					if got, want := headers["Carillon-Deadline"], time.Now().Add(301*time.Millisecond).UTC().Format("2006-01-02T15:04:05.000Z"); got != want {
						t.Errorf("the worker is given the deadline %s, want %s", got, want)
					}
					time.Sleep(c.after)
					hear(queue.Reply{Headers: c.headers})
					return nil // as when the answer was there before the end of ctx was seen
				})
				ctx, cancel := context.WithTimeoutCause(t.Context(), timeout, ErrTimeout)
				defer cancel()
				if res := n.Run(ctx, natsCall()); res.Outcome != c.want || res.Error != c.headers["Carillon-Error"] {
					t.Errorf("Run: got %+v, want %s and what the worker says", res, c.want)
				}
			})
		})
	}
}

func TestTargetsRefuseOtherKinds(t *testing.T) {
	for name, res := range map[string]Result{
		"HTTP": newHTTP(t, HTTPConfig{}).Run(t.Context(), natsCall()),
		"NATS": newNATS(nil).Run(t.Context(), callTo("http://127.0.0.1/")),
	} {
		if res.Outcome != schema.Failed || !res.Final {
			t.Errorf("Run of another kind by %s: got %+v, want a final failure", name, res)
		}
	}
}
