package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/dispatcher/progress"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// Scenario is one run of the simulation.
type Scenario struct {
	Seed   uint64
	Nodes  int           // default 3
	Shards int           // default 2
	Span   time.Duration // how long jobs are asked for and faults injected; default 3 min
	Jobs   int           // default 150
	Faults Faults
	// Kills, Freezes and StreamLosses are how many of each happen in Span.
	Kills, Freezes, StreamLosses int
	// Stops is how often a node is told to stop; it restarts 3 to 30 s later.
	Stops int
	// Works is how long a call takes at most; 0 = some 30 ms.
	Works time.Duration
	// Away is how long a node that was killed or crashed is away at most; default 30 s.
	Away time.Duration
	// Skew is how far the nodes' clocks may be off, each way. With SkewEnds each is off by just
	// that, in turn ahead and behind.
	Skew     time.Duration
	SkewEnds bool
	// CoLocated: each node's machine also serves the store and the queue, and they have its clock.
	CoLocated bool
	// Steps is how often the clock of a node is set wrong, by 0.3 s to 90 s, and later set right or
	// slewed.
	Steps int
	// InTurn: a clock is set wrong only once all are right.
	InTurn bool
	// LateFrom and LateBy bound how late a write may be applied that was reported as failed; default
	// 0 to 8 s.
	LateFrom, LateBy time.Duration
	// Cuts are links of nodes that are cut.
	Cuts Cuts
	// CursorsAhead is how often the cursor of a shard is moved into the future, by one minute to
	// ten.
	CursorsAhead int
	// Changes cancels or reschedules some jobs. If there are recurring ones, it changes, pauses,
	// resumes and cancels those instead.
	Changes bool
	// Recurring is the number of recurring jobs. They are due every 1 s to 60 s until no fault is
	// left, and state each misfire policy in turn.
	Recurring int
	// Imported is the number of recurring jobs that are made by imports, with others.
	Imported int
	// Calendars has every second recurring job go by a calendar of its own, whose dates change as
	// well. It goes with Changes.
	Calendars bool
	// Limited is the number of recurring jobs with a concurrency limit.
	Limited int
	// LimitKeys: the limits of those jobs count for each value in the payload (limitkey_test.go).
	LimitKeys bool
	// Pausing is the number of recurring jobs that pause when runs fail.
	Pausing int
	// Rated is the number of runs of a task with a rate, asked for at about the same time.
	Rated int
	// Concurrent is the number of runs of a task with max_concurrent.
	Concurrent int
	// Quota is how many runs of the tenant may be under way at once; 0 = any number.
	Quota int
	// PerMinute is the tenant's quota of runs a minute, which recurring jobs go beyond; 0 = none.
	PerMinute int
	// Encrypted: the tenant asks for its payloads to be encrypted. With EncryptedLater it does so in
	// the middle of Span only.
	Encrypted, EncryptedLater bool
	// Pooled is the number of runs that require labels of their executor. Nodes have labels then,
	// and one of them is away for long.
	Pooled int
	// Unique is the number of requests for unique jobs, of a few keys.
	Unique int
	// Preempting is the number of critical runs that find the slots taken by runs of low priority.
	// Nodes have few slots then.
	Preempting int
	// Workflows is the number of workflows, each with a graph of its own and a few runs. With Changes
	// some runs are cancelled.
	Workflows int
	// WorkflowLimits bounds the runs of each workflow that may be under way at once.
	WorkflowLimits bool
	// Events is the number of events that are published, on which jobs run, and for which workflow runs
	// wait.
	Events int
	// Joins is the number of graphs of jobs that run after one another. With Changes some are cancelled.
	Joins int
	// Waiting makes runs wait, for every reason, for longer than rows stay (long_test.go).
	Waiting bool
	// Retained: with Waiting it is rows of the tenant alone that stay for so short, until in the
	// middle the tenant takes its retention back (retained_test.go).
	Retained bool
	// Regions makes it two regions, each with Nodes nodes; nil: there are none.
	Regions *Regional
	// Outage is how long, in the middle, no node runs.
	Outage time.Duration
	// Deadlines: one-off jobs state misfire policies in turn.
	Deadlines bool
	// Guarantees: a third of the jobs each is at_least_once, at_most_once and effectively_once.
	Guarantees bool
	// Lasting is how long the longest runs last, of one job in twenty; 0 = none does.
	Lasting time.Duration
	// Promise is judged in addition to what always holds.
	Promise Promise
	Log     *slog.Logger
}

