package schematest

import (
	"context"
	"errors"
	"time"

	"carillon.dev/carillon/schema"
)

// call is one call of a method of a store.
type call struct {
	op          string
	rows        int  // how many rows it asks for or writes, at least 1
	write       bool // else a read
	conditional bool // of a write: it depends on what is stored
	do          func(ctx context.Context) error
	half        func(ctx context.Context) error // of a batch: does the first half of it; else nil
}

// around is a store each of whose calls but Close goes through wrap. It has a method for each of
// schema.Store, which is why it has more than 25.
type around struct {
	inner schema.Store
	wrap  func(ctx context.Context, c call) error
}

var _ schema.Store = (*around)(nil)

// read passes a read on. What it answers beside an error is dropped.
func read[T any](ctx context.Context, a *around, op string, rows int, do func(ctx context.Context) (T, error)) (T, error) {
	var answer T
	err := a.wrap(ctx, call{op: op, rows: max(rows, 1), do: func(ctx context.Context) (err error) {
		answer, err = do(ctx)
		return err
	}})
	if err != nil {
		answer = *new(T)
	}
	return answer, err
}

// put passes an unconditional write on.
func put(ctx context.Context, a *around, op string, do func(ctx context.Context) error) error {
	return a.wrap(ctx, call{op: op, rows: 1, write: true, do: do})
}

// swap passes a conditional write on. Its answer counts with success and with a conflict.
func swap[T any](ctx context.Context, a *around, op string, do func(ctx context.Context) (T, error)) (T, error) {
	var answer T
	err := a.wrap(ctx, call{op: op, rows: 1, write: true, conditional: true, do: func(ctx context.Context) (err error) {
		answer, err = do(ctx)
		return err
	}})
	if err != nil && !errors.Is(err, schema.ErrConflict) {
		answer = *new(T)
	}
	return answer, err
}

// swapOnly passes on a conditional write that answers nothing but an error.
func swapOnly(ctx context.Context, a *around, op string, do func(ctx context.Context) error) error {
	return a.wrap(ctx, call{op: op, rows: 1, write: true, conditional: true, do: do})
}

// putBatch passes the write of a batch on.
func putBatch[T any](ctx context.Context, a *around, op string, batch []T, do func(context.Context, []T) error) error {
	return a.wrap(ctx, call{
		op: op, rows: len(batch), write: true,
		do:   func(ctx context.Context) error { return do(ctx, batch) },
		half: func(ctx context.Context) error { return do(ctx, batch[:len(batch)/2]) },
	})
}

func (a *around) PutEntries(ctx context.Context, entries []schema.Entry) error {
	return putBatch(ctx, a, "PutEntries", entries, a.inner.PutEntries)
}

func (a *around) Entries(ctx context.Context, p schema.Partition, r schema.IDRange, limit int) ([]schema.Entry, error) {
	return read(ctx, a, "Entries", limit, func(ctx context.Context) ([]schema.Entry, error) {
		return a.inner.Entries(ctx, p, r, limit)
	})
}

func (a *around) EntryIDs(ctx context.Context, p schema.Partition, r schema.IDRange, limit int) ([]schema.EntryID, error) {
	return read(ctx, a, "EntryIDs", limit, func(ctx context.Context) ([]schema.EntryID, error) {
		return a.inner.EntryIDs(ctx, p, r, limit)
	})
}

func (a *around) EntriesByID(ctx context.Context, p schema.Partition, ids []schema.EntryID) ([]schema.Entry, error) {
	return read(ctx, a, "EntriesByID", len(ids), func(ctx context.Context) ([]schema.Entry, error) {
		return a.inner.EntriesByID(ctx, p, ids)
	})
}

func (a *around) Payload(ctx context.Context, id schema.EntryID) ([]byte, error) {
	return read(ctx, a, "Payload", 1, func(ctx context.Context) ([]byte, error) { return a.inner.Payload(ctx, id) })
}

