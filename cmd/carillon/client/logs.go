package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/logs"
	"carillon.dev/carillon/cmd/carillon/cli"
)

// logSearch is what logs are searched for.
type logSearch struct {
	from, to, kind string
	labels         []string
	query          httpapi.LogQuery
	limit          int
	follow         bool
	looked         httpapi.LookedAt // the sum of all answers
	shown          int
}

func logsCommand() *cobra.Command {
	r, l := &cli.Remote{}, &logSearch{}
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Search what runs logged, and why their attempts failed",
		Long: "Search the lines that workers logged and the errors of attempts, in runs that are due from --from up to --to: without them in those of the last hour, of a job or a run in all.\n" +
			"The runs of the newest minute come first; the lines of a run come in order, and the error of an attempt after its lines. --text is no pattern, and capitals do not matter.\n\n" +
			"Logs have no index: runs are looked at one after the other. What was looked at is said at the end. Outputs are not searched: carillon run output shows one.\n\n" +
			"With --follow, show what comes: of runs that fall due from --from on (default: a minute ago), and of those that have not ended, at most 32 at once. With --run it ends with the run.\n\n" +
			"With -o json there is one line an object.",
		Example: "  carillon logs --text 'connection refused'\n" +
			"  carillon logs --job nightly-report --kind error --from -168h\n" +
			"  carillon logs --task send-email --text ada@example.com --from -24h -o json\n" +
			"  carillon logs --task send-email --follow",
		Args: cobra.NoArgs,
	}
	r.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&l.from, "from", "", "runs due at this `time` or later: "+cli.Times)
	f.StringVar(&l.to, "to", "", "runs due before this `time`")
	f.StringVar(&l.query.Job, "job", "", "only runs of the job or workflow of this `id` or name, and of those that repeat them, the latest due first")
	f.StringVar(&l.query.Run, "run", "", "only the run of this `id`; of a workflow run: its steps")
	f.StringVar(&l.query.Task, "task", "", "only runs, and steps of workflow runs, of the task of this `name`")
	f.StringArrayVar(&l.labels, "label", nil, "only runs, and workflow runs, with this label, as `name=value`; again: and with that one")
	f.StringVar(&l.query.Text, "text", "", "only lines that have this `text` in them")
	f.StringVar(&l.kind, "kind", "", "only this `kind`: line, or error, which costs least")
	f.IntVar(&l.limit, "limit", 200, "show at most so many lines; 0 = all. --follow goes on whatever it is")
	f.BoolVarP(&l.follow, "follow", "f", false, "go on with what comes")
	cli.CompleteFlag(cmd, "kind", string(logs.LineKind), string(logs.ErrorKind))
	if err := cmd.RegisterFlagCompletionFunc("job", completeJobs(r)); err != nil {
		panic(err) // the flag is there, and has none
	}
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
		if err := l.read(time.Now()); err != nil {
			return err
		}
		return l.run(cmd, client, r.JSON())
	})
	return cmd
}

// read reads the flags that the library does not.
func (l *logSearch) read(now time.Time) error {
	if l.limit < 0 {
		return cli.Usagef("--limit: %d is negative", l.limit)
	}
	l.query.Limit = cli.PageOf(l.limit)
	var err error
	if l.query.Labels, err = readLabels(l.labels); err != nil {
		return err
	}
	if err := cli.Instants(now, cli.NewTimeFlag("from", l.from, &l.query.From), cli.NewTimeFlag("to", l.to, &l.query.To)); err != nil {
		return err
	}
	switch l.query.Kind = logs.Kind(l.kind); {
	case l.kind != "" && l.query.Kind != logs.LineKind && l.query.Kind != logs.ErrorKind:
		return cli.Usagef("--kind: %q is neither line nor error", l.kind)
	case l.from != "" && l.to != "" && !l.query.From.Before(l.query.To):
		return cli.Usagef("--from must be before --to")
	case l.follow && l.to != "":
		return cli.Usagef("--to does not go with --follow")
	}
	return nil
}

