package client

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
)

func statsCommand() *cobra.Command {
	r := &cli.Remote{}
	var from, to string
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show what the cluster did, minute by minute",
		Long: "Show what the cluster did, minute by minute, all tenants together. Minutes in which nothing was counted are left out, and the last one may be " +
			"incomplete: each node writes its counts when a minute has ended. It takes a key of the tenant \"system\".\n\n" +
			"--from and --to are times (RFC 3339) or spans from now, at most 24 hours apart.",
		Example: "  carillon stats --from -15m\n  carillon stats --from 2026-11-21T09:00:00Z --to 2026-11-21T10:00:00Z -o json",
		Args:    cobra.NoArgs,
	}
	r.AddFlags(cmd)
	cmd.Flags().StringVar(&from, "from", "-1h", "minutes from this `time` on")
	cmd.Flags().StringVar(&to, "to", "0s", "minutes before this `time`")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
		begin, end, err := cli.Window(from, to, time.Now())
		if err != nil {
			return err
		}
		minutes, err := client.Stats(cmd.Context(), begin, end)
		if err != nil {
			return fmt.Errorf("read stats: %w", err)
		}
		return r.Show(cmd, minutes, func(w io.Writer) error { return writeStats(w, minutes) })
	})
	return cmd
}

// writeStats shows minutes as a table.
func writeStats(w io.Writer, minutes []httpapi.MinuteStats) error {
	rows := [][]string{{"MINUTE", "DUE", "STARTED", "SUCCEEDED", "FAILED", "RETRIED", "MISSED", "LATE P50", "P99", "MAX"}}
	for i := range minutes {
		m := &minutes[i]
		row := []string{m.Minute.UTC().Format("2006-01-02T15:04Z")}
		for _, n := range []int64{m.Due, m.Started, m.Succeeded, m.Failed, m.Retried, m.Missed} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		late := []string{"", "", ""}
		if l := m.Lateness; l != nil {
			for i, ms := range []float64{l.P50, l.P99, l.Max} {
				late[i] = showMS(ms)
			}
		}
		rows = append(rows, append(row, late...))
	}
	return cli.Table(w, rows)
}

// showMS shows a number of milliseconds to about three digits.
func showMS(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond))
	switch {
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(10 * time.Millisecond)
	case d >= 10*time.Millisecond:
		d = d.Round(100 * time.Microsecond)
	default:
		d = d.Round(10 * time.Microsecond)
	}
	return d.String()
}
