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
