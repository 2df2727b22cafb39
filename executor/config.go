package executor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// The times of executing (DESIGN 7).
const (
	// freshFor is how old the read behind an envelope may be at the start. The dispatcher's clock stamps the read, so it
	// may be older by what the clocks differ.
	freshFor = queue.FreshFor
	// lookBefore is how long before its due time an entry in doubt is looked at.
	lookBefore = 500 * time.Millisecond
	// ackAfter is how long a run may go before it gets a session cell and leaves the stream. With tendEvery and recordWithin, and
	// some time for the write, it makes up queue.TraceWithin.
	ackAfter = time.Second
	// claimWithin is how long before that the read behind a guarded start must end: a claim takes its time, and is in vain where the start
	// rests on nothing by then.
	claimWithin = 500 * time.Millisecond
	// lookTries bounds how often an entry is looked at because the look before took longer than freshFor.
	lookTries = 3
	// postponeFor is how long a message is kept before it goes back because the store failed, or for another reason that lasts.
	postponeFor = 500 * time.Millisecond
	// heldFor is for how long after its start an attempt may count on its message being given to nobody else, though nothing keeps it:
	// queue.AckWait, less a margin.
	heldFor = 3 * time.Second
	// holdEvery is how often unacknowledged messages are kept in progress; well below queue.AckWait.
	holdEvery = 2 * time.Second
	// tendEvery is how often the runs under way are gone through.
	tendEvery = 250 * time.Millisecond

	// sessionLife is how long a session stands without renewal, renewEvery how often it is renewed.
	sessionLife = 10 * time.Second
	renewEvery  = 3 * time.Second
	// sessionAmple is how much of the session must be left for a guarded run to begin, or one that has a slot of a limit: with a renewal
	// every renewEvery there is more, unless one takes over a second or fails.
	sessionAmple = 6 * time.Second
	// CalleeTime is how long the callee of an executor that crashed may go on with guarded work, or with a slot of a
	// limit, so that nothing overlaps with it: in true time, whatever right clocks say.
	CalleeTime = sessionAmple + schema.SessionGrace - schema.MaxClockDifference

	// recordWithin is how long a record waits for others of its partition.
	recordWithin = 100 * time.Millisecond
	// markWithin is how long the session cell of a start in doubt waits for others.
	markWithin = 2 * time.Millisecond
	// recordLast bounds how long a stop waits for outcomes that cannot be recorded.
	recordLast = 5 * time.Second
	// vacateFor bounds for how long who leaves a slot tries to wake who waits for it.
	vacateFor = time.Minute
	// storeTimeout bounds one read or write.
	storeTimeout = 5 * time.Second
	// fetchEvery is the least time between two requests for messages of a lane and priority: where many come, each brings several.
	fetchEvery = 5 * time.Millisecond
	// fetchWait bounds one request for messages.
	fetchWait = 5 * time.Second
	// maxRetryAfter bounds what a callee may ask for.
	maxRetryAfter = 24 * time.Hour
)

// Bounds of an executor's memory.
const (
	DefaultSlots = 2048
	// handPerSlot is how many messages may be in hand for each slot.
	handPerSlot = 2
	// wakePart is the part of the messages that may be in hand for which room is pulled for before their rows are held: for each alone a fetch would cost more
	// than it brings.
	wakePart = 16
	// fetchLimit bounds the messages of one request.
	fetchLimit = 512
	// claimsAtOnce bounds the runs that are looked at in order to claim them, or claimed, at once. A conditional write takes a store milliseconds of its processors: were all in
	// hand to ask at once, each answer would come too late for a start to rest on, and the next try would find the store as busy. It is
	// more than what keeps a store busy: at 40 ms for each, 1,600 a second.
	claimsAtOnce = 64
	// putOffsAtOnce bounds the runs that are being put off at once, two writes and two reads each: when a breaker opens thousands are in hand, and what others need
	// would wait behind all of them. Beside a target that hangs others' p99 was 70 and 23 ms in two rounds with 64 at once, and 35 and 13 ms with 16,
	// which at 4 ms for each are 4,000 a second.
	putOffsAtOnce = 16
	// recordRows bounds the rows of one batch of records.
	recordRows = 100
	// recordWriters bounds the batches under way.
	recordWriters = 32
	// maxUnrecorded bounds the outcomes that wait to be recorded: beyond it nothing is pulled.
	maxUnrecorded = 20_000
	// outputHead bounds the output kept in a record, bytes.
	outputHead = 2 << 10
	// errorHead bounds the error kept in a record, bytes.
	errorHead = 1 << 10
)

// The causes for which an attempt's context ends.
var (
	ErrTimeout   = errors.New("time-out")
	ErrCancelled = errors.New("cancelled")
	ErrStopped   = errors.New("the executor was stopped before the attempt ended")
)

