package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/wait"
)

// farAhead bounds how far ahead a run may be due for a check to wait for it. Later runs are not
// due.
const farAhead = time.Hour

// evidence is the files that a check reads.
type evidence struct {
	asked, acks, seen, changes, tasks, states, lost, lostRegion, away []string
	recurringEvidence
	workflowEvidence
	late check.LatenessBound
	off  time.Duration
	calm bool
}

// bounds are those of a check.
type bounds struct {
	wait, apart, timeout time.Duration
	concurrency          int
}

func newCheck() *cobra.Command {
	var to target
	var ev evidence
	var out, between string
	var b bounds
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Judge what came of a load test",
		Long: `Read what was asked, what was acknowledged and what the sink saw. Read every run through the API,
wait for open ones to end, and read everything again --apart later. Print the report. The tenant must be
the test's own: a run that the files do not ask for is unexpected. With --events recurring jobs are judged
instead, by the histories of their runs; with --workflows runs of workflows. Exit status 1 if a promise was broken or something could not be
read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := ev.complete(); err != nil {
				return err
			}
			ctx, cancel := withTimeout(cmd.Context(), b.timeout)
			defer cancel()
			log := newLog(cmd.ErrOrStderr())
			if len(ev.workflows) > 0 {
				return checkWorkflows(ctx, &to, &ev, b, log, cmd.OutOrStdout(), out)
			}
			if ev.events != "" {
				return checkRecurring(ctx, &to, &ev, b, log, cmd.OutOrStdout(), out)
			}
			h, err := ev.read()
			if err != nil {
				return err
			}
			log.Info("evidence read", "asked", len(h.Asked), "answers", len(h.Acks), "arrivals", len(h.Seen), "changes", len(h.Changes))
			client, done := to.client(log)
			defer done()
			now := time.Now()
			ids, times, last := scope(&h, now.Add(farAhead))
			o := &api.Observer{
				Client: client, IDs: ids, Windows: api.Windows(times), WaitUntil: later(now, last).Add(b.wait), Apart: b.apart,
				Concurrency: b.concurrency, Log: log,
			}
			if between != "" {
				o.Between = func(ctx context.Context) error { return waitRemoved(ctx, between) }
			}
			if h.Runs, h.Unlisted, err = o.Observe(ctx); err != nil {
				return err
			}
			// The sink saw more meanwhile. Its record is read again after the last end.
			if h.Seen, h.SeenAll, err = ev.readSeen(); err != nil {
				return err
			}
			if h.States, err = readFiles(ev.states, journal.ReadWatched); err != nil {
				return err
			}
			if h.Away, err = ev.spansAway(); err != nil {
				return err
			}
			losses, err := ev.losses()
			if err != nil {
				return err
			}
			var forgiven *check.Forgiven
			if len(losses) > 0 {
				f := h.Forgive(losses)
				forgiven = &f
			}
			rep, err := check.Judge(h)
			if err != nil {
				return err
			}
			rep.Forgiven = forgiven
			return report(&rep, cmd.OutOrStdout(), out)
		},
	}
	to.flags(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&ev.asked, "asked", nil, "file of jobs that was imported (required without --events, may be repeated)")
	f.StringArrayVar(&ev.acks, "acks", nil, "answers that import wrote (required without --events, may be repeated)")
	f.StringArrayVar(&ev.seen, "sink", nil, "record of a sink (required, may be repeated)")
	f.StringArrayVar(&ev.changes, "changes", nil, "cancels and reschedules (may be repeated)")
	f.StringVar(&ev.events, "events", "", "requests about recurring jobs and their answers, one a line")
	f.StringVar(&ev.end, "end", "", "with --events: end of the observation, RFC 3339: no run that is due later is asked for (required)")
	f.StringArrayVar(&ev.stops, "stop", nil, "with --events: a span in which no node ran, as FROM,TO in RFC 3339 (may be repeated)")
	f.StringArrayVar(&ev.kills, "kill", nil, "with --events: when a node was killed, RFC 3339 (may be repeated)")
	f.StringArrayVar(&ev.workflows, "workflows", nil, "workflows as they were put, one a line (may be repeated)")
	f.StringArrayVar(&ev.triggers, "triggers", nil, "with --workflows: requests to run them, and their answers, one a line (required, may be repeated)")
	f.StringArrayVar(&ev.tasks, "tasks", nil, "tasks with limits that jobs name, as the API shows them, one a line (may be repeated)")
	f.StringArrayVar(&ev.states, "states", nil, "looks at the states of runs that a chaos run wrote (may be repeated)")
	f.StringArrayVar(&ev.lost, "lost", nil, "a span before a power cut, as FROM,CUT in RFC 3339, whose acknowledged writes the store may have lost (may be repeated; not with --events)")
	f.StringArrayVar(&ev.lostRegion, "lost-region", nil, "as --lost, of a region that was cut off: until the end of its lease it wrote what the next one had not seen. A request with a key that it did not answer may have become two jobs")
	f.StringArrayVar(&ev.away, "away", nil, "a span in which a region did not serve its home and another did, as REGION,FROM,TO: jobs that require it must be seen to wait (may be repeated; not with --events)")
	f.BoolVar(&ev.calm, "calm", false, "nothing went wrong: a duplicate execution is a fault, whatever explains it")
	f.DurationVar(&ev.late.Max, "max-lateness", 0, "how late a run may start at most; 0 = no bound")
	f.DurationVar(&ev.late.P99, "max-lateness-p99", 0, "how late 99 of 100 runs may start at most; 0 = no bound")
	f.DurationVar(&ev.off, "off", 0, "how far clocks of executors were off: a run may start that much before its instant")
	f.DurationVar(&b.wait, "wait", 30*time.Second, "how long to wait, after the last due instant, for runs to end")
	f.DurationVar(&b.apart, "apart", 30*time.Second, "how long the second read comes after the first")
	f.DurationVar(&b.timeout, "timeout", 0, "bound of the whole; 0 = none")
	f.IntVar(&b.concurrency, "concurrency", 4, "requests under way at once")
	f.StringVar(&between, "between", "", "file that is made when the first read is over; the second waits until somebody removes it")
	f.StringVar(&out, "out", "", "file for the report as JSON")
	required(cmd, "sink")
	return cmd
}

// losses reads the spans whose writes may have been lost.
func (ev *evidence) losses() ([]check.Loss, error) {
	all, err := spansOf("--lost", ev.lost, func(from, cut time.Time) check.Loss { return check.Loss{From: from, Cut: cut} })
	if err != nil {
		return nil, err
	}
	regions, err := spansOf("--lost-region", ev.lostRegion, func(from, cut time.Time) check.Loss { return check.Loss{From: from, Cut: cut, Region: true} })
	return append(all, regions...), err
}

// spansAway reads the spans in which regions did not serve their homes.
func (ev *evidence) spansAway() (all []check.Away, err error) {
	for _, text := range ev.away {
		region, span, _ := strings.Cut(text, ",")
		of, err := spansOf("--away", []string{span}, func(from, to time.Time) check.Away { return check.Away{Region: region, From: from, To: to} })
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	return all, nil
}

// spansOf reads the values of a flag, each "FROM,TO", two instants in RFC 3339.
func spansOf[T any](flag string, texts []string, span func(from, to time.Time) T) ([]T, error) {
	var all []T
	for _, text := range texts {
		first, last, _ := strings.Cut(text, ",")
		from, err := time.Parse(time.RFC3339Nano, first)
		to, lastErr := time.Parse(time.RFC3339Nano, last)
		if err := errors.Join(err, lastErr); err != nil {
			return nil, fmt.Errorf("%s %q is not FROM,TO: %w", flag, text, err)
		}
		all = append(all, span(from, to))
	}
	return all, nil
}

// removedPoll is how often waitRemoved looks for the file.
const removedPoll = 100 * time.Millisecond

// waitRemoved makes a file, which must not exist, and returns when it has been removed.
func waitRemoved(ctx context.Context, path string) error {
	f, err := create(path)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("make mark: %w", err)
	}
	_, err = wait.Poll(ctx, removedPoll, time.Time{}, func() (bool, error) {
		_, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return fmt.Errorf("look for mark: %w", err)
	}
	return nil
}

// complete reports missing flags.
func (ev *evidence) complete() error {
	oneOff := len(ev.asked) + len(ev.acks) + len(ev.changes) + len(ev.tasks)
	switch {
	case len(ev.workflows) > 0 && (oneOff > 0 || ev.events != ""):
		return errors.New("--workflows is about workflows, --events about recurring jobs, --asked, --acks, --changes and --tasks about one-off ones: give one or the other")
	case len(ev.workflows) > 0 && len(ev.triggers) == 0:
		return errors.New("--workflows needs --triggers")
	case len(ev.workflows) > 0:
		return nil
	case ev.events != "" && oneOff > 0:
		return errors.New("--events is about recurring jobs, --asked, --acks, --changes and --tasks about one-off ones: give one or the other")
	case ev.events != "" && ev.end == "":
		return errors.New("--events needs --end")
	case ev.events == "" && (len(ev.asked) == 0 || len(ev.acks) == 0):
		return errors.New("--asked and --acks are needed, or --events, or --workflows")
	}
	return nil
}

// read reads all files.
func (ev *evidence) read() (h check.History, err error) {
	h = check.History{Late: ev.late, Calm: ev.calm, Off: ev.off}
	for _, path := range ev.asked {
		source, err := journal.SourceOf(path)
		if err != nil {
			return h, err
		}
		asks, err := journal.ReadFile(path, func(r io.Reader) ([]check.Ask, error) { return journal.ReadAsked(r, source) })
		if err != nil {
			return h, err
		}
		h.Asked = append(h.Asked, asks...)
	}
	if h.Acks, err = readFiles(ev.acks, journal.ReadAcks); err != nil {
		return h, err
	}
	if h.Changes, err = readFiles(ev.changes, journal.ReadChanges); err != nil {
		return h, err
	}
	if h.Tasks, err = readFiles(ev.tasks, journal.ReadTasks); err != nil {
		return h, err
	}
	h.Seen, h.SeenAll, err = ev.readSeen()
	return h, err
}

// readFiles reads all files of a kind.
func readFiles[T any](paths []string, read func(io.Reader) ([]T, error)) ([]T, error) {
	var all []T
	for _, path := range paths {
		more, err := journal.ReadFile(path, read)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// readSeen reads the sinks' records; they are complete if each is.
func (ev *evidence) readSeen() (seen []check.Sighting, all bool, err error) {
	all = true
	for _, path := range ev.seen {
		more, complete, err := journal.ReadSeenFile(path)
		if err != nil {
			return nil, false, err
		}
		seen, all = append(seen, more...), all && complete
	}
	return seen, all, nil
}

// scope returns the runs to read, all instants of the history, and the last due instant before
// limit.
func scope(h *check.History, limit time.Time) (ids []string, times []time.Time, last time.Time) {
	for i := range h.Asked {
		times = append(times, h.Asked[i].At)
		if h.Asked[i].At.Before(limit) {
			last = later(last, h.Asked[i].At)
		}
	}
	for i := range h.Acks {
		times = append(times, h.Acks[i].At)
		if id := h.Acks[i].ID; id != "" {
			ids = append(ids, id)
		}
	}
	for i := range h.Changes {
		c := &h.Changes[i]
		ids = append(ids, c.Run)
		times = append(times, c.Due, c.Acked)
		if c.Due.Before(limit) {
			last = later(last, c.Due)
		}
	}
	for i := range h.Seen {
		times = append(times, h.Seen[i].At)
	}
	slices.Sort(ids)
	return slices.Compact(ids), times, last
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// A verdict is a report of any judge.
type verdict interface {
	WriteText(w io.Writer) error
	WriteJSON(w io.Writer) error
	Failed() bool
}

// report prints rep, writes it into out unless that is "", and turns a bad one into errVerdict.
func report(rep verdict, w io.Writer, out string) error {
	if err := rep.WriteText(w); err != nil {
		return err
	}
	if out != "" {
		if err := writeTo(out, rep.WriteJSON); err != nil {
			return err
		}
	}
	if rep.Failed() {
		return fmt.Errorf("check: %w", errVerdict)
	}
	return nil
}

// writeTo writes a report into a file.
func writeTo(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// withTimeout bounds ctx; 0 = not.
func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}
