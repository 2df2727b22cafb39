package cassandra

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocql/gocql"

	"carillon.dev/carillon/schema"
)

// What the server is compared with.
const (
	// beyond it there is a warning; a majority of hosts decides elsewhere whether a node is ready
	maxClockDifference = 500 * time.Millisecond
	furthestDue        = 10 * 365 * 24 * time.Hour
	minBatchBytes      = 4 << 10 // a server that takes less is refused
)

// expiryLimit is the last instant at which a cell may expire unless storage_compatibility_mode is
// NONE.
var expiryLimit = time.Date(2038, 1, 19, 3, 14, 6, 0, time.UTC)

// wantedWrites is how many writes a server that syncs its commit log before it answers should do at
// once. With a sync every 10 ms, 128 make 12,800 writes a second, or a quarter of that if they are
// conditional.
const wantedWrites = 128

// server is what one node says of itself.
type server struct {
	version    string
	datacenter string
	offset     time.Duration // of its clock against ours
	settings   map[string]string
}

// Check compares the node that answers, and the replication of the keyspace, with what Carillon
// needs. The error joins what breaks a promise (ErrReplication: the keyspace does). Warnings are
// what costs speed or may lose writes. Batches are made to fit the server's limit.
func (s *Store) Check(ctx context.Context) (warnings []string, err error) {
	warnings, _, err = s.check(ctx)
	return warnings, err
}

// check is Check, with what the operator must do regularly.
func (s *Store) check(ctx context.Context) (warnings, upkeep []string, err error) {
	srv, err := s.server(ctx)
	var p placement
	if err == nil {
		p, err = s.placement(ctx, s.cfg.Keyspace)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("check the server: %w", err)
	}
	batch, warnings, fault := srv.judge(s.cfg.Now())
	copies, misplaced := p.judge(s.cfg.Datacenter, s.cfg.Datacenters...)
	warnings = append(warnings, p.warn(s.cfg.Datacenter, copies, srv.settings["commitlog_sync"])...)
	if err := errors.Join(fault, misplaced); err != nil {
		return warnings, nil, fmt.Errorf("check the server: %w", err)
	}
	s.batchBytes.Store(int64(batch))
	return warnings, srv.upkeep(), nil
}

// upkeep returns what must be done regularly with these settings. The server does not say whether
// it is done, so only a migration mentions it.
func (v server) upkeep() []string {
	if !strings.EqualFold(v.settings["paxos_state_purging"], "repaired") {
		return nil
	}
	return []string{"paxos_state_purging is repaired: each conditional write leaves a row in system.paxos, which grows until the keyspace " +
		"is repaired (nodetool repair, or repair --paxos-only, on each node every few days); without repairs set it to gc_grace"}
}

func (s *Store) server(ctx context.Context) (server, error) {
	srv := server{settings: make(map[string]string)}
	var theirs time.Time
	var sent time.Time
	err := s.repeat(ctx, selectLocal, reading, func() error {
		sent = s.cfg.Now()
		return s.session.Query(string(selectLocal)).WithContext(ctx).Consistency(gocql.One).
			Scan(&srv.version, &srv.datacenter, &theirs)
	})
	if err != nil {
		return server{}, err
	}
	ours := s.cfg.Now()
	switch { // the true offset lies within the round trip
	case theirs.Before(sent):
		srv.offset = theirs.Sub(sent)
	case theirs.After(ours):
		srv.offset = theirs.Sub(ours)
	}
	type setting struct{ name, value string }
	rows, err := readPages(ctx, s.core, selectServerSettings, &s.smallRows, 10*maxPageRows, nil,
		func(iter *gocql.Iter) (v setting, size int, keep, more bool) {
			more = iter.Scan(&v.name, &v.value)
			return v, 128, true, more
		})
	if err != nil {
		return server{}, err
	}
	for _, r := range rows {
		srv.settings[r.name] = r.value
	}
	return srv, nil
}

