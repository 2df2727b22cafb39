package client

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/operations"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

func deadLetterCommand() *cobra.Command {
	r := &cli.Remote{}
	cmd := cli.Group(&cobra.Command{
		Use:     "dead-letter",
		Aliases: []string{"dead-letters", "dlq"},
		Short:   "Show runs that failed for good, replay them or let them go",
	})
	r.AddFlags(cmd)
	cmd.AddCommand(deadLetterListCommand(r), deadLetterShowCommand(r), deadLetterReplayCommand(r), deadLetterDiscardCommand(r))
	return cmd
}

func deadLetterListCommand(r *cli.Remote) *cobra.Command {
	var from, to string
	var q httpapi.LetterQuery
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the runs that failed for good and wait, the latest due first",
		Long: "List the runs that got a final answer or used their attempts up, and were neither replayed nor discarded, the latest due first. --from and --to are of the time at which " +
			"a run was first to start: each is " + cli.Times + ".\n\nWith -o json there is one a line.",
		Example: "  carillon dead-letter list --task send-email --from -24h\n" +
			"  carillon dead-letter list --error 'card declined'\n" +
			"  carillon dead-letter list --job nightly-report --label team=billing",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&from, "from", "", "first due at this `time` or later (default: 31 days before --to)")
	cmd.Flags().StringVar(&to, "to", "", "first due before this `time` (default: a day from now)")
	cmd.Flags().StringVar(&q.Task, "task", "", "only runs of the task of this `name`")
	cmd.Flags().StringVar(&q.Job, "job", "", "only runs of the job of this `id` or name, and of those that repeat them")
	cmd.Flags().StringArrayVar(&q.Labels, "label", nil, "only runs that have this label, as `name=value`; again: and that one")
	cmd.Flags().StringVar(&q.Error, "error", "", errorUsage)
	cmd.Flags().StringVar(&q.Pattern, "error-pattern", "", patternUsage)
	cmd.Flags().IntVar(&limit, "limit", 50, "show at most so many; 0 = all")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
		if err := cli.Instants(time.Now(), cli.NewTimeFlag("from", from, &q.From), cli.NewTimeFlag("to", to, &q.To)); err != nil {
			return err
		}
		q.Limit = cli.PageOf(limit)
		none := true
		letters := func(yield func(httpapi.DeadLetter, error) bool) {
			for l, err := range client.DeadLetters(cmd.Context(), q) {
				if none = false; !yield(l, err) {
					return
				}
			}
		}
		err := cli.List(cmd, r, "list dead letters", letters, limit, deadLetterHead, deadLetterRow)
		if err == nil && none && q.Pattern != "" {
			adviseOnPatterns(cmd)
		}
		return err
	})
	return cmd
}

// errorUsage and patternUsage are of the flags that select dead letters by their errors.
const (
	errorUsage   = "only dead letters whose error has this `text` in it, in capitals or not"
	patternUsage = "only dead letters whose error is of this `kind`: their error_pattern, as lists show it with --output json"
)

// adviseOnPatterns says where the patterns of errors are found, to who met none.
func adviseOnPatterns(cmd *cobra.Command) {
	cli.Advise(cmd, "Nothing matches. --error-pattern takes a whole error_pattern, as carillon dead-letter list -o json shows it. --error takes any part of an error.")
}

// deadLetterHead and deadLetterRow make a table of dead letters.
var deadLetterHead = []string{"RUN", "DUE", "FAILED", "ATTEMPTS", "JOB", "TASK", "ERROR"}

func deadLetterRow(l *httpapi.DeadLetter) []string {
	return []string{l.ID.String(), cli.ShowTime(l.DueAt), cli.ShowTime(l.FailedAt), fmt.Sprint(l.Attempts), l.JobName, l.Task, cli.Head(l.Error, 300)}
}

func deadLetterShowCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:     "show RUN",
		Aliases: []string{"get"},
		Short:   "Show a dead letter and all attempts of its run",
		Args:    cobra.ExactArgs(1),
		RunE: r.WithRun(func(cmd *cobra.Command, client *httpapi.Client, id schema.RunID) error {
			l, err := client.DeadLetter(cmd.Context(), id)
			if err != nil {
				return fmt.Errorf("show dead letter: %w", err)
			}
			return r.Show(cmd, l, func(w io.Writer) error { return writeDeadLetter(w, &l) })
		}),
	}
}

