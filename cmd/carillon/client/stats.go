package client

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

// statsFlags say which minutes, and whose runs.
type statsFlags struct{ from, to, scope string }

// The defaults of --from and --to.
const (
	statsFrom = "-1h"
	statsTo   = "0s"
)

func (f *statsFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.from, "from", statsFrom, "minutes from this `time` on")
	cmd.Flags().StringVar(&f.to, "to", statsTo, "minutes before this `time`")
	cmd.Flags().StringVar(&f.scope, "scope", "", "whose runs: all, or tenant (default: what the key may see)")
	cli.CompleteFlag(cmd, "scope", "all", "tenant")
}

// query returns what the flags ask for.
func (f *statsFlags) query() (q httpapi.StatsQuery, err error) {
	q.Scope = f.scope
	if f.from == statsFrom && f.to == statsTo {
		return q, nil // the node has the same defaults, and the clock by which minutes are counted
	}
	q.From, q.To, err = cli.Window(f.from, f.to, time.Now())
	return q, err
}

// windowHelp says what --from and --to take.
const windowHelp = "--from and --to are times (RFC 3339) or spans from now, at most 24 hours apart."

func statsCommand() *cobra.Command {
	r := &cli.Remote{}
	var f statsFlags
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show what the cluster did, minute by minute",
		Long: "Show what the cluster did, minute by minute: all tenants together with a key of the tenant \"system\", else the tenant of the key. " +
			"The last line is the minute under way, so far. Minutes between in which nothing was counted are one line: nothing was due then, or nothing was\n" +
			"handed to executors, which `carillon cluster` tells. DUE is what was handed to executors for the first time. JSON leaves such minutes out.\n\n" + windowHelp,
		Example: "  carillon stats --from -15m\n  carillon stats --from 2026-11-21T09:00:00Z --to 2026-11-21T10:00:00Z -o json\n" +
			"  carillon stats top job --order failed\n  carillon stats upcoming\n  carillon stats states",
		Args: cobra.NoArgs,
	}
	r.AddFlags(cmd)
	f.add(cmd)
	cmd.AddCommand(statsTopCommand(r), statsUpcomingCommand(r), statsStatesCommand(r))
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
		q, err := f.query()
		if err != nil {
			return err
		}
		found, err := client.Stats(cmd.Context(), q)
		if err != nil {
			return fmt.Errorf("read stats: %w", err)
		}
		silentNodes(cmd)(found.MissingNodes)
		return r.Show(cmd, found.Items, func(w io.Writer) error { return writeStats(w, found.Items) })
	})
	return cmd
}

// writeStats shows minutes as a table.
func writeStats(w io.Writer, minutes []httpapi.MinuteStats) error {
	rows := [][]string{{"MINUTE", "DUE", "STARTED", "SUCCEEDED", "FAILED", "RETRIED", "MISSED", "LATE", "LATENESS P50", "P99", "MAX", "NOTE"}}
	for i := range minutes {
		m := &minutes[i]
		if i > 0 {
			rows = append(rows, gapBetween(minutes[i-1].Minute.Time, m.Minute.Time)...)
		}
		row := []string{m.Minute.UTC().Format(minuteForm)}
		for _, n := range []int64{m.Due, m.Started, m.Succeeded, m.Failed, m.Retried, m.Missed, m.Late} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		var notes []string
		if m.Running {
			notes = append(notes, "so far")
		}
		if m.Partial {
			notes = append(notes, "perhaps not all")
		}
		rows = append(rows, append(append(row, showRanks(m.Lateness)...), strings.Join(notes, ", ")))
	}
	return cli.Table(w, rows)
}

// minuteForm is how a minute is shown.
const minuteForm = "2006-01-02T15:04Z"

// gapBetween returns the line of the minutes between two in which nothing was counted, if there are
// any: left out, a stand-still would look like a table without a hole.
func gapBetween(before, after time.Time) [][]string {
	n := int(after.Sub(before)/time.Minute) - 1
	if n < 1 {
		return nil
	}
	note := "nothing was counted"
	if n > 1 {
		note = fmt.Sprintf("nothing was counted for %d minutes", n)
	}
	return [][]string{{before.Add(time.Minute).UTC().Format(minuteForm), "0", "0", "0", "0", "0", "0", "0", "", "", "", note}}
}

