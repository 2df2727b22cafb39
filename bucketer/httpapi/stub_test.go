package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	_ Jobs      = (*engine.Engine)(nil)
	_ Runs      = (*engine.Engine)(nil)
	_ Tasks     = (*engine.Engine)(nil)
	_ Recurring = (*engine.Engine)(nil)
	_ Workflows = (*engine.Engine)(nil)
	_ Logs      = (*engine.Engine)(nil)
)

var testNow = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

// stub is a bucketer in memory. Its hooks, where set, come before what it would do.
type stub struct {
	mu    sync.Mutex
	runs  map[schema.RunID]*runs.Run
	order []schema.RunID
	keys  map[string]schema.RunID
	tasks map[string]schema.Task
	count uint64

	batches int // SubmitBatch calls that have begun
	largest int // jobs of the largest
	err     error
	onBatch func(jobs []bucketer.Job)
	onRun   func(ctx context.Context)
	by      string // who cancelled last

	onReschedule func()

	output runs.Output // of every run, if it has chunks
	lines  []runs.LogLine
	ended  bool // the log's run

	jobs   stubJobs
	steps  map[schema.RunID]*stubSteps // of workflow runs
	events stubEvents
}

func newStub() *stub {
	return &stub{runs: map[schema.RunID]*runs.Run{}, keys: map[string]schema.RunID{}, tasks: map[string]schema.Task{}, jobs: newStubJobs(), steps: map[schema.RunID]*stubSteps{}}
}

func (s *stub) Submit(_ context.Context, job bucketer.Job) (bucketer.Receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.submit(job)
}

func (s *stub) submit(job bucketer.Job) (bucketer.Receipt, error) {
	if s.err != nil {
		return bucketer.Receipt{}, s.err
	}
	if job.Task != "" {
		t, ok := s.tasks[job.Tenant+"/"+job.Task]
		switch {
		case !ok:
			return bucketer.Receipt{}, fmt.Errorf("submit: %w", bucketer.ErrNoTask)
		case string(t.PayloadSchema) == refusing:
			return bucketer.Receipt{}, fmt.Errorf("submit: %w", bucketer.Faults{{Location: "body.payload/to", Message: "must be string, is " + string(job.Payload)}})
		}
	}
	key := job.Tenant + "/" + job.Key
	if id, ok := s.keys[key]; ok && job.Key != "" {
		if s.runs[id].Entry.Spec.BodyHash != job.BodyHash {
			return bucketer.Receipt{}, fmt.Errorf("submit: %w", bucketer.ErrKeyReused)
		}
		return bucketer.Receipt{Run: id, Existing: true}, nil
	}
	if u := job.Unique; u != nil {
		if id, ok := s.keys[job.Tenant+"/unique "+u.Key]; ok {
			return bucketer.Receipt{Run: id, Existing: true, Unique: true, Entry: &s.runs[id].Entry}, nil
		}
	}
	at := job.At
	if at.Before(testNow) {
		at = testNow
	}
	nominal := job.At
	if nominal.IsZero() {
		nominal = at
	}
	s.count++
	id := schema.MakeEntryID(at, 3, s.count)
	spec := schema.Spec{
		Tenant: job.Tenant, Nominal: nominal, Accepted: testNow.UnixMicro(), Task: job.Task, Work: job.Work, Priority: job.Priority,
		Misfire: job.Misfire, Labels: job.Labels, JobName: job.JobName, Trigger: job.Trigger, Origin: job.Origin, Key: job.Key, BodyHash: job.BodyHash, CreatedBy: job.CreatedBy, RequireRegion: job.RequireRegion, Unique: job.Unique,
	}
	if job.After != nil {
		spec.Kind, spec.Of, spec.Trigger = schema.KindJoin, id, schema.TriggerDependency
		spec.Join = &schema.Join{After: *job.After, Until: at.Add(job.After.Deadline.Std())}
	}
	e, err := schema.NewEntry(id, spec, job.Payload, time.Time{})
	if err != nil {
		return bucketer.Receipt{}, err
	}
	s.runs[id] = &runs.Run{ID: id, Entry: e, Current: e, State: schema.StatePending}
	s.order = append(s.order, id)
	if job.Key != "" {
		s.keys[key] = id
	}
	if job.Unique != nil {
		s.keys[job.Tenant+"/unique "+job.Unique.Key] = id
	}
	return bucketer.Receipt{Run: id}, nil
}