// judge returns how large a batch may be, what is worth a warning, and what breaks a promise.
func (v server) judge(now time.Time) (batch int, warnings []string, err error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	warn := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }

	switch major, minor, ok := versionOf(v.version); {
	case !ok:
		warn("version %q cannot be understood: 5.0 is wanted", v.version)
	case major < 4 || major == 4 && minor < 1:
		fault("version %s: at least 4.1 is needed, 5.0 is wanted", v.version)
	case major == 4:
		fault("version %s has no unified compaction, which the tables use: 5.0 is needed", v.version)
	}

	if mode := v.settings["storage_compatibility_mode"]; !strings.EqualFold(mode, "NONE") {
		text := fmt.Sprintf("storage_compatibility_mode is %q, so nothing may expire after %s: set it to NONE", mode, expiryLimit.Format(time.DateOnly))
		if now.Add(furthestDue).After(expiryLimit) {
			faults = append(faults, errors.New(text+"; jobs may be due ten years ahead"))
		} else {
			warnings = append(warnings, text)
		}
	}

	batch = maxBatchBytes
	if text := v.settings["batch_size_fail_threshold"]; text != "" {
		fails, ok := parseSize(text)
		switch {
		case !ok:
			warn("batch_size_fail_threshold %q cannot be understood", text)
		case fails/2 < minBatchBytes:
			fault("batch_size_fail_threshold is %s: at least %d KiB are needed, 1024 KiB are wanted", text, 2*minBatchBytes>>10)
		case fails/2 < maxBatchBytes: // the server also counts what we do not: half is room enough
			batch = fails / 2
			warn("batch_size_fail_threshold is %s: batches are cut to %d KiB, which costs speed; 1024 KiB are wanted", text, batch>>10)
		}
	}
	if text := v.settings["batch_size_warn_threshold"]; text != "" {
		if warns, ok := parseSize(text); ok && warns < batch {
			warn("batch_size_warn_threshold is %s: the server's log will fill with warnings; 256 KiB are wanted", text)
		}
	}
	if variant := v.settings["paxos_variant"]; !strings.HasPrefix(strings.ToLower(variant), "v2") {
		warn("paxos_variant is %q: v2 halves the round trips of conditional writes", variant)
	}
	if sync := v.settings["commitlog_sync"]; strings.EqualFold(sync, "group") || strings.EqualFold(sync, "batch") {
		if writes, err := strconv.Atoi(v.settings["concurrent_writes"]); err == nil && writes < wantedWrites {
			warn("concurrent_writes is %d with commitlog_sync %s: each write keeps its thread until the log is synced, so no more than so many are done in each sync; %d are wanted", writes, sync, wantedWrites)
		}
	}
	if d := v.offset.Abs(); d > maxClockDifference {
		warn("the server's clock is %s away from ours", v.offset.Round(time.Millisecond))
	}
	return batch, warnings, errors.Join(faults...)
}

// versionOf returns the first two numbers of a version such as "5.0.6" or "5.1-beta1".
func versionOf(text string) (major, minor int, ok bool) {
	n, err := fmt.Sscanf(text, "%d.%d", &major, &minor)
	return major, minor, n == 2 && err == nil
}

// parseSize understands "50KiB", "1MiB", "1024B" and plain numbers of bytes.
func parseSize(text string) (int, bool) {
	unit := 1
	for _, u := range []struct {
		suffix string
		factor int
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}} {
		if rest, found := strings.CutSuffix(text, u.suffix); found {
			text, unit = rest, u.factor
			break
		}
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	return n * unit, err == nil && n >= 0
}

var _ schema.Prober = (*Store)(nil)

// Examination is what one look at a Cassandra cluster tells. What could not be read is empty.
type Examination struct {
	Version, Datacenter string                   // of the node that answered
	Settings            map[string]string        // of that node, those in examined
	Warnings            []string                 // of Check, and what must be done regularly
	Fault               error                    // of Check: what breaks a promise
	Replication         map[string]string        // of the keyspace; nil: there is no such keyspace
	Copies              int                      // of each row in the data centre that is ours
	Nodes               int                      // of that data centre, up or down; 0: not known
	Grace               map[string]time.Duration // gc_grace by table of the keyspace
	Migrations          []string                 // applied, by name, in order
	NotMigrated         error                    // why a node of this build would not run on the keyspace
	Unread              []error                  // what could not be read
}

// examined are the settings that an examination tells. Others may hold passwords.
var examined = []string{
	"batch_size_fail_threshold", "batch_size_warn_threshold", "cluster_name", "commitlog_sync", "commitlog_sync_group_window",
	"commitlog_sync_period", "concurrent_writes", "hinted_handoff_enabled", "max_hint_window", "paxos_state_purging", "paxos_variant",
	"storage_compatibility_mode",
}

// Connect is Open without a check: for what looks at a cluster that may not be as Open wants it. The
// store is to be read from only.
func Connect(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return connect(ctx, cfg, cfg.withDefaults().Keyspace)
}

