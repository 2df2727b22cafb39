package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/dispatcher/queue/inproc"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
	pebble "carillon.dev/carillon/schema/embedded"
)

func TestMain(m *testing.M) {
	// Of a session of gocql that was closed, as the tests of schema/cassandra say.
	goleak.VerifyTestMain(cluster.Main(m), goleak.IgnoreAnyFunction("github.com/gocql/gocql.(*Conn).awaitSchemaAgreement"))
}

// patience bounds the waits of a test; a test that passes never uses it up.
const patience = time.Minute

// world is shared by the nodes of a test: one store, one queue, and a ring of fixed members.
type world struct {
	store   *pebble.Store
	broker  *inproc.Broker
	members []ring.Member
	offset  atomic.Int64 // of the clocks of store and queue, ns
	conns   sync.Map     // name → *inproc.Conn
}

func newWorld(t *testing.T, names ...string) *world {
	t.Helper()
	store, err := pebble.Open(pebble.Config{Shards: 8})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{store: store, broker: inproc.New(inproc.Config{})}
	for i, name := range names {
		w.members = append(w.members, ring.Member{Name: name, Incarnation: uint64(i) + 1, Roles: config.Default().Roles})
	}
	t.Cleanup(func() {
		w.broker.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// worldStore is the store as one node has it: it outlives the node, and its clock can be off.
type worldStore struct {
	schema.Store
	w *world
}

func (worldStore) Close() error { return nil }

func (s worldStore) Time(ctx context.Context) (time.Time, error) {
	t, err := s.Store.Time(ctx)
	return t.Add(time.Duration(s.w.offset.Load())), err
}

// Clocks are those of a host of its own.
func (s worldStore) Clocks() []schema.HostClock {
	return []schema.HostClock{{Host: "198.51.100.1", Time: s.Time}}
}

type worldQueue struct {
	*inproc.Conn
	w *world
}

func (q worldQueue) Time(ctx context.Context) (time.Time, error) {
	t, err := q.Conn.Time(ctx)
	return t.Add(time.Duration(q.w.offset.Load())), err
}

// Clocks are those of a host of its own.
func (q worldQueue) Clocks() []schema.HostClock {
	return []schema.HostClock{{Host: "198.51.100.2", Time: q.Time}}
}

func (w *world) opener(name string) Opener {
	return Opener{
		Store: func(context.Context) (schema.Store, error) { return worldStore{w.store, w}, nil },
		Queue: func(context.Context) (Queue, error) {
			c := w.broker.Connect(name)
			w.conns.Store(name, c)
			return worldQueue{c, w}, nil
		},
		Ring: func(shards int, _ string) (Ring, error) {
			r, err := ring.Static(w.members, shards)
			return fixedRing{r}, err
		},
	}
}

// conn returns the connection of a node to the queue.
func (w *world) conn(t *testing.T, name string) *inproc.Conn {
	t.Helper()
	c, ok := w.conns.Load(name)
	if !ok {
		t.Fatalf("node %s has no queue", name)
	}
	return c.(*inproc.Conn)
}

// running is a node that runs until stop, or the end of the test.
type running struct {
	t      *testing.T
	node   *Node
	url    string
	tenant string // that its clients speak for unless they say another, "" = the default one
	ready  chan string
	ended  chan error
	end    context.CancelFunc
	once   sync.Once
}

// start runs a node.
func start(t *testing.T, name string, open Opener, log *slog.Logger) *running {
	t.Helper()
	return startWith(t, name, open, log, func(*config.Config) {})
}

// startWith runs a node whose configuration is changed.
func startWith(t *testing.T, name string, open Opener, log *slog.Logger, change func(*config.Config), options ...func(*Options)) *running {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Node.Name = name
	cfg.Executor.AllowCIDRs = []string{"127.0.0.0/8"}
	change(&cfg)
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, url: "http://" + l.Addr().String(), ready: make(chan string, 1), ended: make(chan error, 1), end: cancel}
	opts := Options{
		Opener: open, Version: "test", Logger: log, Listener: l.(*net.TCPListener), Ready: func(api string) { r.ready <- api },
	}
	for _, f := range options {
		f(&opts)
	}
	n := New(cfg, opts)
	r.node = n
	go func() { r.ended <- n.Run(ctx) }()
	t.Cleanup(r.stop)
	return r
}

// up waits until the node serves.
func (r *running) up() *running {
	r.t.Helper()
	select {
	case <-r.ready:
	case err := <-r.ended:
		r.ended <- err
		r.t.Fatalf("the node ended before it was up: %v", err)
	case <-time.After(patience):
		r.t.Fatal("the node does not come up")
	}
	return r
}

// stop tells the node to stop and waits for it.
func (r *running) stop() {
	r.once.Do(func() {
		r.end()
		select {
		case err := <-r.ended:
			if err != nil {
				r.t.Errorf("Run of a node that is told to stop = %v, want nil", err)
			}
		case <-time.After(patience):
			r.t.Error("the node does not stop")
		}
	})
}

// get returns status and body of a GET on a connection of its own.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	status, body, err := fetch(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return status, body
}

func fetch(ctx context.Context, url string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", fmt.Errorf("make request: %w", err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", fmt.Errorf("get: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// await polls until ok holds.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("it does not come about that %s", what)
		}
	}
}

