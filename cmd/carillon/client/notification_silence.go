package client

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

// maxSilence is the longest silence. It needs an interval a day, and a rule may have 16.
const maxSilence = 14 * 24 * time.Hour

func notificationSilenceCommand(r *cli.Remote) *cobra.Command {
	var until, timezone string
	var end bool
	cmd := &cobra.Command{
		Use:        "silence NAME (--until TIME | --end)",
		SuggestFor: []string{"mute", "snooze"},
		Short:      "Send nothing by a rule until a time, once",
		Long: "Send nothing by a rule until a time, once, such as for a night of maintenance: what happens is counted on, and told after it.\n" +
			"The rule gets mute_time_intervals of these days, as the console's Mute makes them, to the minute and for two weeks at most. They take the place of all that are of one day alone,\n" +
			"so also of one planned for a day to come; those that come again stay. To set the rule again without them ends it as well. --until is " + cli.Times + ".",
		Example: "  carillon notifications silence billing --until 'tomorrow 07:00' --timezone Europe/Berlin\n" +
			"  carillon notifications silence billing --end",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&until, "until", "", "send again from this `time` on")
	cmd.Flags().StringVar(&timezone, "timezone", "", "IANA time `zone` of the days of --until (default that of this machine)")
	cmd.Flags().BoolVar(&end, "end", false, "send again from now on")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		switch {
		case end == (until != ""):
			return cli.Usagef("state --until or --end")
		case end && timezone != "":
			return cli.Usagef("--timezone goes with --until")
		}
		now := time.Now()
		at := now
		if !end {
			var err error
			if at, err = instantIn(timezone, "until", until, now); err != nil {
				return err
			}
			if !at.After(now) || at.Sub(now) > maxSilence {
				return cli.Usagef("--until: %q is %s: it must be a later time, within %v", until, at.Format(time.RFC3339), maxSilence)
			}
		}
		n, err := client.Notification(cmd.Context(), args[0])
		if err != nil {
			return fmt.Errorf("silence notification %s: %w", args[0], err)
		}
		rule, err := json.Marshal(request.NotificationRequest{
			Description: n.Description, On: n.On, Match: n.Match, Sinks: n.Sinks, GroupBy: n.GroupBy, GroupWait: &n.GroupWait, GroupInterval: &n.GroupInterval,
			RepeatInterval: &n.RepeatInterval, SendResolved: &n.SendResolved, Mute: append(withoutSilences(n.Mute), silence(now, at)...),
		})
		if err != nil {
			return fmt.Errorf("encode notification %s: %w", args[0], err)
		}
		if n, err = client.PutNotification(cmd.Context(), args[0], rule); err != nil {
			return fmt.Errorf("silence notification %s: %w", args[0], err)
		}
		if r.JSON() {
			return cli.Document(cmd.OutOrStdout(), n)
		}
		if end {
			cli.Advise(cmd, "%s sends again: it is not silenced.", n.Name)
		} else {
			cli.Advise(cmd, "%s sends nothing until %s.", n.Name, cli.ShowTime(httpapi.Time{Time: toMinute(at)}))
		}
		return nil
	})
	return cmd
}

// toMinute returns the first whole minute from t on, in UTC: when a silence until t ends.
func toMinute(t time.Time) time.Time {
	whole := t.UTC().Truncate(time.Minute)
	if whole.Before(t) {
		whole = whole.Add(time.Minute)
	}
	return whole
}

// silence returns the intervals, one a day in UTC, that last from one time up to another, to the
// minute. The page of the console makes and reads the same (ui/src/notifications.ts).
func silence(from, to time.Time) (intervals []schema.MuteTimeInterval) {
	end := toMinute(to)
	for at := from.UTC().Truncate(time.Minute); from.Before(to) && at.Before(end); {
		midnight := at.Truncate(24 * time.Hour).Add(24 * time.Hour)
		until, last := midnight, "24:00"
		if end.Before(midnight) {
			until, last = end, end.Format("15:04")
		}
		intervals = append(intervals, schema.MuteTimeInterval{
			Times:       []schema.MuteTimes{{StartTime: at.Format("15:04"), EndTime: last}},
			DaysOfMonth: []string{strconv.Itoa(at.Day())}, Months: []string{strconv.Itoa(int(at.Month()))}, Years: []string{strconv.Itoa(at.Year())},
		})
		at = until
	}
	return intervals
}

var wholeNumber = regexp.MustCompile(`^\d+$`)

// withoutSilences returns the intervals that come again: without those that are of one day.
func withoutSilences(intervals []schema.MuteTimeInterval) []schema.MuteTimeInterval {
	return slices.DeleteFunc(slices.Clone(intervals), func(m schema.MuteTimeInterval) bool {
		one := func(texts []string) bool { return len(texts) == 1 && wholeNumber.MatchString(texts[0]) }
		return len(m.Times) == 1 && len(m.Weekdays) == 0 && (m.Location == "" || m.Location == "UTC") && one(m.DaysOfMonth) && one(m.Months) && one(m.Years)
	})
}
