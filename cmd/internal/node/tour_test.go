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

	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/dispatcher/queue/jetstream"
	"carillon.dev/carillon/dispatcher/queue/jetstream/embedded"
	"carillon.dev/carillon/executor/webhook"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/cassandra"
	pebble "carillon.dev/carillon/schema/embedded"
)

// ground is what a tour runs on: one of the stores, and a NATS server in this process.
type ground struct {
	name   string // "embedded" or "cassandra"
	server *embedded.Server
	// open opens a node on the store of that name, which is made when it is first asked for (on
	// Cassandra that takes ten seconds) and is shared by all nodes on it. The ring has members, or
	// if there are none the node alone, with all roles. A dispatcher takes up all that is due in
	// its keyspace and an executor all that is on the server, so the nodes of one keyspace end
	// before those of another start.
	open func(t *testing.T, keyspace, node string, log *slog.Logger, members ...ring.Member) Opener
}

// onBothGrounds runs f on each store: what one answers in memory the other may not answer over CQL.
// The Cassandra one is left out loudly, or fails with CI=true, where there is none.
func onBothGrounds(t *testing.T, f func(t *testing.T, g ground)) {
	t.Helper()
	for name, stores := range map[string]func(*testing.T) storeOf{"embedded": onPebble, "cassandra": onCassandra} {
		t.Run(name, func(t *testing.T) {
			store := stores(t)
			g := ground{name: name, server: natsServer(t)}
			g.open = func(t *testing.T, keyspace, node string, log *slog.Logger, members ...ring.Member) Opener {
				t.Helper()
				if len(members) == 0 {
					members = []ring.Member{{Name: node, Incarnation: 1, Roles: config.Default().Roles}}
				}
				return Opener{
					Store: store(t, keyspace, node, log),
					Queue: func(ctx context.Context) (Queue, error) {
						return jetstream.Connect(ctx, jetstream.Config{Server: g.server, Name: node, Lanes: 1, Logger: log})
					},
					Ring: func(shards int, _ string) (Ring, error) {
						f, err := ring.Static(members, shards)
						return fixedRing{f}, err
					},
				}
			}
			f(t, g)
		})
	}
}

// storeOf returns what opens the store of a keyspace for a node.
type storeOf func(t *testing.T, keyspace, node string, log *slog.Logger) func(context.Context) (schema.Store, error)

// onPebble has a store on file for each keyspace, which outlives the nodes on it.
func onPebble(t *testing.T) storeOf {
	t.Helper()
	stores := map[string]*pebble.Store{}
	return func(now *testing.T, keyspace, _ string, log *slog.Logger) func(context.Context) (schema.Store, error) {
		now.Helper()
		store := stores[keyspace]
		if store == nil {
			var err error
			if store, err = pebble.Open(pebble.Config{Dir: t.TempDir(), Shards: tourShards, Logger: log}); err != nil {
				now.Fatal(err)
			}
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
			stores[keyspace] = store
		}
		return func(context.Context) (schema.Store, error) { return worldStore{store, &world{}}, nil }
	}
}

// onCassandra has for each keyspace one of the tests' Cassandra that nobody else has, migrated, and
// a session for each node. A test that runs once more finds nothing that is due. It is left there,
// as the tests' Cassandra is thrown away.
func onCassandra(t *testing.T) storeOf {
	t.Helper()
	host, migrated, mine := cluster.Cassandra(t), map[string]bool{}, strings.ReplaceAll(uuid.NewString(), "-", "")[:12]
	return func(now *testing.T, keyspace, node string, log *slog.Logger) func(context.Context) (schema.Store, error) {
		now.Helper()
		cfg := config.Default()
		cfg.Node.Name, cfg.Cassandra.Keyspace, cfg.Cassandra.Hosts = node, keyspace+"_"+mine, []string{host}
		if !migrated[keyspace] {
			migrate(now, cfg, log)
			migrated[keyspace] = true
		}
		return Cluster(cfg, "test", log, prometheus.NewRegistry()).Store
	}
}

func migrate(t *testing.T, cfg config.Config, log *slog.Logger) {
	t.Helper()
	cc, err := CassandraConfig(cfg, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	cc.Timeout = 20 * time.Second // a busy machine is no failure
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	var said bytes.Buffer
	if _, err := cassandra.Migrate(ctx, cc, cassandra.MigrateOptions{Replication: "1", Shards: tourShards, Out: &said}); err != nil {
		t.Fatalf("Migrate = %v\n%s", err, said.String())
	}
}

const tourShards = 4

// logOfTour returns a log that is shown if the test fails.
func logOfTour(t *testing.T) *slog.Logger {
	t.Helper()
	said := &pages{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the nodes' log:\n%s", said.text())
		}
	})
	return slog.New(slog.NewTextHandler(said, nil))
}

