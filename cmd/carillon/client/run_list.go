package client

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

// runStates are the states that a list of runs can be asked for.
var runStates = []string{"pending", "running", "waiting", "stuck", "retrying", "succeeded", "failed", "cancelled", "missed", "skipped"}

// runList is what runs are listed by.
type runList struct {
	from, to, at        string
	states, labels      []string
	key, workflow, step string
	stuck, newest       bool
	query               httpapi.RunQuery
	limit               int

	// The table: how it is listed decides.
	head, optional []string
	row            func(*httpapi.Run) []string
}

func runListCommand(r *cli.Remote) *cobra.Command {
	l := &runList{head: runHead, row: runRow, optional: []string{waitsColumn}}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List runs by due time, by key, of a workflow run's steps, or those that are stuck",
		Long: "List the runs that are due from --from up to --to, in order of due time. Each is " + cli.Times + ".\n\n" +
			"With --key alone, show the run of that idempotency key, whenever it is due: keys are kept for 24 h. The key of an import's line with an instant\n" +
			"stands together with that, which --at states.\n\n" +
			"With --workflow-run, list the runs of the steps of that workflow run, with an item of a step with for_each as a run of its own.\n\n" +
			"With --newest, search from the newest minute back, as far as --from (default: a day, of a job all) and up to --to (default: now), at most 366 days apart. Runs have no index of labels, tasks and errors: " +
			"minutes are read one after the other, and how far that came is said at the end. Runs of a --job, and --state failed alone, are found by an index.\n\n" +
			"waiting is of runs of workflows, of their steps, and of runs that wait for other jobs. A run that a rate or a limit holds back is pending: WAITS says what holds it, and carillon stats states counts such runs.\n\n" +
			"With --stuck, list the runs that wait for other jobs beyond their deadline, whenever they are due, in the order in which their chains began. " +
			"Such a run still starts if those jobs end; carillon run cancel ends it.\n\n" +
			"With -o json there is one run a line, attempts and payload included; .error is why it failed.",
		Example: "  carillon run list --state failed,missed --from -1h --to 0s\n" +
			"  carillon run list --late 5s --label team=billing --from -24h --to 0s\n" +
			"  carillon run list --from 2026-11-21T00:00:00Z --to 2026-11-22T00:00:00Z --task send-email --limit 0 -o json\n" +
			"  carillon run list --newest --state failed --label team=billing --from -720h\n" +
			"  carillon run list --from yesterday --to today --state failed --limit 0\n" +
			"  carillon run list --newest --error 'connection refused' --task send-email\n" +
			"  carillon run list --key order-4711\n" +
			"  carillon run list --workflow-run 01932f1e-5d80-8003-8d2f-5a1b9c3e7f60 --step transform --state failed\n" +
			"  carillon run list --stuck",
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&l.from, "from", "-10m", "due at this `time` or later")
	f.StringVar(&l.to, "to", "50m", "due before this `time`")
	f.StringSliceVar(&l.states, "state", nil, "only runs in one of these `states`: "+strings.Join(runStates, ", "))
	f.StringVar(&l.query.Task, "task", "", "only runs of the task of this `name`")
	f.StringVar(&l.query.Job, "job", "", "only runs of the job of this `id` or name, and of those that repeat them; of a recurring one the latest of a day first")
	f.StringArrayVar(&l.labels, "label", nil, "only runs with this label, as `name=value`; again: and with that one")
	f.DurationVar(&l.query.Late, "late", 0, "only runs that started later than this `span` after they were due, that have not started for longer, or that were missed")
	f.StringVar(&l.query.Error, "error", "", "only runs whose last error has this `text` in it, in capitals or not")
	f.BoolVar(&l.query.OneOff, "one-off", false, "only runs of one-off jobs")
	f.StringVar(&l.query.CreatedBy, "created-by", "", "only runs made by this `caller`, as the audit log names it")
	f.BoolVar(&l.newest, "newest", false, "search from the newest minute back")
	f.StringVar(&l.key, "key", "", "only the run of this idempotency `key`")
	f.StringVar(&l.at, "at", "", "with --key: the `time` of the import's line")
	f.StringVar(&l.workflow, "workflow-run", "", "the runs of the steps of the workflow run of this `id`")
	f.StringVar(&l.step, "step", "", "with --workflow-run: only those of the step of this `name`")
	f.IntVar(&l.limit, "limit", 50, "show at most so many; 0 = all")
	f.BoolVar(&l.stuck, "stuck", false, "only runs that wait for other jobs beyond their deadline")
	cli.CompleteFlag(cmd, "state", runStates...)
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
		items, err := l.runs(cmd, client)
		if err != nil {
			return err
		}
		return cli.List(cmd, r, "list runs", items, l.limit, l.head, l.row, l.optional...)
	})
	return cmd
}

