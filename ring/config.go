package ring

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/prometheus/client_golang/prometheus"
)

// DefaultBind is where gossip listens if nothing else is said.
const DefaultBind = "0.0.0.0:7946"

// Failure detection, tuned for a network of one region: a member that falls silent is found by the
// next probe (≤ 0.5 s with few members), misses it (0.5 s), and is given up when it has not refuted
// the suspicion within 1.5 s, or 3 s if no third member shares it.
const (
	probeInterval    = 500 * time.Millisecond
	probeTimeout     = 200 * time.Millisecond
	suspicionMult    = 3
	suspicionMaxMult = 2
	awarenessMax     = 4 // an ailing node probes at most this much slower
	gossipInterval   = 100 * time.Millisecond
	gossipNodes      = 3
	gossipToTheDead  = 60 * time.Second
	pushPullInterval = 15 * time.Second
	streamTimeout    = 2 * time.Second // of each dial, read and write of a full exchange
	// The name of a dead member may come back at another address at once.
	nameReclaimTime    = time.Nanosecond
	retransmitMult     = 4
	indirectChecks     = 3
	handoffQueueDepth  = 1024
	packetBytes        = 1400
	queueCheckInterval = 30 * time.Second
)

// Key is the secret that all members share, as base64 text of 16, 24 or 32 random bytes. Empty
// means that gossip is readable and open to anybody who reaches the port. It does not print.
type Key string

const redacted = "[redacted]"

// String returns no secret.
func (Key) String() string { return redacted }

// GoString returns no secret.
func (Key) GoString() string { return redacted }

// LogValue returns no secret.
func (Key) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns no secret.
func (Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }

func (k Key) bytes() ([]byte, error) {
	if k == "" {
		return nil, nil
	}
	raw, err := base64.StdEncoding.DecodeString(string(k))
	if err != nil {
		// the error of the decoder would quote the secret's length and place
		return nil, errors.New("key: not base64")
	}
	if n := len(raw); n != 16 && n != 24 && n != 32 {
		return nil, fmt.Errorf("key: %d bytes, want 16, 24 or 32", n)
	}
	return raw, nil
}

// Config describes this member and how it finds the others.
type Config struct {
	// Name is unique in the ring and the same after a restart.
	Name string
	// Incarnation is different in each life; 0 draws it from the clock (µs).
	Incarnation uint64
	// Bind is the IP address and port of the gossip, UDP and TCP; DefaultBind if empty. Port 0
	// takes a free one.
	Bind string
	// Advertise is the IP address and port told to the others; the bound one if empty, or the first
	// private one of the machine.
	Advertise string
	// Seeds are members to join, host:port or host (then with our own gossip port). Names are
	// looked up again at every attempt, and each of their addresses counts. Our own address among
	// them is skipped.
	Seeds []string
	// Key encrypts and authenticates the gossip.
	Key Key
	// API is the base URL of our HTTP interface.
	API string
	// Roles are what this process does.
	Roles []string
	// Zone, Region and Version are announced as they are. Members of another region are ignored.
	Zone, Region, Version string
	// Labels are those of our executor (schema.Labels.String).
	Labels string
	// Shards is how many there are, if known already; [Ring.SetShards] tells later.
	Shards int

	// Logger is slog.Default() if nil.
	Logger *slog.Logger
	// Registerer takes the metrics; nil registers none.
	Registerer prometheus.Registerer

	// transport replaces UDP and TCP in tests.
	transport memberlist.Transport
	// lookup replaces the system's resolver in tests.
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Validate reports every fault, joined.
func (c Config) Validate() error {
	var faults []error
	fault := func(err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("ring: %w", err))
		}
	}
	fault(checkName(c.Name))
	fault(checkShards(c.Shards))
	if _, err := parseAddr(c.bind()); err != nil {
		fault(fmt.Errorf("bind: %w", err))
	}
	if c.Advertise != "" {
		if a, err := parseAddr(c.Advertise); err != nil {
			fault(fmt.Errorf("advertise: %w", err))
		} else if a.Addr().IsUnspecified() || a.Port() == 0 {
			fault(fmt.Errorf("advertise %q: nobody can be reached there", c.Advertise))
		}
	}
	for _, s := range c.Seeds {
		if _, _, err := splitSeed(s, 1); err != nil {
			fault(err)
		}
	}
	if _, err := c.Key.bytes(); err != nil {
		fault(err)
	}
	if len(c.Roles) == 0 {
		fault(fmt.Errorf("roles: none, want some of %v", roles))
	}
	for _, r := range c.Roles {
		if !slices.Contains(roles, r) {
			fault(fmt.Errorf("role %q: want one of %v", r, roles))
		}
	}
	widest := c.member()
	widest.Incarnation = ^uint64(0)
	_, err := encodeMetadata(widest, true)
	fault(err)
	if n := len(label(c.Region)); n > memberlist.LabelMaxSize {
		fault(fmt.Errorf("region: %d bytes too long", n-memberlist.LabelMaxSize))
	}
	return errors.Join(faults...)
}

