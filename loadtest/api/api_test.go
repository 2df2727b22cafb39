package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/api/apitest"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/workload"
)

var quiet = slog.New(slog.DiscardHandler)

func client(t *testing.T, urls ...string) *api.Client {
	t.Helper()
	tr := &http.Transport{MaxIdleConnsPerHost: 8}
	t.Cleanup(tr.CloseIdleConnections)
	return &api.Client{URLs: urls, HTTP: &http.Client{Transport: tr}, Log: quiet}
}

// jobs writes a file of n jobs due in an hour.
func jobs(t *testing.T, n int, keyed bool) string {
	t.Helper()
	var b bytes.Buffer
	spec := workload.Spec{
		N: n, From: time.Now().Add(time.Hour), Seed: 1, Source: "s1", Target: "http://127.0.0.1:9", Keyed: keyed,
	}
	if err := spec.Write(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "jobs.ndjson")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// importer returns an import of path, and what reads the answers it recorded.
func importer(t *testing.T, c *api.Client, path string) (*api.Import, func() []check.Ack) {
	t.Helper()
	var b bytes.Buffer
	w, err := journal.NewAckWriter(&b, "s1")
	if err != nil {
		t.Fatal(err)
	}
	return &api.Import{Client: c, Path: path, Acks: w, Log: quiet}, func() []check.Ack {
		t.Helper()
		acks, err := journal.ReadAcks(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		return acks
	}
}

// statuses tells for each line which answers it had, in order.
func statuses(acks []check.Ack) map[int][]int {
	m := map[int][]int{}
	for _, a := range acks {
		m[a.Ref.Line] = append(m[a.Ref.Line], a.Status)
	}
	return m
}

func TestImport(t *testing.T) {
	const n = 40
	rows := []struct {
		name   string
		keyed  bool
		fault  func(int) apitest.Fault
		want   api.Summary
		runs   int           // in the cluster afterwards
		answer map[int][]int // by line, where it is not one 201
	}{
		{name: "all goes well", fault: nil, want: api.Summary{Lines: n, Created: n, Sends: 1}, runs: n},
		{
			name: "cut, with keys: sent again, each line once", keyed: true,
			fault: once(apitest.Fault{Cut: true, After: 10, Swallow: 3}),
			want:  api.Summary{Lines: n, Created: n - 3, Existing: 3, Sends: 2}, runs: n,
			answer: func() map[int][]int {
				m := map[int][]int{11: {0, 200}, 12: {0, 200}, 13: {0, 200}}
				for line := 14; line <= n; line++ {
					m[line] = []int{0, 201} // taken by the transport, not by the server
				}
				return m
			}(),
		},
		{
			name: "ended by a node that stops, with keys: the rest is sent again", keyed: true,
			fault: once(apitest.Fault{Stop: true, After: n - 3, Swallow: 3}),
			want:  api.Summary{Lines: n, Created: n - 3, Existing: 3, Sends: 2}, runs: n,
			answer: map[int][]int{38: {0, 200}, 39: {0, 200}, 40: {0, 200}},
		},
		{
			name:  "cut, without keys: unknown, not sent again",
			fault: once(apitest.Fault{Cut: true, After: n - 3, Swallow: 3}),
			want:  api.Summary{Lines: n, Created: n - 3, Unknown: 3, Sends: 1}, runs: n,
			answer: map[int][]int{38: {0}, 39: {0}, 40: {0}},
		},
		{
			name:  "429 as a whole leaves no doubt, without keys",
			fault: once(apitest.Fault{Status: 429}),
			want:  api.Summary{Lines: n, Created: n, Sends: 2}, runs: n,
		},
		{
			name: "one line unknown, one refused, one too many, with keys", keyed: true,
			fault: once(apitest.Fault{Line: func(line int) int { return map[int]int{5: 503, 6: 422, 7: 429}[line] }}),
			want:  api.Summary{Lines: n, Created: n - 1, Refused: 1, Sends: 2}, runs: n - 1,
			answer: map[int][]int{5: {503, 201}, 6: {422}, 7: {429, 201}},
		},
		{
			name: "answered 503, then cut, then known", keyed: true,
			fault: func(n int) apitest.Fault {
				return []apitest.Fault{
					{Line: func(line int) int { return map[int]int{5: 503}[line] }}, {Cut: true, Swallow: 1}, {},
				}[n-1]
			},
			want: api.Summary{Lines: n, Created: n - 1, Existing: 1, Sends: 3}, runs: n,
			answer: map[int][]int{5: {503, 0, 200}},
		},
		{
			name:  "one line unknown, one refused, one too many, without keys",
			fault: once(apitest.Fault{Line: func(line int) int { return map[int]int{5: 503, 6: 422, 7: 429}[line] }}),
			want:  api.Summary{Lines: n, Created: n - 2, Refused: 1, Unknown: 1, Sends: 2}, runs: n - 2,
			answer: map[int][]int{5: {503}, 6: {422}, 7: {429, 201}},
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			cluster := apitest.New(t)
			cluster.Idle = true
			cluster.Import = row.fault
			im, acks := importer(t, client(t, cluster.Serve(t), cluster.Serve(t)), jobs(t, n, row.keyed))
			got, err := im.Run(t.Context())
			if err != nil {
				t.Fatalf("Run: %v", err)
			}
			got.Elapsed = 0
			if got != row.want {
				t.Errorf("Run = %+v, want %+v", got, row.want)
			}
			if runs := len(cluster.Runs()); runs != row.runs {
				t.Errorf("%d runs were made, want %d", runs, row.runs)
			}
			want := map[int][]int{}
			for line := 1; line <= n; line++ {
				want[line] = []int{201}
				if a, ok := row.answer[line]; ok {
					want[line] = a
				}
			}
			if diff := cmp.Diff(want, statuses(acks())); diff != "" {
				t.Errorf("answers by line (-want +got):\n%s", diff)
			}
		})
	}
}

// once lets the first import go wrong.
func once(f apitest.Fault) func(int) apitest.Fault {
	return func(n int) apitest.Fault {
		if n == 1 {
			return f
		}
		return apitest.Fault{}
	}
}

func TestImportLeavesANodeThatHangs(t *testing.T) {
	cluster := apitest.New(t)
	cluster.Idle = true
	cluster.Import = once(apitest.Fault{Hang: true, After: 2, Swallow: 1})
	im, _ := importer(t, client(t, cluster.Serve(t)), jobs(t, 10, true))
	im.Idle = time.Second
	got, err := im.Run(t.Context())
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	if got.Created != 9 || got.Existing != 1 || got.Sends < 2 {
		t.Errorf("Run = %+v, want 9 created, 1 existing, more than one send", got)
	}
}

func TestImportGivesUp(t *testing.T) {
	t.Run("after so many sends", func(t *testing.T) {
		cluster := apitest.New(t)
		cluster.Import = func(int) apitest.Fault { return apitest.Fault{Cut: true} }
		im, _ := importer(t, client(t, cluster.Serve(t)), jobs(t, 10, true))
		im.MaxSends = 3
		got, err := im.Run(t.Context())
		if err != nil || got.Sends != 3 || got.Complete() || cluster.Imports() != 3 {
			t.Errorf("Run = %+v, %v, with %d imports, want 3 sends and an incomplete summary", got, err, cluster.Imports())
		}
	})
	t.Run("at once when refused", func(t *testing.T) {
		cluster := apitest.New(t)
		cluster.Import = func(int) apitest.Fault { return apitest.Fault{Status: http.StatusForbidden} }
		im, _ := importer(t, client(t, cluster.Serve(t)), jobs(t, 10, true))
		got, err := im.Run(t.Context())
		if !errors.Is(err, api.ErrRefused) || got.Sends != 1 {
			t.Errorf("Run = %+v, %v, want ErrRefused after 1 send", got, err)
		}
	})
	t.Run("when told to", func(t *testing.T) {
		cluster := apitest.New(t)
		ctx, cancel := context.WithCancel(t.Context())
		cluster.Import = func(int) apitest.Fault { return apitest.Fault{Hang: true, Hung: cancel} }
		im, acks := importer(t, client(t, cluster.Serve(t)), jobs(t, 10, true))
		got, err := im.Run(ctx)
		if !errors.Is(err, context.Canceled) || got.Unknown != 10 || len(acks()) != 10 {
			t.Errorf("Run = %+v, %v, %d answers, want Canceled and 10 recorded as unknown", got, err, len(acks()))
		}
	})
	t.Run("on a blank line", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "jobs")
		if err := os.WriteFile(path, []byte("{}\n\n{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		im, _ := importer(t, client(t, "http://127.0.0.1:9"), path)
		if _, err := im.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "line 2 is blank") {
			t.Errorf("Run = %v, want that line 2 is blank", err)
		}
	})
}

