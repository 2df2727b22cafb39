package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

// listenFor is how long a command listens for signs of life of regions: one is written every 2 s by
// each node.
const listenFor = 3 * schema.HomeLeaseRead

func regionCommand() *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "region",
		Short: "Show which region serves each home of shards, and have another serve it",
		Long: "Show which region serves each home of shards, and have another serve it. The configuration is that of a node:\n" +
			"the commands speak to Cassandra, of whose data centres a quorum must answer.",
	})
	cmd.AddCommand(regionListCommand(), regionLogCommand(), regionMoveCommand(), regionFailoverCommand(), regionSyncCommand())
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
			shards: regions.Homes.Shards,
			open: func() (rowStore, error) {
				rows, err := cli.OpenCassandra(cmd, *file)
				if err != nil {
					return nil, err // not a rowStore that is nil
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
	open           func() (rowStore, error) // opens the store of everything else
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
	home, to, by, reason string
	forced               bool          // the region that serves it is lost
	plan                 bool          // only say what it costs
	drain                time.Duration // how long what is under way may end first; 0: nothing is drained
	sync                 bool          // the rows of all data centres are compared first
	since, until         time.Duration // over which due times
}

// maxDrain bounds how long a home is drained: nothing is taken in for it meanwhile.
const maxDrain = 5 * time.Minute

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
	syncFlags(cmd, &o)
	cmd.Flags().BoolVar(&o.sync, "sync", true, "compare the rows of all data centres first")
	cmd.Flags().DurationVar(&o.drain, "drain", 4*time.Second, "how long what is under way may end first, at most 5m; 0: not at all")
	return cmd
}

func regionFailoverCommand() *cobra.Command {
	o := handing{forced: true}
	return handingCommand(&o, &cobra.Command{
		Use:   "failover HOME --to REGION --reason TEXT [--plan]",
		Short: "Have another region serve a home whose region is lost",
		Long: "Have another region serve a home whose region is lost or cut off. It is refused while that region gives signs\n" +
			"of life: then move the home.\n\n" +
			"A region that is cut off stops by itself, at most 10 s after it could last learn who serves the home; the other\n" +
			"begins 12 s after it learns of the fail-over. What the lost region acknowledged and had not replicated, some 50 ms\n" +
			"of work as a rule, is missing until it returns, and then runs late or, with the region lost for good, never.\n" +
			"It says how old the last sign of life of the lost region is, and with the configuration of a node of the region\n" +
			"that takes over also how far that one is behind. With --plan it says only that.\n" +
			"Without a witness nothing can be decided while one of two regions is lost.",
		Example: "  carillon region failover eu --to us --reason 'eu has no power' --plan --config carillon.yaml",
	})
}

