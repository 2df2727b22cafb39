package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/dispatcher/queue/jetstream"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/cassandra"
)

// wellConfig is a configuration without a finding worse than info.
func wellConfig() config.Config {
	c := config.Default()
	c.Node.Name = "a"
	c.API.Listen, c.API.CursorKey = "10.0.0.1:8080", "0123456789abcdef"
	c.Ring.Listen, c.Ring.Seeds, c.Ring.Key = "10.0.0.1:7946", []string{"b:7946"}, "MDEyMzQ1Njc4OWFiY2RlZg=="
	c.Cassandra.Hosts, c.NATS.URLs = []string{"10.0.0.2"}, []string{"nats://10.0.0.3:4222"}
	c.Secrets.Keys = []string{"k1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}
	return c
}

// wellCluster is what a node of a cluster of two says.
func wellCluster(asked string) httpapi.Cluster {
	c := httpapi.Cluster{Node: asked, Version: "v1", Store: httpapi.ClusterHealth{OK: true}, Queue: httpapi.QueueHealth{ClusterHealth: httpapi.ClusterHealth{OK: true}}}
	for _, name := range []string{"a", "b"} {
		c.Members = append(c.Members, httpapi.Member{
			Name: name, Version: "v1", Ready: true, Roles: []string{"bucketer", "dispatcher", "executor"}, Checks: []httpapi.Check{{Name: "store", OK: true}},
		})
	}
	c.Shards = []httpapi.Shard{{Shard: 0, Owner: "a"}, {Shard: 1, Owner: "b"}}
	return c
}

// wellFacts are those of an installation of which nothing is to be said.
func wellFacts() *Facts {
	clocks := func(part string) (all []ClockReading) {
		for i := range 3 {
			all = append(all, ClockReading{Host: fmt.Sprintf("%s %d", part, i), Offset: time.Duration(i) * time.Millisecond, Margin: time.Millisecond})
		}
		return all
	}
	metrics := []byte("carillon_executor_noop 0\ncarillon_config_reload_ok 1\ncarillon_config_restart_needed 0\ncarillon_executor_targets_broken 0\n")
	return &Facts{
		Version: "v1", At: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC), Configured: true, Config: wellConfig(), Key: true,
		Store: &StoreFacts{
			Seen: cassandra.Examination{
				Version: "5.0.6", Datacenter: "dc1", Settings: map[string]string{"commitlog_sync": "group", "max_hint_window": "3h"},
				Replication: map[string]string{"dc1": "3"}, Copies: 3, Nodes: 3, Grace: map[string]time.Duration{"runs": 4 * time.Hour}, Migrations: []string{"0001_initial"},
			},
			Clocks: clocks("cassandra"), AdminKeys: 1, SealedWith: map[string]int{"k1": 2},
		},
		Queue: &QueueFacts{
			Seen: jetstream.Examination{
				URL: "nats://10.0.0.3:4222", Version: "2.15", Cluster: "n", Use: jetstream.Use{Storage: 1, StorageLimit: 100},
				Streams: []jetstream.StreamState{{Name: "CARILLON_0", Replicas: 3, Wanted: 3, Leader: "x", MaxBytes: 100}},
			},
			Clocks: clocks("nats"),
		},
		Nodes: []NodeFacts{{Base: "http://a", Name: "a", Cluster: wellCluster("a"), Metrics: metrics}, {Base: "http://b", Name: "b", Cluster: wellCluster("b"), Metrics: metrics}},
		Disks: []DiskFacts{{Dir: "/d", Free: 50, Total: 100}},
	}
}

func TestNothingIsFoundWhereAllIsWell(t *testing.T) {
	r := newReport(wellFacts(), wellFacts().judge(), hider{})
	for _, f := range r.Findings {
		if f.Severity != OK {
			t.Errorf("finding %+v of an installation that is well", f)
		}
	}
	if err := r.outcome(); err != nil || len(r.Findings) < 15 {
		t.Errorf("outcome %v of %d findings, want nil of at least 15", err, len(r.Findings))
	}
}

