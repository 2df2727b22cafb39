package cluster

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with testdata/name.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestCassandraConfig(t *testing.T) {
	for _, c := range []struct {
		file string
		node cassandraNode
	}{
		{"cassandra-one-test-periodic.yaml", cassandraNode{1, "/d/cassandra-1", plan{Spec: Spec{Cassandra: 1}}, false}},
		{"cassandra-one-secure.yaml", cassandraNode{1, "/d/cassandra-1", plan{Block: 3, Spec: Spec{Cassandra: 1, Secure: true}}, false}},
		{"cassandra-three-load-group.yaml", cassandraNode{2, "/d/with blank/cassandra-2", plan{Block: 7, Spec: Spec{Cassandra: 3, Profile: ProfileLoad, CommitLog: CommitLogGroup}}, false}},
	} {
		t.Run(c.file, func(t *testing.T) {
			c.node.plan.Spec = c.node.plan.Spec.withDefaults()
			got, err := c.node.config()
			if err != nil {
				t.Fatal(err)
			}
			golden(t, c.file, got)
			if err := yaml.Unmarshal(got, &map[string]any{}); err != nil {
				t.Errorf("not YAML: %v", err)
			}
		})
	}
}

func TestCassandraTakesViewsOnlyIfTold(t *testing.T) {
	for _, views := range []bool{false, true} {
		node := cassandraNode{1, "/d/cassandra-1", plan{Spec: Spec{Cassandra: 1, Views: views}.withDefaults()}, false}
		text, err := node.config()
		if err != nil {
			t.Fatal(err)
		}
		settings := map[string]any{}
		if err := yaml.Unmarshal(text, &settings); err != nil {
			t.Fatalf("not YAML: %v", err)
		}
		if got := settings["materialized_views_enabled"] == true; got != views {
			t.Errorf("with views %t materialized_views_enabled = %v", views, settings["materialized_views_enabled"])
		}
	}
}

func TestCassandraCommand(t *testing.T) {
	node := cassandraNode{2, "/d/cassandra-2", plan{Block: 1, Spec: Spec{Cassandra: 3, Profile: ProfileLoad}.withDefaults()}, false}
	argv := node.command(javaTools{java: java{path: "/j/java"}, classPath: "a.jar:b.jar"}, "-XX:SharedArchiveFile=x.jsa")
	if argv[0] != "/j/java" || argv[len(argv)-1] != cassandraMain {
		t.Errorf("command is %q … %q, want java … the daemon", argv[0], argv[len(argv)-1])
	}
	for _, want := range []string{"-Xmx2G", "-XX:+UseG1GC", "-Dcassandra.jmx.local.port=7206", "-XX:SharedArchiveFile=x.jsa"} {
		if !slices.Contains(argv, want) {
			t.Errorf("command lacks %s: %q", want, argv)
		}
	}
	for _, arg := range argv {
		if strings.HasPrefix(arg, "#") || strings.Contains(arg, "unsafesystem") {
			t.Errorf("command has %q", arg) // unsafesystem: a killed node would lose its schema
		}
	}
}

func TestNATSConfig(t *testing.T) {
	golden(t, "nats-one.conf", []byte(natsConfig(plan{Spec: Spec{NATS: 1}}, 1, "/d/nats-1")))
	golden(t, "nats-three-sync.conf", []byte(natsConfig(plan{Block: 7, Spec: Spec{NATS: 3, NATSSync: 100 * time.Millisecond}}, 2, "/d/nats-2")))
	if text := natsConfig(plan{Spec: Spec{NATS: 1, NATSSync: -1}}, 1, "/d"); !strings.Contains(text, "sync_interval: always\n") {
		t.Errorf("natsConfig with a negative interval:\n%s\nwant sync_interval: always", text)
	}
}

func TestCarillonConfig(t *testing.T) {
	p := plan{Spec: Spec{Cassandra: 3, NATS: 3, Nodes: 2, Roles: [][]string{nil, {"executor"}}}.withDefaults(), Block: 0, RingKey: "a2V5", CursorKey: "c2lnbg=="}
	got, err := renderCarillon(p, 2)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "carillon.yaml", got)
	p.Spec.Profiles = true
	if got, err = renderCarillon(p, 2); err != nil || !strings.Contains(string(got), "admin:\n    listen: 127.0.0.1:19082\n") {
		t.Errorf("renderCarillon with profiles: %v\n%s\nwant a listener for them", err, got)
	}
	p.Spec.Namespaces = true
	got, err = renderCarillon(p, 2)
	for _, want := range []string{"listen: 10.77.0.102:18082\n", "auth: none\n", "- 10.77.0.1/32\n", "- nats://10.77.0.23:4222\n", "- 10.77.0.11:9042\n"} {
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("renderCarillon with namespaces: %v\n%s\nwant %q", err, got, want)
		}
	}
}

