package bucketer

import (
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// emptyFor is how long the lease of a limit lives whose slots are all free.
const emptyFor = time.Hour

// SlotsExpire returns when the lease of a limit expires that says s: never while a run holds a
// slot.
func SlotsExpire(s *schema.Slots, now time.Time) time.Time {
	if len(s.Blocks) > 0 || slices.ContainsFunc(s.Taken, func(t schema.Slot) bool { return !t.Kept() }) {
		return time.Time{}
	}
	return now.Add(emptyFor)
}

// CancelledByLimit is the author of cancels that make room for later runs.
const CancelledByLimit = "carillon: concurrency"

// causeSkipped is why runs were missed (MissedCause) that the limit of their job skips.
const causeSkipped = "skipped"

// SkipByLimit returns the record of a run that is given up since as many runs of its job are under
// way as may (schema.OnLimitSkip).
func SkipByLimit(limit *schema.Concurrency) schema.Record {
	return schema.Record{Outcome: schema.Missed, Reason: causeSkipped + ": " + UnderWay(limit)}
}

// IsSkippedByLimit reports whether a record says that the limit of its job skipped the run, as its
// tenant asks for: neither the scheduler nor the job was late.
func IsSkippedByLimit(rec *schema.Record) bool {
	return rec.Outcome == schema.Missed && MissedCause(rec) == causeSkipped
}

// UnderWay says how many runs of a job there are when as many run as may.
func UnderWay(limit *schema.Concurrency) string {
	same := ""
	if limit.Key != "" {
		same = " with the same " + limit.Key
	}
	if limit.Limit == 1 {
		return "a run of the job" + same + " was under way"
	}
	return fmt.Sprintf("%d runs of the job%s were under way", limit.Limit, same)
}
