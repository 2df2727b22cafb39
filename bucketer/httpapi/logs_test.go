package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/logs"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
)

// alone is a node that tells nobody anything.
type alone struct{}

func (alone) Near(schema.Shard, []schema.Entry) {}
func (alone) Signal(string, []byte)             {}

// loggers is an API on a store in memory, whose runs have logged.
type loggers struct {
	t     *testing.T
	store schema.Store
	e     *engine.Engine
	hs    *httptest.Server
	now   time.Time
}

func newLoggers(t *testing.T) *loggers {
	t.Helper()
	store, err := embedded.Open(embedded.Config{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	w := &loggers{t: t, store: store, now: time.Now()}
	if w.e, err = engine.New(bucketer.Config{Store: store, Hints: alone{}, Signals: alone{}}); err != nil {
		t.Fatal(err)
	}
	if err := w.e.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.hs = serve(t, newStub(), func(c *Config, d *Deps) {
		d.Jobs, d.Runs, d.Tasks, d.Recurring, d.Workflows, d.Events, d.Joins, d.Logs, d.Search = w.e, w.e, w.e, w.e, w.e, w.e, w.e, w.e, w.e
		c.Now = time.Now
	})
	return w
}

// ran makes a run of a tenant that logged these lines, and failed.
func (w *loggers) ran(tenant string, lines ...string) schema.RunID {
	w.t.Helper()
	ctx := context.Background()
	r, err := w.e.Submit(ctx, bucketer.Job{Tenant: tenant, Work: &schema.Work{NATS: &schema.NATSTarget{Subject: "x"}}})
	if err != nil {
		w.t.Fatal(err)
	}
	now := time.Now().UTC()
	a := schema.Attempt{Run: r.Run, Number: 1, Fence: schema.MakeFence(now), Written: now.UnixMicro(), Expires: now.Add(time.Hour)}
	var report schema.Report
	for _, l := range lines {
		report.Lines = append(report.Lines, schema.Line{At: now, Text: l})
	}
	if err := w.e.SaveReport(ctx, &a, 1, &report); err != nil {
		w.t.Fatal(err)
	}
	a.Record = &schema.Record{Entry: r.Run, Started: now, Finished: now, Outcome: schema.Failed, Final: true, Error: "answered 500 Internal Server Error", Status: 500, Output: "no disk", Lines: len(lines)}
	if err := w.store.PutAttempts(ctx, []schema.Attempt{a}); err != nil {
		w.t.Fatal(err)
	}
	return r.Run
}

// search returns the texts of all that a question finds, and the last answer.
func (w *loggers) search(query string) ([]string, LogPage) {
	w.t.Helper()
	var texts []string
	cursor := ""
	for range 500 {
		var page LogPage
		doJSON(w.t, w.hs, call{method: "GET", path: logsPath + "?" + query + cursor}, 200, &page)
		for _, i := range page.Items {
			texts = append(texts, i.Text)
		}
		if page.NextCursor == "" {
			return texts, page
		}
		cursor = "&cursor=" + page.NextCursor
	}
	w.t.Fatal("no end after 500 answers")
	panic("unreachable")
}

func TestLogsAreSearched(t *testing.T) {
	w := newLoggers(t)
	run := w.ran(defaultTenant, "begins", "reads A.csv", "ends")
	w.ran("other", "reads of another tenant")
	from := url.QueryEscape(w.now.Add(-3 * time.Minute).Format(time.RFC3339Nano))
	to := url.QueryEscape(w.now.Add(time.Minute).Format(time.RFC3339Nano))
	const failed = "answered 500 Internal Server Error: no disk"
	for query, want := range map[string][]string{
		"":                           {"begins", "reads A.csv", "ends", failed},
		"limit=1":                    {"begins", "reads A.csv", "ends", failed},
		"text=READS":                 {"reads A.csv"},
		"text=no+disk":               {failed},
		"kind=error":                 {failed},
		"kind=line&text=a.csv":       {"reads A.csv"},
		"text=none":                  nil,
		"run=" + run.String():        {"begins", "reads A.csv", "ends", failed},
		"job=" + run.String():        {"begins", "reads A.csv", "ends", failed},
		"label=a%3Db":                nil,
		"from=" + from:               {"begins", "reads A.csv", "ends", failed},
		"from=" + from + "&to=" + to: {"begins", "reads A.csv", "ends", failed},
	} {
		got, last := w.search(query)
		if !slices.Equal(got, want) {
			t.Errorf("GET %s?%s = %q, want %q", logsPath, query, got, want)
		}
		if last.LookedAt.Reached.IsZero() {
			t.Errorf("GET %s?%s looked at %+v, want how far it came", logsPath, query, last.LookedAt)
		}
	}
	_, page := w.search("run=" + run.String())
	if i := page.Items[1]; i.RunID != run || i.Attempt != 1 || i.Kind != logs.LineKind || i.At.IsZero() || i.JobID != schema.JobOf(run) || i.DueAt.IsZero() || !strings.HasPrefix(i.ID, run.String()) {
		t.Errorf("a line is %+v", i)
	}
	if l := page.LookedAt; l.Runs != 1 || l.LogReads != 1 || l.Lines != 4 {
		t.Errorf("looked at %+v, want 1 run, 1 read, 4 lines", l)
	}
}

func TestWhatASearchOfLogsCannotBeAskedFor(t *testing.T) {
	w := newLoggers(t)
	run, other := w.ran(defaultTenant, "a", "b"), w.ran("other", "c")
	var page LogPage
	doJSON(t, w.hs, call{method: "GET", path: logsPath + "?limit=1"}, 200, &page)
	if page.NextCursor == "" {
		// what is due in this very minute may come in the next answer
		t.Fatalf("the first answer is %+v, want a cursor", page)
	}
	hour := "from=2026-11-21T09%3A00%3A00Z&to=2026-11-21T10%3A00%3A00Z"
	for query, want := range map[string][]string{
		"from=2026-11-21T10%3A00%3A00Z&to=2026-11-21T09%3A00%3A00Z&text=a%0Ab&task=none&label=x&limit=0": {"query.label", "query.limit", "query.text", "query.to"},
		"from=2026-11-21T10%3A00%3A00Z&to=2026-11-21T09%3A00%3A00Z&text=a%0Ab&task=none&job=none":        {"query.job", "query.task", "query.text", "query.to"},
		"from=2026-11-21T10%3A00%3A00Z&to=2026-11-23T09%3A00%3A00Z":                                      {"query.to"},
		"text=" + strings.Repeat("a", 257):                                                               {"query.text"},
		"kind=warning":                                                                                   {"query.kind"},
		"level=error":                                                                                    {"query.level"},
		"from=yesterday":                                                                                 {"query.from"},
		"task=A+b":                                                                                       {"query.task"},
		"task=none":                                                                                      {"query.task"},
		"label=x":                                                                                        {"query.label"},
		"job=" + "0192e5a0-7c00-7003-8d2f-5a1b9c3e7f60":                                                  {"query.job"},
		"job=A+b":               {"query.job"},
		"run=x":                 {"query.run"},
		"run=" + other.String(): {"query.run"},
		"run=" + run.String() + "&job=x&label=a%3Db&" + hour: {"query.from", "query.job", "query.job", "query.label", "query.to"},
		"follow=true&to=2026-11-21T10%3A00%3A00Z":            {"query.to"},
		"follow=true&from=2020-11-21T10%3A00%3A00Z":          {"query.from"},
		"cursor=AAAA":                           {"query.cursor"},
		"text=a&cursor=" + page.NextCursor:      {"query.cursor"},
		"follow=true&cursor=" + page.NextCursor: {"query.cursor"},
		"cursor=" + strings.Repeat("A", 8193):   {"query.cursor"},
	} {
		p := doProblem(t, w.hs, call{method: "GET", path: logsPath + "?" + query}, 422)
		var got []string
		for _, f := range p.Errors {
			got = append(got, f.Location)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("GET %s?%s = %q, want %q", logsPath, query, got, want)
		}
	}
	doProblem(t, w.hs, call{method: "GET", path: logsPath + "?limit=1&cursor=" + page.NextCursor, header: http.Header{tenantHeader: {"other"}}}, 422)
	hs := serve(t, newStub(), func(_ *Config, d *Deps) { d.Logs = nil })
	doProblem(t, hs, call{method: "GET", path: logsPath}, 404)
}

// TestLogsAreFollowed: by the client, while runs go on.
func TestLogsAreFollowed(t *testing.T) {
	w := newLoggers(t)
	run := w.ran(defaultTenant, "a", "b")
	c := clientOf(t, w.hs.URL)
	var got []string
	for page, err := range c.FollowLogs(t.Context(), LogQuery{Run: run.String(), Limit: 1}, time.Millisecond) {
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Items {
			got = append(got, i.Text)
		}
	}
	if len(got) != 3 || got[0] != "a" || got[1] != "b" {
		t.Errorf("FollowLogs = %q, want a, b and an error", got)
	}
	found := 0
	for page, err := range c.SearchLogs(t.Context(), LogQuery{From: w.now.Add(-time.Minute), To: time.Now().Add(time.Minute), Text: "b", Labels: nil, Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		found += len(page.Items)
	}
	if found != 1 {
		t.Errorf("SearchLogs found %d, want 1", found)
	}
}

// waiting holds searches back.
type waiting struct {
	Logs
	begun   chan struct{}
	release chan struct{}
}

func (h *waiting) SearchLogs(ctx context.Context, q *logs.Query, pos logs.Position, limit int) (logs.Page, *logs.Position, error) {
	h.begun <- struct{}{}
	<-h.release
	return h.Logs.SearchLogs(ctx, q, pos, limit)
}

// TestSearchesOfLogsAreFew: what goes beyond is refused for now.
func TestSearchesOfLogsAreFew(t *testing.T) {
	b := newStub()
	held := &waiting{b, make(chan struct{}), make(chan struct{})}
	hs := serve(t, b, func(_ *Config, d *Deps) { d.Logs = held })
	var all sync.WaitGroup
	for n := range maxSearches {
		all.Go(func() {
			at := call{method: "GET", path: logsPath, header: http.Header{tenantHeader: {fmt.Sprint("t", n/maxTenantSearches)}}}
			if status, _, text := do(t, hs, at); status != 200 {
				t.Errorf("search %d = %d %s", n, status, text)
			}
		})
	}
	for range maxSearches {
		<-held.begun
	}
	for _, tenant := range []string{"t0", "another"} {
		if p := doProblem(t, hs, call{method: "GET", path: logsPath, header: http.Header{tenantHeader: {tenant}}}, 429); p.Kind() != "too-many-searches" {
			t.Errorf("one search more of %s = %+v", tenant, p)
		}
	}
	close(held.release)
	all.Wait()
	go func() { <-held.begun }()
	doJSON(t, hs, call{method: "GET", path: logsPath}, 200, nil)
}

func TestASearchOfAStoreThatCannotBeReached(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	for _, err := range []error{schema.ErrUnavailable, context.DeadlineExceeded, errors.Join(schema.ErrUnavailable)} {
		b.befall(err)
		doProblem(t, hs, call{method: "GET", path: logsPath}, 503)
		doProblem(t, hs, call{method: "GET", path: logsPath + "?follow=true"}, 503)
	}
}
