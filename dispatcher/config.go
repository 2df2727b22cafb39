package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/orchestration"
	"carillon.dev/carillon/bucketer/tally"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
)

// The times of dispatching. Others stand with what they steer: packages depth, progress and
// ratelimit.
const (
	// flushSlack is how soon something must follow to be published at once.
	flushSlack = 20 * time.Millisecond
	// What waits for budget is read again once it is rereadAfter old and rereadLate behind its
	// time: an executor would have to look at its rows.
	rereadAfter = time.Second
	rereadLate  = 100 * time.Millisecond
	// spillAhead is how long before they are to be published rows are spilled for which there is no
	// room. Until then the scan waits for room, and tries every cutRetry.
	spillAhead = 250 * time.Millisecond
	cutRetry   = 50 * time.Millisecond
	// resumeEvery is how often spilled rows are tried while there is no room for them.
	resumeEvery = 10 * time.Millisecond
	// A slice of sliceSpan of due time is swept bucketer.Grace after its end.
	sliceSpan = 10 * time.Second
	// recent is how far back a shard that was taken over is looked through at once, recentSlice of
	// it at a time. All that is older may be swept.
	recent      = sliceSpan + bucketer.Grace
	recentSlice = 2 * time.Second
	// settleEvery is how often published entries are compared with what their stream still holds.
	settleEvery = 5 * time.Second
	// settleAfter is how long an entry waits for its notice before it may be inspected.
	settleAfter = 3 * time.Second
	// sessionsEvery is how often the sessions of watched attempts are read.
	sessionsEvery = time.Second
	// inspectAgain is the least time between two inspections of one entry, and between two
	// redispatches.
	inspectAgain = 15 * time.Second
	// replaceAfter is how long after its bucket's end an entry may be open before a watch entry
	// takes its place.
	replaceAfter = 2 * time.Minute
	// watchStep is the distance of watch entries.
	watchStep = 2 * time.Minute
	// handover is how long an owner goes on with a shard that a live peer has taken.
	handover = 3 * time.Second
	// retryPublish is the pause after a publication that failed, retryStep after another step.
	retryPublish = 250 * time.Millisecond
	retryStep    = time.Second
	// decideEvery is how often undecided entries are inspected.
	decideEvery = time.Second
	// catchUpEvery is the least time between two rounds of catching up.
	catchUpEvery = time.Second
	// The jobs of a shard are looked through for some without a next run, a page every mendPace.
	// mendEvery after the last page it begins anew.
	mendEvery = 5 * time.Minute
	mendPace  = 5 * time.Second
	// storeTimeout bounds one read or write of a shard's worker.
	storeTimeout = 10 * time.Second
)

// The bounds of memory and of steps.
const (
	// maxHeldAll bounds the envelopes that all shards of a dispatcher hold on time, as long as each
	// may hold shardstate.MinHeld. One shard holds shardstate.MaxHeld at most.
	maxHeldAll = 25_000
	// spillRows bounds the rows a second that a dispatcher reads and spills: each costs the store
	// some 15 µs of a core, so three quarters of a core at worst. spillBurst may come at once.
	spillRows  = 50_000
	spillBurst = 5000
	// lateSteps bounds the steps of late reads in a second, over all shards of a dispatcher: each
	// reads sweepPage ids, or inspects inspectBatch of them.
	lateSteps = 400
	// flushChunk is how many envelopes a shard publishes before it reads its mail again.
	flushChunk = 64
	// scanPage bounds the rows of one read, sweepPage the ids, readBatch the rows that are read by
	// id.
	scanPage  = 500
	sweepPage = 1000
	readBatch = 100
	// inspectBatch bounds the entries of one inspection.
	inspectBatch = 500
	// deferBatch bounds the entries deferred in one step, replaceBatch those replaced.
	deferBatch   = 200
	replaceBatch = 100
	// catchUpRuns is about how many runs a second a dispatcher starts that should have started long
	// ago, over all its shards.
	catchUpRuns = 500
	// mendPage bounds the jobs looked through in one step.
	mendPage = 50
)

// Store is what a dispatcher needs of a store besides what bucketer writes for it.
type Store interface {
	schema.EntryReader
	schema.CursorStore
	schema.SessionStore
	schema.LeaseStore
	schema.Prober
}

// Queue is what a dispatcher needs of the queue.
type Queue interface {
	queue.Publisher
	queue.Inspector
	queue.Pools
	SubscribeNear(shard schema.Shard, f func([]schema.Entry)) (cancel func(), err error)
	SubscribeDone(shard schema.Shard, f func([]schema.Notice)) (cancel func(), err error)
}

