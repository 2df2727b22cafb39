package node

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
)

const (
	// moon is in all that a tenant hands in and gets back, and canary in what is not encrypted.
	moon   = "moon-in-the-payload"
	canary = "canary-in-a-label"
)

// vault is a folder on which nodes run with given keys, one after the other.
type vault struct {
	t    *testing.T
	dir  string
	keys map[string]string // as configured, by name
	idle bool              // its nodes execute nothing

	mu   sync.Mutex
	said bytes.Buffer // by anybody on NATS
}

func newVault(t *testing.T) *vault {
	t.Helper()
	v := &vault{t: t, dir: t.TempDir(), keys: map[string]string{}}
	for i, name := range []string{"k1", "k2"} {
		v.keys[name] = name + ":" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{byte(i + 1)}, 32))
	}
	return v
}

// begin starts a node with keys of these names.
func (v *vault) begin(names ...string) *running {
	v.t.Helper()
	cfg := config.Default()
	cfg.Node.Name = "dev"
	log := slog.New(slog.DiscardHandler)
	at := Place{Dir: v.dir, NATS: func(url string) {
		nc, err := nats.Connect(url)
		if err != nil {
			v.t.Errorf("connect to NATS: %v", err)
			return
		}
		v.t.Cleanup(nc.Close)
		if _, err := nc.Subscribe(">", func(m *nats.Msg) {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.said.Write(m.Data)
		}); err != nil {
			v.t.Errorf("listen to NATS: %v", err)
		}
		if err := nc.Flush(); err != nil {
			v.t.Errorf("listen to NATS: %v", err)
		}
	}}
	return startWith(v.t, "dev", Embedded(cfg, at, "test", log, prometheus.NewRegistry()), log, func(c *config.Config) {
		for _, name := range names {
			c.Secrets.Keys = append(c.Secrets.Keys, v.keys[name])
		}
		if v.idle {
			c.Roles = []string{config.Bucketer, config.Dispatcher}
		}
	}).up()
}

