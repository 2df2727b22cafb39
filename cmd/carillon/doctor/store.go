package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/cassandra"
)

// StoreFacts is what was seen of Cassandra.
type StoreFacts struct {
	Err    error // why it could not be reached
	Seen   cassandra.Examination
	Clocks []ClockReading // of the hosts of our data centre
	Shared error          // why the keyspace of regions does not do
	// AdminKeys are the valid keys of the tenant system with the role admin; KeysErr says why they are not known.
	AdminKeys int
	KeysErr   error
	// SealedWith names the keys with which secrets in the store are encrypted, with how many each.
	SealedWith map[string]int
	Settings   schema.Settings
}

// defaultHints is Cassandra's max_hint_window unless it is set.
const defaultHints = 3 * time.Hour

// judgeStore judges Cassandra and the keyspace.
func judgeStore(f *Facts) (fs findings) {
	s := f.Store
	if s == nil {
		return nil
	}
	if s.Err != nil {
		do := "see that Cassandra runs and that this machine reaches cassandra.hosts (port 9042): nodetool status there"
		switch {
		case errors.Is(s.Err, cassandra.ErrNotMigrated):
			do = "carillon migrate --replication 3 --config FILE"
		case errors.Is(s.Err, cassandra.ErrRefused):
			do = "see cassandra.username, cassandra.password and cassandra.tls"
		}
		fs.add(Error, "cassandra.reachable", oneLine(s.Err), "nodes that do not reach it take nothing in and start nothing", do)
		return fs
	}
	e := &s.Seen
	fs.ok("cassandra.reachable", "Cassandra %s answers, data centre %s", e.Version, e.Datacenter)
	if e.Fault != nil {
		fs.add(Error, "cassandra.settings", oneLine(e.Fault), "a node of this build refuses to start", "do as it says; deploy/compose.yaml has settings that do")
	}
	for _, w := range e.Warnings {
		switch {
		case strings.HasPrefix(w, "commitlog_sync is "), strings.HasPrefix(w, "the server's clock is "): // judged below, and in clocks.go
		case strings.HasPrefix(w, "paxos_state_purging is repaired"):
			fs.add(Info, "cassandra.repairs", w, "", "see that repairs run: deploy/OPERATING.md, Repairs")
		default:
			fs.add(Warning, "cassandra.settings", w, "", "set it in cassandra.yaml of every node and restart them one by one; deploy/compose.yaml has settings that do")
		}
	}
	for _, err := range e.Unread {
		do := "let the user of cassandra.username read system_schema and system_views"
		if errors.Is(err, schema.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			do = "look again once enough nodes of Cassandra answer"
		}
		fs.add(Warning, "cassandra.read", oneLine(err), "what it would say was not looked at", do)
	}
	judgeCommitLog(e, &fs)
	judgeCopies(f, &fs)
	judgeGrace(e, &fs)
	judgeSchema(f, &fs)
	judgeKeys(f, &fs)
	return fs
}

// judgeCommitLog says whether what is acknowledged is on disk.
func judgeCommitLog(e *cassandra.Examination, fs *findings) {
	switch sync := e.Settings["commitlog_sync"]; strings.ToLower(sync) {
	case "group", "batch":
		fs.ok("cassandra.commitlog_sync", "%s: what is acknowledged is on disk", sync)
	case "":
	default:
		fs.add(Warning, "cassandra.commitlog_sync", "commitlog_sync is "+sync,
			"a loss of power of all replicas at once loses what was acknowledged in the last 10 s, jobs among it; replicas in racks with power of their own do not lose it together",
			"set commitlog_sync: group, commitlog_sync_group_window: 10ms and concurrent_writes: 256 on every node")
	}
}

// judgeCopies compares the copies of a row with the nodes that there are, and those that answer.
func judgeCopies(f *Facts, fs *findings) {
	e := &f.Store.Seen
	up, down := 0, []string{}
	for _, c := range f.Store.Clocks {
		if c.Err == nil {
			up++
		} else {
			down = append(down, c.Host)
		}
	}
	quorum := e.Copies/2 + 1
	switch {
	case e.Copies == 0:
	case up > 0 && len(f.Store.Clocks)-up > e.Copies-quorum:
		fs.add(Error, "cassandra.nodes", fmt.Sprintf("%d of %d nodes do not answer: %s", len(down), len(f.Store.Clocks), strings.Join(down, ", ")),
			fmt.Sprintf("of the copies of each row (%d) %d must answer: rows with more than %d on silent nodes can be neither read nor written", e.Copies, quorum, e.Copies-quorum), "start them: nodetool status says which are down")
	case len(down) > 0:
		fs.add(Warning, "cassandra.nodes", fmt.Sprintf("%d of %d nodes do not answer: %s", len(down), len(f.Store.Clocks), strings.Join(down, ", ")),
			"the next that fails stops what lies on both; after 3 h hints end and it must be repaired", "start it; after more than 3 h run nodetool repair on it")
	case len(f.Store.Clocks) > 0:
		fs.ok("cassandra.nodes", "all %d nodes of the data centre answer", up)
	}
	switch {
	case e.Copies == 0 && e.Fault == nil && e.Replication != nil:
		fs.add(Warning, "cassandra.replication", fmt.Sprintf("how many copies there are is not understood: %v", e.Replication), "", "use NetworkTopologyStrategy")
	case e.Copies > 0 && e.Nodes > 0 && e.Copies > e.Nodes:
		fs.add(Error, "cassandra.replication", fmt.Sprintf("each row is to have %d copies, and the data centre has %d nodes", e.Copies, e.Nodes),
			"one node less and nothing can be written", "add nodes")
	case e.Copies == 1 || e.Copies == 2:
		fs.add(Warning, "cassandra.replication", fmt.Sprintf("copies of each row: %d", e.Copies), "when one node is away, some rows can be neither read nor written; with one copy a lost disk loses jobs",
			fmt.Sprintf("with three nodes or more: ALTER KEYSPACE … WITH replication = {'class': 'NetworkTopologyStrategy', '%s': 3}, then nodetool repair -full on each node", f.Config.Cassandra.Datacenter))
	case e.Copies > 2:
		fs.ok("cassandra.replication", "%d copies on %d nodes", e.Copies, max(e.Nodes, up))
	}
	switch {
	case f.Store.Shared != nil:
		fs.add(Error, "regions.keyspace", oneLine(f.Store.Shared), "who serves a home may not be decided, or decided twice", "do as it says")
	case f.Config.Regions.Enabled():
		fs.ok("regions.keyspace", "copies are as regions.datacenters and regions.witness say")
	}
}

