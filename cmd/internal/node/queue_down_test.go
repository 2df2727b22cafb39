package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/dispatcher/queue/jetstream"
	"carillon.dev/carillon/schema"
)

// A running node whose NATS server is killed refuses every write with 503, because a job due soon
// would wait for a sweep. It still answers reads, and takes writes again when the server is back.
func TestNodeWithoutNATSRefusesWritesUntilItIsBack(t *testing.T) {
	servers := cluster.Start(t, cluster.Spec{NATS: 1})
	open := newWorld(t, "a").opener("a")
	open.Queue = func(ctx context.Context) (Queue, error) {
		return jetstream.Connect(ctx, jetstream.Config{URLs: servers.NATSURLs(), Name: "a", Lanes: 1, Logger: slog.New(slog.DiscardHandler)})
	}
	called := make(chan struct{}, 64)
	url := sink(t, func(http.ResponseWriter, *http.Request) { called <- struct{}{} })
	r := start(t, "a", open, nil).up()
	await(t, "the node is ready", func() bool { status, _ := get(t, r.url+"/readyz"); return status == http.StatusOK })
	work := schema.Work{HTTP: &schema.HTTPTarget{URL: url}}
	if _, err := r.client().PutTask(t.Context(), "kept", request.TaskRequest{Work: work}); err != nil {
		t.Fatalf("PutTask = %v", err)
	}
	before := r.create(url, time.Now().Add(time.Hour))

	if err := servers.Kill(t.Context(), "nats-1"); err != nil {
		t.Fatal(err)
	}
	await(t, "the queue, and nothing else, is not ready", func() bool {
		status, body := get(t, r.url+"/readyz")
		return status == http.StatusServiceUnavailable && !strings.Contains(body, "queue: ok\n") &&
			strings.Contains(body, "store: ok\n") && strings.Contains(body, "process: ok\n")
	})
	once := r.clientOf(httpapi.ClientConfig{Retries: -1})
	writes := []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"create a job", func(ctx context.Context) error {
			_, err := once.CreateJob(ctx, request.JobRequest{Work: work})
			return err
		}},
		{"create a job, due later", func(ctx context.Context) error {
			_, err := once.CreateJob(ctx, request.JobRequest{Work: work, Schedule: &request.Schedule{At: time.Now().Add(time.Hour)}})
			return err
		}},
		{"put a task", func(ctx context.Context) error {
			_, err := once.PutTask(ctx, "other", request.TaskRequest{Work: work})
			return err
		}},
		{"reschedule", func(ctx context.Context) error {
			_, err := once.PatchJob(ctx, before.ID.String(), map[string]any{"schedule": map[string]any{"at": time.Now().Add(2 * time.Hour)}})
			return err
		}},
		{"import", func(ctx context.Context) error { return importOne(ctx, once, url) }},
		{"delete a task", func(ctx context.Context) error { return once.DeleteTask(ctx, "kept") }},
		{"cancel", func(ctx context.Context) error {
			_, err := once.CancelJob(ctx, before.ID.String())
			return err
		}},
	}
	for _, write := range writes {
		var p *httpapi.Problem
		if err := write.do(t.Context()); !errors.As(err, &p) || p.Status != http.StatusServiceUnavailable || p.Kind() != "not-ready" {
			t.Errorf("%s without NATS = %v, want 503, not-ready", write.name, err)
		}
	}
	if got, err := once.Run(t.Context(), schema.RunID(before.ID)); err != nil || got.State != schema.StatePending {
		t.Errorf("Run without NATS = %s, %v; want that it is pending", got.State, err)
	}
	if _, err := once.Task(t.Context(), "kept"); err != nil {
		t.Errorf("Task without NATS = %v, want what stands", err)
	}

	if err := servers.StartMember(t.Context(), "nats-1"); err != nil {
		t.Fatal(err)
	}
	await(t, "the node is ready again", func() bool { status, _ := get(t, r.url+"/readyz"); return status == http.StatusOK })
	job := r.create(url, time.Time{})
	r.awaitState(job.ID, schema.StateSucceeded)
	select {
	case <-called:
	case <-time.After(patience):
		t.Error("the run of a job made since NATS is back has succeeded without a call")
	}
	for _, write := range writes {
		await(t, write.name+" is possible again", func() bool {
			err := write.do(t.Context())
			var p *httpapi.Problem
			// on a busy machine the process looks as if it had been frozen
			if err != nil && (!errors.As(err, &p) || p.Kind() != "not-ready") {
				t.Fatalf("%s since NATS is back = %v", write.name, err)
			}
			return err == nil
		})
	}
}

// importOne imports one line and returns why it was not taken.
func importOne(ctx context.Context, c *httpapi.Client, url string) error {
	var refused error
	line := fmt.Sprintf(`{"http":{"url":%q},"schedule":{"at":%q}}`, url, time.Now().Add(time.Hour).Format(time.RFC3339))
	sum, err := c.Import(ctx, strings.NewReader(line), httpapi.ImportOptions{}, func(r httpapi.ImportResult) error {
		if r.Error != nil {
			refused = r.Error
		}
		return nil
	})
	if err == nil && refused == nil && sum.Created != 1 {
		return fmt.Errorf("an import of one line: %+v", sum)
	}
	return errors.Join(err, refused)
}