// client returns a client of the node that retries temporary refusals: on a busy machine a node may
// think that its process was frozen.
func (r *running) client() *httpapi.Client {
	r.t.Helper()
	return r.clientOf(httpapi.ClientConfig{Retries: 100, MaxWait: 500 * time.Millisecond})
}

func (r *running) clientOf(c httpapi.ClientConfig) *httpapi.Client {
	r.t.Helper()
	c.URLs, c.Tenant = []string{r.url}, cmp.Or(c.Tenant, r.tenant)
	client, err := httpapi.NewClient(c)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(client.Close)
	return client
}

// create makes a job that calls url, due at an instant (zero: now).
func (r *running) create(url string, at time.Time) httpapi.Job {
	r.t.Helper()
	job := request.JobRequest{Key: uuid.NewString(), Work: schema.Work{HTTP: &schema.HTTPTarget{URL: url}}, Payload: json.RawMessage(`1`)}
	if !at.IsZero() {
		job.Schedule = &request.Schedule{At: at}
	}
	made, err := r.client().CreateJob(r.t.Context(), job)
	if err != nil {
		r.t.Fatalf("CreateJob = %v", err)
	}
	return made
}

// awaitState waits until a run has a state, and returns it.
func (r *running) awaitState(id schema.JobID, want schema.State) (run httpapi.Run) {
	r.t.Helper()
	c := r.client()
	await(r.t, fmt.Sprintf("run %s is %s", id, want), func() bool {
		var err error
		if run, err = c.Run(r.t.Context(), schema.RunID(id)); err != nil {
			r.t.Fatal(err)
		}
		return run.State == want
	})
	return run
}

// sink receives calls.
func sink(t *testing.T, handle func(w http.ResponseWriter, r *http.Request)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(handle))
	t.Cleanup(s.Close)
	return s.URL
}

// listener is a log that signals when a message is logged.
type listener struct {
	slog.Handler
	message string
	heard   chan struct{}
}

func listenFor(message string) (*slog.Logger, <-chan struct{}) {
	l := &listener{Handler: slog.DiscardHandler, message: message, heard: make(chan struct{}, 64)}
	return slog.New(l), l.heard
}

func (*listener) Enabled(context.Context, slog.Level) bool { return true }

func (l *listener) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *listener) WithGroup(string) slog.Handler { return l }

func (l *listener) Handle(_ context.Context, r slog.Record) error {
	if r.Message == l.message {
		select {
		case l.heard <- struct{}{}:
		default:
		}
	}
	return nil
}

var errBroken = errors.New("broken")
