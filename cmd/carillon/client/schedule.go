package client

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

func scheduleCommand() *cobra.Command {
	r := &cli.Remote{}
	cmd := cli.Group(&cobra.Command{
		Use:   "schedule",
		Short: "Try schedules out",
	})
	r.AddFlags(cmd)
	cmd.AddCommand(schedulePreviewCommand(r))
	return cmd
}

// scheduleFlags are the flags of a recurring schedule.
type scheduleFlags struct {
	cron, exclude              []string
	timezone, gap, overlapHour string
	calendar, onDate           string
	every, jitter              time.Duration
	anchor, start, end         string
}

func (f *scheduleFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.cron, "cron", nil, "due when this `expression` says: five fields, or six with the second first; may be repeated: due when any of them says so")
	flags.StringArrayVar(&f.exclude, "exclude", nil, "not due on this `date` of the time zone, such as 2026-12-25; may be repeated")
	flags.StringVar(&f.calendar, "calendar", "", "`name` of a calendar, such as of holidays: see --on-date")
	flags.StringVar(&f.onDate, "on-date", "", "on a date of --calendar: skip (default), next_day or previous_day")
	flags.StringVar(&f.timezone, "timezone", "", "IANA `name` of the zone in which --cron is read (default UTC), and days of --at, --start, --end and --anchor (default this machine's)")
	flags.StringVar(&f.gap, "gap", "", "times of --cron that the zone leaves out: run (default, at the end of the gap) or skip")
	flags.StringVar(&f.overlapHour, "overlap-hour", "", "times of --cron that the zone has twice: first (default), second or both")
	flags.DurationVar(&f.every, "every", 0, "due again and again, so long apart")
	flags.StringVar(&f.anchor, "anchor", "", "`time` from which --every counts (default: creation)")
	flags.StringVar(&f.start, "start", "", "no run before this `time`")
	flags.StringVar(&f.end, "end", "", "no run at this `time` or later")
	flags.DurationVar(&f.jitter, "jitter", 0, "window of the job's own offset; 0s turns it off (default 10s, or a tenth of the shortest distance of two runs)")
	cli.CompleteFlag(cmd, "gap", "run", "skip")
	cli.CompleteFlag(cmd, "on-date", "skip", "next_day", "previous_day")
	cli.CompleteFlag(cmd, "overlap-hour", "first", "second", "both")
}

// state returns the schedule of the flags, or nil if none was given.
func (f *scheduleFlags) state(cmd *cobra.Command, now time.Time) (*request.PreviewRequest, error) {
	given := cmd.Flags().Changed
	if !given("cron") && !given("every") {
		for _, flag := range []string{"timezone", "gap", "overlap-hour", "exclude", "calendar", "on-date", "anchor", "start", "end", "jitter"} {
			if given(flag) && (flag != "timezone" || !given("at")) {
				if flag == "timezone" {
					return nil, cli.Usagef("--timezone goes with --cron, --every or --at")
				}
				return nil, cli.Usagef("--%s goes with --cron or --every", flag)
			}
		}
		return nil, nil //nolint:nilnil // nothing stated is no fault
	}
	switch {
	case given("cron") && given("every"):
		return nil, cli.Usagef("state --cron or --every, not both")
	case given("on-date") && !given("calendar"):
		return nil, cli.Usagef("--on-date goes with --calendar")
	case slices.Contains(f.cron, ""):
		return nil, cli.Usagef("--cron is empty")
	case given("every") && f.every <= 0:
		return nil, cli.Usagef("--every: %v is not positive", f.every)
	}
	says := request.Schedule{Timezone: f.timezone, Gap: f.gap, OverlapHour: f.overlapHour, Every: schema.Duration(f.every), Exclude: f.exclude}
	if given("calendar") {
		says.Calendar = &request.ScheduleCalendar{Name: f.calendar, On: f.onDate}
	}
	out := &request.PreviewRequest{Schedule: &says}
	for _, t := range []cli.TimeFlag{cli.NewTimeFlag("anchor", f.anchor, &out.Schedule.Anchor), cli.NewTimeFlag("start", f.start, &out.Start), cli.NewTimeFlag("end", f.end, &out.End)} {
		if !given(t.Name) {
			continue
		}
		var err error
		if *t.Into, err = f.instant(t.Name, t.Text, now); err != nil {
			return nil, err
		}
	}
	if given("jitter") {
		jitter := schema.Duration(f.jitter)
		out.Jitter = &jitter
	}
	if len(f.cron) == 1 {
		says.Cron = f.cron[0]
	}
	if len(f.cron) > 1 {
		out.Schedule = nil
		for _, expression := range f.cron {
			one := says
			one.Cron = expression
			out.Schedules = append(out.Schedules, one)
		}
	}
	return out, nil
}

