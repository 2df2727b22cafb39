package apitest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sort"
	"strconv"
	"sync"
	"testing"
	"time"
)

const (
	maxAttempts = 5
	retryAfter  = 20 * time.Millisecond
	timeFormat  = "2006-01-02T15:04:05.000Z07:00"
)

// Fault is a fault of one import. The zero Fault is none.
type Fault struct {
	// Status, if not 0, is answered instead of reading the body.
	Status int
	// Cut ends the answer after After answered lines, with Swallow more lines accepted and not
	// answered.
	Cut            bool
	After, Swallow int
	// Stop ends the answer in the same way, and says so: as a node does that is told to stop.
	Stop bool
	// Hang does the same, but leaves the connection open until the client goes away. Hung, if not
	// nil, is called then.
	Hang bool
	Hung func()
	// Line, if not nil, gives the status of a line in place of accepting it; 0 = accept.
	Line func(line int) int
}

// Cluster holds the runs; each URL from Serve is a node over them. Fields are set before the first
// request.
type Cluster struct {
	// Import returns the fault of the n-th import of all nodes, from 1.
	Import func(n int) Fault
	// Read returns the status of a GET in place of its answer; 0 = answer.
	Read func(r *http.Request) int
	// PageSize bounds a page; 0 = as asked. Bare lists runs without their attempts.
	PageSize int
	Bare     bool
	// Idle accepts jobs and never runs them.
	Idle bool

	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	runs    map[string]*run
	keys    map[string]string
	imports int
}

type attempt struct {
	Number     int    `json:"number"`
	StartedAt  string `json:"started_at"`
	FinishedAt string `json:"finished_at"`
	Outcome    string `json:"outcome"`
	StatusCode int    `json:"status_code"`
}

type run struct {
	ID         string          `json:"id"`
	State      string          `json:"state"`
	DueAt      time.Time       `json:"due_at"`
	StartedAt  string          `json:"started_at,omitempty"`
	FinishedAt string          `json:"finished_at,omitempty"`
	LatenessMS *float64        `json:"lateness_ms,omitempty"`
	Payload    json.RawMessage `json:"payload,omitempty"`
	Attempts   []attempt       `json:"attempts"`
}

// New returns a cluster that stops with the test.
func New(t *testing.T) *Cluster {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &Cluster{ctx: ctx, stop: cancel, runs: map[string]*run{}, keys: map[string]string{}}
	t.Cleanup(func() { c.stop(); c.wg.Wait() })
	return c
}

// Serve starts a node and returns its URL.
func (c *Cluster) Serve(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/imports", c.serveImport)
	mux.HandleFunc("GET /v1/runs", c.serveList)
	mux.HandleFunc("GET /v1/runs/{id}", c.serveRun)
	srv := httptest.NewServer(mux)
	t.Cleanup(func() { c.stop(); srv.CloseClientConnections(); srv.Close() })
	return srv.URL
}

// Imports returns how many imports were begun.
func (c *Cluster) Imports() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.imports
}

// Runs returns the ids of all runs, in order.
func (c *Cluster) Runs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := make([]string, 0, len(c.runs))
	for id := range c.runs {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	return ids
}

// Put adds a run as if it had been asked for.
func (c *Cluster) Put(id, state string, due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[id] = &run{ID: id, State: state, DueAt: due.UTC(), Attempts: []attempt{}}
}

// Forget removes a run.
func (c *Cluster) Forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.runs, id)
}

