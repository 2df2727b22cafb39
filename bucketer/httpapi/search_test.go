package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/search"
	"carillon.dev/carillon/schema"
)

// labelled makes a run of a tenant that is due now and has a label.
func (w *loggers) labelled(tenant, label string) schema.RunID {
	w.t.Helper()
	name, value, _ := strings.Cut(label, "=")
	r, err := w.e.Submit(context.Background(), bucketer.Job{Tenant: tenant, Work: &schema.Work{NATS: &schema.NATSTarget{Subject: "x"}}, Payload: []byte(`{"hush":1}`), Labels: map[string]string{name: value}})
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Run
}

// found returns the ids of the runs that a question finds, sorted, and the last answer.
func (w *loggers) found(query string) ([]string, RunPage) {
	w.t.Helper()
	var ids []string
	cursor := ""
	for range 500 {
		var page RunPage
		doJSON(w.t, w.hs, call{method: "GET", path: "/v1/runs?order=newest&" + query + cursor}, 200, &page)
		for i := range page.Items {
			ids = append(ids, page.Items[i].ID.String())
		}
		if page.NextCursor == "" {
			slices.Sort(ids)
			return ids, page
		}
		cursor = "&cursor=" + url.QueryEscape(page.NextCursor)
	}
	w.t.Fatal("no end after 500 answers")
	panic("unreachable")
}

func sorted(ids ...schema.RunID) []string {
	var out []string
	for _, id := range ids {
		out = append(out, id.String())
	}
	slices.Sort(out)
	return out
}

func TestRunsAreSearched(t *testing.T) {
	w := newLoggers(t)
	failed := w.ran(defaultTenant)
	a, b := w.labelled(defaultTenant, "team=a"), w.labelled(defaultTenant, "team=b")
	other := w.ran("other")
	w.labelled("other", "team=a")
	week := "from=" + url.QueryEscape(w.now.Add(-10*time.Minute).Format(time.RFC3339Nano))
	for query, want := range map[string][]string{
		"":                              sorted(failed, a, b),
		week:                            sorted(failed, a, b),
		week + "&limit=1":               sorted(failed, a, b),
		week + "&label=team%3Da":        sorted(a),
		week + "&error=NO+DISK":         sorted(failed),
		week + "&error=no+disk&limit=1": sorted(failed),
		week + "&error=none":            nil,
		week + "&one_off=true&state=failed&state=missed": sorted(failed),
		week + "&label=team%3Db&state=pending":           sorted(b),
		"job=" + a.String():                              sorted(a),
		"job=" + other.String():                          nil,
	} {
		got, page := w.found(query)
		if !slices.Equal(got, want) {
			t.Errorf("GET /v1/runs?order=newest&%s = %q, want %q", query, got, want)
		}
		if by := page.Searched.By; by != "scan" && !strings.HasPrefix(query, "job=") {
			t.Errorf("GET /v1/runs?order=newest&%s is found by %q", query, by)
		}
	}
	if _, page := w.found(week); page.Searched.Until.IsZero() || page.Searched.Partitions == 0 {
		t.Errorf("a search says %+v, want how far it came", page.Searched)
	}
	var list struct{ Items []Run }
	from, to := url.QueryEscape(w.now.Add(-time.Hour).Format(time.RFC3339Nano)), url.QueryEscape(w.now.Add(time.Hour).Format(time.RFC3339Nano))
	if doJSON(t, w.hs, call{method: "GET", path: "/v1/runs?error=no+disk&from=" + from + "&to=" + to}, 200, &list); len(list.Items) != 1 || list.Items[0].ID != failed {
		t.Errorf("a list by error is %+v, want %s", list.Items, failed)
	}
	seen := 0
	for page, err := range clientOf(t, w.hs.URL).SearchRuns(t.Context(), RunQuery{OneOff: true, Error: "no disk", Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		seen += len(page.Items)
	}
	if seen != 1 {
		t.Errorf("SearchRuns found %d, want 1", seen)
	}
}

func TestRunsAreCountedByState(t *testing.T) {
	w := newLoggers(t)
	for range 3 {
		w.ran(defaultTenant)
	}
	w.labelled(defaultTenant, "team=a")
	w.labelled("other", "team=a")
	for query, want := range map[string]string{
		"":                "1 ready, 3 done, map[failed:3 pending:1]",
		"label=team%3Da":  "1 ready, 0 done, map[pending:1]",
		"one_off=true":    "1 ready, 3 done, map[failed:3 pending:1]",
		"label=team%3Dxy": "0 ready, 0 done, map[]",
	} {
		var s RunStates
		doJSON(t, w.hs, call{method: "GET", path: statesPath + "?" + query}, 200, &s)
		got := fmt.Sprintf("%d ready, %d done, %v", s.Ready, s.Done, s.States)
		if got != want || !s.Complete || s.Searched.By != "scan" || !s.Searched.Until.Equal(s.From.Time) {
			t.Errorf("GET %s?%s = %s, %+v; want %s", statesPath, query, got, s, want)
		}
	}
	// A client adds answers up.
	b := newStub()
	hs := serve(t, b)
	for n := range 5 {
		doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: fmt.Sprintf(`{"nats":{"subject":"x"},"schedule":{"at":%q}}`, testNow.Add(time.Duration(n)*time.Minute).Format(time.RFC3339))}, 201, nil)
	}
	b.mu.Lock()
	for _, id := range b.order {
		b.runs[id].Attempts = []schema.Attempt{{Record: &schema.Record{Outcome: schema.Replaced, Reason: schema.Deferred, Cause: schema.CauseQuota, To: schema.MakeEntryID(testNow.Add(time.Hour), 1, 1)}}}
	}
	b.mu.Unlock()
	answers := 0
	for s, err := range clientOf(t, hs.URL).RunStates(t.Context(), RunQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		answers++
		if s.Done != int64(min(2*answers, 5)) || s.States["pending"] != s.Done || s.Waiting["quota"] != s.Done || s.Complete != (answers == 3) {
			t.Errorf("after %d answers: %+v", answers, s)
		}
	}
	if answers != 3 {
		t.Errorf("%d answers, want 3", answers)
	}
}