func (a *around) CancelRun(
	ctx context.Context, id schema.RunID, asRead schema.EntryID, mark schema.Cancel, expires time.Time,
) (schema.Marks, error) {
	return swap(ctx, a, "CancelRun", func(ctx context.Context) (schema.Marks, error) {
		return a.inner.CancelRun(ctx, id, asRead, mark, expires)
	})
}

func (a *around) MoveRun(
	ctx context.Context, id schema.RunID, asRead, to schema.EntryID, expires time.Time,
) (schema.Marks, error) {
	return swap(ctx, a, "MoveRun", func(ctx context.Context) (schema.Marks, error) {
		return a.inner.MoveRun(ctx, id, asRead, to, expires)
	})
}

func (a *around) Marks(ctx context.Context, id schema.RunID) (schema.Marks, error) {
	return read(ctx, a, "Marks", 1, func(ctx context.Context) (schema.Marks, error) { return a.inner.Marks(ctx, id) })
}

func (a *around) PutAttempts(ctx context.Context, attempts []schema.Attempt) error {
	return putBatch(ctx, a, "PutAttempts", attempts, a.inner.PutAttempts)
}

func (a *around) Attempts(ctx context.Context, p schema.Partition, runs []schema.RunID) ([]schema.Attempt, error) {
	return read(ctx, a, "Attempts", len(runs), func(ctx context.Context) ([]schema.Attempt, error) {
		return a.inner.Attempts(ctx, p, runs)
	})
}

func (a *around) KeepAttempts(ctx context.Context, run schema.RunID, expires time.Time, which func(*schema.Attempt) bool) error {
	return put(ctx, a, "KeepAttempts", func(ctx context.Context) error { return a.inner.KeepAttempts(ctx, run, expires, which) })
}

func (a *around) PutPart(ctx context.Context, run schema.RunID, kind schema.PartKind, p schema.Part, written int64, expires time.Time) error {
	return put(ctx, a, "PutPart", func(ctx context.Context) error { return a.inner.PutPart(ctx, run, kind, p, written, expires) })
}

func (a *around) Parts(ctx context.Context, run schema.RunID, kind schema.PartKind, after schema.PartKey, limit int) ([]schema.Part, error) {
	return read(ctx, a, "Parts", limit, func(ctx context.Context) ([]schema.Part, error) {
		return a.inner.Parts(ctx, run, kind, after, limit)
	})
}

func (a *around) LastPart(ctx context.Context, run schema.RunID, kind schema.PartKind, of schema.PartKey) (schema.Part, error) {
	return read(ctx, a, "LastPart", 1, func(ctx context.Context) (schema.Part, error) { return a.inner.LastPart(ctx, run, kind, of) })
}

func (a *around) SwapSession(ctx context.Context, was, is schema.Session) error {
	return swapOnly(ctx, a, "SwapSession", func(ctx context.Context) error { return a.inner.SwapSession(ctx, was, is) })
}

func (a *around) Session(ctx context.Context, executor string) (schema.Session, error) {
	return read(ctx, a, "Session", 1, func(ctx context.Context) (schema.Session, error) { return a.inner.Session(ctx, executor) })
}

func (a *around) RegisterKey(
	ctx context.Context, tenant, key string, claim schema.KeyRecord, expires time.Time,
) (schema.KeyRecord, bool, error) {
	type answer struct {
		claim schema.KeyRecord
		mine  bool
	}
	got, err := swap(ctx, a, "RegisterKey", func(ctx context.Context) (got answer, err error) {
		got.claim, got.mine, err = a.inner.RegisterKey(ctx, tenant, key, claim, expires)
		return got, err
	})
	return got.claim, got.mine, err
}

func (a *around) RegisteredKey(ctx context.Context, tenant, key string) (schema.KeyRecord, error) {
	return read(ctx, a, "RegisteredKey", 1, func(ctx context.Context) (schema.KeyRecord, error) { return a.inner.RegisteredKey(ctx, tenant, key) })
}

