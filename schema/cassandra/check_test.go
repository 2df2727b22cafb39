package cassandra

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	good := map[string]string{
		"storage_compatibility_mode": "NONE", "batch_size_warn_threshold": "256KiB", "batch_size_fail_threshold": "1MiB", "paxos_variant": "v2",
	}
	with := func(name, value string) map[string]string {
		m := maps.Clone(good)
		m[name] = value
		return m
	}
	writes := func(sync, n string) map[string]string {
		m := with("commitlog_sync", sync)
		m["concurrent_writes"] = n
		return m
	}
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name          string
		server        server
		now           time.Time
		batch         int
		warning, gone string // parts of the only warning and fault; "" = none
	}{
		{"as wanted", server{version: "5.0.6", settings: good}, now, maxBatchBytes, "", ""},
		{"newer", server{version: "5.1-beta1", settings: good}, now, maxBatchBytes, "", ""},
		{"4.1", server{version: "4.1.3", settings: good}, now, maxBatchBytes, "", "unified compaction"},
		{"4.0", server{version: "4.0.11", settings: good}, now, maxBatchBytes, "", "at least 4.1"},
		{"odd version", server{version: "x", settings: good}, now, maxBatchBytes, "cannot be understood", ""},
		{
			"2038, far",
			server{version: "5.0.6", settings: with("storage_compatibility_mode", "CASSANDRA_4")},
			now, maxBatchBytes,
			"storage_compatibility_mode", "",
		},
		{
			"2038, within what jobs may be due",
			server{version: "5.0.6", settings: with("storage_compatibility_mode", "UPGRADING")},
			now.AddDate(2, 0, 0), maxBatchBytes, "", "ten years ahead",
		},
		{
			"small batches",
			server{version: "5.0.6", settings: with("batch_size_fail_threshold", "50KiB")},
			now, 25 << 10,
			"batches are cut to 25 KiB", "",
		},
		{"tiny batches", server{version: "5.0.6", settings: with("batch_size_fail_threshold", "1KiB")}, now, 512, "", "batch_size_fail_threshold"},
		{"loud batches", server{version: "5.0.6", settings: with("batch_size_warn_threshold", "5KiB")}, now, maxBatchBytes, "batch_size_warn_threshold", ""},
		{"old paxos", server{version: "5.0.6", settings: with("paxos_variant", "v1")}, now, maxBatchBytes, "paxos_variant", ""},
		{"few synced writes", server{version: "5.0.6", settings: writes("group", "32")}, now, maxBatchBytes, "concurrent_writes is 32", ""},
		{"few synced writes, each on its own", server{version: "5.0.6", settings: writes("batch", "127")}, now, maxBatchBytes, "concurrent_writes is 127", ""},
		{"enough synced writes", server{version: "5.0.6", settings: writes("group", "128")}, now, maxBatchBytes, "", ""},
		{"few writes that wait for no sync", server{version: "5.0.6", settings: writes("periodic", "32")}, now, maxBatchBytes, "", ""},
		{"clock ahead", server{version: "5.0.6", settings: good, offset: time.Second}, now, maxBatchBytes, "clock is 1s", ""},
		{"clock behind", server{version: "5.0.6", settings: good, offset: -time.Second}, now, maxBatchBytes, "clock is -1s", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			batch, warnings, err := test.server.judge(test.now)
			if test.gone == "" && (err != nil || batch != test.batch) || test.gone != "" && (err == nil || !strings.Contains(err.Error(), test.gone)) {
				t.Errorf("judge: got %d, %v, want %d, fault %q", batch, err, test.batch, test.gone)
			}
			got := strings.Join(warnings, "\n")
			if (got == "") != (test.warning == "") || !strings.Contains(got, test.warning) {
				if test.gone == "" {
					t.Errorf("judge: got warnings %q, want %q", got, test.warning)
				}
			}
		})
	}
}

