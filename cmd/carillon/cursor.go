package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

func cursorCommand() *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "cursor",
		Short: "Move the cursors of shards back",
		Long:  "Move the cursors of shards back. A cursor says up to when everything due in a shard is dispatched, and finished.",
	})
	cmd.AddCommand(cursorRewindCommand())
	return cmd
}

// rewinding says which cursors to move back, and how far.
type rewinding struct {
	shard  int            // -1: all
	of     []schema.Shard // those alone; nil: all
	since  time.Duration  // how far back
	dryRun bool
	out    io.Writer
}

func cursorRewindCommand() *cobra.Command {
	var file string
	opts := rewinding{}
	cmd := &cobra.Command{
		Use:   "rewind --since SPAN [--shard N] [--dry-run]",
		Short: "Have everything looked at again that has been due since some time ago",
		Long: "Have everything looked at again that has been due since some time ago: runs that were never started are started,\n" +
			"late, and what is done is left alone. The owner of a shard takes the new cursor within a minute or two, or, while a\n" +
			"backlog holds its own cursor, when that is worked off.\n\n" +
			"It is for cursors that lay in the future (carillon_dispatcher_cursors_ahead_total). The owner of such a shard goes\n" +
			"back an hour by itself; this goes back further. Rows leave with the retention, so more than that finds nothing more.\n" +
			"The configuration is that of a node: the command speaks to Cassandra.",
		Example: "  carillon cursor rewind --config carillon.yaml --since 24h --dry-run",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration `file` (YAML)")
	cmd.Flags().IntVar(&opts.shard, "shard", -1, "this shard alone; -1 is all")
	cmd.Flags().DurationVar(&opts.since, "since", 0, "how far back, such as 24h")
	cmd.Flags().BoolVar(&opts.dryRun, "dry-run", false, "only say what would be done")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var faults []error
		if opts.since < time.Minute {
			faults = append(faults, cli.Usagef("--since: say how far back, a minute or more, such as 24h"))
		}
		if opts.shard < -1 {
			faults = append(faults, cli.Usagef("--shard: %d is none: 0 or more, or -1 for all", opts.shard))
		}
		if err := errors.Join(faults...); err != nil {
			return err
		}
		store, err := cli.OpenCassandra(cmd, file)
		if err != nil {
			return err
		}
		defer func() { _ = store.Close() }() // never fails
		opts.out = cmd.OutOrStdout()
		return opts.rewind(cmd.Context(), store)
	}
	return cmd
}

// rewind moves the cursors of the shards back. Within an epoch a cursor only grows, so rewind
// begins a new epoch. A watermark that is already further back stays: entries are open there.
// rewind reads each cursor again afterwards, because the shard's owner may have written one at the
// same time and won.
func (o rewinding) rewind(ctx context.Context, store interface {
	schema.CursorStore
	schema.SettingsStore
	schema.Prober
	schema.ClockStore
},
) error {
	now, err := schema.TimeByMost(ctx, store)
	if err != nil {
		return fmt.Errorf("ask for the time: %w", err)
	}
	settings, err := store.Settings(ctx)
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	if o.since > settings.Retention {
		o.say("rows leave after %s: nothing older is there to be looked at", settings.Retention)
		o.since = settings.Retention
	}
	to := schema.BucketOf(now.Add(-o.since)) - 1
	cursors, err := store.Cursors(ctx)
	if err != nil {
		return fmt.Errorf("read the cursors: %w", err)
	}
	found := 0
	for _, was := range cursors {
		if o.shard >= 0 && int(was.Shard) != o.shard || o.of != nil && !slices.Contains(o.of, was.Shard) {
			continue
		}
		found++
		left := "finished up to " + was.Settled.End().Format(time.RFC3339)
		switch {
		case max(was.Settled, was.Dispatched) <= to:
			o.say("shard %d: %s: left alone", was.Shard, left)
			continue
		case o.dryRun:
			o.say("shard %d: %s: would go back to %s", was.Shard, left, to.End().Format(time.RFC3339))
			continue
		}
		is := schema.Cursor{Shard: was.Shard, Epoch: was.Epoch + 1, Dispatched: min(was.Dispatched, to), Settled: min(was.Settled, to)}
		if err := store.AdvanceCursor(ctx, is); err != nil {
			return fmt.Errorf("rewind shard %d: %w", was.Shard, err)
		}
		stands, err := store.Cursor(ctx, was.Shard)
		switch {
		case err != nil:
			return fmt.Errorf("read the cursor of shard %d again: %w", was.Shard, err)
		case stands != is:
			return fmt.Errorf("the cursor of shard %d was moved at the same time: run the command again", was.Shard)
		}
		o.say("shard %d: %s: goes back to %s", was.Shard, left, to.End().Format(time.RFC3339))
	}
	if found == 0 {
		return cli.Usagef("--shard: there is no shard %d", o.shard)
	}
	return nil
}

func (o rewinding) say(format string, args ...any) {
	_, _ = fmt.Fprintf(o.out, format+"\n", args...) // a closed output does not stop the rewind
}