func (a *around) Cursors(ctx context.Context) ([]schema.Cursor, error) {
	return read(ctx, a, "Cursors", 1, a.inner.Cursors)
}

func (a *around) Cursor(ctx context.Context, shard schema.Shard) (schema.Cursor, error) {
	return read(ctx, a, "Cursor", 1, func(ctx context.Context) (schema.Cursor, error) { return a.inner.Cursor(ctx, shard) })
}

func (a *around) AdvanceCursor(ctx context.Context, c schema.Cursor) error {
	return put(ctx, a, "AdvanceCursor", func(ctx context.Context) error { return a.inner.AdvanceCursor(ctx, c) })
}

func (a *around) Settings(ctx context.Context) (schema.Settings, error) {
	return read(ctx, a, "Settings", 1, a.inner.Settings)
}

func (a *around) PutTask(ctx context.Context, t schema.Task) error {
	return put(ctx, a, "PutTask", func(ctx context.Context) error { return a.inner.PutTask(ctx, t) })
}

func (a *around) Task(ctx context.Context, tenant, name string) (schema.Task, error) {
	return read(ctx, a, "Task", 1, func(ctx context.Context) (schema.Task, error) { return a.inner.Task(ctx, tenant, name) })
}

func (a *around) Tasks(ctx context.Context, tenant, after string, limit int) ([]schema.Task, error) {
	return read(ctx, a, "Tasks", limit, func(ctx context.Context) ([]schema.Task, error) {
		return a.inner.Tasks(ctx, tenant, after, limit)
	})
}

func (a *around) DeleteTask(ctx context.Context, tenant, name string, at time.Time) error {
	return put(ctx, a, "DeleteTask", func(ctx context.Context) error { return a.inner.DeleteTask(ctx, tenant, name, at) })
}

func (a *around) CreateJob(ctx context.Context, j schema.Job) error {
	return put(ctx, a, "CreateJob", func(ctx context.Context) error { return a.inner.CreateJob(ctx, j) })
}

func (a *around) CreateJobs(ctx context.Context, jobs []schema.Job) error {
	return putBatch(ctx, a, "CreateJobs", jobs, a.inner.CreateJobs)
}

func (a *around) SwapJob(ctx context.Context, was int64, j schema.Job) error {
	return swapOnly(ctx, a, "SwapJob", func(ctx context.Context) error { return a.inner.SwapJob(ctx, was, j) })
}

func (a *around) Job(ctx context.Context, id schema.JobID) (schema.Job, error) {
	return read(ctx, a, "Job", 1, func(ctx context.Context) (schema.Job, error) { return a.inner.Job(ctx, id) })
}

func (a *around) Jobs(ctx context.Context, shard schema.Shard, ids []schema.JobID) ([]schema.Job, error) {
	return read(ctx, a, "Jobs", len(ids), func(ctx context.Context) ([]schema.Job, error) {
		return a.inner.Jobs(ctx, shard, ids)
	})
}

func (a *around) JobsOf(ctx context.Context, shard schema.Shard, after schema.JobID, limit int) ([]schema.Job, error) {
	return read(ctx, a, "JobsOf", limit, func(ctx context.Context) ([]schema.Job, error) {
		return a.inner.JobsOf(ctx, shard, after, limit)
	})
}

// named is who has a name, and since when.
type named struct {
	holder schema.JobID
	since  time.Time
	mine   bool
}

func (a *around) RegisterName(
	ctx context.Context, tenant, name string, id schema.JobID, at time.Time,
) (schema.JobID, time.Time, bool, error) {
	got, err := swap(ctx, a, "RegisterName", func(ctx context.Context) (got named, err error) {
		got.holder, got.since, got.mine, err = a.inner.RegisterName(ctx, tenant, name, id, at)
		return got, err
	})
	return got.holder, got.since, got.mine, err
}

func (a *around) TransferName(ctx context.Context, tenant, name string, from, to schema.JobID, at time.Time) error {
	return swapOnly(ctx, a, "TransferName", func(ctx context.Context) error {
		return a.inner.TransferName(ctx, tenant, name, from, to, at)
	})
}

