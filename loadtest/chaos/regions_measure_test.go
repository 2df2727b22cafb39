package chaos

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// called is a call of a run of a home from a region, so many seconds after noon.
func called(seconds float64, home, region string) check.Sighting {
	return check.Sighting{Run: home + "-run", From: region, At: noon.Add(time.Duration(seconds * float64(time.Second)))}
}

func homeOfCalled(run string) string { home, _, _ := strings.Cut(run, "-"); return home }

func itself(from string) string { return from }

func TestStartsAreCountedBySecond(t *testing.T) {
	got := startsBySecond([]check.Sighting{
		called(-1, "eu", "eu"), called(0, "eu", "eu"), called(0.9, "eu", "eu"), called(2, "eu", "us"), called(1, "us", "us"), called(1, "us", ""),
	}, noon, homeOfCalled, itself)
	want := []StartsSeries{{"eu", "eu", []int{2, 0, 0}}, {"eu", "us", []int{0, 0, 1}}, {"us", "us", []int{0, 1, 0}}}
	if !slices.EqualFunc(got, want, func(a, b StartsSeries) bool {
		return a.Home == b.Home && a.Region == b.Region && slices.Equal(a.Starts, b.Starts)
	}) {
		t.Errorf("startsBySecond = %v, want %v", got, want)
	}
}

// A fail-over lasts from its command to the first start in the region that took over, a move the
// same, and one that nobody commanded from the loss.
func TestFailOversAreMeasured(t *testing.T) {
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	starts := startsOf([]check.Sighting{
		called(87, "eu", "us"), called(59, "eu", "eu"), called(70, "us", "us"), called(86, "eu", "us"), called(180, "eu", "eu"), called(85, "eu", "eu"),
	}, "eu", homeOfCalled)
	events := []Event{
		{Act: ActMove, Member: "eu to eu", Began: at(170)},
		{Act: ActRegionKill, Member: "eu", Began: at(60)},
		{Act: ActFailOver, Member: "eu to us", Began: at(65)},
		{Act: ActMove, Member: "eu to us", Began: at(190)},
	}
	byHand := failOvers(events, starts, itself, false)
	want := []FailOver{
		{What: "fail over eu to us", To: "us", At: at(65), Last: at(85), First: at(86), Within: byHandWithin},
		{What: "move eu to eu", To: "eu", At: at(170), Last: at(87), First: at(180)},
		{What: "move eu to us", To: "us", At: at(190)},
	}
	if !slices.Equal(byHand, want) {
		t.Errorf("failOvers = %+v, want %+v", byHand, want)
	}
	alone := failOvers(events[1:2], starts, itself, true)
	if len(alone) != 1 || !alone[0].First.Equal(at(86)) || !alone[0].At.Equal(at(60)) || alone[0].Within != byItselfWithin {
		t.Errorf("failOvers without a command = %+v, want one, from the loss to the first start in us", alone)
	}
}

func TestPlotOfRegions(t *testing.T) {
	r := &Report{
		Scenario: RegionKilled, Commit: "abc", FirstDue: noon,
		Events: []Event{{Act: ActRegionKill, Member: "eu", Began: noon.Add(time.Second)}, {Act: ActFailOver, Member: "eu to us", Began: noon.Add(2 * time.Second)}},
		Regions: &RegionsResult{
			PerSecond: []StartsSeries{{"eu", "eu", []int{20, 20, 0, 0, 0}}, {"eu", "us", []int{0, 0, 0, 0, 60}}},
			FailOvers: []FailOver{{To: "us", First: noon.Add(4 * time.Second)}},
		},
	}
	var svg bytes.Buffer
	if ok, err := WritePlot(&svg, r); err != nil || !ok {
		t.Fatalf("WritePlot = %t, %v, want a plot", ok, err)
	}
	for _, want := range []string{"region-killed", "home eu in us", "1.0 s kill -9 region eu", "2.0 s fail over eu to us", "4.0 s first start in us"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("the plot lacks %q", want)
		}
	}
	svg.Reset()
	for _, none := range []*Report{{Scenario: Calm}, {Scenario: RegionKilled, Regions: &RegionsResult{}}} {
		if ok, err := WritePlot(&svg, none); ok || err != nil || svg.Len() > 0 {
			t.Errorf("WritePlot of a report without starts = %t, %v and %d bytes, want nothing", ok, err, svg.Len())
		}
	}
}

// What a region took in just before it was lost is not sent again; what it took in by its lease,
// while it was cut off, neither.
func TestLossesAreOfCutsAndKills(t *testing.T) {
	r := &recorder{report: &Report{Events: []Event{
		{Act: ActRegionCut, Began: noon, Ended: noon.Add(time.Second)},
		{Act: ActRegionKill, Began: noon.Add(time.Minute), Ended: noon.Add(61 * time.Second)},
		{Act: ActRegionHeal, Began: noon.Add(2 * time.Minute), Ended: noon.Add(2 * time.Minute)},
	}}}
	for after, want := range map[time.Duration]bool{
		-time.Second: false, -replicated: true, 11 * time.Second: true, 11*time.Second + 1: false,
		time.Minute - replicated: true, 61 * time.Second: true, 62 * time.Second: false, 2 * time.Minute: false,
	} {
		if got := r.lossAt(noon.Add(after), ActRegionCut, ActRegionKill); got != want {
			t.Errorf("lossAt %s = %t, want %t", after, got, want)
		}
	}
	for act, want := range map[Act]string{ActRegionCut: "--lost-region", ActRegionKill: "--lost"} {
		if got := lossArgs(r.losses(act)); len(got) != 2 || got[0] != want {
			t.Errorf("lossArgs of %s = %q, want one span of %s", act, got, want)
		}
	}
}

func TestKeysSentAgainAreCounted(t *testing.T) {
	var k KeyedResult
	k.again("a", "1", "1")
	k.again("b", "2", "")
	if k.Same != 1 || k.Silent != 1 || k.fault() != "" {
		t.Errorf("counts are %+v with the fault %q, want one the same, one silent, and none", k, k.fault())
	}
	k.again("c", "3", "4")
	if k.Different != 1 || !strings.Contains(k.fault(), "c: job 3, and then 4") {
		t.Errorf("counts are %+v with the fault %q, want another job named", k, k.fault())
	}
}

func TestRowsDiffer(t *testing.T) {
	here, there := map[string]int{"a": 1, "b": 2}, map[string]int{"b": 3}
	if got := differences("eu", here, "us", there); !slices.Equal(got, []string{"eu: a", "us: b"}) {
		t.Errorf("differences = %q, want that a is missing, and b is there once too often", got)
	}
	if got := differences("eu", here, "us", here); len(got) != 0 {
		t.Errorf("differences from itself = %q, want none", got)
	}
}