func (s *stub) SubmitBatch(_ context.Context, jobs []bucketer.Job, answer func(int, bucketer.Receipt, error)) {
	s.mu.Lock()
	s.batches++
	s.largest = max(s.largest, len(jobs))
	s.mu.Unlock()
	if s.onBatch != nil {
		s.onBatch(jobs)
	}
	for i, j := range jobs {
		s.mu.Lock()
		r, err := s.submit(j)
		s.mu.Unlock()
		answer(i, r, err)
	}
}

func (s *stub) Cancel(_ context.Context, tenant string, id schema.RunID, by string) (runs.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(tenant, id)
	switch {
	case err != nil:
		return runs.Run{}, err
	case r.State == schema.StateCancelled:
	case r.State.Terminal():
		return runs.Run{}, fmt.Errorf("cancel: %w", bucketer.ErrFinished)
	default:
		r.State, s.by = schema.StateCancelled, by
		r.Entry.Marks.Cancelled = &schema.Cancel{At: testNow, By: by}
	}
	return *r, nil
}

func (s *stub) Reschedule(_ context.Context, tenant string, id schema.RunID, c runs.Change) (runs.Run, error) {
	if s.onReschedule != nil {
		s.onReschedule()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(tenant, id)
	if err != nil {
		return runs.Run{}, err
	}
	if r.State != schema.StatePending {
		return runs.Run{}, fmt.Errorf("reschedule: %w", bucketer.ErrFinished)
	}
	if !c.Of.IsZero() && c.Of != standing(r).ID {
		return runs.Run{}, fmt.Errorf("reschedule: %w", schema.ErrConflict)
	}
	spec, payload, due := r.Current.Spec, r.Current.Payload, r.Current.Due()
	spec.Kind, spec.Of = schema.KindReschedule, id
	spec.Accepted += int64(time.Second / time.Microsecond)
	if c.At != nil {
		if due = *c.At; due.IsZero() {
			due = testNow
		}
		spec.Nominal = due
	}
	if c.Payload != nil {
		payload = *c.Payload
	}
	if c.Priority != nil {
		spec.Priority = *c.Priority
	}
	if c.Labels != nil {
		spec.Labels = *c.Labels
	}
	if c.Work != nil {
		spec.Work, spec.Task = c.Work, ""
	}
	if c.Task != nil {
		spec.Work, spec.Task = nil, *c.Task
	}
	s.count++
	r.Current, err = schema.NewEntry(schema.MakeEntryID(due, 3, s.count), spec, payload, time.Time{})
	r.Entry.Marks.MovedTo = r.Current.ID
	return *r, err
}

func (s *stub) find(tenant string, id schema.RunID) (*runs.Run, error) {
	if s.err != nil {
		return nil, s.err
	}
	r, ok := s.runs[id]
	if !ok || r.Entry.Spec.Tenant != tenant {
		return nil, fmt.Errorf("run %s: %w", id, schema.ErrNotFound)
	}
	return r, nil
}

func (s *stub) Run(ctx context.Context, tenant string, id schema.RunID) (runs.Run, error) {
	if s.onRun != nil {
		s.onRun(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(tenant, id)
	if err != nil {
		return runs.Run{}, err
	}
	return *r, nil
}

// Runs lists in order of ids, a page of at most limit rows looked at.
func (s *stub) Runs(_ context.Context, w runs.Window, pos runs.Position, limit int) ([]runs.Run, *runs.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, nil, s.err
	}
	ids := slices.Clone(s.order)
	slices.SortFunc(ids, schema.EntryID.Compare)
	var out []runs.Run
	looked := 0
	for _, id := range ids {
		r := s.runs[id]
		if id.Compare(pos.After) <= 0 || r.Entry.Spec.Tenant != w.Tenant {
			continue
		}
		if looked++; looked > limit {
			return out, &runs.Position{After: last(ids, id)}, nil
		}
		s.mu.Unlock() // a filter may read tasks
		holds := w.Holds(r, testNow)
		s.mu.Lock()
		if holds {
			out = append(out, *r)
		}
	}
	return out, nil, nil
}

// RunByKey knows the keys of requests alone.
func (s *stub) RunByKey(_ context.Context, tenant, key string, at time.Time) (runs.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return runs.Run{}, s.err
	}
	id, ok := s.keys[tenant+"/"+key]
	if !ok || !at.IsZero() && !at.Equal(id.Time()) {
		return runs.Run{}, schema.ErrNotFound
	}
	r, err := s.find(tenant, id)
	if err != nil {
		return runs.Run{}, err
	}
	return *r, nil
}

func last(ids []schema.EntryID, before schema.EntryID) schema.EntryID {
	return ids[slices.Index(ids, before)-1]
}

func (s *stub) Payload(_ context.Context, run runs.Run) ([]byte, error) {
	return standing(&run).Payload, nil
}

func (s *stub) Output(ctx context.Context, tenant string, id schema.RunID, attempt int) (runs.Output, error) {
	if _, err := s.Run(ctx, tenant, id); err != nil {
		return runs.Output{}, err
	}
	if attempt > 1 {
		return runs.Output{}, &runs.NoAttemptError{Run: id, Number: attempt, Begun: []int{1}}
	}
	out := s.output
	if out.Chunks == nil {
		out = runs.Output{Attempt: 1, Size: 12, Chunks: func(yield func([]byte, error) bool) {
			_ = yield([]byte("<b>do"), nil) && yield([]byte("ne</b>\n"), nil)
		}}
	}
	return out, nil
}

func (s *stub) Logs(ctx context.Context, tenant string, id schema.RunID, attempt int, pos runs.LogPosition, limit int) ([]runs.LogLine, *runs.LogPosition, error) {
	if _, err := s.Run(ctx, tenant, id); err != nil {
		return nil, nil, err
	}
	if attempt > 1 {
		return nil, nil, schema.ErrNotFound
	}
	lines := s.lines[min(pos.Line, len(s.lines)):]
	lines = lines[:min(limit, len(lines))]
	next := &runs.LogPosition{Line: pos.Line + len(lines)}
	if s.ended && next.Line == len(s.lines) {
		next = nil
	}
	return lines, next, nil
}

func (s *stub) PutTaskIf(_ context.Context, t schema.Task, seen time.Time) (schema.Task, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return schema.Task{}, false, s.err
	}
	old, known := s.tasks[t.Tenant+"/"+t.Name]
	if !seen.IsZero() && !seen.Equal(old.UpdatedAt) {
		return schema.Task{}, false, bucketer.ErrStale
	}
	t.CreatedAt, t.UpdatedAt = testNow, bucketer.StampAfter(testNow, old.UpdatedAt)
	if known {
		t.CreatedAt = old.CreatedAt
	}
	s.tasks[t.Tenant+"/"+t.Name] = t
	return t, !known, nil
}

