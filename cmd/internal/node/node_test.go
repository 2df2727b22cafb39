package node

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
)

func TestReadyHasALineForEveryDependency(t *testing.T) {
	w := newWorld(t, "a")
	r := start(t, "a", w.opener("a"), nil).up()
	await(t, "the node is ready", func() bool { status, _ := get(t, r.url+"/readyz"); return status == 200 })
	if _, body := get(t, r.url+"/readyz"); body != "store: ok\nqueue: ok\nring: ok\nclock: ok\nprocess: ok\nsettings: ok\n" {
		t.Errorf("/readyz of a node that is well:\n%s", body)
	}
	w.conn(t, "a").Cut()
	await(t, "the queue is not ready", func() bool {
		status, body := get(t, r.url+"/readyz")
		return status == 503 && strings.Contains(body, "store: ok\n") && !strings.Contains(body, "queue: ok\n")
	})
	w.conn(t, "a").Heal()
	await(t, "the node is ready again", func() bool { status, _ := get(t, r.url+"/readyz"); return status == 200 })
}

func TestNodeWhoseClockIsOffRefusesWritesAndIsNotReady(t *testing.T) {
	w := newWorld(t, "a")
	w.offset.Store(int64(time.Hour))
	r := start(t, "a", w.opener("a"), nil).up()
	status, body := get(t, r.url+"/readyz")
	if status != 503 || !strings.Contains(body, "clock: the clock is off by -1h0m0s") || !strings.Contains(body, "process: ok\n") {
		t.Errorf("/readyz of a node whose clock is off: %d\n%swant 503, because of the clock and nothing else but what follows from it", status, body)
	}
	job := request.JobRequest{Work: schema.Work{NATS: &schema.NATSTarget{Subject: "a"}}}
	var p *httpapi.Problem
	once := r.clientOf(httpapi.ClientConfig{Retries: -1})
	if _, err := once.CreateJob(t.Context(), job); !errors.As(err, &p) || p.Kind() != "not-ready" {
		t.Errorf("CreateJob on a node whose clock is off = %v, want not-ready", err)
	}
	w.offset.Store(0)
	await(t, "the node is ready", func() bool { status, _ := get(t, r.url+"/readyz"); return status == 200 })
	if _, err := r.client().CreateJob(t.Context(), job); err != nil {
		t.Errorf("CreateJob since the clock is right again = %v", err)
	}
}

