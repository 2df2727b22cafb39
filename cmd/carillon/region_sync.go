package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/homes"
)

// rowStore is what comparing the rows of a home, and having its shards looked at again, needs. It can
// compare if it is a schema.Syncer too.
type rowStore interface {
	schema.CursorStore
	schema.SettingsStore
	schema.Prober
	schema.ClockStore
	Close() error
}

const (
	// lateReach is how long after its time a row is found by whoever takes a shard over, without a
	// cursor that goes back.
	lateReach = 3 * time.Hour
	// maxSync bounds how far a comparison goes, to either side.
	maxSync = 366 * 24 * time.Hour
	// syncTells is how often it says how far it is.
	syncTells = 5 * time.Second
)

func regionSyncCommand() *cobra.Command {
	var file string
	o := handing{}
	cmd := &cobra.Command{
		Use:   "sync HOME [--since SPAN] [--until SPAN]",
		Short: "Have all data centres hold what any of them holds of a home",
		Long: "Have all data centres hold what any of them holds of a home: its rows are read of a quorum of each, and what one\n" +
			"lacks is written to it. It takes all that is open, from 10 minutes before the cursor of each shard or from --since\n" +
			"ago, up to what is due within --until, and the jobs of the home. It can be done at any time, and again; while a data\n" +
			"centre does not answer it fails.\n\n" +
			"Each minute of a shard costs four reads of another region's round trip, of which 16 are under way at once. What has\n" +
			"no due time is left out: keys, names, leases of runs, tasks, tenants. Those come by hints, within 3 hours of a cut,\n" +
			"or by nodetool repair.",
		Example: "  carillon region sync eu --since 2h --until 24h --config carillon.yaml",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration `file` (YAML)")
	syncFlags(cmd, &o)
	run := withEpochs(&file, func(cmd *cobra.Command, r regionsShared, args []string) error {
		if o.home = args[0]; !slices.Contains(r.homes, o.home) {
			return cli.Usagef("there is no home %s: there are %s", o.home, strings.Join(r.homes, ", "))
		}
		return r.sync(cmd.Context(), o)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(o.spanFaults()...); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}

// syncFlags adds the flags that say what is compared.
func syncFlags(cmd *cobra.Command, o *handing) {
	cmd.Flags().DurationVar(&o.since, "since", 0, "compare at least what was due since so long ago, such as since a cut began")
	cmd.Flags().DurationVar(&o.until, "until", 15*time.Minute, "compare what is due within so long")
}

// spanFaults returns what is wrong with the spans.
func (o handing) spanFaults() (faults []error) {
	if o.since < 0 || o.since > maxSync {
		faults = append(faults, cli.Usagef("--since: %v is not between 0 and %v", o.since, maxSync))
	}
	if o.until < 0 || o.until > maxSync {
		faults = append(faults, cli.Usagef("--until: %v is not between 0 and %v", o.until, maxSync))
	}
	return faults
}

// sync compares the rows of a home, and says what was done.
func (r regionsShared) sync(ctx context.Context, o handing) error {
	store, err := r.open()
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // never fails
	syncer, ok := store.(interface {
		schema.CursorStore
		schema.Syncer
	})
	if !ok {
		r.say("there is one copy of the rows of home %s: nothing is to be compared", o.home)
		return nil
	}
	now, shards, err := r.shardsOf(ctx, store, o.home)
	if err != nil {
		return err
	}
	r.say("comparing what all data centres hold of home %s", o.home)
	done, err := homes.Walk{
		Store: syncer, Shards: shards, Since: o.since, Until: o.until, Now: now, ProgressEvery: syncTells,
		Progress: func(w homes.Walked) {
			r.say("  %d of %d minutes of shards, %d rows, %v", w.Partitions, w.Of, w.Rows, w.Took.Round(time.Second))
		},
	}.Do(ctx)
	said := fmt.Sprintf("%d of %d minutes of %d shards, %d rows, in %v", done.Partitions, done.Of, done.Shards, done.Rows, done.Took.Round(10*time.Millisecond))
	if err != nil {
		return fmt.Errorf("home %s is compared in part only (%s): %w", o.home, said, err)
	}
	r.say("compared what was due from %s to %s: %s", done.From.Format(time.RFC3339), done.To.Format(time.RFC3339), said)
	return nil
}

// rewind has whoever serves a home next look at everything that was due since o.since.
func (r regionsShared) rewind(ctx context.Context, o handing) error {
	store, err := r.open()
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // never fails
	_, shards, err := r.shardsOf(ctx, store, o.home)
	if err != nil {
		return err
	}
	return rewinding{shard: -1, of: shards, since: o.since, out: r.out}.rewind(ctx, store)
}

// shardsOf returns the time, by the clocks of the store, and the shards of a home.
func (r regionsShared) shardsOf(ctx context.Context, store rowStore, home string) (time.Time, []schema.Shard, error) {
	now, err := schema.TimeByMost(ctx, store)
	if err != nil {
		return time.Time{}, nil, fmt.Errorf("ask for the time: %w", err)
	}
	settings, err := store.Settings(ctx)
	if err != nil {
		return time.Time{}, nil, fmt.Errorf("read the settings: %w", err)
	}
	return now, r.shards(home, settings.Shards), nil
}