// tourist prepares a node for a test: it waits until the node is ready, and gives its clients their
// own tenant.
func (r *running) tourist() *running {
	r.t.Helper()
	await(r.t, "the node is ready", func() bool { status, _ := get(r.t, r.url+"/readyz"); return status == http.StatusOK })
	r.tenant = "t" + uuid.NewString()
	return r
}

// in returns the node as a subtest sees it: what fails fails there.
func (r *running) in(t *testing.T) *running {
	return &running{t: t, node: r.node, url: r.url, tenant: r.tenant}
}

const tourKeyspace = "carillon_test_node"

// maxKept is what the node of the tour keeps of an output, bytes.
const maxKept = 160 << 10

// The stops are for one node. They are independent of each other, and most of each is waiting.
func TestTour(t *testing.T) {
	onBothGrounds(t, func(t *testing.T, g ground) {
		log, scripts := logOfTour(t), commands(t)
		r := startWith(t, "a", g.open(t, tourKeyspace, "a", log), log, func(c *config.Config) {
			c.Secrets.Keys = []string{"k1:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("seal"), 8))}
			c.Executor.DrainTimeout, c.Executor.Scripts, c.Executor.MaxOutput = time.Second, scripts, maxKept
		}).up()
		for name, stop := range map[string]func(r *running, g ground){
			"what fails for good is replayed":             (*running).showReplay,
			"a signed call is verified":                   (*running).showSignature,
			"a run that logs is cancelled":                (*running).showCancelOfAHandler,
			"a call under way is cancelled":               (*running).showCancelOfACall,
			"a script under way is cancelled":             (*running).showCancelOfAScript,
			"a pending run is cancelled":                  (*running).showCancelOfAPendingRun,
			"effectively_once ends under its claim":       (*running).showEffectivelyOnce,
			"at_most_once is not tried again":             (*running).showAtMostOnce,
			"Retry-After is followed":                     (*running).showRetryAfter,
			"a final answer is final":                     (*running).showFinalAnswer,
			"attempts end, and a retry runs it again":     (*running).showRetry,
			"dead letters of a task are replayed at once": (*running).showReplayOfATask,
			"a dead letter is discarded":                  (*running).showDiscard,
			"jobs and workflows run on events":            (*running).showEvents,
			"runs are listed by filters":                  (*running).showLists,
			"a node tells how the cluster stands":         (*running).showStanding,
			"a worker tells how far it is":                (*running).showWorker,
			"a script of the list is run":                 (*running).showScript,
			"a script ends with all that it began":        (*running).showScriptOverTime,
			"long outputs are kept and cut":               (*running).showOutputs,
			"an output is read while the run goes on":     (*running).showOutputOfAnEarlierAttempt,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				stop(r.in(t).tourist(), g)
			})
		}
		for name, stop := range exampleStops {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				stop(r.in(t).tourist(), g)
			})
		}
	})
}

func (r *running) showReplay(ground) {
	t, c := r.t, r.client()
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
	if _, err := c.PutTask(t.Context(), "mail", request.TaskRequest{Work: work}); err != nil {
		t.Fatalf("PutTask = %v", err)
	}
	job, err := c.CreateJob(t.Context(), request.JobRequest{Key: uuid.NewString(), Task: "mail", Payload: json.RawMessage(`{"to":1}`)})
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
	if ids := r.listed("mail"); len(ids) != 1 || ids[0] != run {
		t.Errorf("dead letters = %v, want %s", ids, run)
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
	if l, err := c.DeadLetter(t.Context(), run); err != nil || l.State != "replayed" || l.Replay != replay.ID || len(r.listed("mail")) != 0 {
		t.Errorf("dead letter after its replay is %s as %s, %v; want replayed as %s, and none listed", l.State, l.Replay, err, replay.ID)
	}
}

func (r *running) showSignature(ground) {
	t, c := r.t, r.client()
	key, err := c.CreateSigningKey(t.Context(), request.SigningRequest{Name: "orders"})
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
	job := r.ask(request.JobRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: url, SigningKey: "orders"}}, Payload: json.RawMessage(payload)})
	if err := pass(t, "the call comes", verdicts); err != nil {
		t.Errorf("Verify of the call = %v", err)
	}
	r.awaitState(job.ID, schema.StateSucceeded)
}