// instant reads the time that a flag states. Days are of --timezone, if that is stated.
func (f *scheduleFlags) instant(flag, text string, now time.Time) (time.Time, error) {
	return instantIn(f.timezone, flag, text, now)
}

// instantIn reads the time that a flag states. Days are of the zone that --timezone states, if any.
func instantIn(timezone, flag, text string, now time.Time) (time.Time, error) {
	if timezone != "" {
		zone, ok := schedule.Location(timezone)
		if !ok {
			return time.Time{}, cli.Usagef("--timezone: %q is no time zone of the IANA database, such as Europe/Berlin", timezone)
		}
		now = now.In(zone)
	}
	return cli.Instant(flag, text, now)
}

// readAt reads the time at which --at has a one-off job be due. RFC 3339 may state one that is
// past.
func (f *scheduleFlags) readAt(text string, now time.Time) (time.Time, error) {
	at, err := f.instant("at", text, now)
	if err != nil {
		return at, err
	}
	if _, otherwise := time.Parse(time.RFC3339Nano, text); otherwise != nil && at.Before(now) {
		return at, cli.Usagef("--at: %q is past, it is %s: state a later time, or --in 0s for now", text, at.Format(time.RFC3339))
	}
	return at, nil
}

func schedulePreviewCommand(r *cli.Remote) *cobra.Command {
	var f scheduleFlags
	var from string
	var count int
	cmd := &cobra.Command{
		Use:   "preview (--cron EXPRESSION | --every SPAN) [flags]",
		Short: "Show the next times of a schedule, and what is to be known about it",
		Example: "  carillon schedule preview --cron '30 2 * * *' --timezone Europe/Berlin\n" +
			"  carillon schedule preview --every 15m --from 2026-11-21T00:00:00Z --count 4",
		Args: cobra.NoArgs,
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&from, "from", "", "the times after this `time` (default now)")
	cmd.Flags().IntVar(&count, "count", 10, "show so many, at most 100")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
		now := time.Now()
		ask, err := f.state(cmd, now)
		switch {
		case err != nil:
			return err
		case ask == nil:
			return cli.Usagef("state --cron or --every")
		case count < 1:
			return cli.Usagef("--count: %d is below 1", count)
		}
		if ask.Count = count; from != "" {
			if ask.From, err = f.instant("from", from, now); err != nil {
				return err
			}
		}
		preview, err := client.PreviewSchedule(cmd.Context(), *ask)
		if err != nil {
			return fmt.Errorf("preview schedule: %w", err)
		}
		return r.Show(cmd, preview, func(w io.Writer) error { return writePreview(w, &preview, f.timezone) })
	})
	return cmd
}

// localColumn returns what adds the local time to rows of a table that say it in UTC; to its head,
// if the time is zero. It adds nothing if the zone is UTC, not stated, or not known here.
func localColumn(timezone string) func(at httpapi.Time, row ...string) []string {
	zone, err := time.LoadLocation(timezone)
	return func(at httpapi.Time, row ...string) []string {
		switch {
		case err != nil || timezone == "" || timezone == "UTC":
			return row
		case at.IsZero():
			return append(row, "LOCAL")
		}
		return append(row, at.In(zone).Format("Mon 2006-01-02 15:04:05 MST"))
	}
}

// writePreview shows the times in UTC and, if this machine knows the zone, in local time.
func writePreview(w io.Writer, p *httpapi.Preview, timezone string) error {
	if _, err := fmt.Fprintf(w, "%s\n", cli.Clean(p.Description)); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	local := localColumn(timezone)
	rows := [][]string{local(httpapi.Time{}, "TIME")}
	for _, t := range p.Times {
		rows = append(rows, local(t, cli.ShowTime(t)))
	}
	if err := cli.Table(w, rows); err != nil {
		return err
	}
	for _, note := range p.Notes {
		if _, err := fmt.Fprintf(w, "note: %s\n", cli.Clean(note)); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}