// Ring says who owns which shard.
type Ring interface {
	Snapshot() *ring.Snapshot
	Changed() <-chan struct{}
	Refresh(ctx context.Context) error
	// ReportHealth tells the others whether we can dispatch. If not, they take our shards, unless
	// none of them can.
	ReportHealth(healthy bool) error
}

// Planner plans the next runs of recurring jobs (bucketer.Bucketer has it).
type Planner interface {
	PlanOn(ctx context.Context, entries []schema.Entry, now time.Time) ([]bucketer.Verdict, error)
	CatchUp(ctx context.Context, entries []schema.Entry, most int, now time.Time) (done int, err error)
	// PlanEvent plans what an event starts (package events), or looks after a run that waits for other
	// jobs (package joins).
	PlanEvent(ctx context.Context, e *schema.Entry) error
	Mend(ctx context.Context, shard schema.Shard, after schema.JobID, limit int, now time.Time) (schema.JobID, error)
}

// Writer writes on behalf of the dispatcher (bucketer.Bucketer has it).
type Writer interface {
	Planner
	Attempts(ctx context.Context, p schema.Partition, runs []schema.RunID) (map[schema.RunID][]schema.Attempt, error)
	FollowUp(ctx context.Context, finished []bucketer.Finished, done func(i int, err error))
	Replace(ctx context.Context, from, to []schema.Entry) ([]schema.EntryID, error)
	ExpiryOf(spec *schema.Spec, due, now time.Time) time.Time
	LeastRetention() time.Duration
	DeferTo(ctx context.Context, from, to []schema.Entry, cause schema.Cause) ([]schema.EntryID, error)
	Defer(e *schema.Entry, at time.Time, pace string, accepted time.Time) (schema.Entry, error)
	LaterStart(e *schema.Entry, kind schema.Kind, id schema.EntryID, attempt int, accepted time.Time) (schema.Entry, error)
	NotStarted(e schema.Entry, rec schema.Record, now time.Time) schema.Attempt
	Record(ctx context.Context, attempts []schema.Attempt) error
	// Advance advances workflow runs (package orchestration).
	Advance(ctx context.Context, turns []*orchestration.Turn, room int)
	WakeShard(ctx context.Context, shard schema.Shard, after schema.LimitKey, live *bucketer.Liveness) (next schema.LimitKey, err error)
}

// Tenants knows the weight of each tenant (bucketer.Tenants has it).
type Tenants interface {
	Weight(ctx context.Context, tenant string) (int, error)
}

// Rates knows which tasks have a rate (bucketer.Bucketer has it).
type Rates interface {
	Rates(ctx context.Context) (map[schema.TaskName]schema.Rate, error)
}

// Config wires a Dispatcher.
type Config struct {
	Name        string // the member name under which the ring gives shards
	Incarnation string // drawn at every start, so that no two processes share an id of a redispatch
	Lanes       int    // default 1
	Store       Store
	Queue       Queue
	Ring        Ring
	Writer      Writer
	Tenants     Tenants // nil: all have the same weight
	Rates       Rates   // nil: no task has one
	// Requires returns the labels that runs of a task require, and does no I/O; nil: none does.
	Requires func(schema.TaskName) schema.Labels
	Tally    *tally.Tally // counts by name what is handed to executors; nil: nobody does
	Halt     *bucketer.Halt
	// Served returns in which epoch our region serves the home of a shard now, or a
	// schema.NotServedError: then nothing of it is published here. It does no I/O. Nil: there are no
	// regions.
	Served func(shard schema.Shard) (epoch int64, err error)
	// Region is ours, if there are regions: it may declare sessions of its executors dead.
	Region     string
	Now        func() time.Time // default time.Now
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Validate reports every fault of c.
func (c Config) Validate() error {
	var faults []error
	for _, f := range []struct {
		missing bool
		what    string
	}{
		{c.Name == "", "name"},
		{c.Incarnation == "", "incarnation"},
		{c.Store == nil, "store"},
		{c.Queue == nil, "queue"},
		{c.Ring == nil, "ring"},
		{c.Writer == nil, "writer"},
		{c.Halt == nil, "halt detector"},
	} {
		if f.missing {
			faults = append(faults, errors.New("dispatcher: no "+f.what))
		}
	}
	if c.Lanes < 0 {
		faults = append(faults, errors.New("dispatcher: lanes must be positive"))
	}
	return errors.Join(faults...)
}
