package node

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
)

// receiver counts the calls of each run.
type receiver struct {
	takes time.Duration

	mu sync.Mutex
	at map[string][]time.Time // by run
}

func newReceiver(takes time.Duration) *receiver {
	return &receiver{takes: takes, at: make(map[string][]time.Time)}
}

func (c *receiver) handle(_ http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	run := r.Header.Get("Idempotency-Key")
	c.at[run] = append(c.at[run], time.Now())
	c.mu.Unlock()
	time.Sleep(c.takes) // a callee that works
}

// runs returns how many runs were called.
func (c *receiver) runs() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.at)
}

// twice tells of the runs that were called more than once.
func (c *receiver) twice() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for run, at := range c.at {
		if len(at) > 1 {
			all = append(all, fmt.Sprintf("%s: %d calls, the second %v after the first", run, len(at), at[1].Sub(at[0])))
		}
	}
	return all
}

// backlog asks for n runs at once.
func (r *running) backlog(url string, n int) {
	r.t.Helper()
	c := r.client()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, err := c.CreateJob(r.t.Context(), request.JobRequest{
				Work: schema.Work{HTTP: &schema.HTTPTarget{URL: url}}, Payload: json.RawMessage(`1`),
			}); err != nil {
				r.t.Errorf("CreateJob = %v", err)
			}
		})
	}
	wg.Wait()
}

const backlogged = 100

// stopsOf returns how often a test stops nodes: once, or as CARILLON_STOPS says.
func stopsOf(t *testing.T) int {
	t.Helper()
	v := os.Getenv("CARILLON_STOPS")
	if v == "" {
		return 1
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("CARILLON_STOPS: %v", err)
	}
	return n
}

// carillon dev that is told to stop while runs wait, and started again after 3 to 30 s, calls none
// of them twice.
func TestAStopOfTheWholeSystemDoublesNothing(t *testing.T) {
	tries := stopsOf(t)
	for try := range tries {
		down := 5 * time.Second
		if tries > 1 {
			down = 3*time.Second + time.Duration(try)*27*time.Second/time.Duration(tries)
		}
		t.Run(down.String(), func(t *testing.T) {
			t.Parallel()
			log, dir, c := logOfTour(t), t.TempDir(), newReceiver(200*time.Millisecond)
			url := sink(t, c.handle)
			begin := func() *running {
				cfg := config.Default()
				cfg.Node.Name = "dev"
				return startWith(t, "dev", Embedded(cfg, Place{Dir: dir}, "test", slog.New(slog.DiscardHandler), prometheus.NewRegistry()), log, func(c *config.Config) {
					c.Executor.Slots = 4
				}).up().tourist()
			}
			first := begin()
			first.backlog(url, backlogged)
			await(t, "some runs were called", func() bool { return c.runs() > 20 })
			first.stop()
			time.Sleep(down)
			begin()
			await(t, "all runs were called", func() bool { return c.runs() == backlogged })
			time.Sleep(6 * time.Second)
			if twice := c.twice(); len(twice) > 0 {
				t.Errorf("%d runs were called twice: %v", len(twice), twice)
			}
		})
	}
}

// gossipPort returns a free port of the loopback interface.
func gossipPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// A node of a cluster that is told to stop while runs wait, and started again after 3 to 30 s, has
// none of them called twice: its shards go to others, who do not know what it has published, and
// come back.
func TestAStopOfOneNodeDoublesNothing(t *testing.T) {
	tries := stopsOf(t)
	if os.Getenv("CARILLON_STOPS") == "" {
		t.Skip("make stops runs it: the simulation stops nodes whenever tests run")
	}
	onBothGrounds(t, func(t *testing.T, g ground) {
		log := logOfTour(t)
		names, ports := []string{"a", "b", "c"}, make(map[string]string)
		for _, name := range names {
			ports[name] = gossipPort(t)
		}
		nodes := make(map[string]*running)
		begin := func(name string) {
			open := g.open(t, tourKeyspace+"_stops", name, log, ring.Member{Name: name, Incarnation: 1})
			open.Ring = func(shards int, api string) (Ring, error) {
				return ring.New(ring.Config{
					Name: name, Bind: ports[name], Seeds: []string{ports["a"], ports["b"], ports["c"]}, API: api,
					Roles: config.Default().Roles, Shards: shards, Logger: slog.New(slog.DiscardHandler),
				})
			}
			nodes[name] = startWith(t, name, open, log, func(c *config.Config) { c.Executor.Slots = 2 }).up().tourist()
		}
		for _, name := range names {
			begin(name)
		}
		await(t, "all know each other", func() bool {
			for _, n := range nodes {
				if len(n.node.Members().Dispatchers()) != len(names) {
					return false
				}
			}
			return true
		})
		for try := range tries {
			stopped := names[try%len(names)]
			down := 3*time.Second + time.Duration(rand.IntN(27*try+1))*time.Second/time.Duration(tries)
			c := newReceiver(time.Duration(100+rand.IntN(600)) * time.Millisecond)
			url := sink(t, c.handle)
			nodes[names[(try+1)%len(names)]].backlog(url, backlogged)
			await(t, "some runs were called", func() bool { return c.runs() > 20 })
			nodes[stopped].stop()
			time.Sleep(down)
			begin(stopped)
			await(t, "all runs were called", func() bool { return c.runs() == backlogged })
			time.Sleep(8 * time.Second)
			if twice := c.twice(); len(twice) > 0 {
				t.Errorf("try %d, %s was down for %v, calls of %v: %d runs were called twice: %v", try, stopped, down, c.takes, len(twice), twice)
			}
		}
	})
}
