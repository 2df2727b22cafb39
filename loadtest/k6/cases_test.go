package k6_test

import (
	"slices"
	"time"
)

// A testCase is a script run on a stub with one fault.
type testCase struct {
	script string
	name   string
	faults faults
	want   []string // the thresholds that fail, and no others, by name (see nameOf)
	env    []string // settings of the script
}

// cases are all, those that take longest first. Latency is looked at as the caller sees it, so a
// stub that is too slow for its generator is too slow for the bounds as well, where these are
// narrow.
func cases() []testCase {
	all := []testCase{
		// 50 creations a second, and 50 VUs at hand, are more than enough for answers within 1 s
		// and not for 2.5 s. There is nothing to drop but beside the herd.
		{
			"herd.js", "creations beside it are slow",
			faults{slow: slow("create", 2500)},
			[]string{"create p(95)", "create p(99)", "dropped_iterations"},
			[]string{"PROFILE=spike"},
		},

		// With 50 VUs for 30 iterations a second, mostly creations at first, and 15 that may be
		// dropped: a VU in addition costs one of them. At 5 s it takes over 100 VUs.
		{"mixed.js", "creations are too slow for the generator", faults{slow: slow("create", 5000)}, []string{"create p(95)", "create p(99)", "dropped_iterations"}, nil},
		{"mixed.js", "creations are slow", faults{slow: slow("create", 1300)}, slowOf("create"), nil},
		{"mixed.js", "keyed creations are slow", faults{slow: slow("create keyed", 2600)}, slowOf("create keyed"), nil},
		{"mixed.js", "reads of jobs are slow", faults{slow: slow("read jobs", 1300)}, slowOf("read jobs"), nil},
		{"mixed.js", "reads of runs are slow", faults{slow: slow("read runs", 1300)}, slowOf("read runs"), nil},
		{"mixed.js", "lists are slow", faults{slow: slow("list", 5200)}, slowOf("list"), nil},
		{"mixed.js", "cancels are slow", faults{slow: slow("cancel", 2600)}, slowOf("cancel"), nil},
		{"mixed.js", "reschedules are slow", faults{slow: slow("reschedule", 2600)}, slowOf("reschedule"), nil},
		{"mixed.js", "lists out of order", faults{disorder: true}, []string{"checks"}, nil},
		{"mixed.js", "lists beyond their window", faults{overshoot: true}, []string{"checks"}, nil},
		{"mixed.js", "a replay names another job", faults{forget: true}, []string{"checks"}, nil},
		{"mixed.js", "a replay is not said to be one", faults{unsaid: true}, []string{"checks"}, nil},
		{"mixed.js", "a cancelled run does not say so", faults{mute: true}, []string{"checks"}, nil},
		{"mixed.js", "rescheduled to no other instant", faults{stick: true}, []string{"checks"}, nil},
		{"mixed.js", "a read of another job", faults{mistake: true}, []string{"checks"}, nil},
		{"mixed.js", "429 is no error", faults{refuse: true}, []string{"back_pressure"}, nil},
		{"mixed.js", "500", faults{fail: true}, []string{"errors"}, nil},
		{"mixed.js", "an answer that is not JSON", faults{garble: true}, []string{"iterations_broken"}, nil},

		{"herd.js", "a run is not listed", faults{skip: true}, []string{"checks"}, nil},
		{"herd.js", "429", faults{refuse: true}, []string{"back_pressure", "checks"}, nil},
		{"herd.js", "an answer that was cut", faults{cut: true}, []string{"errors"}, nil},
		{"herd.js", "a line fails", faults{lineFails: true}, []string{"checks", "errors", "import_lines_failed"}, nil},
		{"herd.js", "an exception", faults{hangUp: true}, []string{"iterations_broken"}, []string{"K6_THROW=true"}},
		{"herd.js", "imports are slow", faults{slow: slow("import", 5000)}, []string{"import p(95)"}, nil},
		{"herd.js", "imports are very slow", faults{slow: slow("import", 8500)}, slowOf("import"), nil},

		// 20 a second, 50 VUs and 10 that may be dropped: 50 are started in the second half of
		// these 5 s, and at most every second finds the VU that the one before has cost.
		{"jobs.js", "too slow for the generator", faults{slow: slow("create", 5000)}, []string{"create p(95)", "create p(99)", "dropped_iterations"}, nil},
		{"jobs.js", "slow", faults{slow: slow("create", 1500)}, slowOf("create"), nil},
		{"jobs.js", "429 is no error", faults{refuse: true}, []string{"back_pressure"}, nil},
		{"jobs.js", "429 without Retry-After", faults{hasty: true}, []string{"back_pressure", "checks"}, nil},
		{"jobs.js", "500", faults{fail: true}, []string{"errors"}, nil},
		{"jobs.js", "an answer that is not JSON", faults{garble: true}, []string{"iterations_broken"}, nil},
		{"jobs.js", "another instant", faults{move: true}, []string{"checks"}, nil},

		// 4 in 10 s, 3 VUs and none that may be dropped: all three are under way when the fourth
		// should start.
		{"import.js", "too slow for the generator", faults{slow: slow("import", 9000)}, []string{"dropped_iterations"}, nil},
		{"import.js", "slow", faults{slow: slow("import", 11000)}, []string{"import p(95)"}, []string{"RATE=2"}},
		{"import.js", "very slow", faults{slow: slow("import", 20500)}, slowOf("import"), []string{"RATE=2"}},
		{"import.js", "slow when sent again", faults{slow: slow("resend", 20500)}, slowOf("resend"), nil},
		{"import.js", "429", faults{refuse: true}, []string{"back_pressure"}, nil},
		{"import.js", "an answer that was cut", faults{cut: true}, []string{"errors"}, nil},
		{"import.js", "a line fails", faults{lineFails: true}, []string{"errors", "import_lines_failed"}, nil},
		{"import.js", "a refused line is no error", faults{lineWaits: true}, []string{"back_pressure"}, nil},
		{"import.js", "keys are forgotten", faults{forget: true}, []string{"checks"}, nil},
		{"import.js", "an exception", faults{hangUp: true}, []string{"iterations_broken"}, []string{"K6_THROW=true"}},

		// 10 imports a second and 12 VUs: all are under way after 1.2 s.
		{
			"k6-10k.js", "too slow for the generator",
			faults{slow: slow("import", 1500)},
			[]string{"dropped_iterations", "jobs_accepted"},
			[]string{"RATE=9001", "DURATION=3s"},
		},
		{"k6-10k.js", "slow", faults{slow: slow("import", 2500)}, []string{"import p(95)"}, nil},
		{"k6-10k.js", "very slow", faults{slow: slow("import", 4200)}, slowOf("import"), nil},
		{"k6-10k.js", "an import after its second", faults{slow: slow("import", 2500)}, []string{"checks", "import p(95)"}, []string{"AHEAD=1s"}},
		{"k6-10k.js", "429", faults{refuse: true}, []string{"back_pressure", "jobs_accepted"}, nil},
		{"k6-10k.js", "an answer that was cut", faults{cut: true}, []string{"errors", "jobs_accepted"}, nil},
		{"k6-10k.js", "a line fails", faults{lineFails: true}, []string{"errors", "import_lines_failed", "jobs_accepted"}, nil},
		{"k6-10k.js", "an exception", faults{hangUp: true}, []string{"iterations_broken", "jobs_accepted"}, []string{"K6_THROW=true"}},
	}
	for _, script := range []string{"mixed.js", "herd.js", "jobs.js", "import.js", "k6-10k.js"} {
		lost, late := []string{"runs_missing"}, []string{"lateness_p99_ms"}
		if script == "herd.js" { // it lists every run as well
			lost, late = []string{"checks", "runs_missing"}, []string{"herd_lateness_ms", "lateness_max_ms"}
		}
		all = append(
			all,
			testCase{script, "all is well", faults{}, nil, nil},
			testCase{script, "runs never start", faults{lose: true}, lost, nil},
			testCase{script, "late", faults{late: true}, late, nil},
			testCase{script, "early", faults{early: true}, []string{"runs_early"}, nil},
			testCase{script, "a failed attempt", faults{miscarry: true}, []string{"runs_failed"}, nil},
			testCase{script, "a node started anew", faults{restart: true}, []string{"verdicts"}, nil},
			testCase{script, "everything is refused", faults{shut: true}, []string{"back_pressure", "jobs_accepted", "verdicts"}, nil},
		)
	}
	slices.SortStableFunc(all, func(a, b testCase) int { return b.length() - a.length() })
	return all
}

// length says which cases take longer: mixed.js waits till its last job is due, and what is missing
// is waited for.
func (c testCase) length() int {
	switch {
	case slices.Contains(c.env, "PROFILE=spike"):
		return 2
	case c.script == "mixed.js", c.faults.lose, c.faults.restart:
		return 1
	}
	return 0
}

func slow(kind string, ms int) map[string]time.Duration {
	return map[string]time.Duration{kind: time.Duration(ms) * time.Millisecond}
}

// slowOf are both bounds on the latency of a kind of call.
func slowOf(kind string) []string { return []string{kind + " p(95)", kind + " p(99)"} }
