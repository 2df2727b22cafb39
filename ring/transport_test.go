package ring

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// network carries gossip in memory, so that real memberlist runs in a synctest bubble. Packets can
// be lost, and pairs of addresses be cut off from each other.
type network struct {
	mu        sync.Mutex
	endpoints map[string]*endpoint
	random    *rand.Rand
	loss      float64                    // of packets; streams do not lose bytes
	cut       func(from, to string) bool // nil: nothing is cut
}

func newNetwork(t *testing.T) *network {
	seed := rand.Uint64()
	t.Logf("packet loss is drawn with seed %d (memberlist's own draws cannot be seeded)", seed)
	return &network{endpoints: map[string]*endpoint{}, random: rand.New(rand.NewPCG(seed, 0))}
}

// endpoint is one address of the network: a memberlist.Transport.
type endpoint struct {
	network *network
	addr    netip.AddrPort
	packets chan *memberlist.Packet
	streams chan net.Conn
}

func (n *network) listen(addr string) *endpoint {
	e := &endpoint{
		network: n, addr: netip.MustParseAddrPort(addr),
		packets: make(chan *memberlist.Packet, 256), streams: make(chan net.Conn, 16),
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.endpoints[addr] = e
	return e
}

func (n *network) setLoss(p float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss = p
}

func (n *network) setCut(cut func(from, to string) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = cut
}

// isolate cuts one address off from all others.
func (n *network) isolate(addr string) {
	n.setCut(func(from, to string) bool { return (from == addr) != (to == addr) })
}

// route finds who listens at to, as seen from e: silent if the way is cut or the packet lost.
func (n *network) route(e *endpoint, to string, loss bool) (peer *endpoint, silent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.endpoints[e.addr.String()] != e || n.cut != nil && n.cut(e.addr.String(), to) || loss && n.random.Float64() < n.loss {
		return nil, true
	}
	return n.endpoints[to], false
}

func (e *endpoint) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return e.addr.Addr().AsSlice(), int(e.addr.Port()), nil
}

func (e *endpoint) WriteTo(b []byte, to string) (time.Time, error) {
	if peer, silent := e.network.route(e, to, true); peer != nil && !silent {
		select {
		case peer.packets <- &memberlist.Packet{Buf: append([]byte(nil), b...), From: net.UDPAddrFromAddrPort(e.addr), Timestamp: time.Now()}:
		default: // a full socket buffer drops too
		}
	}
	return time.Now(), nil
}

func (e *endpoint) DialTimeout(to string, timeout time.Duration) (net.Conn, error) {
	peer, silent := e.network.route(e, to, false)
	if silent {
		time.Sleep(timeout) // in the bubble
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("timed out")}
	}
	if peer == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("refused")}
	}
	near, far := net.Pipe()
	select {
	case peer.streams <- far:
		return near, nil
	default:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("%s: backlog full", to)}
	}
}

func (e *endpoint) PacketCh() <-chan *memberlist.Packet { return e.packets }

func (e *endpoint) StreamCh() <-chan net.Conn { return e.streams }

func (e *endpoint) Shutdown() error {
	e.network.mu.Lock()
	defer e.network.mu.Unlock()
	if e.network.endpoints[e.addr.String()] == e {
		delete(e.network.endpoints, e.addr.String())
	}
	return nil
}
