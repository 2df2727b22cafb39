package server

import (
	"context"
	"log/slog"

	"carillon.dev/carillon/deploy/local/cluster"
)

// A Cassandra is one node as Carillon's own bench starts it (load profile, commit log periodic), empty at first. It takes materialized views.
type Cassandra struct {
	cluster *cluster.Cluster
}

// StartCassandra starts a Cassandra in a folder of its own below dir, and returns when it answers. The working folder must lie in the
// repository, where its jars are kept.
func StartCassandra(ctx context.Context, dir string, log *slog.Logger) (*Cassandra, error) {
	if err := cluster.Available(); err != nil {
		return nil, err
	}
	home, err := folder(dir, "cassandra", nil)
	if err != nil {
		return nil, err
	}
	c, err := cluster.Up(ctx, cluster.Options{
		Dir: home, Attached: true, Say: func(line string) { log.Debug("cluster", "says", line) },
	}, cluster.Spec{Cassandra: 1, Profile: cluster.ProfileLoad, CommitLog: cluster.CommitLogPeriodic, Views: true})
	if err != nil {
		return nil, err
	}
	return &Cassandra{c}, nil
}

// CQL is its address ("ip:port").
func (c *Cassandra) CQL() string { return c.cluster.CQL()[0] }

// PID is that of its process.
func (c *Cassandra) PID() int { return c.cluster.Status().Cassandra[0].PID }

// Stop stops it and waits for it.
func (c *Cassandra) Stop(ctx context.Context) error { return c.cluster.Close(ctx) }

// CassandraDurability says when a write counts as held.
func CassandraDurability() string {
	return "Cassandra: one copy, commit log periodic (acknowledged before it is on disk)"
}