// search looks for moon in all that was said on NATS, in the files of store and stream, and, since
// files may be compressed, in every row of the store. The node must have ended.
func (v *vault) search(what string) {
	v.t.Helper()
	found := func(where string, text []byte) {
		if at := bytes.Index(text, []byte(moon)); at >= 0 {
			v.t.Errorf("%s: %s holds it clear: %q", what, where, text[max(0, at-300):min(len(text), at+100)])
		}
	}
	v.mu.Lock()
	found("a message", v.said.Bytes())
	if !bytes.Contains(v.said.Bytes(), []byte(canary)) {
		v.t.Errorf("%s: not even a label is found in what was said on NATS: the search says nothing", what)
	}
	v.mu.Unlock()
	err := filepath.WalkDir(v.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		found("file "+filepath.Base(path), text)
		return err
	})
	if err != nil {
		v.t.Fatal(err)
	}
	sum := &pebble.Merger{Name: "carillon.cells.1", Merge: pebble.DefaultMerger.Merge}
	db, err := pebble.Open(filepath.Join(v.dir, "store"), &pebble.Options{Merger: sum, ReadOnly: true, Logger: quiet{}})
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	it, err := db.NewIter(nil)
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = it.Close() }()
	rows, labels := 0, 0
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			v.t.Fatal(err)
		}
		found("a row", append(bytes.Clone(it.Key()), value...))
		if rows++; bytes.Contains(value, []byte(canary)) {
			labels++
		}
	}
	if labels == 0 {
		v.t.Errorf("%s: not even a label is found in %d rows: the search says nothing", what, rows)
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

func encrypting(r *running, on bool) {
	r.t.Helper()
	if got, err := r.client().PutTenant(r.t.Context(), "default", request.TenantRequest{EncryptPayloads: on}); err != nil || got.EncryptPayloads != on {
		r.t.Fatalf("PutTenant = %+v, %v; want encrypt_payloads %t", got, err, on)
	}
}

// TestNothingOfAnEncryptingTenantIsClear: what a tenant hands in and gets back is nowhere clear in
// the store, and in no message, whatever kind of job it is and however it ends. All of it is
// answered.
func TestNothingOfAnEncryptingTenantIsClear(t *testing.T) {
	v := newVault(t)
	r := v.begin("k1")
	encrypting(r, true)
	c := r.client()
	url := sink(t, func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		if q.URL.Path == "/fail" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = w.Write(body)
	})
	labels := map[string]string{"bird": canary}
	work := func(path string, g schema.Guarantee) schema.Work {
		w := schema.Work{HTTP: &schema.HTTPTarget{URL: url + path}, Guarantee: g}
		if g != schema.AtMostOnce {
			w.Retry = &schema.Retry{MaxAttempts: 2, Initial: schema.Duration(10 * time.Millisecond)}
		}
		return w
	}
	short := json.RawMessage(`{"say":"` + moon + `"}`)
	long := json.RawMessage(`{"say":"` + strings.Repeat(moon+" ", 6<<10/len(moon)) + `"}`)
	create := func(key string, w schema.Work, payload json.RawMessage, at time.Time) schema.JobID {
		t.Helper()
		job := request.JobRequest{Key: key, Work: w, Payload: payload, Labels: labels}
		if !at.IsZero() {
			job.Schedule = &request.Schedule{At: at}
		}
		made, err := c.CreateJob(t.Context(), job)
		if err != nil {
			t.Fatalf("CreateJob = %v", err)
		}
		return made.ID
	}
	outputOf := func(id schema.JobID) string {
		t.Helper()
		out, err := c.Output(t.Context(), schema.RunID(id), 0)
		if err != nil {
			t.Fatalf("Output of %s = %v", id, err)
		}
		return string(out.Text)
	}
	for _, g := range []schema.Guarantee{schema.AtLeastOnce, schema.AtMostOnce, schema.EffectivelyOnce} {
		for _, payload := range []json.RawMessage{short, long} {
			for _, key := range []string{"", uuid.NewString()} {
				id := create(key, work("/", g), payload, time.Time{})
				run := r.awaitState(id, schema.StateSucceeded)
				if got := outputOf(id); string(run.Payload) != string(payload) || got != string(payload) {
					t.Errorf("a run of %s has the payload %.60q… and the output %.60q…, want what was handed in, %.60q…", g, run.Payload, got, payload)
				}
			}
		}
	}
	// a failure, its dead letter, and the replay of that
	failed := create("", work("/fail", ""), short, time.Time{})
	l := r.letter(schema.RunID(failed))
	if string(l.Payload) != string(short) || !strings.Contains(l.Output+l.Error, moon) || len(l.History) != 2 {
		t.Errorf("the dead letter says %+v, want what was handed in and came back, twice", l)
	}
	replay, err := c.ReplayDeadLetter(t.Context(), l.ID)
	if err != nil {
		t.Fatalf("ReplayDeadLetter = %v", err)
	}
	if l := r.letter(replay.ID); string(l.Payload) != string(short) {
		t.Errorf("the replay has the payload %q", l.Payload)
	}
	r.logsHave(moon)
	// a recurring job, on an event with a filter over its body
	if _, _, err := c.PutJob(t.Context(), "heard", request.JobRequest{Work: work("/", ""), Labels: labels, Payload: short, On: &schema.EventTrigger{Event: "said", Filter: `event.say.startsWith("moon")`}}); err != nil {
		t.Fatalf("PutJob = %v", err)
	}
	event, err := c.PublishEvent(t.Context(), "said", short, uuid.NewString())
	if err != nil {
		t.Fatalf("PublishEvent = %v", err)
	}
	await(t, "the event starts a run", func() bool {
		for run, err := range c.RunsOfEvent(t.Context(), event, 0) {
			if err != nil {
				t.Fatalf("RunsOfEvent = %v", err)
			}
			if run.State == schema.StateSucceeded && string(run.Payload) == string(short) {
				return true
			}
		}
		return false
	})
	// a schedule, with occurrences that are planned ahead
	if _, _, err := c.PutJob(t.Context(), "often", request.JobRequest{Work: work("/", ""), Labels: labels, Payload: short, Schedule: &request.Schedule{Every: schema.Duration(time.Second)}}); err != nil {
		t.Fatalf("PutJob = %v", err)
	}
	await(t, "the schedule has run", func() bool {
		for run, err := range c.JobRuns(t.Context(), "often", httpapi.JobRunQuery{}) {
			if err != nil {
				t.Fatalf("JobRuns = %v", err)
			}
			if run.State == schema.StateSucceeded {
				return true
			}
		}
		return false
	})
	if job, err := c.Job(t.Context(), "often"); err != nil || string(job.Payload) != string(short) {
		t.Errorf("Job = payload %q, %v; want what was handed in", job.Payload, err)
	}
	// a workflow whose conditions and payloads look at what it was handed and what came before
	hidden := work("/", "")
	broken := work("/fail", "")
	flow := request.WorkflowRequest{Labels: labels, Definition: workflow.Definition{Steps: []workflow.Step{
		{Name: "first", If: `input.say.startsWith("moon-")`, Work: &hidden, Payload: json.RawMessage(`{"say":"` + moon + `","was":{"$input":"/say"}}`)},
		{Name: "second", After: []string{"first"}, Work: &hidden, Payload: json.RawMessage(`{"say":{"$from":"first","pointer":"/was"}}`)},
		{Name: "third", After: []string{"second"}, Work: &broken, Payload: json.RawMessage(`{"say":{"$from":"second","pointer":"/say"}}`)},
	}}}
	if _, _, err := c.PutWorkflow(t.Context(), "flow", flow); err != nil {
		t.Fatalf("PutWorkflow = %v", err)
	}
	flown := r.awaitState(r.trigger("flow", string(short)), schema.StateFailed)
	if got := shown(&flown); len(got) != 3 || got[1] != "second succeeded" {
		t.Errorf("the workflow's steps stand as %q, want the second succeeded", got)
	} else if out := outputOf(schema.JobID(flown.Steps[1].RunID)); out != string(short) {
		t.Errorf("the second step put out %q, want what the first was handed", out)
	}
	later := create("", work("/", ""), short, time.Now().Add(time.Hour))
	r.stop()
	v.search("with one key")

	// A newer key comes first: what the older one sealed opens, and a job that was waiting runs.
	r = v.begin("k2", "k1")
	c = r.client()
	if job, err := c.Job(t.Context(), later.String()); err != nil || string(job.Payload) != string(short) {
		t.Errorf("with a newer key first a job has the payload %q, %v", job.Payload, err)
	}
	newer := create("", work("/", ""), short, time.Now().Add(time.Hour))
	r.stop()
	v.search("with two keys")

	// The older key is gone: what it sealed says so, and fails; the rest goes on.
	r = v.begin("k2")
	c = r.client()
	if job, err := c.Job(t.Context(), newer.String()); err != nil || string(job.Payload) != string(short) || job.PayloadFault != "" {
		t.Errorf("without the older key a newer job has the payload %q, %v", job.Payload, err)
	}
	if job, err := c.Job(t.Context(), later.String()); err != nil || job.Payload != nil || job.PayloadFault == "" {
		t.Errorf("without its key a job is answered as %+v, %v; want that the payload cannot be opened", job, err)
	}
	if run, err := c.Run(t.Context(), schema.RunID(later)); err != nil || run.Payload != nil || run.PayloadFault == "" {
		t.Errorf("without its key a run is answered as %+v, %v; want that the payload cannot be opened", run, err)
	}
	at := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	var listed strings.Builder
	all := r.url + "/v1/runs?from=" + at(-time.Hour) + "&to=" + at(2*time.Hour)
	for next, pages := all, 0; next != "" && pages < 100; pages++ {
		status, body := get(t, next)
		var page struct {
			Next string `json:"next_cursor"`
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil || status != http.StatusOK {
			t.Fatalf("GET /v1/runs without the key answers %d, %v\n%s", status, err, body)
		}
		listed.WriteString(body)
		if next = ""; page.Next != "" {
			next = all + "&cursor=" + page.Next
		}
	}
	if !strings.Contains(listed.String(), "payload_fault") {
		t.Errorf("GET /v1/runs without the key answers\n%s", listed.String())
	}
	var p *httpapi.Problem
	if _, err := c.PatchJob(t.Context(), later.String(), map[string]any{"priority": "low"}); !errors.As(err, &p) || p.Kind() != "sealed" {
		t.Errorf("PatchJob of a job whose payload cannot be opened = %v, want that it says so", err)
	}
	r.stop()

	// A message waits in the stream until a node without its key gets it: the run fails, and says
	// why.
	v.idle = true
	r = v.begin("k2")
	c = r.client()
	waits := create("", work("/", ""), short, time.Time{})
	// A dispatcher that had not swept its shard yet counts it as published again.
	await(t, "the run is published", func() bool {
		return r.metric("carillon_dispatcher_due_total")+r.metric("carillon_dispatcher_redispatched_total") > 0
	})
	r.stop()
	v.search("without the older key")
	v.idle = false
	r = v.begin("k1")
	if l := r.letter(schema.RunID(waits)); !strings.Contains(l.Error, "cannot be opened") || l.Attempts != 2 || l.Fault == "" {
		t.Errorf("a run whose payload cannot be opened ends with %+v, want that it says so", l)
	}
	r.stop()

	// The keys are back, and with them what they sealed.
	r = v.begin("k1", "k2")
	c = r.client()
	if job, err := c.Job(t.Context(), later.String()); err != nil || string(job.Payload) != string(short) {
		t.Errorf("with its key again a job has the payload %q, %v", job.Payload, err)
	}
	if l, err := c.DeadLetter(t.Context(), schema.RunID(waits)); err != nil || string(l.Payload) != string(short) || l.Fault != "" {
		t.Errorf("with its key again a dead letter is %+v, %v; want its payload", l, err)
	}
	if replay, err := c.ReplayDeadLetter(t.Context(), schema.RunID(waits)); err != nil {
		t.Errorf("ReplayDeadLetter = %v", err)
	} else if r.awaitState(schema.JobID(replay.ID), schema.StateSucceeded); outputOf(schema.JobID(replay.ID)) != string(short) {
		t.Errorf("the replay puts out %q, want what was handed in", outputOf(schema.JobID(replay.ID)))
	}
}

// logsHave waits until a search of the logs finds a text in the error of an attempt.
func (r *running) logsHave(text string) {
	r.t.Helper()
	status, body := get(r.t, r.url+"/v1/logs?text="+text)
	if status != http.StatusOK || !strings.Contains(body, text) {
		r.t.Errorf("GET /v1/logs?text=%s answers %d, and does not find it:\n%s", text, status, body)
	}
}

// TestEncryptionIsRefusedWithoutAKey: a tenant cannot ask for what the operator does not have. What
// is written while it does not ask is clear, and what was written before opens.
func TestEncryptionIsRefusedWithoutAKey(t *testing.T) {
	v := newVault(t)
	r := v.begin()
	var p *httpapi.Problem
	_, err := r.clientOf(httpapi.ClientConfig{Retries: -1}).PutTenant(t.Context(), "default", request.TenantRequest{EncryptPayloads: true})
	if !errors.As(err, &p) || p.Status != http.StatusConflict || p.Kind() != "no-secrets-key" {
		t.Errorf("PutTenant without a key = %v, want 409 no-secrets-key", err)
	}
	r.stop()
	r = v.begin("k1")
	due := time.Now().Add(time.Hour)
	encrypting(r, true)
	asked := r.create("http://127.0.0.1:1/"+canary, due)
	encrypting(r, false)
	not := r.create("http://127.0.0.1:1/"+canary, due)
	for what, c := range map[string]struct {
		job    httpapi.Job
		sealed bool
	}{"asked": {asked, true}, "not asked": {not, false}} {
		id := schema.RunID(c.job.ID)
		rows, err := r.node.store.EntriesByID(t.Context(), id.Partition(), []schema.EntryID{id})
		if err != nil || len(rows) != 1 || schema.IsSealed(rows[0].Payload) != c.sealed {
			t.Errorf("%s: the row has the payload %q, %v; want it sealed: %t", what, rows[0].Payload, err, c.sealed)
		}
		if job, err := r.client().Job(t.Context(), c.job.ID.String()); err != nil || string(job.Payload) != "1" {
			t.Errorf("%s: the job has the payload %q, %v", what, job.Payload, err)
		}
	}
}