func (a *around) JobByName(ctx context.Context, tenant, name string) (schema.JobID, time.Time, error) {
	got, err := read(ctx, a, "JobByName", 1, func(ctx context.Context) (got named, err error) {
		got.holder, got.since, err = a.inner.JobByName(ctx, tenant, name)
		return got, err
	})
	return got.holder, got.since, err
}

func (a *around) ListJob(ctx context.Context, tenant string, id schema.JobID, expires time.Time) error {
	return put(ctx, a, "ListJob", func(ctx context.Context) error { return a.inner.ListJob(ctx, tenant, id, expires) })
}

func (a *around) ListJobs(ctx context.Context, tenant string, ids []schema.JobID) error {
	return putBatch(ctx, a, "ListJobs", ids, func(ctx context.Context, ids []schema.JobID) error {
		return a.inner.ListJobs(ctx, tenant, ids)
	})
}

func (a *around) JobIDs(ctx context.Context, tenant string, before schema.JobID, limit int) ([]schema.JobID, error) {
	return read(ctx, a, "JobIDs", limit, func(ctx context.Context) ([]schema.JobID, error) {
		return a.inner.JobIDs(ctx, tenant, before, limit)
	})
}

func (a *around) PutJobRuns(ctx context.Context, runs []schema.JobRun) error {
	return putBatch(ctx, a, "PutJobRuns", runs, a.inner.PutJobRuns)
}

func (a *around) JobRuns(
	ctx context.Context, id schema.JobID, period int, before schema.RunID, limit int,
) ([]schema.JobRun, error) {
	return read(ctx, a, "JobRuns", limit, func(ctx context.Context) ([]schema.JobRun, error) {
		return a.inner.JobRuns(ctx, id, period, before, limit)
	})
}

func (a *around) Decide(ctx context.Context, key, text string, expires time.Time) (string, error) {
	return swap(ctx, a, "Decide", func(ctx context.Context) (string, error) { return a.inner.Decide(ctx, key, text, expires) })
}

func (a *around) Decided(ctx context.Context, key string) (string, error) {
	return read(ctx, a, "Decided", 1, func(ctx context.Context) (string, error) { return a.inner.Decided(ctx, key) })
}

func (a *around) PutSubscription(ctx context.Context, s schema.Subscription) error {
	return put(ctx, a, "PutSubscription", func(ctx context.Context) error { return a.inner.PutSubscription(ctx, s) })
}

func (a *around) DeleteSubscription(ctx context.Context, s schema.Subscription) error {
	return put(ctx, a, "DeleteSubscription", func(ctx context.Context) error { return a.inner.DeleteSubscription(ctx, s) })
}

func (a *around) PutListening(ctx context.Context, tenant string, at time.Time) error {
	return put(ctx, a, "PutListening", func(ctx context.Context) error { return a.inner.PutListening(ctx, tenant, at) })
}

func (a *around) Listening(ctx context.Context, after string, limit int) ([]string, error) {
	return read(ctx, a, "Listening", limit, func(ctx context.Context) ([]string, error) { return a.inner.Listening(ctx, after, limit) })
}

func (a *around) Subscribers(ctx context.Context, tenant, event string, after schema.EntryID, limit int) ([]schema.EntryID, error) {
	return read(ctx, a, "Subscribers", limit, func(ctx context.Context) ([]schema.EntryID, error) {
		return a.inner.Subscribers(ctx, tenant, event, after, limit)
	})
}

func (a *around) SwapLease(ctx context.Context, was, is schema.Lease, expires time.Time) (schema.Lease, error) {
	return swap(ctx, a, "SwapLease", func(ctx context.Context) (schema.Lease, error) {
		return a.inner.SwapLease(ctx, was, is, expires)
	})
}

