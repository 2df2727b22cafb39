package notifications_test

import (
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// TestHowLateARunMayBe: a rule on late with match.late_by tells of the runs that started at least
// so much after their time. What else it asks for it tells of in any case.
func TestHowLateARunMayBe(t *testing.T) {
	const failed, succeeded = schema.Failed, schema.Succeeded
	for name, c := range map[string]struct {
		by, late time.Duration
		outcome  schema.Outcome
		told     int
	}{
		"a second late":               {0, time.Second, succeeded, 0},
		"more than a second late":     {0, 1001 * time.Millisecond, succeeded, 1},
		"not late enough":             {5 * time.Minute, 5*time.Minute - time.Millisecond, succeeded, 0},
		"late enough":                 {5 * time.Minute, 5 * time.Minute, succeeded, 1},
		"failed, and not late enough": {5 * time.Minute, time.Minute, failed, 1},
		"failed, and late enough":     {5 * time.Minute, 6 * time.Minute, failed, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.put(func(r *schema.NotificationRule) {
					r.On, r.Match.LateBy = []schema.NotificationKind{schema.NotifyLate, schema.NotifyFailed}, schema.Duration(c.by)
				})
				f := w.ended(schema.MakeJobID(w.began, 1, 7), c.outcome)
				f.Attempt.Record.Started = f.Entry.LatenessFrom().Add(c.late)
				if again := w.follow(f); again > 0 {
					t.Fatal("a record is to be followed up again")
				}
				if got := len(w.counted()); got != c.told {
					t.Fatalf("%d incidents are written, want %d", got, c.told)
				}
				defer w.notify(always())()
				time.Sleep(3 * time.Minute)
				sent := w.messages()
				if len(sent) != c.told {
					t.Fatalf("%d messages are sent, want %d", len(sent), c.told)
				}
				says := "it started " + c.late.String() + " after its time; refused"
				if c.late < c.by {
					says = "refused"
				}
				if c.told > 0 && sent[0].Data.Runs[0].Error != says {
					t.Errorf("the message says %q, want %q", sent[0].Data.Runs[0].Error, says)
				}
			})
		})
	}
}