// Each fault is found under its name, and nothing else is.
func TestEachFaultIsFound(t *testing.T) {
	stale, fresh := 20.0, 1.0
	for name, row := range map[string]struct {
		break_   func(f *Facts)
		severity Severity
		check    string
		what     string // part of it
	}{
		"no configuration":      {func(f *Facts) { f.Configured, f.Store, f.Queue = false, nil, nil }, Info, "config", "no configuration"},
		"bad configuration":     {func(f *Facts) { f.ConfigErr = errors.New("roles: names no role\nread were: x") }, Error, "config", "roles: names no role"},
		"ring without key":      {func(f *Facts) { f.Config.Ring.Key = "" }, Error, "keys.ring", "ring.key"},
		"open API":              {func(f *Facts) { f.Config.API.Auth = config.AuthNone }, Error, "keys.api", "api.auth"},
		"no cursor key":         {func(f *Facts) { f.Config.API.CursorKey = "" }, Warning, "keys.cursor", "cursor_key"},
		"password in the clear": {func(f *Facts) { f.Config.Cassandra.Username, f.Config.Cassandra.Password = "u", "p" }, Warning, "config.tls", "cassandra.tls"},
		"token in the clear":    {func(f *Facts) { f.Config.NATS.URLs = []string{"nats://tok@10.0.0.3:4222"} }, Warning, "config.tls", "nats.tls"},
		"every address":         {func(f *Facts) { f.Config.Executor.AllowCIDRs = []string{"0.0.0.0/0"} }, Warning, "config.allow_cidrs", "0.0.0.0/0"},
		"metadata service":      {func(f *Facts) { f.Config.Executor.AllowCIDRs = []string{"169.254.0.0/16"} }, Warning, "config.allow_cidrs", "169.254"},
		"noop":                  {func(f *Facts) { f.Config.Executor.Noop = true }, Error, "config.noop", "noop"},
		"no CA":                 {func(f *Facts) { f.Config.Cassandra.TLS = config.TLS{Enabled: true, CA: "/no/such/file"} }, Error, "certificates", "cassandra.tls.ca"},

		"no Cassandra":           {func(f *Facts) { f.Store = &StoreFacts{Err: errors.New("refused")} }, Error, "cassandra.reachable", "refused"},
		"no keyspace":            {func(f *Facts) { f.Store = &StoreFacts{Err: cassandra.ErrNotMigrated} }, Error, "cassandra.reachable", ""},
		"periodic":               {func(f *Facts) { f.Store.Seen.Settings["commitlog_sync"] = "periodic" }, Warning, "cassandra.commitlog_sync", "periodic"},
		"may not read":           {func(f *Facts) { f.Store.Seen.Unread = []error{errors.New("unauthorized")} }, Warning, "cassandra.read", "unauthorized"},
		"setting":                {func(f *Facts) { f.Store.Seen.Warnings = []string{"paxos_variant is v1"} }, Warning, "cassandra.settings", "paxos_variant"},
		"two centres":            {func(f *Facts) { f.Store.Seen.Fault = cassandra.ErrReplication }, Error, "cassandra.settings", ""},
		"one node silent":        {func(f *Facts) { f.Store.Clocks[2].Err = errors.New("x") }, Warning, "cassandra.nodes", "1 of 3"},
		"two nodes silent":       {func(f *Facts) { f.Store.Clocks[1].Err, f.Store.Clocks[2].Err = errors.New("x"), errors.New("x") }, Error, "cassandra.nodes", "2 of 3"},
		"more copies than nodes": {func(f *Facts) { f.Store.Seen.Nodes = 2 }, Error, "cassandra.replication", "3 copies"},
		"one copy":               {func(f *Facts) { f.Store.Seen.Copies = 1 }, Warning, "cassandra.replication", "each row: 1"},
		"short grace":            {func(f *Facts) { f.Store.Seen.Grace["leases"] = time.Hour }, Warning, "cassandra.gc_grace", "leases"},
		"long hints":             {func(f *Facts) { f.Store.Seen.Settings["max_hint_window"] = "6h" }, Warning, "cassandra.gc_grace", "runs"},
		"not migrated":           {func(f *Facts) { f.Store.Seen.NotMigrated = cassandra.ErrNotMigrated }, Error, "cassandra.schema", ""},
		"newer":                  {func(f *Facts) { f.Store.Seen.NotMigrated = cassandra.ErrNewer }, Error, "cassandra.schema", ""},
		"no admin":               {func(f *Facts) { f.Store.AdminKeys = 0 }, Warning, "keys.admin", "no valid key"},
		"lost secrets key":       {func(f *Facts) { f.Store.SealedWith["k0"] = 3 }, Error, "keys.secrets", "3 secrets are encrypted with key k0"},
		"regions' keyspace":      {func(f *Facts) { f.Store.Shared = cassandra.ErrReplication }, Error, "regions.keyspace", ""},

		"no NATS":                {func(f *Facts) { f.Queue = &QueueFacts{Err: errors.New("refused")} }, Error, "nats.reachable", "refused"},
		"JetStream off":          {func(f *Facts) { f.Queue.Seen.JetStream = errors.New("no responders") }, Error, "nats.jetstream", "no responders"},
		"no stream":              {func(f *Facts) { f.Queue.Seen.Streams[0].Err = jetstream.ErrNoStream }, Warning, "nats.streams", "CARILLON_0"},
		"stream broken":          {func(f *Facts) { f.Queue.Seen.Streams[0].Err = errors.New("timeout") }, Error, "nats.streams", "timeout"},
		"one replica":            {func(f *Facts) { f.Queue.Seen.Streams[0].Replicas = 1 }, Warning, "nats.replicas", "1 replicas, 3 are wanted"},
		"replica behind":         {func(f *Facts) { f.Queue.Seen.Streams[0].Behind = []string{"n2"} }, Warning, "nats.replicas", "n2"},
		"stream full":            {func(f *Facts) { f.Queue.Seen.Streams[0].Bytes = 80 }, Warning, "nats.storage", "80 B of 100 B"},
		"account full":           {func(f *Facts) { f.Queue.Seen.Use.Storage = 99 }, Warning, "nats.storage", "99 B of 100 B"},
		"server alone":           {func(f *Facts) { f.Queue.Seen.Cluster = "" }, Warning, "nats.replicas", "in no cluster"},
		"server's JetStream off": {func(f *Facts) { f.Queue.Monitors = []MonitorFacts{{Name: "n1"}} }, Error, "nats.jetstream", "n1"},
		"server full": {func(f *Facts) {
			f.Queue.Monitors = []MonitorFacts{{Name: "n1", On: true, Always: true, Used: 9, Limit: 10}}
		}, Warning, "nats.storage", "n1"},
		"server syncs later": {func(f *Facts) { f.Queue.Monitors = []MonitorFacts{{Name: "n1", On: true, Sync: 2 * time.Minute}} }, Info, "nats.sync_interval", "2m0s"},

		"clock off":       {func(f *Facts) { f.Store.Clocks[1].Offset = 3 * time.Second }, Error, "clocks", "cassandra 1"},
		"clock a bit off": {func(f *Facts) { f.Queue.Clocks[1].Offset = -700 * time.Millisecond }, Warning, "clocks", "nats 1"},
		"own clock off": {func(f *Facts) {
			for _, all := range [][]ClockReading{f.Store.Clocks, f.Queue.Clocks} {
				for i := range all {
					all[i].Offset += 5 * time.Second
				}
			}
		}, Warning, "clocks", "this machine"},

		"node silent": {func(f *Facts) { f.Nodes[1].Err = errors.New("refused") }, Warning, "nodes.reachable", "b: refused"},
		"no node":     {func(f *Facts) { f.Nodes = []NodeFacts{{Base: "http://a", Err: errors.New("refused")}} }, Error, "nodes.reachable", "http://a"},
		"key refused": {func(f *Facts) {
			f.Nodes[1].Err = fmt.Errorf("get: %w", &httpapi.Problem{Status: 401, Title: "Unauthorized"})
		}, Warning, "nodes.key", "401"},
		"not ready": {func(f *Facts) {
			f.Nodes[0].Cluster.Members[1].Checks[0] = httpapi.Check{Name: "store", Message: "gone"}
			f.Nodes[0].Cluster.Members[1].Ready = false
		}, Error, "nodes.ready", "b: store: gone"},
		"unhealthy": {func(f *Facts) { f.Nodes[0].Cluster.Members[1].Unhealthy = true }, Error, "nodes.unhealthy", "b"},
		"no healthy dispatcher": {func(f *Facts) {
			for i := range f.Nodes[0].Cluster.Members {
				m := &f.Nodes[0].Cluster.Members[i]
				m.Unhealthy, m.Roles = true, []string{"bucketer", "executor"} // it has laid the role down
				m.Checks = append(m.Checks, httpapi.Check{Name: "dispatcher", OK: true, Message: "unhealthy: scans fail:\nno hosts"})
			}
		}, Error, "nodes.unhealthy", "dispatches nothing: unhealthy: scans fail: no hosts"},
		"slots full":      {func(f *Facts) { f.Nodes[0].Cluster.Members[1].Slots = &httpapi.Slots{Total: 2, Used: 2, Waiting: 1} }, Warning, "nodes.slots", "b: all 2"},
		"another version": {func(f *Facts) { f.Nodes[0].Cluster.Members[1].Version = "v0" }, Warning, "nodes.versions", "v0 (b)"},
		"no executor": {func(f *Facts) {
			for i := range f.Nodes[0].Cluster.Members {
				f.Nodes[0].Cluster.Members[i].Roles = []string{"bucketer", "dispatcher"}
			}
		}, Error, "nodes.roles", "executor"},
		"ring split":        {func(f *Facts) { f.Nodes[1].Cluster.Members = f.Nodes[1].Cluster.Members[1:] }, Error, "nodes.ring", "a see a, b; b see b"},
		"shard unowned":     {func(f *Facts) { f.Nodes[0].Cluster.Shards[1].Owner = "" }, Error, "nodes.shards", "1 of 2"},
		"owner is gone":     {func(f *Facts) { f.Nodes[0].Cluster.Shards[1].Owner = "z" }, Error, "nodes.shards", "1 of 2"},
		"shard behind":      {func(f *Facts) { f.Nodes[0].Cluster.Shards[1].BehindSeconds = 400 }, Error, "nodes.behind", "1 (6m40s)"},
		"no shards":         {func(f *Facts) { f.Nodes[0].Cluster.Shards = nil }, Warning, "nodes.shards", "no shards"},
		"node without NATS": {func(f *Facts) { f.Nodes[0].Cluster.Queue.ClusterHealth = httpapi.ClusterHealth{Message: "cut"} }, Error, "nodes.servers", "NATS: cut"},
		"server down":       {func(f *Facts) { f.Nodes[0].Cluster.Store.Hosts = []httpapi.Host{{Name: "c1", Message: "cut"}} }, Warning, "nodes.servers", "c1"},
		"lease old": {func(f *Facts) {
			f.Nodes[0].Regions.Homes = []httpapi.Home{{Name: "eu", Region: "eu", LeaseAge: &stale}}
		}, Error, "regions.homes", "home eu"},
		"two epochs": {func(f *Facts) {
			f.Nodes[0].Regions.Homes = []httpapi.Home{{Name: "eu", Region: "eu", Epoch: 1, LeaseAge: &fresh}}
			f.Nodes[1].Regions.Homes = []httpapi.Home{{Name: "eu", Region: "us", Epoch: 2, LeaseAge: &fresh}}
		}, Warning, "regions.homes", "do not agree"},
		"node noop":      {func(f *Facts) { f.Nodes[1].Metrics = []byte("carillon_executor_noop 1\n") }, Error, "nodes.config", "b: executor.noop"},
		"restart needed": {func(f *Facts) { f.Nodes[1].Metrics = []byte("carillon_config_restart_needed 1\n") }, Warning, "nodes.config", "restart"},
		"node lost": {func(f *Facts) {
			f.Nodes[1].Cluster.Lost = []httpapi.Lost{{Name: "c", Since: httpapi.Time{Time: f.At}}}
		}, Warning, "nodes.lost", "c went without a word at 2026-11-27T12:00:00Z"},
		"targets broken": {func(f *Facts) { f.Nodes[1].Metrics = []byte("carillon_executor_targets_broken 2\n") }, Warning, "targets.broken", "as these see it: b (2)"},
		"runs wait for a broken target": {func(f *Facts) {
			f.Nodes[0].Cluster.Members[1].Waiting = []httpapi.WaitingRuns{
				{Tenant: "t", Task: "report", Reason: "breaker", Runs: 563, Oldest: httpapi.Time{Time: f.At}}, {Reason: "rate", Runs: 9, Oldest: httpapi.Time{Time: f.At}},
			}
		}, Warning, "targets.broken", "563 runs wait for them, the oldest since 2026-11-27T12:00:00Z, of (tenant, task): t report"},
		"disk full":  {func(f *Facts) { f.Disks[0].Free = 4 }, Error, "disk", "/d"},
		"disk fills": {func(f *Facts) { f.Disks[0].Free = 20 }, Warning, "disk", "/d"},
	} {
		t.Run(name, func(t *testing.T) {
			f := wellFacts()
			row.break_(f)
			found := false
			for _, x := range f.judge() {
				switch {
				case x.Check == row.check && x.Severity == row.severity && strings.Contains(x.What, row.what):
					found = true
					if x.Severity == Error && (x.Means == "" || x.Do == "") {
						t.Errorf("%+v does not say what it means, or what to do", x)
					}
				case rank[x.Severity] < rank[Info]:
					t.Errorf("finding %+v besides", x)
				}
			}
			if !found {
				t.Errorf("no finding %s %s with %q", row.severity, row.check, row.what)
			}
		})
	}
}