// TestHistoryIsExported: each run of a day once, whatever the size of the answers, without
// payloads.
func TestHistoryIsExported(t *testing.T) {
	w := newLoggers(t)
	want := sorted(w.ran(defaultTenant), w.ran(defaultTenant), w.labelled(defaultTenant, "team=a"))
	w.ran("other")
	days := map[string]bool{}
	for _, id := range want {
		run, _ := schema.ParseEntryID(id)
		days[run.Time().Format(time.DateOnly)] = true
	}
	late := serve(t, newStub(), func(c *Config, d *Deps) {
		d.Runs, d.Search = w.e, w.e
		c.Now = func() time.Time { return time.Now().Add(48 * time.Hour) }
	})
	for _, limit := range []int{1, 2, 500} {
		var got []string
		for day := range days {
			cursor := ""
			for answers := 0; ; answers++ {
				if answers > 1000 {
					t.Fatal("an export never ends")
				}
				status, header, text := do(t, late, call{method: "GET", path: fmt.Sprintf("%s?day=%s&limit=%d%s", historyPath, day, limit, cursor)})
				if status != 200 || header.Get("Content-Type") != ndjson || header.Get(searchedHeader) == "" {
					t.Fatalf("GET %s = %d %v %s", historyPath, status, header, text)
				}
				if bytes.Contains(text, []byte("hush")) || bytes.Contains(text, []byte(`"output"`)) {
					t.Errorf("a line has a payload or an output: %s", text)
				}
				for line := range bytes.Lines(text) {
					var run Run
					if err := json.Unmarshal(line, &run); err != nil || !bytes.HasSuffix(line, []byte("\n")) {
						t.Fatalf("the line %q: %v", line, err)
					}
					got = append(got, run.ID.String())
				}
				next := header.Get(nextCursorHeader)
				if next == "" {
					break
				}
				cursor = "&cursor=" + url.QueryEscape(next)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("in answers of %d: %q, want %q", limit, got, want)
		}
	}
}

func TestWhatASearchOfRunsCannotBeAskedFor(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	for n := range 3 {
		doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: fmt.Sprintf(`{"nats":{"subject":"x"},"schedule":{"at":%q}}`, testNow.Add(-time.Duration(n)*time.Second).Format(time.RFC3339))}, 201, nil)
	}
	const newest = "/v1/runs?order=newest&"
	yesterday := testNow.AddDate(0, 0, -1).Format(time.DateOnly)
	var first RunPage
	doJSON(t, hs, call{method: "GET", path: newest + "limit=1"}, 200, &first)
	var counted RunStates
	doJSON(t, hs, call{method: "GET", path: statesPath}, 200, &counted)
	if first.NextCursor == "" || counted.NextCursor == "" {
		t.Fatalf("the first answers are %+v and %+v, want cursors", first, counted)
	}
	of := func(cursor string) string { return "cursor=" + url.QueryEscape(cursor) }
	doJSON(t, hs, call{method: "GET", path: newest + "limit=1&" + of(first.NextCursor)}, 200, nil)
	for path, want := range map[string]string{
		newest + "from=2026-11-21T10:00:00Z&to=2026-11-21T09:00:00Z&error=a%0Ab&task=A+b": "query.error query.task query.to",
		newest + "from=2025-11-20T09:00:00Z&to=2026-11-22T09:00:00Z":                      "query.to",
		newest + "to=2026-11-21T09:00:00Z&from=2026-11-21T09:00:00Z":                      "query.to",
		newest + "error=" + strings.Repeat("a", 257):                                      "query.error",
		newest + "at=2026-11-21T09:00:00Z&step=a":                                         "query.at query.step",
		newest + "job=none":                                                       "query.job",
		newest + "job=A+b&state=done":                                             "query.job query.state",
		newest + "key=k":                                                          "query.order",
		newest + "key=k&error=a&one_off=true":                                     "query.error query.one_off query.order",
		newest + "workflow_run=x":                                                 "query.order query.workflow_run",
		newest + "cursor=AAAA":                                                    "query.cursor",
		newest + "label=a%3Db&" + of(first.NextCursor):                            "query.cursor",
		newest + "error=a&" + of(first.NextCursor):                                "query.cursor",
		newest + of(counted.NextCursor):                                           "query.cursor",
		newest + "from=2026-11-21T09:00:00Z&" + of(first.NextCursor):              "query.cursor",
		"/v1/runs?" + aDay + "&" + of(first.NextCursor):                           "query.cursor",
		"/v1/runs?" + aDay + "&order=oldest":                                      "query.order",
		statesPath + "?from=2026-11-21T10:00:00Z&to=2026-11-21T09:00:00Z&label=x": "query.label query.to",
		statesPath + "?from=2025-11-20T09:00:00Z&to=2026-11-22T09:00:00Z":         "query.to",
		statesPath + "?job=n":                                                     "query.job",
		statesPath + "?" + of(first.NextCursor):                                   "query.cursor",
		statesPath + "?one_off=true&" + of(counted.NextCursor):                    "query.cursor",
		historyPath: "query.day",
		historyPath + "?day=" + testNow.Format(time.DateOnly):            "query.day",
		historyPath + "?day=9999-12-31":                                  "query.day",
		historyPath + "?day=2026-02-30":                                  "query.day",
		historyPath + "?day=yesterday":                                   "query.day",
		historyPath + "?day=" + yesterday + "&limit=501":                 "query.limit",
		historyPath + "?day=" + yesterday + "&cursor=AAAA":               "query.cursor",
		historyPath + "?day=" + yesterday + "&" + of(first.NextCursor):   "query.cursor",
		historyPath + "?day=" + yesterday + "&" + of(counted.NextCursor): "query.cursor",
	} {
		p := doProblem(t, hs, call{method: "GET", path: path}, 422)
		var at []string
		for _, e := range p.Errors {
			at = append(at, e.Location)
		}
		slices.Sort(at)
		if got := strings.Join(slices.Compact(at), " "); got != want {
			t.Errorf("GET %s has the faults %q (%+v), want %q", path, got, p.Errors, want)
		}
	}
	other := http.Header{tenantHeader: {"other"}}
	doProblem(t, hs, call{method: "GET", path: newest + "limit=1&" + of(first.NextCursor), header: other}, 422)
	doProblem(t, hs, call{method: "GET", path: statesPath + "?" + of(counted.NextCursor), header: other}, 422)
	var none RunPage
	if doJSON(t, hs, call{method: "GET", path: newest + "limit=1", header: other}, 200, &none); len(none.Items) != 0 {
		t.Errorf("another tenant finds %+v", none.Items)
	}

	paths := []string{newest, statesPath, historyPath + "?day=" + yesterday}
	for _, path := range paths {
		for _, err := range []error{schema.ErrUnavailable, context.DeadlineExceeded, errors.Join(schema.ErrUnavailable)} {
			b.befall(err)
			doProblem(t, hs, call{method: "GET", path: path}, 503)
		}
		b.befall(nil)
	}
	without := serve(t, newStub(), func(_ *Config, d *Deps) { d.Search = nil })
	for _, path := range paths {
		doProblem(t, without, call{method: "GET", path: path}, 404)
	}
}

