package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

// exitNotRun is the exit code where a run that was waited for was cancelled, or missed.
const exitNotRun = 3

// waitHelp says how a command ends that waits for a run.
const waitHelp = "With --wait it shows the steps until the run ends: as a tree that is drawn anew in a terminal, else a line for each change.\n" +
	"Exit codes: 0 the run succeeded, 1 it failed, 3 it was cancelled or missed, 2 the command line makes no sense.\n" +
	"Ctrl-C ends the waiting, not the run."

func workflowRunCommand(r *cli.Remote) *cobra.Command {
	var payload, key string
	var wait bool
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Run a workflow now, besides its schedule",
		Long:  "Run a workflow now, besides its schedule, with --payload as its input or with its own.\n\n" + waitHelp,
		Example: "  carillon workflow run etl --wait\n" +
			"  carillon workflow run etl --payload '{\"date\": \"2026-11-21\"}'\n" +
			"  carillon workflow run etl --payload @input.json",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeWorkflows(r),
	}
	cmd.Flags().StringVar(&payload, "payload", "", "input of the run: `JSON`, @file, or - for standard input (default the workflow's)")
	cmd.Flags().StringVar(&key, "idempotency-key", "", "the same key and payload make one run (default: drawn)")
	cmd.Flags().BoolVar(&wait, "wait", false, "show its steps until it ends; the exit code is its outcome")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		var input []byte
		if cmd.Flags().Changed("payload") {
			var err error
			if input, err = readJSON("--payload", payload, cmd.InOrStdin()); err != nil {
				return err
			}
		}
		run, err := client.TriggerWorkflow(cmd.Context(), args[0], input, keyOr(key))
		if err != nil {
			return fmt.Errorf("run workflow: %w", err)
		}
		return showOrFollow(cmd, r, client, &run, wait)
	})
	return cmd
}

func workflowShowRunCommand(r *cli.Remote) *cobra.Command {
	var format string
	var wait bool
	cmd := &cobra.Command{
		Use:   "show-run RUN",
		Short: "Show a workflow run and its steps, or wait until it ends",
		Long:  "Show a workflow run and its steps, or only its graph with the state of each step (--format).\n\n" + waitHelp,
		Args:  cobra.ExactArgs(1),
	}
	formatFlag(cmd, &format)
	cmd.Flags().BoolVar(&wait, "wait", false, "show its steps until it ends; the exit code is its outcome")
	cmd.RunE = r.WithRun(func(cmd *cobra.Command, client *httpapi.Client, id schema.RunID) error {
		if err := checkFormat(r, format); err != nil {
			return err
		}
		if format != "" {
			if wait {
				return cli.Usagef("state --format or --wait, not both")
			}
			return writeGraph(cmd, "show run", func() ([]byte, error) { return client.RunGraph(cmd.Context(), id, format) })
		}
		run, err := client.Run(cmd.Context(), id)
		if err != nil {
			return fmt.Errorf("show run: %w", err)
		}
		return showOrFollow(cmd, r, client, &run, wait)
	})
	return cmd
}

func workflowRetryCommand(r *cli.Remote) *cobra.Command {
	var key string
	var wait bool
	cmd := &cobra.Command{
		Use:   "retry RUN",
		Short: "Run a workflow run that has ended again, from the steps that did not succeed",
		Long: "Run a workflow run that has ended again, as a new run of the same definition and payload, whose origin it is.\n" +
			"Steps that succeeded are taken over with their outputs; of a fan-out that failed all items run again. " +
			"A dead letter of the run goes on waiting: carillon dead-letter replay RUN is a retry that settles it.\n\n" + waitHelp,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&key, "idempotency-key", "", "the same key makes one run (default: drawn)")
	cmd.Flags().BoolVar(&wait, "wait", false, "show its steps until it ends; the exit code is its outcome")
	cmd.RunE = r.WithRun(func(cmd *cobra.Command, client *httpapi.Client, id schema.RunID) error {
		run, err := client.RetryRun(cmd.Context(), id, keyOr(key))
		if err != nil {
			return fmt.Errorf("retry run: %w", err)
		}
		adviseOnLetter(cmd, client, id)
		return showOrFollow(cmd, r, client, &run, wait)
	})
	return cmd
}

func workflowSkipCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "skip RUN STEP",
		Short: "Have a step of a workflow run not run: it counts as succeeded for those after it",
		Long:  "Have a step of a workflow run not run: it counts as succeeded for those after it. If it runs, it is cancelled. Skipping twice is the same as once.",
		Args:  cobra.ExactArgs(2),
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
			id, err := schema.ParseEntryID(args[0])
			if err != nil {
				return cli.Usagef("%w", err)
			}
			run, err := client.SkipStep(cmd.Context(), id, args[1])
			if err != nil {
				return fmt.Errorf("skip step: %w", err)
			}
			return r.Show(cmd, run, func(w io.Writer) error { return writeRun(w, &run) })
		}),
	}
}

// showOrFollow shows a run, at once or when it has ended.
func showOrFollow(cmd *cobra.Command, r *cli.Remote, client *httpapi.Client, run *httpapi.Run, wait bool) error {
	if !wait {
		return r.Show(cmd, run, func(w io.Writer) error { return writeRun(w, run) })
	}
	var watched watcher
	switch out := cmd.OutOrStdout(); {
	case r.JSON():
		watched = quiet{}
	case cli.IsTerminal(out):
		watched = &liveTree{out: out, columns: cli.Columns(out), rows: cli.Rows(out)}
	default:
		watched = &stepLog{out: out, said: make(map[string]string)}
	}
	last, err := follow(cmd.Context(), client, run.ID, watched)
	switch {
	case err != nil && errors.Is(cmd.Context().Err(), context.Canceled):
		return fmt.Errorf("the run goes on: carillon workflow show-run --wait %s", run.ID)
	case err != nil:
		return fmt.Errorf("wait for run %s: %w", run.ID, err)
	case r.JSON():
		if err := cli.Document(cmd.OutOrStdout(), last); err != nil {
			return err
		}
	}
	return outcomeOf(&last)
}

// outcomeOf returns how the program ends that has waited for a run.
func outcomeOf(run *httpapi.Run) error {
	switch run.State {
	case schema.StateSucceeded:
		return nil
	case schema.StateCancelled, schema.StateMissed:
		return cli.Exit(exitNotRun, fmt.Errorf("run %s was %s", run.ID, run.State))
	}
	why := ""
	if n := len(run.Attempts); n > 0 && run.Attempts[n-1].Error != "" {
		why = ": " + cli.Clean(cli.Head(run.Attempts[n-1].Error, 500))
	}
	return fmt.Errorf("run %s %s%s", run.ID, run.State, why)
}

// A run that is followed is looked at again after firstLook, and then ever less often.
const (
	firstLook = 100 * time.Millisecond
	lastLook  = time.Second
)

// watcher shows a run that is followed, as it stands now.
type watcher interface {
	show(run *httpapi.Run, now time.Time) error
}

// quiet shows nothing.
type quiet struct{}

func (quiet) show(*httpapi.Run, time.Time) error { return nil }

// follow shows a run until it has ended, and returns it.
func follow(ctx context.Context, client *httpapi.Client, id schema.RunID, w watcher) (httpapi.Run, error) {
	for look := firstLook; ; look = min(look*5/4, lastLook) {
		run, err := client.Run(ctx, id)
		if err == nil {
			err = w.show(&run, time.Now())
		}
		if err != nil || run.State.Terminal() {
			return run, err
		}
		timer := time.NewTimer(look)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return run, ctx.Err()
		}
	}
}
