package node

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/cmd/internal/clockcheck"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
)

func TestWhichMachineAServerIsOn(t *testing.T) {
	interfaces := func() ([]net.Addr, error) {
		return []net.Addr{
			&net.IPNet{IP: net.IPv4(127, 0, 0, 1), Mask: net.CIDRMask(8, 32)}, &net.IPNet{IP: net.IPv4(10, 0, 0, 1), Mask: net.CIDRMask(24, 32)},
			&net.IPNet{IP: net.ParseIP("fd00::1"), Mask: net.CIDRMask(64, 128)},
		}, nil
	}
	resolved := map[string]string{"nats-a.example": "10.0.0.1", "nats-b.example": "10.0.0.2"}
	lookUp := func(_ context.Context, _, name string) ([]netip.Addr, error) {
		if address, ok := resolved[name]; ok {
			return []netip.Addr{netip.MustParseAddr("fd00::9"), netip.MustParseAddr("::ffff:" + address)}, nil
		}
		return nil, errBroken
	}
	for name, row := range map[string]struct {
		change  func(*config.Config)
		address string
		want    string
	}{
		"in this process":                 {nil, "", ""},
		"loopback":                        {nil, "127.0.2.3", ""},
		"loopback by name":                {nil, "localhost", ""},
		"an address of ours":              {nil, "10.0.0.1", ""},
		"an address of ours, IPv6":        {nil, "fd00::1", ""},
		"a neighbour":                     {nil, "10.0.0.2", "10.0.0.2"},
		"a name":                          {nil, "nats-b.example", "10.0.0.2"},
		"a name of ours":                  {nil, "nats-a.example", ""},
		"a name that is not resolved":     {nil, "nats-c.example", "nats-c.example"},
		"a name that we tell others":      {func(c *config.Config) { c.Ring.Advertise = "nats-c.example:7946" }, "nats-c.example", ""},
		"a name that has a host":          {func(c *config.Config) { c.Clock.Hosts = []string{"NATS-c.example=c"} }, "nats-c.example", "c"},
		"a name whose address has a host": {func(c *config.Config) { c.Clock.Hosts = []string{"10.0.0.2=b"} }, "nats-b.example", "b"},
		"a name of ours that has a host":  {func(c *config.Config) { c.Clock.Hosts = []string{"nats-a.example=a"} }, "nats-a.example", ""},
		"an address that we tell others":  {func(c *config.Config) { c.Ring.Advertise = "203.0.113.1:7946" }, "203.0.113.1", ""},
		"a URL that we tell others":       {func(c *config.Config) { c.API.Advertise = "http://203.0.113.2:8080" }, "203.0.113.2", ""},
		"named":                           {func(c *config.Config) { c.Clock.Hosts = []string{"10.0.0.2=b", "10.0.1.2 = b"} }, "10.0.1.2", "b"},
		"named as our host": {func(c *config.Config) {
			c.Node.Host, c.Clock.Hosts = "a", []string{"10.0.0.9=a"}
		}, "10.0.0.9", ""},
		"an address of ours, named": {func(c *config.Config) { c.Clock.Hosts = []string{"10.0.0.1=a"} }, "10.0.0.1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := config.Default()
			if row.change != nil {
				row.change(&c)
			}
			got, err := hostResolver(c, interfaces, lookUp)(t.Context(), schema.HostClock{Host: row.address, Name: row.address})
			if got != row.want || (err != nil) != (got == "nats-c.example") {
				t.Errorf("host of %q = %q, %v, want %q", row.address, got, err, row.want)
			}
		})
	}
}

// A server has one host, whether it was reached or not, and whether its name is resolved or not any
// more.
func TestServerStaysOnItsHost(t *testing.T) {
	var broken error
	lookUp := func(context.Context, string, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("10.0.0.2")}, broken
	}
	for want, hosts := range map[string][]string{"10.0.0.2": nil, "b": {"nats-b.example=b"}} {
		c := config.Default()
		c.Clock.Hosts = hosts
		hostOf := hostResolver(c, net.InterfaceAddrs, lookUp)
		for _, step := range []struct {
			name, address string
			broken        error
		}{
			{"not reached yet", "nats-b.example", nil},
			{"not resolved any more", "nats-b.example", errBroken},
			{"reached", "10.0.0.2", errBroken},
		} {
			broken = step.broken
			if got, err := hostOf(t.Context(), schema.HostClock{Host: step.address, Name: "nats-b.example"}); got != want || err != nil {
				t.Errorf("with clock.hosts %q, %s: host = %q, %v, want %q", hosts, step.name, got, err, want)
			}
		}
	}
}

