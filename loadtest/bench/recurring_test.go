package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

func some() recurring {
	return recurring{n: 50_000, from: noon, every: 10 * time.Second, runs: 8, seed: 3, source: "s1", url: "http://h:1"}
}

func TestRecurringRunsFillTheSpan(t *testing.T) {
	j := some()
	perSecond := make([]int, 80)
	for run := range j.count() {
		due := j.dueOf(run)
		if !due.After(j.from) || !due.Before(j.end()) || due.Nanosecond()%1e6 != 0 {
			t.Fatalf("dueOf(%d) = %s, want a whole millisecond after %s and before %s", run, due, j.from, j.end())
		}
		perSecond[int(due.Sub(noon).Seconds())]++
	}
	if lo, hi := slices.Min(perSecond), slices.Max(perSecond); lo < 4700 || hi > 5300 {
		t.Errorf("between %d and %d runs a second, want about 5000", lo, hi)
	}
}

func TestACallCountsForTheInstantThatItNames(t *testing.T) {
	j := some()
	first := j.first(7)
	rows := []struct {
		name string
		job  int
		due  time.Time
		run  int // -1: none that was asked for
	}{
		{"the first", 7, first, 48},
		{"the last", 7, first.Add(70 * time.Second), 55},
		{"the one after the last", 7, first.Add(80 * time.Second), -1},
		{"the one before the first", 7, first.Add(-10 * time.Second), -1},
		{"between two", 7, first.Add(10*time.Second + time.Millisecond), -1},
		{"none named", 7, time.Time{}, -1},
		{"no such job", 50_001, first, -1},
		{"no job", 0, first, -1},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			run, ok := j.runOf(&check.Sighting{Ref: check.Ref{Source: "s1", Line: row.job}, Due: row.due})
			if ok != (row.run >= 0) || ok && run != row.run {
				t.Fatalf("runOf = %d, %t, want %d", run, ok, row.run)
			}
			if ok && !j.dueOf(run).Equal(row.due) {
				t.Errorf("dueOf(%d) = %s, want %s", run, j.dueOf(run), row.due)
			}
		})
	}
}

func TestTheSinkTellsOfRecurringRuns(t *testing.T) {
	j := recurring{n: 2, from: noon, every: 2 * time.Second, runs: 3, source: "s1"}
	see := func(job, k, ms int) check.Sighting {
		due := j.first(job).Add(time.Duration(k) * j.every)
		return check.Sighting{Ref: check.Ref{Source: "s1", Line: job}, Due: due, At: due.Add(time.Duration(ms) * time.Millisecond)}
	}
	wrong := see(2, 1, 5)
	wrong.Due = wrong.Due.Add(time.Second)
	other := see(1, 0, 5)
	other.Ref.Source = "s0"
	var r Result
	r.fromSink(&j, noon, noon.Add(2*j.every), []check.Sighting{
		see(1, 0, 10), see(1, 1, -1), see(1, 2, 9000), see(2, 0, 30), see(2, 0, 40), wrong, see(2, 2, 9000), other, other,
	})
	if r.Missed != 1 || r.Early != 1 || r.Doubled != 1 || r.Unexpected != 1 || len(r.Notes) != 1 || len(r.Faults()) != 3 {
		t.Errorf("missed %d, early %d, doubled %d, unexpected %d, notes %q, faults %q; want 1 of each, but 3 faults", r.Missed, r.Early, r.Doubled, r.Unexpected, r.Notes, r.Faults())
	}
	r = Result{}
	r.fromSink(&j, noon, noon.Add(2*j.every), []check.Sighting{see(1, 0, 1), see(1, 1, 1), see(2, 0, 30), see(2, 1, 10)})
	if r.Missed != 2 || len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], "2 of the missed") {
		t.Errorf("missed %d, notes %q, want 2, both after the span", r.Missed, r.Notes)
	}
}

func TestSpeedIsThatOfTheSpan(t *testing.T) {
	j := recurring{n: 2, from: noon, every: 2 * time.Second, runs: 3, source: "s1"}
	see := func(job, k, ms int) check.Sighting {
		due := j.first(job).Add(time.Duration(k) * j.every)
		return check.Sighting{Ref: check.Ref{Source: "s1", Line: job}, Due: due, At: due.Add(time.Duration(ms) * time.Millisecond)}
	}
	var r Result
	r.fromSink(&j, noon, noon.Add(2*j.every), []check.Sighting{see(1, 0, 10), see(1, 1, 0), see(1, 2, 9000), see(2, 0, 30), see(2, 2, 9000)})
	if r.Lateness == nil || r.Lateness.Max != 30 || r.Lateness.P50 != 10 {
		t.Errorf("lateness = %+v, want that of the span alone: 0, 10, 30", r.Lateness)
	}
}

func TestBodiesOfRecurringJobsSayWhatWasAsked(t *testing.T) {
	j := some()
	j.bytes = 200
	var body struct {
		HTTP       struct{ URL string }
		Schedule   struct{ Every, Anchor string }
		Jitter     string
		Start, End time.Time
		Payload    struct{ Pad string }
	}
	d := json.NewDecoder(strings.NewReader(string(j.appendBody(nil, 9))))
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil {
		t.Fatal(err)
	}
	anchor, err := time.Parse(time.RFC3339, body.Schedule.Anchor)
	if err != nil || !anchor.Equal(j.first(9)) || body.Schedule.Every != "10s" || body.Jitter != "0s" {
		t.Errorf("schedule %+v, jitter %q (%v), want every 10s at %s without an offset", body.Schedule, body.Jitter, err, j.first(9))
	}
	if !body.Start.Equal(noon) || !body.End.Equal(noon.Add(80*time.Second)) || body.HTTP.URL != "http://h:1/s1/9" || len(body.Payload.Pad) != 200-len(`{"pad":""}`) {
		t.Errorf("body is %+v, want it from noon for 80 s, with a payload of 200 bytes", body)
	}
}

