package client

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
)

// The cluster of one node is shown as it is.
func TestClusterIsShown(t *testing.T) {
	api := clitest.StartNode(t)
	clitest.Await(t, "the node is ready, and has its shards", func() bool {
		c := clitest.Decode[httpapi.Cluster](t, clitest.Succeed(t, "cluster", "--api", api, "-o", "json").Stdout)
		return len(c.Members) == 1 && c.Members[0].Ready && len(c.Shards) > 0 && c.Store.OK && c.Queue.OK
	})
	shown := clitest.Succeed(t, "cluster", "--api", api).Stdout
	for _, want := range []string{"MEMBER", "test", "yes", "bucketer,dispatcher,executor", "store: well", "queue: well", "0 messages wait"} {
		if !strings.Contains(shown, want) {
			t.Errorf("cluster has no %q:\n%s", want, shown)
		}
	}
	if shards := clitest.Succeed(t, "cluster", "--api", api, "--shards").Stdout; !strings.Contains(shards, "DISPATCHED") || strings.Count(shards, "test") < 2 {
		t.Errorf("cluster --shards prints\n%s", shards)
	}
}

// What is wrong is said in lines of their own.
func TestClusterSaysWhatIsWrong(t *testing.T) {
	waiting, began := 120, httpapi.Time{Time: time.Now().Add(-26 * time.Hour)}
	c := httpapi.Cluster{
		Node: "n1",
		Members: []httpapi.Member{
			{
				Name: "n1", Roles: []string{"bucketer", "dispatcher", "executor"}, Ready: true, Version: "v1", Slots: &httpapi.Slots{Total: 100, Used: 7}, StartedAt: began,
				Checks: []httpapi.Check{{Name: "store", OK: true}, {Name: "clock", OK: true, Message: "unchecked: no other host"}},
			},
			{Name: "n2", Roles: []string{"dispatcher"}, Unhealthy: true, Checks: []httpapi.Check{{Name: "answer", Message: "no answer within 1s\x1b[31m"}}},
		},
		Shards: []httpapi.Shard{{Shard: 0, Owner: "n1", BehindSeconds: 60}, {Shard: 1, Owner: "n2", BehindSeconds: 600}, {Shard: 2}},
		Store:  httpapi.ClusterHealth{OK: true, Hosts: []httpapi.Host{{Name: "10.0.0.1", Up: true}, {Name: "10.0.0.2", Message: "refused"}}},
		Queue:  httpapi.QueueHealth{ClusterHealth: httpapi.ClusterHealth{OK: true}, Waiting: &waiting},
		Lost:   []httpapi.Lost{{Name: "n3", Since: httpapi.Time{Time: time.Now().Add(-10*time.Minute - 10*time.Millisecond)}}},
	}
	c.Members[0].Waiting = []httpapi.WaitingRuns{
		{Tenant: "a", Task: "report", Reason: "breaker", Runs: 560, More: true, Oldest: httpapi.Time{Time: time.Now().Add(-77*time.Second - 10*time.Millisecond)}},
		{Tenant: "a", Job: "x", Reason: "breaker", Runs: 3, Oldest: httpapi.Time{Time: time.Now().Add(-5 * time.Second)}},
	}
	wantCluster(t, c,
		"MEMBER READY ROLES SLOTS SHARDS BEHIND UP VERSION",
		"n1 yes bucketer,dispatcher,executor 7 of 100 1 no 26h v1",
		"n2 NO dispatcher - 1 10m - -",
		"",
		"n1: clock: unchecked: no other host",
		`n2: no answer within 1s\u001b[31m`,
		"n2: it dispatches nothing: others have its shards",
		"n3: LOST: it went without a word 10m ago and is not back",
		"shards without an owner: 1",
		"store: 10.0.0.2 does not answer: refused",
		"store: 1 of 2 hosts answer",
		"queue: well",
		"queue: 120 messages wait for an executor",
		"runs that are due and wait: breaker, their target failed again and again (carillon target list): 563 or more, the oldest for 1m17s",
	)
}

// TestClusterWithoutNATS: it said that other nodes had the shards, of every node, and that the node
// which could not be asked was not ready.
func TestClusterWithoutNATS(t *testing.T) {
	roles := []string{"bucketer", "executor"} // who is unhealthy lays that of a dispatcher down
	why := "unhealthy, others take its shards if they are well: publish: no answer\npublish: no answer"
	wantCluster(t, httpapi.Cluster{
		Node: "n1",
		Members: []httpapi.Member{
			{Name: "n1", Roles: roles, Unhealthy: true, Checks: []httpapi.Check{{Name: "queue", Message: "nats: RECONNECTING"}, {Name: "dispatcher", OK: true, Message: why}}},
			{Name: "n2", Roles: roles, Unhealthy: true, Checks: []httpapi.Check{{Name: "answer", Message: "n1, which was asked, does not reach NATS: how others stand is not known"}}},
		},
		Shards: []httpapi.Shard{{Shard: 0, Owner: "n1"}, {Shard: 1, Owner: "n2"}},
		Store:  httpapi.ClusterHealth{OK: true},
		Queue:  httpapi.QueueHealth{ClusterHealth: httpapi.ClusterHealth{Message: "nats: RECONNECTING"}},
	},
		"MEMBER READY ROLES SLOTS SHARDS BEHIND UP VERSION",
		"n1 NO bucketer,executor - 1 no - -",
		"n2 ? bucketer,executor - 1 no - -",
		"",
		"n1: queue: nats: RECONNECTING",
		"n1: dispatcher: unhealthy, others take its shards if they are well: publish: no answer publish: no answer",
		"n1: it dispatches nothing, and keeps its shards: no dispatcher is healthy",
		"n2: n1, which was asked, does not reach NATS: how others stand is not known",
		"n2: it dispatches nothing, and keeps its shards: no dispatcher is healthy",
		"store: well",
		"queue: NOT WELL: nats: RECONNECTING",
	)
}

// TestClusterOfANodeThatDoesNotAnswer: it waited for a frozen node, again and again.
func TestClusterOfANodeThatDoesNotAnswer(t *testing.T) {
	was := clusterWithin
	clusterWithin = 100 * time.Millisecond
	t.Cleanup(func() { clusterWithin = was })
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(api.Close)
	got := clitest.Run(t.Context(), "", "cluster", "--api", api.URL)
	if want := "no answer within 100ms: the node is frozen, or cut off"; got.Code == 0 || !strings.Contains(got.Stderr, want) {
		t.Errorf("of a frozen node it says %q, want %q", got.Stderr, want)
	}
}

// wantCluster compares what is shown of a cluster with lines whose cells stand apart by one blank.
func wantCluster(t *testing.T, c httpapi.Cluster, want ...string) {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(c)
	}))
	t.Cleanup(api.Close)
	wantTable(t, "cluster", clitest.Succeed(t, "cluster", "--api", api.URL).Stdout, want...)
}
