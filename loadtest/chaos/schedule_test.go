package chaos

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSchedule(t *testing.T) {
	const s = time.Second
	fullCarillon := chain{
		{10 * s, ActKill, "carillon-1"},
		{20 * s, ActStart, "carillon-1"},
		{25 * s, ActFreeze, "carillon-2"},
		{37 * s, ActThaw, "carillon-2"},
	}
	fullStores := []chain{
		{{28 * s, ActKill, "cassandra-2"}, {48 * s, ActStart, "cassandra-2"}},
		{{38 * s, ActKill, "nats-2"}, {46 * s, ActStart, "nats-2"}},
	}
	rows := []struct {
		name                   string
		scenario               Scenario
		cassandra, nats, nodes int
		span                   time.Duration
		want                   []chain
	}{
		{"calm", Calm, 3, 3, 2, time.Minute, nil},
		{"a blackout has its own clock", Blackout, 3, 3, 2, time.Minute, nil},
		{"faults", Faults, 3, 3, 2, time.Minute, append([]chain{fullCarillon}, fullStores...)},
		{"a longer span does not stretch them", Faults, 3, 3, 2, time.Hour, append([]chain{fullCarillon}, fullStores...)},
		{"stream", Stream, 3, 3, 2, time.Minute, append(append([]chain{fullCarillon}, fullStores...), chain{{30 * s, ActStream, "nats-1"}})},
		{"a shorter span shrinks them", Kill, 1, 1, 2, 20 * s, []chain{{{3333 * time.Millisecond, ActKill, "carillon-1"}, {6666 * time.Millisecond, ActStart, "carillon-1"}}}},
		{"alone, a node is not frozen", Faults, 1, 1, 1, time.Minute, []chain{
			{{10 * s, ActKill, "carillon-1"}, {20 * s, ActStart, "carillon-1"}},
			{{28 * s, ActKill, "cassandra-1"}, {48 * s, ActStart, "cassandra-1"}},
			{{38 * s, ActKill, "nats-1"}, {46 * s, ActStart, "nats-1"}},
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got := schedule(row.scenario, row.cassandra, row.nats, row.nodes, row.span)
			if !reflect.DeepEqual(got, row.want) {
				t.Errorf("schedule(%s, %d, %d, %d, %s) =\n%v\nwant\n%v", row.scenario, row.cassandra, row.nats, row.nodes, row.span, got, row.want)
			}
		})
	}
}

// Whatever is broken is mended, within the span, and a quorum of each sort stays up in a full
// cluster.
func TestScheduleMendsWhatItBreaks(t *testing.T) {
	for _, s := range Scenarios {
		for _, span := range []time.Duration{5 * time.Second, time.Minute} {
			for _, c := range schedule(s, 3, 3, 3, span) {
				broken := map[string]Act{}
				for i, step := range c {
					if i > 0 && step.at < c[i-1].at || step.at > span {
						t.Errorf("schedule(%s, span %s): step %v is out of order or after the span", s, span, step)
					}
					switch step.act {
					case ActKill, ActFreeze:
						broken[step.member] = step.act
					case ActStart, ActThaw:
						delete(broken, step.member)
					}
				}
				if len(broken) > 0 {
					t.Errorf("schedule(%s, span %s) leaves %v", s, span, broken)
				}
			}
		}
	}
}

func TestPortions(t *testing.T) {
	minute := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	rows := []struct {
		name string
		at   time.Duration // within the minute
		when time.Duration
	}{
		{"early in the minute", 3 * time.Second, 3 * time.Second},
		{"enough is left", 50 * time.Second, 50 * time.Second},
		{"too little is left", 50*time.Second + time.Millisecond, time.Minute},
		{"the last instant", time.Minute - time.Nanosecond, time.Minute},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got, want := portionAt(minute.Add(row.at)), minute.Add(row.when); !got.Equal(want) {
				t.Errorf("portionAt(%s) = %s, want %s", minute.Add(row.at), got, want)
			}
		})
	}
	for at := time.Duration(0); at < time.Minute; at += 237 * time.Millisecond {
		when := portionAt(minute.Add(at))
		from, spread := portionDue(when)
		end := when.Truncate(time.Minute).Add(time.Minute)
		if !from.After(when) || spread <= 0 || from.Add(spread).After(end) || spread%time.Millisecond != 0 {
			t.Fatalf("portionDue(%s) = %s, %s, want whole milliseconds after the import and within its minute", when, from, spread)
		}
	}
}

func TestCounts(t *testing.T) {
	rows := []struct{ jobs, main, near, immediate int }{
		{100_000, 94_500, 5_000, 500},
		{2_000, 1_890, 100, 10},
		{200, 185, 10, 5},
		{1_234, 1_169, 60, 5},
	}
	for _, row := range rows {
		main, near, immediate := counts(row.jobs)
		if main != row.main || near != row.near || immediate != row.immediate || main+near+immediate != row.jobs {
			t.Errorf("counts(%d) = %d, %d, %d, want %d, %d, %d", row.jobs, main, near, immediate, row.main, row.near, row.immediate)
		}
		for _, scenario := range []Scenario{Faults, Blackout} {
			of := max(len(portionPlan(scenario, time.Minute)), 1)
			if near%of != 0 || immediate%of != 0 || (near+immediate)%of != 0 {
				t.Errorf("%d near and %d immediate jobs do not divide by %d portions", near, immediate, of)
			}
		}
	}
}

func TestPortionPlanLiesWithinTheSpan(t *testing.T) {
	plan := portionPlan(Faults, time.Minute)
	if len(plan) != portions || !slices.IsSorted(plan) || plan[0] <= 0 || plan[portions-1] >= time.Minute {
		t.Errorf("portionPlan(faults, 1m) = %v, want %d instants within the minute, in order", plan, portions)
	}
}

func TestConfigReportsEveryFault(t *testing.T) {
	err := Config{Scenario: "storm", Jobs: 10, Changes: 500, Span: 1500 * time.Microsecond, Lead: -time.Second}.Validate()
	if err == nil {
		t.Fatal("Validate() = nil, want faults")
	}
	for _, want := range []string{`"storm"`, "jobs: 10", "changes: 500", "milliseconds", "lead", "dir", "program", "cluster"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Validate() does not speak of %q:\n%v", want, err)
		}
	}
	blackout := Config{Scenario: Blackout, Dir: "d", Program: "p"}
	blackout.Cluster.Cassandra, blackout.Cluster.NATS, blackout.Cluster.Nodes = 1, 1, 1
	if err := blackout.Validate(); err == nil || !strings.Contains(err.Error(), "group commit log") {
		t.Errorf("Validate() of a blackout on a periodic commit log = %v, want a fault", err)
	}
	blackout.Cluster.CommitLog = "group"
	if err := blackout.Validate(); err != nil {
		t.Errorf("Validate() = %v, want nil", err)
	}
	blackout.Span = -1
	if err := blackout.Validate(); err == nil || !strings.Contains(err.Error(), "one instant") {
		t.Errorf("Validate() of a blackout without a span = %v, want a fault", err)
	}
}
