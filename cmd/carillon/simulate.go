package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/cmd/carillon/planner"
)

// shownSteps is how many lines the table over time has at most, unless --step says otherwise.
const shownSteps = 20

// maxLines bounds that table; -o json has the whole.
const maxLines = 200

// simulateFlags are the flags of carillon simulate.
type simulateFlags struct {
	executors, slots int
	starts           string
	span, step       string
	loads            []string
	recorded         string
	limits           []string
	seed             int
	plot, output     string
}

func simulateCommand() *cobra.Command {
	var q simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate --load LOAD…",
		Short: "Play a load through executors, and say how long runs would wait",
		Long: "Play a load through the slots of executors, and say what waits, how much is used and how late runs start, over time.\n" +
			"It asks nobody, and nothing is called: 1,000,000 runs take seconds. `carillon capacity` plans the machines.\n\n" +
			"A LOAD is name=value members, separated by commas:\n" +
			"  rate=50/s (30/m, 1000/h): runs due at random with that mean; even=true: evenly spaced\n" +
			"  herd=10000, at=10m, every=1h: so many due at one instant, once or again and again\n" +
			"  duration=2s, 1s..3s (evenly between), mean=2s (exponential), p50=200ms/p99=3s (log-normal); default 200ms\n" +
			"  priority=critical|high|normal|low, tenant, task_rate=100/s, max_concurrent=10, name\n\n" +
			"--recorded plays runs as they were: pages of GET /v1/runs, or runs, one after the other.\n" +
			"They do not say what limit their task had: --max-concurrent does.",
		Example: "  carillon simulate --executors 4 --slots 500 --load rate=800/s,duration=p50=300ms/p99=4s\n" +
			"  carillon simulate --executors 2 --slots 100 --load name=mail,rate=100/s,duration=1s --load name=nightly,herd=20000,at=2m,duration=500ms,priority=low --span 10m --plot plan.svg\n" +
			"  carillon run list -o json --limit 0 --from 2026-11-27T09:00:00Z --to 2026-11-27T10:00:00Z | carillon simulate --slots 200 --recorded -",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, notes, err := q.config(cmd.InOrStdin())
			if err != nil {
				return err
			}
			r, err := planner.Play(&c)
			if err != nil {
				return fmt.Errorf("play the load: %w", err)
			}
			if q.plot != "" {
				svg, err := planner.Plot(&r, c.Slots)
				if err == nil {
					err = os.WriteFile(q.plot, svg, 0o644) // #nosec G306 -- a picture
				}
				if err != nil {
					return err
				}
			}
			if q.output == "json" {
				return cli.Document(cmd.OutOrStdout(), r)
			}
			return showSimulated(cmd.OutOrStdout(), &c, &r, notes)
		},
	}
	f := cmd.Flags()
	f.IntVar(&q.executors, "executors", 1, "number of executors")
	f.IntVar(&q.slots, "slots", 2048, "attempts under way at once on each (executor.slots)")
	f.StringVar(&q.starts, "starts", "10k", "`runs` that the cluster can start a second (carillon capacity)")
	f.StringArrayVar(&q.loads, "load", nil, "a `load`, as above; several may be given")
	f.StringVar(&q.recorded, "recorded", "", "`file` of recorded runs, - for standard input")
	f.StringArrayVar(&q.limits, "max-concurrent", nil, "`task=n`: the limit of a recorded task; several may be given")
	f.StringVar(&q.span, "span", "", "for how long runs become due; default 10m, or as recorded")
	f.StringVar(&q.step, "step", "", "width of a line of the table; default a twentieth of the span")
	f.IntVar(&q.seed, "seed", 1, "of everything random")
	f.StringVar(&q.plot, "plot", "", "`file` for a picture (SVG)")
	f.StringVarP(&q.output, "output", "o", "table", "table or json")
	return cmd
}

