package chaos

import (
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/check/workflows"
	"carillon.dev/carillon/schema"
)

func TestHomeOfRun(t *testing.T) {
	for homes, want := range map[int]map[schema.Shard]string{
		2: {0: lostHome, 7: lostHome, 8: otherHome, 15: otherHome},
		3: {0: lostHome, 4: lostHome, 5: otherHome, 9: otherHome, 10: "ap", 15: "ap"}, // as deploy/local lays them out
	} {
		of := homeOfRun(16, cluster.RegionsSpec{Regions: homes}.Homes())
		for shard, want := range want {
			if got := of(schema.MakeEntryID(time.Now(), shard, 1).String()); got != want {
				t.Errorf("of %d homes that of a run of shard %d = %q, want %q", homes, shard, got, want)
			}
		}
		if got := of("no run"); got != "" {
			t.Errorf("home of what is no run = %q, want none", got)
		}
	}
}

// A report of regions fails if a region started what it did not serve, or if the home without a fault
// was judged to have one.
func TestRegionsReportFails(t *testing.T) {
	good := func() *Report {
		return &Report{
			Judged: true, Scenario: RegionMove,
			Check: check.Report{Guarantees: []check.GuaranteeCount{{Guarantee: check.AtLeastOnce, Runs: 1}, {Guarantee: check.AtMostOnce, Runs: 1}, {Guarantee: check.EffectivelyOnce, Runs: 1}}},
			Regions: &RegionsResult{
				Starts: check.Regions{Starts: 1}, Others: map[string]*check.Report{otherHome: {}},
				Workflows: map[string]*WorkflowsResult{otherHome: {Check: workflows.Report{Triggers: 10, Acknowledged: 10, StepRuns: 90, Items: 3, SeenAll: true}}},
				Keyed:     map[string]*KeyedResult{lostHome: {Created: 2, Same: 1, Silent: 1}},
			},
		}
	}
	if r := good(); r.Failed() {
		t.Errorf("a good report has the faults %q", r.Faults())
	}
	for want, spoil := range map[string]func(*Report){
		"2 starts by a region that did not serve": func(r *Report) { r.Regions.Starts.Foreign, r.Regions.Starts.Overlapping = 1, 1 },
		"not known which region":                  func(r *Report) { r.Regions.Starts.Starts = 0 },
		"home us: missed 1":                       func(r *Report) { r.Regions.Others[otherHome].Missed = 1 },
		"workflows of home us: missed 2":          func(r *Report) { r.Regions.Workflows[otherHome].Check.Missed = 2 },
		"0 steps ran":                             func(r *Report) { r.Regions.Workflows[otherHome].Check.StepRuns = 0 },
		"8 of 10 requests to run workflows":       func(r *Report) { r.Regions.Workflows[otherHome].Check.Acknowledged = 8 },
		"home eu: 1 requests sent again":          func(r *Report) { r.Regions.Keyed[lostHome].Different = 1 },
		"1 started in another region":             func(r *Report) { r.Regions.Required.Elsewhere = 1 },
		"2 waited for theirs and did not say so":  func(r *Report) { r.Regions.Required.WaitedSilently = 2 },
		"none was seen to wait for its region":    func(r *Report) { r.Regions.Away = 1 },
		"jobs that require their region: missed":  func(r *Report) { r.Regions.Required.Missed = 1 },
		"no request with a key was sent again":    func(r *Report) { r.Regions.Keyed[lostHome].Same = 0 },
	} {
		r := good()
		spoil(r)
		if faults := strings.Join(r.Faults(), "; "); !strings.Contains(faults, want) {
			t.Errorf("faults = %q, want %q among them", faults, want)
		}
	}
}

func TestCountEverywhere(t *testing.T) {
	ref := func(line int) check.Ref { return check.Ref{Source: everywhereSource, Line: line} }
	ask := func(line int, g check.Guarantee) check.Ask { return check.Ask{Ref: ref(line), Guarantee: g} }
	ack := func(line int, id string) check.Ack { return check.Ack{Ref: ref(line), ID: id} }
	call := func(line int) check.Sighting { return check.Sighting{Ref: ref(line)} }
	acked, uncalled, twice := countEverywhere(
		[]check.Ask{ask(1, check.AtLeastOnce), ask(2, check.AtLeastOnce), ask(3, check.AtMostOnce), ask(4, check.AtMostOnce), ask(5, check.AtLeastOnce), ask(6, check.AtMostOnce)},
		[]check.Ack{ack(1, "a"), ack(2, "b"), ack(3, "c"), ack(4, "d"), ack(5, ""), ack(6, "f"), ack(6, "")},
		[]check.Sighting{call(1), call(1), call(3), call(3), call(4)},
	)
	if acked != 5 || uncalled != 1 || twice != 1 {
		t.Errorf("countEverywhere = %d acknowledged, %d never called, %d called again; want 5, the second job, the third", acked, uncalled, twice)
	}
	for _, k := range everywhereKinds() {
		if k.Durability != string(schema.DurableEverywhere) {
			t.Errorf("%+v is not of durability everywhere", k)
		}
	}
}

func TestAwayOf(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 11, 27, 10, 0, s, 0, time.UTC) }
	epoch := func(n int64, home, region string, s int) check.Epoch {
		return check.Epoch{Home: home, Number: n, Region: region, At: at(s)}
	}
	got := awayOf("eu", []check.Epoch{
		epoch(4, "eu", "eu", 40), epoch(1, "eu", "eu", 0), epoch(1, "us", "us", 0), epoch(2, "eu", "us", 20), epoch(3, "eu", "us", 30), epoch(5, "eu", "us", 50),
	})
	if len(got) != 2 || got[0] != (check.Away{Region: "eu", From: at(20), To: at(40)}) || got[1].From != at(50) {
		t.Errorf("awayOf = %+v, want from 20 s to 40 s, and from 50 s on", got)
	}
	for _, k := range requiredKinds() {
		if k.Region != lostHome {
			t.Errorf("%+v does not require its region", k)
		}
	}
}
