package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/alerts"
	"carillon.dev/carillon/loadtest/chaos"
	"carillon.dev/carillon/loadtest/journal"
)

func newChaos() *cobra.Command {
	var cfg chaos.Config
	var scenario, commitLog, profile, out string
	var beside []string
	var mix []int
	var timeout, span time.Duration
	var list, summary, draw bool
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Run jobs on a real cluster of its own, break it meanwhile, and judge",
		Long: `Start Cassandra, NATS and Carillon on addresses of their own, import jobs, break the cluster as the
scenario says while they run, and judge everything with check. Works beside other clusters; stops all
that it started. --list shows the scenarios.

Scenarios that cut links (cut-…) give each member a network namespace on a bridge 10.77.x.1. They need
root and the programs ip and nft. Scenarios that cut power or fill disks (power-…, full-…, stuck-…) give
each Cassandra and NATS an ext4 image on a loop device, and need root too. Namespaces and devices are
removed at the end, or at the next start if this program was killed. In alerts-… a Prometheus watches, which
must be installed, and deploy/monitoring/faults.yaml states which alerts must fire, and which may.

Writes its report as JSON and as a block of markdown into --out, of region-… also a plot of who started
what when. Exit status 1 if a promise was broken;
then the folder with all logs, jobs, answers and arrivals is kept, and named.`,
		Example: "  chaos --scenario kill --jobs 2000 --rate-span 20s --cassandra 1 --nats 1\n  chaos --scenario cut-store --rate 50\n  chaos --summary .local/chaos/*.json",
		Args: func(cmd *cobra.Command, args []string) error {
			if summary || draw {
				return cobra.MinimumNArgs(1)(cmd, args)
			}
			return cobra.NoArgs(cmd, args)
		},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		switch {
		case list:
			return chaos.WritePlans(cmd.OutOrStdout())
		case summary:
			reports, err := readReports(args)
			if err != nil {
				return err
			}
			return chaos.WriteSummary(cmd.OutOrStdout(), reports...)
		case draw:
			reports, err := readReports(args)
			if err != nil {
				return err
			}
			for i, path := range args {
				if err := writePlot(strings.TrimSuffix(path, filepath.Ext(path))+".svg", reports[i]); err != nil {
					return err
				}
			}
			return nil
		}
		cfg.Scenario = chaos.Scenario(scenario)
		cfg.Cluster.CommitLog, cfg.Cluster.Profile = cluster.CommitLog(commitLog), cluster.Profile(profile)
		if cfg.Span == 0 {
			cfg.Span = -1 // all at one instant
		}
		long, err := planFlags(&cfg, span, cmd.Flags().Changed)
		if err != nil {
			return err
		}
		if long > 0 && !cmd.Flags().Changed("timeout") {
			timeout = long
		}
		if cfg.Mix, err = mixOf(mix); err != nil {
			return err
		}
		if cfg.Changes == 0 && cmd.Flags().Changed("changes") {
			cfg.Changes = -1 // none
		}
		if err := cluster.Available(); err != nil {
			return err
		}
		others, err := readReports(beside)
		if err != nil {
			return err
		}
		if cfg.Program, err = os.Executable(); err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		if cfg.Cluster.Program, err = absolute(cfg.Cluster.Program); err != nil {
			return err
		}
		cfg.Command = commandLine(os.Args)
		temporary := cfg.Dir == ""
		if temporary {
			if cfg.Dir, err = os.MkdirTemp("", "carillon-chaos-"); err != nil {
				return fmt.Errorf("make folder: %w", err)
			}
		}
		cfg.Log = newLog(cmd.ErrOrStderr())
		ctx, cancel := withTimeout(cmd.Context(), timeout)
		defer cancel()

		rep, err := chaos.Run(ctx, cfg, cmd.OutOrStdout())
		if err == nil { // one that was cut short does not replace an earlier report
			err = writeChaos(rep, others, out, cmd.OutOrStdout())
		}
		failed := rep == nil || rep.Failed()
		if !temporary || failed || err != nil {
			cmd.PrintErrln("everything of this run is in", cfg.Dir)
		} else if rerr := os.RemoveAll(cfg.Dir); rerr != nil {
			err = errors.Join(err, fmt.Errorf("clean up: %w", rerr))
		}
		if err == nil && failed {
			err = fmt.Errorf("chaos: %w: %s", errVerdict, strings.Join(rep.Faults(), "; "))
		}
		return err
	}
	f := cmd.Flags()
	f.StringVar(&scenario, "scenario", string(chaos.Faults), "what is done to the cluster (--list shows all)")
	f.BoolVar(&list, "list", false, "list the scenarios: what is done, what is promised, about how long it takes")
	f.BoolVar(&summary, "summary", false, "show a row of FAULTS.md for each of the reports (JSON) that are named")
	f.BoolVar(&draw, "plot", false, "draw the plot of each of the reports (JSON) that are named beside it")
	f.StringVar(&cfg.Older, "older", "", "two-builds: commit of the older build (default the one before the newest migration, if that one only adds)")
	f.IntVar(&cfg.Rate, "rate", 0, "scenarios with a steady load, and soak: runs due a second (default as the scenario says)")
	f.IntVar(&cfg.Jobs, "jobs", 100_000, "jobs in all: 94.5 % due over the span, 5 % within the minute of their import, 0.5 % immediate; recurring ones and runs of workflows as the scenario says")
	f.IntVar(&cfg.Items, "items", 0, "workflows: items of the largest step (default 1000)")
	f.DurationVar(&span, "span", 0, "recurring: from the start that the jobs state to their end (default 5m); pause and stopped: from the last creation to the end of the observation, without --stop (default 2m); soak: of the load (default 2h)")
	f.DurationVar(&cfg.Create, "create", 0, "recurring: how long the creation of all jobs may take, before they start (default as at 125 jobs a second)")
	f.DurationVar(&cfg.Every, "every", 0, "recurring jobs: distance of two runs of a job (default as the scenario says)")
	f.DurationVar(&cfg.Stop, "stop", 3*time.Minute, "stopped: how long no node runs")
	f.DurationVar(&cfg.KillEvery, "kill-every", 0, "guarantees: time between two kills (default 10s)")
	f.IntSliceVar(&mix, "mix", nil, "guarantees, steady loads: parts of the jobs that are at_least_once, effectively_once and at_most_once (default 10,6,4, or as the scenario says)")
	f.DurationVar(&cfg.Warm, "warm", 0, "guarantees, limits, region-…: for how long runs go without a fault before the first due instant (default 90s, 60s and 0); negative = not at all")
	f.IntVar(&cfg.Concurrency, "concurrency", 128, "recurring jobs: requests under way that create, change and cancel them")
	f.DurationVar(&cfg.Lead, "lead", 20*time.Second, "from the start of the main import to the first due instant")
	f.DurationVar(&cfg.Span, "rate-span", time.Minute, "due instants are spread over it; faults come sooner if it is shorter; 0 (calm only) = all at once")
	f.IntVar(&cfg.Changes, "changes", 0, "runs cancelled and rescheduled (default 300 or a tenth of the jobs)")
	f.BoolVar(&cfg.Unkeyed, "unkeyed", false, "import the main part without idempotency keys")
	f.IntVar(&cfg.Payload, "payload", 0, "bytes of each payload; 0 = the least")
	f.Uint64Var(&cfg.Seed, "seed", 1, "seed of everything random but the faults' effects")
	f.StringVar(&cfg.Cluster.Program, "carillon", "", "program that the nodes run (default: built from the work tree)")
	f.IntVar(&cfg.Regions, "regions", 0, "region-…: regions with nodes, 2 or 3, beside the witness (default 2)")
	f.IntVar(&cfg.Cluster.Cassandra, "cassandra", 3, "Cassandra nodes: 1 or 3; region-…: of each region, which keeps as many copies (default 1)")
	f.IntVar(&cfg.Cluster.NATS, "nats", 3, "NATS servers: 1 or 3")
	f.IntVar(&cfg.Cluster.Nodes, "nodes", 2, "Carillon nodes (guarantees and frozen: default 3)")
	f.StringVar(&commitLog, "commitlog", string(cluster.CommitLogGroup), "Cassandra: group (acknowledged = on disk) or periodic")
	f.StringVar(&profile, "profile", string(cluster.ProfileLoad), "Cassandra: load (2 GiB of heap a node) or test (256 MiB: for at most 10,000 jobs or so)")
	f.DurationVar(&cfg.Cluster.NATSSync, "nats-sync", 0, "NATS: after how long a message is on disk; negative = before its acknowledgement (default the server's)")
	f.DurationVar(&cfg.Wait, "wait", 2*time.Minute, "how long runs may take to end after the last due instant")
	f.DurationVar(&cfg.Apart, "apart", 30*time.Second, "how long the second read comes after the first")
	f.DurationVar(&cfg.Idle, "idle", 5*time.Second, "how long the idle cluster is measured before the import")
	f.DurationVar(&timeout, "timeout", 20*time.Minute, "bound of the whole (recurring jobs, guarantees and workflows: default 1h); 0 = none")
	f.StringVar(&cfg.Dir, "dir", "", "folder for everything, empty or missing, which is kept (default: a temporary one, kept on failure)")
	f.StringVar(&out, "out", filepath.Join(".local", "chaos"), "folder for the report: <scenario>.json and <scenario>.md")
	f.StringSliceVar(&beside, "beside", nil, "reports (JSON) to show beside this one")
	return cmd
}

