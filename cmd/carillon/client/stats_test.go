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

// counted serves counts of two minutes, and tells what it was asked for.
func counted(t *testing.T) (api string, asked func() url.Values) {
	t.Helper()
	queries := make(chan url.Values, 10)
	minutes := []httpapi.MinuteStats{
		{
			Minute: httpapi.Time{Time: time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)}, Due: 6000, Started: 5990, Succeeded: 5980, Failed: 12, Missed: 1, Retried: 11,
			Lateness: &httpapi.LatenessRank{P50: 1.2345, P99: 42.06, Max: 61_499.6},
		},
		{Minute: httpapi.Time{Time: time.Date(2026, 11, 21, 9, 31, 0, 0, time.UTC)}, Retried: 2},
	}
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries <- r.URL.Query()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"items": minutes}) // the test sees it
	}))
	t.Cleanup(hs.Close)
	return hs.URL, func() url.Values { return <-queries }
}

func TestStatsAreShown(t *testing.T) {
	api, asked := counted(t)
	shown := clitest.Succeed(t, "stats", "--api", api, "--from", "2026-11-21T10:00:00+01:00", "--to", "2026-11-21T10:00:00Z").Stdout
	if q := asked(); q.Get("from") != "2026-11-21T09:00:00Z" || q.Get("to") != "2026-11-21T10:00:00Z" {
		t.Errorf("asked for %v, want 9 to 10 o'clock", q)
	}
	var got []string
	for line := range strings.Lines(shown) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"MINUTE DUE STARTED SUCCEEDED FAILED RETRIED MISSED LATE P50 P99 MAX",
		"2026-11-21T09:30Z 6000 5990 5980 12 11 1 1.23ms 42.1ms 1m1s",
		"2026-11-21T09:31Z 0 0 0 0 2 0 - - -",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("stats shows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if read := clitest.Decode[[]httpapi.MinuteStats](t, clitest.Succeed(t, "stats", "--api", api, "-o", "json").Stdout); len(read) != 2 || read[0].Due != 6000 || read[1].Lateness != nil {
		t.Errorf("stats -o json = %+v", read)
	}
	q := asked()
	from, ferr := time.Parse(time.RFC3339Nano, q.Get("from"))
	to, terr := time.Parse(time.RFC3339Nano, q.Get("to"))
	if ferr != nil || terr != nil || to.Sub(from) != time.Hour {
		t.Errorf("asked for %v, want an hour", q)
	}
}

func TestStatsOfANode(t *testing.T) {
	api := clitest.StartNode(t)
	if got := clitest.Succeed(t, "stats", "--api", api).Stdout; !strings.HasPrefix(got, "MINUTE") {
		t.Errorf("stats shows %q, want a table", got)
	}
	if r := clitest.Run(t.Context(), "", "stats", "--api", api, "--from", "-48h"); r.Code != 1 || !strings.Contains(r.Stderr, "at most 24 hours") {
		t.Errorf("stats of two days exits %d with %q, want 1 and the bound", r.Code, r.Stderr)
	}
	for _, args := range []string{"stats x", "stats --from soon", "stats --to soon", "stats --from 0s --to -1h", "stats -o xml"} {
		if r := clitest.Run(t.Context(), "", append(strings.Fields(args), "--api", api)...); r.Code != 2 {
			t.Errorf("carillon %s exits %d with %q, want 2", args, r.Code, r.Stderr)
		}
	}
}