// Promise is what a scenario with few faults promises in addition. The zero value promises nothing.
type Promise struct {
	// Lateness bounds how late every run starts after its due time or acceptance; 0 = what the
	// faults may cost.
	Lateness   time.Duration
	Once       bool // nothing is executed or dispatched twice
	CalledOnce bool // nothing is executed twice, however often it was dispatched
	NoneLost   bool // no attempt is recorded as lost
	Lag        int  // settled is never further behind than this many buckets; 0 = no bound
	// NoneGivenUp: no nominal time of a recurring job is given up, except after a change of the
	// job.
	NoneGivenUp bool
	Rated       bool // while runs wait for the rate of their task, nine tenths of it are used
	Policies    bool // each misfire policy was applied at least once
}

// Outcome is the result of a scenario.
type Outcome struct {
	Report check.Report
	// Recurring is the judgement on recurring jobs.
	Recurring check.RecurringReport
	// SettledLag is how far the slowest shard's settled cursor lies behind at the end, in buckets,
	// and WorstLag how far it ever did.
	SettledLag, WorstLag int
	// Ends counts the runs of jobs with a limit, by on_limit and final state.
	Ends map[string]int
	// BeyondLimit is by how many runs a job with a limit for each value had more under way than
	// that limit, at most.
	BeyondLimit int
	// MostRated is the most runs of the task with a rate that started within ratedWindow.
	MostRated int
	// MostConcurrent is the most runs of the task with max_concurrent that were under way at once.
	MostConcurrent int
	// WaitedForPool is how many runs waited for an executor with the labels that they require.
	WaitedForPool int
	// Preempted is how often runs were stopped for critical ones.
	Preempted int
	// Imported is how many lines of imports were acknowledged.
	Imported int
	// SealedRows is how many rows hold something that is sealed in the end, and ClearRows how many
	// jobs a payload or output of which is clear there.
	SealedRows, ClearRows int
	// Forgiven is what was not judged of the home of a region that lost what it did last.
	Forgiven check.Forgiven
	// Counts sums the counters named in counted over all lives of all nodes.
	Counts map[string]float64
	// Wrong lists broken rules that the report does not judge.
	Wrong []string
	// Traces describe some of the runs at fault.
	Traces []string
}

// Failed reports whether a promise was broken.
func (o *Outcome) Failed() bool {
	return o.Report.Failed() || o.Recurring.Failed() || o.SettledLag > endLag || len(o.Wrong) > 0
}

// maxLateness returns by how much the latest run was late, as the callee saw it.
func (o *Outcome) maxLateness() time.Duration {
	return time.Duration(max(o.Report.Seen.Max, o.Recurring.Seen.Max) * float64(time.Millisecond)).Round(time.Millisecond)
}

// duplicates returns how many executions were too many.
func (o *Outcome) duplicates() int {
	return o.Report.DuplicateExecutions + o.Recurring.DuplicateExecutions
}

// endLag bounds how far settled lies behind at the end, in buckets.
const endLag = 4

// The counters of an [Outcome].
const (
	redispatched = "carillon_dispatcher_redispatched_total"
	replaced     = "carillon_dispatcher_replaced_total"
	halts        = "carillon_dispatcher_halts_total"
	takeovers    = "carillon_dispatcher_takeovers_total"
	lateEntries  = "carillon_entries_late_total"
	limitGrants  = "carillon_limit_turns_total"
	deferred     = "carillon_dispatcher_deferred_total"
	cursorsAhead = "carillon_dispatcher_cursors_ahead_total"
	lateRows     = "carillon_dispatcher_late_rows_total"
	// missedByPolicy counts one-off runs that their misfire policy let nobody start
	missedByPolicy = "missed by policy"
	full           = "full"            // starts deferred by the max_concurrent of their task
	apart          = "beyond limit"    // runs of one job that were under way at once, beyond its limit, which each value has
	existing       = "existing"        // unique jobs that were there
	preempted      = "preempted"       // stops of runs for critical ones
	imported       = "imported"        // lines of imports that were acknowledged
	sealedRows     = "sealed"          // rows that hold something that is sealed
	clearRows      = "clear"           // jobs a payload or output of which is clear in the store
	unfit          = "waited for pool" // runs that waited for an executor with the labels that they require
)

