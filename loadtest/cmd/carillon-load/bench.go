package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/bench"
)

// benchFlags are the flags that bench, suite and fair share.
type benchFlags struct {
	cfg                bench.Config
	commitLog, profile string
	temporary          bool
	timeout            time.Duration
}

func (b *benchFlags) add(cmd *cobra.Command, timeout time.Duration) {
	f, c := cmd.Flags(), &b.cfg.Cluster
	f.IntVar(&b.cfg.Rounds, "rounds", 1, "how often each is measured")
	f.IntVar(&c.Cassandra, "cassandra", 1, "Cassandra nodes: 1 or 3")
	f.IntVar(&c.NATS, "nats", 1, "NATS servers: 1 or 3")
	f.IntVar(&c.Nodes, "nodes", 1, "Carillon nodes that dispatch and execute (E has its own, W at least two)")
	f.IntVar(&c.Shards, "shards", 0, "shards of the keyspace (default the cluster's, 16)")
	f.StringVar(&b.commitLog, "commitlog", string(cluster.CommitLogPeriodic), "Cassandra: group (acknowledged = on disk) or periodic")
	f.StringVar(&b.profile, "profile", string(cluster.ProfileLoad), "Cassandra: load (2 GiB of heap a node) or test (256 MiB)")
	f.DurationVar(&c.NATSSync, "nats-sync", 0, "NATS: after how long a message is on disk; negative = before its acknowledgement (default the server's)")
	f.DurationVar(&b.cfg.Lead, "lead", 0, "from the start of an import to the first due instant at least (default 12s, 30s where all are due at once)")
	f.IntVar(&b.cfg.Warm, "warm", 0, "runs at one instant that the system does before anything is measured; negative = none (default 100000, and 20000 in carillon dev)")
	f.DurationVar(&b.cfg.Quiet, "quiet", 0, "how long the store must have been idle before a measurement (default 3s)")
	f.StringVar(&b.cfg.Carillon, "carillon", "", "the program that is measured (default: beside this one)")
	f.StringVar(&b.cfg.Dir, "dir", "", "folder for logs and data (default: a temporary one, kept on failure)")
	f.StringVar(&b.cfg.Out, "out", filepath.Join(".local", "bench"), "folder for results and plots")
	f.BoolVar(&b.cfg.Flames, "flames", false, "profile the CPU of each node during each measurement, and draw flame graphs (they cost a little)")
	f.DurationVar(&b.timeout, "timeout", timeout, "bound of the whole; 0 = none")
}

// prepare completes the configuration.
func (b *benchFlags) prepare(cmd *cobra.Command) (err error) {
	c := &b.cfg
	c.Cluster.CommitLog, c.Cluster.Profile = cluster.CommitLog(b.commitLog), cluster.Profile(b.profile)
	c.Log, c.Command = newLog(cmd.ErrOrStderr()), commandLine(os.Args)
	if c.System != bench.OnDev {
		if err := cluster.Available(); err != nil {
			return err
		}
	}
	if c.Program, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if c.Carillon == "" {
		c.Carillon = filepath.Join(filepath.Dir(c.Program), "carillon")
	}
	if b.temporary = c.Dir == ""; b.temporary {
		if c.Dir, err = os.MkdirTemp("", "carillon-bench-"); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
	}
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return fmt.Errorf("find folder: %w", err)
	}
	return nil
}

// measure prepares, measures within the time-out, and tidies. valid says what is wrong with the
// configuration once it is complete.
func (b *benchFlags) measure(cmd *cobra.Command, valid func() error, do func(ctx context.Context) error) error {
	if err := b.prepare(cmd); err != nil {
		return err
	}
	if err := errors.Join(valid(), b.keepProgram()); err != nil {
		return b.tidy(cmd, err)
	}
	ctx, cancel := withTimeout(cmd.Context(), b.timeout)
	defer cancel()
	return b.tidy(cmd, do(ctx))
}

