package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/operations"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

func operationCommand() *cobra.Command {
	r := &remote{}
	cmd := group(&cobra.Command{
		Use:   "operation",
		Short: "Do one thing to every job, run or dead letter that matches",
	})
	r.flags(cmd)
	for _, a := range []struct{ action, short string }{
		{operations.ActionCancel, "Cancel every job that matches; with --from and --to, runs"},
		{operations.ActionPause, "Pause every job that matches"},
		{operations.ActionResume, "Resume every job that matches"},
		{operations.ActionTrigger, "Run every job that matches now"},
		{operations.ActionRetry, "Run runs that have ended again: those that failed, if --state says nothing else"},
		{operations.ActionReplay, "Run dead letters again: runs that failed for good and wait"},
		{operations.ActionDiscard, "Let dead letters go"},
	} {
		cmd.AddCommand(operationBeginCommand(r, a.action, a.short))
	}
	cmd.AddCommand(operationGetCommand(r))
	return cmd
}

// operationFlags says what an operation acts on.
type operationFlags struct {
	all, dryRun, wait bool
	from, to, key     string
	filter            schema.OperationFilter
}

func operationBeginCommand(r *remote, action, short string) *cobra.Command {
	var f operationFlags
	letters := action == operations.ActionReplay || action == operations.ActionDiscard
	ofJobs, ofRuns := action != operations.ActionRetry && !letters, action == operations.ActionCancel || action == operations.ActionRetry || letters
	cmd := &cobra.Command{
		Use:   action + " [filter]",
		Short: short,
		Long: short + ".\n\nIt is worked off in the background, and goes on if this command or a node ends. --dry-run only counts what matches. " +
			"What did not match when it began is not met.",
		Args: cobra.NoArgs,
	}
	if action == operations.ActionCancel {
		cmd.Use, cmd.Args = action+" (ID | [filter])", cobra.MaximumNArgs(1)
		cmd.Short += "; with an ID, that operation"
		cmd.Long += "\n\nWith the ID of an operation that has not ended it ends that: what it did stays done, and what it started goes on."
	}
	flags := cmd.Flags()
	if !letters {
		flags.StringVar(&f.filter.State, "state", "", "only what is in this state")
	}
	if ofJobs {
		cmd.Example = "  carillon operation " + action + " --label team=billing --dry-run"
		flags.BoolVar(&f.all, "all", false, "every job of the tenant")
		flags.StringVar(&f.filter.Label, "label", "", "only jobs with this label, as `name=value`")
		flags.StringVar(&f.filter.NamePrefix, "name-prefix", "", "only jobs whose name begins so")
	}
	if ofRuns {
		cmd.Example += "\n  carillon operation " + action + " --from -2h --to 0s --task send-email"
		flags.StringVar(&f.from, "from", "", "runs that are due at this `time` or later: RFC 3339, or a span from now")
		flags.StringVar(&f.to, "to", "", "runs that are due before this `time`")
		flags.StringVar(&f.filter.Task, "task", "", "only runs of the task of this `name`")
	}
	flags.BoolVar(&f.dryRun, "dry-run", false, "count what matches, and change nothing")
	flags.BoolVar(&f.wait, "wait", true, "wait until it is done; it goes on without")
	flags.StringVar(&f.key, "idempotency-key", "", "the same key and filter make one operation (default: drawn)")
	cmd.RunE = r.asks(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		if len(args) > 0 {
			return cancelOperation(cmd, r, client, args[0], &f)
		}
		if err := f.check(action, time.Now()); err != nil {
			return err
		}
		ctx := cmd.Context()
		begun, err := client.BeginOperation(ctx, request.OperationRequest{Action: action, Filter: f.filter, DryRun: f.dryRun}, keyOr(f.key))
		if err != nil {
			return fmt.Errorf("%s all that match: %w", action, err)
		}
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "operation %s: %s\n", begun.ID, matching(&begun)) // advice
		op, err := client.Operation(ctx, begun.ID)
		if err == nil && f.wait {
			op, err = client.AwaitOperation(ctx, begun.ID, nil)
		}
		if err != nil {
			return fmt.Errorf("look at operation %s, which goes on: %w", begun.ID, err)
		}
		return showOperation(cmd, r, &op)
	})
	return cmd
}

