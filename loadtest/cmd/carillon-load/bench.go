package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/bench"
)

func newBench() *cobra.Command {
	var cfg bench.Config
	var commitLog, profile string
	var keep bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "bench PROTOCOL…",
		Short: "Measure speed on a real cluster of its own, or on carillon dev",
		Long: `Start what is to be measured, measure it by the protocols named, and stop it.

  A       burn-down: --n runs that are all overdue when the first dispatcher starts (targets noop, nats)
  B       --n runs at one instant (targets http, nats, noop)
  C       runs at each of --rates a second over --span, calling a sink
  D       C at the first rate and B, with each of --resident rows of later hours in the store
  E       C at the first rate, with a dispatcher killed -9 in the middle: one of its own, and a node of all roles
  import  --n jobs by bulk import while nothing runs: unkeyed due within 10 minutes, within 24 hours, keyed
  api     single creations, 500 a second

Writes each result as JSON, with a plot, into --out.`,
		Example: "  bench A --targets noop --n 200000\n  bench C --rates 2000,5000 --span 30s --nodes 2\n  bench A C --system dev",
		Args:    cobra.MinimumNArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		cfg.Protocols = args
		cfg.Cluster.CommitLog, cfg.Cluster.Profile = cluster.CommitLog(commitLog), cluster.Profile(profile)
		cfg.Log = newLog(cmd.ErrOrStderr())
		cfg.Command = commandLine(os.Args)
		if cfg.System == bench.OnCluster {
			if err := cluster.Available(); err != nil {
				return err
			}
		}
		if cfg.Program, err = os.Executable(); err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		if cfg.Carillon == "" {
			cfg.Carillon = filepath.Join(filepath.Dir(cfg.Program), "carillon")
		}
		temporary := cfg.Dir == ""
		if temporary {
			if cfg.Dir, err = os.MkdirTemp("", "carillon-bench-"); err != nil {
				return fmt.Errorf("make folder: %w", err)
			}
		}
		ctx, cancel := withTimeout(cmd.Context(), timeout)
		defer cancel()
		_, err = bench.Run(ctx, cfg, cmd.OutOrStdout())
		if !temporary || keep || err != nil {
			cmd.PrintErrln("what is left of this run is in", cfg.Dir)
			return err
		}
		return errors.Join(err, os.RemoveAll(cfg.Dir))
	}
	f := cmd.Flags()
	f.StringVar(&cfg.System, "system", bench.OnCluster, "cluster or dev (carillon dev)")
	f.StringSliceVar(&cfg.Targets, "targets", []string{"noop"}, "what the runs of A and B do: noop, nats, http")
	f.IntVar(&cfg.N, "n", 100_000, "jobs of A, B and import")
	f.IntSliceVar(&cfg.Rates, "rates", []int{2000}, "runs due a second in C; D and E take the first")
	f.DurationVar(&cfg.Span, "span", time.Minute, "over which they fall due")
	f.IntSliceVar(&cfg.Resident, "resident", []int{0, 1_000_000}, "rows of later hours in D, written by import; ascending")
	f.IntVar(&cfg.Rounds, "rounds", 1, "how often each is measured")
	f.IntVar(&cfg.Payload, "payload", 0, "bytes of each payload, but for import and api (200)")
	f.BoolVar(&cfg.Keyed, "keyed", false, "give each job an idempotency key")
	f.IntVar(&cfg.Streams, "streams", 2, "imports at the same time")
	f.DurationVar(&cfg.Wait, "wait", 2*time.Minute, "how long runs may take to begin after the last due instant")
	f.IntVar(&cfg.Cluster.Cassandra, "cassandra", 1, "Cassandra nodes: 1 or 3")
	f.IntVar(&cfg.Cluster.NATS, "nats", 1, "NATS servers: 1 or 3")
	f.IntVar(&cfg.Cluster.Nodes, "nodes", 1, "Carillon nodes that dispatch and execute (E has its own)")
	f.IntVar(&cfg.Cluster.Shards, "shards", 0, "shards of the keyspace (default the cluster's, 16)")
	f.StringVar(&commitLog, "commitlog", string(cluster.CommitLogPeriodic), "Cassandra: group (acknowledged = on disk) or periodic")
	f.StringVar(&profile, "profile", string(cluster.ProfileLoad), "Cassandra: load (2 GiB of heap a node) or test (256 MiB)")
	f.DurationVar(&cfg.Cluster.NATSSync, "nats-sync", 0, "NATS: after how long a message is on disk; negative = before its acknowledgement (default the server's)")
	f.StringVar(&cfg.Carillon, "carillon", "", "the program for --system dev (default: beside this one)")
	f.StringVar(&cfg.Dir, "dir", "", "folder for logs and data (default: a temporary one, kept on failure)")
	f.BoolVar(&keep, "keep", false, "keep the temporary folder in any case")
	f.StringVar(&cfg.Out, "out", filepath.Join(".local", "bench"), "folder for results and plots")
	f.DurationVar(&timeout, "timeout", time.Hour, "bound of the whole; 0 = none")
	return cmd
}
