package node

import (
	"net"
	"net/url"

	"carillon.dev/carillon/bucketer/httpapi"
)

// hosts returns a func that says which hosts a request to the API may name: any host, unless only
// this machine can reach the address.
func hosts(at net.Addr, advertise string) func(string) bool {
	if tcp, ok := at.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return nil
	}
	if u, err := url.Parse(advertise); err == nil && u.Hostname() != "" {
		return httpapi.LocalHost(u.Hostname())
	}
	return httpapi.LocalHost()
}
