package client

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

// changeFlags is what is to change in a job. What is not stated stays.
type changeFlags struct {
	at                string
	in, timeout       time.Duration
	payload, priority string
	labels, unlabel   []string
	retry             retryFlags
	many              recurringFlags
}

// scheduleFlagNames are the flags of one schedule: they go together with no --at.
var scheduleFlagNames = []string{"cron", "every", "timezone", "gap", "overlap-hour", "exclude", "calendar", "on-date", "anchor"}

func jobChangeCommand(r *cli.Remote) *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:        "change ID|NAME [flags]",
		SuggestFor: []string{"reschedule", "move", "update", "edit", "modify", "patch", "set"},
		Short:      "Move a one-off job, or change a job",
		Long: "Change a job: what the flags do not state stays as it is. --at and --in move a one-off job that has not started; --cron, --every and what goes with them\n" +
			"change the schedule of a recurring one, from about a second after the command on.\n\n" +
			"An empty --calendar, --exclude, --start or --end takes it away, as a 0 does of --max-runs, --concurrency and --pause-after. --payload replaces the whole payload.\n" +
			"What no flag changes, such as what the job calls: carillon job apply.",
		Example: "  carillon job change 01932f1e-5d80-8003-8d2f-5a1b9c3e7f60 --at 2026-11-28T09:00:00+01:00\n" +
			"  carillon job change 01932f1e-5d80-8003-8d2f-5a1b9c3e7f60 --in 10m --payload '{\"to\": \"b@example.com\"}'\n" +
			"  carillon job change nightly-report --cron '30 2 * * *' --priority high\n" +
			"  carillon job change nightly-report --calendar holidays --on-date next_day --label team=billing --remove-label old",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeJobs(r),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.at, "at", "", "due `time` of a one-off job, RFC 3339 with an offset, or a day and time of day of --timezone, such as \"tomorrow 10:00\" or \"friday 10:00\"; an RFC 3339 time that is past starts it at once")
	flags.DurationVar(&f.in, "in", 0, "due so long from now, which is not negative")
	flags.StringVar(&f.payload, "payload", "", "payload: `JSON`, @file, or - for standard input")
	flags.StringVar(&f.priority, "priority", "", "critical, high, normal or low")
	flags.StringArrayVar(&f.labels, "label", nil, "`name=value` to set; may be repeated")
	flags.StringArrayVar(&f.unlabel, "remove-label", nil, "label of this `name` to take away; may be repeated")
	flags.DurationVar(&f.timeout, "timeout", 0, "of one attempt, of a job without a task")
	f.retry.flags(cmd, ", of a job without a task")
	f.many.schedule.flags(cmd)
	f.many.limits(cmd)
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		patchOf, err := f.patch(cmd, time.Now())
		if err != nil {
			return err
		}
		job, changed, err := changeJob(cmd.Context(), client, args[0], patchOf)
		if err != nil {
			return fmt.Errorf("change job: %w", err)
		}
		if !changed {
			cli.Advise(cmd, "The job says so already: nothing was changed.")
		}
		return r.Show(cmd, job, func(w io.Writer) error { return writeJobs(w, job) })
	})
	return cmd
}

// patch returns what makes the merge patch of a job as it is. now is the time from which --in
// counts.
func (f *changeFlags) patch(cmd *cobra.Command, now time.Time) (func(is map[string]any) (map[string]any, error), error) {
	given := cmd.Flags().Changed
	ofSchedule := slices.ContainsFunc(scheduleFlagNames, func(name string) bool {
		return given(name) && (name != "timezone" || !given("at")) // of --at it is the zone
	})
	switch {
	case given("at") && given("in"):
		return nil, cli.Usagef("state --at or --in, not both")
	case (given("at") || given("in")) && ofSchedule:
		return nil, cli.Usagef("--at and --in move a one-off job: state no schedule beside them")
	case f.in < 0:
		return nil, cli.Usagef("--in: %v is negative", f.in)
	case given("cron") && given("every"):
		return nil, cli.Usagef("state --cron or --every, not both")
	case given("cron") && slices.Contains(f.many.schedule.cron, ""):
		return nil, cli.Usagef("--cron is empty")
	case given("every") && f.many.schedule.every <= 0:
		return nil, cli.Usagef("--every: %v is not positive", f.many.schedule.every)
	}
	stated, err := f.stated(cmd, now)
	if err != nil {
		return nil, err
	}
	var payload any
	if given("payload") {
		text, err := readJSON("--payload", f.payload, cmd.InOrStdin())
		if err != nil {
			return nil, err
		}
		if payload, err = encoded(text); err != nil {
			return nil, err
		}
	}
	if len(stated) == 0 && !ofSchedule && !given("payload") {
		return nil, cli.Usagef("state what is to change")
	}
	return func(is map[string]any) (map[string]any, error) {
		patch := maps.Clone(stated)
		if given("payload") {
			var ok bool
			if patch["payload"], ok = replacement(is["payload"], payload); !ok {
				return nil, cli.Usagef("--payload: a member of it is null, which a change cannot state: carillon job apply replaces a job that has a name")
			}
		}
		if ofSchedule {
			if err := f.many.schedule.change(cmd, is, patch, now); err != nil {
				return nil, err
			}
		}
		return patch, nil
	}, nil
}

