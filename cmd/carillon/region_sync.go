package main

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/homes"
)

func regionSyncCommand() *cobra.Command {
	var file string
	o := schema.HomeChange{}
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
		if o.Home = args[0]; !slices.Contains(r.homes, o.Home) {
			return cli.Usagef("there is no home %s: there are %s", o.Home, strings.Join(r.homes, ", "))
		}
		return r.changer().Compare(cmd.Context(), o)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(spanFaults(o)...); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}

// syncFlags adds the flags that say what is compared.
func syncFlags(cmd *cobra.Command, o *schema.HomeChange) {
	cmd.Flags().DurationVar(&o.Since, "since", 0, "compare at least what was due since so long ago, such as since a cut began")
	cmd.Flags().DurationVar(&o.Until, "until", 15*time.Minute, "compare what is due within so long")
}

// spanFaults returns what is wrong with the spans.
func spanFaults(o schema.HomeChange) (faults []error) {
	if o.Since < 0 || o.Since > homes.MaxSpan {
		faults = append(faults, cli.Usagef("--since: %v is not between 0 and %v", o.Since, homes.MaxSpan))
	}
	if o.Until < 0 || o.Until > homes.MaxSpan {
		faults = append(faults, cli.Usagef("--until: %v is not between 0 and %v", o.Until, homes.MaxSpan))
	}
	return faults
}
