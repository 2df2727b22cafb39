package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

func newClient(t testing.TB, urls ...string) *Client {
	t.Helper()
	c, err := NewClient(ClientConfig{URLs: urls, Tenant: "acme", MaxWait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestClientCalls(t *testing.T) {
	b := newStub()
	c := newClient(t, serve(t, b).URL+"/")
	ctx := t.Context()

	task, err := c.PutTask(ctx, "send", request.TaskRequest{Work: schema.Work{NATS: &schema.NATSTarget{Subject: "a"}}, Description: "d"})
	if err != nil || task.Name != "send" || task.Description != "d" {
		t.Fatalf("PutTask = %+v, %v", task, err)
	}
	if got, err := c.Task(ctx, "send"); err != nil || cmp.Diff(task, got) != "" {
		t.Errorf("Task = %+v, %v; want %+v", got, err, task)
	}
	job, err := c.CreateJob(ctx, request.JobRequest{Key: `k"\`, Task: "send", Schedule: &request.Schedule{At: testNow.Add(time.Hour)}, Payload: json.RawMessage(`{"a":1}`)})
	if err != nil || job.Tenant != "acme" || job.State != "active" {
		t.Fatalf("CreateJob = %+v, %v", job, err)
	}
	if id, ok := b.keys[`acme/k"\`]; !ok || id != schema.RunID(job.ID) {
		t.Errorf("CreateJob: the key did not arrive as it was: %v", b.keys)
	}
	if got, err := c.Job(ctx, job.ID.String()); err != nil || cmp.Diff(job, got) != "" {
		t.Errorf("Job = %+v, %v; want %+v", got, err, job)
	}
	if got, err := c.PatchJob(ctx, job.ID.String(), map[string]any{"priority": "high"}); err != nil || got.Priority != schema.High {
		t.Errorf("PatchJob = %+v, %v; want priority high", got, err)
	}
	if got, err := c.CancelJob(ctx, job.ID.String()); err != nil || got.State != "cancelled" {
		t.Errorf("CancelJob = %+v, %v; want it cancelled", got, err)
	}
	if got, err := c.CancelRun(ctx, schema.RunID(job.ID)); err != nil || got.State != schema.StateCancelled {
		t.Errorf("CancelRun = %+v, %v; want it cancelled", got, err)
	}
	run, err := c.RetryRun(ctx, schema.RunID(job.ID), "")
	if err != nil || run.Origin != schema.RunID(job.ID) {
		t.Errorf("RetryRun = %+v, %v; want a run of origin %s", run, err, job.ID)
	}
	if got, err := c.Run(ctx, run.ID); err != nil || cmp.Diff(run, got) != "" {
		t.Errorf("Run = %+v, %v; want %+v", got, err, run)
	}
	if got, err := c.Output(ctx, run.ID, 0); err != nil || string(got.Text) != "<b>done</b>\n" || got.Attempt != 1 || got.Cut || got.Binary {
		t.Errorf("Output = %+v, %v; want the text of attempt 1", got, err)
	}
	var none *Problem
	if got, err := c.Output(ctx, run.ID, 2); !errors.As(err, &none) || none.Status != 404 {
		t.Errorf("Output of attempt 2 = %+v, %v; want 404", got, err)
	}
	if err := c.Ready(ctx); err != nil {
		t.Errorf("Ready = %v, want nil", err)
	}
	if _, err := c.Cluster(ctx); err != nil {
		t.Errorf("Cluster = %v", err)
	}
	var names []string
	for task, err := range c.Tasks(ctx) {
		names = append(names, fmt.Sprint(task.Name, err))
	}
	if strings.Join(names, " ") != "send<nil>" {
		t.Errorf("Tasks yields %q, want send", names)
	}
	if err := c.DeleteTask(ctx, "send"); err != nil {
		t.Errorf("DeleteTask = %v", err)
	}
	var p *Problem
	if err := c.DeleteTask(ctx, "send"); !errors.As(err, &p) || p.Kind() != "not-found" || p.Status != 404 {
		t.Errorf("DeleteTask again = %v, want not found", err)
	}
	if _, err := c.CreateJob(ctx, request.JobRequest{}); !errors.As(err, &p) || p.Status != 422 || len(p.Errors) != 1 {
		t.Errorf("CreateJob of nothing = %v, want its fault", err)
	}
}

func TestClientListsRunsOfManyHours(t *testing.T) {
	b := newStub()
	c := newClient(t, serve(t, b).URL)
	for i := range 10 {
		job := request.JobRequest{Schedule: &request.Schedule{At: testNow.Add(time.Duration(i) * 50 * time.Minute)}, Payload: json.RawMessage(fmt.Sprint(i))}
		job.NATS = &schema.NATSTarget{Subject: "a"}
		if _, err := c.CreateJob(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	got := ""
	for r, err := range c.Runs(t.Context(), RunQuery{From: testNow, To: testNow.Add(9 * 50 * time.Minute), Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		got += string(r.Payload)
	}
	if got != "012345678" {
		t.Errorf("Runs over 7.5 hours yields %s, want 012345678", got)
	}
	for _, err := range c.Runs(t.Context(), RunQuery{From: testNow, To: testNow.Add(3 * time.Hour)}) {
		if err != nil {
			t.Error(err)
		}
		break // must not panic
	}
	for _, err := range c.Runs(t.Context(), RunQuery{From: testNow, To: testNow}) {
		if err == nil {
			t.Error("Runs of an empty window yields no error")
		}
	}
}

func TestClientTriesAgain(t *testing.T) {
	keyedJob := request.JobRequest{Key: "k", Task: "t"}
	for name, row := range map[string]struct {
		status int
		kind   string
		call   func(c *Client) error
		tries  int32 // that the server sees, if it refuses the first two
	}{
		"read, unavailable": {503, "unavailable", func(c *Client) error { return c.DeleteTask(context.Background(), "t") }, 3},
		"overloaded":        {429, "overloaded", func(c *Client) error { return c.DeleteTask(context.Background(), "t") }, 3},
		"keyed, unknown":    {503, "unknown", func(c *Client) error { _, err := c.CreateJob(context.Background(), keyedJob); return err }, 3},
		"unkeyed, unknown": {503, "unknown", func(c *Client) error {
			_, err := c.CreateJob(context.Background(), request.JobRequest{Task: "t"})
			return err
		}, 1},
		"unkeyed, not ready": {503, "not-ready", func(c *Client) error {
			_, err := c.CreateJob(context.Background(), request.JobRequest{Task: "t"})
			return err
		}, 3},
		"unkeyed, overloaded": {429, "overloaded", func(c *Client) error {
			_, err := c.CreateJob(context.Background(), request.JobRequest{Task: "t"})
			return err
		}, 3},
		"invalid":                   {422, "invalid", func(c *Client) error { _, err := c.CreateJob(context.Background(), keyedJob); return err }, 1},
		"a gateway's page, to read": {502, "", func(c *Client) error { _, err := c.Job(context.Background(), "x"); return err }, 3},
		"a gateway's page, to write": {502, "", func(c *Client) error {
			_, err := c.CreateJob(context.Background(), request.JobRequest{Task: "t"})
			return err
		}, 1},
		"ready is asked once": {503, "", func(c *Client) error { return c.Ready(context.Background()) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var tries atomic.Int32
			hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if tries.Add(1) > 2 {
					_, _ = io.WriteString(w, "{}")
					return
				}
				w.Header().Set("Retry-After", "1")
				if row.kind != "" {
					w.Header().Set("Content-Type", problemJSON)
				}
				w.WriteHeader(row.status)
				_, _ = fmt.Fprintf(w, `{"type":%q,"title":"t","status":1}`, problemType+row.kind)
			}))
			defer hs.Close()
			err := row.call(newClient(t, hs.URL))
			var p *Problem
			if got := tries.Load(); got != row.tries || (err == nil) != (row.tries == 3) {
				t.Errorf("%d tries, then %v; want %d", got, err, row.tries)
			}
			if err != nil && (!errors.As(err, &p) || p.Status != row.status) {
				t.Errorf("error %v, want a problem with status %d", err, row.status)
			}
		})
	}
}

func TestClientHonoursRetryAfter(t *testing.T) {
	p := &Problem{Status: 429, RetryAfter: 7 * time.Second}
	c := newClient(t, "http://127.0.0.1:1")
	if again, wait := c.again(t.Context(), fmt.Errorf("call: %w", p), false); !again || wait != 7*time.Second {
		t.Errorf("again(%v) = %v, %s; want true, 7s", p, again, wait)
	}
	for try := range 20 {
		if d := backoff(try); d < 50*time.Millisecond || d > 103*time.Second {
			t.Errorf("backoff(%d) = %s", try, d)
		}
	}
}

// deadURL is an address at which nobody listens.
func deadURL(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}

func TestClientGoesToAnotherNode(t *testing.T) {
	b := newStub()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", problemJSON)
		w.WriteHeader(503)
		_, _ = fmt.Fprintf(w, `{"type":%q}`, problemType+"not-ready")
	}))
	defer refusing.Close()
	c := newClient(t, deadURL(t), refusing.URL, serve(t, b).URL)
	job := request.JobRequest{Payload: json.RawMessage(`1`)}
	job.NATS = &schema.NATSTarget{Subject: "a"}
	for range 3 { // unkeyed: neither node has written anything
		if _, err := c.CreateJob(t.Context(), job); err != nil {
			t.Fatalf("CreateJob with one node of three = %v", err)
		}
	}
	if c.at.Load() != 2 || len(b.runs) != 3 {
		t.Errorf("the client is at node %d with %d runs made, want 2 and 3", c.at.Load(), len(b.runs))
	}
	c.at.Store(0)
	sum, err := c.Import(t.Context(), strings.NewReader(line+"\n"+line), ImportOptions{}, nil)
	if err != nil || sum.Created != 2 {
		t.Errorf("Import with one node of three = %+v, %v; want 2 created", sum, err)
	}
	if _, err := newClient(t, deadURL(t)).Job(t.Context(), "x"); err == nil {
		t.Error("Job without any node = nil, want an error")
	}
}

func TestClientImport(t *testing.T) {
	b := newStub()
	c := newClient(t, serve(t, b).URL)
	var mu sync.Mutex
	got := map[int64]int{}
	take := func(r ImportResult) error {
		mu.Lock()
		defer mu.Unlock()
		got[r.Line] = r.Status
		return nil
	}
	sum, err := c.Import(t.Context(), strings.NewReader(line+"\n{}\n"+line), ImportOptions{}, take)
	if want := (ImportSummary{Lines: 3, Created: 2, Failed: 1}); err != nil || sum != want || got[1] != 201 || got[2] != 422 || got[3] != 201 {
		t.Errorf("Import = %+v, %v, lines %v; want %+v", sum, err, got, want)
	}
	clear(got)
	packed := pack(t, "zstd", line+"\n{}\n")
	sum, err = c.Import(t.Context(), strings.NewReader(string(packed)), ImportOptions{ValidateOnly: true, ErrorsOnly: true, Encoding: "zstd"}, take)
	if want := (ImportSummary{Lines: 2, Failed: 1}); err != nil || sum != want || len(got) != 1 || len(b.runs) != 2 {
		t.Errorf("Import to check = %+v, %v, lines %v; want %+v", sum, err, got, want)
	}
	_, err = c.Import(t.Context(), strings.NewReader(string(packed[:len(packed)-3])), ImportOptions{Encoding: "zstd"}, take)
	var p *Problem
	if !errors.As(err, &p) || p.Kind() != "cut" {
		t.Errorf("Import of a cut stream = %v, want that it was cut", err)
	}
	enough := errors.New("enough")
	if _, err = c.Import(t.Context(), strings.NewReader(line+"\n"+line), ImportOptions{}, func(ImportResult) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("Import whose results nobody wants = %v, want %v", err, enough)
	}
	broken := errors.New("disk on fire")
	_, err = c.Import(t.Context(), io.MultiReader(strings.NewReader(line+"\n"), failingReader{broken}), ImportOptions{}, nil)
	if err == nil {
		t.Error("Import of a reader that fails = nil, want an error")
	}
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// An import of which some was sent is not sent again: the rest of it would pass for the whole.
func TestClientDoesNotSendTheRestOfAnImportAgain(t *testing.T) {
	first := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 10))
		panic(http.ErrAbortHandler)
	}))
	defer first.Close()
	b := newStub()
	c := newClient(t, first.URL, serve(t, b).URL)
	text := strings.Repeat(line+"\n", 100_000)
	if sum, err := c.Import(t.Context(), strings.NewReader(text), ImportOptions{}, nil); err == nil {
		t.Errorf("Import = %+v, nil; want an error", sum)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.runs) > 0 {
		t.Errorf("%d lines went to another node", len(b.runs))
	}
}

func TestClientImportWithoutSummary(t *testing.T) {
	for name, answer := range map[string]string{
		"an error":    `{"line":1,"status":201}` + "\n" + `{"error":{"type":"urn:carillon:problem:not-ready","title":"t","status":503}}` + "\n",
		"nothing":     `{"line":1,"status":201}` + "\n",
		"half a line": `{"line":1,"status":201}` + "\n" + `{"summ`,
	} {
		hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, answer)
		}))
		n := 0
		_, err := newClient(t, hs.URL).Import(t.Context(), strings.NewReader(line), ImportOptions{}, func(ImportResult) error { n++; return nil })
		if !errors.Is(err, ErrImportCut) || n != 1 {
			t.Errorf("%s: Import = %v after %d results, want ErrImportCut after 1", name, err, n)
		}
		hs.Close()
	}
}

func TestClientConfigFaults(t *testing.T) {
	for _, urls := range [][]string{nil, {"127.0.0.1:80"}, {"http://a", "ftp://b"}, {"http://"}} {
		if _, err := NewClient(ClientConfig{URLs: urls}); err == nil {
			t.Errorf("NewClient(%q) = nil, want an error", urls)
		}
	}
}