func (s *stub) Task(_ context.Context, tenant, name string) (schema.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return schema.Task{}, s.err
	}
	t, ok := s.tasks[tenant+"/"+name]
	if !ok {
		return schema.Task{}, fmt.Errorf("task %s: %w", name, schema.ErrNotFound)
	}
	return t, nil
}

func (s *stub) CheckTask(ctx context.Context, tenant, task string, text []byte) error {
	t, err := s.Task(ctx, tenant, task)
	switch {
	case task == "":
		return nil
	case err != nil:
		return bucketer.ErrNoTask
	case string(t.PayloadSchema) == refusing:
		return bucketer.Faults{{Location: "body.payload/to", Message: "must be string, is " + string(text)}}
	}
	return nil
}

// refusing is the schema of tasks that no payload fits.
const refusing = `{"type":"string"}`

func (s *stub) Tasks(_ context.Context, tenant, after string, limit int) ([]schema.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	var out []schema.Task
	for _, t := range s.tasks {
		if t.Tenant == tenant && t.Name > after {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b schema.Task) int { return strings.Compare(a.Name, b.Name) })
	return out[:min(limit, len(out))], nil
}

func (s *stub) DeleteTaskIf(_ context.Context, tenant, name string, seen time.Time) error {
	old, err := s.Task(context.Background(), tenant, name)
	if err == nil && !seen.IsZero() && !seen.Equal(old.UpdatedAt) {
		err = bucketer.ErrStale
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tasks, tenant+"/"+name)
	return nil
}