// keepProgram copies the measured program, so that a build meanwhile does not change it.
func (b *benchFlags) keepProgram() error {
	c := &b.cfg
	program, err := os.ReadFile(c.Carillon)
	switch {
	case errors.Is(err, os.ErrNotExist) && c.System != bench.OnDev:
		return nil // each cluster builds one
	case err != nil:
		return fmt.Errorf("read the program that is measured: %w (make build builds it)", err)
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	c.Carillon = filepath.Join(c.Dir, "carillon")
	if err := os.WriteFile(c.Carillon, program, 0o700); err != nil { //nolint:gosec // it is to be executed, by us alone
		return fmt.Errorf("copy the program that is measured: %w", err)
	}
	c.Cluster.Program = c.Carillon
	return nil
}

// tidy removes the temporary folder after a good run.
func (b *benchFlags) tidy(cmd *cobra.Command, err error) error {
	if !b.temporary || err != nil {
		cmd.PrintErrln("what is left of this run is in", b.cfg.Dir)
		return err
	}
	return os.RemoveAll(b.cfg.Dir)
}

func newBench() *cobra.Command {
	var b benchFlags
	cmd := &cobra.Command{
		Use:   "bench PROTOCOL…",
		Short: "Measure speed on a real cluster of its own, or on carillon dev",
		Long: `Start a system, measure it by the protocols named, and stop it.

  A       burn-down: --n runs that are all due when the first executor starts (targets noop, nats);
          with --outage also --n that are overdue when the first dispatcher starts
  B       --n runs at one instant (targets http, nats, noop)
  C       runs at each of --rates a second over --span, calling a sink
  D       B, and C at the first rate, with each of --resident rows of later hours in the store; with
          several, a plot of how memory, scans and lateness depend on them
  E       C at the first rate, with a dispatcher killed -9 in the middle: one that is a node of its own,
          then a node of all roles
  R       recurring jobs, one run each --every, at the first rate over --span; and C at that rate. With
          --jobs so many daily jobs are imported before, of which the share --on-hour is due at one
          instant: that is measured first, and the others stay resident
  F       --n runs in flight at once on one executor: calls held for --hold that begin over --ramp
          (targets http, h2, nats; over HTTP/1.1 as many as a process may open files); memory of each,
          session writes, and --beside new runs, with and without them
  H       C at the first rate for one tenant, alone and beside --harm-rate runs a second of another one
          whose target fails, hangs or drips
  W       workflows, by the parts of --workflows: chains of five steps at --pace steps a second over --span
          (pace); --chains of them, --open at once (chains); one run with --items items and a join (fanout);
          one event that --items jobs follow (subscribers); on a cluster of at least two nodes of all roles
  import  --n jobs by bulk import while nothing runs: unkeyed due within 10 minutes, within 24 hours,
          keyed
  api     single creations, 500 a second
  consoles
          C at the first rate, without and with --consoles open pages of the console, in turn (of ten: four
          the overview, three the runs, two the cluster, one a job)
  pages   how long the pages of the console take with the last of --resident rows, right after the start
          of a node and then again: the overview, first pages of runs and jobs, coming minutes
  regions C at the first rate in region eu, which shares its keyspace with region us and a witness, and in
          one that knows of no other, in turn, both up side by side: the CPU of its own processes; the
          CPU, bytes between regions and statements that its runs cost elsewhere. Needs root

Writes each result as JSON, with a plot, into --out; with --flames also a flame graph of each node.`,
		Example: "  bench A --targets noop --n 200000\n  bench C --rates 2000,5000 --span 30s --nodes 2\n  bench A C --system dev\n" +
			"  bench F --targets http,h2,nats --n 100000\n  bench H --rates 500 --rounds 5\n" +
			"  bench W --system dev --workflows chains --chains 50000 --rounds 3\n  bench consoles pages --resident 10000000 --rounds 5\n" +
			"  bench regions --nodes 2 --rounds 5",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b.cfg.Protocols = args
			return b.measure(cmd, func() error { return b.cfg.Validate() }, func(ctx context.Context) error {
				_, err := bench.Run(ctx, b.cfg, cmd.OutOrStdout())
				return err
			})
		},
	}
	b.add(cmd, time.Hour)
	f := cmd.Flags()
	f.StringVar(&b.cfg.System, "system", bench.OnCluster, "cluster or dev (carillon dev)")
	f.BoolVar(&b.cfg.Outage, "outage", false, "measure A also where nothing was dispatched before")
	f.BoolVar(&b.cfg.InProcess, "in-process", false, "the runs of R call an in-process handler instead of the sink")
	f.StringSliceVar(&b.cfg.Targets, "targets", []string{"noop"}, "what the runs of A, B and F do: noop, nats, http; of F http, h2, nats")
	f.IntVar(&b.cfg.N, "n", 100_000, "jobs of A, B, F and import")
	f.IntSliceVar(&b.cfg.Rates, "rates", []int{2000}, "runs due a second in C; D, E, H, R, consoles and regions take the first")
	f.DurationVar(&b.cfg.Span, "span", time.Minute, "over which they fall due")
	f.DurationVar(&b.cfg.Every, "every", 10*time.Second, "interval of the jobs of R: rate × every of them are created")
	f.IntVar(&b.cfg.Jobs, "jobs", 0, "daily jobs that R imports before (0: none)")
	f.Float64Var(&b.cfg.OnHour, "on-hour", 0.1, "share of them that is due at one instant")
	f.DurationVar(&b.cfg.Mend, "mend", time.Minute, "for how long it is watched how these are looked through for some without a next run")
	f.DurationVar(&b.cfg.Hold, "hold", time.Minute, "how long calls of F are held")
	f.DurationVar(&b.cfg.Ramp, "ramp", 30*time.Second, "over which they begin")
	f.IntVar(&b.cfg.Beside, "beside", 2000, "new runs while they are held")
	f.IntVar(&b.cfg.BesideRate, "beside-rate", 200, "of these, a second")
	f.StringSliceVar(&b.cfg.Harm, "harm", nil, "what the targets of the other tenant in H do (default fail,hang,drip; also refuse: each run fails at once; told: so it does, and notifications tell of it)")
	f.IntVar(&b.cfg.HarmRate, "harm-rate", 0, "runs a second of the other tenant in H (default the first of --rates)")
	f.DurationVar(&b.cfg.HarmTimeout, "harm-timeout", 5*time.Second, "time-out of each of these")
	f.StringSliceVar(&b.cfg.Workflows, "workflows", nil, "parts of W (default pace,chains,fanout,subscribers)")
	f.IntVar(&b.cfg.Pace, "pace", 200, "steps a second in W's pace")
	f.IntVar(&b.cfg.Chains, "chains", 20_000, "runs of W's chains, of five steps each")
	f.IntVar(&b.cfg.Open, "open", 2000, "of these, open at once")
	f.IntVar(&b.cfg.Items, "items", 10_000, "items of W's fanout, and jobs of subscribers")
	f.IntSliceVar(&b.cfg.Resident, "resident", []int{0, 1_000_000}, "rows of later hours in D, written by import; ascending; pages takes the last")
	f.IntVar(&b.cfg.Consoles, "consoles", 10, "open consoles in consoles")
	f.IntVar(&b.cfg.Payload, "payload", 0, "bytes of each payload, but for import and api (200)")
	f.BoolVar(&b.cfg.Keyed, "keyed", false, "give each job an idempotency key")
	f.DurationVar(&b.cfg.Wait, "wait", 2*time.Minute, "how long runs may take to begin after the last due instant")
	return cmd
}