// showRanks shows how late starts were.
func showRanks(l *httpapi.LatenessRank) []string {
	if l == nil {
		return []string{"", "", ""}
	}
	return []string{showMS(l.P50), showMS(l.P99), showMS(l.Max)}
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

func statsTopCommand(r *cli.Remote) *cobra.Command {
	var f statsFlags
	var q httpapi.TopQuery
	cmd := &cobra.Command{
		Use:   "top tenant|task|job|host",
		Short: "Show which tenants, tasks, jobs or hosts are busy, fail or are late",
		Long: "Show what became of runs by tenant, task, job or host. Each node keeps the names of a minute that weigh most (runs that failed, were missed\n" +
			"or late weigh more); the rest is one line. Jobs are those that can have many runs, hosts those that HTTP calls go to.\n\n" + windowHelp,
		Example:   "  carillon stats top job --order failed\n  carillon stats top host --from -15m --order late\n  carillon stats top tenant --limit 500 -o json",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"tenant", "task", "job", "host"},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&q.Order, "order", "activity", "which come first: activity, started, failed, missed, retried or late")
	cmd.Flags().IntVar(&q.Limit, "limit", 20, "show at most so many, up to 500")
	cli.CompleteFlag(cmd, "order", "activity", "started", "failed", "missed", "retried", "late")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) (err error) {
		if q.StatsQuery, err = f.query(); err != nil {
			return err
		}
		q.By = schema.StatsKind(args[0])
		top, err := client.TopStats(cmd.Context(), q)
		if err != nil {
			return fmt.Errorf("read stats: %w", err)
		}
		silentNodes(cmd)(top.MissingNodes)
		return r.Show(cmd, top, func(w io.Writer) error { return writeTop(w, &top) })
	})
	return cmd
}

// writeTop shows names as a table.
func writeTop(w io.Writer, top *httpapi.TopStats) error {
	rows := [][]string{{strings.ToUpper(top.By), "TENANT", "DUE", "STARTED", "SUCCEEDED", "FAILED", "RETRIED", "MISSED", "LATE", "LATENESS P50", "P99", "MAX"}}
	line := func(name, tenant string, s *httpapi.Sums) {
		row := []string{name, tenant, ""}
		if s.Due != nil {
			row[2] = strconv.FormatInt(*s.Due, 10)
		}
		for _, n := range []int64{s.Started, s.Succeeded, s.Failed, s.Retried, s.Missed, s.Late} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		rows = append(rows, append(row, showRanks(s.Lateness)...))
	}
	for i := range top.Items {
		n := &top.Items[i]
		line(n.Name, n.Tenant, &n.Sums)
	}
	if top.Others != nil {
		line("(others)", "", top.Others)
	}
	return cli.Table(w, rows)
}

func statsUpcomingCommand(r *cli.Remote) *cobra.Command {
	var from string
	var minutes int
	cmd := &cobra.Command{
		Use:   "upcoming",
		Short: "Show about how many runs are due in each coming minute",
		Long: "Show about how many runs are due in each coming minute, of all tenants together: it takes a key of the tenant \"system\". The numbers are\n" +
			"estimates: the rows of some shards are counted. Of a recurring job only its next run is counted, later ones are no rows yet.",
		Example: "  carillon stats upcoming\n  carillon stats upcoming --from 8h --minutes 120",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&from, "from", "", "the first minute, a `time` or a span from now (default now)")
	cmd.Flags().IntVar(&minutes, "minutes", 60, "how many minutes, up to 1440")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) (err error) {
		var begin time.Time
		if from != "" {
			if begin, err = cli.Instant("from", from, time.Now()); err != nil {
				return err
			}
		}
		coming, err := awaitUpcoming(cmd, client, begin, minutes)
		if err != nil {
			return fmt.Errorf("read coming minutes: %w", err)
		}
		return r.Show(cmd, coming, func(w io.Writer) error { return writeUpcoming(w, coming.Items) })
	})
	return cmd
}

const (
	// upcomingTries bounds how often coming minutes are asked for until all were counted, with
	// upcomingPause between.
	upcomingTries = 10
	upcomingPause = 500 * time.Millisecond
)

// awaitUpcoming asks for coming minutes until all were counted, for some seconds.
func awaitUpcoming(cmd *cobra.Command, client *httpapi.Client, from time.Time, minutes int) (coming httpapi.UpcomingRuns, err error) {
	for try := 1; ; try++ {
		coming, err = client.UpcomingRuns(cmd.Context(), from, minutes)
		if err != nil || try == upcomingTries || allCounted(coming.Items) {
			return coming, err
		}
		select {
		case <-cmd.Context().Done():
			return coming, cmd.Context().Err()
		case <-time.After(upcomingPause):
		}
	}
}

func allCounted(minutes []httpapi.UpcomingMinute) bool {
	for i := range minutes {
		if minutes[i].Runs == nil {
			return false
		}
	}
	return true
}

// barWidth is how many characters the longest bar has.
const barWidth = 40

// writeUpcoming shows coming minutes as a table with bars.
func writeUpcoming(w io.Writer, minutes []httpapi.UpcomingMinute) error {
	most := int64(1)
	for i := range minutes {
		if n := minutes[i].Runs; n != nil {
			most = max(most, *n)
		}
	}
	rows := [][]string{{"MINUTE", "RUNS", " "}}
	for i := range minutes {
		m := &minutes[i]
		row := []string{m.Minute.UTC().Format("2006-01-02T15:04Z"), "not counted yet", " "}
		if m.Runs != nil {
			row[1] = "≈ " + strconv.FormatInt(*m.Runs, 10)
			row[2] = cmp.Or(strings.Repeat("█", int(*m.Runs*barWidth/most)), " ")
		}
		rows = append(rows, row)
	}
	return cli.Table(w, rows)
}
