package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema/cassandra"
)

func migrateCommand() *cobra.Command {
	var file string
	var opts cassandra.MigrateOptions
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create the keyspace, or bring it up to date",
		Long: "Create the keyspace, or bring it up to date: tables, settings and first cursors.\n\n" +
			"Repeating it is harmless, and so is cutting it short. Nodes of the version before go on working meanwhile.",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration `file` (YAML)")
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "only say what would be done")
	cmd.Flags().StringVar(&opts.Replication, "replication", "", "copies of each row: 3, or dc1:3 (needed for a new keyspace); one data centre")
	cmd.Flags().IntVar(&opts.Shards, "shards", cassandra.DefaultShards, "shards of a new keyspace: about one for every 200 runs a second")
	cmd.Flags().DurationVar(&opts.Retention, "retention", cassandra.DefaultRetention, "how long rows of a new keyspace stay after their due time")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cc, regions, err := cli.MigrationConfig(cmd, file)
		if err != nil {
			return err
		}
		opts.Regions = regions
		opts.Out = cmd.OutOrStdout()
		start := time.Now()
		done, err := cassandra.Migrate(cmd.Context(), cc, opts)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d migrations, %d cursors, %d shards, retention %v (%v)\n",
			len(done.Applied), done.Cursors, done.InForce.Shards, done.InForce.Retention, time.Since(start).Round(time.Millisecond))
		return err
	}
	return cmd
}
