package notifications_test

import (
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// TestRunsThatTheirLimitSkipsAreNotTold: a rule on missed tells of the runs that were late, changed
// or not readable, and not of those that the limit of their own job skips.
func TestRunsThatTheirLimitSkipsAreNotTold(t *testing.T) {
	limit := &schema.Concurrency{Limit: 1, OnLimit: schema.OnLimitSkip}
	keyed := &schema.Concurrency{Limit: 3, OnLimit: schema.OnLimitSkip, Key: "payload.customer"}
	for name, c := range map[string]struct {
		reason string
		told   bool
	}{
		"skipped by a limit of one":   {bucketer.SkipByLimit(limit).Reason, false},
		"skipped by a limit of a key": {bucketer.SkipByLimit(keyed).Reason, false},
		"misfire policy skip":         {"skip: it was late", true},
		"misfire policy run_latest":   {"run_latest: a later one is due", true},
		"misfire policy skip alone":   {"skip", true},
		"misfire deadline":            {"deadline: later than 2m0s", true},
		"a changed job":               {"changed: the job was changed before the run could start", true},
		"an unreadable row":           {"unreadable: it is null", true},
		"no reason":                   {"", true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.put(func(r *schema.NotificationRule) { r.On = []schema.NotificationKind{schema.NotifyMissed} })
				f := w.ended(schema.MakeJobID(w.began, 1, 7), schema.Missed)
				f.Attempt.Number, f.Attempt.Record.Reason, f.Attempt.Record.Started = 0, c.reason, time.Time{}
				if again := w.follow(f); again > 0 {
					t.Fatal("a record is to be followed up again")
				}
				if told := len(w.counted()) == 1; told != c.told {
					t.Errorf("a run that was missed with the reason %q is an incident: %t, want %t", c.reason, told, c.told)
				}
			})
		})
	}
}