// cancelOperation ends an operation.
func cancelOperation(cmd *cobra.Command, r *remote, client *httpapi.Client, text string, f *operationFlags) error {
	id, err := schema.ParseOperationID(text)
	switch {
	case err != nil:
		return usagef("%w", err)
	case f.all || f.dryRun || f.from != "" || f.to != "" || f.filter != (schema.OperationFilter{}):
		return usagef("state an operation, or what to cancel, not both")
	}
	op, err := client.CancelOperation(cmd.Context(), id)
	if err != nil {
		return fmt.Errorf("cancel operation: %w", err)
	}
	if r.json() {
		return document(cmd.OutOrStdout(), &op)
	}
	return writeOperation(cmd.OutOrStdout(), &op)
}

// check reads the flags. An operation on everything must be asked for as that.
func (f *operationFlags) check(action string, now time.Time) (err error) {
	for _, end := range []struct {
		flag, text string
		into       *time.Time
	}{{"from", f.from, &f.filter.From}, {"to", f.to, &f.filter.To}} {
		if end.text == "" {
			continue
		}
		if *end.into, err = instant(end.flag, end.text, now); err != nil {
			return err
		}
	}
	switch none := f.filter == (schema.OperationFilter{}); {
	case none && (action == operations.ActionRetry || action == operations.ActionReplay || action == operations.ActionDiscard):
		return usagef("state --from and --to: runs are selected by due time")
	case none && !f.all:
		return usagef("state what to %s: a filter, or --all", action)
	case !none && f.all:
		return usagef("--all stands for no filter")
	}
	return nil
}

// matching says how much an operation will meet.
func matching(b *httpapi.OperationBegun) string {
	if b.All {
		return fmt.Sprintf("%d match", b.Matched)
	}
	return fmt.Sprintf("more than %d match", b.Matched)
}

func operationGetCommand(r *remote) *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Show how far an operation has come",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is done")
	cmd.RunE = r.asks(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		id, err := schema.ParseOperationID(args[0])
		if err != nil {
			return usagef("%w", err)
		}
		op, err := client.Operation(cmd.Context(), id)
		if err == nil && wait {
			op, err = client.AwaitOperation(cmd.Context(), id, nil)
		}
		if err != nil {
			return fmt.Errorf("get operation: %w", err)
		}
		return showOperation(cmd, r, &op)
	})
	return cmd
}

// showOperation shows an operation. What failed for some is an error.
func showOperation(cmd *cobra.Command, r *remote, op *httpapi.Operation) error {
	show := writeOperation
	if r.json() {
		show = func(w io.Writer, op *httpapi.Operation) error { return document(w, op) }
	}
	if err := show(cmd.OutOrStdout(), op); err != nil {
		return err
	}
	if op.Failed > 0 {
		return fmt.Errorf("operation %s failed for %d of %d", op.ID, op.Failed, op.Matched)
	}
	return nil
}

func writeOperation(w io.Writer, op *httpapi.Operation) error {
	action := op.Action
	if op.DryRun {
		action += " (dry run)"
	}
	if op.Backfill != nil {
		return writeBackfill(w, op)
	}
	err := table(w, [][]string{
		{"ID", "ACTION", "STATE", "MATCHED", "CHANGED", "UNCHANGED", "FAILED"},
		{op.ID.String(), action, op.State, fmt.Sprint(op.Matched), fmt.Sprint(op.Changed), fmt.Sprint(op.Unchanged), fmt.Sprint(op.Failed)},
	})
	return writeFaults(w, op, err)
}

// writeFaults writes the first of what failed, unless something went wrong before.
func writeFaults(w io.Writer, op *httpapi.Operation, err error) error {
	for _, fault := range op.Faults {
		if err == nil {
			_, err = fmt.Fprintf(w, "  %s\n", clean(fault))
		}
	}
	return err
}