// intakeStub answers creations as told, and notes the jobs that it took.
type intakeStub struct {
	*httptest.Server

	mu    sync.Mutex // guards what follows
	taken map[string]int
}

func newAPI(answer func(n int, anchor string) (status int, body string)) *intakeStub {
	a := &intakeStub{taken: map[string]int{}}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			HTTP     struct{ URL string }
			Schedule struct{ Anchor string }
		}
		text, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(text, &body) != nil || r.URL.Path != "/v1/jobs" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		a.mu.Lock()
		a.taken[body.HTTP.URL]++
		status, say := answer(a.taken[body.HTTP.URL], body.Schedule.Anchor)
		a.mu.Unlock()
		w.WriteHeader(status)
		_, _ = io.WriteString(w, say) // the test sees it
	}))
	return a
}

func TestRecurringJobsAreCreated(t *testing.T) {
	due := func(anchor string) string { return fmt.Sprintf(`{"id":"x","next_run":{"due_at":%q}}`, anchor) }
	rows := []struct {
		name   string
		answer func(n int, anchor string) (int, string)
		resent int
		want   string // of the error
	}{
		{"all at once", func(_ int, anchor string) (int, string) { return 201, due(anchor) }, 0, ""},
		{"each at the second time", func(n int, anchor string) (int, string) {
			return map[bool]int{true: 429, false: 201}[n == 1], due(anchor)
		}, 40, ""},
		{"with an offset", func(int, string) (int, string) { return 201, due("2026-11-21T12:00:00.000Z") }, 0, "want 2026-11-21T12:00:0"},
		{"without a next run", func(int, string) (int, string) { return 201, `{"id":"x"}` }, 0, "is due at 0001"},
		{"refused", func(int, string) (int, string) { return 422, "it is recurring" }, 0, "answered 422: it is recurring"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			a := newAPI(row.answer)
			defer a.Close()
			b := &bench{members: members{cfg: Config{}.withDefaults(), client: a.Client(), serial: 6}}
			defer a.Client().CloseIdleConnections()
			j := some()
			j.n = 40
			l, err := b.make(context.Background(), still{urls: []string{a.URL}}, &j)
			if row.want != "" {
				if err == nil || !strings.Contains(err.Error(), row.want) {
					t.Fatalf("make = %v, want an error that says %q", err, row.want)
				}
				return
			}
			if err != nil || l.Lines != 40 || l.Resent != row.resent || l.PerS <= 0 || l.Ended.IsZero() {
				t.Fatalf("make = %+v, %v, want 40 jobs, %d sent again", l, err, row.resent)
			}
			for job := 1; job <= 40; job++ {
				if a.taken[fmt.Sprintf("http://h:1/s7/%d", job)] == 0 {
					t.Errorf("job %d of source s7 was not created: %v", job, a.taken)
				}
			}
		})
	}
}

func TestARecurringRunIsComparedBySystemsCPU(t *testing.T) {
	once := &Result{CPU: map[string]float64{"carillon": 100, "cassandra": 60, "nats": 40, "sink": 50, "load": 9}}
	again := &Result{CPU: map[string]float64{"carillon": 200, "cassandra": 200, "nats": 50, "sink": 70, "load": 1}}
	if got := against(again, once); got != 2.25 {
		t.Errorf("against = %g, want 2.25: 450 of 200", got)
	}
	if got := against(again, &Result{}); got != 0 {
		t.Errorf("against nothing = %g, want 0", got)
	}
	rows := []struct {
		name string
		r    Result
		want string
	}{
		{"within three times", Result{Rate: 5000, AgainstOneOff: 2.25}, "| 2.25 × | pass |"},
		{"beyond", Result{Rate: 5000, AgainstOneOff: 3.01}, "| 3.01 × | falls short |"},
		{"some missed", Result{Rate: 5000, AgainstOneOff: 2, Missed: 1}, "| never | falls short |"},
		{"another rate", Result{Rate: 2000, AgainstOneOff: 2}, "not measured"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			row.r.Protocol, row.r.System, row.r.Variant = "R", "carillon", "recurring"
			if got := table(t, []*Result{&row.r, {Protocol: "R", System: "carillon", Variant: "one-off", Rate: 5000}}, "R: CPU"); !strings.Contains(got, row.want) {
				t.Errorf("row is %s, want %s in it", got, row.want)
			}
		})
	}
	text := (&Result{Protocol: "R", N: 300_000, Jobs: 50_000, RunsPerS: 5000, AgainstOneOff: 2.25, Unexpected: 4, Load: &Load{PerS: 700}}).String()
	for _, want := range []string{"of 50000 recurring jobs", "2.25 × a one-off run's", "unexpected 4", "creation 700 jobs/s"} {
		if !strings.Contains(text, want) {
			t.Errorf("a result is told as\n%s\nwithout %q", text, want)
		}
	}
}

func TestIntervalsFitTheSpan(t *testing.T) {
	for _, row := range []struct {
		every, span time.Duration
		ok          bool
	}{
		{0, time.Minute, true},
		{30 * time.Second, time.Minute, true},
		{7 * time.Second, time.Minute, false},
		{500 * time.Millisecond, time.Minute, false},
		{-time.Second, time.Minute, false},
	} {
		c := Config{Protocols: []string{"R"}, System: OnDev, Every: row.every, Span: row.span, Program: "p", Carillon: "c", Dir: "d", Out: "o"}
		if err := c.Validate(); (err == nil) != row.ok {
			t.Errorf("Validate with every %s and span %s = %v, want an error: %t", row.every, row.span, err, !row.ok)
		}
	}
}
