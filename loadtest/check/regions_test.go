package check_test

import (
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// Home eu is served by eu, from 100 s on by us, from 200 s on by eu again.
func TestJudgeRegions(t *testing.T) {
	t0 := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	after := func(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }
	epochs := []check.Epoch{
		{Home: "eu", Number: 3, Region: "eu", At: after(200)},
		{Home: "eu", Number: 1, Region: "eu", At: after(0)},
		{Home: "eu", Number: 2, Region: "us", At: after(100)},
	}
	call := func(s float64, region string) check.Sighting {
		return check.Sighting{Run: "eu-1", From: region, At: after(s)}
	}
	for _, row := range []struct {
		name                 string
		seen                 []check.Sighting
		starts, foreign, two int
		says                 string
	}{
		{"each in its turn", []check.Sighting{call(50, "eu"), call(114, "us"), call(214, "eu")}, 3, 0, 0, ""},
		{"the end of a lease", []check.Sighting{call(109.9, "eu"), call(112, "us")}, 2, 0, 0, ""},
		{"beyond the lease", []check.Sighting{call(110, "eu")}, 1, 1, 0, "did not serve"},
		{"before its epoch", []check.Sighting{call(99, "us")}, 1, 1, 0, "did not serve"},
		{"after the lease had ended and before it came back", []check.Sighting{call(150, "eu")}, 1, 1, 0, "did not serve"},
		{"both at once", []check.Sighting{call(105, "eu"), call(104, "us")}, 2, 0, 1, "region us before, in epoch 2"},
		{"a region that is not known", []check.Sighting{{Run: "eu-1", At: after(1)}}, 0, 0, 0, ""},
		{"a home without epochs", []check.Sighting{{Run: "us-1", From: "us", At: after(1)}}, 0, 0, 0, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			rep := check.JudgeRegions(row.seen, epochs,
				func(run string) string { home, _, _ := strings.Cut(run, "-"); return home },
				func(from string) string { return from })
			if rep.Starts != row.starts || rep.Unknown != len(row.seen)-row.starts || rep.Foreign != row.foreign || rep.Overlapping != row.two {
				t.Errorf("JudgeRegions = %+v, want %d starts, %d foreign, %d overlapping", rep, row.starts, row.foreign, row.two)
			}
			if rep.Broken() != row.foreign+row.two || !strings.Contains(strings.Join(rep.Examples, ""), row.says) {
				t.Errorf("JudgeRegions: broken %d, examples %q, want %q among them", rep.Broken(), rep.Examples, row.says)
			}
		})
	}
}

// A run that requires region eu, which is away from 100 s to 200 s, and starts at 210 s.
func TestRequiredRegion(t *testing.T) {
	const due = 120_000
	const waits = "region: only its region may run it, and another serves its home now"
	look := func(ms int, waits string) check.Watched {
		return check.Watched{Run: id(onTime), State: check.Pending, At: at(ms), Due: at(due), Waits: waits}
	}
	for _, row := range []struct {
		name                     string
		region                   string // of its attempt
		looks                    []check.Watched
		elsewhere, waits, silent int
	}{
		{"it waits, and says so", "eu", []check.Watched{look(150_000, waits), look(190_000, waits)}, 0, 1, 0},
		{"nobody looked", "eu", nil, 0, 0, 0},
		{"it is not known who ran it", "", nil, 0, 0, 0},
		{"another region ran it", "us", nil, 1, 0, 0},
		{"it waits, and says nothing", "eu", []check.Watched{look(150_000, ""), look(160_000, "")}, 0, 0, 1},
		{"it waits for something else", "eu", []check.Watched{look(150_000, "rate: of its task")}, 0, 0, 1},
		{"it was due just now", "eu", []check.Watched{look(due+14_000, "")}, 0, 0, 0},
		{"the region went just now", "eu", []check.Watched{look(139_000, "")}, 0, 0, 0},
		{"the region is back", "eu", []check.Watched{look(201_000, "")}, 0, 0, 0},
		{"it runs", "eu", []check.Watched{{Run: id(onTime), State: check.Running, At: at(150_000), Due: at(due)}}, 0, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := clean()
			w.ask(onTime).Region, w.ask(onTime).At = "eu", at(due)
			w.Away = []check.Away{{Region: "eu", From: at(100_000), To: at(200_000)}, {Region: "us", From: at(0), To: at(firstRead)}}
			w.States = row.looks
			w.sighting(onTime).At, w.sighting(onTime).End = at(210_000), at(210_001)
			w.both(onTime, func(r *check.Run) {
				r.LatenessMS, r.StartedAt = nil, at(210_000)
				r.Attempts[0] = attempt(1, 210_000, 210_002, "succeeded")
				r.Attempts[0].Region = row.region
			})
			rep := judge(t, w.History)
			if rep.Elsewhere != row.elsewhere || rep.WaitedForRegion != row.waits || rep.WaitedSilently != row.silent || rep.Failed() != (row.elsewhere+row.silent > 0) {
				t.Errorf("Judge: %d elsewhere, %d waited, %d silently, failed %t; want %d, %d, %d; faults: %+v",
					rep.Elsewhere, rep.WaitedForRegion, rep.WaitedSilently, rep.Failed(), row.elsewhere, row.waits, row.silent, rep.Faults)
			}
			if hasFault(rep, check.FaultElsewhere) != (row.elsewhere > 0) || hasFault(rep, check.FaultWaitsSilently) != (row.silent > 0) {
				t.Errorf("Judge: the faults %+v do not name what was counted", rep.Faults)
			}
		})
	}
}