// stated returns the part of the merge patch that does not depend on what the job says.
func (f *changeFlags) stated(cmd *cobra.Command, now time.Time) (map[string]any, error) {
	given := cmd.Flags().Changed
	patch := map[string]any{}
	at := now.Add(f.in)
	if given("at") {
		var err error
		if at, err = f.many.schedule.readAt(f.at, now); err != nil {
			return nil, err
		}
	}
	if given("at") || given("in") {
		patch["schedule"] = map[string]any{"at": httpapi.Time{Time: at}}
	}
	for _, flag := range []struct{ name, text string }{{"start", f.many.schedule.start}, {"end", f.many.schedule.end}} {
		switch {
		case given(flag.name) && flag.text == "":
			patch[flag.name] = nil
		case given(flag.name):
			t, err := f.many.schedule.instant(flag.name, flag.text, now)
			if err != nil {
				return nil, err
			}
			patch[flag.name] = httpapi.Time{Time: t}
		}
	}
	for name, value := range map[string]any{
		"priority": f.priority, "jitter": schema.Duration(f.many.schedule.jitter), "timeout": schema.Duration(f.timeout),
	} {
		if given(name) {
			patch[name] = value
		}
	}
	labels := map[string]any{}
	set, err := pairs("label", f.labels, "=")
	if err != nil {
		return nil, err
	}
	for _, name := range f.unlabel {
		labels[name] = nil
	}
	for name, value := range set {
		labels[name] = value
	}
	within(patch, "labels", labels)
	retry, err := f.retry.state(cmd, nil)
	if err != nil {
		return nil, err
	}
	if retry != nil {
		patch["retry"] = retry // of which only what was stated is written
	}
	f.many.change(cmd, patch)
	// As the API shows it, to tell whether the job says so already.
	out, err := encoded(patch)
	if err != nil {
		return nil, err
	}
	return out.(map[string]any), nil
}

// within states the members of an object of a patch, if there are any.
func within(patch map[string]any, name string, members map[string]any) {
	if len(members) > 0 {
		patch[name] = members
	}
}

// change states in a merge patch what bounds the runs of a job; 0 takes a bound away.
func (f *recurringFlags) change(cmd *cobra.Command, patch map[string]any) {
	given := cmd.Flags().Changed
	or := func(set bool, value any) any {
		if !set {
			return nil
		}
		return value
	}
	misfire, concurrency := map[string]any{}, map[string]any{}
	if given("misfire") {
		misfire["policy"] = f.misfire
	}
	if given("misfire-deadline") {
		misfire["deadline"] = or(f.deadline != 0, schema.Duration(f.deadline))
	}
	if given("concurrency") {
		concurrency["limit"] = f.concurrency
	}
	if given("on-limit") {
		concurrency["on_limit"] = f.onLimit
	}
	within(patch, "misfire", misfire)
	within(patch, "concurrency", concurrency)
	if given("concurrency") && f.concurrency == 0 {
		patch["concurrency"] = nil
	}
	if given("max-runs") {
		patch["max_runs"] = or(f.maxRuns != 0, f.maxRuns)
	}
	if given("pause-after") {
		patch["pause_on_failure"] = or(f.pauseAfter != 0, map[string]any{"after": f.pauseAfter})
	}
}

