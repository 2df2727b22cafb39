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
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// Scenario is one run of the simulation.
type Scenario struct {
	Seed   uint64
	Nodes  int           // default 3
	Shards int           // default 2
	Span   time.Duration // how long jobs are asked for and harm is done; default 3 min
	Jobs   int           // default 150
	Faults Faults
	// Kills, Freezes and StreamLosses are about how many of each happen in Span.
	Kills, Freezes, StreamLosses int
	// Stops is about how often a node is told to stop, and is back 3 to 30 s later.
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
	// Steps is how often the clock of a node is set wrong, by 0.3 s to 90 s, and after a while set
	// right again or slewed.
	Steps int
	// InTurn: a clock is set wrong only once all are right.
	InTurn bool
	// LateBy is how late a write may come that is said to have failed; default 8 s.
	LateBy time.Duration
	// Cuts are links of nodes that are cut.
	Cuts Cuts
	// CursorsAhead is how often the cursor of a shard is moved into the future, by one minute to
	// ten.
	CursorsAhead int
	// Changes: some jobs are cancelled or rescheduled; or, if there are recurring ones, those are
	// changed, paused, resumed and cancelled.
	Changes bool
	// Recurring is how many recurring jobs there are. They are due every 1 s to 60 s until all is
	// well again, and misfire policies take turns.
	Recurring int
	// Limited is how many recurring jobs there are of whose runs only a few may be under way at
	// once.
	Limited int
	// Rated is how many runs there are of a task with a rate, all asked for about at once.
	Rated int
	// Concurrent is how many runs there are of a task of which only so many may be under way at
	// once.
	Concurrent int
	// Waiting: runs of each kind that waits do so for longer than rows stay (kept.go).
	Waiting bool
	// Outage is how long, in the middle, no node runs.
	Outage time.Duration
	// Guarantees: a third of the jobs each is at_least_once, at_most_once and effectively_once.
	Guarantees bool
	// Lasting is how long the longest runs last, of one job in twenty; 0 = none does.
	Lasting time.Duration
	// Promise is what is judged besides what always holds.
	Promise Promise
	Log     *slog.Logger
}

// Promise is what can be said of a scenario in which not everything goes wrong. The zero value says
// nothing.
type Promise struct {
	// every run starts within this of its due time or acceptance; 0 = what the faults may cost
	Lateness time.Duration
	Once     bool // nothing is executed or dispatched twice
	Called   bool // nothing is executed twice, however often it was dispatched
	NoneLost bool // no attempt is recorded as lost, since nobody died
	Lag      int  // settled is never further behind than this many buckets; 0 = no bound
	// no nominal time of a recurring job is given up but because its job was changed
	NoneLeft bool
	Rated    bool // while runs wait for the rate of their task, nine tenths of it are used
	Policies bool // each misfire policy has had to say what becomes of something
}

// Outcome is what came of a scenario.
type Outcome struct {
	Report check.Report
	// Recurring is the judgement on recurring jobs.
	Recurring check.RecurringReport
	// SettledLag is how far the slowest shard's settled cursor lies behind at the end, in buckets,
	// and WorstLag how far it ever did.
	SettledLag, WorstLag int
	// Ends counts the runs of jobs with a limit, by what they say of it and by their state.
	Ends map[string]int
	// MostRated is how many runs of the task with a rate started at most within pacedWindow.
	MostRated int
	// MostConcurrent is how many runs of the task with max_concurrent were under way at once at
	// most.
	MostConcurrent int
	// Counts sums the counters named in counted over all lives of all nodes.
	Counts map[string]float64
	// Wrong says what was broken that the report does not judge.
	Wrong []string
	// Traces tell of some of the runs that the report finds fault with.
	Traces []string
}

// Failed reports whether a promise was broken.
func (o *Outcome) Failed() bool {
	return o.Report.Failed() || o.Recurring.Failed() || o.SettledLag > endLag || len(o.Wrong) > 0
}

// worst returns by how much the latest run was late, as the callee saw it.
func (o *Outcome) worst() time.Duration {
	return time.Duration(max(o.Report.Seen.Max, o.Recurring.Seen.Max) * float64(time.Millisecond)).Round(time.Millisecond)
}

// twice returns how many executions were too many.
func (o *Outcome) twice() int { return o.Report.DuplicateExecutions + o.Recurring.DuplicateExecutions }

// endLag is how far settled may lie behind once all is well again, in buckets.
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
	// starts that were put off since as many runs of the task were under way as may
	full = "full"
)

var counted = []string{redispatched, replaced, halts, takeovers, lateEntries, limitGrants, deferred, cursorsAhead, lateRows}

// settle is how long after the last harm everything may take to come to its end: sessions die after
// 15 s, looks come every 15 s, retries back off for some seconds, watch entries come after two
// minutes.
const settle = 12 * time.Minute

// calm is how long recurring jobs go on once nothing goes wrong any more, besides what catching up
// takes.
const calm = 30 * time.Second

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
	if s.Waiting {
		retention = longRetention
	}
	c, err := New(s.Seed, s.Nodes, s.Shards, retention, s.Log)
	if err != nil {
		return Outcome{}, err
	}
	if s.Away > 0 {
		c.away = s.Away
	}
	c.coLocated = s.CoLocated
	c.works = s.Works
	if s.LateBy > 0 {
		c.lateBy = s.LateBy
	}
	w := &world{c: c, s: s, rng: rand.New(rand.NewPCG(s.Seed, 2))}
	// A panic, for what waits cannot be ended from here, and so neither can the bubble.
	watch := time.AfterFunc(s.limit(), func() { panic(w.stuck()) })
	defer watch.Stop()
	out, err := w.run(ctx)
	w.stage.Store("closing")
	return out, errors.Join(err, c.Close())
}

