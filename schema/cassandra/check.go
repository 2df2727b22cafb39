package cassandra

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
)

// What the server is compared with.
const (
	// beyond it there is a warning; a node's readiness is judged elsewhere, against a median
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
	copies, misplaced := p.judge(s.cfg.Datacenter)
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
