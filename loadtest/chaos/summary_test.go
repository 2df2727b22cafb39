package chaos

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

func TestSummary(t *testing.T) {
	began := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	good := &Report{Scenario: Faults, Commit: "abc", Began: began, Judged: true, Settings: Settings{Jobs: 100}}
	good.Check.DuplicateExecutions, good.Check.Seen.Max = 3, 1234
	good.Check.Bound = check.LatenessBound{Max: time.Minute}
	late := &Report{Scenario: Limits, Commit: "abc", Began: began, Judged: true, Recurring: &RecurringResult{}}
	late.Check.Missed, late.Recurring.Check.Missed, late.Recurring.Check.Seen.Max = 1, 2, 5000
	cut := &Report{Scenario: CutStore, Commit: "abc", Began: began}
	var out bytes.Buffer
	if err := WriteSummary(&out, good, late, cut); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| faults | ok | abc, 2026-11-23 | 100 | 0 / 0 / 0 | 3 | 1.2 s (1m0s at most) |\n",
		"| limits | **failed** | abc, 2026-11-23 | 0 | 3 / 0 / 0 | 0 | 5.0 s (none) |\n",
		"| cut-store | **failed**: not judged | abc, 2026-11-23 | 0 | | | |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("WriteSummary:\n%s\nwant %q", out.String(), want)
		}
	}
}