// Examine reads how the cluster and the keyspace stand. It writes nothing.
func (s *Store) Examine(ctx context.Context) Examination {
	e := Examination{Settings: make(map[string]string), Grace: make(map[string]time.Duration)}
	srv, err := s.server(ctx)
	if err == nil {
		e.Version, e.Datacenter = srv.version, srv.datacenter
		for _, name := range examined {
			if value, ok := srv.settings[name]; ok {
				e.Settings[name] = value
			}
		}
		var upkeep []string
		e.Warnings, upkeep, e.Fault = s.check(ctx)
		e.Warnings = append(e.Warnings, upkeep...)
	}
	p, perr := s.placement(ctx, s.cfg.Keyspace)
	if perr == nil {
		e.Replication = p.replication
		e.Copies, _ = p.judge(s.cfg.Datacenter, s.cfg.Datacenters...)
		for _, n := range p.nodes {
			if n.datacenter == s.cfg.Datacenter {
				e.Nodes++
			}
		}
	}
	gerr := s.readGrace(ctx, e.Grace)
	done, merr := s.appliedMigrations(ctx)
	for _, a := range done {
		e.Migrations = append(e.Migrations, a.name)
	}
	if merr == nil || errors.Is(merr, ErrNotMigrated) {
		e.NotMigrated, merr = s.checkMigrated(ctx), nil
	}
	for _, err := range []error{err, perr, gerr, merr} {
		if err != nil {
			e.Unread = append(e.Unread, err)
		}
	}
	return e
}

// readGrace reads gc_grace of each table of the keyspace.
func (s *Store) readGrace(ctx context.Context, grace map[string]time.Duration) error {
	type table struct {
		name    string
		seconds int
	}
	rows, err := readPages(ctx, s.core, selectGrace, &s.smallRows, maxPageRows, []any{s.cfg.Keyspace},
		func(iter *gocql.Iter) (v table, size int, keep, more bool) {
			more = iter.Scan(&v.name, &v.seconds)
			return v, 128, true, more
		})
	if err != nil {
		return fmt.Errorf("read gc_grace of the tables of keyspace %s: %w", s.cfg.Keyspace, err)
	}
	for _, r := range rows {
		grace[r.name] = time.Duration(r.seconds) * time.Second
	}
	return nil
}

// ErrReplication: the keyspace's replication breaks a promise; the text says how. It takes ALTER
// KEYSPACE, or another keyspace.
var ErrReplication = errors.New("the keyspace's replication does not do")

// placement is where the copies of a keyspace lie.
type placement struct {
	// as system_schema.keyspaces has it; nil: there is no such keyspace
	replication map[string]string
	nodes       []placed // of the whole cluster; none where the server does not tell
}

// placed is where one node stands.
type placed struct{ datacenter, rack string }

// placement reads where the copies of the keyspace lie.
func (s *Store) placement(ctx context.Context, keyspace string) (placement, error) {
	var p placement
	err := s.one(ctx, selectReplication, []any{keyspace}, &p.replication)
	if errors.Is(err, schema.ErrNotFound) {
		return placement{}, nil
	}
	if err != nil {
		return p, fmt.Errorf("read the replication of keyspace %s: %w", keyspace, err)
	}
	p.nodes, err = readPages(ctx, s.core, selectNodes, &s.smallRows, maxPageRows, nil,
		func(iter *gocql.Iter) (n placed, size int, keep, more bool) {
			var status string
			more = iter.Scan(&n.datacenter, &n.rack, &status)
			return n, 128, !strings.HasPrefix(strings.ToUpper(status), "LEFT") && !strings.HasPrefix(strings.ToUpper(status), "REMOVED"), more
		})
	if errors.Is(err, schema.ErrUnavailable) {
		return p, fmt.Errorf("read the nodes of the cluster: %w", err)
	}
	return p, nil // a user that may not read the nodes gets fewer warnings
}

// copies returns in which data centres there are copies, in order, and how many there are in each,
// as a strategy that knows of data centres says.
func (p *placement) copies() (datacenters []string, n map[string]int) {
	n = make(map[string]int)
	for name, text := range p.replication {
		if name == "class" {
			continue
		}
		count, _, _ := strings.Cut(text, "/") // "3/1": one of them is transient
		if c, err := strconv.Atoi(count); err == nil && c > 0 {
			datacenters, n[name] = append(datacenters, name), c
		}
	}
	slices.Sort(datacenters)
	return datacenters, n
}

// all returns the data centres and racks of the nodes, the racks of one data centre alone.
func (p *placement) all(datacenter string) (datacenters, racks []string) {
	for _, n := range p.nodes {
		datacenters = append(datacenters, n.datacenter)
		if n.datacenter == datacenter {
			racks = append(racks, n.rack)
		}
	}
	slices.Sort(datacenters)
	slices.Sort(racks)
	return slices.Compact(datacenters), slices.Compact(racks)
}