func (c *Cluster) serveImport(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.imports++
	n := c.imports
	c.mu.Unlock()
	var f Fault
	if c.Import != nil {
		f = c.Import(n)
	}
	if f.Status != 0 {
		http.Error(w, "no", f.Status)
		return
	}
	rc := http.NewResponseController(w)
	if err := rc.EnableFullDuplex(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	sc := bufio.NewScanner(r.Body)
	sc.Buffer(nil, 1<<20)
	for line := 1; sc.Scan(); line++ {
		quiet := (f.Cut || f.Stop || f.Hang) && line > f.After
		if quiet && line > f.After+f.Swallow {
			break
		}
		id, status := "", 0
		if f.Line != nil {
			status = f.Line(line)
		}
		if status == 0 {
			id, status = c.accept(sc.Bytes())
		}
		if quiet {
			continue
		}
		_, _ = fmt.Fprintf(w, `{"line":%d,"id":%q,"status":%d}`+"\n", line, id, status)
		_ = rc.Flush() // the client has gone: the next read ends this
	}
	switch {
	case f.Hang:
		if f.Hung != nil {
			f.Hung()
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			// the server notices a client that goes away only while it reads, or after it has read
			// everything
			return
		}
		select {
		case <-r.Context().Done():
		case <-c.ctx.Done():
		}
	case f.Stop:
		_, _ = fmt.Fprintln(w, `{"error":{"title":"Not ready","status":503}}`)
	case f.Cut:
		panic(http.ErrAbortHandler)
	default:
		_, _ = fmt.Fprintln(w, `{"summary":{"lines":0,"created":0,"existing":0,"failed":0}}`)
	}
}

// accept makes the run of a job and sets it going.
func (c *Cluster) accept(line []byte) (id string, status int) {
	var job struct {
		Key  string `json:"key"`
		HTTP struct {
			URL string `json:"url"`
		} `json:"http"`
		Schedule struct {
			At time.Time `json:"at"`
		} `json:"schedule"`
		Payload json.RawMessage `json:"payload"`
	}
	if json.Unmarshal(line, &job) != nil {
		return "", http.StatusUnprocessableEntity
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if id, ok := c.keys[job.Key]; ok && job.Key != "" {
		return id, http.StatusOK
	}
	now := time.Now()
	due := job.Schedule.At
	if due.Before(now) {
		due = now
	}
	id = fmt.Sprintf("%012x-%06x", due.UnixMilli(), len(c.runs))
	r := &run{ID: id, State: "pending", DueAt: due.UTC(), Payload: bytes.Clone(job.Payload), Attempts: []attempt{}}
	c.runs[id] = r
	c.keys[job.Key] = id
	if !c.Idle {
		c.wg.Go(func() { c.execute(r, job.HTTP.URL) })
	}
	return id, http.StatusCreated
}

func (c *Cluster) execute(r *run, url string) {
	if !c.pause(time.Until(r.DueAt)) {
		return
	}
	for n := 1; n <= maxAttempts; n++ {
		start := time.Now()
		code := c.call(r, url, n)
		end := time.Now()
		outcome := "failed"
		if code/100 == 2 {
			outcome = "succeeded"
		}
		c.mu.Lock()
		r.Attempts = append(r.Attempts, attempt{n, start.UTC().Format(timeFormat), end.UTC().Format(timeFormat), outcome, code})
		if n == 1 {
			late := float64(start.Sub(r.DueAt).Milliseconds())
			r.StartedAt, r.LatenessMS = start.UTC().Format(timeFormat), &late
		}
		r.State = "retrying"
		if outcome == "succeeded" || n == maxAttempts {
			r.State, r.FinishedAt = outcome, end.UTC().Format(timeFormat)
		}
		open := r.State == "retrying"
		c.mu.Unlock()
		if !open || !c.pause(retryAfter) {
			return
		}
	}
}

func (c *Cluster) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

func (c *Cluster) call(r *run, url string, n int) int {
	req, err := http.NewRequestWithContext(c.ctx, http.MethodPost, url, bytes.NewReader(r.Payload))
	if err != nil {
		return 0
	}
	req.Close = true
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", r.ID)
	req.Header.Set("Carillon-Run-Id", r.ID)
	req.Header.Set("Carillon-Job-Id", r.ID)
	req.Header.Set("Carillon-Attempt", strconv.Itoa(n))
	req.Header.Set("Carillon-Fence", strconv.FormatInt(time.Now().UnixMicro(), 10))
	req.Header.Set("Carillon-Due-At", r.DueAt.Format(timeFormat))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func (c *Cluster) serveRun(w http.ResponseWriter, r *http.Request) {
	if c.refuse(w, r) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.runs[r.PathValue("id")]
	if !ok {
		http.Error(w, "no such run", http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(found)
}

func (c *Cluster) refuse(w http.ResponseWriter, r *http.Request) bool {
	if c.Read == nil {
		return false
	}
	status := c.Read(r)
	if status != 0 {
		http.Error(w, "no", status)
	}
	return status != 0
}

func (c *Cluster) serveList(w http.ResponseWriter, r *http.Request) {
	if c.refuse(w, r) {
		return
	}
	q := r.URL.Query()
	from, err1 := time.Parse(time.RFC3339Nano, q.Get("from"))
	to, err2 := time.Parse(time.RFC3339Nano, q.Get("to"))
	limit, err3 := strconv.Atoi(q.Get("limit"))
	if err1 != nil || err2 != nil || err3 != nil || limit > 500 || to.Sub(from) > time.Hour {
		http.Error(w, "bad window", http.StatusUnprocessableEntity)
		return
	}
	if c.PageSize > 0 {
		limit = min(limit, c.PageSize)
	}
	var page struct {
		Items      []run  `json:"items"`
		NextCursor string `json:"next_cursor,omitempty"`
	}
	for _, id := range c.Runs() {
		c.mu.Lock()
		found := c.runs[id]
		in := found != nil && id > q.Get("cursor") && !found.DueAt.Before(from) && found.DueAt.Before(to)
		if in && len(page.Items) < limit {
			item := *found
			if c.Bare {
				item.Attempts = nil
			}
			page.Items = append(page.Items, item)
		} else if in && page.NextCursor == "" {
			page.NextCursor = page.Items[len(page.Items)-1].ID
		}
		c.mu.Unlock()
	}
	_ = json.NewEncoder(w).Encode(page)
}
