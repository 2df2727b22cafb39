package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// asker is a queue.Requester made of a function.
type asker func(ctx context.Context, subject string, headers map[string]string, body []byte) ([]byte, map[string]string, error)

func (f asker) Request(ctx context.Context, subject string, headers map[string]string, body []byte) ([]byte, map[string]string, error) {
	return f(ctx, subject, headers, body)
}

func natsCall() Call {
	c := callTo("")
	c.Work = schema.Work{NATS: &schema.NATSTarget{Subject: "work.email"}}.InForce()
	return c
}

func TestNATSSendsWhatATaskReceives(t *testing.T) {
	for name, payload := range map[string][]byte{"payload": []byte(`{"a":1}`), "no payload": nil} {
		c := natsCall()
		c.Payload = payload
		if payload != nil {
			c.Nominal = c.Due.Add(-time.Hour)
		}
		n := NewNATS(asker(func(_ context.Context, subject string, headers map[string]string, body []byte) ([]byte, map[string]string, error) {
			if subject != "work.email" || string(body) != string(payload) {
				t.Errorf("%s: request: got %q on %q, want %q on work.email", name, body, subject, payload)
			}
			if err := queue.CheckHeaders(headers); err != nil {
				t.Errorf("%s: CheckHeaders: %v", name, err)
			}
			want := map[string]string{
				"Carillon-Run-Id": c.Run.String(), "Carillon-Job-Id": c.Run.String(), "Carillon-Attempt": "3", "Carillon-Fence": "1790000000000042",
				"Carillon-Due-At": "2026-11-21T09:00:00.250Z", "Idempotency-Key": c.Run.String(), "traceparent": headers["traceparent"],
			}
			if payload != nil {
				want["content-type"], want["Carillon-Nominal-At"] = "application/json", "2026-11-21T08:00:00.250Z"
			}
			if diff := cmp.Diff(want, headers); diff != "" || len(headers["traceparent"]) != 55 {
				t.Errorf("%s: headers (-want +got):\n%s", name, diff)
			}
			return []byte("done"), nil, nil
		}))
		if res := n.Run(t.Context(), c); res.Outcome != schema.Succeeded || string(res.Output) != "done" {
			t.Errorf("%s: Run: got %+v, want a success with its output", name, res)
		}
	}
}

func TestNATSVerdicts(t *testing.T) {
	type headers = map[string]string
	for name, c := range map[string]struct {
		reply   []byte
		headers headers
		err     error
		want    Result // Output: its length in Status
	}{
		"empty reply":            {nil, nil, nil, Result{Outcome: schema.Succeeded}},
		"other headers":          {[]byte("x"), headers{"X": "y"}, nil, Result{Outcome: schema.Succeeded, Status: 1}},
		"error":                  {[]byte("x"), headers{"Carillon-Error": "no stock"}, nil, Result{Outcome: schema.Failed, Error: "no stock", Status: 1}},
		"error without a text":   {nil, headers{"Carillon-Error": ""}, nil, Result{Outcome: schema.Failed, Error: "the worker answered with an error"}},
		"error in lower case":    {nil, headers{"carillon-error": "no", "carillon-error-final": "TRUE"}, nil, Result{Outcome: schema.Failed, Error: "no", Final: true}},
		"final":                  {nil, headers{"Carillon-Error": "no", "Carillon-Error-Final": "true"}, nil, Result{Outcome: schema.Failed, Error: "no", Final: true}},
		"not final":              {nil, headers{"Carillon-Error": "no", "Carillon-Error-Final": "false"}, nil, Result{Outcome: schema.Failed, Error: "no"}},
		"final without an error": {nil, headers{"Carillon-Error-Final": "true"}, nil, Result{Outcome: schema.Succeeded}},
		"a long error":           {nil, headers{"Carillon-Error": strings.Repeat("é", errorHead)}, nil, Result{Outcome: schema.Failed, Error: strings.Repeat("é", errorHead/2)}},
		"an error of no UTF-8":   {nil, headers{"Carillon-Error": "a\xffb"}, nil, Result{Outcome: schema.Failed, Error: "ab"}},
		"1 MiB":                  {make([]byte, maxReply), nil, nil, Result{Outcome: schema.Succeeded, Status: maxOutput}},
		"more than 1 MiB":        {make([]byte, maxReply+1), nil, nil, Result{Outcome: schema.Failed, Error: "the reply is larger than 1 MiB", Status: maxOutput}},
		"no worker":              {nil, nil, fmt.Errorf("request: %w", queue.ErrNoWorker), Result{Outcome: schema.Failed, Error: "no worker listens on the subject"}},
		"closed":                 {nil, nil, queue.ErrClosed, Result{Outcome: schema.Failed, Error: "the request could not be made"}},
		"another error":          {nil, nil, errors.New("dial nats://user:s3cret@inner"), Result{Outcome: schema.Failed, Error: "the request could not be made"}},
	} {
		n := NewNATS(asker(func(context.Context, string, map[string]string, []byte) ([]byte, map[string]string, error) {
			return c.reply, c.headers, c.err
		}))
		got := n.Run(t.Context(), natsCall())
		got.Status, got.Output = len(got.Output), nil
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(Result{})); diff != "" {
			t.Errorf("%s: Run (-want +got):\n%s", name, diff)
		}
	}
}

func TestNATSEndsWithItsContext(t *testing.T) {
	for cause, want := range map[error]schema.Outcome{ErrTimeout: schema.TimedOut, ErrCancelled: schema.Cancelled, ErrStopped: schema.Failed} {
		ctx, cancel := context.WithCancelCause(t.Context())
		n := NewNATS(asker(func(ctx context.Context, _ string, _ map[string]string, _ []byte) ([]byte, map[string]string, error) {
			cancel(cause)
			<-ctx.Done()
			return nil, nil, ctx.Err()
		}))
		if res := n.Run(ctx, natsCall()); res.Outcome != want || res.Final {
			t.Errorf("Run ended by %v: got %+v, want %s and no final failure", cause, res, want)
		}
	}
}

func TestTargetsRefuseOtherKinds(t *testing.T) {
	for name, res := range map[string]Result{
		"HTTP": newHTTP(t, HTTPConfig{}).Run(t.Context(), natsCall()),
		"NATS": NewNATS(nil).Run(t.Context(), callTo("http://127.0.0.1/")),
	} {
		if res.Outcome != schema.Failed || !res.Final {
			t.Errorf("Run of another kind by %s: got %+v, want a final failure", name, res)
		}
	}
}
