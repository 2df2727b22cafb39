package orchestration

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/concurrency"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

const (
	// DefaultDeadline is when a workflow run ends at the latest that states no deadline.
	DefaultDeadline = 7 * 24 * time.Hour
	// MaxDepth bounds how many workflows a run may be started through.
	MaxDepth = 8
	// maxGraphs bounds the compiled definitions kept in memory; beyond it all are forgotten.
	maxGraphs = 1000
	// advancesAtOnce bounds the runs of one call that are advanced at once.
	advancesAtOnce = 16
	// rowsPage is how many entries of steps one read asks for.
	rowsPage = 500
)

// Config wires an Orchestrator.
type Config struct {
	Bucketer *bucketer.Bucketer
	Runs     *runs.Runs
	Jobs     *recurring.Jobs
	Limits   *concurrency.WaitLists
	// Store is the store of the Bucketer.
	Store      bucketer.Store
	Ended      func(e *schema.Entry, rec *schema.Record) // bucketer.Config.WorkflowEnded
	Now        func() time.Time                          // the wall clock, by which sessions are remembered; nil: time.Now
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Orchestrator advances workflow runs. Its methods may be called from any goroutine.
type Orchestrator struct {
	core    *bucketer.Bucketer
	runs    *runs.Runs
	jobs    *recurring.Jobs
	limits  *concurrency.WaitLists
	store   bucketer.Store
	live    *bucketer.Liveness
	ended   func(e *schema.Entry, rec *schema.Record)
	log     *slog.Logger
	metrics *metrics
	filters workflow.FilterCache

	mu     sync.Mutex
	graphs map[[sha256.Size]byte]*workflow.Graph
}

// New returns an Orchestrator.
func New(c Config) *Orchestrator {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	if c.Ended == nil {
		c.Ended = func(*schema.Entry, *schema.Record) {}
	}
	return &Orchestrator{
		ended: c.Ended,
		core:  c.Bucketer, runs: c.Runs, jobs: c.Jobs, limits: c.Limits, store: c.Store, live: bucketer.NewLiveness(c.Store, c.Now, c.Bucketer.Regions()),
		log: c.Logger, metrics: newMetrics(c.Registerer), graphs: make(map[[sha256.Size]byte]*workflow.Graph),
	}
}

type metrics struct {
	begun prometheus.Counter
	ended *prometheus.CounterVec // by outcome
	steps *prometheus.CounterVec // by what became of them
	loads prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		begun: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "carillon_workflow_runs_begun_total", Help: "Workflow runs that began.",
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_workflow_runs_ended_total", Help: "Workflow runs that ended, by outcome.",
		}, []string{"outcome"}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_workflow_steps_total", Help: "Steps and items of workflow runs that were started, skipped, or could not be started.",
		}, []string{"what"}),
		loads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "carillon_workflow_loads_total", Help: "Times that a workflow run was made anew from its rows.",
		}),
	}
	for _, o := range []schema.Outcome{schema.Succeeded, schema.Failed, schema.Cancelled} {
		m.ended.WithLabelValues(string(o))
	}
	for _, what := range []string{"started", "skipped", "failed"} {
		m.steps.WithLabelValues(what)
	}
	r.MustRegister(m.begun, m.ended, m.steps, m.loads)
	return m
}

// StepEnd says that an entry of a step's run is finished.
type StepEnd struct {
	Run schema.RunID
	// Succeeded: the run has succeeded, and nothing else was ever said of its end. Otherwise its
	// rows are read.
	Succeeded bool
}

// Turn is one advance of one workflow run: what is known before, and what came of it.
type Turn struct {
	Run schema.RunID
	// Entry is the latest entry by which the run is due: it is the one that waits if a limit holds the
	// run back. Zero: the run's own.
	Entry schema.EntryID
	// State is what the last call left; nil: the run is made from its rows.
	State *State
	Ended []StepEnd
	// Cancelled: the run has a cancel mark.
	Cancelled bool

	// Err: nothing is known of what was done. The next call makes the run anew from its rows.
	Err error
	// Over: the run has ended, never begins, or waits for a limit. Its entries are closed.
	Over bool
	// Start are entries to be published. They were read at Checked, or are new since.
	Start   []schema.Entry
	Checked time.Time
	// Inspect are entries that another owner may have published.
	Inspect []schema.Entry
	// Advance are entries of child workflows.
	Advance []schema.Entry
	// Wake is when the run is to be advanced again, whatever happens; zero: never.
	Wake time.Time
	// Idle: until Wake only an event, or a change of the run, makes a difference.
	Idle bool
	// Parent is the workflow run of which this one is a step, if it is one and has ended.
	Parent schema.RunID
}