// runs asks for the runs that the flags of cmd select.
func (l *runList) runs(cmd *cobra.Command, client *httpapi.Client) (iter.Seq2[httpapi.Run, error], error) {
	ctx, now, q := cmd.Context(), time.Now(), &l.query
	if q.Limit = cli.PageOf(l.limit); q.Late < 0 {
		return nil, cli.Usagef("--late: %v is negative", q.Late)
	}
	for _, s := range l.states {
		q.States = append(q.States, schema.State(s))
	}
	var err error
	if q.Labels, err = readLabels(l.labels); err != nil {
		return nil, err
	}
	window := cmd.Flags().Changed("from") || cmd.Flags().Changed("to")
	switch {
	case l.stuck:
		l.head, l.row, l.optional = stuckHead, stuckRow, nil
		return client.Stuck(ctx, q.Limit), alone(cmd, "stuck")
	case l.workflow != "":
		id, err := schema.ParseEntryID(l.workflow)
		if err != nil {
			return nil, cli.Usagef("--workflow-run: %w", err)
		}
		l.head, l.row = stepRunHead, stepRunRow
		return client.StepRuns(ctx, id, l.step, *q), alone(cmd, "workflow-run", "step", "state", "late")
	case l.key != "" && !window:
		var at time.Time
		if err := cli.Instants(now, cli.NewTimeFlag("at", l.at, &at)); err != nil {
			return nil, err
		}
		return runOfKey(cmd, client, l.key, at), alone(cmd, "key", "at")
	}
	for _, flag := range []string{"at", "step"} {
		if cmd.Flags().Changed(flag) {
			return nil, cli.Usagef("--%s goes with --%s", flag, map[string]string{"at": "key, without --from and --to", "step": "workflow-run"}[flag])
		}
	}
	q.Key = l.key
	if l.newest {
		return l.search(cmd, client, now)
	}
	if q.From, q.To, err = cli.Window(l.from, l.to, now); err != nil {
		return nil, err
	}
	return client.Runs(ctx, *q), nil
}

// search searches for the runs that the flags of cmd select, and says at its end how far it came. A
// search whose list has enough ends before.
func (l *runList) search(cmd *cobra.Command, client *httpapi.Client, now time.Time) (iter.Seq2[httpapi.Run, error], error) {
	q := &l.query
	for flag, to := range map[string]*time.Time{"from": &q.From, "to": &q.To} {
		if !cmd.Flags().Changed(flag) {
			continue // the node has its own
		}
		var err error
		if *to, err = cli.Instant(flag, cmd.Flags().Lookup(flag).Value.String(), now); err != nil {
			return nil, err
		}
	}
	if !q.From.IsZero() && !q.To.IsZero() && !q.From.Before(q.To) {
		return nil, cli.Usagef("--from must be before --to")
	}
	return func(yield func(httpapi.Run, error) bool) {
		var searched httpapi.Searched
		for page, err := range client.SearchRuns(cmd.Context(), *q) {
			if err != nil {
				yield(httpapi.Run{}, err)
				return
			}
			partitions := searched.Partitions + page.Searched.Partitions
			searched = page.Searched
			searched.Partitions = partitions
			for i := range page.Items {
				if !yield(page.Items[i], nil) {
					return
				}
			}
		}
		if !searched.Until.IsZero() {
			cli.Advise(cmd, "Searched back to %s: %s.", cli.ShowTime(searched.Until), searchedBy(&searched))
		}
	}, nil
}

// searchedBy says what a search has looked at.
func searchedBy(s *httpapi.Searched) string {
	if s.By == "dead_letters" {
		return "the dead letters"
	}
	return fmt.Sprintf("%d partitions of due times", s.Partitions)
}

// readLabels reads the flags --label.
func readLabels(flags []string) (labels map[string]string, err error) {
	for _, text := range flags {
		name, value, ok := strings.Cut(text, "=")
		if before, twice := labels[name]; !ok || name == "" || twice && before != value {
			return nil, cli.Usagef("--label: %q is not a name, '=' and a value, or another value of a label stated before", text)
		}
		if labels == nil {
			labels = make(map[string]string)
		}
		labels[name] = value
	}
	return labels, nil
}

// alone reports a flag that selects runs beside one, and is not among those that may be.
func alone(cmd *cobra.Command, flag string, may ...string) error {
	allowed := map[string]bool{flag: true}
	for _, other := range may {
		allowed[other] = true
	}
	for _, other := range []string{"from", "to", "state", "task", "job", "label", "late", "error", "one-off", "created-by", "newest", "key", "at", "workflow-run", "step", "stuck"} {
		if cmd.Flags().Changed(other) && !allowed[other] {
			return cli.Usagef("--%s does not go with --%s", other, flag)
		}
	}
	return nil
}

// runOfKey lists the run of a key.
func runOfKey(cmd *cobra.Command, client *httpapi.Client, key string, at time.Time) iter.Seq2[httpapi.Run, error] {
	return func(yield func(httpapi.Run, error) bool) {
		run, found, err := client.RunOfKey(cmd.Context(), key, at)
		switch {
		case err != nil || found:
			yield(run, err)
		case at.IsZero():
			cli.Advise(cmd, "No run of the key %q is known. Keys are kept for 24 h; that of an import's line with an instant is found with --at, and later ones with --from and --to.", key)
		default:
			cli.Advise(cmd, "No line of an import with the key %q and that instant is known.", key)
		}
	}
}

// stepRunHead and stepRunRow make a table of runs of steps.
var stepRunHead = []string{"ID", "STEP", "STATE", "DUE", "LATENESS", "ATTEMPTS", "ERROR"}

func stepRunRow(run *httpapi.Run) []string {
	name, failure := run.Step, ""
	if run.Item != nil {
		name += fmt.Sprintf("[%d]", *run.Item)
	}
	if n := len(run.Attempts); n > 0 {
		failure = cli.Head(run.Attempts[n-1].Error, 100)
	}
	return []string{
		run.ID.String(), name, string(run.State), cli.ShowTime(run.DueAt), showLateness(run.LatenessMS), fmt.Sprint(len(run.Attempts)), failure,
	}
}
