package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/loadtest/flow"
	"carillon.dev/carillon/loadtest/peers/measure"
	"carillon.dev/carillon/loadtest/peers/peer"
)

// carillonName stands for Carillon among the systems.
const carillonName = "carillon"

// childEnd bounds how long a measurement that is told to stop may take to do so.
const childEnd = time.Minute

// errIncomplete says that some measurements failed; the log has told which and why.
var errIncomplete = errors.New("some measurements failed")

// comparison is all that is measured.
type comparison struct {
	systems, protocols []string
	target             string // of B
	n                  int
	rates              []int
	span, wait         time.Duration
	payload, warm      int
	rounds, first      int // how many, and the number of the first one
	dir, out, sink     string
	checkout           string // of goscheduler; "" = it is left out
	temporal           string // the program
	chains, pace       int    // of W
	carillon           string // command that measures Carillon; "" = it is not

	log *slog.Logger
}

func compareCommand() *cobra.Command {
	var c comparison
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Measure all peers, interleaved, and write results and a table",
		Long: `Measure every system by every protocol, one after the other, each on servers of its own that are stopped after, --rounds
times over. The order of the systems moves on by one with each step, so that none is always measured after the same.

Results are lines of JSON in OUT/peers-TIME.json, with a table in OUT/peers-TIME.md.

--carillon is a command for the shell that measures Carillon in its turn. It finds what to do in the environment:
PROTOCOL (A, B, C or W), N, RATE, SPAN, TARGET, PAYLOAD, WARM, ROUND, and RESULTS, a folder into which it writes results, as
carillon-load bench does:

  --carillon 'carillon-load bench $PROTOCOL --n $N --rates $RATE --span $SPAN --targets $TARGET --payload $PAYLOAD --warm $WARM --out $RESULTS'

Of W, TARGET is the part (chains or pace), N the number of chains, and RATE that of steps. W is measured on systems that run
workflows, and on no others.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.log = newLog()
			if !cmd.Flags().Changed("systems") {
				c.systems = systemsFor(c.protocols)
			}
			if err := c.validate(); err != nil {
				return err
			}
			return c.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&c.systems, "systems", nil, "which peers, in the order of the first round (default all that one of the protocols is for)")
	f.StringSliceVar(&c.protocols, "protocols", []string{measure.BurnDown, measure.Herd, measure.Stream}, "which protocols: A, B, C, W")
	f.IntVar(&c.chains, "chains", 10_000, "chains of W, as many as can be")
	f.IntVar(&c.pace, "pace", 200, "steps a second of W at a rate")
	f.StringVar(&c.target, "target", measure.HTTP, "what runs of B do: noop or http")
	f.IntVar(&c.n, "n", 100_000, "runs of A and B")
	f.IntSliceVar(&c.rates, "rates", []int{1000, 2000, 5000, 10_000}, "runs due a second in C")
	f.DurationVar(&c.span, "span", time.Minute, "over which they fall due")
	f.DurationVar(&c.wait, "wait", 2*time.Minute, "for runs after the last due instant")
	f.IntVar(&c.payload, "payload", 0, "bytes of padding of each job and call")
	f.IntVar(&c.warm, "warm", measure.DefaultWarm, "runs before each measurement")
	f.IntVar(&c.rounds, "rounds", 5, "how often everything is measured")
	f.IntVar(&c.first, "first-round", 1, "number of the first round, where rounds are measured apart: the order of the systems goes by it")
	f.StringVar(&c.dir, "dir", "/var/tmp", "for the data of servers; on a disk")
	f.StringVar(&c.out, "out", filepath.Join(".local", "bench"), "for results")
	f.StringVar(&c.sink, "sink", filepath.Join(".local", "bin", "carillon-load"), "carillon-load, which is the sink")
	checkoutFlag(cmd, &c.checkout)
	temporalFlag(cmd, &c.temporal)
	f.StringVar(&c.carillon, "carillon", os.Getenv("CARILLON_BENCH"), "command that measures Carillon; default: $CARILLON_BENCH")
	return cmd
}

func (c *comparison) validate() error {
	var faults []error
	for _, s := range c.systems {
		if !slices.Contains(peer.Names(), s) {
			faults = append(faults, fmt.Errorf("no system %q, want some of %s", s, strings.Join(peer.Names(), ", ")))
		}
	}
	if c.rounds < 1 || c.first < 1 {
		faults = append(faults, fmt.Errorf("%d rounds from round %d on, want at least 1 of each", c.rounds, c.first))
	}
	for _, s := range c.steps() {
		cfg := measure.Config{
			Protocol: s.protocol, Target: s.target, N: s.n, Span: c.span, Payload: c.payload, Warm: c.warm, Wait: c.wait, Rate: s.rate,
			StartSink: func(context.Context, string) (*measure.Sink, error) { return nil, nil },
		}
		if err := cfg.Validate(); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// A step is one measurement for every system.
type step struct {
	protocol, target string
	n, rate          int
}

// steps returns those of a round.
func (c *comparison) steps() []step {
	var steps []step
	for _, p := range c.protocols {
		switch p {
		case measure.BurnDown:
			steps = append(steps, step{protocol: p, target: measure.Noop, n: c.n})
		case measure.Workflows:
			steps = append(steps, step{protocol: p, target: measure.Chains, n: c.chains},
				step{protocol: p, target: measure.Pace, n: int(float64(c.pace) * c.span.Seconds() / flow.ChainSteps), rate: c.pace})
		case measure.Stream:
			for _, rate := range c.rates {
				steps = append(steps, step{protocol: p, target: measure.HTTP, n: int(float64(rate) * c.span.Seconds()), rate: rate})
			}
		default: // B, or what validate finds
			steps = append(steps, step{protocol: p, target: c.target, n: c.n})
		}
	}
	return steps
}

// systemsFor returns the systems that one of the protocols is for, sorted.
func systemsFor(protocols []string) []string {
	var all []string
	for _, p := range protocols {
		all = append(all, peer.NamesOf(p)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// A turn is one measurement of one system.
type turn struct {
	step

	round  int // counted from 1
	system string
}

// turns returns everything that is to be measured, in order.
func (c *comparison) turns() []turn {
	systems := slices.Clone(c.systems)
	if c.carillon != "" {
		systems = append([]string{carillonName}, systems...)
	}
	var all []turn
	for round := c.first - 1; round < c.first-1+c.rounds; round++ {
		for i, s := range c.steps() {
			for k := range systems {
				system := systems[(k+i+round)%len(systems)]
				if c.leftOut(system, s) == nil {
					all = append(all, turn{s, round + 1, system})
				}
			}
		}
	}
	return all
}

// leftOut says why a step is not made with a system; nil if it is.
func (c *comparison) leftOut(system string, s step) error {
	if system == carillonName {
		return nil
	}
	p, err := peer.New(system, peer.Means{Log: c.log, Goscheduler: c.checkout, Temporal: c.temporal})
	if err != nil {
		return err
	}
	return measure.Fits(p, s.protocol, s.target)
}

// tellLeftOut tells what is not measured, and why: each reason once.
func (c *comparison) tellLeftOut() {
	told := map[string]bool{}
	for _, system := range c.systems {
		for _, s := range c.steps() {
			if err := c.leftOut(system, s); err != nil && !told[err.Error()] {
				told[err.Error()] = true
				c.log.Warn("LEFT OUT", "system", system, "why", err)
			}
		}
	}
}

// run measures everything. A measurement that fails is told of and left out; what was measured is in the file at once.
func (c *comparison) run(ctx context.Context, stdout io.Writer) (err error) {
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	base := filepath.Join(c.out, "peers-"+time.Now().UTC().Format("20060102T150405Z"))
	file, err := os.OpenFile(base+".json", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var results []*measure.Result
	var failed error
	c.tellLeftOut()
	turns := c.turns()
	for i, t := range turns {
		c.log.Info("measuring", "turn", fmt.Sprintf("%d of %d", i+1, len(turns)), "round", t.round, "protocol", t.protocol, "rate", t.rate, "system", t.system)
		lines, err := c.measure(ctx, t)
		if ctx.Err() != nil {
			failed = ctx.Err()
			break
		}
		if err != nil {
			failed = errIncomplete
			c.log.Error("measurement failed", "system", t.system, "protocol", t.protocol, "err", err)
			line, merr := json.Marshal(failure(t, c, err))
			if merr != nil {
				return fmt.Errorf("write results: %w", merr)
			}
			lines = append(lines, line)
		}
		for _, line := range lines {
			if _, err := file.Write(append(line, '\n')); err != nil {
				return fmt.Errorf("write results: %w", err)
			}
			r := new(measure.Result)
			if err := json.Unmarshal(line, r); err != nil {
				return fmt.Errorf("read result of %s: %w", t.system, err)
			}
			results = append(results, r)
		}
	}
	var table bytes.Buffer
	measure.Table(&table, results)
	if err := os.WriteFile(base+".md", table.Bytes(), 0o644); err != nil { // #nosec G306 -- for everybody
		return fmt.Errorf("write table: %w", err)
	}
	if _, err := fmt.Fprintf(stdout, "%s\nresults: %s.json\n", table.Bytes(), base); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return failed
}

// failure is the result of a measurement that gave none.
func failure(t turn, c *comparison, err error) *measure.Result {
	r := &measure.Result{
		Protocol: t.protocol, System: t.system, Variant: t.target, Round: t.round, N: t.n, Rate: float64(t.rate),
		Error: err.Error(), Began: time.Now().UTC(),
	}
	if t.protocol == measure.Workflows {
		r.N *= flow.ChainSteps
	}
	if t.protocol == measure.Stream || t.target == measure.Pace {
		r.Span = c.span.Seconds()
	}
	return r
}

// measure returns the results of a turn as lines of JSON.
func (c *comparison) measure(ctx context.Context, t turn) ([][]byte, error) {
	if t.system == carillonName {
		return c.measureCarillon(ctx, t)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	// A process of its own: what one peer leaves in memory is not another's burden.
	cmd := exec.CommandContext(ctx, program, "measure", "--system", t.system, "--protocol", t.protocol, "--target", t.target,
		"--n", strconv.Itoa(t.n), "--rate", strconv.Itoa(t.rate), "--span", c.span.String(), "--wait", c.wait.String(),
		"--payload", strconv.Itoa(c.payload), "--warm", strconv.Itoa(c.warm), "--round", strconv.Itoa(t.round), "--dir", c.dir, "--sink", c.sink, "--goscheduler", c.checkout, "--temporal", c.temporal)
	out, err := output(cmd)
	if err != nil {
		return nil, err
	}
	return [][]byte{bytes.TrimSpace(out)}, nil
}

// measureCarillon runs the command that measures Carillon and reads the results it wrote.
func (c *comparison) measureCarillon(ctx context.Context, t turn) (lines [][]byte, err error) {
	dir, err := os.MkdirTemp("", "carillon-peers-results-")
	if err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cmd := exec.CommandContext(ctx, "bash", "-c", c.carillon)
	cmd.Env = append(os.Environ(), "PROTOCOL="+t.protocol, "N="+strconv.Itoa(t.n), "RATE="+strconv.Itoa(max(t.rate, 1)),
		"SPAN="+c.span.String(), "TARGET="+t.target, "PAYLOAD="+strconv.Itoa(c.payload), "WARM="+strconv.Itoa(c.warm), "ROUND="+strconv.Itoa(t.round), "RESULTS="+dir)
	text, err := output(cmd)
	if err != nil {
		return nil, fmt.Errorf("measure carillon: %w", err)
	}
	c.log.Info("carillon's bench has ended", "text", string(text))
	return readResults(dir, t.round)
}

// output runs cmd, which is told to stop in order when its context ends, and returns what it printed. It is told with all that it has started
// in its group: a shell does not pass on what it is told.
func output(cmd *exec.Cmd) ([]byte, error) {
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	cmd.WaitDelay = childEnd
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", filepath.Base(cmd.Path), strings.Join(cmd.Args[1:], " "), err)
	}
	return out, nil
}

// readResults returns the results in the files of a folder, one line each, as those of a round.
func readResults(dir string, round int) ([][]byte, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	if len(paths) == 0 {
		return nil, errors.New("read results: there are none in $RESULTS")
	}
	var lines [][]byte
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read results: %w", err)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(text, &fields); err != nil {
			return nil, fmt.Errorf("read results: %s: %w", filepath.Base(path), err)
		}
		fields["round"] = json.RawMessage(strconv.Itoa(round))
		line, err := json.Marshal(fields)
		if err != nil {
			return nil, fmt.Errorf("read results: %s: %w", filepath.Base(path), err)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// tableCommand shows results again.
func tableCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "table FILE…",
		Short: "Print the table of results that compare wrote",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, paths []string) error {
			var results []*measure.Result
			for _, path := range paths {
				more, err := readLines(path)
				if err != nil {
					return err
				}
				results = append(results, more...)
			}
			measure.Table(cmd.OutOrStdout(), results)
			return nil
		},
	}
}

// readLines reads a file of results.
func readLines(path string) ([]*measure.Result, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	var results []*measure.Result
	for line := range bytes.Lines(text) {
		r := new(measure.Result)
		if err := json.Unmarshal(line, r); err != nil {
			return nil, fmt.Errorf("read results: %s: %w", filepath.Base(path), err)
		}
		results = append(results, r)
	}
	return results, nil
}
