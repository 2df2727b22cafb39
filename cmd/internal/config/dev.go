package config

import (
	"net"
	"strconv"
	"strings"
)

// Dev returns the configuration of carillon dev where nothing is set: a system in one process, on
// 127.0.0.1, which may call this machine.
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

// LoadDev is Load for carillon dev: over base, which is Dev or made of it, come file, environment
// and set. What cannot be otherwise in one process is a fault, and not passed over: whoever sets it
// expects something of it.
func LoadDev(base Config, path string, environ []string, set map[string]any) (Config, error) {
	l := loader{fixed: fixedInDev}
	return l.load(base, path, environ, set)
}

// fixedInDev says why carillon dev cannot be told a key, "" if it can.
func fixedInDev(key string) string {
	group, _, _ := strings.Cut(key, ".")
	switch {
	case key == "roles":
		return "carillon dev has all roles"
	case key == "api.listen", key == "api.advertise":
		return "carillon dev listens on 127.0.0.1: --port says where"
	case key == "api.auth", key == "api.protect_metrics":
		return "carillon dev asks for no keys: only this machine reaches it"
	case group == "ring":
		return "carillon dev is alone, without gossip"
	case group == "cassandra":
		return "carillon dev has a store of its own, in this process: carillon serve uses Cassandra"
	case group == "nats" && key != "nats.lanes":
		return "carillon dev has a NATS server of its own, in this process: --nats-port lets others reach it"
	}
	return ""
}