func (a *around) Lease(ctx context.Context, key string) (schema.Lease, error) {
	return read(ctx, a, "Lease", 1, func(ctx context.Context) (schema.Lease, error) { return a.inner.Lease(ctx, key) })
}

func (a *around) PutRated(ctx context.Context, task schema.TaskName, rated bool, at time.Time) error {
	return put(ctx, a, "PutRated", func(ctx context.Context) error { return a.inner.PutRated(ctx, task, rated, at) })
}

func (a *around) RatedTasks(ctx context.Context, after schema.TaskName, limit int) ([]schema.TaskName, error) {
	return read(ctx, a, "RatedTasks", limit, func(ctx context.Context) ([]schema.TaskName, error) { return a.inner.RatedTasks(ctx, after, limit) })
}

func (a *around) SwapSigningKeys(ctx context.Context, tenant string, was int64, is schema.SigningKeys) error {
	return swapOnly(ctx, a, "SwapSigningKeys", func(ctx context.Context) error { return a.inner.SwapSigningKeys(ctx, tenant, was, is) })
}

func (a *around) SigningKeys(ctx context.Context, tenant string) (schema.SigningKeys, error) {
	return read(ctx, a, "SigningKeys", 1, func(ctx context.Context) (schema.SigningKeys, error) { return a.inner.SigningKeys(ctx, tenant) })
}

func (a *around) SwapSecret(ctx context.Context, was int64, is schema.Secret) error {
	return swapOnly(ctx, a, "SwapSecret", func(ctx context.Context) error { return a.inner.SwapSecret(ctx, was, is) })
}

func (a *around) DeleteSecret(ctx context.Context, tenant, name string, was int64) error {
	return swapOnly(ctx, a, "DeleteSecret", func(ctx context.Context) error { return a.inner.DeleteSecret(ctx, tenant, name, was) })
}

func (a *around) Secret(ctx context.Context, tenant, name string) (schema.Secret, error) {
	return read(ctx, a, "Secret", 1, func(ctx context.Context) (schema.Secret, error) { return a.inner.Secret(ctx, tenant, name) })
}

func (a *around) Secrets(ctx context.Context, tenant, after string, limit int) ([]schema.Secret, error) {
	return read(ctx, a, "Secrets", limit, func(ctx context.Context) ([]schema.Secret, error) {
		return a.inner.Secrets(ctx, tenant, after, limit)
	})
}

func (a *around) TouchSecret(ctx context.Context, tenant, name string, at time.Time) error {
	return put(ctx, a, "TouchSecret", func(ctx context.Context) error { return a.inner.TouchSecret(ctx, tenant, name, at) })
}

func (a *around) PutTenant(ctx context.Context, t schema.Tenant) error {
	return put(ctx, a, "PutTenant", func(ctx context.Context) error { return a.inner.PutTenant(ctx, t) })
}

func (a *around) Tenant(ctx context.Context, name string) (schema.Tenant, error) {
	return read(ctx, a, "Tenant", 1, func(ctx context.Context) (schema.Tenant, error) { return a.inner.Tenant(ctx, name) })
}

func (a *around) Tenants(ctx context.Context, after string, limit int) ([]schema.Tenant, error) {
	return read(ctx, a, "Tenants", limit, func(ctx context.Context) ([]schema.Tenant, error) { return a.inner.Tenants(ctx, after, limit) })
}

func (a *around) CreateAPIKey(ctx context.Context, k schema.APIKey) error {
	_, err := swap(ctx, a, "CreateAPIKey", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, a.inner.CreateAPIKey(ctx, k)
	})
	return err
}

func (a *around) APIKey(ctx context.Context, hash schema.KeyHash) (schema.APIKey, error) {
	return read(ctx, a, "APIKey", 1, func(ctx context.Context) (schema.APIKey, error) { return a.inner.APIKey(ctx, hash) })
}

func (a *around) APIKeys(ctx context.Context, tenant, after string, limit int) ([]schema.APIKey, error) {
	return read(ctx, a, "APIKeys", limit, func(ctx context.Context) ([]schema.APIKey, error) {
		return a.inner.APIKeys(ctx, tenant, after, limit)
	})
}

