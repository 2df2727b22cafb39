package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The metrics of a node that are looked at.
const (
	metricLateness = "carillon_executor_lateness_seconds"
	metricAttempts = "carillon_executor_attempts_total"
	metricEarly    = "carillon_executor_early_total"
	metricHeld     = "carillon_executor_messages_held"
	metricMallocs  = "go_memstats_mallocs_total"
	metricBytes    = "go_memstats_alloc_bytes_total"
	metricBorn     = "process_start_time_seconds"

	metricRunning    = "carillon_executor_attempts_running"
	metricStatements = "carillon_cassandra_statements_total"

	metricScan         = "carillon_dispatcher_scan_seconds"
	metricHeap         = "go_memstats_heap_inuse_bytes"
	metricHeapIdle     = "go_memstats_heap_idle_bytes"
	metricHeapReleased = "go_memstats_heap_released_bytes"
)

// values are samples by name and labels, as they stand in the text: "name" or `name{label="value"}`.
type values map[string]float64

// sum returns the sum of a metric over its labels.
func (v values) sum(name string) float64 {
	sum := v[name]
	for key, x := range v {
		if strings.HasPrefix(key, name) && len(key) > len(name) && key[len(name)] == '{' {
			sum += x
		}
	}
	return sum
}

// less returns v − w; what is only in w is left out.
func (v values) less(w values) values {
	d := make(values, len(v))
	for key, x := range v {
		d[key] = x - w[key]
	}
	return d
}

// parseMetrics reads the text format of Prometheus; comments and time stamps are passed over.
func parseMetrics(r io.Reader) (values, error) {
	v := values{}
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		line := strings.TrimSpace(scan.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		end := strings.IndexAny(line, " \t")
		if open := strings.IndexByte(line, '{'); open >= 0 && (end < 0 || open < end) {
			end = endOfLabels(line, open)
		}
		if end <= 0 || end >= len(line) {
			return nil, fmt.Errorf("read metrics: a line without a value: %.100q", line)
		}
		fields := strings.Fields(line[end:])
		if len(fields) == 0 {
			return nil, fmt.Errorf("read metrics: a line without a value: %.100q", line)
		}
		x, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return nil, fmt.Errorf("read metrics: %w", err)
		}
		v[line[:end]] = x
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return v, nil
}

// endOfLabels returns the index after the brace that closes the one at open; 0 if there is none. Braces may stand in values.
func endOfLabels(line string, open int) int {
	quoted := false
	for i := open; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return i + 1
		}
	}
	return 0
}

// bucket is a step of a cumulative histogram.
type bucket struct {
	le    float64 // upper bound, seconds
	count float64 // observations up to it
}

// histogram returns the steps of a histogram without further labels, in order.
func (v values) histogram(name string) []bucket {
	var steps []bucket
	for key, n := range v {
		le, ok := strings.CutPrefix(key, name+`_bucket{le="`)
		if !ok {
			continue
		}
		if bound, err := strconv.ParseFloat(strings.TrimSuffix(le, `"}`), 64); err == nil { // +Inf is read as well
			steps = append(steps, bucket{bound, n})
		}
	}
	slices.SortFunc(steps, func(a, b bucket) int { return int(math.Copysign(1, a.le-b.le)) })
	return steps
}

// quantile returns the upper bound of the step in which quantile q (0 to 1) lies, in seconds; 0 of nothing, and the last finite
// bound if it lies beyond.
func quantile(steps []bucket, q float64) float64 {
	if len(steps) == 0 {
		return 0
	}
	total := steps[len(steps)-1].count
	if total <= 0 {
		return 0
	}
	last := 0.0
	for _, s := range steps {
		if !math.IsInf(s.le, 1) {
			last = s.le
		}
		if s.count >= q*total {
			break
		}
	}
	return last
}

// A reading is what all nodes together said at one time.
type reading struct {
	at      time.Time
	started float64 // first attempts that began
	ended   float64 // attempts that ended
	held    float64 // messages not acknowledged
	late    float64 // sum of the lateness of those that began, seconds
}

// scraper reads the metrics of nodes again and again. Counters of processes that are gone stay in the sums.
type scraper struct {
	client *http.Client
	every  time.Duration

	mu       sync.Mutex // guards what follows
	nodes    []string   // base URLs
	lives    map[string]values
	readings []reading
	refusal  error // what a node that is up last answered instead of its metrics
}

// errRefused: a node does not give its metrics.
var errRefused = errors.New("no metrics")

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
	return &scraper{client: client, every: scrapeEvery, lives: map[string]values{}}
}

// watch sets the nodes that are read from now on.
func (s *scraper) watch(nodes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes = slices.Clone(nodes)
}

// watched is the query for what a reading is made of. A node asked for all it has, ten times a second, spent a seventh of an executor's CPU on
// the answers.
var watched = "?" + url.Values{"name[]": {metricLateness, metricAttempts, metricHeld, metricBorn}}.Encode()

// read reads every node once. One that does not answer counts with what it said last, and holds nothing.
func (s *scraper) read(ctx context.Context) reading { return s.ask(ctx, watched) }

func (s *scraper) ask(ctx context.Context, query string) reading {
	s.mu.Lock()
	nodes := s.nodes
	s.mu.Unlock()
	heard := make([]values, len(nodes))
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, node := range nodes {
		wg.Go(func() { heard[i], errs[i] = s.metrics(ctx, node+"/metrics"+query) })
	}
	wg.Wait()
	r := reading{at: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, err := range errs {
		if errors.Is(err, errRefused) { // a node that is down is down
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
	r.started, r.late, r.ended = all[metricLateness+"_count"], all[metricLateness+"_sum"], all.sum(metricAttempts)
	s.readings = append(s.readings, r)
	return r
}

// total returns the sums over all processes so far.
func (s *scraper) total() values {
	all := values{}
	for _, v := range s.lives {
		for key, x := range v {
			all[key] += x
		}
	}
	return all
}

// mark reads all metrics of every node and returns the sums so far.
func (s *scraper) mark(ctx context.Context) values {
	s.ask(ctx, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.total())
}

// metrics reads those at a URL.
func (s *scraper) metrics(ctx context.Context, from string) (v values, err error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: %s answered %d", errRefused, from, resp.StatusCode)
	}
	return parseMetrics(resp.Body)
}

// run reads until the function returned is called.
func (s *scraper) run(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(s.every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				s.read(ctx)
			}
		}
	}()
	return func() { cancel(); <-done }
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

// burn finds in readings when n runs began and ended: from is the last reading without a start beyond those of base, to the
// first at which n more ended and nothing is held.
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
