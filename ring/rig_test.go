package ring

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"carillon.dev/carillon/schema"
)

const (
	testShards = 64
	testKey    = Key("MDEyMzQ1Njc4OWFiY2RlZg==")
	otherKey   = Key("ZmVkY2JhOTg3NjU0MzIxMA==")
)

// cluster is some rings on one network, in a bubble.
type cluster struct {
	t       *testing.T
	network *network
	nodes   map[string]*node
}

type node struct {
	*Ring
	addr string
	stop func() // ends Run and waits for it
}

// inBubble runs a test in fake time, and stops all its nodes at the end.
func inBubble(t *testing.T, test func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, network: newNetwork(t), nodes: map[string]*node{}}
		defer func() {
			for _, n := range c.nodes {
				n.stop()
			}
			// memberlist does not wait for the streams it serves; their deadlines end them
			time.Sleep(time.Minute)
		}()
		test(t, c)
	})
}

func addrOf(name string) string { return fmt.Sprintf("10.0.0.%d:7946", name[0]-'a'+1) }

// configure returns the configuration of the node called name, a letter, with a, b and c as seeds.
func (c *cluster) configure(name string) Config {
	return Config{
		Name: name, Bind: addrOf(name), Key: testKey, Shards: testShards,
		Seeds:  []string{addrOf("a"), addrOf("b"), addrOf("c")},
		Roles:  []string{RoleExecutor, RoleDispatcher},
		Logger: slog.New(slog.DiscardHandler),
	}
}

func (c *cluster) start(config Config) *node {
	c.t.Helper()
	config.transport = c.network.listen(config.Bind)
	r, err := New(config)
	if err != nil {
		c.t.Fatalf("New(%s) = %v", config.Name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	n := &node{Ring: r, addr: config.Bind}
	stopped := false
	n.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			c.t.Errorf("Run of %s = %v, want nil", config.Name, err)
		}
	}
	c.nodes[config.Bind] = n
	return n
}

func (c *cluster) startAll(names ...string) []*node {
	c.t.Helper()
	var nodes []*node
	for _, name := range names {
		nodes = append(nodes, c.start(c.configure(name)))
	}
	c.await("all see all", 30*time.Second, func() bool { return allSee(nodes, names...) })
	return nodes
}

// await lets fake time pass until ok, and returns how much did.
func (c *cluster) await(what string, limit time.Duration, ok func() bool) time.Duration {
	c.t.Helper()
	start := time.Now()
	for {
		synctest.Wait()
		if ok() {
			return time.Since(start)
		}
		if time.Since(start) >= limit {
			for addr, n := range c.nodes {
				c.t.Logf("%s at %s sees %v, gone %v", n.config.Name, addr, nameList(n.Snapshot().Members()), n.Snapshot().gone)
			}
			c.t.Fatalf("waited for %q: not within %v", what, limit)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// sees tells whether n's view has exactly these members.
func sees(n *node, names ...string) bool {
	return slices.Equal(nameList(n.Snapshot().Members()), names)
}

func allSee(nodes []*node, names ...string) bool {
	return !slices.ContainsFunc(nodes, func(n *node) bool { return !sees(n, names...) })
}

// checkAgree checks that the nodes share all shards among them, and agree how.
func checkAgree(t *testing.T, nodes ...*node) {
	t.Helper()
	total := 0
	for _, n := range nodes {
		total += len(n.Snapshot().Owned(n.config.Name))
		for shard := range schema.Shard(testShards) {
			mine, ok := n.Snapshot().Owner(shard)
			other, _ := nodes[0].Snapshot().Owner(shard)
			if !ok || mine.Name != other.Name {
				t.Fatalf("Owner(%d) = %q, %t at %s and %q at %s; want the same", shard, mine.Name, ok, n.config.Name, other.Name, nodes[0].config.Name)
			}
		}
	}
	if total != testShards {
		t.Errorf("the nodes own %d shards, want %d", total, testShards)
	}
}

func closedNow(c <-chan struct{}) bool {
	synctest.Wait()
	return closed(c)
}

// value reads a counter or gauge.
func value(m prometheus.Metric) float64 {
	var read dto.Metric
	if err := m.Write(&read); err != nil {
		panic(err)
	}
	return read.GetCounter().GetValue() + read.GetGauge().GetValue()
}
