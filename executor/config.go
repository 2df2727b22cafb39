package executor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/tally"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/executor/trace"
	"carillon.dev/carillon/schema"
)

// The times of executing.
const (
	// freshFor is how old the read behind an envelope may be at the start. The dispatcher's clock
	// stamps the read, so it may be older by what the clocks differ.
	freshFor = queue.FreshFor
	// readBefore is how long before its due time the rows of an entry in doubt are read.
	readBefore = 500 * time.Millisecond
	// ackAfter is how long a run may go before it gets a session cell and leaves the stream. With
	// tendEvery and recordWithin, and some time for the write, it makes up queue.TraceWithin.
	ackAfter = time.Second
	// claimWithin is by how much younger than freshFor the read behind a guarded start must be: the
	// claim takes its time, and is of no use once that read is too old.
	claimWithin = 500 * time.Millisecond
	// readTries bounds how often the rows are read because the read before took longer than
	// freshFor.
	readTries = 3
	// postponeFor is how long a message is kept before it goes back because the store failed, or
	// for another reason that lasts.
	postponeFor = 500 * time.Millisecond
	// heldFor is for how long after its start an attempt is the only one with its message, though
	// nothing keeps the message in progress: queue.AckWait, less a margin.
	heldFor = 3 * time.Second
	// holdEvery is how often unacknowledged messages are kept in progress; well below
	// queue.AckWait.
	holdEvery = 2 * time.Second
	// tendEvery is how often the messages in hand are gone through.
	tendEvery = 250 * time.Millisecond
	// idleEvery is how often the metrics of slots are set while there are none: a multiple of
	// tendEvery.
	idleEvery = 4 * tendEvery

	// sessionLife is how long a session stands without renewal, renewEvery how often it is renewed.
	sessionLife = 10 * time.Second
	renewEvery  = 3 * time.Second
	// sessionReserve is how much of the session must be left for an attempt to begin that is
	// guarded or has a slot of a limit. With a renewal every renewEvery there is more, unless one
	// fails or takes over a second.
	sessionReserve = 6 * time.Second
	// CalleeTime is how long the callee of an executor that crashed may go on, with guarded work or
	// a slot of a limit, so that nothing overlaps with it. It is true time, whatever right clocks
	// say.
	CalleeTime = sessionReserve + schema.SessionGrace - schema.MaxClockDifference

	// recordWithin is how long a record waits for others of its partition.
	recordWithin = 100 * time.Millisecond
	// markWithin is how long the session cell of a start in doubt waits for others.
	markWithin = 2 * time.Millisecond
	// cellTimeout bounds one write of session cells. It is below freshFor: a start waits for its cell,
	// and what is not answered is written again while the start still may.
	cellTimeout = time.Second
	// recordLast bounds how long a stop waits for outcomes that cannot be recorded.
	recordLast = 5 * time.Second
	// storeTimeout bounds one read or write.
	storeTimeout = 5 * time.Second
	// fetchEvery is the least time between two requests for messages of a lane and priority: where
	// many come, each brings several.
	fetchEvery = 5 * time.Millisecond
	// fetchWait bounds one request for messages.
	fetchWait = 5 * time.Second
)

// MessagesInHand returns how many messages an executor has in hand at most that fetches for so many
// lanes and priorities, and how many one fetch may bring. All fetches together ask for at most
// half: those that get nothing leave enough to fill every slot.
func MessagesInHand(slots, pullers int) (most, fetch int) {
	most = messagesPerSlot * max(slots, pullers)
	return most, min(fetchLimit, max(1, most/2/pullers))
}

// Bounds of an executor's memory.
const (
	DefaultSlots = target.DefaultMaxConnsPerHost
	// messagesPerSlot is how many messages may be in hand for each slot.
	messagesPerSlot = 2
	// refillPart is the part of maxInHand for which messages are fetched before the rows of earlier
	// ones are held. A fetch for each alone would cost more than it brings.
	refillPart = 16
	// fetchLimit bounds the messages of one request.
	fetchLimit = 512
	// claimsAtOnce bounds the attempts that read or write leases at once. A conditional write costs
	// a store milliseconds of its processors. If all in hand asked at once, each answer would come
	// too late for a start to rest on. At 40 ms a write, 64 are 1,600 claims a second.
	claimsAtOnce = 64
	// deferralsAtOnce bounds the entries that are being deferred at once, two writes and two reads
	// each. When a circuit opens thousands are in hand, and other reads and writes would wait
	// behind all of them. At 4 ms each, 16 are 4,000 a second. The p99 of other runs beside a
	// target that hangs, two rounds:
	//
	// 64 at once  70 ms, 23 ms
	// 16 at once  35 ms, 13 ms
	deferralsAtOnce = 16
	// recordRows bounds the rows of one batch of records.
	recordRows = 100
	// recordWriters bounds the batches under way.
	recordWriters = 32
	// maxUnrecorded bounds the outcomes that wait to be recorded: beyond it nothing is fetched.
	maxUnrecorded = 20_000
	// outputHead bounds the output kept in a record, bytes.
	outputHead = 2 << 10
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
	// Announces reports whether somebody may listen to events of the system about runs of a tenant.
	Announces(tenant string) bool
	EntryPayload(ctx context.Context, e *schema.Entry) ([]byte, error)
	ExpiryOf(spec *schema.Spec, due, now time.Time) time.Time
	Jobs(ctx context.Context, ids []schema.JobID) (map[schema.JobID]*schema.Job, error)
	Misfired(job *schema.Job, e *schema.Entry, now time.Time) (rec schema.Record, missed bool)
	WaitLists
}

