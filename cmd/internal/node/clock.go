package node

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"carillon.dev/carillon/cmd/internal/clockcheck"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
)

// newClock returns what compares the node's clock with those of Cassandra's hosts and of the NATS servers.
func (n *Node) newClock() (*clockcheck.Clock, error) {
	began := time.Now()
	return clockcheck.New(clockcheck.Config{
		Sources: func() []schema.HostClock { return slices.Concat(n.store.Clocks(), n.queue.Clocks()) },
		HostOf:  machines(n.cfg, net.InterfaceAddrs),
		Read: func() (time.Time, time.Duration) {
			now := time.Now()
			return now, now.Sub(began)
		},
		Set: n.halt.Subscribe(), Changed: n.rest, Logger: n.log, Registerer: n.reg,
	})
}

// machines returns the host of a server's address: what clock.hosts calls it, else the address. It is "" if the server
// is in this process, or on our machine: at an address of one of the machine's interfaces, at the one that the node
// tells others, or on the host that node.host names.
func machines(c config.Config, interfaces func() ([]net.Addr, error)) func(string) string {
	names := c.Clock.Names()
	advertised := advertisedHosts(c)
	return func(address string) string {
		host := address
		if name, ok := names[address]; ok {
			host = name
		}
		if address == "" || host == c.Node.Host || slices.Contains(advertised, address) || address == "localhost" {
			return ""
		}
		ip, err := netip.ParseAddr(address)
		if err != nil {
			return host // a name: the server was not reached yet
		}
		if ip.IsLoopback() || ip.IsUnspecified() {
			return ""
		}
		addrs, err := interfaces()
		if err != nil {
			return host
		}
		for _, a := range addrs {
			if p, ok := a.(*net.IPNet); ok && p.IP.Equal(net.IP(ip.AsSlice())) {
				return ""
			}
		}
		return host
	}
}

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
