package config

import (
	"net"
	"strconv"
	"strings"
)

// Dev returns the configuration of carillon dev without any setting: one process on 127.0.0.1 that
// may call this machine.
func Dev() Config {
	c := Default()
	c.Node.Name = "dev"
	c.API.Listen = DevListen(DevPort)
	c.Executor.AllowCIDRs = []string{"127.0.0.0/8", "::1/128"}
	c.Cassandra.Hosts, c.NATS.URLs = []string{"embedded"}, []string{"embedded"} // it has its own
	return c
}

// DevPort is where carillon dev listens unless it is told otherwise.
const DevPort = 8080

// DevListen returns api.listen of carillon dev.
func DevListen(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// LoadDev is Load for carillon dev, with base in place of the defaults. A setting that cannot be
// changed in one process is a fault: ignoring it would surprise the user.
func LoadDev(base Config, path string, environ []string, set map[string]any) (Config, error) {
	l := loader{fixed: fixedInDev}
	return l.load(base, path, environ, set)
}

// fixedInDev says why a key cannot be set in carillon dev, "" if it can.
func fixedInDev(key string) string {
	group, _, _ := strings.Cut(key, ".")
	switch {
	case key == "roles":
		return "carillon dev has all roles"
	case key == "api.listen", key == "api.advertise":
		return "carillon dev listens on 127.0.0.1: --port says where"
	case key == "api.auth", key == "api.protect_metrics":
		return "carillon dev asks for no keys, as only this machine reaches it: --auth has it ask for them"
	case strings.HasPrefix(key, "api.tls."):
		return "carillon dev has no TLS: only this machine reaches it"
	case strings.HasPrefix(key, "api.oidc."):
		return "carillon dev asks for no tokens: only this machine reaches it"
	case group == "ring":
		return "carillon dev is alone, without gossip"
	case group == "regions":
		return "carillon dev is one node, and so one region"
	case group == "cassandra":
		return "carillon dev has a store of its own, in this process: carillon serve uses Cassandra"
	case group == "nats" && key != "nats.lanes":
		return "carillon dev has a NATS server of its own, in this process: --nats-port lets others reach it"
	}
	return ""
}