// TestCheckOfTheTestServer: the profile that tests run on is what is wanted, but for its one copy
// and a commit log that is not synced at once, where it is not.
func TestCheckOfTheTestServer(t *testing.T) {
	s := openTest(t)
	srv, err := s.server(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	if srv.settings["commitlog_sync"] == "periodic" {
		want = 1
	}
	warnings, upkeep, err := s.check(t.Context())
	if err != nil || len(warnings) != want || want > 0 && !strings.Contains(warnings[0], "one copy") {
		t.Errorf("Check: got %q, %v, want %d", warnings, err, want)
	}
	if len(upkeep) != 1 || !strings.Contains(upkeep[0], "system.paxos") {
		t.Errorf("upkeep: got %q, want repairs of paxos", upkeep)
	}
	p, err := s.placement(t.Context(), testKeyspace)
	if copies, fault := p.judge(DefaultDatacenter); err != nil || fault != nil || copies != 1 || len(p.nodes) == 0 {
		t.Errorf("placement: got %+v, %v: %d copies, %v, want one", p, err, copies, fault)
	}
	if _, fault := p.judge("elsewhere"); !errors.Is(fault, ErrReplication) {
		t.Errorf("placement, were ours another data centre: got %v, want ErrReplication", fault)
	}
	if p, err := s.placement(t.Context(), "no_such_keyspace"); err != nil || p.replication != nil {
		t.Errorf("placement of no keyspace: got %+v, %v, want nothing", p, err)
	}
}

func TestPlacement(t *testing.T) {
	const simple, network = "org.apache.cassandra.locator.SimpleStrategy", "org.apache.cassandra.locator.NetworkTopologyStrategy"
	racks := func(of ...string) (nodes []placed) {
		for _, r := range of {
			dc, rack, _ := strings.Cut(r, "/")
			nodes = append(nodes, placed{dc, rack})
		}
		return nodes
	}
	for _, test := range []struct {
		name        string
		replication map[string]string
		nodes       []placed
		copies      int
		fault       string // part of it; "" = none
		// part of the warning with a commit log that is synced periodically; "" = none
		periodic string
	}{
		{"no keyspace", nil, racks("dc1/a"), 0, "", ""},
		{"three racks", map[string]string{"class": network, "dc1": "3"}, racks("dc1/a", "dc1/b", "dc1/c"), 3, "", ""},
		{"one rack", map[string]string{"class": network, "dc1": "3"}, racks("dc1/a", "dc1/a", "dc1/a", "dc2/b"), 3, "", "one rack (a)"},
		{"one copy", map[string]string{"class": network, "dc1": "1"}, racks("dc1/a", "dc1/b"), 1, "", "one copy"},
		{"racks that nobody tells", map[string]string{"class": network, "dc1": "3"}, nil, 3, "", ""},
		{"two data centres", map[string]string{"class": network, "dc1": "3", "dc2": "3"}, nil, 0, "dc1 and dc2", ""},
		{"another that has no copies", map[string]string{"class": network, "dc1": "3", "dc2": "0"}, racks("dc1/a", "dc1/b"), 3, "", ""},
		{"another alone", map[string]string{"class": network, "dc2": "3"}, nil, 0, "ours is dc1", ""},
		{"transient copies", map[string]string{"class": network, "dc1": "3/1"}, racks("dc1/a", "dc1/b"), 3, "", ""},
		{"simple, in one data centre", map[string]string{"class": simple, "replication_factor": "2"}, racks("dc1/a", "dc1/b"), 2, "", ""},
		{"simple, in two", map[string]string{"class": simple, "replication_factor": "2"}, racks("dc1/a", "dc2/b"), 0, "dc1 and dc2", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := placement{test.replication, test.nodes}
			copies, err := p.judge("dc1")
			if copies != test.copies || errors.Is(err, ErrReplication) != (test.fault != "") || err != nil && !strings.Contains(err.Error(), test.fault) {
				t.Errorf("judge: got %d, %v, want %d, fault %q", copies, err, test.copies, test.fault)
			}
			if err != nil {
				return
			}
			warnings := p.warn("dc1", copies, "periodic")
			if got := strings.Join(warnings, "\n"); (got == "") != (test.periodic == "") || !strings.Contains(got, test.periodic) {
				t.Errorf("warn: got %q, want %q", got, test.periodic)
			}
			for _, synced := range []string{"group", "batch"} {
				if got := p.warn("dc1", copies, synced); len(got) != 0 {
					t.Errorf("warn, commit log %s: got %q, want nothing", synced, got)
				}
			}
		})
	}
}