var counted = []string{redispatched, replaced, halts, takeovers, lateEntries, limitGrants, deferred, cursorsAhead, lateRows}

// settle is how long everything may take to end after the last fault: sessions die after 15 s, runs
// are inspected every 15 s, retries back off for some seconds, watch entries are due after two
// minutes.
const settle = 12 * time.Minute

// settling is how long it may take in this scenario.
func (s *Scenario) settling() time.Duration { return settle + s.Lasting + s.lastRead() }

// lastRead is how long after all was asked for the last bucket is read for the last time, where
// rows come too late for the other reads. Jobs are asked for that are due up to Span ahead.
func (s *Scenario) lastRead() time.Duration {
	if s.LateBy > progress.LateAfter {
		return s.Span + progress.HintAfter
	}
	return 0
}

// afterwards is how long recurring jobs go on after the last fault, in addition to the time for
// catching up.
const afterwards = 30 * time.Second

// Run runs s in the bubble of the caller.
func Run(ctx context.Context, s Scenario) (Outcome, error) {
	if s.Nodes == 0 {
		s.Nodes = 3
	}
	if s.Shards == 0 {
		s.Shards = 2
	}
	if s.Span == 0 {
		s.Span = 3 * time.Minute
	}
	if s.Jobs == 0 {
		s.Jobs = 150
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	retention := time.Duration(0)
	if s.Waiting && !s.Retained {
		retention = longRetention
	}
	w := &world{s: s, rng: rand.New(rand.NewPCG(s.Seed, 2))}
	open := w.newRegional
	if s.Regions == nil {
		open = func(r time.Duration) (*Cluster, error) { return New(s.Seed, s.Nodes, s.Shards, r, s.Log) }
	}
	c, err := open(retention)
	if err != nil {
		return Outcome{}, err
	}
	w.c = c
	if s.Away > 0 {
		c.away = s.Away
	}
	c.coLocated = s.CoLocated
	c.works, c.slews, c.quota = s.Works, s.Steps > 0, s.Quota
	c.states = s.tenantStates()
	if s.LateBy > 0 {
		c.lateFrom, c.lateBy = s.LateFrom, s.LateBy
	}
	// A panic, because nothing here can end the goroutines that wait, and so the bubble.
	watch := time.AfterFunc(s.limit(), func() { panic(w.stuck()) })
	defer watch.Stop()
	out, err := w.run(ctx)
	w.stage.Store("closing")
	return out, errors.Join(err, c.Close())
}

// world is a scenario under way. It has many methods: for each kind of job one that asks and one
// that judges, in the file of that kind. They share the cluster, the seed and what was
// acknowledged.
type world struct {
	c   *Cluster
	s   Scenario
	rng *rand.Rand

	mu      sync.Mutex
	asked   []check.Ask
	acks    []check.Ack
	changes []check.Change
	ids     map[int]schema.RunID // acknowledged, by line
	since   map[int]time.Time    // when a job was first asked for, by line

	stage atomic.Value // the present stage, a string

	recurring    []*recurring
	imported     []*importing
	made         map[int][]schema.JobID // the jobs of imported lines, as they are in the store
	limited      []*limited
	pausing      []*pausing
	rated        []schema.RunID // acknowledged
	ratedFrom    time.Time
	concurrent   []schema.RunID // acknowledged
	sealsFrom    time.Time      // from when on all that the tenant writes is sealed; zero: never
	pooled       pooled
	preempting   preempting
	long         []*longRun
	workflows    []*simWorkflow
	events       simEvents
	joins        []*joinSet
	drama        *drama // nil without regions
	stops        []check.Stop
	streamLosses []time.Time
	pausedAt     time.Time // when all recurring jobs were known to be paused

	out Outcome
}

func (w *world) run(ctx context.Context) (Outcome, error) {
	w.ids, w.since = make(map[int]schema.RunID), make(map[int]time.Time)
	w.labelNodes()
	if w.s.Preempting > 0 {
		w.c.slots = fewSlots
	}
	for i, n := range w.c.nodes {
		switch {
		case w.s.SkewEnds && (uint64(i)+w.s.Seed)%2 == 0: //nolint:gosec // i is not negative
			n.Step(w.s.Skew)
		case w.s.SkewEnds:
			n.Step(-w.s.Skew)
		case w.s.Skew > 0:
			n.Step(time.Duration((w.rng.Float64()*2 - 1) * float64(w.s.Skew)))
		}
		if err := n.Start(); err != nil {
			return w.out, err
		}
	}
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { w.watchLag(ctx, over) })
	err := w.play(ctx)
	close(over)
	watch.Wait()
	if err != nil {
		return w.out, err
	}
	w.stage.Store("judging")
	return w.judge(ctx)
}