func TestSpecValidate(t *testing.T) {
	good := Spec{Cassandra: 3, NATS: 3, Nodes: 2, Roles: [][]string{{"bucketer"}}}
	for _, c := range []struct {
		name   string
		change func(*Spec)
		faults []string // parts of the message, all of them; none = valid
	}{
		{"good", func(*Spec) {}, nil},
		{"only Cassandra", func(s *Spec) { *s = Spec{Cassandra: 1} }, nil},
		{"only NATS", func(s *Spec) { *s = Spec{NATS: 1} }, nil},
		{"nothing", func(s *Spec) { *s = Spec{} }, []string{"empty"}},
		{"two Cassandra", func(s *Spec) { s.Cassandra = 2 }, []string{"cassandra: 2"}},
		{"nodes without stores", func(s *Spec) { s.NATS = 0 }, []string{"needs Cassandra and NATS"}},
		{"too many nodes", func(s *Spec) { s.Nodes = 17 }, []string{"nodes: 17"}},
		{"unknown role", func(s *Spec) { s.Roles[0] = []string{"cook"} }, []string{`carillon-1: "cook"`}},
		{"roles for nobody", func(s *Spec) { s.Nodes = 0 }, []string{"stated for 1 nodes"}},
		{"secure", func(s *Spec) { *s = Spec{Cassandra: 1, NATS: 1, Secure: true} }, nil},
		{"secure, three of them", func(s *Spec) { *s = Spec{Cassandra: 3, Secure: true} }, []string{"secure: is for one Cassandra"}},
		{"secure, with nodes", func(s *Spec) { s.Cassandra, s.Secure = 1, true }, []string{"secure: is for one Cassandra"}},
		{"every fault", func(s *Spec) { s.NATS, s.Profile, s.CommitLog = 4, "x", "y" }, []string{"nats: 4", `profile: "x"`, `commit log: "y"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := good
			spec.Roles = slices.Clone(good.Roles)
			c.change(&spec)
			err := spec.Validate()
			if (err == nil) != (len(c.faults) == 0) {
				t.Fatalf("Validate() = %v, want faults %q", err, c.faults)
			}
			for _, fault := range c.faults {
				if !strings.Contains(err.Error(), fault) {
					t.Errorf("Validate() = %v, want %q in it", err, fault)
				}
			}
		})
	}
}

func TestPlanChange(t *testing.T) {
	old := plan{Spec: Spec{Cassandra: 1, NATS: 1, Nodes: 2}.withDefaults(), Block: 3, RingKey: "k"}
	for _, c := range []struct {
		name            string
		change          func(*Spec)
		running, halted bool // possible?
	}{
		{"the same", func(*Spec) {}, true, true},
		{"one node more", func(s *Spec) { s.Nodes++ }, true, true},
		{"one node less", func(s *Spec) { s.Nodes-- }, false, true},
		{"the same roles, said", func(s *Spec) { s.Roles = [][]string{allRoles} }, true, true},
		{"other roles", func(s *Spec) { s.Roles = [][]string{{"executor"}} }, false, true},
		{"another commit log", func(s *Spec) { s.CommitLog = CommitLogGroup }, false, true},
		{"more Cassandra", func(s *Spec) { s.Cassandra = 3 }, false, false},
		{"more NATS", func(s *Spec) { s.NATS = 3 }, false, false},
		{"another data centre", func(s *Spec) { s.DataCenter = "dc2" }, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := old.Spec
			c.change(&spec)
			for running, possible := range map[bool]bool{true: c.running, false: c.halted} {
				got, err := old.change(spec, running)
				if (err == nil) != possible {
					t.Errorf("change(running %t): %v, want possible: %t", running, err, possible)
				}
				if err == nil && (got.Block != old.Block || got.RingKey != old.RingKey) {
					t.Errorf("change(running %t) = %+v, want block and key of %+v", running, got, old)
				}
			}
		})
	}
}

func TestJudgeGossip(t *testing.T) {
	ok := func(ip string) nodeRow { return nodeRow{ip, "NORMAL,0", "true", "v1"} }
	with := func(change func(*nodeRow)) nodeRow { r := ok("b"); change(&r); return r }
	for _, c := range []struct {
		name  string
		rows  []nodeRow
		fault string
	}{
		{"all well", []nodeRow{ok("a"), ok("b")}, ""},
		{"a stranger is ill", []nodeRow{ok("a"), ok("b"), {ip: "c"}}, ""},
		{"one missing", []nodeRow{ok("a")}, "node b is not in gossip"},
		{"none", nil, "node a is not in gossip"},
		{"one joining", []nodeRow{ok("a"), with(func(r *nodeRow) { r.status = "BOOT" })}, `status "BOOT"`},
		{"one does not serve", []nodeRow{ok("a"), with(func(r *nodeRow) { r.rpcReady = "false" })}, "does not serve"},
		{"two schemas", []nodeRow{ok("a"), with(func(r *nodeRow) { r.schema = "v2" })}, `version "v2"`},
		{"no schema", []nodeRow{ok("a"), with(func(r *nodeRow) { r.schema = "" })}, `version ""`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := checkGossip(c.rows, []string{"a", "b"})
			if c.fault == "" && err != nil || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
				t.Errorf("judgeGossip(%v) = %v, want %q", c.rows, err, c.fault)
			}
		})
	}
}