// config reads the flags. The error names every fault.
func (q *simulateFlags) config(in io.Reader) (c planner.Config, notes []string, err error) {
	var faults []error
	fault := func(flag string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	if q.output != "table" && q.output != "json" {
		fault("output", fmt.Errorf("%q is neither table nor json", q.output))
	}
	if q.executors < 1 || q.slots < 1 || q.executors > planner.MaxSlots/max(q.slots, 1) {
		fault("executors", fmt.Errorf("%d with %d slots each: want from 1 slot to %d in all", q.executors, q.slots, planner.MaxSlots))
	}
	c = planner.Config{Slots: q.executors * q.slots, Executors: q.executors, Span: 10 * time.Minute, Seed: uint64(q.seed)} // #nosec G115 -- any number will do
	c.Starts, err = quantity(q.starts)
	fault("starts", err)
	for i, text := range q.loads {
		l, err := planner.ParseLoad(text)
		for _, e := range orEach(err) {
			fault("load "+strconv.Quote(text), e)
		}
		if l.Name == "" {
			l.Name = "load " + strconv.Itoa(i+1)
		}
		c.Loads = append(c.Loads, l)
	}
	if len(q.loads) == 0 && q.recorded == "" {
		fault("load", errors.New("is needed, or --recorded"))
	}
	if q.recorded != "" {
		loads, span, left, err := readRecorded(q.recorded, in)
		fault("recorded", err)
		for _, text := range q.limits {
			if err := limit(loads, text); err != nil {
				fault("max-concurrent", err)
			}
		}
		c.Loads = append(c.Loads, loads...)
		if span > 0 {
			c.Span = span
		}
		if left > 0 {
			notes = append(notes, fmt.Sprintf("%d recorded runs were never called, and are left out.", left))
		}
	}
	if q.recorded == "" && len(q.limits) > 0 {
		fault("max-concurrent", errors.New("goes with --recorded: a load has max_concurrent of its own"))
	}
	if q.span != "" {
		c.Span, err = days(q.span)
		fault("span", err)
	}
	if c.Step = max(c.Span/shownSteps, time.Millisecond); q.step != "" {
		c.Step, err = days(q.step)
		fault("step", err)
	}
	if len(faults) == 0 {
		for _, e := range orEach(c.Validate()) {
			faults = append(faults, errors.New("--"+e.Error()))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return c, nil, cli.Usagef("%w", err)
	}
	return c, notes, nil
}

// limit gives the recorded runs of a task a limit, from "task=n".
func limit(loads []planner.Load, text string) error {
	task, number, ok := strings.Cut(text, "=")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 1 || n > planner.MaxSlots {
		return fmt.Errorf("%q is not task=n with n from 1 to %d", text, planner.MaxSlots)
	}
	of := -1
	for i := range loads {
		switch {
		case loads[i].Name != task:
		case of >= 0:
			return fmt.Errorf("%q: the runs of %s have several tenants or priorities, which are played as tasks of their own", text, task)
		default:
			of = i
		}
	}
	if of < 0 {
		return fmt.Errorf("%q: no recorded run is of that task", text)
	}
	loads[of].TaskLimit = n
	return nil
}

// orEach returns the errors that errors.Join has joined, or the one.
func orEach(err error) []error {
	if all := flatten(err); len(all) > 0 {
		return all
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

func readRecorded(name string, in io.Reader) ([]planner.Load, time.Duration, int, error) {
	if name != "-" {
		f, err := os.Open(name) // #nosec G304 -- the user's own
		if err != nil {
			return nil, 0, 0, err
		}
		defer func() { _ = f.Close() }() // it was read
		in = f
	}
	return planner.ReadRecorded(in)
}

// showSimulated writes the tables: over time, and by load.
func showSimulated(out io.Writer, c *planner.Config, r *planner.Result, notes []string) error {
	text := func(d time.Duration) string {
		switch {
		case d >= 10*time.Second:
			return d.Round(100 * time.Millisecond).String()
		case d >= time.Second:
			return d.Round(10 * time.Millisecond).String()
		}
		return d.Round(time.Millisecond).String()
	}
	rows := [][]string{{"from", "due", "started", "waiting", "running", "used", "wait p50", "wait p99"}}
	for i := range r.Steps {
		s := &r.Steps[i]
		if i == len(r.Steps)-1 && i > maxLines {
			rows = append(rows, []string{"…"})
		} else if i > maxLines {
			continue
		}
		rows = append(rows, []string{text(s.At), strconv.Itoa(s.Due), strconv.Itoa(s.Started), strconv.Itoa(s.Waiting), strconv.Itoa(s.Running), fmt.Sprintf("%.0f %%", 100*s.Use), text(s.WaitP50), text(s.WaitP99)})
	}
	if err := cli.Table(out, rows); err != nil {
		return err
	}
	loads := [][]string{{"load", "runs", "wait mean", "wait p50", "wait p99", "longest", "most waiting"}}
	for _, s := range append(r.Loads, r.All) {
		loads = append(loads, []string{s.Name, strconv.Itoa(s.Runs), text(s.WaitMean), text(s.WaitP50), text(s.WaitP99), text(s.WaitMost), strconv.Itoa(s.Deepest)})
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := cli.Table(out, loads); err != nil {
		return err
	}
	notes = append(notes, fmt.Sprintf("%d slots are used to %.0f %%; the loads want %.0f on average. The last run ends at %s.", c.Slots, 100*r.Use, r.Offered, text(r.Ended)))
	if usable := c.Usable(); r.Offered > float64(usable) {
		notes = append(notes, fmt.Sprintf("That is more than the %d that these tenants may have: what waits grows for as long as the load lasts.", usable))
	}
	notes = append(notes, "A wait is from the due time to the start. Left out: the few ms of dispatch, retries, failures, limits of single targets.")
	for _, n := range notes {
		if _, err := fmt.Fprintln(out, "\n"+n); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}
