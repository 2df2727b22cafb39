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
