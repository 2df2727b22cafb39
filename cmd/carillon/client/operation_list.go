package client

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
)

func operationListCommand(r *cli.Remote) *cobra.Command {
	var q httpapi.OperationQuery
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List operations and backfills, the newest first",
		Long:  "List the operations and backfills of the tenant, the newest first. They are kept for 30 days after their last progress.",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().StringVar(&q.State, "state", "", "only those in this `state`: running, done or cancelled")
	cmd.Flags().IntVar(&limit, "limit", 50, "show at most so many; 0 = all")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
		q.Limit = cli.PageOf(limit)
		return cli.List(cmd, r, "list operations", client.Operations(cmd.Context(), q), limit, operationHead, operationRow)
	})
	return cmd
}

// operationHead and operationRow make a table of operations.
var operationHead = []string{"ID", "CREATED", "BY", "ACTION", "ON", "STATE", "MATCHED", "CHANGED", "UNCHANGED", "FAILED"}

func operationRow(op *httpapi.Operation) []string {
	row := []string{op.ID.String(), cli.ShowTime(op.CreatedAt), op.CreatedBy, actionOf(op), cli.Head(actedOn(op), 60), op.State}
	for _, n := range []int64{op.Matched, op.Changed, op.Unchanged, op.Failed} {
		row = append(row, fmt.Sprint(n))
	}
	return row
}

// actionOf says what an operation does.
func actionOf(op *httpapi.Operation) string {
	if op.DryRun {
		return op.Action + " (dry run)"
	}
	return op.Action
}

// actedOn says in a few words what an operation is for.
func actedOn(op *httpapi.Operation) string {
	if b := op.Backfill; b != nil {
		if b.JobName != "" {
			return "job " + b.JobName
		}
		return "job " + b.JobID.String()
	}
	f, text := &op.Filter, ""
	for _, part := range []struct{ name, value string }{
		{"state ", f.State},
		{"state ", strings.Join(f.States, " or ")},
		{"label ", f.Label},
		{"label ", strings.Join(f.Labels, " and ")},
		{"name ", f.NamePrefix},
		{"job ", cmp.Or(f.JobName, f.Job)},
		{"task ", f.Task},
		{"host ", f.Host},
		{"late by more than ", f.Late},
		{"key ", f.Key},
		{"error ", f.ErrorPattern},
		{"error with ", f.Error},
		{"from ", cli.ShowTime(f.From)},
		{"to ", cli.ShowTime(f.To)},
	} {
		if part.value != "" {
			text += ", " + part.name + part.value
		}
	}
	switch {
	case text != "":
		return text[2:]
	case op.Fault != "":
		return op.Fault
	}
	return "every job"
}
