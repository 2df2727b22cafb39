package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/cmd/internal/clockcheck"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
)

// newClock makes the comparison of the node's clock with those of the Cassandra and NATS hosts.
func (n *Node) newClock() (*clockcheck.Clock, error) {
	began := time.Now()
	return clockcheck.New(clockcheck.Config{
		Sources: func() []schema.HostClock { return slices.Concat(n.store.Clocks(), n.queue.Clocks()) },
		HostOf:  hostResolver(n.cfg, net.InterfaceAddrs, net.DefaultResolver.LookupNetIP),
		Read: func() (time.Time, time.Duration) {
			now := time.Now()
			return now, now.Sub(began)
		},
		Set: n.halt.Subscribe(), Changed: n.suspendDispatch, Logger: n.log, Registerer: n.reg,
	})
}

// hostResolver returns a func that finds the host of a server:
//
//	"" if the server is in this process or on our machine: at an address of one of its interfaces,
//	at an advertised address, or on the host that node.host names
//	else the host that clock.hosts gives for its name or address
//	else its address
//	else its name, with an error: the name cannot be resolved
func hostResolver(c config.Config, interfaces func() ([]net.Addr, error), lookUp lookUp) func(context.Context, schema.HostClock) (string, error) {
	hosts := c.Clock.Names()
	advertised := advertisedHosts(c)
	names := &addresses{lookUp: lookUp, known: make(map[string]string)}
	return func(ctx context.Context, server schema.HostClock) (string, error) {
		if server.Host == "" {
			return "", nil
		}
		address, err := names.of(ctx, server.Host)
		for _, known := range []string{server.Name, server.Host, address} {
			if known == "localhost" || slices.Contains(advertised, known) {
				return "", nil
			}
		}
		if ours(address, interfaces) {
			return "", nil
		}
		for _, known := range []string{server.Name, server.Host, address} {
			if host, named := hosts[strings.ToLower(known)]; named {
				address, err = host, nil
				break
			}
		}
		if address == c.Node.Host {
			return "", nil
		}
		return address, err
	}
}

// ours reports whether address belongs to one of this machine's interfaces.
func ours(address string, interfaces func() ([]net.Addr, error)) bool {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return false // a name
	}
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	addrs, err := interfaces()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(addrs, func(a net.Addr) bool {
		p, ok := a.(*net.IPNet)
		return ok && p.IP.Equal(net.IP(ip.AsSlice()))
	})
}

// lookUp resolves a name, as net.Resolver.LookupNetIP does.
type lookUp func(ctx context.Context, network, name string) ([]netip.Addr, error)

// addresses resolves the names of servers that were not reached yet.
type addresses struct {
	lookUp lookUp

	mu    sync.Mutex
	known map[string]string // by name: the last address found
}

// of returns the address of a host, which may be an address already. Of several addresses it
// returns the first in order (IPv4 before IPv6), so that all nodes take the same. If the name
// cannot be resolved, it returns the last address found, or else the name and an error. ctx bounds
// the look-up.
func (a *addresses) of(ctx context.Context, host string) (string, error) {
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" {
		return host, nil
	}
	found, err := a.lookUp(ctx, "ip", host)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil && len(found) > 0:
		for i := range found {
			found[i] = found[i].Unmap()
		}
		a.known[host] = slices.MinFunc(found, netip.Addr.Compare).String()
	case a.known[host] == "":
		return host, fmt.Errorf("resolve %s: %w", host, cmp.Or(err, errNoAddress))
	}
	return a.known[host], nil
}

// errNoAddress says that a name is known and has no address.
var errNoAddress = errors.New("the name has no address")

// advertisedHosts returns the hosts in the addresses under which others reach the node.
func advertisedHosts(c config.Config) (hosts []string) {
	if u, err := url.Parse(c.API.Advertise); err == nil && u.Hostname() != "" {
		hosts = append(hosts, u.Hostname())
	}
	if host, _, err := net.SplitHostPort(c.Ring.Advertise); err == nil {
		hosts = append(hosts, host)
	}
	return hosts
}
