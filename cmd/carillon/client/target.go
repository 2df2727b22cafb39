package client

import (
	"fmt"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
)

func targetCommand() *cobra.Command {
	r := &cli.Remote{}
	cmd := cli.Group(&cobra.Command{
		Use:   "target",
		Short: "List the targets that are called, and close their circuit breakers",
		Long: "List the targets that executors have called lately, and close their circuit breakers.\n\n" +
			"A target is scheme, host and port of HTTP calls, or the subject of NATS requests. One of which nine of ten calls fail is called by probes\n" +
			"alone for a while; runs for it are deferred meanwhile.",
	})
	r.AddFlags(cmd)
	cmd.AddCommand(targetListCommand(r), targetResetCommand(r))
	return cmd
}

func targetListCommand(r *cli.Remote) *cobra.Command {
	var state string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the targets that executors have called lately, by name",
		Long: "List the targets that executors have called lately, by name, each with what its last failure said, until it works again.\n\n" +
			"With -o json there is one target a line, with what each executor knows of it.",
		Example: "  carillon target list --state open",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&state, "state", "", "only targets that are closed, open or half_open")
	cmd.Flags().IntVar(&limit, "limit", 50, "show at most so many; 0 = all")
	cli.CompleteFlag(cmd, "state", "closed", "open", "half_open")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
		return cli.List(cmd, r, "list targets", client.Targets(cmd.Context(), state, silentNodes(cmd)), limit, targetHead, targetRow)
	})
	return cmd
}

// targetHead and targetRow make a table of targets.
var targetHead = []string{"TARGET", "STATE", "SINCE", "NEXT PROBE", "FAILURES", "DEFERRALS", "RUNNING", "LAST ERROR"}

func targetRow(t *httpapi.TargetOfTenant) []string {
	return []string{
		t.Target, t.State, cli.ShowTime(t.Since), cli.ShowTime(t.NextProbeAt), fmt.Sprint(t.Failures), fmt.Sprint(t.Deferrals), fmt.Sprint(t.Running), t.LastError,
	}
}

// silentNodes returns a func that reports executors that did not answer, each once.
func silentNodes(cmd *cobra.Command) func(nodes []string) {
	told := make(map[string]bool)
	return func(nodes []string) {
		for _, node := range nodes {
			if !told[node] {
				cli.Advise(cmd, "%s did not answer: how it is there is not known", node)
			}
			told[node] = true
		}
	}
}

func targetResetCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "reset TARGET",
		Short: "Close the circuit breaker of a target on every executor",
		Long: "Close the circuit breaker of a target on every executor. Calls that began before count no more; if the target fails on, it opens again.\n" +
			"Runs that were deferred start at the time to which they were.",
		Example: "  carillon target reset https://api.example.com",
		Args:    cobra.ExactArgs(1),
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
			t, missing, err := client.ResetTarget(cmd.Context(), args[0])
			if err != nil {
				return fmt.Errorf("reset target: %w", err)
			}
			silentNodes(cmd)(missing)
			if r.JSON() {
				return cli.Document(cmd.OutOrStdout(), t)
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%s is %s\n", t.Target, t.State)
			return err
		}),
	}
}
