package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/user"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/homes"
)

func regionCommand() *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "region",
		Short: "Show which region serves each home of shards, and have another serve it",
		Long: "Show which region serves each home of shards, and have another serve it. The configuration is that of a node:\n" +
			"the commands speak to Cassandra, of whose data centres a quorum must answer.",
	})
	cmd.AddCommand(regionListCommand(), regionLogCommand(), regionMoveCommand(), regionFailoverCommand(), regionSyncCommand(), regionDrillCommand())
	return cmd
}

// withEpochs runs a command on what the regions of the configuration share.
func withEpochs(file *string, run func(cmd *cobra.Command, r regionsShared, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		store, regions, region, err := cli.OpenEpochs(cmd, *file)
		if err != nil {
			return err
		}
		defer func() { _ = store.Close() }() // never fails
		return run(cmd, regionsShared{
			store: store, region: region, homes: regions.Homes.Names(), regions: regions.Names(), out: cmd.OutOrStdout(),
			shards: regions.Homes.Shards, urls: regions.APIs,
			open: func() (homes.RowStore, error) {
				rows, err := cli.OpenCassandra(cmd, *file)
				if err != nil {
					return nil, err // not a store that is nil
				}
				return rows, nil
			},
		}, args)
	}
}

// regionsShared is what regions share, and where a command says what it does.
type regionsShared struct {
	store          schema.EpochStore
	region         string // that of the node whose configuration it is
	homes, regions []string
	out            io.Writer
	shards         func(home string, below int) []schema.Shard
	urls           map[string][]string            // base URLs of the APIs, by region
	open           func() (homes.RowStore, error) // opens the store of everything else
}

// changer returns what has another region serve a home.
func (r regionsShared) changer() homes.Changer {
	return homes.Changer{Store: r.store, Region: r.region, Homes: r.homes, Regions: r.regions, Shards: r.shards, Rows: r.open, Say: r.say}
}

func regionListCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show which region serves each home, and which regions are alive",
		Long: "Show which region serves each home, and which regions are alive. It listens for some seconds: a region is alive\n" +
			"of which a node gives a sign of life meanwhile.",
		Args: cobra.NoArgs,
		RunE: withEpochs(&file, func(cmd *cobra.Command, r regionsShared, _ []string) error { return r.list(cmd.Context()) }),
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration `file` (YAML)")
	return cmd
}

