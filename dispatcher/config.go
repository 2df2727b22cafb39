package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
)

// The times of dispatching (DESIGN 5).
const (
	// Lead is how long before its due time a run is published; the executor holds it until the instant. What is to follow within flushSlack
	// is published at once with it.
	Lead       = 250 * time.Millisecond
	flushSlack = 20 * time.Millisecond
	// scanEvery is how often a shard is scanned; a busy one is scanned more often, every scanBusy at most, so that what it reads is younger
	// at its start. The scan looks scanSlack beyond what will be published before the next one.
	scanEvery = time.Second
	scanBusy  = 250 * time.Millisecond
	scanSlack = 500 * time.Millisecond
	// busyRows is how many rows a second make a shard busy: from there on it is scanned as often as it finds that many.
	busyRows = 100
	// What waits for the budget is read anew once it is rereadAfter old and rereadLate behind its time: an executor would have to look at it.
	rereadAfter = time.Second
	rereadLate  = 100 * time.Millisecond
	// passAhead is how long before they are to be published rows are passed over for which there is no room; before, the scan waits for room.
	passAhead = 250 * time.Millisecond
	// cutRetry is how often the scan looks whether there is room by now.
	cutRetry = 50 * time.Millisecond
	// resumeEvery is how often rows that were passed over are thought of while there is no room for them.
	resumeEvery = 10 * time.Millisecond
	// appetiteSpan is for how much publishing of a flow a shard reads ahead while that waits for the budget.
	appetiteSpan = 500 * time.Millisecond
	// A slice of sliceSpan of due time is swept bucketer.Grace after its end.
	sliceSpan = 10 * time.Second
	// recent is how far back a shard that was taken over is looked through at once, recentSlice how much of that at a time. All that is older may be swept.
	recent      = sliceSpan + bucketer.Grace
	recentSlice = 2 * time.Second
	// settleEvery is how often published entries are compared with what their stream still holds.
	settleEvery = 5 * time.Second
	// settleAfter is how long a notice is waited for before an entry is looked at.
	settleAfter = 3 * time.Second
	// sessionsEvery is how often the sessions are read under which watched attempts run.
	sessionsEvery = time.Second
	// lookAgain is the least time between two looks at one entry, and between two redispatches of it.
	lookAgain = 15 * time.Second
	// handOnAfter is how long after its bucket's end an entry may be open before a watch entry takes its place.
	handOnAfter = 2 * time.Minute
	// watchStep is the distance of watch entries.
	watchStep = 2 * time.Minute
	// handover is how long an owner goes on with a shard that a live peer has taken.
	handover = 3 * time.Second
	// retryPublish is how long a publication that failed waits.
	retryPublish = 250 * time.Millisecond
	// decideEvery is how soon an entry is asked about again of which nothing could be said.
	decideEvery = time.Second
	// catchUpEvery is the least time between two rounds of catching up.
	catchUpEvery = time.Second
	// The jobs of a shard are looked through for some without a next run: mendPage of them every mendPace, and from the start
	// mendEvery after the end.
	mendEvery = 5 * time.Minute
	mendPace  = 5 * time.Second
	// storeTimeout bounds one read or write of a shard's worker.
	storeTimeout = 10 * time.Second
)

// The bounds of a shard's memory and of its steps.
const (
	// maxHeld bounds the envelopes that a shard holds for publication on time, and as many behind their time.
	maxHeld = 2000
	// passRows bounds the rows a second that a dispatcher reads and passes over, for want of room: each costs the store what a row that is
	// taken costs it, some 15 µs of a core: three quarters of one for each dispatcher at worst. passBurst may come at once.
	passRows  = 50_000
	passBurst = 5000
	// maxHeldAll bounds those of all shards of a dispatcher, as long as each may hold minHeld.
	maxHeldAll = 25_000
	minHeld    = 64
	// flushChunk is how many envelopes a shard publishes before the others of its dispatcher get their turn.
	flushChunk = 64
	// scanPage bounds the rows of one read.
	scanPage = 500
	// lookBatch bounds the entries of one look.
	lookBatch = 500
	// handOnBatch bounds the entries handed on in one step.
	handOnBatch = 100
	// catchUpRuns is about how many runs a dispatcher starts in a second, over all its shards, that should have started long ago.
	catchUpRuns = 500
	// mendPage bounds the jobs looked at in one step.
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
	SubscribeNear(shard schema.Shard, f func([]schema.Entry)) (cancel func(), err error)
	SubscribeDone(shard schema.Shard, f func([]schema.Notice)) (cancel func(), err error)
}

// Ring tells who owns which shard.
type Ring interface {
	Snapshot() *ring.Snapshot
	Changed() <-chan struct{}
	Refresh(ctx context.Context) error
	// ReportHealth tells the others whether we can dispatch: if not, they take our shards, unless none of them can.
	ReportHealth(healthy bool) error
}

// Planner sees to it that recurring jobs go on (bucketer.Bucketer has it).
type Planner interface {
	PlanOn(ctx context.Context, entries []schema.Entry, now time.Time) ([]bucketer.Verdict, error)
	CatchUp(ctx context.Context, entries []schema.Entry, most int, now time.Time) (done int, err error)
	Mend(ctx context.Context, shard schema.Shard, after schema.JobID, limit int, now time.Time) (schema.JobID, error)
}

// Writer writes on behalf of the dispatcher (bucketer.Bucketer has it).
type Writer interface {
	Planner
	Attempts(ctx context.Context, p schema.Partition, runs []schema.RunID) (map[schema.RunID][]schema.Attempt, error)
	FollowUp(ctx context.Context, finished []bucketer.Finished, done func(i int, err error))
	Replace(ctx context.Context, from, to []schema.Entry) ([]schema.EntryID, error)
	Expiry(due, now time.Time) time.Time
	DeferTo(ctx context.Context, from, to []schema.Entry, cause schema.Cause) ([]schema.EntryID, error)
	Defer(e *schema.Entry, at time.Time, pace string, accepted time.Time) (schema.Entry, error)
	LaterStart(e *schema.Entry, kind schema.Kind, id schema.EntryID, attempt int, accepted time.Time) (schema.Entry, error)
	NotStarted(e schema.Entry, rec schema.Record, now time.Time) schema.Attempt
	Record(ctx context.Context, attempts []schema.Attempt) error
	WakeShard(ctx context.Context, shard schema.Shard, after schema.LimitKey, live *bucketer.Liveness) (next schema.LimitKey, err error)
}

// Tenants knows what share each tenant has where they compete (bucketer.Tenants has it).
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
	Incarnation string // drawn at every start: tells this process's redispatches from every other's
	Lanes       int    // default 1
	Store       Store
	Queue       Queue
	Ring        Ring
	Writer      Writer
	Tenants     Tenants // nil: all have the same share
	Rates       Rates   // nil: no task has one
	Halt        *bucketer.Halt
	Now         func() time.Time // default time.Now
	Logger      *slog.Logger
	Registerer  prometheus.Registerer
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