// serve starts a server in front of a stub.
func serve(t testing.TB, b *stub, change ...func(*Config, *Deps)) *httptest.Server {
	t.Helper()
	c := Config{Now: func() time.Time { return testNow }, CursorKey: []byte("0123456789abcdef")}
	d := Deps{Jobs: b, Runs: b, Tasks: b, Recurring: b, Workflows: b, Events: b, Joins: b, Logs: b, Search: b}
	for _, f := range change {
		f(&c, &d)
	}
	s, err := New(c, d)
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewUnstartedServer(s)
	panicked := new(panics)
	hs.Config.ErrorLog = log.New(panicked, "", 0)
	hs.Start()
	t.Cleanup(func() {
		s.endImports()
		hs.Close()
		http.DefaultClient.CloseIdleConnections()
		if text := panicked.first.Load(); text != nil {
			t.Errorf("the server logged %s", *text)
		}
	})
	return hs
}

// panics is the log of a server, of which it keeps the first panic.
type panics struct{ first atomic.Pointer[string] }

func (p *panics) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("panic")) {
		text := string(line)
		p.first.CompareAndSwap(nil, &text)
	}
	return len(line), nil
}

// call is a request and what its answer should be.
type call struct {
	method, path, body string
	header             http.Header
}

// do answers a call: status, header and body.
func do(t testing.TB, hs *httptest.Server, c call) (int, http.Header, []byte) {
	t.Helper()
	req, err := http.NewRequest(c.method, hs.URL+c.path, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	if c.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range c.header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	resp, err := hs.Client().Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", c.method, c.path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: read: %v", c.method, c.path, err)
	}
	return resp.StatusCode, resp.Header, text
}

// doJSON answers a call that must have that status, decoded into v.
func doJSON(t testing.TB, hs *httptest.Server, c call, status int, v any) http.Header {
	t.Helper()
	got, header, text := do(t, hs, c)
	if got != status {
		t.Fatalf("%s %s = %d %s, want %d", c.method, c.path, got, text, status)
	}
	if v != nil {
		if err := json.Unmarshal(text, v); err != nil {
			t.Fatalf("%s %s: %v in %s", c.method, c.path, err, text)
		}
	}
	return header
}

// doProblem answers a call that must fail with that status, in the words of RFC 9457.
func doProblem(t testing.TB, hs *httptest.Server, c call, status int) Problem {
	t.Helper()
	var p Problem
	header := doJSON(t, hs, c, status, &p)
	if got := header.Get("Content-Type"); got != problemJSON {
		t.Errorf("%s %s: content type %q, want %q", c.method, c.path, got, problemJSON)
	}
	if p.Status != status || p.Title == "" || p.Type == "" {
		t.Errorf("%s %s: problem %+v, want type, title and status %d", c.method, c.path, p, status)
	}
	retry := header.Get("Retry-After") != ""
	if want := status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable; retry != want {
		t.Errorf("%s %s: %d with Retry-After %q", c.method, c.path, status, header.Get("Retry-After"))
	}
	return p
}

const jobBody = `{"http":{"url":"http://x.test/"},"schedule":{"at":"2026-11-21T10:00:00Z"},"payload":{"a":1}}`
