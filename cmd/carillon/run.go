package main

import (
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/schema"
)

func runCommand() *cobra.Command {
	r := &remote{}
	cmd := group(&cobra.Command{
		Use:   "run",
		Short: "Show runs, their output and log, and run them again",
	})
	r.flags(cmd)
	cmd.AddCommand(runGetCommand(r), runListCommand(r), runOutputCommand(r), runLogsCommand(r), runRetryCommand(r))
	return cmd
}

func runGetCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "get ID",
		Short: "Show a run, its attempts, and the head of their output",
		Args:  cobra.ExactArgs(1),
		RunE: r.asksOf(func(cmd *cobra.Command, client *httpapi.Client, id schema.RunID) error {
			run, err := client.Run(cmd.Context(), id)
			if err != nil {
				return fmt.Errorf("get run: %w", err)
			}
			if r.json() {
				return document(cmd.OutOrStdout(), run)
			}
			return writeRun(cmd.OutOrStdout(), &run)
		}),
	}
}

func runListCommand(r *remote) *cobra.Command {
	var from, to, state string
	var q httpapi.RunQuery
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List runs by due time",
		Long: "List the runs that are due from --from up to --to, in order of due time. Each is a time (RFC 3339) or a span from now.\n\n" +
			"With -o json there is one run a line, attempts and payload included.",
		Example: "  carillon run list --state failed --from -1h --to 0s\n" +
			"  carillon run list --from 2026-11-21T00:00:00Z --to 2026-11-22T00:00:00Z --task send-email --limit 0 -o json",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&from, "from", "-10m", "due at this `time` or later")
	cmd.Flags().StringVar(&to, "to", "50m", "due before this `time`")
	cmd.Flags().StringVar(&state, "state", "", "only runs that are pending, running, retrying, succeeded, failed, cancelled or missed")
	cmd.Flags().StringVar(&q.Task, "task", "", "only runs of the task of this `name`")
	cmd.Flags().StringVar(&q.Job, "job", "", "only runs of the job of this `id` or name; of a recurring one the latest of an hour first")
	cmd.Flags().IntVar(&limit, "limit", 50, "show at most so many; 0 = all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		client, err := r.client()
		if err != nil {
			return err
		}
		defer client.Close()
		if q.From, q.To, err = window(from, to, time.Now()); err != nil {
			return err
		}
		if limit < 0 {
			return usagef("--limit: %d is negative", limit)
		}
		q.State = schema.State(state)
		return listRuns(cmd, r, client, q, limit)
	}
	return cmd
}

// pageLimit is the most that the API answers at once.
const pageLimit = 500

// listRuns shows the runs of q, at most limit of them unless that is 0, and says on stderr if there are more.
func listRuns(cmd *cobra.Command, r *remote, client *httpapi.Client, q httpapi.RunQuery, limit int) error {
	q.Limit = pageOf(limit)
	return list(cmd, r, "list runs", client.Runs(cmd.Context(), q), limit, runHead, runRow)
}

// runHead and runRow make a table of runs.
var runHead = []string{"ID", "STATE", "DUE", "LATENESS", "ATTEMPTS", "TASK"}

func runRow(run *httpapi.Run) []string {
	return []string{
		run.ID.String(), string(run.State), showTime(run.DueAt), showLateness(run.LatenessMS), fmt.Sprint(len(run.Attempts)), run.Task,
	}
}

// pageOf returns how many items a page should have of a list that is shown up to limit.
func pageOf(limit int) int {
	if limit <= 0 {
		return pageLimit
	}
	return min(limit+1, pageLimit)
}

// list shows items as a table, or as JSON with one a line: at most limit of them unless that is 0. It says on stderr if there are more.
func list[T any](cmd *cobra.Command, r *remote, act string, items iter.Seq2[T, error], limit int, head []string, row func(*T) []string) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetEscapeHTML(false)
	rows := [][]string{head}
	shown, more := 0, false
	for item, err := range items {
		if err != nil {
			return fmt.Errorf("%s: %w", act, err)
		}
		if len(rows) == pageLimit {
			if err := table(cmd.OutOrStdout(), rows); err != nil {
				return err
			}
			rows = rows[:0]
		}
		if more = limit > 0 && shown == limit; more {
			break
		}
		shown++
		if r.json() {
			if err := enc.Encode(item); err != nil {
				return fmt.Errorf("write: %w", err)
			}
			continue
		}
		rows = append(rows, row(&item))
	}
	if !r.json() {
		if err := table(cmd.OutOrStdout(), rows); err != nil {
			return err
		}
	}
	if more {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "There are more: --limit %d shows only the first.\n", limit) // advice
	}
	return nil
}

func runRetryCommand(r *remote) *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "retry ID",
		Short: "Run a run that has ended again, as a new run",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&key, "idempotency-key", "", "the same key makes one run (default: drawn)")
	cmd.RunE = r.asksOf(func(cmd *cobra.Command, client *httpapi.Client, id schema.RunID) error {
		run, err := client.RetryRun(cmd.Context(), id, keyOr(key))
		if err != nil {
			return fmt.Errorf("retry run: %w", err)
		}
		if r.json() {
			return document(cmd.OutOrStdout(), run)
		}
		return writeRun(cmd.OutOrStdout(), &run)
	})
	return cmd
}

// keyOr returns the idempotency key, or one that is drawn.
func keyOr(key string) string {
	if key == "" {
		return uuid.NewString()
	}
	return key
}
