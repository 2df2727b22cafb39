package bucketer

import (
	"errors"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// asks has the task of that name ask for payloads with a number n.
func (w *world) asks(name, text string) {
	w.T.Helper()
	time.Sleep(time.Millisecond) // of two that are put in one, either stays
	task := schema.Task{Tenant: "t", Name: name, Work: schema.Work{NATS: &schema.NATSTarget{Subject: "x"}}, PayloadSchema: []byte(text)}
	w.putTask(task)
}

const wantsN = `{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`

// unfit checks that an error is the one fault of a payload.
func unfit(t *testing.T, what string, err error, want string) {
	t.Helper()
	var faults Faults
	if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Location+" "+faults[0].Message != want {
		t.Errorf("%s = %v, want the fault %q", what, err, want)
	}
}

const (
	noN   = `body.payload must have "n"`
	badN  = "body.payload/n must be integer, is string"
	nullN = "body.payload must be object, is null"
	wordy = `{"n":"x"}`
)

func TestPayloadsOfOneOffJobsFitTheirTask(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.asks("n", wantsN)
		w.task("t", "any")
		at := time.Now().Add(time.Hour)
		job := func(task, payload string) Job {
			j := Job{Tenant: "t", Task: task, At: at, BodyHash: "h"}
			if payload != "" {
				j.Payload = []byte(payload)
			}
			return j
		}
		w.Counts.Reset()
		_, err := w.Submit(ctx, job("n", `{}`))
		unfit(t, "Submit", err, noN)
		_, err = w.Submit(ctx, job("n", ``))
		unfit(t, "Submit without payload", err, nullN)
		withKey := job("n", wordy)
		withKey.Key = "k"
		_, err = w.Submit(ctx, withKey)
		unfit(t, "Submit with a key", err, badN)
		if n := w.Counts.Tally("PutEntries").Calls + w.Counts.Tally("RegisterKey").Calls; n != 0 {
			t.Errorf("%d writes for payloads that do not fit, want none", n)
		}
		w.submit(job("n", `{"n":1}`))

		withKey.At = at
		nowKeyed := job("n", wordy)
		nowKeyed.Key, nowKeyed.At = "now", time.Time{}
		answers := w.batch(job("n", `{"n":1}`), job("n", `{}`), withKey, nowKeyed, job("any", wordy), callTo(at))
		for i, want := range []string{"", noN, badN, badN, "", ""} {
			if want != "" {
				unfit(t, "SubmitBatch", answers[i].err, want)
			} else if answers[i].err != nil {
				t.Errorf("SubmitBatch: job %d = %v, want it taken", i, answers[i].err)
			}
		}
	})
}

func TestATaskWithoutSchemaCostsNothing(t *testing.T) {
	w := newWorld(t, schema.Settings{})
	w.task("t", "any")
	job := Job{Tenant: "t", Task: "any", Payload: []byte(`{"n":1}`)}
	if n := testing.AllocsPerRun(100, func() {
		if _, err := w.checkTask(t.Context(), &job); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("checkTask allocates %v times, want none", n)
	}
}

// A schema that is refused by now may lie in the store, written by a version that took it.
func TestASchemaThatIsRefusedByNow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.asks("n", `{"type":"thing"}`)
		_, err := w.Submit(t.Context(), Job{Tenant: "t", Task: "n"})
		var faults Faults
		if !errors.As(err, &faults) || !strings.HasPrefix(faults[0].Message, "cannot be checked: the schema of task n is refused by now") {
			t.Errorf("Submit = %v, want that the schema is refused", err)
		}
	})
}
