package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/loadtest/bench"
)

func newFair() *cobra.Command {
	var b benchFlags
	var f bench.FairConfig
	var slots int
	cmd := &cobra.Command{
		Use:   "fair [beside|weights|critical|backlog…]",
		Short: "Measure fairness between tenants and priorities on a real cluster of its own, or on carillon dev",
		Long: `Start a system, measure how fair it is, and stop it. Without parts the first three:

  beside    --pairs times: a tenant with --rate runs a second over --span alone, then beside another one
            with a hundred times as many. Its p99 lateness may move by max(20 %, 20 ms), in the median
  weights   tenants of weights 1, 2 and 4 with --backlog runs together, all due at once: their shares of
            the starts, to a tenth
  critical  --backlog runs of priority low due at once, and 100 critical ones 3 s later, which all begin
            within 2 s
  backlog   a tenant with --rate runs a second over --span alone, then while another one has --backlog
            due runs. Its p99 lateness may move as in beside, and the heap of all nodes grow by 128 MiB

--slots and --work bound the throughput of executors, so that they are short and not the machine: with
64 slots and calls of 50 ms each node starts 1,280 runs a second. Writes a result as JSON, with plots,
into --out. Exit status 1 if a goal was missed.`,
		Example: "  fair --system dev --rate 5 --span 20s --pairs 2 --backlog 20000\n  fair beside --nodes 2 --cassandra 3\n  fair backlog --backlog 1000000 --slots 200 --wait 15m",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Parts = args
			if len(args) == 0 {
				f.Parts = []string{bench.PartBeside, bench.PartWeights, bench.PartCritical}
			}
			return b.measure(cmd, f.Validate, func(ctx context.Context) error {
				// the nodes inherit it
				if err := os.Setenv("CARILLON_EXECUTOR_SLOTS", strconv.Itoa(slots)); err != nil {
					return err
				}
				r, err := bench.Fair(ctx, b.cfg, f, cmd.OutOrStdout())
				if err == nil && !r.Met() {
					err = fmt.Errorf("%w: a goal was missed", errVerdict)
				}
				return err
			})
		},
	}
	b.add(cmd, time.Hour)
	fl := cmd.Flags()
	fl.StringVar(&b.cfg.System, "system", bench.OnCluster, "cluster or dev (carillon dev)")
	fl.IntVar(&f.Rate, "rate", 10, "runs a second of the tenant that has little to do")
	fl.DurationVar(&b.cfg.Span, "span", time.Minute, "over which they fall due")
	fl.IntVar(&f.Pairs, "pairs", 5, "how often it is measured alone and beside another")
	fl.IntVar(&f.Backlog, "backlog", 100_000, "runs due at once of weights, critical and backlog")
	fl.DurationVar(&f.Work, "work", 50*time.Millisecond, "what each call takes")
	fl.IntVar(&slots, "slots", 64, "attempts that each executor has under way at once")
	fl.DurationVar(&b.cfg.Wait, "wait", 5*time.Minute, "how long runs may take to begin after the last due instant")
	return cmd
}
