package client

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
)

// counted serves an answer, and tells what it was asked for.
func counted(t *testing.T, answer any) (api string, asked func() url.Values) {
	t.Helper()
	queries := make(chan url.Values, 10)
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries <- r.URL.Query()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // the test sees it
	}))
	t.Cleanup(hs.Close)
	return hs.URL, func() url.Values { return <-queries }
}

// minuteOf returns a minute after 9:30.
func minuteOf(n int) httpapi.Time {
	return httpapi.Time{Time: time.Date(2026, 11, 21, 9, 30+n, 0, 0, time.UTC)}
}

// wantTable compares what a command shows with lines whose cells stand apart by one blank.
func wantTable(t *testing.T, what, shown string, want ...string) {
	t.Helper()
	var got []string
	for line := range strings.Lines(shown) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s shows\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestStatsAreShown(t *testing.T) {
	api, asked := counted(t, httpapi.StatsList{Scope: "all", MissingNodes: []string{"node-3"}, Items: []httpapi.MinuteStats{
		{
			Minute: minuteOf(0), Due: 6000, Started: 5990, Succeeded: 5980, Failed: 12, Missed: 1, Retried: 11, Late: 4,
			Lateness: &httpapi.LatenessRank{P50: 1.2345, P99: 42.06, Max: 61_499.6},
		},
		{Minute: minuteOf(1), Retried: 2, Running: true, Partial: true},
	}})
	shown := clitest.Succeed(t, "stats", "--api", api, "--from", "2026-11-21T10:00:00+01:00", "--to", "2026-11-21T10:00:00Z", "--scope", "all")
	if q := asked(); q.Get("from") != "2026-11-21T09:00:00Z" || q.Get("to") != "2026-11-21T10:00:00Z" || q.Get("scope") != "all" {
		t.Errorf("asked for %v, want 9 to 10 o'clock of all", q)
	}
	wantTable(t, "stats", shown.Stdout,
		"MINUTE DUE STARTED SUCCEEDED FAILED RETRIED MISSED LATE LATENESS P50 P99 MAX NOTE",
		"2026-11-21T09:30Z 6000 5990 5980 12 11 1 4 1.23ms 42.1ms 1m1s -",
		"2026-11-21T09:31Z 0 0 0 0 2 0 0 - - - so far, perhaps not all",
	)
	if !strings.Contains(shown.Stderr, "node-3 did not answer") {
		t.Errorf("stats says %q of a node that did not answer", shown.Stderr)
	}
	if read := clitest.Decode[[]httpapi.MinuteStats](t, clitest.Succeed(t, "stats", "--api", api, "-o", "json").Stdout); len(read) != 2 || read[0].Due != 6000 || read[1].Lateness != nil {
		t.Errorf("stats -o json = %+v", read)
	}
	if q := asked(); len(q) != 0 {
		t.Errorf("asked for %v, want what the node says", q)
	}
	clitest.Succeed(t, "stats", "--api", api, "--from", "-15m")
	q := asked()
	from, ferr := time.Parse(time.RFC3339Nano, q.Get("from"))
	to, terr := time.Parse(time.RFC3339Nano, q.Get("to"))
	if ferr != nil || terr != nil || to.Sub(from) != 15*time.Minute {
		t.Errorf("asked for %v, want a quarter of an hour", q)
	}
}

// TestStatsShowAStandStill: minutes without a count were left out, so it looked as if there were
// none.
func TestStatsShowAStandStill(t *testing.T) {
	api, _ := counted(t, httpapi.StatsList{Scope: "all", Items: []httpapi.MinuteStats{
		{Minute: minuteOf(0), Due: 6}, {Minute: minuteOf(1), Due: 7}, {Minute: minuteOf(3), Due: 8}, {Minute: minuteOf(7), Running: true},
	}})
	wantTable(t, "stats", clitest.Succeed(t, "stats", "--api", api).Stdout,
		"MINUTE DUE STARTED SUCCEEDED FAILED RETRIED MISSED LATE LATENESS P50 P99 MAX NOTE",
		"2026-11-21T09:30Z 6 0 0 0 0 0 0 - - - -",
		"2026-11-21T09:31Z 7 0 0 0 0 0 0 - - - -",
		"2026-11-21T09:32Z 0 0 0 0 0 0 0 - - - nothing was counted",
		"2026-11-21T09:33Z 8 0 0 0 0 0 0 - - - -",
		"2026-11-21T09:34Z 0 0 0 0 0 0 0 - - - nothing was counted for 3 minutes",
		"2026-11-21T09:37Z 0 0 0 0 0 0 0 - - - so far",
	)
	if read := clitest.Decode[[]httpapi.MinuteStats](t, clitest.Succeed(t, "stats", "--api", api, "-o", "json").Stdout); len(read) != 4 {
		t.Errorf("stats -o json has %d minutes, want those that the node told", len(read))
	}
}

func TestStatsByNameAreShown(t *testing.T) {
	due := int64(60)
	api, asked := counted(t, httpapi.TopStats{By: "job", Kept: 50, Items: []httpapi.NameStats{
		{Name: "report", Tenant: "shop", Sums: httpapi.Sums{Due: &due, Started: 59, Succeeded: 10, Failed: 49, Retried: 40, Missed: 1, Late: 2, Lateness: &httpapi.LatenessRank{P50: 2, P99: 2000, Max: 1500}}},
	}, Others: &httpapi.Sums{Started: 7}})
	shown := clitest.Succeed(t, "stats", "top", "job", "--api", api, "--order", "failed", "--limit", "3").Stdout
	if q := asked(); q.Get("by") != "job" || q.Get("order") != "failed" || q.Get("limit") != "3" || q.Has("from") {
		t.Errorf("asked for %v", q)
	}
	wantTable(t, "stats top", shown,
		"JOB TENANT DUE STARTED SUCCEEDED FAILED RETRIED MISSED LATE LATENESS P50 P99 MAX",
		"report shop 60 59 10 49 40 1 2 2ms 2s 1.5s",
		"(others) - - 7 0 0 0 0 0 - - -",
	)
}

func TestComingMinutesAreShown(t *testing.T) {
	runs := []int64{1200, 30, 0}
	api, asked := counted(t, httpapi.UpcomingRuns{Items: []httpapi.UpcomingMinute{
		{Minute: minuteOf(0), Runs: &runs[0], Estimated: true}, {Minute: minuteOf(1), Runs: &runs[1], Estimated: true}, {Minute: minuteOf(2), Runs: &runs[2], Estimated: true},
	}})
	shown := clitest.Succeed(t, "stats", "upcoming", "--api", api, "--from", "2026-11-21T09:30:00Z", "--minutes", "3").Stdout
	if q := asked(); q.Get("from") != "2026-11-21T09:30:00Z" || q.Get("minutes") != "3" {
		t.Errorf("asked for %v", q)
	}
	wantTable(t, "stats upcoming", shown,
		"MINUTE RUNS", "2026-11-21T09:30Z ≈ 1200 "+strings.Repeat("█", 40), "2026-11-21T09:31Z ≈ 30 █", "2026-11-21T09:32Z ≈ 0",
	)
}

func TestStatsOfANode(t *testing.T) {
	api := clitest.StartNode(t)
	if got := clitest.Succeed(t, "stats", "--api", api).Stdout; !strings.HasPrefix(got, "MINUTE") {
		t.Errorf("stats shows %q, want a table", got)
	}
	for _, by := range []string{"tenant", "task", "job", "host"} {
		if got := clitest.Succeed(t, "stats", "top", by, "--api", api).Stdout; !strings.HasPrefix(got, strings.ToUpper(by)) {
			t.Errorf("stats top %s shows %q, want a table", by, got)
		}
	}
	if got := strings.Count(clitest.Succeed(t, "stats", "upcoming", "--api", api, "--minutes", "90").Stdout, "≈ 0"); got != 90 {
		t.Errorf("stats upcoming shows %d minutes without a run, want all 90", got)
	}
	if r := clitest.Run(t.Context(), "", "stats", "--api", api, "--from", "-48h"); r.Code != 1 || !strings.Contains(r.Stderr, "at most 24 hours") {
		t.Errorf("stats of two days exits %d with %q, want 1 and the bound", r.Code, r.Stderr)
	}
	for _, args := range []string{"stats x", "stats --from soon", "stats --to soon", "stats --from 0s --to -1h", "stats -o xml", "stats top", "stats top team", "stats upcoming --from soon"} {
		if r := clitest.Run(t.Context(), "", append(strings.Fields(args), "--api", api)...); r.Code != 2 {
			t.Errorf("carillon %s exits %d with %q, want 2", args, r.Code, r.Stderr)
		}
	}
}

// TestStatesAreShown: where runs are on their way, their states, and what they wait for.
func TestStatesAreShown(t *testing.T) {
	answer := httpapi.RunStates{Ready: 7, Delayed: 1, Complete: true, States: map[string]int64{"pending": 8}, Waiting: map[string]int64{"rate": 4, "concurrency": 2, "jobs": 1}}
	api, _ := counted(t, answer)
	wantTable(t, "stats states", clitest.Succeed(t, "stats", "states", "--api", api).Stdout,
		"READY DUE SOON DELAYED RUNNING DONE", "7 0 1 0 0", "",
		"STATE RUNS", "pending 8", "",
		"WAITING FOR RUNS", "concurrency 2", "jobs 1", "rate 4")
	got := clitest.Decode[httpapi.RunStates](t, clitest.Succeed(t, "stats", "states", "--api", api, "-o", "json").Stdout)
	if got.Waiting["rate"] != 4 || len(got.Waiting) != 3 {
		t.Errorf("stats states -o json = %+v, want what they wait for", got)
	}
	answer.Waiting = nil // as a node of before answers
	before, _ := counted(t, answer)
	wantTable(t, "stats states of an older node", clitest.Succeed(t, "stats", "states", "--api", before).Stdout,
		"READY DUE SOON DELAYED RUNNING DONE", "7 0 1 0 0", "", "STATE RUNS", "pending 8")
}
