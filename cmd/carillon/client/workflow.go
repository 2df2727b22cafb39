package client

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

func workflowCommand() *cobra.Command {
	r := &cli.Remote{}
	cmd := cli.Group(&cobra.Command{
		Use:   "workflow",
		Short: "Apply, show and run workflows: graphs of steps",
	})
	r.AddFlags(cmd)
	cmd.AddCommand(
		workflowApplyCommand(r), workflowListCommand(r), workflowShowCommand(r), workflowRunCommand(r), workflowRunsCommand(r),
		workflowShowRunCommand(r), workflowRetryCommand(r), workflowSkipCommand(r),
		workflowPauseCommand(r), workflowResumeCommand(r), workflowDeleteCommand(r),
	)
	return cmd
}

// completeWorkflows completes the first argument with names of workflows, if the API answers in time.
func completeWorkflows(r *cli.Remote) cobra.CompletionFunc {
	return completeNames(r, func(ctx context.Context, client *httpapi.Client, begin string, offer func(name, what string) bool) {
		for w, err := range client.Workflows(ctx, httpapi.JobQuery{NamePrefix: begin, Limit: completions}) {
			if err != nil || !offer(w.Name, w.State) {
				return
			}
		}
	})
}

var workflowHead = []string{"NAME", "STATE", "SCHEDULE", "NEXT", "DEADLINE", "PRIORITY", "UPDATED"}

func workflowRow(w *httpapi.Workflow) []string {
	next := httpapi.Time{}
	if w.NextRun != nil {
		next = w.NextRun.DueAt
	}
	return []string{w.Name, w.State, workflowSchedule(w), cli.ShowTime(next), showSpan(w.Deadline.Std()), string(w.Priority), cli.ShowTime(w.UpdatedAt)}
}

// workflowSchedule says in a few words when a workflow is due.
func workflowSchedule(w *httpapi.Workflow) string {
	switch {
	case w.On != nil:
		return "on " + w.On.Event
	case w.Schedules != nil:
		return scheduleOf(&httpapi.Job{Schedules: w.Schedules})
	case w.Schedule == nil:
		return "when triggered"
	}
	return scheduleOf(&httpapi.Job{Schedule: *w.Schedule})
}

func workflowListCommand(r *cli.Remote) *cobra.Command {
	var q httpapi.JobQuery
	var state string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the workflows, newest first",
		Long:  "List the workflows, newest first.\n\nWith -o json there is one workflow a line, without its steps.",
		Example: "  carillon workflow list --state paused\n" +
			"  carillon workflow list --label team=data --name-prefix etl-",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&state, "state", "", "only workflows that are active, paused, cancelled or finished")
	cmd.Flags().StringVar(&q.Label, "label", "", "only workflows with this label, as `name=value`")
	cmd.Flags().StringVar(&q.NamePrefix, "name-prefix", "", "only workflows whose name begins so")
	cmd.Flags().IntVar(&limit, "limit", 50, "show at most so many; 0 = all")
	cli.CompleteFlag(cmd, "state", "active", "paused", "cancelled", "finished")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
		q.State, q.Limit = schema.JobState(state), cli.PageOf(limit)
		return cli.List(cmd, r, "list workflows", client.Workflows(cmd.Context(), q), limit, workflowHead, workflowRow)
	})
	return cmd
}

// graphFormats are the forms in which a graph is shown.
var graphFormats = []string{"tree", "json", "mermaid", "dot"}

// formatFlag adds --format to a command that shows a graph.
func formatFlag(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVar(format, "format", "", "only the graph: as a tree, json, mermaid or dot")
	cli.CompleteFlag(cmd, "format", graphFormats...)
}

// checkFormat reports a --format that is unknown, or that -o json contradicts.
func checkFormat(r *cli.Remote, format string) error {
	switch {
	case format != "" && !slices.Contains(graphFormats, format):
		return cli.Usagef("--format: %q is not one of %s", format, strings.Join(graphFormats, ", "))
	case format != "" && r.JSON():
		return cli.Usagef("--format is for the graph alone: state it without -o json")
	}
	return nil
}

func workflowShowCommand(r *cli.Remote) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a workflow and its graph",
		Long:  "Show a workflow and its graph, or the graph alone. With -o json all of it, as the API answers it.",
		Example: "  carillon workflow show etl\n" +
			"  carillon workflow show etl --format dot | dot -Tsvg > etl.svg",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeWorkflows(r),
	}
	formatFlag(cmd, &format)
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		if err := checkFormat(r, format); err != nil {
			return err
		}
		if format != "" {
			return writeGraph(cmd, "show workflow", func() ([]byte, error) { return client.WorkflowGraph(cmd.Context(), args[0], format) })
		}
		w, err := client.Workflow(cmd.Context(), args[0])
		if err != nil {
			return fmt.Errorf("show workflow: %w", err)
		}
		if r.JSON() {
			return cli.Document(cmd.OutOrStdout(), w)
		}
		if err := writeWorkflow(cmd.OutOrStdout(), &w); err != nil {
			return err
		}
		return writeGraph(cmd, "show workflow", func() ([]byte, error) { return client.WorkflowGraph(cmd.Context(), args[0], "tree") })
	})
	return cmd
}

