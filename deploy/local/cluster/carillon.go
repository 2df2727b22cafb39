package cluster

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"go.yaml.in/yaml/v3"

	"carillon.dev/carillon/deploy/local/wan"
)

// This file holds all that is known here of the program carillon: its configuration keys, its
// command lines and when a node is ready. When `carillon serve` changes, this is the place to
// follow.

// carillonConfig is the configuration file of a node, keys as `carillon serve --config` reads them.
type carillonConfig struct {
	Node struct {
		Name   string `yaml:"name"`
		Region string `yaml:"region,omitempty"`
	} `yaml:"node"`
	Roles []string `yaml:"roles"`
	API   struct {
		Listen    string `yaml:"listen"`
		CursorKey string `yaml:"cursor_key"` // signs the cursors of lists
		Auth      string `yaml:"auth,omitempty"`
	} `yaml:"api"`
	Admin struct {
		Listen string `yaml:"listen"` // profiles
	} `yaml:"admin,omitempty"`
	Ring struct {
		Listen string   `yaml:"listen"`
		Seeds  []string `yaml:"seeds"`
		Key    string   `yaml:"key"` // base64 of 32 bytes
	} `yaml:"ring"`
	Cassandra struct {
		Hosts      []string `yaml:"hosts"`
		Keyspace   string   `yaml:"keyspace"`
		DataCenter string   `yaml:"datacenter"`
	} `yaml:"cassandra"`
	NATS struct {
		URLs []string `yaml:"urls"`
	} `yaml:"nats"`
	Executor struct {
		AllowCIDRs []string `yaml:"allow_cidrs"` // private targets that jobs may call
	} `yaml:"executor"`
	Regions map[string]any `yaml:"regions,omitempty"` // as RegionsSpec.Settings says
}

// carillonKeyspace is the keyspace of the local nodes.
const carillonKeyspace = "carillon"

// renderCarillon renders the configuration of node index.
func renderCarillon(p plan, index int) ([]byte, error) {
	var c carillonConfig
	c.Node.Name = p.nodeName(index)
	c.Roles = p.Spec.rolesOf(index)
	c.API.Listen = p.addr(kindCarillon, index, apiBasePort+index)
	c.API.CursorKey = p.CursorKey
	if p.Spec.Profiles {
		c.Admin.Listen = p.addr(kindCarillon, index, adminBasePort+index)
	}
	c.Ring.Listen = p.addr(kindCarillon, index, ringBasePort+index)
	for i := 1; i <= p.Spec.Nodes; i++ {
		c.Ring.Seeds = append(c.Ring.Seeds, p.addr(kindCarillon, i, ringBasePort+i))
	}
	c.Ring.Key = p.RingKey
	c.Cassandra.Hosts = p.cqlAddrs()
	c.Cassandra.Keyspace = carillonKeyspace
	c.Cassandra.DataCenter = p.Spec.DataCenter
	c.NATS.URLs = p.natsURLs()
	c.Executor.AllowCIDRs = []string{"127.0.0.0/8"} // local receivers live on the loopback
	if p.Spec.Namespaces {
		// the bridge leads nowhere else
		c.API.Auth = "none"
		c.Executor.AllowCIDRs = []string{p.network().Host() + "/32"} // or on the bridge
	}
	if s := p.Site; s != nil {
		c.Node.Region, c.Cassandra.Keyspace, c.Regions = s.Name, s.Keyspace, s.Settings
		// its addresses lead nowhere else
		c.API.Auth = "none"
		c.Executor.AllowCIDRs = []string{wan.Host(s.Network) + "/32"}
	}
	text, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("render carillon.yaml: %w", err)
	}
	return text, nil
}

// carillonServe is the command line of a node.
func carillonServe(program, config string) []string {
	return []string{program, "serve", "--config", config}
}

// migrate brings the schema up to date, with as many replicas as there are Cassandra nodes, at most
// three.
func migrate(ctx context.Context, program, dir, config string, p plan) error {
	_, err := run(ctx, dir, program, "migrate", "--config", config, "--replication", strconv.Itoa(min(p.Spec.Cassandra, 3)),
		"--shards", strconv.Itoa(p.Spec.Shards))
	return err
}

// Carillon returns the command line of the nodes' program with the configuration of the node name:
// Carillon("carillon-1", "doctor").
func (c *Cluster) Carillon(name string, args ...string) ([]string, error) {
	m, err := c.find(name)
	if err != nil {
		return nil, err
	}
	if m.kind != kindCarillon {
		return nil, fmt.Errorf("%s is not a Carillon node", name)
	}
	argv := append([]string{cmp.Or(c.plan.Spec.Program, filepath.Join(c.dir, "carillon"))}, args...)
	return c.within(m, append(argv, "--config", filepath.Join(c.memberDir(m), "carillon.yaml"))), nil
}

// carillonReady says whether node index is ready for work.
func carillonReady(ctx context.Context, p plan, index int) error {
	return httpReady(ctx, apiURL(p, index)+"/readyz")
}

func apiURL(p plan, index int) string {
	return "http://" + p.addr(kindCarillon, index, apiBasePort+index)
}

// buildCarillon builds the program into dir and returns its path. Not into the cache: two clusters
// may run two versions.
func (c *cache) buildCarillon(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "carillon")
	if _, err := c.goTool(ctx, "build", "-o", path, "./cmd/carillon"); err != nil {
		return "", fmt.Errorf("build carillon: %w", err)
	}
	return path, nil
}