func writeDeadLetter(w io.Writer, l *httpapi.DeadLetter) error {
	state := l.State
	if l.State == "replayed" {
		state = "replayed as " + l.Replay.String()
	}
	if err := cli.Table(w, [][]string{
		{"RUN", "STATE", "DUE", "FAILED", "KEPT UNTIL", "TASK"},
		{l.ID.String(), state, cli.ShowTime(l.DueAt), cli.ShowTime(l.FailedAt), cli.ShowTime(l.ExpiresAt), l.Task},
	}); err != nil {
		return err
	}
	rows := [][]string{{"ATTEMPT", "EXECUTOR", "STARTED", "FINISHED", "OUTCOME", "STATUS", "ERROR"}}
	for i := range l.History {
		a := &l.History[i]
		status := ""
		if a.StatusCode != 0 {
			status = fmt.Sprint(a.StatusCode)
		}
		rows = append(rows, []string{fmt.Sprint(a.Number), a.Executor, cli.ShowTime(a.StartedAt), cli.ShowTime(a.FinishedAt), string(a.Outcome), status, a.Error})
	}
	// the rows of the attempts have expired; the dead letter has the last one
	if len(l.History) == 0 {
		status := ""
		if l.StatusCode != 0 {
			status = fmt.Sprint(l.StatusCode)
		}
		rows = append(rows, []string{fmt.Sprint(l.Attempts), "", "", cli.ShowTime(l.FailedAt), string(l.Outcome), status, l.Error})
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return cli.Table(w, rows)
}

func deadLetterReplayCommand(r *cli.Remote) *cobra.Command {
	return deadLetterActCommand(r, operations.ActionReplay, "Run what failed again, as a new run whose origin is the old one; with a filter, all that match",
		func(cmd *cobra.Command, client *httpapi.Client, id schema.RunID) error {
			run, err := client.ReplayDeadLetter(cmd.Context(), id)
			if err != nil {
				return fmt.Errorf("replay dead letter: %w", err)
			}
			return r.Show(cmd, run, func(w io.Writer) error { return writeRun(w, &run) })
		})
}

func deadLetterDiscardCommand(r *cli.Remote) *cobra.Command {
	return deadLetterActCommand(r, operations.ActionDiscard, "Let a dead letter go; with a filter, all that match",
		func(cmd *cobra.Command, client *httpapi.Client, id schema.RunID) error {
			if err := client.DiscardDeadLetter(cmd.Context(), id); err != nil {
				return fmt.Errorf("discard dead letter: %w", err)
			}
			return nil
		})
}

// deadLetterActCommand acts on one dead letter, or, by an operation, on all that match.
func deadLetterActCommand(r *cli.Remote, action, short string, one func(*cobra.Command, *httpapi.Client, schema.RunID) error) *cobra.Command {
	cmd := operationBeginCommand(r, action, short)
	all := cmd.RunE
	cmd.Use = action + " RUN | --from … [--to …] [--task …] [--job …] [--label …] [--error …]"
	cmd.Example = "  carillon dead-letter " + action + " 0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60\n" +
		"  carillon dead-letter " + action + " --from -24h --task send-email --dry-run\n" +
		"  carillon dead-letter " + action + " --from -24h --error 'card declined'\n" +
		"  carillon dead-letter " + action + " --from yesterday --to today --job nightly-report --label team=billing"
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return all(cmd, args)
		}
		for _, name := range []string{"from", "to", "task", "job", "label", "error", "error-pattern", "dry-run", "wait", "idempotency-key"} {
			if cmd.Flags().Changed(name) {
				return cli.Usagef("--%s is for all that match: leave it or the run out", name)
			}
		}
		id, err := schema.ParseEntryID(args[0])
		if err != nil {
			return cli.Usagef("%w", err)
		}
		client, err := r.Client()
		if err != nil {
			return err
		}
		defer client.Close()
		return one(cmd, client, id)
	}
	return cmd
}