// judgeGrace tells of tables whose deletions end before hints do.
func judgeGrace(e *cassandra.Examination, fs *findings) {
	hints := hintWindow(e.Settings["max_hint_window"])
	var short []string
	for _, table := range slices.Sorted(maps.Keys(e.Grace)) {
		if e.Grace[table] < hints {
			short = append(short, fmt.Sprintf("%s (%v)", table, e.Grace[table]))
		}
	}
	switch {
	case len(short) > 0:
		fs.add(Warning, "cassandra.gc_grace", fmt.Sprintf("gc_grace_seconds is shorter than max_hint_window (%v) in %s", hints, strings.Join(short, ", ")),
			"hints older than it are dropped, so a node that returns lacks rows until it is repaired", "ALTER TABLE … WITH gc_grace_seconds = 14400, or a shorter max_hint_window")
	case len(e.Grace) > 0:
		fs.ok("cassandra.gc_grace", "at least max_hint_window (%v) in all %d tables", hints, len(e.Grace))
	}
}

// hintWindow reads max_hint_window: "3h", "10800000ms", or milliseconds.
func hintWindow(text string) time.Duration {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d
	}
	if days, found := strings.CutSuffix(text, "d"); found {
		if n, err := strconv.Atoi(days); err == nil && n > 0 {
			return time.Duration(n) * 24 * time.Hour
		}
	}
	return defaultHints
}

// judgeSchema compares the keyspace with this build.
func judgeSchema(f *Facts, fs *findings) {
	switch e := &f.Store.Seen; {
	case e.NotMigrated == nil && len(e.Migrations) > 0:
		fs.ok("cassandra.schema", "%d migrations, as build %s needs them; %d shards, rows stay %v", len(e.Migrations), f.Version, f.Store.Settings.Shards, f.Store.Settings.Retention)
	case errors.Is(e.NotMigrated, cassandra.ErrNewer):
		fs.add(Error, "cassandra.schema", oneLine(e.NotMigrated), "nodes of this build do not start", "use the build that migrated it, or a newer one")
	case errors.Is(e.NotMigrated, cassandra.ErrChanged):
		fs.add(Error, "cassandra.schema", oneLine(e.NotMigrated), "the keyspace was made by a build with other migrations", "use that build; a keyspace of a development build cannot be upgraded")
	case e.NotMigrated != nil:
		fs.add(Error, "cassandra.schema", oneLine(e.NotMigrated), "nodes of this build wait for it", "carillon migrate --config FILE")
	}
}

// judgeKeys judges the keys that lie in the store.
func judgeKeys(f *Facts, fs *findings) {
	s := f.Store
	switch {
	case s.KeysErr != nil:
		fs.add(Warning, "keys.admin", oneLine(s.KeysErr), "whether there is a key of an admin is not known", "")
	case s.Seen.NotMigrated == nil && s.AdminKeys == 0 && f.Config.API.AuthRequired():
		fs.add(Warning, "keys.admin", "there is no valid key of an admin of the tenant system", "nobody can make keys by the API", "carillon key create admin --bootstrap --config FILE")
	case s.AdminKeys > 0:
		fs.ok("keys.admin", "%d keys of admins of the tenant system", s.AdminKeys)
	}
	have := make(map[string]bool)
	for _, text := range f.Config.Secrets.Keys {
		name, _, _ := strings.Cut(strings.TrimSpace(text), ":")
		have[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(s.SealedWith)) {
		if !have[name] {
			fs.add(Error, "keys.secrets", fmt.Sprintf("%d secrets are encrypted with key %s, which secrets.keys does not have", s.SealedWith[name], name),
				"calls that need them fail", "put the key back into secrets.keys of every node, or put the secrets again")
		}
	}
	if len(s.SealedWith) > 0 && !fs.bad("keys.secrets") {
		fs.ok("keys.secrets", "secrets.keys has every key that secrets are encrypted with")
	}
}