// Advance advances each of the runs as far as its rows allow. room bounds the entries to be
// published that it makes, about; where it ends, Wake is soon.
//
// After a crash in it, the next call for the run does the same again, to the same rows.
func (o *Orchestrator) Advance(ctx context.Context, turns []*Turn, room int) {
	all := make([]*advance, len(turns))
	now, each := o.core.Now(), max(room/max(len(turns), 1), 1)
	for i, t := range turns {
		t.Checked = now
		all[i] = &advance{o: o, Turn: t, now: now, room: each}
	}
	// Rows of many runs share partitions: they are read and written together.
	o.load(ctx, all)
	forEach(all, func(a *advance) error { return a.decideAll(ctx) })
	o.write(ctx, all)
	o.endRuns(ctx, all)
	for _, t := range turns {
		if t.Err != nil {
			t.State = nil
		}
	}
}

// forEach does something to each of the runs that go on, several at once. Each keeps its error.
func forEach(all []*advance, do func(a *advance) error) {
	var g errgroup.Group
	g.SetLimit(advancesAtOnce)
	for _, a := range all {
		if a.Err != nil || a.Over {
			continue
		}
		g.Go(func() error {
			a.Err = do(a)
			return nil
		})
	}
	_ = g.Wait()
}

// State is what is known of a workflow run under way. It belongs to whoever advances the run.
type State struct {
	entry    schema.Entry // the run's own
	graph    *workflow.Graph
	progress *workflow.Progress
	input    json.RawMessage
	began    time.Time
	until    time.Time                  // the run's deadline
	limited  bool                       // it has a slot of its workflow's limit
	stopped  bool                       // it was cancelled, or its deadline has passed
	items    map[int][]json.RawMessage  // payloads of the items of steps that are not all launched
	groups   map[int]time.Time          // deadlines of steps with items that have one
	open     map[schema.RunID]*openRun  // runs of steps that have not ended
	from     map[int]schema.RunID       // steps that were taken over, and whose outputs are theirs
	look     map[schema.RunID]time.Time // when to read again what became of a step that was cancelled
	cause    string                     // why the first step failed that did
}

// graphOf returns the compiled form of a definition as it is stored.
func (o *Orchestrator) graphOf(stored []byte) (*workflow.Graph, error) {
	key := sha256.Sum256(stored)
	o.mu.Lock()
	g, ok := o.graphs[key]
	o.mu.Unlock()
	if ok {
		return g, nil
	}
	d, err := DecodeDefinition(stored)
	if err != nil {
		return nil, err
	}
	g, faults := workflow.Compile(d)
	if len(faults) > 0 {
		return nil, fmt.Errorf("definition: %w: %s: %s", schema.ErrNotUnderstood, faults[0].Pointer, faults[0].Message)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.graphs) >= maxGraphs {
		clear(o.graphs)
	}
	o.graphs[key] = g
	return g, nil
}

// EncodeDefinition returns the stored form of a definition: compressed JSON. The same definition
// gives the same bytes.
func EncodeDefinition(d *workflow.Definition) ([]byte, error) {
	text, err := workflow.Encode(d)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(text)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("compress definition: %w", err)
	}
	return b.Bytes(), nil
}

// maxDefinition bounds a definition as JSON.
const maxDefinition = 8 << 20

// DecodeDefinition is the inverse of EncodeDefinition. Its error is schema.ErrNotUnderstood.
func DecodeDefinition(stored []byte) (*workflow.Definition, error) {
	z, err := gzip.NewReader(bytes.NewReader(stored))
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(z, maxDefinition))
	}
	if err != nil {
		return nil, fmt.Errorf("definition: %w: %w", schema.ErrNotUnderstood, err)
	}
	return workflow.Decode(text)
}
