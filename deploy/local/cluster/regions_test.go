package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"carillon.dev/carillon/deploy/local/wan"
)

func TestRegionsSpecValidate(t *testing.T) {
	good := RegionsSpec{Regions: 2, Each: Spec{Cassandra: 2, NATS: 1, Nodes: 2, Roles: [][]string{{"bucketer"}}}, Delay: 40 * time.Millisecond}
	for _, c := range []struct {
		name   string
		change func(*RegionsSpec)
		faults []string // parts of the message, all of them; none = valid
	}{
		{"good", func(*RegionsSpec) {}, nil},
		{"with defaults", func(s *RegionsSpec) { *s = s.withDefaults() }, nil},
		{"only Cassandra", func(s *RegionsSpec) { s.Each = Spec{Cassandra: 3} }, nil},
		{"one region", func(s *RegionsSpec) { s.Regions = 1 }, []string{"regions: 1"}},
		{"four regions", func(s *RegionsSpec) { s.Regions = 4 }, []string{"regions: 4"}},
		{"no Cassandra", func(s *RegionsSpec) { s.Each.Cassandra = 0 }, []string{"cassandra: 0 nodes of a region"}},
		{"nodes without NATS", func(s *RegionsSpec) { s.Each.NATS = 0 }, []string{"needs Cassandra and NATS"}},
		{"two NATS", func(s *RegionsSpec) { s.Each.NATS = 2 }, []string{"nats: 2"}},
		{"disks", func(s *RegionsSpec) { s.Each.Disks = true }, []string{"not for regions"}},
		{"a data centre", func(s *RegionsSpec) { s.Each.DataCenter = "eu" }, []string{"not for regions"}},
		{"every fault", func(s *RegionsSpec) { s.Regions, s.Delay, s.Each.Cassandra, s.Each.Nodes = 0, -1, 4, 17 }, []string{"regions: 0", "delay: -1ns", "cassandra: 4", "nodes: 17"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := good
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

// allRegions is the largest plan.
func allRegions() regionsPlan {
	p := newRegionsPlan(RegionsSpec{Regions: 3, Each: Spec{Cassandra: 3, NATS: 3, Nodes: maxNodes, CommitLog: CommitLogGroup}, Delay: 40 * time.Millisecond}.withDefaults())
	p.Network = 5
	return p
}

// TestRegionsAreApart: no two members share an address, no two Cassandra nodes a token, and every
// address is one that the network has in the member's region.
func TestRegionsAreApart(t *testing.T) {
	for count := 1; count <= 3; count++ {
		p := allRegions()
		p.Spec.Each.Cassandra = count
		network := p.wan()
		if err := network.Validate(); err != nil {
			t.Fatal(err)
		}
		addrs, tokens, keys, names := map[string]bool{}, map[int64]bool{}, map[string]bool{}, map[string]bool{}
		for i, s := range p.sites("/d/carillon") {
			region := network.Regions[i]
			if region.Name != s.Site.Name || s.Spec.DataCenter != s.Site.Name || keys[s.RingKey] || s.CursorKey != p.CursorKey {
				t.Errorf("region %d is %q on the network and has %+v, want one name, a ring key of its own, the cursor key of all", i, region.Name, s)
			}
			keys[s.RingKey] = true
			for _, m := range s.members() {
				ip := s.ip(m.kind, m.index)
				if addrs[ip] {
					t.Errorf("%s of %s has the address of another, %s", m.name(), region.Name, ip)
				}
				addrs[ip] = true
				if !slices.ContainsFunc(region.Bytes, func(b int) bool { return ip == wan.IP(p.Network, i+1, b) }) {
					t.Errorf("%s of %s is at %s, which its region does not have", m.name(), region.Name, ip)
				}
				switch m.kind {
				case kindCassandra:
					if tokens[s.token(m.index)] {
						t.Errorf("%s of %s has the token of another", m.name(), region.Name)
					}
					tokens[s.token(m.index)] = true
				case kindCarillon:
					if names[s.nodeName(m.index)] {
						t.Errorf("%s of %s has the name of another node", m.name(), region.Name)
					}
					names[s.nodeName(m.index)] = true
				}
			}
		}
		if want := 3*count + 1; len(tokens) != want || len(p.seeds()) != want {
			t.Errorf("%d Cassandra nodes and %d seeds, want %d", len(tokens), len(p.seeds()), want)
		}
		if len(names) != 3*maxNodes {
			t.Errorf("%d Carillon nodes, want %d: none at the witness", len(names), 3*maxNodes)
		}
	}
}

func TestFilesOfARegion(t *testing.T) {
	p := allRegions()
	p.Spec.Each.Nodes = 2
	p.Spec.Settings = map[string]any{"home": "eu"}
	p.RingKeys[1], p.CursorKey = "a2V5", "c2lnbg=="
	us := p.sites("/d/carillon")[1]
	carillon, err := renderCarillon(us, 2)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "region-carillon.yaml", carillon)
	node := cassandraNode{2, "/d/us/cassandra-2", us, false}
	text, err := node.config()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "region-cassandra.yaml", text)
	golden(t, "region-nats.conf", []byte(natsConfig(us, 2, "/d/us/nats-2")))
	if err := yaml.Unmarshal(text, &map[string]any{}); err != nil {
		t.Errorf("not YAML: %v", err)
	}
	node.replaces = true
	if text, err = node.config(); err != nil || strings.Contains(string(text), node.ip()+",") {
		t.Errorf("a node that takes the place of another: %v\n%s\nwant it not among the seeds", err, text)
	}
	c := Cluster{plan: us}
	if got, want := c.within(member{kindNATS, 1}, []string{"x"}), []string{"ip", "netns", "exec", "carillonw5-us", "x"}; !slices.Equal(got, want) {
		t.Errorf("within = %q, want %q", got, want)
	}
	if c.Host() != "10.79.80.1" {
		t.Errorf("Host = %s, want that of the network", c.Host())
	}
}

func TestKeyspacesOfRegions(t *testing.T) {
	p := allRegions()
	if got := p.keyspaces(); got != nil || p.keyspace("eu") != "carillon_eu" {
		t.Errorf("keyspaces = %q, that of eu %q; want that migrate makes carillon_eu", got, p.keyspace("eu"))
	}
	p.Spec.OneKeyspace = true
	const create = "CREATE KEYSPACE IF NOT EXISTS %s WITH replication = {'class': 'NetworkTopologyStrategy', %s}"
	want := []string{
		fmt.Sprintf(create, "carillon", "'eu': 3, 'us': 3, 'ap': 3"),
		fmt.Sprintf(create, "carillon_regions", "'eu': 3, 'us': 3, 'ap': 3, 'witness': 1"),
	}
	if got := p.keyspaces(); !slices.Equal(got, want) || p.keyspace("eu") != "carillon" {
		t.Errorf("keyspaces = %q, that of eu %q, want %q", got, p.keyspace("eu"), want)
	}
}

// TestRegionsThatShareAKeyspaceHaveHomes: each shard is at home in one of them.
func TestRegionsThatShareAKeyspaceHaveHomes(t *testing.T) {
	p := regionsPlan{Spec: RegionsSpec{Regions: 3, OneKeyspace: true, Each: Spec{Cassandra: 1, Nodes: 1, Shards: 16}}.withDefaults()}
	want := map[string]any{
		"homes": []string{"eu=0-4", "us=5-9", "ap=10-15"}, "datacenters": []string{"eu=eu:1", "us=us:1", "ap=ap:1"},
		"keyspace": "carillon_regions", "witness": "witness",
		"api": []string{"eu=http://10.79.1.101:18081", "us=http://10.79.2.101:18081", "ap=http://10.79.3.101:18081"},
	}
	if got := p.settings(); !reflect.DeepEqual(got, want) {
		t.Errorf("settings = %v, want %v", got, want)
	}
	p.Spec.OneKeyspace = false
	if got := p.settings(); got != nil {
		t.Errorf("settings of regions with keyspaces of their own = %v, want none", got)
	}
}

func TestRegionsPlanChange(t *testing.T) {
	old := allRegions()
	old.Spec.Each.Nodes = 2
	old.Spec.Settings = map[string]any{"since": 3}
	dir := t.TempDir()
	if err := old.write(dir); err != nil {
		t.Fatal(err)
	}
	stored, err := readRegionsPlan(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name            string
		change          func(*RegionsSpec)
		running, halted bool // possible?
	}{
		{"the same", func(*RegionsSpec) {}, true, true},
		{"another delay", func(s *RegionsSpec) { s.Delay++ }, true, true},
		{"one node more", func(s *RegionsSpec) { s.Each.Nodes++ }, false, true},
		{"other settings", func(s *RegionsSpec) { s.Settings = nil }, false, true},
		{"another commit log", func(s *RegionsSpec) { s.Each.CommitLog = CommitLogPeriodic }, false, true},
		{"fewer regions", func(s *RegionsSpec) { s.Regions = 2 }, false, false},
		{"no witness", func(s *RegionsSpec) { s.NoWitness = true }, false, false},
		{"one keyspace", func(s *RegionsSpec) { s.OneKeyspace = true }, false, false},
		{"fewer Cassandra", func(s *RegionsSpec) { s.Each.Cassandra = 1 }, false, false},
		{"fewer NATS", func(s *RegionsSpec) { s.Each.NATS = 1 }, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := old.Spec
			c.change(&spec)
			for running, possible := range map[bool]bool{true: c.running, false: c.halted} {
				got, err := stored.change(spec, running)
				if (err == nil) != possible {
					t.Errorf("change(running %t): %v, want possible: %t", running, err, possible)
				}
				if err == nil && (got.Network != old.Network || got.CursorKey != old.CursorKey) {
					t.Errorf("change(running %t) = %+v, want network and key of %+v", running, got, old)
				}
			}
		})
	}
}

// TestOneFolderHoldsOneKind: regions are no members of a cluster without them, nor the other way.
func TestOneFolderHoldsOneKind(t *testing.T) {
	dir := t.TempDir()
	if err := allRegions().write(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Up(t.Context(), Options{Dir: dir}, Spec{NATS: 1}); err == nil || !strings.Contains(err.Error(), "holds a cluster of regions") {
		t.Errorf("Up in the folder of regions = %v, want it refused", err)
	}
	if _, err := UpRegions(t.Context(), Options{Dir: dir}, RegionsSpec{}); err == nil || !strings.Contains(err.Error(), "regions: 0") {
		t.Errorf("UpRegions without regions = %v, want it refused", err)
	}
	if err := wan.Available(); err != nil {
		t.Skipf("LEFT OUT: the other way: %v", err)
	}
	other := t.TempDir()
	if err := (plan{}).write(other); err != nil {
		t.Fatal(err)
	}
	spec := RegionsSpec{Regions: 2, Each: Spec{Cassandra: 1}}
	if _, err := UpRegions(t.Context(), Options{Dir: other, Attached: true}, spec); err == nil || !strings.Contains(err.Error(), "without regions") {
		t.Errorf("UpRegions in the folder of a cluster = %v, want it refused", err)
	}
	if _, err := UpRegions(t.Context(), Options{Dir: t.TempDir()}, spec); err == nil || !strings.Contains(err.Error(), "their hub") {
		t.Errorf("UpRegions without a hub = %v, want it refused", err)
	}
}

// startRegions brings up regions of the test's own.
func startRegions(t *testing.T, spec RegionsSpec) *Regions {
	t.Helper()
	Require(t)
	if err := wan.Available(); err != nil {
		t.Skipf("LEFT OUT: %s needs network namespaces: %v", t.Name(), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testStartLimit)
	defer cancel()
	r, err := UpRegions(ctx, Options{Dir: t.TempDir(), Attached: true, Say: func(line string) { t.Log(line) }}, spec)
	if err != nil {
		t.Fatalf("start regions %+v: %v", spec, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, c := range r.sites {
				for _, m := range c.plan.members() {
					t.Logf("end of the log of %s/%s:\n%s", c.plan.Site.Name, m.name(), logTail(c.logFile(m)))
				}
			}
		}
		network := r.plan.Network
		if err := r.Close(context.Background()); err != nil {
			t.Errorf("stop regions: %v", err)
		}
		if left, err := wan.Leftover(context.Background()); err != nil || slices.Contains(left, network) {
			t.Errorf("after Close: Leftover = %d, %v, want nothing of %d", left, err, network)
		}
		for _, addr := range r.plan.seeds() {
			if err := wan.Blackholed(context.Background(), addr); err != nil {
				t.Error(err)
			}
		}
	})
	return r
}

// TestARegionIsCutOff: with one of two regions cut off, what most data centres decide is decided at
// the other one with the witness, and not at the one that is alone; healed, it knows.
func TestARegionIsCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("LEFT OUT: three data centres take a minute (-short)")
	}
	const delay = 20 * time.Millisecond
	r := startRegions(t, RegionsSpec{Regions: 2, Each: Spec{Cassandra: 1, NATS: 1}, Delay: delay})
	ctx, cql := t.Context(), func(region string) string { return r.Region(region).CQL()[0] }
	query(t, cql("eu"), "CREATE KEYSPACE one WITH replication = {'class': 'NetworkTopologyStrategy', 'eu': 1, 'us': 1, 'witness': 1}")
	query(t, cql("eu"), "CREATE TABLE one.rows (id int PRIMARY KEY)")
	for _, c := range r.sites {
		awaitPeers(t, c, r.plan.seeds())
	}

	begin := time.Now()
	query(t, cql("eu"), "INSERT INTO one.rows (id) VALUES (1)")
	if took := time.Since(begin); took < 2*delay {
		t.Errorf("a write to most data centres took %s, less than a round trip", took)
	}
	for _, other := range []string{"us", Witness} {
		for _, err := range []error{r.Control().Cut(ctx, "eu", other), r.Control().Cut(ctx, other, "eu")} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	query(t, cql("us"), "INSERT INTO one.rows (id) VALUES (2)")
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if _, err := queryNode(limited, cql("eu"), nil, "INSERT INTO one.rows (id) VALUES (3)"); err == nil {
		t.Error("the region that is cut off writes to most data centres")
	}
	links, err := r.Control().Links(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		eu := l.From == "eu" || l.To == "eu"
		if l.Cut != eu || l.Frames == 0 || !eu && l.Lost > 0 {
			t.Errorf("link = %+v, want those of eu cut, and no other lost anything", l)
		}
	}
	if i := slices.IndexFunc(links, func(l wan.Link) bool { return l.From == "eu" && l.To == "us" }); links[i].Lost == 0 {
		t.Errorf("link = %+v, want lost frames: else nothing was tested", links[i])
	}
	if err := r.Control().Heal(ctx, "", ""); err != nil {
		t.Fatal(err)
	}
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := poll(bounded, func() (bool, error) {
		rows, err := queryNode(bounded, cql("eu"), nil, "SELECT id FROM one.rows WHERE id = 2")
		return err == nil && len(rows) == 1, nil
	}); err != nil {
		t.Errorf("healed, eu does not read what us wrote: %v", err)
	}
	for id := range 2*pageRows + 7 { // three pages
		query(t, cql("us"), fmt.Sprintf("INSERT INTO one.rows (id) VALUES (%d)", 100+id))
	}
	found := map[string]bool{}
	if err := r.Region("us").EachRow(ctx, "SELECT JSON * FROM one.rows WHERE id >= 100 ALLOW FILTERING", func(row [][]byte) error {
		found[string(row[0])] = true
		return nil
	}); err != nil || len(found) != 2*pageRows+7 || !found[`{"id": 100}`] {
		t.Errorf("EachRow visits %d rows, and %v, want all %d", len(found), err, 2*pageRows+7)
	}
	if s := r.Status(ctx); len(s.Regions) != 3 || len(s.Links) != 6 || s.Regions[1].NATS[0].State != Running || len(s.Regions[2].NATS) != 0 {
		t.Errorf("Status = %+v, want three regions, the witness without NATS, and six links", s)
	}
}

// awaitPeers waits until every Cassandra node of a region sees those at ips, and one schema.
func awaitPeers(t *testing.T, c *Cluster, ips []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, addr := range c.CQL() {
		if err := poll(ctx, func() (bool, error) { return cassandraReady(ctx, addr, nil, ips) == nil, nil }); err != nil {
			t.Fatalf("one schema in the eyes of %s: %v", addr, cassandraReady(t.Context(), addr, nil, ips))
		}
	}
}

// TestRegionsStatus: the table names members by their regions, and says which links are cut.
func TestRegionsStatus(t *testing.T) {
	dir := t.TempDir()
	p := allRegions()
	p.Spec.Each.Nodes = 1
	if err := p.write(dir); err != nil {
		t.Fatal(err)
	}
	r, err := OpenRegions(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	s := r.Status(t.Context())
	if len(s.Links) != 0 {
		t.Errorf("links = %+v, want none while nothing runs", s.Links)
	}
	s.Links = []wan.Link{{From: "eu", To: "us", Cut: true, Delay: 40 * time.Millisecond, Lost: 3}}
	var out strings.Builder
	if err := s.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"us/carillon-1 ", "http://" + net.JoinHostPort("10.79.82.101", strconv.Itoa(apiBasePort+1)), "witness/cassandra-1 ", "eu to us ", "cut ", "40ms "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
	if got, want := s.API(), "http://10.79.81.101:18081"; got != want {
		t.Errorf("API = %q, want %q", got, want)
	}
	host := wan.Host(p.Network)
	if got, want := s.Regional()[:2], []RegionAPI{{"eu", "http://10.79.81.101:18081", host}, {"us", "http://10.79.82.101:18081", host}}; !slices.Equal(got, want) {
		t.Errorf("Regional = %v, want %v", got, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "eu")); err == nil {
		t.Error("asking for the status made a folder")
	}
	if err := r.Purge(t.Context()); err != nil || HasRegions(dir) {
		t.Errorf("Purge = %v, and there are regions: %t", err, HasRegions(dir))
	}
}