// handingCommand completes a command that has another region serve a home.
func handingCommand(o *handing, cmd *cobra.Command) *cobra.Command {
	var file string
	cmd.Args = cobra.ExactArgs(1)
	cmd.Flags().StringVar(&file, "config", "", "configuration `file` (YAML)")
	cmd.Flags().StringVar(&o.to, "to", "", "the `region` that is to serve it")
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, in your words: it is kept")
	cmd.Flags().BoolVar(&o.plan, "plan", false, "only say what would be done")
	run := withEpochs(&file, func(cmd *cobra.Command, r regionsShared, args []string) error {
		o.home = args[0]
		return r.hand(cmd.Context(), *o)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var faults []error
		if o.to == "" {
			faults = append(faults, cli.Usagef("--to: say which region is to serve the home"))
		}
		if o.reason == "" && !o.plan {
			faults = append(faults, cli.Usagef("--reason: say why"))
		}
		if o.drain < 0 || o.drain > maxDrain {
			faults = append(faults, cli.Usagef("--drain: %v is not between 0 and %v", o.drain, maxDrain))
		}
		faults = append(faults, o.spanFaults()...)
		if err := errors.Join(faults...); err != nil {
			return err
		}
		o.by = "unknown"
		if u, err := user.Current(); err == nil {
			o.by = u.Username
		}
		return run(cmd, args)
	}
	return cmd
}

// hand has another region serve a home: it inserts the next epoch. Of two that do so at once one wins,
// and the other learns who did.
func (r regionsShared) hand(ctx context.Context, o handing) error {
	switch {
	case !slices.Contains(r.homes, o.home):
		return cli.Usagef("there is no home %s: there are %s", o.home, strings.Join(r.homes, ", "))
	case !slices.Contains(r.regions, o.to):
		return cli.Usagef("--to: there is no region %s: there are %s", o.to, strings.Join(r.regions, ", "))
	}
	newest, err := r.store.Epochs(ctx, []string{o.home})
	if err != nil {
		return err
	}
	was := newest[0]
	switch {
	case was.Number == 0:
		return fmt.Errorf("home %s has no epoch: run carillon migrate, which writes the first one", o.home)
	case was.Region == o.to:
		r.say("region %s serves home %s already (epoch %d)", o.to, o.home, was.Number)
		return nil
	}
	r.say("region %s serves home %s (epoch %d); listening for signs of life for %v", was.Region, o.home, was.Number, listenFor)
	alive, err := r.alive(ctx)
	if err != nil {
		return err
	}
	switch {
	case !alive[o.to]:
		return fmt.Errorf("region %s gives no sign of life: it could not serve home %s", o.to, o.home)
	case o.forced && alive[was.Region]:
		return fmt.Errorf("region %s gives signs of life: move the home", was.Region)
	case !o.forced && !alive[was.Region]:
		return fmt.Errorf("region %s gives no sign of life: if it is lost, fail the home over", was.Region)
	}
	if o.forced {
		if err := r.cost(ctx, was.Region, o.to); err != nil {
			return err
		}
	}
	begins := schema.TakeOverWait + schema.HomeLeaseRead // after the epoch
	if !o.forced {
		begins = schema.ShortTakeOverWait + time.Second
	}
	if o.plan {
		if o.sync {
			r.say("would compare what all data centres hold of home %s first", o.home)
		}
		if !o.forced {
			r.say("would announce that for %v, while region %s serves the home, then drain it for %v: nothing is taken in for some %v", schema.TakeOverWait, was.Region, o.drain, o.drain+begins)
		}
		r.say("would have region %s serve home %s in epoch %d, some %v from then on", o.to, o.home, was.Number+1, begins)
		return nil
	}
	if o.sync {
		if err := r.sync(ctx, o); err != nil {
			return fmt.Errorf("home %s is not moved; nothing was announced, and --sync=false leaves this out: %w", o.home, err)
		}
	}
	if !o.forced {
		if err := r.prepare(ctx, o, was); err != nil {
			return err
		}
	}
	stands, err := r.store.InsertEpoch(ctx, was.Next(o.to, o.by, o.reason, time.Now()))
	switch {
	case errors.Is(err, schema.ErrConflict):
		return fmt.Errorf("somebody else was faster: %s decided that region %s serves home %s (epoch %d): %s", stands.By, stands.Region, stands.Home, stands.Number, stands.Reason)
	case errors.Is(err, schema.ErrUnknown):
		return fmt.Errorf("it is not known whether epoch %d was written: look at carillon region list, and then run the command again: %w", was.Number+1, err)
	case err != nil:
		return err
	}
	r.say("region %s serves home %s in epoch %d, in some %v", o.to, o.home, stands.Number, begins)
	return nil
}

// prepare announces that a home goes elsewhere, lets that become known, and has it drained. An
// announcement cannot be taken back. So if the move is given up the next epoch is written for the region
// that serves already; not if somebody else moves the home at the same time.
func (r regionsShared) prepare(ctx context.Context, o handing, was schema.Epoch) error {
	err := r.store.PutBeat(ctx, schema.Announcement(was))
	if err != nil {
		err = fmt.Errorf("announce that home %s is moved: %w", o.home, err)
	} else {
		r.say("it is announced that home %s goes to region %s; region %s serves it for another %v", o.home, o.to, was.Region, schema.TakeOverWait)
		if err = pause(ctx, schema.TakeOverWait); err == nil && o.drain > 0 {
			err = r.drain(ctx, o, was)
		}
		if err == nil && o.sync && o.since > lateReach {
			err = r.rewind(ctx, o)
		}
	}
	if err == nil || errors.Is(err, errOther) {
		return err
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*schema.HomeLeaseRead)
	defer cancel()
	again := was.Next(was.Region, o.by, "the move to region "+o.to+" was given up", time.Now())
	switch stands, failed := r.store.InsertEpoch(bounded, again); {
	case failed == nil:
		r.say("the move is given up: region %s serves home %s in epoch %d", stands.Region, stands.Home, stands.Number)
	case !errors.Is(failed, schema.ErrConflict):
		r.say("the move is given up, and that could not be written: until the next epoch region %s stops for home %s if it cannot read for %v; run the command again", was.Region, o.home, schema.ShortLeaseLife)
	}
	return err
}

// errOther: somebody else drains the home too.
var errOther = errors.New("the request")

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drain has the region that serves a home take in and publish nothing more of it, and waits. If it
// is given up the request is taken back; one that cannot be is of no effect after some time. The
// request bears the time of that region, as its last sign of life tells it: the clock of this
// machine is not asked.
func (r regionsShared) drain(ctx context.Context, o handing, was schema.Epoch) error {
	beats, err := r.store.Beats(ctx)
	if err != nil {
		return err
	}
	ask := schema.Beat{
		Region: schema.DrainRow(o.home), Node: o.by, Count: was.Number, At: time.Now(),
		Drain: &schema.Drain{Home: o.home, Epoch: was.Number, To: o.to, For: schema.Duration(o.drain)},
	}
	if b, ok := beatOf(beats, was.Region); ok {
		ask.At = b.At
	}
	ask.At = ask.At.Truncate(time.Millisecond)
	if last, ok := beatOf(beats, ask.Region); ok && !ask.At.After(last.At) {
		ask.At = last.At.Add(time.Millisecond) // of two the later one stays
	}
	if err := r.store.PutBeat(ctx, ask); err != nil {
		return fmt.Errorf("ask region %s to drain home %s: %w", was.Region, o.home, err)
	}
	if beats, err = r.store.Beats(ctx); err != nil {
		return err
	}
	if stands, _ := beatOf(beats, ask.Region); !stands.At.Equal(ask.At) || stands.Drain == nil || *stands.Drain != *ask.Drain {
		return fmt.Errorf("home %s is not drained: %w of %s stands, not ours; run the command again", o.home, errOther, stands.Node)
	}
	r.say("region %s takes in and publishes nothing more of home %s; waiting %v for what is under way", was.Region, o.home, o.drain)
	if pause(ctx, o.drain) == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), schema.HomeLeaseRead)
	defer cancel()
	ask.Drain, ask.At = nil, ask.At.Add(time.Millisecond)
	if err := r.store.PutBeat(bounded, ask); err != nil {
		r.say("that it is given up could not be written: region %s takes in again within %v", was.Region, o.drain+schema.DrainSpare)
	}
	return fmt.Errorf("drain home %s: %w", o.home, ctx.Err())
}