// world is a scenario under way.
type world struct {
	c   *Cluster
	s   Scenario
	rng *rand.Rand

	mu      sync.Mutex
	asked   []check.Ask
	acks    []check.Ack
	changes []check.Change
	ids     map[int]schema.RunID // acknowledged, by line

	stage atomic.Value // what it is at, a string

	recurring  []*recurring
	limited    []*limited
	rated      []schema.RunID // acknowledged
	ratedFrom  time.Time
	concurrent []schema.RunID // acknowledged
	long       []*longRun
	stops      []check.Stop
	rested     time.Time // when all recurring jobs were known to be paused

	out Outcome
}

func (w *world) run(ctx context.Context) (Outcome, error) {
	w.ids = make(map[int]schema.RunID)
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
	err := w.live(ctx)
	close(over)
	watch.Wait()
	if err != nil {
		return w.out, err
	}
	w.stage.Store("judging")
	return w.judge(ctx)
}

// live asks and does harm for as long as that is to last, sets everything right, and waits for all
// that was asked to end.
func (w *world) live(ctx context.Context) error {
	time.Sleep(time.Second)
	w.c.SetFaults(w.s.Faults)
	var wg sync.WaitGroup
	w.planFaults(&wg)
	w.outage(&wg)
	w.ask(ctx, &wg)
	w.askRecurring(ctx, &wg)
	w.askLimited(ctx, &wg)
	w.askRated(ctx, &wg)
	w.askConcurrent(ctx, &wg)
	w.askLong(ctx, &wg)
	w.stage.Store("asking, and doing harm")
	wg.Wait()
	w.stage.Store("setting everything right")
	w.c.SetFaults(Faults{})
	for _, n := range w.c.nodes {
		if w.s.Steps > 0 {
			n.Correct()
		}
		n.Thaw()
		if err := n.Start(); err != nil {
			return err
		}
	}
	if w.s.Recurring > 0 {
		time.Sleep(calm + w.s.Outage/2)
		if err := w.pauseRecurringJobs(ctx); err != nil {
			return err
		}
		w.rested = time.Now()
	}
	if err := w.pauseLimited(ctx); err != nil {
		return err
	}
	time.Sleep(settle + w.s.Lasting)
	return nil
}

// ask plans the jobs: immediate, near, and later ones, some by import with keys, sent again when
// the answer was cut.
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

// submit asks for one job, and for a keyed one again until it is acknowledged.
func (w *world) submit(ctx context.Context, line int, at time.Time, keyed bool) {
	ref := check.Ref{Source: "sim", Line: line}
	job := bucketer.Job{
		Tenant: "default", At: at, BodyHash: fmt.Sprint(line), Payload: payloadOf(line),
		Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: urlOf(line)}, Timeout: schema.Duration(15 * time.Second)},
	}
	ask := check.Ask{Ref: ref, At: at, Known: true, Body: check.Hash(0).Add(job.Payload)}
	if w.s.Guarantees {
		switch line % 3 {
		case 1:
			job.Work.Guarantee, ask.Guarantee, ask.MaxAttempts = schema.AtMostOnce, check.AtMostOnce, 1
		case 2:
			job.Work.Guarantee, ask.Guarantee = schema.EffectivelyOnce, check.EffectivelyOnce
		}
	}
	if keyed {
		job.Key = fmt.Sprintf("key-%d", line)
		ask.Key = job.Key
	}
	w.mu.Lock()
	w.asked = append(w.asked, ask)
	w.mu.Unlock()
	// Who is frozen cannot stop what it called: of effectively_once only work within withinSession
	// is sure not to be overtaken then.
	deaf := job.Work.Guarantee == schema.EffectivelyOnce && w.s.Freezes+w.s.Steps > 0
	if w.s.Lasting > 0 && line%20 == 0 && !deaf {
		job.Work.Timeout = schema.Duration(w.s.Lasting + time.Minute)
	}
	for try := 0; try < 8; try++ {
		b := w.someNode()
		ack := check.Ack{Ref: ref}
		if b != nil {
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
			if err == nil {
				return
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
	b := w.someNode()
	if !ok || b == nil {
		return
	}
	c := check.Change{Run: id.String(), Kind: check.Cancel, Requested: time.Now()}
	var err error
	if cancel {
		_, err = b.Cancel(ctx, "default", id, "sim")
	} else {
		to := time.Now().Add(by).Truncate(time.Millisecond)
		c.Kind, c.Due = check.Reschedule, to
		_, err = b.Reschedule(ctx, "default", id, bucketer.Change{At: &to})
	}
	if errors.Is(err, bucketer.ErrFinished) || errors.Is(err, schema.ErrNotFound) {
		return // refused
	}
	if err == nil {
		c.Acked = time.Now()
	}
	w.mu.Lock()
	w.changes = append(w.changes, c)
	w.mu.Unlock()
}

// someNode returns the bucketer of a node that runs; nil: none does.
func (w *world) someNode() *bucketer.Bucketer {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	var up []*bucketer.Bucketer
	for _, n := range w.c.nodes {
		if n.up && !n.stopping {
			up = append(up, n.bucketer)
		}
	}
	if len(up) == 0 {
		return nil
	}
	return up[w.c.rng.IntN(len(up))]
}
