package client

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/operations"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

func operationCommand() *cobra.Command {
	r := &cli.Remote{}
	cmd := cli.Group(&cobra.Command{
		Use:   "operation",
		Short: "Do one thing to every job, run or dead letter that matches",
	})
	r.AddFlags(cmd)
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
	cmd.AddCommand(operationListCommand(r), operationGetCommand(r))
	return cmd
}

// operationFlags selects what an operation acts on.
type operationFlags struct {
	all, dryRun, wait bool
	from, to, key     string
	states, labels    []string
	filter            schema.OperationFilter
}

func operationBeginCommand(r *cli.Remote, action, short string) *cobra.Command {
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
	if action == operations.ActionRetry {
		cmd.Long += "\n\nDead letters of these runs go on waiting: carillon dead-letter replay runs what failed again and settles them."
	}
	flags := cmd.Flags()
	if letters {
		flags.StringArrayVar(&f.labels, "label", nil, "only runs that have this label, as `name=value`; again: and that one")
	} else {
		flags.StringSliceVar(&f.states, "state", nil, "only what is in this `state`; of runs: in one of these")
		flags.StringArrayVar(&f.labels, "label", nil, "only what has this label, as `name=value`; of runs, again: and that one")
	}
	if ofJobs {
		cmd.Example = "  carillon operation " + action + " --label team=billing --dry-run"
		flags.BoolVar(&f.all, "all", false, "every job of the tenant")
		flags.StringVar(&f.filter.NamePrefix, "name-prefix", "", "only jobs whose name begins so")
	}
	if ofRuns {
		to := "runs that are due before this `time`"
		if ofEnded(action) {
			to += " (default: now)"
		}
		until := " --to 0s"
		if ofEnded(action) {
			until = ""
		}
		cmd.Example += "\n  carillon operation " + action + " --from -2h" + until + " --task send-email"
		flags.StringVar(&f.from, "from", "", "runs that are due at this `time` or later: "+cli.Times)
		flags.StringVar(&f.to, "to", "", to)
		flags.StringVar(&f.filter.Task, "task", "", "only runs of the task of this `name`")
		flags.StringVar(&f.filter.Job, "job", "", "only runs, or dead letters, of the job of this `id` or name")
	}
	if ofRuns && !letters {
		cmd.Example += "\n  carillon operation " + action + " --from -2h --to 0s --job nightly-report --late 5s"
		flags.StringVar(&f.filter.Host, "host", "", "only runs whose HTTP call goes to this `host`")
		flags.StringVar(&f.filter.Late, "late", "", "only runs that started later than this `span` after they were due, that have not started for longer, or that were missed")
		flags.StringVar(&f.filter.Key, "key", "", "only the run of this idempotency `key`, due from --from to --to")
	}
	if letters {
		flags.StringVar(&f.filter.Error, "error", "", errorUsage)
		flags.StringVar(&f.filter.ErrorPattern, "error-pattern", "", patternUsage)
	}
	flags.BoolVar(&f.dryRun, "dry-run", false, "count what matches, and change nothing")
	flags.BoolVar(&f.wait, "wait", true, "wait until it is done; it goes on without")
	flags.StringVar(&f.key, "idempotency-key", "", "the same key and filter make one operation (default: drawn)")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		for _, name := range []string{"error", "error-pattern"} {
			if flag := cmd.Flags().Lookup(name); flag != nil && flag.Changed && flag.Value.String() == "" {
				return cli.Usagef("--%s is empty: without it any error is selected", name)
			}
		}
		f.selectBy()
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
		cli.Advise(cmd, "operation %s: %s", begun.ID, matching(&begun))
		if f.filter.ErrorPattern != "" && begun.All && begun.Matched == 0 {
			adviseOnPatterns(cmd)
		}
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

// cancelOperation cancels an operation.
func cancelOperation(cmd *cobra.Command, r *cli.Remote, client *httpapi.Client, text string, f *operationFlags) error {
	id, err := schema.ParseOperationID(text)
	switch {
	case err != nil:
		return cli.Usagef("%w", err)
	case f.all || f.dryRun || f.from != "" || f.to != "" || !f.filter.IsZero():
		return cli.Usagef("state an operation, or what to cancel, not both")
	}
	op, err := client.CancelOperation(cmd.Context(), id)
	if err != nil {
		return fmt.Errorf("cancel operation: %w", err)
	}
	return r.Show(cmd, &op, func(w io.Writer) error { return writeOperation(w, &op) })
}

// selectBy reads the flags of which there may be several.
func (f *operationFlags) selectBy() {
	if len(f.states) == 1 {
		f.filter.State = f.states[0]
	} else {
		f.filter.States = f.states
	}
	if len(f.labels) > 0 {
		f.filter.Label, f.filter.Labels = f.labels[0], f.labels[1:]
	}
}

// ofEnded says whether an action is for runs that have ended, which were due before now.
func ofEnded(action string) bool {
	return action == operations.ActionRetry || action == operations.ActionReplay || action == operations.ActionDiscard
}

// check reads the flags. An operation on everything needs --all.
func (f *operationFlags) check(action string, now time.Time) error {
	if err := cli.Instants(now, cli.NewTimeFlag("from", f.from, &f.filter.From), cli.NewTimeFlag("to", f.to, &f.filter.To)); err != nil {
		return err
	}
	if ofEnded(action) && f.from != "" && f.to == "" {
		if f.key != "" {
			return cli.Usagef("--idempotency-key goes with --to: without it each command means another time")
		}
		f.filter.To = now
	}
	switch none := f.filter.IsZero(); {
	case ofEnded(action) && f.from == "":
		return cli.Usagef("state --from: runs are selected by due time")
	case none && !f.all:
		return cli.Usagef("state what to %s: a filter, or --all", action)
	case !none && f.all:
		return cli.Usagef("--all stands for no filter")
	}
	return nil
}

// matching says how many things an operation acts on.
func matching(b *httpapi.OperationBegun) string {
	if b.All {
		return fmt.Sprintf("%d match", b.Matched)
	}
	return fmt.Sprintf("more than %d match", b.Matched)
}

func operationGetCommand(r *cli.Remote) *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Show how far an operation has come",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is done")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		id, err := schema.ParseOperationID(args[0])
		if err != nil {
			return cli.Usagef("%w", err)
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

// showOperation shows an operation. It returns an error if the operation failed for some.
func showOperation(cmd *cobra.Command, r *cli.Remote, op *httpapi.Operation) error {
	show := writeOperation
	if r.JSON() {
		show = func(w io.Writer, op *httpapi.Operation) error { return cli.Document(w, op) }
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
	if op.Backfill != nil {
		return writeBackfill(w, op)
	}
	err := cli.Table(w, [][]string{
		{"ID", "ACTION", "STATE", "MATCHED", "CHANGED", "UNCHANGED", "FAILED"},
		{op.ID.String(), actionOf(op), op.State, fmt.Sprint(op.Matched), fmt.Sprint(op.Changed), fmt.Sprint(op.Unchanged), fmt.Sprint(op.Failed)},
	})
	return writeFaults(w, op, err)
}

// writeFaults writes the faults of an operation, unless err is set.
func writeFaults(w io.Writer, op *httpapi.Operation, err error) error {
	for _, fault := range op.Faults {
		if err == nil {
			_, err = fmt.Fprintf(w, "  %s\n", cli.Clean(fault))
		}
	}
	return err
}