// absolute returns the absolute path of a program; that of none is none.
func absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find program: %w", err)
	}
	return path, nil
}

// longTimeout bounds runs whose jobs are created or read one by one, if no bound is stated.
const longTimeout = time.Hour

// planFlags fills in from the scenario's plan what the flags do not state, and refuses flags that
// the plan decides. It returns the bound of the run; 0 = that of the flag. It fails if this machine
// lacks what the plan needs.
func planFlags(cfg *chaos.Config, span time.Duration, stated func(name string) bool) (timeout time.Duration, err error) {
	plan, ok := cfg.Scenario.Plan()
	if !ok {
		return 0, nil // Validate says so
	}
	unless(stated, "cassandra", &cfg.Cluster.Cassandra, plan.Members.Cassandra)
	unless(stated, "nats", &cfg.Cluster.NATS, plan.Members.NATS)
	unless(stated, "nodes", &cfg.Cluster.Nodes, plan.Members.Nodes)
	unless(stated, "regions", &cfg.Regions, plan.Regions)
	switch s := cfg.Scenario; {
	case s.Steady():
		for _, name := range []string{"jobs", "span", "rate-span", "changes"} {
			if stated(name) {
				return 0, fmt.Errorf("--%s is not of %q: its plan decides that", name, plan.Name)
			}
		}
		cfg.Jobs, cfg.Span = 0, 0
		return longTimeout, available(plan, *cfg)
	case s.Recurs() || s.Loads():
		cfg.Span = span
		unless(stated, "jobs", &cfg.Jobs, 0)
		if s.Recurs() {
			return longTimeout, nil
		}
		return longTimeout + span, nil
	case s.Guards():
		timeout = longTimeout
		unless(stated, "lead", &cfg.Lead, 0)
		fallthrough
	case s == chaos.Limits, s == chaos.Workflows:
		if s == chaos.Workflows {
			timeout = longTimeout
		}
		unless(stated, "jobs", &cfg.Jobs, 0)
		unless(stated, "rate-span", &cfg.Span, 0)
		return timeout, nil
	case span != 0:
		return 0, errors.New("--span is of recurring jobs; one-off jobs have --rate-span")
	}
	return 0, nil
}