func TestImportOfManyLinesStreams(t *testing.T) {
	cluster := apitest.New(t)
	cluster.Idle = true
	const n = 20_000 // more than all buffers on the way hold
	im, acks := importer(t, client(t, cluster.Serve(t)), jobs(t, n, false))
	got, err := im.Run(t.Context())
	if err != nil || got.Created != n || len(acks()) != n {
		t.Errorf("Run = %+v, %v, %d answers, want %d created", got, err, len(acks()), n)
	}
}

func TestWindows(t *testing.T) {
	at := func(minute, second int) time.Time { return time.Date(2026, 11, 21, 10, minute, second, 0, time.UTC) }
	rows := []struct {
		name  string
		times []time.Time
		want  []string // minutes, as "from-to" with joined windows
	}{
		{"none", nil, nil},
		{"zero times are none", []time.Time{{}}, nil},
		{"one, and the minutes beside it", []time.Time{at(5, 30)}, []string{"04-07"}},
		{"neighbours are covered once", []time.Time{at(6, 0), at(5, 59), at(6, 59)}, []string{"04-08"}},
		{"a short gap is covered", []time.Time{at(1, 0), at(13, 0)}, []string{"00-15"}},
		{"a long gap is not", []time.Time{at(1, 0), at(15, 0)}, []string{"00-03", "14-17"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			var got []string
			var from, to time.Time
			flush := func() {
				if !to.IsZero() {
					got = append(got, from.Format("04")+"-"+to.Format("04"))
				}
			}
			for _, w := range api.Windows(row.times) {
				if d := w.To.Sub(w.From); d != time.Minute {
					t.Errorf("window of %s, want a minute", d)
				}
				if !w.From.Equal(to) {
					flush()
					from = w.From
				}
				to = w.To
			}
			flush()
			if !slices.Equal(got, row.want) {
				t.Errorf("Windows = %v, want %v", got, row.want)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	now := time.Now()
	rows := []struct {
		name     string
		set      func(*apitest.Cluster)
		want     map[string]string // by run: how it was read first and then
		unlisted int
		refused  bool
	}{
		{
			name: "listed, by id outside the windows, and absent",
			set:  func(c *apitest.Cluster) { c.Put("elsewhere", "succeeded", now.Add(-30*time.Hour)) },
			want: map[string]string{
				"listed-0": "cancelled cancelled", "listed-1": "cancelled cancelled", "listed-2": "cancelled cancelled",
				"elsewhere": "succeeded succeeded", "gone": "absent absent",
			},
		},
		{
			name: "a run that cannot be read is not absent",
			set: func(c *apitest.Cluster) {
				c.Read = func(r *http.Request) int {
					if strings.HasSuffix(r.URL.Path, "/gone") {
						return 503
					}
					return 0
				}
			},
			want: map[string]string{
				"listed-0": "cancelled cancelled", "listed-1": "cancelled cancelled", "listed-2": "cancelled cancelled",
				"elsewhere": "absent absent", "gone": "unreadable unreadable",
			},
		},
		{
			name: "windows that cannot be listed are counted, and runs read by id",
			set: func(c *apitest.Cluster) {
				c.Read = func(r *http.Request) int {
					if r.URL.Path == "/v1/runs" {
						return 400
					}
					return 0
				}
			},
			want:     map[string]string{"elsewhere": "absent absent", "gone": "absent absent"},
			unlisted: 6,
		},
		{
			name:    "not let in",
			set:     func(c *apitest.Cluster) { c.Read = func(*http.Request) int { return 401 } },
			refused: true,
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			cluster := apitest.New(t)
			cluster.PageSize = 2
			for n := range 3 {
				cluster.Put(fmt.Sprint("listed-", n), "cancelled", now)
			}
			row.set(cluster)
			o := &api.Observer{
				Client: client(t, cluster.Serve(t)), IDs: []string{"elsewhere", "gone"}, Windows: api.Windows([]time.Time{now}),
				WaitUntil: now, Log: quiet,
			}
			obs, unlisted, err := o.Observe(t.Context())
			if row.refused {
				if !errors.Is(err, api.ErrRefused) {
					t.Errorf("Observe = %v, want ErrRefused", err)
				}
				return
			}
			if err != nil {
				t.Fatalf("Observe: %v", err)
			}
			got := map[string]string{}
			for _, x := range obs {
				got[x.ID] = reading(x.First) + " " + reading(x.Second)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("Observe (-want +got):\n%s", diff)
			}
			if unlisted != row.unlisted {
				t.Errorf("unlisted = %d, want %d", unlisted, row.unlisted)
			}
		})
	}
}

func reading(r check.Reading) string {
	switch r.Status {
	case check.Absent:
		return "absent"
	case check.Unreadable:
		return "unreadable"
	default:
		return string(r.Run.State)
	}
}

func TestObserveAsksAnotherNode(t *testing.T) {
	cluster := apitest.New(t)
	now := time.Now()
	cluster.Put("r1", "missed", now)
	c := client(t, "http://127.0.0.1:1", cluster.Serve(t)) // nobody listens on the first
	o := &api.Observer{Client: c, Windows: api.Windows([]time.Time{now}), WaitUntil: now, Log: quiet}
	obs, unlisted, err := o.Observe(t.Context())
	if err != nil || unlisted != 0 || len(obs) != 1 {
		t.Errorf("Observe = %v, %d, %v, want one run and all listed", obs, unlisted, err)
	}
}

func TestRunsListedWithoutTheirAttemptsAreReadByID(t *testing.T) {
	cluster := apitest.New(t)
	cluster.Bare = true
	now := time.Now()
	cluster.Put("waiting", "pending", now.Add(time.Hour))
	cluster.Put("ended", "succeeded", now)
	var paths []string // one request at a time, as Concurrency says
	cluster.Read = func(r *http.Request) int {
		if r.URL.Path != "/v1/runs" {
			paths = append(paths, r.URL.Path)
		}
		return 0
	}
	o := &api.Observer{
		Client: client(t, cluster.Serve(t)), Windows: api.Windows([]time.Time{now, now.Add(time.Hour)}), WaitUntil: now,
		Concurrency: 1, Log: quiet,
	}
	if _, _, err := o.Observe(t.Context()); err != nil {
		t.Fatalf("Observe: %v", err)
	}
	if want := []string{"/v1/runs/ended", "/v1/runs/ended"}; !slices.Equal(paths, want) {
		t.Errorf("read by id: %v, want %v, once at each read", paths, want)
	}
}
