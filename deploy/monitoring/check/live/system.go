package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
)

// system is Carillon under load.
type system interface {
	api() string       // base URL of a node that is not killed while another lives
	targets() []string // host:port of each node
	// crash kills a node as a crash would; revive starts it again. In between, api may not answer.
	crash(ctx context.Context) error
	revive(ctx context.Context) error
	stop(ctx context.Context) error
}

func startSystem(ctx context.Context, o options, dir string) (system, error) {
	switch o.system {
	case "dev":
		return startDev(ctx, o.carillon, dir)
	case "cluster":
		return startCluster(ctx, o, dir)
	}
	return nil, fmt.Errorf("the system %q is neither dev nor cluster", o.system)
}

// dev is carillon dev: everything in one process, which keeps its data when it is killed.
type dev struct {
	program, dir, port string
	process            *process
}

func startDev(ctx context.Context, program, dir string) (*dev, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	d := &dev{program: program, dir: dir, port: port}
	return d, d.revive(ctx)
}

func (d *dev) api() string       { return "http://127.0.0.1:" + d.port }
func (d *dev) targets() []string { return []string{"127.0.0.1:" + d.port} }

func (d *dev) crash(context.Context) error { return d.process.kill() }

func (d *dev) revive(ctx context.Context) (err error) {
	// few slots, so that runs wait
	d.process, err = start(d.dir, "carillon", d.program, "dev", "--port", d.port, "--data-dir", filepath.Join(d.dir, "data"), "--slots", "16", "--log-level", "warn")
	if err != nil {
		return err
	}
	if err := d.process.ready(ctx, d.api()+"/readyz"); err != nil {
		_ = d.process.kill()
		return err
	}
	return nil
}

func (d *dev) stop(context.Context) error { return d.process.stop() }

// cluster is a real one, of Cassandra, NATS and two nodes, of which the second is killed.
type cluster struct {
	program, dir string
	nodes        []clusterNode
}

type clusterNode struct {
	Name string `json:"name"`
	API  string `json:"api"`
}

func startCluster(ctx context.Context, o options, dir string) (*cluster, error) {
	c := &cluster{program: o.local, dir: filepath.Join(dir, "cluster")}
	if err := c.do(ctx, "up", "--cassandra", "1", "--nats", "1", "--nodes", "2"); err != nil {
		return nil, fmt.Errorf("%w (stopped: %v)", err, c.stop(context.WithoutCancel(ctx)))
	}
	out, err := exec.CommandContext(ctx, c.program, "--dir", c.dir, "status", "-o", "json").Output()
	var status struct {
		Carillon []clusterNode `json:"carillon"`
	}
	if err == nil {
		err = json.Unmarshal(out, &status)
	}
	if c.nodes = status.Carillon; err == nil && len(c.nodes) != 2 {
		err = fmt.Errorf("%d nodes are up, want 2", len(c.nodes))
	}
	if err != nil {
		return nil, fmt.Errorf("%w (stopped: %v)", err, c.stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// do runs carillon-local in the module it belongs to, since that builds the nodes' program.
func (c *cluster) do(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, c.program, append([]string{"--dir", c.dir}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Dir = filepath.Join("..", "..", "..")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("carillon-local %s: %w", args[0], err)
	}
	return nil
}

func (c *cluster) api() string { return c.nodes[0].API }

func (c *cluster) targets() (all []string) {
	for _, n := range c.nodes {
		u, err := url.Parse(n.API)
		if err != nil {
			continue // carillon-local wrote it
		}
		all = append(all, u.Host)
	}
	return all
}

func (c *cluster) crash(ctx context.Context) error  { return c.do(ctx, "kill", c.nodes[1].Name) }
func (c *cluster) revive(ctx context.Context) error { return c.do(ctx, "start", c.nodes[1].Name) }
func (c *cluster) stop(ctx context.Context) error   { return c.do(ctx, "down", "--purge") }