func TestTwoNodesInOneProcessShareTheWork(t *testing.T) {
	w := newWorld(t, "a", "b")
	const slots = 8
	few := func(c *config.Config) { c.Executor.Slots = slots }
	nodes := []*running{startWith(t, "a", w.opener("a"), nil, few).up(), startWith(t, "b", w.opener("b"), nil, few).up()}
	var mu sync.Mutex
	called := map[string]int{}
	both := make(chan struct{})
	var once sync.Once
	url := sink(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		called[r.Header.Get("Carillon-Run-Id")]++
		if len(called) > slots {
			once.Do(func() { close(both) })
		}
		mu.Unlock()
		// nothing ends before more are under way than one node can have, and one cannot hold all
		// the rest either
		<-both
	})
	var jobs []httpapi.Job
	for i := range 40 {
		jobs = append(jobs, nodes[i%2].create(url, time.Time{}))
	}
	executors := map[string]int{}
	for i, job := range jobs {
		run := nodes[(i/2)%2].awaitState(job.ID, schema.StateSucceeded)
		executors[run.Attempts[0].Executor]++
	}
	if executors["a"] == 0 || executors["b"] == 0 {
		t.Errorf("runs by executor: %v, want some for each", executors)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(called) != len(jobs) {
		t.Errorf("%d runs were called, want %d", len(called), len(jobs))
	}
	for _, r := range nodes {
		c, err := r.client().Cluster(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		owners := map[string]int{}
		for _, s := range c.Shards {
			owners[s.Owner]++
		}
		if len(c.Members) != 2 || len(c.Shards) != 8 || owners["a"] == 0 || owners["b"] == 0 || owners["a"]+owners["b"] != 8 {
			t.Errorf("Cluster by %s: %d members, shards by owner %v, want 2 members that share 8 shards", c.Node, len(c.Members), owners)
		}
	}
}

// Attempts under way when the node is told to stop end and are recorded.
func TestStopDrainsTheExecutor(t *testing.T) {
	w := newWorld(t, "a")
	log, stopping := listenFor("node is stopping")
	r := start(t, "a", w.opener("a"), log).up()
	called, release := make(chan struct{}, 8), make(chan struct{})
	url := sink(t, func(http.ResponseWriter, *http.Request) {
		called <- struct{}{}
		<-release
	})
	finish := sync.OnceFunc(func() { close(release) })
	t.Cleanup(finish) // before the sink is closed, whatever fails
	job := r.create(url, time.Time{})
	<-called
	r.end()
	<-stopping
	select {
	case err := <-r.ended:
		t.Fatalf("Run = %v while an attempt is under way, want that it waits", err)
	default:
	}
	finish()
	r.stop()

	after := start(t, "a", w.opener("a"), nil).up()
	run := after.awaitState(job.ID, schema.StateSucceeded)
	for _, a := range run.Attempts {
		if a.Outcome != schema.Succeeded {
			t.Errorf("attempt of the run: %+v, want that it was brought to its end", a)
		}
	}
}

func TestRestartOnTheSameFolderRunsWhatWasAccepted(t *testing.T) {
	dir := t.TempDir()
	embedded := func() Opener {
		cfg := config.Default()
		cfg.Node.Name = "dev"
		return Embedded(cfg, Place{Dir: dir}, "test", slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	}
	called := make(chan string, 8)
	url := sink(t, func(_ http.ResponseWriter, r *http.Request) { called <- r.Header.Get("Carillon-Run-Id") })
	before := start(t, "dev", embedded(), nil).up()
	due := time.Now().Add(2 * time.Second)
	job := before.create(url, due)
	before.stop()
	select {
	case id := <-called:
		if time.Now().Before(due) {
			t.Fatalf("run %s started before it was due", id)
		}
		t.Skip("stopping took longer than the job was away: nothing was left for the second node")
	default:
	}
	after := start(t, "dev", embedded(), nil).up()
	after.awaitState(job.ID, schema.StateSucceeded)
	if id := <-called; id != job.ID.String() {
		t.Errorf("the call was for run %s, want %s", id, job.ID)
	}
	if now := time.Now(); now.Before(due) {
		t.Errorf("the run started %v before it was due", due.Sub(now))
	}
}

// A node of a cluster retries servers that it cannot reach.
func TestClusterWaitsForCassandra(t *testing.T) {
	cfg := config.Default()
	cfg.Node.Name = "a"
	cfg.Cassandra.Hosts = []string{"127.0.0.1:1"} // nobody listens there
	log, heard := listenFor("cassandra is not usable yet: retrying")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := Cluster(cfg, "test", log, prometheus.NewRegistry()).Store(ctx)
		ended <- err
	}()
	for range 2 {
		select {
		case <-heard:
		case err := <-ended:
			t.Fatalf("Store = %v while Cassandra cannot be reached, want that it waits", err)
		case <-time.After(patience):
			t.Fatal("nothing is said of Cassandra")
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Store since it was told to stop = %v, want context.Canceled", err)
	}
}

func TestCassandraHostsShareAPort(t *testing.T) {
	for name, row := range map[string]struct {
		hosts []string
		port  int
		ok    bool
	}{
		"no port":         {[]string{"a", "b"}, 0, true},
		"one port":        {[]string{"a:9043", "b:9043"}, 9043, true},
		"two ports":       {[]string{"a:9043", "b:9044"}, 0, false},
		"port of letters": {[]string{"a:cql"}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Default()
			cfg.Cassandra.Hosts = row.hosts
			cc, err := CassandraConfig(cfg, nil, nil)
			if (err == nil) != row.ok || row.ok && (cc.Port != row.port || len(cc.Hosts) != len(row.hosts)) {
				t.Errorf("CassandraConfig(%v) = %v port %d, %v; want port %d, ok: %t", row.hosts, cc.Hosts, cc.Port, err, row.port, row.ok)
			}
		})
	}
}