func regionLogCommand() *cobra.Command {
	var file string
	var limit int
	cmd := &cobra.Command{
		Use:   "log HOME",
		Short: "Show which regions have served a home, the last first",
		Args:  cobra.ExactArgs(1),
		RunE: withEpochs(&file, func(cmd *cobra.Command, r regionsShared, args []string) error {
			log, err := r.store.EpochLog(cmd.Context(), args[0], limit)
			if err != nil {
				return err
			}
			rows := [][]string{epochHead}
			for _, e := range log {
				rows = append(rows, epochRow(e))
			}
			return cli.Table(r.out, rows)
		}),
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration `file` (YAML)")
	cmd.Flags().IntVar(&limit, "limit", 20, "at most so many")
	return cmd
}

// handing says which region is to serve a home from now on, and why.
type handing struct {
	schema.HomeChange
	plan bool // only say what it costs
}

func regionMoveCommand() *cobra.Command {
	o := handing{}
	cmd := handingCommand(&o, &cobra.Command{
		Use:   "move HOME --to REGION --reason TEXT [--drain DURATION] [--plan]",
		Short: "Have another region serve a home, while both are well; also to bring it back",
		Long: "Have another region serve a home, while both are well; also to bring it back after a fail-over.\n\n" +
			"First it is announced for 12 s; the home is served meanwhile. Then it is drained: the region that serves it takes in\n" +
			"and publishes nothing more of it, while what is under way may end (--drain). Then the next epoch is written, and\n" +
			"the other region begins some 6 s later: for so long and the time of draining nothing is taken in or published of\n" +
			"the home. What is due meanwhile starts late. What still runs ends where it runs, and its outcome is recorded; it\n" +
			"may be started again by the other region, unless it is guarded (at_most_once, effectively_once): the other looks\n" +
			"at everything that was due in the 10 minutes before.\n\n" +
			"Before all that the rows of all data centres are compared, as carillon region sync does, and what one lacks is\n" +
			"written to it. After a cut or a fail-over say by --since how long ago that began. What arrived only then and was\n" +
			"due up to 3 hours ago, the region that takes over finds by itself; with a longer --since it looks at all of that.\n" +
			"Of what it finds everything runs, late, or is recorded as missed if its policy says so.",
		Example: "  carillon region move eu --to us --reason 'maintenance of the data centre' --config carillon.yaml",
	})
	syncFlags(cmd, &o.HomeChange)
	cmd.Flags().BoolVar(&o.Sync, "sync", true, "compare the rows of all data centres first")
	cmd.Flags().DurationVar(&o.Drain, "drain", 4*time.Second, "how long what is under way may end first, at most 5m; 0: not at all")
	return cmd
}

func regionFailoverCommand() *cobra.Command {
	o := handing{HomeChange: schema.HomeChange{Forced: true}}
	cmd := handingCommand(&o, &cobra.Command{
		Use:   "failover HOME --to REGION --reason TEXT [--plan]",
		Short: "Have another region serve a home whose region is lost",
		Long: "Have another region serve a home whose region is lost or cut off. It is refused while that region gives signs\n" +
			"of life: then move the home.\n\n" +
			"A region that is cut off stops by itself, at most 10 s after it could last learn who serves the home; the other\n" +
			"begins 12 s after it learns of the fail-over. What the lost region acknowledged and had not replicated, some 50 ms\n" +
			"of work as a rule, is missing until it returns, and then runs late or, with the region lost for good, never.\n" +
			"It says how old the last sign of life of the lost region is, and with the configuration of a node of the region\n" +
			"that takes over also how far that one is behind. With --plan it says only that, and about how many runs are under\n" +
			"way. It is refused while that one is behind by more than 10 s, or it is not known by how much: wait until what is\n" +
			"missing has arrived, or --accept-lag.\n" +
			"Without a witness nothing can be decided while one of two regions is lost.",
		Example: "  carillon region failover eu --to us --reason 'eu has no power' --plan --config carillon.yaml",
	})
	cmd.Flags().BoolVar(&o.AcceptLag, "accept-lag", false, "also if the region that takes over is far behind, or it is not known how far")
	return cmd
}

// handingCommand completes a command that has another region serve a home.
func handingCommand(o *handing, cmd *cobra.Command) *cobra.Command {
	var file string
	cmd.Args = cobra.ExactArgs(1)
	cmd.Flags().StringVar(&file, "config", "", "configuration `file` (YAML)")
	cmd.Flags().StringVar(&o.To, "to", "", "the `region` that is to serve it")
	cmd.Flags().StringVar(&o.Reason, "reason", "", "why, in your words: it is kept")
	cmd.Flags().BoolVar(&o.AcceptNoExecutors, "accept-no-executors", false, "also if that region has no executor: it takes in, and starts nothing")
	cmd.Flags().BoolVar(&o.plan, "plan", false, "only say what would be done")
	run := withEpochs(&file, func(cmd *cobra.Command, r regionsShared, args []string) error {
		o.Home = args[0]
		return r.hand(cmd.Context(), *o)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var faults []error
		if o.To == "" {
			faults = append(faults, cli.Usagef("--to: say which region is to serve the home"))
		}
		if o.Reason == "" && !o.plan {
			faults = append(faults, cli.Usagef("--reason: say why"))
		}
		if o.Drain < 0 || o.Drain > homes.MaxDrain {
			faults = append(faults, cli.Usagef("--drain: %v is not between 0 and %v", o.Drain, homes.MaxDrain))
		}
		faults = append(faults, spanFaults(o.HomeChange)...)
		if err := errors.Join(faults...); err != nil {
			return err
		}
		o.By = operator()
		return run(cmd, args)
	}
	return cmd
}

// operator returns who gives a command.
func operator() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

// hand has another region serve a home, or says what that costs. Of two that do so at once one
// wins, and the other learns who did.
func (r regionsShared) hand(ctx context.Context, o handing) error {
	c := r.changer()
	if o.plan {
		plan, err := c.Plan(ctx, o.HomeChange)
		if err == nil {
			r.showPlan(&plan)
		}
		return refused(err)
	}
	change, err := c.Begin(ctx, o.HomeChange)
	if err != nil {
		return refused(err)
	}
	if o.Forced && !change.Plan.Already {
		r.showCost(&change.Plan)
	}
	_, err = change.Do(ctx)
	return err
}

// refused has an unknown home or region be an error of the command line.
func refused(err error) error {
	var e *schema.ChangeRefusedError
	if errors.As(err, &e) && e.Unknown() {
		return cli.Usagef("%w", err)
	}
	return err
}

// showPlan says what would be done, and what it costs.
func (r regionsShared) showPlan(p *schema.ChangePlan) {
	o := &p.Change
	if p.Already {
		return // it was said
	}
	if o.Forced {
		r.showCost(p)
	}
	r.showBacklog(p)
	if o.Sync {
		r.say("would compare what all data centres hold of home %s first", o.Home)
	}
	if !o.Forced {
		r.say("would announce that for %v, while region %s serves the home, then drain it for %v: nothing is taken in for some %v", p.Announced, p.Was.Region, p.Drained, p.Unavailable())
	}
	r.say("would have region %s serve home %s in epoch %d, some %v from then on", o.To, o.Home, p.Was.Number+1, p.Begins)
	for _, f := range p.Refused {
		r.say("would be refused: %s", f.Message)
	}
}

// showCost says what of a lost region may be missing at the one that is to serve its home.
func (r regionsShared) showCost(p *schema.ChangePlan) {
	lost, to := p.Was.Region, p.Change.To
	if !p.HasSign {
		r.say("region %s has never given a sign of life", lost)
		return
	}
	r.say("the last sign of life of region %s is %v old, by its clock and that of this machine; if it was cut off it went on for at most %v", lost, p.LastSign.Round(100*time.Millisecond), schema.HomeLeaseLife)
	switch {
	case p.LagFault != "":
		r.say("%s", p.LagFault)
		return
	case p.Lag > 0:
		r.say("region %s is behind by %v before that sign: what region %s acknowledged in that time and since is missing there until %s returns", to, p.Lag, lost, lost)
	default:
		r.say("region %s has that sign of life: what region %s acknowledged before it is there; what it acknowledged since may be missing until %s returns", to, lost, lost)
	}
	r.say("so at most %v of what it acknowledged is missing there", p.LostAtMost)
}

// showBacklog says what is under way in the home.
func (r regionsShared) showBacklog(p *schema.ChangePlan) {
	b := &p.Backlog
	if b.Fault != "" {
		r.say("what is under way in home %s is not known: %s", p.Change.Home, b.Fault)
		return
	}
	least := ""
	if b.More {
		least = " or more"
	}
	r.say("home %s is finished up to %s; about %d%s runs were due since, most of which have ended by now: those that still run may be started again, unless they are guarded", p.Change.Home, b.Settled.UTC().Format(time.RFC3339), b.UnderWay, least)
	r.say("region %s would look at about %d%s runs; about %d become due while nobody publishes, and start late (%d of %d shards were counted)", p.Change.To, b.LookedAt, least, b.DueMeanwhile, b.Sampled, b.Shards)
}

// epochHead and epochRow show an epoch in a table.
var epochHead = []string{"HOME", "EPOCH", "REGION", "SINCE", "BY", "REASON"}

func epochRow(e schema.Epoch) []string {
	if e.Number == 0 {
		return []string{e.Home, "none", "", "", "", ""}
	}
	return []string{e.Home, strconv.FormatInt(e.Number, 10), e.Region, e.At.Format(time.RFC3339), cli.Clean(e.By), cli.Clean(e.Reason)}
}

// list shows who serves each home, and which regions are alive.
func (r regionsShared) list(ctx context.Context) error {
	newest, err := r.store.Epochs(ctx, r.homes)
	if err != nil {
		return err
	}
	rows := [][]string{epochHead}
	for _, e := range newest {
		rows = append(rows, epochRow(e))
	}
	if err := cli.Table(r.out, rows); err != nil {
		return err
	}
	alive, err := homes.Alive(ctx, r.store)
	if err != nil {
		return err
	}
	r.say("")
	rows = [][]string{{"REGION", "ALIVE"}}
	for _, region := range r.regions {
		word := "no"
		if alive[region] {
			word = "yes"
		}
		rows = append(rows, []string{region, word})
	}
	return cli.Table(r.out, rows)
}

func (r regionsShared) say(format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, format+"\n", args...) // a closed output does not stop what is done
}
