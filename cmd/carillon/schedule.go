package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

func scheduleCommand() *cobra.Command {
	r := &remote{}
	cmd := group(&cobra.Command{
		Use:   "schedule",
		Short: "Try schedules out",
	})
	r.flags(cmd)
	cmd.AddCommand(schedulePreviewCommand(r))
	return cmd
}

// scheduleFlags is a recurring schedule as the command line states it.
type scheduleFlags struct {
	cron, timezone, gap, overlapHour string
	every, jitter                    time.Duration
	anchor, start, end               string
}

func (f *scheduleFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.cron, "cron", "", "due when this `expression` says: five fields, or six with the second first")
	flags.StringVar(&f.timezone, "timezone", "", "IANA `name` of the zone in which --cron is read (default UTC)")
	flags.StringVar(&f.gap, "gap", "", "times of --cron that the zone leaves out: run (default, at the end of the gap) or skip")
	flags.StringVar(&f.overlapHour, "overlap-hour", "", "times of --cron that the zone has twice: first (default), second or both")
	flags.DurationVar(&f.every, "every", 0, "due again and again, so long apart")
	flags.StringVar(&f.anchor, "anchor", "", "`time` from which --every counts (default: creation)")
	flags.StringVar(&f.start, "start", "", "no run before this `time`")
	flags.StringVar(&f.end, "end", "", "no run at this `time` or later")
	flags.DurationVar(&f.jitter, "jitter", 0, "window of the job's own offset; 0s turns it off (default 10s, or a tenth of the shortest distance of two runs)")
	completeFlag(cmd, "gap", "run", "skip")
	completeFlag(cmd, "overlap-hour", "first", "second", "both")
}

// state returns the schedule that was stated, or nil if there is none. What only the API can judge is left to it.
func (f *scheduleFlags) state(cmd *cobra.Command) (*request.PreviewRequest, error) {
	given := cmd.Flags().Changed
	if !given("cron") && !given("every") {
		for _, flag := range []string{"timezone", "gap", "overlap-hour", "anchor", "start", "end", "jitter"} {
			if given(flag) {
				return nil, usagef("--%s goes with --cron or --every", flag)
			}
		}
		return nil, nil //nolint:nilnil // nothing stated is no fault
	}
	switch {
	case given("cron") && given("every"):
		return nil, usagef("state --cron or --every, not both")
	case given("cron") && f.cron == "":
		return nil, usagef("--cron is empty")
	case given("every") && f.every <= 0:
		return nil, usagef("--every: %v is not positive", f.every)
	}
	out := &request.PreviewRequest{Schedule: request.Schedule{
		Cron: f.cron, Timezone: f.timezone, Gap: f.gap, OverlapHour: f.overlapHour, Every: schema.Duration(f.every),
	}}
	now := time.Now()
	for _, t := range []struct {
		flag, text string
		into       *time.Time
	}{{"anchor", f.anchor, &out.Schedule.Anchor}, {"start", f.start, &out.Start}, {"end", f.end, &out.End}} {
		if !given(t.flag) {
			continue
		}
		var err error
		if *t.into, err = instant(t.flag, t.text, now); err != nil {
			return nil, err
		}
	}
	if given("jitter") {
		jitter := schema.Duration(f.jitter)
		out.Jitter = &jitter
	}
	return out, nil
}

func schedulePreviewCommand(r *remote) *cobra.Command {
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
	cmd.RunE = r.asks(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
		ask, err := f.state(cmd)
		switch {
		case err != nil:
			return err
		case ask == nil:
			return usagef("state --cron or --every")
		case count < 1:
			return usagef("--count: %d is below 1", count)
		}
		if ask.Count = count; from != "" {
			if ask.From, err = instant("from", from, time.Now()); err != nil {
				return err
			}
		}
		preview, err := client.PreviewSchedule(cmd.Context(), *ask)
		if err != nil {
			return fmt.Errorf("preview schedule: %w", err)
		}
		if r.json() {
			return document(cmd.OutOrStdout(), preview)
		}
		return writePreview(cmd.OutOrStdout(), &preview, f.timezone)
	})
	return cmd
}

// writePreview shows the times in UTC and, if a zone is stated that this machine knows, by its clock.
func writePreview(w io.Writer, p *httpapi.Preview, timezone string) error {
	zone, err := time.LoadLocation(timezone)
	local := err == nil && timezone != "" && timezone != "UTC"
	if _, err := fmt.Fprintf(w, "%s\n", clean(p.Description)); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	rows := [][]string{{"TIME"}}
	if local {
		rows[0] = append(rows[0], "LOCAL")
	}
	for _, t := range p.Times {
		row := []string{showTime(t)}
		if local {
			row = append(row, t.In(zone).Format("Mon 2006-01-02 15:04:05 MST"))
		}
		rows = append(rows, row)
	}
	if err := table(w, rows); err != nil {
		return err
	}
	for _, note := range p.Notes {
		if _, err := fmt.Fprintf(w, "note: %s\n", clean(note)); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}