// heldSearch holds searches back.
type heldSearch struct {
	Search
	begun   chan struct{}
	release chan struct{}
}

func (h *heldSearch) SearchRuns(ctx context.Context, q *search.Query, pos search.Position, limit int) ([]runs.Run, search.Searched, *search.Position, error) {
	h.begun <- struct{}{}
	<-h.release
	return h.Search.SearchRuns(ctx, q, pos, limit)
}

// TestSearchesOfRunsAreFew: what goes beyond is refused for now, of whatever kind it is.
func TestSearchesOfRunsAreFew(t *testing.T) {
	b := newStub()
	held := &heldSearch{b, make(chan struct{}), make(chan struct{})}
	hs := serve(t, b, func(_ *Config, d *Deps) { d.Search = held })
	var all sync.WaitGroup
	for range maxTenantSearches {
		all.Go(func() {
			if status, _, text := do(t, hs, call{method: "GET", path: "/v1/runs?order=newest"}); status != 200 {
				t.Errorf("a search = %d %s", status, text)
			}
		})
	}
	for range maxTenantSearches {
		<-held.begun
	}
	day := historyPath + "?day=" + testNow.AddDate(0, 0, -1).Format(time.DateOnly)
	for _, path := range []string{"/v1/runs?order=newest", statesPath, day, logsPath} {
		if p := doProblem(t, hs, call{method: "GET", path: path}, 429); p.Kind() != "too-many-searches" {
			t.Errorf("GET %s beside %d searches = %+v", path, maxTenantSearches, p)
		}
	}
	doJSON(t, hs, call{method: "GET", path: statesPath, header: http.Header{tenantHeader: {"another"}}}, 200, nil)
	doJSON(t, hs, call{method: "GET", path: "/v1/runs?" + aDay}, 200, nil) // no search
	close(held.release)
	all.Wait()
	doJSON(t, hs, call{method: "GET", path: statesPath}, 200, nil)
}
