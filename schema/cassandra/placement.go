package cassandra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
)

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
const twoCentres = "conditional writes are decided within one data centre, so a run could start once in each: one data centre is supported"

// judge returns how many copies there are in the data centre that is ours, and what breaks a
// promise.
func (p *placement) judge(datacenter string) (copies int, err error) {
	if p.replication == nil {
		return 0, nil
	}
	in, n := p.copies()
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