// Store is what an executor needs of a store besides what bucketer writes for it.
type Store interface {
	schema.SessionStore
	schema.LeaseStore
	EntriesByID(ctx context.Context, p schema.Partition, ids []schema.EntryID) ([]schema.Entry, error)
	// Job decides what writes of unknown outcome left undecided (SERIAL); Writer.Jobs does not.
	Job(ctx context.Context, id schema.JobID) (schema.Job, error)
}

// Writer writes and reads on behalf of the executor (bucketer.Bucketer has it).
type Writer interface {
	Attempts(ctx context.Context, p schema.Partition, runs []schema.RunID) (map[schema.RunID][]schema.Attempt, error)
	Record(ctx context.Context, attempts []schema.Attempt) error
	SaveOutput(ctx context.Context, a *schema.Attempt, output []byte) (held int64, err error)
	SaveReport(ctx context.Context, a *schema.Attempt, number int, r *schema.Report) error
	FollowUp(ctx context.Context, finished []bucketer.Finished, done func(i int, err error))
	LaterStart(e *schema.Entry, kind schema.Kind, id schema.EntryID, attempt int, accepted time.Time) (schema.Entry, error)
	Defer(e *schema.Entry, at time.Time, pace string, accepted time.Time) (schema.Entry, error)
	Replace(ctx context.Context, from, to []schema.Entry) ([]schema.EntryID, error)
	DeferTo(ctx context.Context, from, to []schema.Entry, cause schema.Cause) ([]schema.EntryID, error)
	NotStarted(e schema.Entry, rec schema.Record, now time.Time) schema.Attempt
	EntryPayload(ctx context.Context, e *schema.Entry) ([]byte, error)
	Expiry(due, now time.Time) time.Time
	Jobs(ctx context.Context, ids []schema.JobID) (map[schema.JobID]*schema.Job, error)
	Misfired(job *schema.Job, e *schema.Entry, now time.Time) (rec schema.Record, missed bool)
	Waiter
}

// Waiter holds runs back that a limit does not let start, and wakes them (bucketer.Bucketer).
type Waiter interface {
	AddToWaitList(ctx context.Context, key schema.LimitKey, e *schema.Entry) error
	WakeWaiters(ctx context.Context, key schema.LimitKey, live *bucketer.Liveness) (waiting int, err error)
	CancelOldest(ctx context.Context, key schema.LimitKey, e *schema.Entry, limit int) (over bool, err error)
}

// Tasks answers for tasks by name (bucketer.TaskCache).
type Tasks interface {
	Task(ctx context.Context, tenant, name string) (schema.Task, error)
}

// Signer answers for the keys by which tenants' calls are signed (bucketer.Signing).
type Signer interface {
	// Secrets returns the secrets of a key, the newest first; schema.ErrNotFound if there is no such key, bucketer.ErrSealed if it cannot be opened here.
	Secrets(ctx context.Context, tenant, name string) ([][]byte, error)
}

// Config wires an Executor.
type Config struct {
	Name    string // unique among live executors: the key of its session
	Region  string
	Slots   int // attempts under way at once; default DefaultSlots
	Lanes   int // default 1
	Store   Store
	Writer  Writer
	Tasks   Tasks
	Queue   queue.Consumer
	Notices schema.Notices
	Targets Targets
	Signer  Signer // nil: no call is signed
	// Signals tells other executors that somebody waits for slots of a task's limit, or has given some up; nil: they find out by themselves, within seconds.
	Signals bucketer.Signaller
	Halt    *bucketer.Halt
	// MaxOutput is how much of an attempt's output is kept, bytes; default DefaultMaxOutput.
	MaxOutput int
	// DrainTimeout bounds how long a stop waits for attempts under way; default 30 s.
	DrainTimeout time.Duration
	Now          func() time.Time // default time.Now
	Logger       *slog.Logger
	Registerer   prometheus.Registerer
}

// Validate reports every fault of c.
func (c Config) Validate() error {
	var faults []error
	for _, f := range []struct {
		wrong bool
		what  string
	}{
		{c.Name == "", "no name"},
		{c.Store == nil, "no store"},
		{c.Writer == nil, "no writer"},
		{c.Tasks == nil, "no tasks"},
		{c.Queue == nil, "no queue"},
		{c.Notices == nil, "no notices"},
		{c.Halt == nil, "no halt detector"},
		{c.Slots < 0, "slots must be positive"},
		{c.Lanes < 0, "lanes must be positive"},
		{c.MaxOutput < 0 || c.MaxOutput > MaxMaxOutput, "the most that is kept of an output must be between 1 byte and 16 MiB"},
	} {
		if f.wrong {
			faults = append(faults, errors.New("executor: "+f.what))
		}
	}
	return errors.Join(faults...)
}