func (a *around) DeleteAPIKey(ctx context.Context, tenant, name string, at time.Time) (schema.APIKey, error) {
	return swap(ctx, a, "DeleteAPIKey", func(ctx context.Context) (schema.APIKey, error) {
		return a.inner.DeleteAPIKey(ctx, tenant, name, at)
	})
}

func (a *around) TouchAPIKey(ctx context.Context, hash schema.KeyHash, at time.Time) error {
	return put(ctx, a, "TouchAPIKey", func(ctx context.Context) error { return a.inner.TouchAPIKey(ctx, hash, at) })
}

func (a *around) PutOperation(ctx context.Context, op schema.Operation) error {
	return put(ctx, a, "PutOperation", func(ctx context.Context) error { return a.inner.PutOperation(ctx, op) })
}

func (a *around) CancelOperation(ctx context.Context, tenant string, id schema.OperationID, mark schema.Cancel) error {
	return put(ctx, a, "CancelOperation", func(ctx context.Context) error { return a.inner.CancelOperation(ctx, tenant, id, mark) })
}

func (a *around) Operation(ctx context.Context, tenant string, id schema.OperationID) (schema.Operation, error) {
	return read(ctx, a, "Operation", 1, func(ctx context.Context) (schema.Operation, error) { return a.inner.Operation(ctx, tenant, id) })
}

func (a *around) Operations(ctx context.Context, tenant string, before schema.OperationID, limit int) ([]schema.Operation, error) {
	return read(ctx, a, "Operations", limit, func(ctx context.Context) ([]schema.Operation, error) {
		return a.inner.Operations(ctx, tenant, before, limit)
	})
}

func (a *around) OpenOperations(ctx context.Context, limit int) ([]schema.OpenOperation, error) {
	return read(ctx, a, "OpenOperations", limit, func(ctx context.Context) ([]schema.OpenOperation, error) {
		return a.inner.OpenOperations(ctx, limit)
	})
}

func (a *around) PutWaiter(ctx context.Context, w schema.Waiter) error {
	return put(ctx, a, "PutWaiter", func(ctx context.Context) error { return a.inner.PutWaiter(ctx, w) })
}

func (a *around) Waiters(ctx context.Context, key schema.LimitKey, r schema.IDRange, limit int) ([]schema.Waiter, error) {
	return read(ctx, a, "Waiters", limit, func(ctx context.Context) ([]schema.Waiter, error) {
		return a.inner.Waiters(ctx, key, r, limit)
	})
}

func (a *around) DeleteWaiter(ctx context.Context, w schema.Waiter) error {
	return put(ctx, a, "DeleteWaiter", func(ctx context.Context) error { return a.inner.DeleteWaiter(ctx, w) })
}

func (a *around) LimitsWithWaiters(ctx context.Context, shard schema.Shard, after schema.LimitKey, limit int) ([]schema.LimitMark, error) {
	return read(ctx, a, "LimitsWithWaiters", limit, func(ctx context.Context) ([]schema.LimitMark, error) {
		return a.inner.LimitsWithWaiters(ctx, shard, after, limit)
	})
}

func (a *around) DeleteLimitMark(ctx context.Context, m schema.LimitMark) error {
	return put(ctx, a, "DeleteLimitMark", func(ctx context.Context) error { return a.inner.DeleteLimitMark(ctx, m) })
}

func (a *around) Time(ctx context.Context) (time.Time, error) {
	return read(ctx, a, "Time", 1, a.inner.Time)
}

func (a *around) Clocks() []schema.HostClock {
	clocks := a.inner.Clocks()
	for i, c := range clocks {
		clocks[i].Time = func(ctx context.Context) (time.Time, error) { return read(ctx, a, "Clocks", 1, c.Time) }
	}
	return clocks
}

func (a *around) Close() error { return a.inner.Close() }
