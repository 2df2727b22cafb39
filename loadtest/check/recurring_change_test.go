package check_test

import (
	"testing"

	"carillon.dev/carillon/loadtest/check"
)

// TestNominalTimesComeAfterTheCreation: a job is changed at once after its creation to a schedule
// that would have named an instant before it, moved by its jitter to long after the change. It was
// asked for, and nobody had run it.
func TestNominalTimesComeAfterTheCreation(t *testing.T) {
	const line, offset, end = 1, 4_000, 20_000
	for _, c := range []struct {
		name  string
		first int // nominal time that ran
		want  int
	}{{"all after it", 2_000, 0}, {"one after it is missing", 3_000, 1}} {
		t.Run(c.name, func(t *testing.T) {
			w := &recurringWorld{check.RecurringHistory{SeenAll: true, End: at(end)}}
			w.Jobs = []check.JobHistory{{
				ID: jobID(line), First: check.JobReading{Status: check.Found, At: at(rFirst)}, Second: check.JobReading{Status: check.Found, At: at(rSecond)},
			}}
			w.event(line, check.JobCreated, 1_000, 1_000, view(line, 1, "active", every("1h"), "5s", byDefault, 3_600_000, 3_600_000+offset))
			w.event(line, check.JobUpdated, 1_100, 1_200, view(line, 2, "active", every("1s"), "5s", byDefault, 2_000, 2_000+offset))
			for n := c.first; n+offset < end; n += 1_000 {
				w.ran(line, n, n+offset, n+offset+4)
			}
			rep, err := check.JudgeRecurring(w.RecurringHistory)
			if err != nil || rep.Missed != c.want || rep.Unexpected != 0 {
				t.Errorf("JudgeRecurring = %d missed, %d unexpected, %v, want %d missed: %+v", rep.Missed, rep.Unexpected, err, c.want, rep.Faults)
			}
		})
	}
}
