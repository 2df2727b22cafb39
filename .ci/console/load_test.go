package console

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	load "carillon.dev/carillon/loadtest/console"
)

// What a load test takes for an open page (package loadtest/console) asks what the page asks, as often.
// Both are open beside each other for as long as it takes until each has asked twice who asks: half a
// minute.
func loadAsksWhatThePageAsks(t *testing.T, w *World) {
	job, err := w.API.Jobs.Get(t.Context(), "nightly-report")
	nightly := must(t, job, err).ID.String()
	for view, place := range map[load.View]string{
		load.Overview: "#/", load.Runs: "#/runs", load.NextHour: "#/runs?last=-1h", load.NextDay: "#/runs?last=-24h", load.Jobs: "#/jobs",
		load.Job: "#/jobs/" + nightly, load.Cluster: "#/cluster",
	} {
		t.Run(string(view), func(t *testing.T) {
			t.Parallel()
			tally := new(load.Tally)
			beside := load.New(load.Config{Node: w.Server.URL, View: view, Job: nightly, Tally: tally})
			p := openView(t, w.Server.Console(), place)
			ctx, stop := context.WithCancel(t.Context())
			gone := make(chan struct{})
			go func() { defer close(gone); defer beside.Close(); beside.Stay(ctx) }()
			defer func() { stop(); <-gone }()
			const who = "GET /v1/whoami"
			p.until("both have asked twice who asks", func() (bool, string) {
				return p.watch.questions()[who] >= 2 && tally.Summary().Asked[who] >= 2, "not yet"
			})
			page, seen := p.watch.questions(), tally.Summary()
			if seen.Failed > 0 {
				t.Errorf("the node refuses %d requests, the first: %s", seen.Failed, seen.Fault)
			}
			asked := seen.Asked
			maps.DeleteFunc(asked, func(key string, _ int) bool { return !strings.Contains(key, " /v1/") }) // the page itself
			for _, key := range slices.Sorted(maps.Keys(page)) {
				// the page was open a moment longer, and a busy machine draws slowly
				if n, want := asked[key], page[key]; n == 0 || n > want+2+want/3 || want > n+2+n/3 {
					t.Errorf("the page asked %d times for %s, and a load test %d times", want, key, n)
				}
				delete(asked, key)
			}
			for key, n := range asked {
				t.Errorf("a load test asked %d times for %s, and the page did not", n, key)
			}
		})
	}
}