func (c Config) bind() string {
	if c.Bind == "" {
		return DefaultBind
	}
	return c.Bind
}

// member returns how we describe ourselves; the address is known once gossip listens.
func (c Config) member() Member {
	return Member{
		Name: c.Name, Incarnation: c.Incarnation, API: c.API, Roles: c.Roles,
		Zone: c.Zone, Region: c.Region, Version: c.Version, Labels: c.Labels,
	}.normal()
}

// label begins every packet and stream; those with another label are dropped.
func label(region string) string { return "carillon/" + region }

func parseAddr(text string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q: want IP address:port", text)
	}
	return a, nil
}

// splitSeed returns host and port of a seed, host:port or host alone.
func splitSeed(seed string, defaultPort uint16) (host string, port uint16, err error) {
	fault := fmt.Errorf("seed %q: want host:port or host", seed)
	host, portText, err := net.SplitHostPort(seed)
	if err != nil { // no port
		if seed == "" || hasPortSyntax(seed) {
			return "", 0, fault
		}
		return seed, defaultPort, nil
	}
	n, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || n == 0 || host == "" {
		return "", 0, fault
	}
	return host, uint16(n), nil
}

// hasPortSyntax tells whether a seed that is not host:port has a colon or bracket, and is no bare
// IPv6 address.
func hasPortSyntax(seed string) bool {
	if _, err := netip.ParseAddr(seed); err == nil {
		return false
	}
	for _, r := range seed {
		if r == ':' || r == '[' || r == ']' || r == '/' || r == ' ' {
			return true
		}
	}
	return false
}

// memberlistConfig translates a valid c.
func (c Config) memberlistConfig(d *gossip) (*memberlist.Config, error) {
	bind, err := parseAddr(c.bind())
	if err != nil {
		return nil, err
	}
	key, err := c.Key.bytes()
	if err != nil {
		return nil, err
	}
	m := memberlist.DefaultLANConfig()
	m.Name = c.Name
	m.Transport = c.transport
	m.Label = label(c.Region)
	m.BindAddr, m.BindPort = bind.Addr().String(), int(bind.Port())
	m.AdvertiseAddr, m.AdvertisePort = "", int(bind.Port())
	if c.Advertise != "" {
		a, err := parseAddr(c.Advertise)
		if err != nil {
			return nil, err
		}
		m.AdvertiseAddr, m.AdvertisePort = a.Addr().String(), int(a.Port())
	}
	m.SecretKey = key
	m.TCPTimeout = streamTimeout
	m.ProbeInterval, m.ProbeTimeout = probeInterval, probeTimeout
	m.SuspicionMult, m.SuspicionMaxTimeoutMult = suspicionMult, suspicionMaxMult
	m.AwarenessMaxMultiplier = awarenessMax
	m.GossipInterval, m.GossipNodes, m.GossipToTheDeadTime = gossipInterval, gossipNodes, gossipToTheDead
	m.PushPullInterval = pushPullInterval
	m.RetransmitMult, m.IndirectChecks = retransmitMult, indirectChecks
	m.DeadNodeReclaimTime = nameReclaimTime
	m.HandoffQueueDepth, m.UDPBufferSize, m.QueueCheckInterval = handoffQueueDepth, packetBytes, queueCheckInterval
	m.Delegate, m.Events, m.Conflict = d, d, d
	m.Logger = newLogger(d.log)
	return m, nil
}
