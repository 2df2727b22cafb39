package cassandra

import (
	"log/slog"
	"net"
	"reflect"
	"strconv"
	"testing"
	"unsafe"

	"github.com/gocql/gocql"
)

// setField sets a field of the driver's that it has no method for.
func setField(of any, name string, value any) {
	f := reflect.ValueOf(of).Elem().FieldByName(name)
	reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(reflect.ValueOf(value)) // #nosec G103 -- a test
}

// driverPolicy returns the driver's token-aware policy of a session whose keyspaces have these
// replications. It needs no server.
func driverPolicy(keyspace string, replications map[string]map[string]any) gocql.HostSelectionPolicy {
	p := gocql.TokenAwareHostPolicy(gocql.DCAwareRoundRobinPolicy("dc1"))
	setField(p, "getKeyspaceName", func() string { return keyspace })
	setField(p, "getKeyspaceMetadata", func(name string) (*gocql.KeyspaceMetadata, error) {
		options, ok := replications[name]
		if !ok {
			return nil, gocql.ErrKeyspaceDoesNotExist
		}
		return &gocql.KeyspaceMetadata{Name: name, StrategyClass: "NetworkTopologyStrategy", StrategyOptions: options}, nil
	})
	return p
}

func hostAt(n int) *gocql.HostInfo {
	h := new(gocql.HostInfo)
	h.SetConnectAddress(net.IPv4(127, 0, 0, byte(n))) // #nosec G115 -- small
	h.SetHostID(strconv.Itoa(n))
	setField(h, "dataCenter", "dc1")
	setField(h, "rack", "r1")
	setField(h, "tokens", []string{strconv.Itoa(n * 1000)})
	return h
}

var (
	here      = map[string]any{"class": "NetworkTopologyStrategy", "dc1": "1"}
	elsewhere = map[string]any{"class": "NetworkTopologyStrategy", "dc2": "1"}
)

// panics reports whether f does.
func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

// TestTheDriverPanicsForAKeyspaceElsewhere: what guarded is for. Where this fails, the driver has
// mended it, and guarded may go.
func TestTheDriverPanicsForAKeyspaceElsewhere(t *testing.T) {
	p := driverPolicy("ours", map[string]map[string]any{"ours": here, "theirs": elsewhere})
	p.AddHost(hostAt(1))
	p.SetPartitioner("Murmur3Partitioner")
	if !panics(func() { p.KeyspaceChanged(gocql.KeyspaceUpdateEvent{Keyspace: "theirs", Change: "CREATED"}) }) {
		t.Error("KeyspaceChanged of a keyspace elsewhere does not panic")
	}
	p = driverPolicy("ours", map[string]map[string]any{"ours": elsewhere})
	p.AddHost(hostAt(1))
	if !panics(func() { p.SetPartitioner("Murmur3Partitioner") }) {
		t.Error("SetPartitioner with our keyspace elsewhere does not panic")
	}
}

// TestAKeyspaceElsewhereEndsNothing: whatever the driver's policy makes of keyspaces in other data
// centres, the hosts of ours are still offered, also those that come later.
func TestAKeyspaceElsewhereEndsNothing(t *testing.T) {
	for name, test := range map[string]struct {
		replications map[string]map[string]any
		broken       bool
	}{
		"somebody's":        {map[string]map[string]any{"ours": here, "theirs": elsewhere}, false},
		"ours":              {map[string]map[string]any{"ours": elsewhere}, true},
		"ours, as it seems": {map[string]map[string]any{"ours": here}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded("ours", driverPolicy("ours", test.replications), gocql.DCAwareRoundRobinPolicy("dc1"), slog.New(slog.DiscardHandler))
			g.AddHost(hostAt(1))
			g.SetPartitioner("Murmur3Partitioner")
			for _, keyspace := range []string{"theirs", "ours"} {
				g.KeyspaceChanged(gocql.KeyspaceUpdateEvent{Keyspace: keyspace, Change: "UPDATED"})
			}
			g.AddHost(hostAt(2)) // the driver's policy would wait for its own lock for ever
			g.HostDown(hostAt(1))
			g.HostUp(hostAt(1))
			gone := hostAt(3)
			g.AddHost(gone)
			g.RemoveHost(gone)
			if got := g.broken.Load(); got != test.broken {
				t.Errorf("the driver's policy is given up: %v, want %v", got, test.broken)
			}
			offered := map[string]bool{}
			next := g.Pick(nil)
			for h := next(); h != nil; h = next() {
				offered[h.Info().HostID()] = true
			}
			if len(offered) != 2 || !offered["1"] || !offered["2"] {
				t.Errorf("hosts offered: %v, want 1 and 2", offered)
			}
		})
	}
}
