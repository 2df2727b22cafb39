package restore

import (
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/loadtest/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What comes out badly is said: too few jobs that are gone, that could run again, or that ended,
// and what the checker finds.
func TestFaults(t *testing.T) {
	well := func() *Report {
		return &Report{Check: check.Report{Forgiven: &check.Forgiven{Lost: afterJobs, Repeatable: betweenJobs, Repeated: betweenJobs}}}
	}
	if got := well().faults(); len(got) > 0 {
		t.Errorf("faults = %q, want none", got)
	}
	for want, change := range map[string]func(r *Report){
		"the checker found":       func(r *Report) { r.Check.Missed = 1 },
		"does not tell":           func(r *Report) { r.Check.Forgiven = nil },
		"99 of the 100":           func(r *Report) { r.Check.Forgiven.Lost-- },
		"149 jobs ran between":    func(r *Report) { r.Check.Forgiven.Repeatable-- },
		"2 jobs that ran between": func(r *Report) { r.Check.Forgiven.Unended = 2 },
	} {
		r := well()
		change(r)
		if got := strings.Join(r.faults(), "; "); !strings.Contains(got, want) {
			t.Errorf("faults = %q, want %q", got, want)
		}
	}
	var said strings.Builder
	if err := well().Write(&said); err != nil || !strings.Contains(said.String(), "150 jobs: 150 ran again") {
		t.Errorf("Write = %v\n%s", err, said.String())
	}
}

// Jobs are due in the order that the drill needs, with time between for what is done.
func TestTimes(t *testing.T) {
	for _, slow := range []int{0, 1, 3} {
		at := Config{Slow: slow}.times()
		if at.between-at.done < 30*time.Second || at.later-at.between < 20*time.Second || at.span < time.Minute {
			t.Errorf("times of a drill %d times as slow: %+v, want half a minute for a snapshot", slow, at)
		}
	}
}

// The handbook names what the drill does.
func TestHandbookHasTheCommands(t *testing.T) {
	text, err := os.ReadFile("../../deploy/OPERATING.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"nodetool snapshot -t ", "nodetool clearsnapshot -t ", "DESCRIBE KEYSPACE " + keyspace, "nodetool import --copy-data " + keyspace,
		"nodetool repair -full " + keyspace, "make restore-drill",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("deploy/OPERATING.md does not name %q", want)
		}
	}
}