// writeGraph writes a graph as the API answers it. It may hold text of others.
func writeGraph(cmd *cobra.Command, act string, ask func() ([]byte, error)) error {
	text, err := ask()
	if err != nil {
		return fmt.Errorf("%s: %w", act, err)
	}
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), cli.Clean(strings.TrimRight(line, "\r\n"))); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}

// writeWorkflow shows what a workflow says besides its steps.
func writeWorkflow(out io.Writer, w *httpapi.Workflow) error {
	facts := [][]string{
		{"workflow", w.Name},
		{"state", w.State},
		{"schedule", workflowSchedule(w)},
		{"deadline", showSpan(w.Deadline.Std())},
		{"steps", fmt.Sprint(len(w.Steps))},
		{"updated", cli.ShowTime(w.UpdatedAt)},
	}
	if w.NextRun != nil {
		facts = append(facts, []string{"next run", cli.ShowTime(w.NextRun.DueAt)})
	}
	for _, more := range []struct{ name, value string }{
		{"labels", labelsOf(w.Labels)},
		{"payload", cli.Head(string(w.Payload), 200)},
		{"fault", w.Fault},
	} {
		if more.value != "" {
			facts = append(facts, []string{more.name, more.value})
		}
	}
	if err := cli.Table(out, facts); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// labelsOf shows labels in the order of their names.
func labelsOf(labels map[string]string) string {
	shown := make([]string, 0, len(labels))
	for name, value := range labels {
		shown = append(shown, name+"="+value)
	}
	slices.Sort(shown)
	return strings.Join(shown, " ")
}

func workflowRunsCommand(r *cli.Remote) *cobra.Command {
	var q httpapi.JobRunQuery
	var from, to, state string
	var limit int
	cmd := &cobra.Command{
		Use:   "runs NAME",
		Short: "List the runs of a workflow, newest first",
		Long: "List the runs of a workflow, newest first, due from --from up to --to. Each is " + cli.Times + ".\n\n" +
			"With -o json there is one run a line, without its steps.",
		Example:           "  carillon workflow runs etl --state failed --from -168h",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeWorkflows(r),
	}
	cmd.Flags().StringVar(&from, "from", "", "due at this `time` or later")
	cmd.Flags().StringVar(&to, "to", "", "due before this `time`")
	cmd.Flags().StringVar(&state, "state", "", "only runs that are pending, running, succeeded, failed, cancelled or missed")
	cmd.Flags().IntVar(&limit, "limit", 50, "show at most so many; 0 = all")
	cli.CompleteFlag(cmd, "state", "pending", "running", "succeeded", "failed", "cancelled", "missed")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		if err := cli.Instants(time.Now(), cli.NewTimeFlag("from", from, &q.From), cli.NewTimeFlag("to", to, &q.To)); err != nil {
			return err
		}
		q.State, q.Limit = schema.State(state), cli.PageOf(limit)
		head := []string{"ID", "STATE", "DUE", "TOOK", "TRIGGER"}
		row := func(run *httpapi.Run) []string {
			return []string{run.ID.String(), string(run.State), cli.ShowTime(run.DueAt), showTook(run.StartedAt, run.FinishedAt), string(run.Trigger)}
		}
		return cli.List(cmd, r, "list runs of workflow", client.WorkflowRuns(cmd.Context(), args[0], q), limit, head, row)
	})
	return cmd
}

// changeWorkflow makes the RunE of a command that changes the state of a workflow, and shows it.
func changeWorkflow(r *cli.Remote, act string, do func(*httpapi.Client, context.Context, string) (httpapi.Workflow, error)) func(*cobra.Command, []string) error {
	return r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		w, err := do(client, cmd.Context(), args[0])
		if err != nil {
			return fmt.Errorf("%s: %w", act, err)
		}
		return r.Show(cmd, w, func(out io.Writer) error { return cli.Table(out, [][]string{workflowHead, workflowRow(&w)}) })
	})
}

func workflowPauseCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:               "pause NAME",
		Short:             "Pause a workflow: none of its runs begins until it is resumed; those under way go on",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeWorkflows(r),
		RunE:              changeWorkflow(r, "pause workflow", (*httpapi.Client).PauseWorkflow),
	}
}

func workflowResumeCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:               "resume NAME",
		Short:             "Go on with a workflow that was paused",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeWorkflows(r),
		RunE:              changeWorkflow(r, "resume workflow", (*httpapi.Client).ResumeWorkflow),
	}
}

func workflowDeleteCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "delete NAME",
		Short: "Cancel a workflow: no run of it begins any more; its name is free again",
		Long: "Cancel a workflow: no run of it begins any more, and its name is free again. Runs under way go on: carillon run cancel ends one.\n" +
			"Deleting twice is the same as once.",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeWorkflows(r),
		RunE:              changeWorkflow(r, "delete workflow", (*httpapi.Client).DeleteWorkflow),
	}
}
