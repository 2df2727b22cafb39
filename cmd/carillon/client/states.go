package client

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
)

func statsStatesCommand(r *cli.Remote) *cobra.Command {
	var from, to string
	var labels []string
	var q httpapi.RunQuery
	cmd := &cobra.Command{
		Use:   "states",
		Short: "Count the runs that are ready, due soon, delayed, running and done",
		Long: "Count the runs of the tenant that are due from --from up to --to by where they are on their way: ready (due, and not started), due soon (within 5 minutes), delayed\n" +
			"(due later, or waiting for a later attempt or for other jobs), running and done; by state; and, of those that may not start yet,\n" +
			"by what they wait for, in the word with which carillon run get says it: concurrency (the limit of the job), rate and limit (of the task), slot (the time of the rate has come, and no slot is free), quota (of the tenant) and others. The numbers are exact: the runs are read, which takes its time for a long window.",
		Example: "  carillon stats states\n  carillon stats states --label team=billing --from -24h --to 24h -o json",
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "due at this `time` or later: "+cli.Times+" (default: an hour ago)")
	f.StringVar(&to, "to", "", "due before this `time` (default: in an hour)")
	f.StringVar(&q.Task, "task", "", "only runs of the task of this `name`")
	f.StringArrayVar(&labels, "label", nil, "only runs with this label, as `name=value`; again: and with that one")
	f.StringVar(&q.CreatedBy, "created-by", "", "only runs made by this `caller`, as the audit log names it")
	f.BoolVar(&q.OneOff, "one-off", false, "only runs of one-off jobs")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) (err error) {
		if q.Labels, err = readLabels(labels); err != nil {
			return err
		}
		if err := cli.Instants(time.Now(), cli.NewTimeFlag("from", from, &q.From), cli.NewTimeFlag("to", to, &q.To)); err != nil {
			return err
		}
		var sum httpapi.RunStates
		for s, err := range client.RunStates(cmd.Context(), q) {
			if err != nil {
				return fmt.Errorf("count runs: %w", err)
			}
			sum = s
		}
		return r.Show(cmd, sum, func(w io.Writer) error { return writeStates(w, &sum) })
	})
	return cmd
}

// writeStates shows counts as tables.
func writeStates(w io.Writer, s *httpapi.RunStates) error {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	rows := [][]string{{"READY", "DUE SOON", "DELAYED", "RUNNING", "DONE"}, {number(s.Ready), number(s.DueSoon), number(s.Delayed), number(s.Running), number(s.Done)}}
	if err := cli.Table(w, rows); err != nil {
		return err
	}
	for _, more := range []struct {
		head   string
		counts map[string]int64
	}{{"STATE", s.States}, {"WAITING FOR", s.Waiting}} {
		if len(more.counts) == 0 {
			continue
		}
		rows = [][]string{{more.head, "RUNS"}}
		for _, name := range slices.Sorted(maps.Keys(more.counts)) {
			rows = append(rows, []string{name, number(more.counts[name])})
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if err := cli.Table(w, rows); err != nil {
			return err
		}
	}
	return nil
}
