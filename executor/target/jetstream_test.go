package target

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

func toStream(stream string) Call {
	c := callTo("")
	c.Work = schema.Work{JetStream: &schema.JetStreamTarget{Subject: "orders.due", Stream: stream}}.InForce()
	return c
}

func TestJetStreamVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		replies []string
		err     error
		want    Result
		output  string
	}{
		"it is stored":           {[]string{`{"stream":"ORDERS","seq":7}`}, nil, Result{Outcome: schema.Succeeded}, `{"stream":"ORDERS","sequence":7}`},
		"it was stored before":   {[]string{`{"stream":"ORDERS","seq":7,"duplicate":true}`}, nil, Result{Outcome: schema.Succeeded}, `{"stream":"ORDERS","sequence":7,"duplicate":true}`},
		"others answer as well":  {[]string{``, `+OK`, `{"ok":true}`, `null`, `{"stream":"ORDERS","seq":7}`}, nil, Result{Outcome: schema.Succeeded}, `{"stream":"ORDERS","sequence":7}`},
		"another stream has it":  {[]string{`{"error":{"code":400,"err_code":10060,"description":"expected stream does not match"},"stream":"X","seq":0}`}, nil, Result{Outcome: schema.Failed, Status: 400, Final: true, Error: "the stream refused the message: expected stream does not match"}, ``},
		"the stream is full":     {[]string{`{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"}}`}, nil, Result{Outcome: schema.Failed, Status: 503, Error: "the stream refused the message: maximum messages exceeded"}, ``},
		"it says that of lines":  {[]string{`{"error":{"code":503,"description":"a\r\nb"}}`}, nil, Result{Outcome: schema.Failed, Status: 503, Error: "the stream refused the message: ab"}, ``},
		"no stream":              {nil, fmt.Errorf("request: %w", queue.ErrNoWorker), Result{Outcome: schema.Failed, Error: "no stream has the subject"}, ``},
		"another error":          {nil, errors.New("dial nats://user:s3cret@inner"), Result{Outcome: schema.Failed, Error: "the message could not be sent"}, ``},
		"the connection is gone": {nil, queue.ErrClosed, Result{Outcome: schema.Failed, Error: "the message could not be sent"}, ``},
	} {
		j := NewJetStream(asker(func(_ context.Context, _ string, _ map[string]string, _ []byte, hear func(queue.Reply) bool) error {
			for i, body := range c.replies {
				if more := hear(queue.Reply{Body: []byte(body)}); more != (i < len(c.replies)-1) {
					t.Errorf("%s: more after %q = %t", name, body, more)
				}
			}
			return c.err
		}))
		res := j.Run(t.Context(), toStream(""))
		if res.Outcome != c.want.Outcome || res.Status != c.want.Status || res.Final != c.want.Final || res.Error != c.want.Error || string(res.Output) != c.output {
			t.Errorf("%s: Run: got %+v %s, want %+v %s", name, res, res.Output, c.want, c.output)
		}
	}
}

// A stream takes a run's message once, because each attempt names it alike.
func TestJetStreamSaysWhichRunItIs(t *testing.T) {
	for stream, want := range map[string]string{"": "", "ORDERS": "ORDERS"} {
		call := toStream(stream)
		j := NewJetStream(asker(func(_ context.Context, subject string, headers map[string]string, body []byte, hear func(queue.Reply) bool) error {
			if err := queue.CheckHeaders(headers); err != nil {
				t.Errorf("CheckHeaders: %v", err)
			}
			if subject != "orders.due" || headers["Nats-Msg-Id"] != call.Run.String() || headers["Nats-Expected-Stream"] != want || headers["Carillon-Attempt"] != "3" || string(body) != `{"a":1}` {
				t.Errorf("%s was sent %v %s", subject, headers, body)
			}
			hear(queue.Reply{Body: []byte(`{"stream":"ORDERS","seq":1}`)})
			return nil
		}))
		if res := j.Run(t.Context(), call); res.Outcome != schema.Succeeded {
			t.Errorf("Run: got %+v", res)
		}
	}
}

// While NATS is out of reach nothing is sent, and the message is offered until the attempt ends.
func TestJetStreamWaitsForTheServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		offers := 0
		j := NewJetStream(asker(func(_ context.Context, _ string, _ map[string]string, _ []byte, hear func(queue.Reply) bool) error {
			if offers++; offers < 4 {
				return queue.ErrOffline
			}
			hear(queue.Reply{Body: []byte(`{"stream":"ORDERS","seq":1}`)})
			return nil
		}))
		if res := j.Run(t.Context(), toStream("")); res.Outcome != schema.Succeeded || offers != 4 {
			t.Errorf("Run: got %+v after %d offers, want a success at the fourth", res, offers)
		}
		never := NewJetStream(asker(func(context.Context, string, map[string]string, []byte, func(queue.Reply) bool) error {
			return queue.ErrOffline
		}))
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, ErrTimeout)
		defer cancel()
		if res := never.Run(ctx, toStream("")); res.Outcome != schema.TimedOut {
			t.Errorf("Run without servers: got %+v, want a time-out", res)
		}
	})
}

// What listens on the subject and is no stream has not taken the message.
func TestJetStreamIsNotAnsweredByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := NewJetStream(asker(func(ctx context.Context, _ string, _ map[string]string, _ []byte, hear func(queue.Reply) bool) error {
			hear(queue.Reply{Body: []byte("thank you")})
			<-ctx.Done()
			return ctx.Err()
		}))
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, ErrTimeout)
		defer cancel()
		if res := j.Run(ctx, toStream("")); res.Outcome != schema.TimedOut || res.Error != "no stream acknowledged the message before the time-out, though something answered" {
			t.Errorf("Run: got %+v, want a time-out that says so", res)
		}
	})
}
