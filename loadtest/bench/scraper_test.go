package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const exposition = `# HELP carillon_executor_attempts_total Attempts ended, by outcome.
# TYPE carillon_executor_attempts_total counter
carillon_executor_attempts_total{outcome="succeeded"} 40
carillon_executor_attempts_total{outcome="lost"} 2
carillon_executor_attempts_totality 7
carillon_executor_messages_held 3
odd{text="a } b \" c"} 5 1700000000000
carillon_executor_lateness_seconds_bucket{le="0.001"} 10
carillon_executor_lateness_seconds_bucket{le="0.01"} 30
carillon_executor_lateness_seconds_bucket{le="10"} 39
carillon_executor_lateness_seconds_bucket{le="+Inf"} 40
carillon_executor_lateness_seconds_sum 1.5
carillon_executor_lateness_seconds_count 40
go_memstats_mallocs_total 1.5e+06
`

// A process that was killed keeps what it had counted, and holds nothing.
func TestScraperAddsUpLives(t *testing.T) {
	answer := ""
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if answer == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprint(w, answer) // the test sees it
	}))
	defer node.Close()
	life := func(born, started, held int) string {
		return fmt.Sprintf("%s %d\n%s_count %d\n%s{outcome=\"succeeded\"} %d\n%s %d\n", metricBorn, born, metricLateness, started, metricAttempts, started, metricHeld, held)
	}
	client := node.Client()
	s := newScraper(client)
	s.watch([]string{node.URL})
	for _, row := range []struct {
		name, answer  string
		started, held float64
	}{
		{"not up yet", "", 0, 0},
		{"first life", life(100, 5, 2), 5, 2},
		{"goes on", life(100, 8, 1), 8, 1},
		{"killed", "", 8, 0},
		{"second life", life(200, 3, 4), 11, 4},
	} {
		answer = row.answer
		if r := s.read(t.Context()); r.started != row.started || r.ended != row.started || r.held != row.held {
			t.Errorf("%s: read = %+v, want %g started and ended, %g held", row.name, r, row.started, row.held)
		}
	}
	if n := len(s.all()); n != 5 {
		t.Errorf("%d readings, want 5", n)
	}
	client.CloseIdleConnections()
}

func TestScraperStopsWhenTold(t *testing.T) {
	s := newScraper(http.DefaultClient)
	s.every = time.Millisecond
	stop := s.run(context.Background())
	stop()
	n := len(s.all())
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.readings) != n {
		t.Errorf("it read on after it was stopped")
	}
}

func TestBurnIsFromTheLastRestToTheLastRecord(t *testing.T) {
	at := func(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }
	base := reading{at: at(0), started: 100, ended: 100}
	readings := []reading{
		{at: at(-100), started: 100, ended: 100, held: 0},
		base,
		{at: at(100), started: 100, ended: 100},
		{at: at(200), started: 140, ended: 120, held: 50},
		// every outcome is known, not every one recorded
		{at: at(300), started: 150, ended: 150, held: 20},
		{at: at(400), started: 150, ended: 150},
		{at: at(500), started: 150, ended: 150},
	}
	from, to, ok := burn(readings, base, 50)
	if !ok || !from.Equal(at(100)) || !to.Equal(at(400)) {
		t.Errorf("burn = %s, %s, %t, want from 100 ms to 400 ms", from.Sub(noon), to.Sub(noon), ok)
	}
	if _, _, ok := burn(readings[:5], base, 50); ok {
		t.Error("burn while messages are held = over, want not yet")
	}
	if _, _, ok := burn(readings, base, 51); ok {
		t.Error("burn with a run left = over, want not yet")
	}
}

// TestReadingsAskForLittle: between two marks only what a reading is made of is asked for, and what
// else is known of a node stays.
func TestReadingsAskForLittle(t *testing.T) {
	registry := prometheus.NewRegistry()
	held := prometheus.NewGauge(prometheus.GaugeOpts{Name: metricHeld})
	mallocs := prometheus.NewCounter(prometheus.CounterOpts{Name: metricMallocs})
	registry.MustRegister(held, mallocs)
	held.Set(3)
	mallocs.Add(1000)
	var asked []string
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		handler.ServeHTTP(w, r)
	}))
	defer node.Close()
	s := newScraper(node.Client())
	s.watch([]string{node.URL})
	s.mark(t.Context())
	held.Set(2)
	if got := s.read(t.Context()).held; got != 2 {
		t.Errorf("read: held %v, want 2", got)
	}
	if got := s.total()[metricMallocs]; got != 1000 {
		t.Errorf("after a reading: %s = %v, want 1000 as the mark had it", metricMallocs, got)
	}
	if len(asked) != 2 || asked[0] != "" || !strings.Contains(asked[1], metricHeld) || strings.Contains(asked[1], metricMallocs) {
		t.Errorf("asked with %q, want everything first, then what is watched", asked)
	}
}