// change states in a merge patch the schedule of a job as it is, with what the flags change. In a
// list each schedule changes.
func (f *scheduleFlags) change(cmd *cobra.Command, is, patch map[string]any, now time.Time) error {
	given := cmd.Flags().Changed
	list, listed := is["schedules"].([]any)
	if !listed {
		list = []any{is["schedule"]}
	}
	var next []any
	for _, one := range list {
		members, _ := one.(map[string]any)
		schedule := maps.Clone(members)
		if schedule == nil {
			schedule = map[string]any{}
		}
		if given("cron") || given("every") {
			for _, name := range []string{"at", "cron", "every"} {
				delete(schedule, name)
			}
		}
		if err := f.amend(cmd, schedule, now); err != nil {
			return err
		}
		next = append(next, schedule)
	}
	if given("cron") || given("every") {
		for _, other := range next[1:] {
			if !reflect.DeepEqual(next[0], other) {
				return cli.Usagef("the job has %d schedules that differ in more than --cron: carillon job apply states them all", len(next))
			}
		}
		next = next[:1]
	}
	if len(f.cron) > 0 {
		same := next[0].(map[string]any)
		next = nil
		for _, expression := range f.cron {
			schedule := maps.Clone(same)
			schedule["cron"] = expression
			next = append(next, schedule)
		}
	}
	if len(next) > 1 || listed && !given("cron") && !given("every") {
		patch["schedules"] = next
		if !listed {
			patch["schedule"] = nil
		}
		return nil
	}
	if listed {
		patch["schedules"] = nil
		patch["schedule"] = next[0]
		return nil
	}
	patch["schedule"], _ = replacement(is["schedule"], next[0]) // no member of it is null
	return nil
}

// amend changes in a schedule, as the API has it, what the flags state besides --cron.
func (f *scheduleFlags) amend(cmd *cobra.Command, schedule map[string]any, now time.Time) error {
	given := cmd.Flags().Changed
	for _, flag := range []struct{ name, member, text string }{
		{"timezone", "timezone", f.timezone}, {"gap", "gap", f.gap}, {"overlap-hour", "overlap_hour", f.overlapHour},
	} {
		if given(flag.name) {
			schedule[flag.member] = flag.text
		}
	}
	if given("exclude") {
		delete(schedule, "exclude")
		if dates := slices.DeleteFunc(slices.Clone(f.exclude), func(d string) bool { return d == "" }); len(dates) > 0 {
			all := make([]any, len(dates))
			for i, d := range dates {
				all[i] = d
			}
			schedule["exclude"] = all
		}
	}
	if err := f.amendCalendar(cmd, schedule); err != nil {
		return err
	}
	if given("cron") {
		delete(schedule, "anchor")
	}
	if given("every") {
		every, err := encoded(schema.Duration(f.every))
		if err != nil {
			return err
		}
		schedule["every"] = every
		dropped := []string{"gap", "overlap_hour"}
		if schedule["exclude"] == nil && schedule["calendar"] == nil {
			dropped = append(dropped, "timezone") // it goes with dates alone
		}
		for _, name := range dropped {
			delete(schedule, name)
		}
	}
	if given("anchor") {
		anchor, err := f.instant("anchor", f.anchor, now)
		if err != nil {
			return err
		}
		if schedule["anchor"], err = encoded(httpapi.Time{Time: anchor}); err != nil {
			return err
		}
	}
	return nil
}

// amendCalendar changes the calendar of a schedule, as the API has it: empty takes it away, and
// what it does on a date stays unless --on-date states it.
func (f *scheduleFlags) amendCalendar(cmd *cobra.Command, schedule map[string]any) error {
	given := cmd.Flags().Changed
	is, _ := schedule["calendar"].(map[string]any)
	calendar := maps.Clone(is)
	switch {
	case given("calendar") && f.calendar == "":
		if given("on-date") {
			return cli.Usagef("--on-date goes with a calendar")
		}
		delete(schedule, "calendar")
		return nil
	case given("on-date") && !given("calendar") && calendar == nil:
		return cli.Usagef("--on-date goes with --calendar: the job has none")
	case !given("calendar") && !given("on-date"):
		return nil
	case calendar == nil:
		calendar = map[string]any{}
	}
	if given("calendar") {
		calendar["name"] = f.calendar
	}
	if given("on-date") {
		calendar["on"] = f.onDate
	}
	schedule["calendar"] = calendar
	return nil
}