// available reports what this machine lacks for a plan.
func available(plan chaos.Plan, cfg chaos.Config) error {
	var missing []error
	if plan.Members.Namespaces {
		missing = append(missing, cluster.NamespacesAvailable())
	}
	if plan.Regions > 0 {
		missing = append(missing, cluster.RegionsAvailable(), cluster.Fits(cfg.RegionsMemory()))
	}
	if plan.Clocks() {
		missing = append(missing, chaos.ClocksAvailable())
	}
	if plan.Alerts {
		_, err := alerts.Available(".")
		missing = append(missing, err)
	}
	if plan.Members.Disks {
		missing = append(missing, cluster.DisksAvailable())
	}
	if err := errors.Join(missing...); err != nil {
		return fmt.Errorf("%s cannot run here: %w", plan.Name, err)
	}
	return nil
}

// mixOf reads a mix; none = the default.
func mixOf(parts []int) (chaos.Mix, error) {
	switch len(parts) {
	case 0:
		return chaos.Mix{}, nil
	case 3:
		return chaos.Mix{AtLeastOnce: parts[0], EffectivelyOnce: parts[1], AtMostOnce: parts[2]}, nil
	default:
		return chaos.Mix{}, fmt.Errorf("--mix has %d parts, want 3: at_least_once, effectively_once, at_most_once", len(parts))
	}
}

// unless sets a field to value, unless its flag was stated.
func unless[T any](stated func(name string) bool, flag string, field *T, value T) {
	if !stated(flag) {
		*field = value
	}
}

// commandLine returns the program and its arguments, without its folder.
func commandLine(args []string) string {
	words := append([]string{filepath.Base(args[0])}, args[1:]...)
	for i, w := range words {
		if w == "" || strings.ContainsAny(w, " \t\n'\"\\$|&;<>()`*?[]{}") {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

func readReports(paths []string) ([]*chaos.Report, error) {
	var reports []*chaos.Report
	for _, path := range paths {
		rep, err := journal.ReadFile(path, chaos.ReadReport)
		if err != nil {
			return nil, err
		}
		reports = append(reports, rep)
	}
	return reports, nil
}

// writePlot draws a report that has something to draw.
func writePlot(path string, rep *chaos.Report) error {
	var svg bytes.Buffer
	ok, err := chaos.WritePlot(&svg, rep)
	if err != nil || !ok {
		return err
	}
	return writeTo(path, func(w io.Writer) error {
		_, err := svg.WriteTo(w)
		return err
	})
}

// writeChaos writes the report and its markdown, beside that of others, into the folder, and the
// markdown to w.
func writeChaos(rep *chaos.Report, others []*chaos.Report, folder string, w io.Writer) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	all := append([]*chaos.Report{rep}, others...)
	base := filepath.Join(folder, string(rep.Scenario))
	markdown := func(w io.Writer) error { return chaos.WriteMarkdown(w, all...) }
	if err := errors.Join(writeTo(base+".json", rep.WriteJSON), writeTo(base+".md", markdown), writePlot(base+".svg", rep)); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(w)
	return markdown(w)
}