// The first node that was asked and does not answer is an error, and so is that none does.
func TestOutcome(t *testing.T) {
	for name, row := range map[string]struct {
		severity Severity
		code     string
	}{"info": {Info, ""}, "warning": {Warning, "warnings: 1"}, "error": {Error, "errors: 1, warnings: 0"}} {
		t.Run(name, func(t *testing.T) {
			r := newReport(wellFacts(), []Finding{{Severity: row.severity, Check: "x", What: "y"}}, hider{})
			err := r.outcome()
			if (err == nil) != (row.code == "") || err != nil && err.Error() != row.code {
				t.Errorf("outcome = %v, want %q", err, row.code)
			}
		})
	}
}

func TestHintWindow(t *testing.T) {
	for text, want := range map[string]time.Duration{"3h": 3 * time.Hour, "10800000ms": 3 * time.Hour, "1d": 24 * time.Hour, "180m": 3 * time.Hour, "": defaultHints, "x": defaultHints} {
		if got := hintWindow(text); got != want {
			t.Errorf("hintWindow(%q) = %v, want %v", text, got, want)
		}
	}
}

// Members are asked by NATS: where the node that is asked does not reach it, nothing follows for
// the others.
func TestOthersAreUnknownWithoutNATS(t *testing.T) {
	f := wellFacts()
	c := &f.Nodes[0].Cluster
	c.Queue.ClusterHealth = httpapi.ClusterHealth{Message: "cut"}
	c.Members[1].Ready, c.Members[1].Checks = false, []httpapi.Check{{Name: "answer", Message: "a does not reach NATS"}}
	for _, x := range f.judge() {
		if rank[x.Severity] < rank[Info] && x.Check != "nodes.servers" {
			t.Errorf("finding %+v, want nothing of b", x)
		}
	}
	c.Queue.ClusterHealth = httpapi.ClusterHealth{OK: true}
	if fs := judgeNodes(f); !fs.bad("nodes.ready") {
		t.Errorf("b does not answer a that reaches NATS: findings %+v, want an error", fs)
	}
}

