package check

import "testing"

// A run of a phase whose offset nobody knows has the nominal time that the API shows: the phase after it
// may name the same, and need not run it again.
func TestNominalTimeUnderAnUnknownOffset(t *testing.T) {
	every := func(ms int64) times { return times{rules: []rule{{every: ms}}} }
	j := recurringJob{phases: []phase{{active: true, unknown: true}, {active: true, times: every(10_000), offset: 815, from: 55_000}}}
	for _, c := range []struct{ due, shown, want int64 }{
		{57_653, 50_000, 50_000},
		{57_653, 0, 57_653},
		{60_815, 60_000, 60_000}, // both may have planned it
	} {
		if nominal, _ := j.naming(c.due, c.shown); nominal != c.want {
			t.Errorf("a run due at %d, shown as of %d, has the nominal time %d, want %d", c.due, c.shown, nominal, c.want)
		}
	}
}
