package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/loadtest/metrics"
	"carillon.dev/carillon/loadtest/wait"
)

// The metrics of a node that are looked at.
const (
	metricLateness  = "carillon_executor_lateness_seconds"
	metricAttempts  = "carillon_executor_attempts_total"
	metricSucceeded = metricAttempts + `{outcome="succeeded"}`
	metricEarly     = "carillon_executor_early_total"
	metricHeld      = "carillon_executor_messages_held"
	metricMallocs   = "go_memstats_mallocs_total"
	metricBytes     = "go_memstats_alloc_bytes_total"
	metricBorn      = "process_start_time_seconds"

	metricRunning    = "carillon_executor_attempts_running"
	metricStatements = "carillon_cassandra_statements_total"

	metricLooked     = "carillon_jobs_looked_through_total"
	metricLookedTime = "carillon_jobs_looked_through_seconds_total"

	metricScan         = "carillon_dispatcher_scan_seconds"
	metricHeap         = "go_memstats_heap_inuse_bytes"
	metricHeapIdle     = "go_memstats_heap_idle_bytes"
	metricHeapReleased = "go_memstats_heap_released_bytes"
)

// A reading is the counters of all nodes together at one time.
type reading struct {
	at      time.Time
	started float64 // first attempts that began
	ended   float64 // attempts that ended
	held    float64 // messages not acknowledged
	late    float64 // sum of the lateness of those that began, seconds
}

// A scraper reads the metrics of nodes repeatedly. Counters of processes that have ended stay in
// the sums.
type scraper struct {
	client *http.Client
	every  time.Duration

	mu       sync.Mutex // guards what follows
	nodes    []string   // base URLs
	lives    map[string]metrics.Values
	readings []reading
	refusal  error // what a node that is up last answered instead of its metrics
}

// refused returns the last refusal of a node, or nil.
func (s *scraper) refused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusal
}

const (
	scrapeEvery   = 100 * time.Millisecond
	scrapeTimeout = 2 * time.Second
)

func newScraper(client *http.Client) *scraper {
	return &scraper{client: client, every: scrapeEvery, lives: map[string]metrics.Values{}}
}

// watch sets the nodes that are read from now on.
func (s *scraper) watch(nodes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes = slices.Clone(nodes)
}

// watched is the query for the metrics of a reading. All metrics of a node, ten times a second,
// cost a seventh of an executor's CPU.
var watched = "?" + url.Values{"name[]": {metricLateness, metricAttempts, metricHeld, metricBorn}}.Encode()

// read reads every node once. One that does not answer counts with its last values, and holds no
// message.
func (s *scraper) read(ctx context.Context) reading { return s.ask(ctx, watched) }

func (s *scraper) ask(ctx context.Context, query string) reading {
	s.mu.Lock()
	nodes := s.nodes
	s.mu.Unlock()
	heard := make([]metrics.Values, len(nodes))
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, node := range nodes {
		wg.Go(func() { heard[i], errs[i] = metrics.Read(ctx, s.client, node+"/metrics"+query, scrapeTimeout) })
	}
	wg.Wait()
	r := reading{at: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, err := range errs {
		if errors.Is(err, metrics.ErrRefused) { // a node that is down is down
			s.refusal = err
		}
	}
	for i, v := range heard {
		if v == nil {
			continue
		}
		life := fmt.Sprintf("%s since %f", nodes[i], v[metricBorn])
		if known, ok := s.lives[life]; ok {
			maps.Copy(known, v)
		} else {
			s.lives[life] = v
		}
		r.held += v[metricHeld]
	}
	all := s.total()
	r.started, r.late, r.ended = all[metricLateness+"_count"], all[metricLateness+"_sum"], all.Sum(metricAttempts)
	s.readings = append(s.readings, r)
	return r
}

// total returns the sums over all processes so far.
func (s *scraper) total() metrics.Values {
	all := metrics.Values{}
	for _, v := range s.lives {
		for key, x := range v {
			all[key] += x
		}
	}
	return all
}

// mark reads all metrics of every node and returns the sums so far.
func (s *scraper) mark(ctx context.Context) metrics.Values {
	s.ask(ctx, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.total())
}

// run reads until stop is called.
func (s *scraper) run(ctx context.Context) (stop func()) {
	return wait.Every(ctx, s.every, func(ctx context.Context) { s.read(ctx) })
}

// latest returns the last reading.
func (s *scraper) latest() reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.readings) == 0 {
		return reading{}
	}
	return s.readings[len(s.readings)-1]
}

// all returns the readings so far.
func (s *scraper) all() []reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.readings)
}

// burn finds when n runs began and ended. from is the last reading before the first start; to is
// the first at which n runs have ended and no message is held.
func burn(readings []reading, base reading, n int) (from, to time.Time, ok bool) {
	from = base.at
	for _, r := range readings {
		if r.at.Before(base.at) {
			continue
		}
		if r.started <= base.started && r.ended <= base.ended {
			from = r.at
		}
		if r.ended >= base.ended+float64(n) && r.held == 0 {
			return from, r.at, true
		}
	}
	return from, time.Time{}, false
}
