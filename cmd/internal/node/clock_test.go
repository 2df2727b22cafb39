package node

import (
	"context"
	"net"
	"strings"
	"testing"

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
		"a name that was not reached yet": {nil, "nats.example", "nats.example"},
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
			if got := machines(c, interfaces)(row.address); got != row.want {
				t.Errorf("host of %q = %q, want %q", row.address, got, row.want)
			}
		})
	}
}

// In one process there is no other clock: the node is ready, and says that nobody checks its clock.
func TestReadyzSaysThatTheClockIsUnchecked(t *testing.T) {
	w := newWorld(t, "a")
	open := w.opener("a")
	open.Store = func(context.Context) (schema.Store, error) { return aloneStore{worldStore{w.store, w}}, nil }
	open.Queue = func(context.Context) (Queue, error) { return aloneQueue{worldQueue{w.broker.Connect("a"), w}}, nil }
	log, heard := listenFor("the clock of this node is unchecked: no other host has a clock to compare with")
	r := start(t, "a", open, log).up()
	await(t, "the node is ready", func() bool {
		status, body := get(t, r.url+"/readyz")
		return status == 200 && strings.Contains(body, "clock (UNCHECKED: no other host has a clock to compare with): ok\n")
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

// A Cassandra and a NATS server that do not say the same: nobody knows who is right, and the node says so.
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

// A node that cannot compare its clock halts: it must not keep shards that nobody else dispatches then.
func TestNodeWhoseClockIsUndecidedFromItsStartRests(t *testing.T) {
	w := newWorld(t, "a", "b")
	open, silent := silenced(w.opener("a"))
	silent.Store(true)
	rests := make(chan bool, 64)
	inner := open.Ring
	open.Ring = func(shards int, api string) (Ring, error) {
		r, err := inner(shards, api)
		return restRing{r, rests}, err
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

// restRing tells what Rest was called with.
type restRing struct {
	Ring
	rests chan<- bool
}

func (r restRing) Rest(rest bool) error {
	r.rests <- rest
	return r.Ring.Rest(rest)
}
