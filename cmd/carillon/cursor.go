package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/homes"
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
	shard  int           // -1: all
	since  time.Duration // how far back
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

// rewind moves the cursors of the shards back.
func (o rewinding) rewind(ctx context.Context, store interface {
	schema.CursorStore
	schema.SettingsStore
	schema.Prober
	schema.ClockStore
},
) error {
	r := homes.Rewind{Since: o.since, DryRun: o.dryRun, Say: func(format string, args ...any) {
		_, _ = fmt.Fprintf(o.out, format+"\n", args...) // a closed output does not stop the rewind
	}}
	switch {
	case o.shard >= schema.MaxShards:
		return cli.Usagef("--shard: there is no shard %d", o.shard)
	case o.shard >= 0:
		r.Shards = []schema.Shard{schema.Shard(o.shard)} // #nosec G115 -- below MaxShards
	}
	switch found, err := r.Do(ctx, store); {
	case err != nil:
		return err
	case found == 0:
		return cli.Usagef("--shard: there is no shard %d", o.shard)
	}
	return nil
}
