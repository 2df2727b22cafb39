package node

import (
	"net"
	"net/url"

	"carillon.dev/carillon/bucketer/httpapi"
)

// hosts returns which hosts a request to the API at an address may name: any, unless only this
// machine can reach it.
func hosts(at net.Addr, advertise string) func(string) bool {
	if tcp, ok := at.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return nil
	}
	if u, err := url.Parse(advertise); err == nil && u.Hostname() != "" {
		return httpapi.LocalHost(u.Hostname())
	}
	return httpapi.LocalHost()
}