// WaitLists holds runs back that a limit does not let start, and wakes them (bucketer.Bucketer).
type WaitLists interface {
	AddToWaitList(ctx context.Context, key schema.LimitKey, e *schema.Entry) error
	WakeWaiters(ctx context.Context, key schema.LimitKey, live *bucketer.Liveness) (waiting int, err error)
	CancelOldest(ctx context.Context, key schema.LimitKey, e *schema.Entry, limit int) (over bool, err error)
}

// Tasks answers for tasks by name (bucketer.TaskCache).
type Tasks interface {
	Task(ctx context.Context, tenant, name string) (schema.Task, error)
}

// Tenants answers for the quotas of tenants (admin.Tenants).
type Tenants interface {
	// Concurrency returns how many runs of a tenant may be under way at once; 0 = any number.
	Concurrency(ctx context.Context, tenant string) (int, error)
	// AdmitScheduled takes a run that its schedule starts out of the tenant's quota of runs a
	// minute. If none is left, it returns how far apart such runs may start.
	AdmitScheduled(ctx context.Context, tenant string) (apart time.Duration, err error)
}

// Signer answers for the keys by which tenants' calls are signed (bucketer.Signing).
type Signer interface {
	// Secrets returns the secrets of a key, the newest first; schema.ErrNotFound if there is no
	// such key, bucketer.ErrSealed if it cannot be opened here.
	Secrets(ctx context.Context, tenant, name string) ([][]byte, error)
}

// Secrets answers for the values that calls are made with (admin.Secrets).
type Secrets interface {
	// Values returns the values of a secret, the one in force first; schema.ErrNotFound if there is
	// no such secret, bucketer.ErrSealed if it cannot be opened here.
	Values(ctx context.Context, tenant, name string) ([][]byte, error)
}

// Everywhere has every region know of claims (homes.Everywhere).
type Everywhere interface {
	// ReadyToClaim returns an error while that cannot be had: then a run is not to be claimed.
	ReadyToClaim() error
	// ConfirmClaim returns nil once a claim is known everywhere, or need not be. key is that of its
	// lease.
	ConfirmClaim(ctx context.Context, key string) error
}

// Config wires an Executor.
type Config struct {
	Name   string // unique among live executors: the key of its session
	Region string
	Slots  int // attempts under way at once; default DefaultSlots
	Lanes  int // default 1
	Store  Store
	Writer Writer
	Tasks  Tasks
	// Tenants have quotas of runs at once; nil: none has.
	Tenants Tenants
	Queue   queue.Consumer
	// Labels are those of this executor: it runs no work that requires others.
	Labels schema.Labels
	// Pool is where the messages come from that only executors with these labels get; nil: from
	// nowhere.
	Pool    queue.Consumer
	Notices schema.Notices
	Targets target.Set
	Signer  Signer  // nil: no call is signed
	Secrets Secrets // nil: there are none, and calls that need one fail
	// Signals tells other executors that slots of a task's limit are wanted here, or were given up;
	// nil: they find out within seconds.
	Signals bucketer.Signaller
	// Tally counts runs by tenant, task, job and host; nil: nobody does.
	Tally *tally.Tally
	Halt  *bucketer.Halt
	// Served returns in which epoch our region serves the home of a shard now, or a
	// schema.NotServedError: then nothing of it starts here. It does no I/O. Nil: there are no
	// regions.
	Served func(shard schema.Shard) (epoch int64, err error)
	// HomeOf returns the home of a shard, which is called after a region. Nil: there are no
	// regions.
	HomeOf func(shard schema.Shard) string
	// ServedLimit returns the home of a limit, and in which epoch our region serves it now, or a
	// schema.NotServedError. It does no I/O. Nil: there are no regions.
	ServedLimit func(key schema.LimitKey) (home string, epoch int64, err error)
	// Everywhere has every region know of the claims of runs that are to be held everywhere; nil:
	// none does.
	Everywhere Everywhere
	// Seal returns an attempt as it is stored: what the lease of a guarded run says of it
	// (sealed.Store.SealAttempt). Nil: as it is.
	Seal func(ctx context.Context, a schema.Attempt) schema.Attempt
	// Trace says which runs are traced, and takes their spans; zero: none are.
	Trace trace.Tracer
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
		{c.MaxOutput < 0 || c.MaxOutput > target.MaxMaxOutput, "the most that is kept of an output must be between 1 byte and 16 MiB"},
	} {
		if f.wrong {
			faults = append(faults, errors.New("executor: "+f.what))
		}
	}
	return errors.Join(faults...)
}