// play asks for jobs and injects faults for Span, ends all faults, and waits until all runs have
// ended.
func (w *world) play(ctx context.Context) error {
	time.Sleep(time.Second)
	if w.s.Regions != nil {
		time.Sleep(registerHangs) // until each node knows which homes it serves
	}
	if err := w.stateTenant(ctx); err != nil {
		return err
	}
	w.c.SetFaults(w.s.Faults)
	var wg sync.WaitGroup
	w.planFaults(&wg)
	w.outage(&wg)
	w.planRegions(&wg)
	w.encryptLater(ctx, &wg)
	w.ask(ctx, &wg)
	w.askRecurring(ctx, &wg)
	w.askImports(ctx, &wg)
	w.askLimited(ctx, &wg)
	w.askPausing(ctx, &wg)
	w.askRated(ctx, &wg)
	w.askConcurrent(ctx, &wg)
	w.askPooled(ctx, &wg)
	w.askUnique(ctx, &wg)
	w.askPreempting(ctx, &wg)
	w.askLong(ctx, &wg)
	w.askWorkflows(ctx, &wg)
	w.askEvents(ctx, &wg)
	w.askJoins(ctx, &wg)
	w.stage.Store("asking, and doing harm")
	wg.Wait()
	w.stage.Store("setting everything right")
	w.c.SetFaults(Faults{})
	w.healRegions()
	for _, n := range w.c.nodes {
		if w.s.Steps > 0 {
			n.Correct()
		}
		n.Thaw()
		if err := n.Start(); err != nil {
			return err
		}
	}
	if w.s.Recurring+w.s.Imported > 0 {
		time.Sleep(afterwards + w.s.Outage/2)
		if err := errors.Join(w.findImported(ctx), w.pauseRecurringJobs(ctx)); err != nil {
			return err
		}
		w.pausedAt = time.Now()
	}
	if err := errors.Join(w.pauseLimited(ctx), w.endPausing(ctx)); err != nil {
		return err
	}
	time.Sleep(w.s.settling())
	return nil
}

// ask plans the jobs: immediate, near and later ones. Some have keys, and are sent again if the
// answer is lost.
func (w *world) ask(ctx context.Context, wg *sync.WaitGroup) {
	for line := 1; line <= w.s.Jobs; line++ {
		when := time.Duration(w.rng.Float64() * float64(w.s.Span))
		var ahead time.Duration
		switch w.rng.IntN(4) {
		case 0: // now
		case 1: // near, or just past
			ahead = time.Duration(w.rng.Float64()*float64(8*time.Second)) - time.Second
		default:
			ahead = time.Duration(w.rng.Float64() * float64(w.s.Span))
		}
		keyed := w.rng.IntN(3) == 0
		immediate := ahead == 0
		change := 0
		if w.s.Changes && w.s.Recurring == 0 && w.rng.IntN(6) == 0 {
			change = 1 + w.rng.IntN(2)
		}
		changeAfter := time.Duration(w.rng.Float64() * float64(max(ahead, 3*time.Second)))
		moveBy := time.Duration(w.rng.Float64() * float64(30*time.Second))
		wg.Go(func() {
			time.Sleep(when)
			at := time.Time{}
			if !immediate {
				at = time.Now().Add(ahead).Truncate(time.Millisecond)
			}
			w.submit(ctx, line, at, keyed)
			if change > 0 {
				time.Sleep(changeAfter)
				w.change(ctx, line, change == 1, moveBy)
			}
		})
	}
}

