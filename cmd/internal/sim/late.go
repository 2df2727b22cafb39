package sim

import (
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// lateCosts is how late a run starts at most whose row comes after its bucket was swept: that is read again five minutes after its end, and
// what is found there is handed on to an entry that is due within two minutes.
const lateCosts = 9 * time.Minute

// judgeSilent judges that no run lies there as if it were still to start, long after it was due: also none that was never
// acknowledged, since the write that made it came late and its writer was gone.
func (w *world) judgeSilent(runs map[string]check.Reading) {
	for id, r := range runs {
		if r.Status == check.Found && r.Run.State == check.Pending && time.Since(r.Run.DueAt) > time.Minute {
			w.c.broken("run %s was due at %s, and is pending in the end", id, r.Run.DueAt.Format(time.TimeOnly))
		}
	}
}

// doubles reports whether attempts may be executed twice for reasons that the judge cannot see: messages are passed on twice, or an entry
// stands beside a row that came late, and both start (DESIGN section 4, the late rule).
func (s *Scenario) doubles() bool { return s.Faults.Message > 0 || s.LateBy > 0 }
