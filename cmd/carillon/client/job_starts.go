package client

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

// startFlags are the flags of what starts runs instead of a schedule: events, or other jobs.
type startFlags struct {
	event, filter string
	delay         time.Duration
	after         []string
	when          string
	afterDeadline time.Duration
}

func (f *startFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.event, "on", "", "run for each `event` of this name")
	flags.StringVar(&f.filter, "filter", "", "only events for which this CEL `expression` is true: \"event.region == 'eu'\"")
	flags.DurationVar(&f.delay, "delay", 0, "due so long after the event")
	flags.StringArrayVar(&f.after, "after", nil, "run after the job of this `name` or id; may be repeated")
	flags.StringVar(&f.when, "when", "", "how the jobs of --after must have ended: all_succeeded (default), all_done, any_succeeded or any_failed")
	flags.DurationVar(&f.afterDeadline, "after-deadline", 0, "a run that still waits for the jobs of --after is stuck so long after their chain began (default 168h)")
	cli.CompleteFlag(cmd, "when", "all_succeeded", "all_done", "any_succeeded", "any_failed")
}

// state adds the flags that were given to a job.
func (f *startFlags) state(cmd *cobra.Command, job *request.JobRequest) error {
	given := cmd.Flags().Changed
	for _, pair := range [][2]string{{"filter", "on"}, {"delay", "on"}, {"when", "after"}, {"after-deadline", "after"}} {
		if given(pair[0]) && !given(pair[1]) {
			return cli.Usagef("--%s goes with --%s", pair[0], pair[1])
		}
	}
	switch {
	case given("on") && f.event == "":
		return cli.Usagef("--on is empty")
	case f.delay < 0:
		return cli.Usagef("--delay: %v is negative", f.delay)
	case given("after-deadline") && f.afterDeadline <= 0:
		return cli.Usagef("--after-deadline: %v is not positive", f.afterDeadline)
	}
	if given("on") {
		job.On = &schema.EventTrigger{Event: f.event, Filter: f.filter, Delay: schema.Duration(f.delay)}
	}
	if given("after") {
		job.After = &request.AfterRequest{Jobs: f.after, When: f.when, Deadline: schema.Duration(f.afterDeadline)}
	}
	return nil
}

// namesShown is how many jobs showAfter names.
const namesShown = 3

// showAfter names the jobs after which one runs.
func showAfter(jobs []string) string {
	if len(jobs) > namesShown {
		return "after " + strings.Join(jobs[:namesShown], ", ") + ", …"
	}
	return "after " + strings.Join(jobs, ", ")
}