// errEnough ends a search when all is shown that was asked for.
var errEnough = errors.New("enough is shown")

func (l *logSearch) run(cmd *cobra.Command, client *httpapi.Client, asJSON bool) error {
	show := showFound(cmd.OutOrStdout())
	if asJSON {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetEscapeHTML(false)
		show = func(line *httpapi.FoundLine) error { return enc.Encode(line) } //nolint:wrapcheck // it is wrapped below
	}
	pages := client.SearchLogs(cmd.Context(), l.query)
	if l.follow {
		pages = client.FollowLogs(cmd.Context(), l.query, followEvery)
	}
	for page, err := range pages {
		switch {
		case err != nil && l.follow && cmd.Context().Err() != nil:
			return nil // whoever followed has seen enough
		case err != nil:
			return fmt.Errorf("search logs: %w", err)
		}
		if page.LookedAt.LetGo > 0 {
			cli.Advise(cmd, "Too many runs are under way: %d of them are not followed any more.", page.LookedAt.LetGo)
		}
		switch err := l.take(&page, show); {
		case errors.Is(err, errEnough):
			l.tell(cmd, true)
			return nil
		case err != nil:
			return fmt.Errorf("write: %w", err)
		}
	}
	l.tell(cmd, false)
	return nil
}

// take shows the items of an answer. errEnough: there are more than are to be shown.
func (l *logSearch) take(page *httpapi.LogPage, show func(*httpapi.FoundLine) error) error {
	l.looked.Runs, l.looked.Lines, l.looked.Damaged = l.looked.Runs+page.LookedAt.Runs, l.looked.Lines+page.LookedAt.Lines, l.looked.Damaged+page.LookedAt.Damaged
	if !page.LookedAt.Reached.IsZero() {
		l.looked.Reached = page.LookedAt.Reached
	}
	for i := range page.Items {
		if !l.follow && l.limit > 0 && l.shown == l.limit {
			return errEnough
		}
		if err := show(&page.Items[i]); err != nil {
			return err
		}
		l.shown++
	}
	return nil
}

// tell says what was looked at.
func (l *logSearch) tell(cmd *cobra.Command, more bool) {
	if l.follow {
		return
	}
	said := fmt.Sprintf("Looked at %d lines and errors of %d runs", l.looked.Lines, l.looked.Runs)
	if !l.looked.Reached.IsZero() {
		said += ", back to " + cli.ShowTime(l.looked.Reached)
	}
	if l.looked.Damaged > 0 {
		said += fmt.Sprintf("; %d parts of logs could not be understood", l.looked.Damaged)
	}
	cli.Advise(cmd, "%s.", said)
	if more {
		cli.Advise(cmd, "There are more: --limit %d shows only the first.", l.limit)
	}
}

// showFound returns what writes a line for people: when, of which run, of what, and the line.
func showFound(w io.Writer) func(*httpapi.FoundLine) error {
	return func(line *httpapi.FoundLine) error {
		text := cli.Clean(line.Text)
		switch {
		case line.Dropped > 0:
			text = fmt.Sprintf("(%d lines were not kept)", line.Dropped)
		case line.Kind == logs.ErrorKind:
			text = fmt.Sprintf("attempt %d failed: %s", line.Attempt, text)
		}
		var of []string
		for _, name := range []string{line.JobName, line.Step, line.Task} {
			if name != "" {
				of = append(of, cli.Clean(name))
			}
		}
		if len(of) == 0 {
			of = []string{"-"}
		}
		at := cli.ShowTime(line.At)
		if at == "" {
			at = "-"
		}
		_, err := fmt.Fprintf(w, "%s  %s  %s  %s\n", at, line.RunID, strings.Join(of, "/"), text)
		return err //nolint:wrapcheck // it is wrapped by the caller
	}
}
