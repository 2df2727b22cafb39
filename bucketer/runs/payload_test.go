package runs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
)

// asks has the task of that name ask for payloads with a number n.
func (w *world) asks(name, text string) {
	w.T.Helper()
	time.Sleep(time.Millisecond) // of two that are put in one, either stays
	task := schema.Task{Tenant: "t", Name: name, Work: schema.Work{NATS: &schema.NATSTarget{Subject: "x"}}, PayloadSchema: []byte(text)}
	w.putTask(task)
}

// unfit checks that an error is the one fault of a payload.
func unfit(t *testing.T, what string, err error, want string) {
	t.Helper()
	var faults bucketer.Faults
	if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Location+" "+faults[0].Message != want {
		t.Errorf("%s = %v, want the fault %q", what, err, want)
	}
}

const badN = "body.payload/n must be integer, is string"

func TestChangedRunsFitTheirTask(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.asks("n", `{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`)
		w.task("t", "any")
		job := func(task, payload string) bucketer.Job {
			return bucketer.Job{Tenant: "t", Task: task, At: time.Now().Add(time.Hour), BodyHash: "h", Payload: []byte(payload)}
		}
		id := w.submit(job("n", `{"n":1}`))

		bad := []byte(`{"n":"x"}`)
		_, err := w.Reschedule(ctx, "t", id, Change{Payload: &bad})
		unfit(t, "Reschedule with another payload", err, badN)
		// a large one, that lies elsewhere
		free := w.submit(job("any", `"`+strings.Repeat("x", 5000)+`"`))
		_, err = w.Reschedule(ctx, "t", free, Change{Task: bucketertest.Pointer("n")})
		unfit(t, "Reschedule with another task", err, "body.payload must be object, is string")
		good := []byte(`{"n":2}`)
		if _, err = w.Reschedule(ctx, "t", free, Change{Task: bucketertest.Pointer("n"), Payload: &good}); err != nil {
			t.Errorf("Reschedule with another task and payload = %v", err)
		}

		// A task that changes leaves what was written alone; what is asked for by hand has to fit.
		w.asks("n", `{"type":"null"}`)
		if _, err = w.Reschedule(ctx, "t", id, Change{Priority: bucketertest.Pointer(schema.High)}); err != nil {
			t.Errorf("Reschedule of a priority = %v", err)
		}
		if _, err = w.Cancel(ctx, "t", id, "me"); err != nil {
			t.Fatal(err)
		}
		_, err = w.Retry(ctx, "t", id, "")
		unfit(t, "Retry", err, "body.payload must be null, is object")
	})
}