// Three machines, each with a node, Cassandra and NATS. One is dead while the node of another
// starts: it finds 2 of 3.
func TestNodeStartsWhileOneOfThreeMachinesIsDead(t *testing.T) {
	interfaces := func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.IPv4(10, 0, 0, 1), Mask: net.CIDRMask(24, 32)}}, nil
	}
	lookUp := func(_ context.Context, _, name string) ([]netip.Addr, error) {
		if name != "nats-c.example" {
			return nil, errBroken
		}
		return []netip.Addr{netip.MustParseAddr("10.0.0.3")}, nil
	}
	answers := func(context.Context) (time.Time, error) { return time.Now(), nil }
	dead := func(context.Context) (time.Time, error) { return time.Time{}, errBroken }
	for _, row := range []struct {
		name, nats string
		hosts      []string
		err        string // "" = the clock counts as right
	}{
		{"an address", "10.0.0.3", nil, ""},
		{"a name", "nats-c.example", nil, ""},
		{"a name that is not resolved", "gone.example", nil, "2 of 4 hosts agree with the clock of this node within 1s, 2 did not answer; cannot be resolved, and count as hosts of their own: gone.example"},
		{"a name that is not resolved, of a host", "gone.example", []string{"gone.example=c", "10.0.0.3=c"}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := config.Default()
			c.Clock.Hosts = row.hosts
			if err := c.Clock.Validate(); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			clock, err := clockcheck.New(clockcheck.Config{
				Sources: func() (servers []schema.HostClock) {
					for _, host := range []string{"10.0.0.1", "10.0.0.2"} {
						for range 2 {
							servers = append(servers, schema.HostClock{Host: host, Name: host, Time: answers})
						}
					}
					return append(servers, schema.HostClock{Host: "10.0.0.3", Time: dead}, schema.HostClock{Host: row.nats, Name: row.nats, Time: dead})
				},
				HostOf: hostResolver(c, interfaces, lookUp),
				Read:   func() (time.Time, time.Duration) { now := time.Now(); return now, now.Sub(began) },
				Logger: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			clock.Compare(t.Context())
			if err := clock.Err(); (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
				t.Errorf("Err() = %v, want %q", err, row.err)
			}
		})
	}
}

// In one process there is no other clock: the node is ready, and reports its clock as unchecked.
func TestReadyzSaysThatTheClockIsUnchecked(t *testing.T) {
	w := newWorld(t, "a")
	open := w.opener("a")
	open.Store = func(context.Context) (schema.Store, error) { return aloneStore{worldStore{w.store, w}}, nil }
	open.Queue = func(context.Context) (Queue, error) { return aloneQueue{worldQueue{w.broker.Connect("a"), w}}, nil }
	log, heard := listenFor("the clock of this node is unchecked: no other host has a clock to compare with")
	r := start(t, "a", open, log).up()
	await(t, "the node is ready", func() bool {
		status, body := get(t, r.url+"/readyz")
		return status == 200 && strings.Contains(body, "clock: WARNING, unchecked: no other host has a clock to compare with\n")
	})
	<-heard
	if _, body := get(t, r.url+"/metrics"); !strings.Contains(body, "\ncarillon_clock_unchecked 1\n") {
		t.Error("/metrics has no carillon_clock_unchecked 1")
	}
}

// aloneStore and aloneQueue are those of one process.
type aloneStore struct{ worldStore }

func (s aloneStore) Clocks() []schema.HostClock { return s.Store.Clocks() }

type aloneQueue struct{ worldQueue }

func (q aloneQueue) Clocks() []schema.HostClock { return q.Conn.Clocks() }

// Cassandra and NATS disagree: there is no majority, and the node says so.
func TestReadyzSaysThatThereIsNoMajority(t *testing.T) {
	w := newWorld(t, "a")
	open := w.opener("a")
	open.Queue = func(context.Context) (Queue, error) { return sureQueue{worldQueue{w.broker.Connect("a"), w}}, nil }
	w.offset.Store(int64(20e9))
	r := start(t, "a", open, nil).up()
	await(t, "the node says why it is not ready", func() bool {
		status, body := get(t, r.url+"/readyz")
		return status == 503 && strings.Contains(body, "clock: no majority: 1 of 2 hosts agree with the clock of this node within 1s, 1 differ (198.51.100.1)\n")
	})
}

// sureQueue is on a host whose clock is right.
type sureQueue struct{ worldQueue }

func (q sureQueue) Clocks() []schema.HostClock {
	return []schema.HostClock{{Host: "198.51.100.2", Time: q.Conn.Time}}
}

// A node that cannot compare its clock halts. It must hand over its shards, so that others dispatch
// them.
func TestNodeWhoseClockIsUndecidedFromItsStartRests(t *testing.T) {
	w := newWorld(t, "a", "b")
	open, silent := silenced(w.opener("a"))
	silent.Store(true)
	rests := make(chan bool, 64)
	inner := open.Ring
	open.Ring = func(shards int, api string) (Ring, error) {
		r, err := inner(shards, api)
		return spyRing{r, rests}, err
	}
	log, heard := listenFor("this node dispatches nothing and refuses writes")
	r := start(t, "a", open, log).up()
	if len(rests) != 1 || !<-rests {
		t.Fatal("the ring was not told that the node rests, once, before the node was up")
	}
	<-heard
	if status, body := get(t, r.url+"/readyz"); status != 503 || !strings.Contains(body, "clock: the clock has not been compared with enough others yet: no majority: 1 of 2 hosts") {
		t.Errorf("/readyz = %d\n%swant 503, and why", status, body)
	}
	silent.Store(false)
	await(t, "the ring hears that the node dispatches", func() bool { return len(rests) == 1 && !<-rests })
}

// spyRing records the calls of SuspendDispatch.
type spyRing struct {
	Ring
	rests chan<- bool
}

func (r spyRing) SuspendDispatch(suspend bool) error {
	r.rests <- suspend
	return r.Ring.SuspendDispatch(suspend)
}