// cost says what of a lost region may be missing at the one that is to serve its home.
func (r regionsShared) cost(ctx context.Context, lost, to string) error {
	all, err := r.store.Beats(ctx)
	if err != nil {
		return err
	}
	last, ok := beatOf(all, lost)
	if !ok {
		r.say("region %s has never given a sign of life", lost)
		return nil
	}
	r.say("the last sign of life of region %s is %v old, by its clock and that of this machine; if it was cut off it went on for at most %v", lost, time.Since(last.At).Round(100*time.Millisecond), schema.HomeLeaseLife)
	local, ok := r.store.(schema.LocalBeats)
	if r.region != to || !ok {
		r.say("how far region %s is behind: run this with the configuration of a node of region %s", to, to)
		return nil
	}
	here, err := local.BeatsHere(ctx)
	if err != nil {
		return err
	}
	switch seen, ok := beatOf(here, lost); {
	case !ok:
		r.say("region %s has no sign of life of region %s: perhaps nothing that %s acknowledged is there", to, lost, lost)
	case seen.At.Before(last.At):
		r.say("region %s is behind by %v before that sign: what region %s acknowledged in that time and since is missing there until %s returns", to, last.At.Sub(seen.At), lost, lost)
	default:
		r.say("region %s has that sign of life: what region %s acknowledged before it is there; what it acknowledged since may be missing until %s returns", to, lost, lost)
	}
	return nil
}

// beatOf returns the beat of a region.
func beatOf(beats []schema.Beat, region string) (schema.Beat, bool) {
	i := slices.IndexFunc(beats, func(b schema.Beat) bool { return b.Region == region })
	if i < 0 {
		return schema.Beat{}, false
	}
	return beats[i], true
}

// alive returns which regions give a sign of life while it listens. It compares no clocks.
func (r regionsShared) alive(ctx context.Context) (map[string]bool, error) {
	before, err := r.store.Beats(ctx)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, listenFor); err != nil {
		return nil, fmt.Errorf("listen for signs of life: %w", err)
	}
	after, err := r.store.Beats(ctx)
	if err != nil {
		return nil, err
	}
	alive := make(map[string]bool)
	for _, b := range after {
		alive[b.Region] = true
		for _, was := range before {
			if was.Region == b.Region && was.Node == b.Node && was.Count == b.Count {
				alive[b.Region] = false
			}
		}
	}
	return alive, nil
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
	alive, err := r.alive(ctx)
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