func newSuite() *cobra.Command {
	var b benchFlags
	var numbers []int
	cmd := &cobra.Command{
		Use:   "suite small|full",
		Short: "Measure by every protocol, and print the goals with a verdict for each",
		Long: `Measure by every protocol, on clusters of its own and on carillon dev, and print the goals with a
verdict for each. small takes about 50 minutes, full takes hours. small leaves out what has no goal: A with
NATS workers and after an outage, F over HTTP/2 and NATS, H beside targets that fail or drip, the higher
rates of C on carillon dev. Exit status 1 if something could not be measured; a goal that is not met is
no failure.

--parts measures parts one by one; goals then prints the table of all results in --out.

  1 A    2 B, C and D    3 E    4 R    5 F    6 H    7 import and api
  8 burn-down of carillon dev    9 B, C and D on carillon dev    10, 11 W on a cluster, on carillon dev
  12, 13 consoles and pages on a cluster, on carillon dev`,
		Example:   "  suite small\n  suite full --rounds 5\n  suite full --parts 1,2 && suite full --parts 3,4,5,6,7,8,9,10,11,12,13 && goals .local/bench/*.json",
		Args:      cobra.ExactArgs(1),
		ValidArgs: []string{bench.Small, bench.Full},
		RunE: func(cmd *cobra.Command, args []string) error {
			parts := func() ([]bench.Config, error) {
				all, err := bench.Suite(args[0], b.cfg)
				if err != nil {
					return nil, err
				}
				return bench.Some(all, numbers)
			}
			return b.measure(cmd, func() error { _, err := parts(); return err }, func(ctx context.Context) error {
				some, err := parts() // of the program that was kept
				if err == nil {
					err = bench.RunSuite(ctx, some, cmd.OutOrStdout())
				}
				if err != nil {
					err = fmt.Errorf("%w: %w", errVerdict, err)
				}
				return err
			})
		},
	}
	b.add(cmd, 0)
	cmd.Flags().IntSliceVar(&numbers, "parts", nil, "numbers of the parts to measure (default all)")
	return cmd
}

func newGoals() *cobra.Command {
	return &cobra.Command{
		Use:   "goals RESULT.json…",
		Short: "Print the goals with a verdict for each, from results of bench and suite",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := bench.ReadResults(args)
			if err != nil {
				return err
			}
			return bench.WriteGoals(cmd.OutOrStdout(), all)
		},
	}
}

func newPairs() *cobra.Command {
	return &cobra.Command{
		Use:   "pairs BEFORE AFTER",
		Short: "Compare two builds by results of bench, a folder for each build, and in it a folder for each round",
		Long: `Compare two builds that were measured in turn. Each folder has a folder for each round, by whose names the rounds
are ordered, with the results of that round. Prints the medians, the difference, how far the rounds of the first build
lie apart, and whether the second build holds: it is worse by less than 3 %, or by less than that spread.`,
		Example: "  pairs .local/compare/before .local/compare/after",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var sides [2][][]*bench.Result
			for i, folder := range args {
				var err error
				if sides[i], err = bench.ReadRounds(folder); err != nil {
					return err
				}
			}
			all, err := bench.MakePairs(sides[0], sides[1])
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), bench.Table(all))
			return err
		},
	}
}

func newGrowth() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "growth RESULT.json…",
		Short: "Draw how memory, scans and lateness depend on the rows resident, from results of bench D",
		Long: `Draw how memory, scans and lateness depend on the rows resident, from results of bench D on one system, and print them
as a table.`,
		Example: "  growth .local/bench/D-carillon-[BC]*.json --out growth.svg",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := bench.ReadResults(args)
			if err != nil {
				return err
			}
			if err := bench.PlotGrowth(out, all); err != nil {
				return err
			}
			return bench.WriteGrowth(cmd.OutOrStdout(), all)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "SVG file (required)")
	required(cmd, "out")
	return cmd
}
