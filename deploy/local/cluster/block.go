package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// The ports of a member. They are the same in every cluster: what differs is the block of
// addresses.
const (
	cqlPort         = 9042
	storagePort     = 7000
	jmxBasePort     = 7200 // on 127.0.0.1, where the JVM puts it; counted up by block and node
	natsPort        = 4222
	natsRoutePort   = 6222
	natsMonitorPort = 8222
	apiBasePort     = 18080 // the first Carillon node has the next one
	ringBasePort    = 17945
	adminBasePort   = 19080
	reservePort     = 7199 // held while somebody starts a cluster in the block
)

// lastBlock bounds the search for a free block.
const lastBlock = 99

// A block is the third byte of the loopback addresses 127.0.b.1, 127.0.b.2 … of one cluster. Member
// i of each kind listens on 127.0.b.i, at its usual port; Carillon nodes listen on 127.0.b.1, at
// ports counted up. So several clusters can run at once, and a restarted member keeps its address.
type block int

func (b block) ip(i int) string { return fmt.Sprintf("127.0.%d.%d", b, i) }

func (b block) addr(i, port int) string { return net.JoinHostPort(b.ip(i), strconv.Itoa(port)) }

func (b block) jmxPort(i int) int { return jmxBasePort + 4*int(b) + i }

// errBusy says that an address of the block is in use.
var errBusy = errors.New("in use")

// reserve reserves the block if no address of it that spec needs is in use. Until release is called
// no other program can reserve it; the kernel releases it when this program ends. reserve always
// checks three addresses, so that a small cluster does not take those of a member that was just
// killed.
func (b block) reserve(ctx context.Context, spec Spec) (release func(), err error) {
	guard, err := listen(ctx, b.addr(1, reservePort))
	if err != nil {
		return nil, err
	}
	release = func() { _ = guard.Close() }
	if spec.Namespaces { // its members listen elsewhere
		return release, nil
	}
	var ports []string
	for i := 1; i <= 3; i++ {
		if spec.Cassandra > 0 {
			ports = append(ports, b.addr(i, cqlPort), b.addr(i, storagePort), net.JoinHostPort("127.0.0.1", strconv.Itoa(b.jmxPort(i))))
		}
		if spec.NATS > 0 {
			ports = append(ports, b.addr(i, natsPort), b.addr(i, natsRoutePort), b.addr(i, natsMonitorPort))
		}
	}
	for i := 1; i <= spec.Nodes; i++ {
		ports = append(ports, b.addr(1, apiBasePort+i), b.addr(1, ringBasePort+i), b.addr(1, adminBasePort+i))
	}
	for _, addr := range ports {
		l, err := listen(ctx, addr)
		if err != nil {
			release()
			return nil, err
		}
		if err := l.Close(); err != nil {
			release()
			return nil, fmt.Errorf("try %s: %w", addr, err)
		}
	}
	return release, nil
}

// listen opens addr; an address in use is errBusy.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp4", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s: %w", addr, errBusy)
	}
	if err != nil {
		return nil, fmt.Errorf("try %s: %w", addr, err)
	}
	return l, nil
}

// reserveBlock reserves the first free block from first on.
func reserveBlock(ctx context.Context, first block, spec Spec) (block, func(), error) {
	var firstErr error
	for b := first; b <= lastBlock; b++ {
		release, err := b.reserve(ctx, spec)
		if err == nil {
			return b, release, nil
		}
		if !errors.Is(err, errBusy) {
			return 0, nil, err
		}
		if firstErr == nil {
			firstErr = err
		}
	}
	return 0, nil, fmt.Errorf("no free block of loopback addresses from %s to %s; the first fault: %w (is something listening on every address at that port?)",
		first.ip(1), block(lastBlock).ip(1), firstErr)
}
