package node

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/dispatcher/queue/jetstream"
	"carillon.dev/carillon/executor/webhook"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/cassandra"
)

// tourKeyspace is that of a whole node: a dispatcher takes up all that is due in its keyspace, so it is not shared with other tests.
const tourKeyspace = "carillon_test_node"

// What a store answers in memory it may not answer over CQL: one node on a real Cassandra takes a tour through what people do with it.
func TestTourOnCassandra(t *testing.T) {
	said := &pages{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the node's log:\n%s", said.text())
		}
	})
	log := slog.New(slog.NewTextHandler(said, nil))
	server := natsServer(t)
	keys := func(c *config.Config) {
		c.Secrets.Keys = []string{"k1:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("seal"), 8))}
		c.Executor.DrainTimeout = time.Second
	}
	r := startWith(t, "a", onCassandra(t, server, log), log, keys).up()
	r.tenant = "t" + uuid.NewString()
	await(t, "the node is ready", func() bool { status, _ := get(t, r.url+"/readyz"); return status == http.StatusOK })
	c := r.client()

	t.Run("what fails for good is replayed", func(t *testing.T) {
		var well atomic.Bool
		answer := strings.Repeat("all is well\n", 10_000) // an output of several parts
		url := sink(t, func(w http.ResponseWriter, _ *http.Request) {
			if !well.Load() {
				http.Error(w, "not yet", http.StatusServiceUnavailable)
				return
			}
			_, _ = io.WriteString(w, answer)
		})
		work := schema.Work{HTTP: &schema.HTTPTarget{URL: url}, Retry: &schema.Retry{MaxAttempts: 2, Initial: schema.Duration(10 * time.Millisecond)}}
		if _, err := c.PutTask(t.Context(), "mail", bucketer.TaskRequest{Work: work}); err != nil {
			t.Fatalf("PutTask = %v", err)
		}
		job, err := c.CreateJob(t.Context(), bucketer.JobRequest{Key: uuid.NewString(), Task: "mail", Payload: json.RawMessage(`{"to":1}`)})
		if err != nil {
			t.Fatalf("CreateJob = %v", err)
		}
		run := schema.RunID(job.ID)
		l := r.letter(run)
		if l.Attempts != 2 || len(l.History) != 2 || l.StatusCode != http.StatusServiceUnavailable || l.State != "waiting" || l.Task != "mail" || string(l.Payload) != `{"to":1}` {
			t.Errorf("dead letter = %+v, want one of two attempts that waits, with its payload", l)
		}
		if failed := r.awaitState(job.ID, schema.StateFailed); len(failed.Attempts) != 2 {
			t.Errorf("run = %+v, want two attempts", failed)
		}
		listed := func() (ids []schema.RunID) {
			t.Helper()
			for l, err := range c.DeadLetters(t.Context(), httpapi.LetterQuery{Task: "mail"}) {
				if err != nil {
					t.Fatalf("DeadLetters = %v", err)
				}
				ids = append(ids, l.ID)
			}
			return ids
		}
		if ids := listed(); len(ids) != 1 || ids[0] != run {
			t.Errorf("DeadLetters = %v, want %s", ids, run)
		}
		well.Store(true)
		replay, err := c.ReplayDeadLetter(t.Context(), run)
		if err != nil || replay.Origin != run {
			t.Fatalf("ReplayDeadLetter = origin %s, %v; want %s", replay.Origin, err, run)
		}
		r.awaitState(schema.JobID(replay.ID), schema.StateSucceeded)
		if out, err := c.Output(t.Context(), replay.ID, 0); err != nil || string(out.Text) != answer || out.Attempt != 1 || out.Cut {
			t.Errorf("Output of the replay = %d bytes of attempt %d, cut: %t, %v; want all %d of the first", len(out.Text), out.Attempt, out.Cut, err, len(answer))
		}
		if l, err := c.DeadLetter(t.Context(), run); err != nil || l.State != "replayed" || l.Replay != replay.ID || len(listed()) != 0 {
			t.Errorf("dead letter after its replay is %s as %s, %v; want replayed as %s, and none listed", l.State, l.Replay, err, replay.ID)
		}
	})

	t.Run("a signed call is verified", func(t *testing.T) {
		key, err := c.CreateSigningKey(t.Context(), bucketer.SigningRequest{Name: "orders"})
		if err != nil {
			t.Fatalf("CreateSigningKey = %v", err)
		}
		verifier, err := webhook.NewVerifier(key.Secret)
		if err != nil {
			t.Fatalf("NewVerifier of what was shown = %v", err)
		}
		payload := `"` + strings.Repeat("p", 2*4096) + `"` // too large for its run's row
		verdicts := make(chan error, 8)
		url := sink(t, func(_ http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err == nil {
				err = verifier.Verify(r.Header, body)
			}
			if string(body) != payload {
				t.Errorf("a body of %d bytes, want %d", len(body), len(payload))
			}
			verdicts <- err
		})
		job := r.ask(bucketer.JobRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: url, SigningKey: "orders"}}, Payload: json.RawMessage(payload)})
		if err := pass(t, "the call comes", verdicts); err != nil {
			t.Errorf("Verify of the call = %v", err)
		}
		r.awaitState(job.ID, schema.StateSucceeded)
	})

	t.Run("a run that logs is cancelled", func(t *testing.T) {
		e := endlessHandler(t, server, r)
		job := r.ask(bucketer.JobRequest{Work: e.work})
		run := schema.RunID(job.ID)
		e.begun(run) // its first line was read back
		r.awaitState(job.ID, schema.StateRunning)
		if _, err := c.CancelRun(t.Context(), run); err != nil {
			t.Fatalf("CancelRun = %v", err)
		}
		e.ended(run)
		await(t, "the attempt is recorded as cancelled", func() bool {
			got := r.awaitState(job.ID, schema.StateCancelled)
			return len(got.Attempts) == 1 && got.Attempts[0].Outcome == schema.Cancelled
		})
		if line := r.firstLine(run); line.Attempt != 1 {
			t.Errorf("the first line, once the run has ended, is of attempt %d, want 1", line.Attempt)
		}
	})
}

// onCassandra opens a node of its own on the tests' Cassandra, migrated, and on a NATS server in this process.
func onCassandra(t *testing.T, server jetstream.Server, log *slog.Logger) Opener {
	t.Helper()
	cfg := config.Default()
	cfg.Node.Name, cfg.Cassandra.Keyspace = "a", tourKeyspace
	cfg.Cassandra.Hosts = []string{cluster.Cassandra(t)}
	cc, err := CassandraConfig(cfg, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	cc.Timeout = 20 * time.Second // a busy machine is no failure
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	var said bytes.Buffer
	if _, err := cassandra.Migrate(ctx, cc, cassandra.MigrateOptions{Replication: "1", Shards: 4, Out: &said}); err != nil {
		t.Fatalf("Migrate = %v\n%s", err, said.String())
	}
	return Opener{
		Store: Cluster(cfg, "test", log, prometheus.NewRegistry()).Store,
		Queue: func(ctx context.Context) (Queue, error) {
			return jetstream.Connect(ctx, jetstream.Config{Server: server, Name: "a", Lanes: 1, Logger: log})
		},
		Ring: func(shards int, _ string) (Ring, error) {
			f, err := ring.Static([]ring.Member{{Name: "a", Incarnation: 1, Roles: cfg.Roles}}, shards)
			return fixed{f}, err
		},
	}
}
