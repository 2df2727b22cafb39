package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/restore"
)

func newRestore() *cobra.Command {
	var cfg restore.Config
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Drill backup and restore on a real cluster of its own, and judge",
		Long: `Start Cassandra, NATS and Carillon on addresses of their own, make jobs, take a snapshot of Cassandra as
deploy/OPERATING.md says, go on for a while, kill everything and remove all data, restore the snapshot into
empty Cassandra nodes, start with an empty NATS, and judge everything with check.

What had ended before the snapshot must not run again. What is due after the loss must run once. What ran
between snapshot and loss runs again; what was made after the snapshot is gone: both are counted.

Exit status 1 if it came out badly; then the folder with everything is kept, and named.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if cfg.Cassandra != 1 && cfg.Cassandra != 3 {
			return fmt.Errorf("--cassandra is %d, want 1 or 3", cfg.Cassandra)
		}
		if err := cluster.Available(); err != nil {
			return err
		}
		if cfg.Program, err = os.Executable(); err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		if cfg.Carillon, err = absolute(cfg.Carillon); err != nil {
			return err
		}
		if cfg.Dir, err = os.MkdirTemp("", "carillon-restore-"); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		cfg.Log = newLog(cmd.ErrOrStderr())
		ctx, cancel := withTimeout(cmd.Context(), timeout)
		defer cancel()
		rep, err := restore.Run(ctx, cfg, cmd.OutOrStdout())
		if err == nil {
			err = rep.Write(cmd.OutOrStdout())
		}
		if err == nil && len(rep.Faults) > 0 {
			err = fmt.Errorf("restore: %w: %s", errVerdict, strings.Join(rep.Faults, "; "))
		}
		if err != nil {
			cmd.PrintErrln("everything of this drill is in", cfg.Dir)
			return err
		}
		if err := os.RemoveAll(cfg.Dir); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
		return nil
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Cassandra, "cassandra", 1, "Cassandra nodes: 1 or 3")
	f.StringVar(&cfg.Carillon, "carillon", "", "program that the nodes run (default: built from the work tree)")
	f.IntVar(&cfg.Slow, "slow", 1, "stretch the times of the drill, where a snapshot takes longer than half a minute")
	f.DurationVar(&timeout, "timeout", 30*time.Minute, "bound of the whole; 0 = none")
	return cmd
}
