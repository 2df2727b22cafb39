package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

const (
	demoRate   = 20               // jobs a second
	demoSpan   = time.Minute      // for how long they start
	demoAhead  = 3 * time.Second  // until the first one starts
	demoWait   = 30 * time.Second // for the last ones
	demoRedraw = 200 * time.Millisecond
)

// demo receives the calls of its own jobs and counts them.
type demo struct {
	mu       sync.Mutex
	due      map[string]time.Time // by the number in the path
	started  map[string]bool
	lateness *hdrhistogram.Histogram // µs
	early    int
	doubled  int
	second   map[int64]int // starts by second since the first due time
	first    time.Time
}

// runDemo submits the jobs by one import, receives their calls, and shows how late they are. It
// returns nil when all have started, or ctx has ended.
func runDemo(ctx context.Context, out io.Writer, api string) error {
	n := demoRate * int(demoSpan.Seconds())
	d := &demo{
		due: make(map[string]time.Time, n), started: make(map[string]bool, n), lateness: hdrhistogram.New(1, 60_000_000, 3),
		second: make(map[int64]int), first: time.Now().Add(demoAhead).Truncate(time.Second),
	}
	origin, stop, err := receive(ctx, d)
	if err != nil {
		return err
	}
	defer stop()

	lines, err := d.jobs(n, origin)
	if err != nil {
		return err
	}
	client, err := httpapi.NewClient(httpapi.ClientConfig{URLs: []string{api}})
	if err != nil {
		return err
	}
	defer client.Close()
	began := time.Now()
	sum, err := client.Import(ctx, lines, httpapi.ImportOptions{ErrorsOnly: true}, nil)
	if err != nil {
		return fmt.Errorf("import the demo's jobs: %w", err)
	}
	if sum.Created != int64(n) {
		return fmt.Errorf("import the demo's jobs: %d of %d were created", sum.Created, n)
	}
	if _, err := fmt.Fprintf(out, "\n  %d jobs imported in %v, %d a second, the first due at %s. Each is an HTTP call to this process.\n"+
		"  Watch them in the console: %s/console/\n\n",
		n, time.Since(began).Round(time.Millisecond), demoRate, d.first.Format(time.TimeOnly), api); err != nil {
		return err
	}
	return d.watch(ctx, out, n)
}

// receive serves the calls of a demo on a port of its own. It returns the origin of their addresses,
// and what stops it.
func receive(ctx context.Context, handler http.Handler) (origin string, stop func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen for the demo's calls: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	return "http://" + l.Addr().String(), func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			_, _ = fmt.Fprintln(os.Stderr, "demo:", err)
		}
	}, nil
}

// jobs makes the import: n jobs, evenly spread, each with its own number in the path.
func (d *demo) jobs(n int, target string) (io.Reader, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for i := range n {
		path := fmt.Sprintf("/job/%d", i)
		at := d.first.Add(time.Duration(i) * demoSpan / time.Duration(n)).Truncate(time.Millisecond)
		d.due[path] = at
		err := enc.Encode(request.JobRequest{
			Work:     schema.Work{HTTP: &schema.HTTPTarget{URL: target + path}},
			Schedule: &request.Schedule{At: at}, Payload: json.RawMessage(fmt.Sprintf(`{"job":%d}`, i)),
		})
		if err != nil {
			return nil, fmt.Errorf("encode a job: %w", err)
		}
	}
	return &b, nil
}

// ServeHTTP is what the jobs call.
func (d *demo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	due, ok := d.due[r.URL.Path]
	switch {
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		return
	case d.started[r.URL.Path]:
		d.doubled++
		return
	}
	d.started[r.URL.Path] = true
	d.second[int64(now.Sub(d.first)/time.Second)]++
	if now.Before(due) {
		d.early++
		return
	}
	_ = d.lateness.RecordValue(max(now.Sub(due).Microseconds(), 1)) // beyond a minute it is cut
}

// watch shows the counts until all jobs have started.
func (d *demo) watch(ctx context.Context, out io.Writer, n int) error {
	live := cli.IsTerminal(out)
	tick := time.NewTicker(demoRedraw)
	defer tick.Stop()
	end := d.first.Add(demoSpan + demoWait)
	for i := 0; ; i++ {
		parts, all := d.score(n)
		if live {
			// One row only: a line that wraps cannot be erased.
			_, _ = fmt.Fprintf(out, "\r\x1b[2K  %s", cli.Fit(parts, cli.Columns(out)-3))
		} else if i%25 == 0 || all {
			_, _ = fmt.Fprintf(out, "  %s\n", strings.Join(parts, "  "))
		}
		if all {
			break
		}
		if time.Now().After(end) {
			return errors.New("not every job has started")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	if live {
		_, _ = fmt.Fprintln(out)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := fmt.Fprintf(out, "\n  All %d jobs started. Early %d, missed 0, doubled %d. Lateness p50 %s, p99 %s, max %s.\n",
		n, d.early, d.doubled, ms(d.lateness.ValueAtQuantile(50)), ms(d.lateness.ValueAtQuantile(99)), ms(d.lateness.Max()))
	return err
}

// score returns the parts of the live line, the most important first: how many have started, how
// late, and a bar for each of the last seconds. all reports whether every job has started.
func (d *demo) score(n int) (parts []string, all bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	const seconds = 20
	bars := []rune("▁▂▃▄▅▆▇█")
	var spark strings.Builder
	now := int64(time.Since(d.first) / time.Second)
	for s := now - seconds; s < now; s++ {
		spark.WriteRune(bars[min(d.second[s]*len(bars)/(demoRate*2), len(bars)-1)])
	}
	if wait := time.Until(d.first); wait > 0 {
		return []string{fmt.Sprintf("the first job starts in %.1f s", wait.Seconds())}, false
	}
	late := func(us int64) float64 { return float64(us) / 1000 }
	return []string{
		fmt.Sprintf("%4d/%d started", len(d.started), n),
		fmt.Sprintf("early %d  doubled %d", d.early, d.doubled),
		fmt.Sprintf("late p50 %4.1f ms", late(d.lateness.ValueAtQuantile(50))),
		fmt.Sprintf("p99 %4.1f", late(d.lateness.ValueAtQuantile(99))),
		fmt.Sprintf("max %5.1f", late(d.lateness.Max())),
		spark.String(),
	}, len(d.started) == n
}

func ms(us int64) string { return fmt.Sprintf("%.1f ms", float64(us)/1000) }