// TestPlacementOfRegions: the keyspace has copies in the data centre of each region, and in no other.
func TestPlacementOfRegions(t *testing.T) {
	const network = "org.apache.cassandra.locator.NetworkTopologyStrategy"
	for name, test := range map[string]struct {
		replication map[string]string
		copies      int
		faults      []string // parts of it
	}{
		"no keyspace":            {nil, 0, nil},
		"each region":            {map[string]string{"class": network, "dc1": "3", "dc2": "2"}, 3, nil},
		"one region lacks":       {map[string]string{"class": network, "dc1": "3"}, 0, []string{"copies lie in dc1,", "dc1 and dc2", "nodetool rebuild -- dc1"}},
		"one without copies":     {map[string]string{"class": network, "dc1": "3", "dc2": "0"}, 0, []string{"copies lie in dc1,"}},
		"the witness has copies": {map[string]string{"class": network, "dc1": "3", "dc2": "3", "witness": "1"}, 0, []string{"dc1 and dc2 and witness"}},
		"simple":                 {map[string]string{"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": "3"}, 0, []string{"ALTER KEYSPACE"}},
	} {
		p := placement{replication: test.replication}
		copies, err := p.judge("dc1", "dc2", "dc1")
		if copies != test.copies || errors.Is(err, ErrReplication) != (test.faults != nil) {
			t.Errorf("%s: judge = %d, %v, want %d, faults %q", name, copies, err, test.copies, test.faults)
		}
		for _, fault := range test.faults {
			if err != nil && !strings.Contains(err.Error(), fault) {
				t.Errorf("%s: judge = %v, want it to name %q", name, err, fault)
			}
		}
	}
}

// TestPlacementOfWhatRegionsShare: it has the copies that the configuration says, the witness's
// too.
func TestPlacementOfWhatRegionsShare(t *testing.T) {
	const network = "org.apache.cassandra.locator.NetworkTopologyStrategy"
	want := &Regions{Copies: map[string]int{"dc1": 3, "dc2": 3, "w": 1}}
	for name, test := range map[string]struct {
		replication map[string]string
		faults      []string // parts of it
	}{
		"as it should be":   {map[string]string{"class": network, "dc1": "3", "dc2": "3", "w": "1"}, nil},
		"no witness":        {map[string]string{"class": network, "dc1": "3", "dc2": "3"}, []string{"has 3 in dc1, 3 in dc2, and", "says 3 in dc1, 3 in dc2, 1 in w", "ALTER KEYSPACE k WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': 3, 'w': 1}", "nodetool rebuild --keyspace k -- dc1"}},
		"another number":    {map[string]string{"class": network, "dc1": "3", "dc2": "1", "w": "1"}, []string{"1 in dc2, 1 in w, and"}},
		"one too many":      {map[string]string{"class": network, "dc1": "3", "dc2": "3", "w": "1", "x": "3"}, []string{"3 in x, and"}},
		"of no data centre": {map[string]string{"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": "3"}, []string{"has "}},
	} {
		p := placement{replication: test.replication}
		err := p.judgeShared("k", want)
		if errors.Is(err, ErrReplication) != (test.faults != nil) {
			t.Errorf("%s: judgeShared = %v, want faults %q", name, err, test.faults)
		}
		for _, fault := range test.faults {
			if err != nil && !strings.Contains(err.Error(), fault) {
				t.Errorf("%s: judgeShared = %v, want it to name %q", name, err, fault)
			}
		}
	}
}

func TestParseSize(t *testing.T) {
	for _, test := range []struct {
		text string
		want int
		ok   bool
	}{{"50KiB", 50 << 10, true}, {"1MiB", 1 << 20, true}, {"2GiB", 2 << 30, true}, {"77B", 77, true}, {"12", 12, true}, {"", 0, false}, {"xKiB", 0, false}, {"-1KiB", 0, false}} {
		if got, ok := parseSize(test.text); ok != test.ok || ok && got != test.want {
			t.Errorf("parseSize(%q): got %d, %v, want %d, %v", test.text, got, ok, test.want, test.ok)
		}
	}
}

// TestExamine: what the doctor asks of a keyspace that is as it should be.
func TestExamine(t *testing.T) {
	cfg := testConfig(t)
	migrateTest(t, cfg)
	s, err := Connect(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	defer func() { _ = s.Close() }() // never fails
	e := s.Examine(t.Context())
	if e.Fault != nil || e.NotMigrated != nil || len(e.Unread) > 0 {
		t.Errorf("Examine: fault %v, not migrated %v, unread %v, want none", e.Fault, e.NotMigrated, e.Unread)
	}
	if e.Version == "" || e.Datacenter != DefaultDatacenter || e.Copies != 1 || e.Nodes < 1 || e.Settings["commitlog_sync"] == "" {
		t.Errorf("Examine: version %q, data centre %q, %d copies, %d nodes, settings %v", e.Version, e.Datacenter, e.Copies, e.Nodes, e.Settings)
	}
	if e.Grace["runs"] != 4*time.Hour || len(e.Migrations) == 0 {
		t.Errorf("Examine: gc_grace of runs is %v, %d migrations, want 4h and all", e.Grace["runs"], len(e.Migrations))
	}
	for name := range e.Settings {
		if strings.Contains(name, "password") {
			t.Errorf("Examine tells the setting %s", name)
		}
	}
}
