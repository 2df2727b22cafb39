package client

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

// followEvery is how often `run logs -f` asks for new lines.
const followEvery = time.Second

func runOutputCommand(r *cli.Remote) *cobra.Command {
	var attempt int
	cmd := &cobra.Command{
		Use:   "output ID",
		Short: "Write the output of a run's attempt that succeeded, or of its last one, as it is",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().IntVar(&attempt, "attempt", 0, "of the attempt of this `number` (default: the one that succeeded, or the last that has ended)")
	cmd.RunE = r.WithRun(func(cmd *cobra.Command, client *httpapi.Client, id schema.RunID) error {
		if attempt < 0 {
			return cli.Usagef("--attempt: %d is negative", attempt)
		}
		out, err := client.Output(cmd.Context(), id, attempt)
		if err != nil {
			return fmt.Errorf("read output: %w", err)
		}
		if _, err := cmd.OutOrStdout().Write(out.Text); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if out.Cut {
			cli.Advise(cmd, "There was more output than the %d bytes that were kept.", len(out.Text))
		}
		return nil
	})
	return cmd
}

func runLogsCommand(r *cli.Remote) *cobra.Command {
	var attempt int
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Show what a run's worker logs, also while it runs",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().IntVar(&attempt, "attempt", 0, "only of the attempt of this `number`")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the run has ended")
	cmd.RunE = r.WithRun(func(cmd *cobra.Command, client *httpapi.Client, id schema.RunID) error {
		if attempt < 0 {
			return cli.Usagef("--attempt: %d is negative", attempt)
		}
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetEscapeHTML(false)
		for line, err := range client.Logs(cmd.Context(), id, attempt, follow, followEvery) {
			switch {
			case err != nil:
				return fmt.Errorf("read log: %w", err)
			case r.JSON():
				err = enc.Encode(line)
			case line.Dropped > 0:
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "(%d lines were not kept)\n", line.Dropped)
			default:
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", line.At.UTC().Format("15:04:05.000"), cli.Clean(line.Text))
			}
			if err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
		return nil
	})
	return cmd
}