// A member that one node has lost and another sees is not lost: the ring is split.
func TestALostMemberThatIsThere(t *testing.T) {
	f := wellFacts()
	f.Nodes[0].Cluster.Members = f.Nodes[0].Cluster.Members[:1]
	f.Nodes[0].Cluster.Shards[1].Owner = "a"
	f.Nodes[0].Cluster.Lost = []httpapi.Lost{{Name: "b", Since: httpapi.Time{Time: f.At}}}
	if fs := judgeNodes(f); fs.bad("nodes.lost") || !fs.bad("nodes.ring") {
		t.Errorf("findings %+v, want that the nodes do not agree, and nobody is lost", fs)
	}
}

// TestDoctorOfACassandraThatDoesNotAnswer: it said that rights to read were missing.
func TestDoctorOfACassandraThatDoesNotAnswer(t *testing.T) {
	for err, want := range map[error]string{schema.ErrUnavailable: "once enough nodes of Cassandra answer", errors.New("unauthorized"): "let the user"} {
		s := &StoreFacts{Seen: cassandra.Examination{Unread: []error{fmt.Errorf("read tenants: %w", err)}}}
		found := judgeStore(&Facts{Store: s})
		i := slices.IndexFunc(found, func(f Finding) bool { return f.Check == "cassandra.read" })
		if i < 0 || !strings.Contains(found[i].Do, want) {
			t.Errorf("of %v it finds %+v, want that it says %q", err, found, want)
		}
	}
}