// submit asks for one job; with a key, until it is acknowledged.
func (w *world) submit(ctx context.Context, line int, at time.Time, keyed bool) {
	ref := check.Ref{Source: "sim", Line: line}
	job := bucketer.Job{
		Tenant: w.tenantOf(line), At: at, BodyHash: fmt.Sprint(line), Payload: payloadOf(line),
		Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: urlOf(line)}, Timeout: schema.Duration(15 * time.Second)},
	}
	job.RequireRegion = w.s.requires(line)
	ask := check.Ask{Ref: ref, At: at, Known: true, Body: check.Hash(0).Add(job.Payload)}
	if w.s.Pooled > 0 && line%4 == 0 { // the checker judges where it starts
		job.Work.Requires, ask.Requires = requirements[1], requirements[1]
	}
	if w.s.Guarantees {
		switch line % 3 {
		case 1:
			job.Work.Guarantee, ask.Guarantee, ask.MaxAttempts = schema.AtMostOnce, check.AtMostOnce, 1
		case 2:
			job.Work.Guarantee, ask.Guarantee = schema.EffectivelyOnce, check.EffectivelyOnce
		}
	}
	if w.everywhere(line) {
		job.Durability = schema.DurableEverywhere
	}
	if w.s.Deadlines {
		stateDeadline(&job, &ask)
	}
	if keyed {
		job.Key = fmt.Sprintf("key-%d", line)
		ask.Key = job.Key
	}
	w.mu.Lock()
	w.asked = append(w.asked, ask)
	w.since[line] = time.Now()
	w.mu.Unlock()
	// A frozen node cannot stop its calls. So only effectively_once work that ends within
	// withinSession is sure not to overlap.
	deaf := job.Work.Guarantee == schema.EffectivelyOnce && w.s.Freezes+w.s.Steps > 0
	if w.s.Lasting > 0 && line%20 == 0 && !deaf {
		job.Work.Timeout = schema.Duration(w.s.Lasting + time.Minute)
	}
	for try := 0; try < 8; try++ {
		n, l := w.someNodeFor(job.Tenant)
		ack := check.Ack{Ref: ref}
		if n != nil {
			b := l.bucketer
			var r bucketer.Receipt
			err := schema.ErrUnavailable
			if line%2 == 0 {
				b.SubmitBatch(ctx, []bucketer.Job{job}, func(_ int, got bucketer.Receipt, e error) { r, err = got, e })
			} else {
				r, err = b.Submit(ctx, job)
			}
			ack.At = time.Now()
			switch {
			case err == nil:
				w.c.regions.acts(n, l, r.Run.Shard(), "acknowledgement", 0)
				ack.ID, ack.Status = r.Run.String(), 201
			default:
				ack.Status = 503
			}
			w.mu.Lock()
			w.acks = append(w.acks, ack)
			if err == nil {
				w.ids[line] = r.Run
			}
			w.mu.Unlock()
			if err == nil || w.everywhere(line) && w.s.Regions.Loses && errors.Is(err, schema.ErrUnknown) {
				return // sent again to the region that takes over, before it knows of this one, it may be a second job
			}
		}
		if !keyed {
			return
		}
		time.Sleep(3 * time.Second)
	}
}

// change cancels or reschedules a job, if it was acknowledged.
func (w *world) change(ctx context.Context, line int, cancel bool, by time.Duration) {
	w.mu.Lock()
	id, ok := w.ids[line]
	w.mu.Unlock()
	n, l := w.someNodeFor(w.tenantOf(line))
	if !ok || n == nil {
		return
	}
	b, of := l.bucketer, w.tenantOf(line)
	c := check.Change{Run: id.String(), Kind: check.Cancel, Requested: time.Now()}
	var err error
	if cancel {
		_, err = b.Cancel(ctx, of, id, "sim")
	} else {
		to := time.Now().Add(by).Truncate(time.Millisecond)
		c.Kind, c.Due = check.Reschedule, to
		_, err = b.Reschedule(ctx, of, id, runs.Change{At: &to})
	}
	if errors.Is(err, bucketer.ErrFinished) || errors.Is(err, schema.ErrNotFound) || errors.Is(err, schema.ErrNotServed) && !errors.Is(err, schema.ErrUnknown) {
		return // refused
	}
	if err == nil {
		c.Acked = time.Now()
	}
	w.mu.Lock()
	w.changes = append(w.changes, c)
	w.mu.Unlock()
}