// twoCentres says why a keyspace may not lie in several data centres.
const twoCentres = "conditional writes are decided within one data centre, so a run could start once in each: one data centre is supported, unless there are regions (regions.*)"

// judge returns how many copies there are in the data centre that is ours, and what breaks a
// promise. regions are the data centres of all regions; none: there are no regions.
func (p *placement) judge(datacenter string, regions ...string) (copies int, err error) {
	if p.replication == nil {
		return 0, nil
	}
	in, n := p.copies()
	if len(regions) > 0 {
		want := slices.Sorted(slices.Values(regions))
		if !strings.HasSuffix(p.replication["class"], "NetworkTopologyStrategy") || !slices.Equal(in, want) {
			return 0, fmt.Errorf("%w: copies lie in %s, and the regions are in %s (regions.datacenters): ALTER KEYSPACE … WITH replication = "+
				"{'class': 'NetworkTopologyStrategy', and 3 copies in each of those}, then nodetool rebuild -- %s on each node of a data centre that is new, "+
				"before a region begins there", ErrReplication, or(strings.Join(in, " and "), "no data centre by name"), strings.Join(want, " and "), rebuiltFrom(in, datacenter))
		}
		return n[datacenter], nil
	}
	switch class := p.replication["class"]; {
	case strings.HasSuffix(class, "SimpleStrategy"):
		if all, _ := p.all(datacenter); len(all) > 1 {
			return 0, fmt.Errorf("%w: SimpleStrategy spreads copies over the data centres %s; %s", ErrReplication, strings.Join(all, " and "), twoCentres)
		}
		return n["replication_factor"], nil
	case strings.HasSuffix(class, "NetworkTopologyStrategy"):
		switch {
		case len(in) > 1:
			return 0, fmt.Errorf("%w: copies lie in the data centres %s; %s", ErrReplication, strings.Join(in, " and "), twoCentres)
		case len(in) == 1 && in[0] != datacenter:
			return 0, fmt.Errorf("%w: copies lie in the data centre %s, and ours is %s (cassandra.datacenter)", ErrReplication, in[0], datacenter)
		}
		return n[datacenter], nil
	}
	return 0, nil
}

// judgeShared returns what is wrong with the copies of what regions share: it must have so many in
// each of these data centres, and none elsewhere. Who serves a home is decided by most copies of
// all data centres together, so one that is missing, or one too many, moves what may be lost.
func (p *placement) judgeShared(keyspace string, r *Regions) error {
	in, n := p.copies()
	if strings.HasSuffix(p.replication["class"], "NetworkTopologyStrategy") && maps.Equal(n, r.Copies) {
		return nil
	}
	return fmt.Errorf("%w: keyspace %s, which regions share, has %s, and the configuration says %s (regions.datacenters, regions.witness): "+
		"set that right, or ALTER KEYSPACE %s WITH replication = %s, and then nodetool rebuild --keyspace %s -- %s on each node of a data centre that is new, and nodetool repair %s",
		ErrReplication, keyspace, describeCopies(in, n), describeCopies(slices.Sorted(maps.Keys(r.Copies)), r.Copies), keyspace, r.replication(), keyspace, rebuiltFrom(in, "DATA_CENTRE"), keyspace)
}

// describeCopies says how many copies there are in which data centres.
func describeCopies(datacenters []string, n map[string]int) string {
	if len(datacenters) == 0 {
		return "copies in no data centre by name"
	}
	var parts []string
	for _, dc := range datacenters {
		parts = append(parts, fmt.Sprintf("%d in %s", n[dc], dc))
	}
	return strings.Join(parts, ", ")
}

// rebuiltFrom returns the data centre of which another is rebuilt: the first with copies.
func rebuiltFrom(in []string, datacenter string) string {
	if len(in) > 0 {
		return in[0]
	}
	return datacenter
}

// warn returns what is worth a warning with a commit log that is synced in that mode.
func (p *placement) warn(datacenter string, copies int, commitLog string) []string {
	if p.replication == nil || !strings.EqualFold(commitLog, "periodic") {
		return nil
	}
	_, racks := p.all(datacenter)
	const loses = "a power cut of all replicas at once loses the last acknowledged writes, jobs among them: commitlog_sync group or batch is wanted"
	switch {
	case copies == 1:
		return []string{"commitlog_sync is periodic and there is one copy of each row: " + loses}
	case len(racks) == 1:
		return []string{fmt.Sprintf("commitlog_sync is periodic and all nodes are in one rack (%s): %s, or racks with power of their own", racks[0], loses)}
	}
	return nil
}
