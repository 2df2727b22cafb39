package homes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

// Guarded is a store that writes conditionally only what our region serves: two regions that decide on
// one row, each among the nodes of its own data centre, both win. Package cassandra says which tables
// that concerns (serialLevels). Plain writes pass: each copy of a row can take them.
//
//	what                                    the home that must be served
//	marks of runs, jobs                     that of the shard
//	leases of runs, slots of jobs           that of the shard; the holder of a run may always end or
//	                                        release it, so that outcomes are recorded
//	keys, names, signing keys, secrets,     that of the tenant
//	API keys, slots and rates of tasks,
//	groups of notifications
//	other leases                            the first of all
//	sessions                                none: an executor belongs to one region
//	decisions (Decide)                      none here: who decides does so for a shard, an event or an
//	                                        operation, and was asked whether its home is served
//
// The lease on the home is looked at before a write is sent, and again before its success is told:
// then the error is an ErrUnknown, and what stands is to be read.
type Guarded struct {
	schema.Store
	keeper *Keeper
}

// Guard returns the store, guarded.
func (k *Keeper) Guard(s schema.Store) *Guarded { return &Guarded{s, k} }

// decided does a conditional write of what serves says whether our region serves it.
func decided[T any](serves func() error, do func() (T, error)) (T, error) {
	var none T
	if err := serves(); err != nil {
		return none, err
	}
	answer, err := do()
	if err == nil {
		if err = serves(); err != nil {
			return none, fmt.Errorf("%w: %w", schema.ErrUnknown, err)
		}
	}
	return answer, err
}

// decidedOnly is decided for a write that answers nothing but an error.
func decidedOnly(serves func() error, do func() error) error {
	_, err := decided(serves, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// shard returns whether our region serves the home of a shard, as a func.
func (g *Guarded) shard(s schema.Shard) func() error {
	return func() error {
		_, err := g.keeper.Served(s)
		return err
	}
}

// tenant returns whether our region serves the home of a tenant, as a func.
func (g *Guarded) tenant(name string) func() error {
	home, _ := g.keeper.cfg.Homes.OfTenant(name)
	return func() error {
		_, err := g.keeper.ServedHome(home)
		return err
	}
}

// limit returns the home of a limit that is counted in one lease, and false if it is none.
func (k *Keeper) limit(key schema.LimitKey) (home string, ok bool) {
	if job, is := key.Job(); is {
		home, _ = k.cfg.Homes.Of(job.Shard())
		return home, true
	}
	tenant, ok := key.Tenant()
	if task, is := key.Task(); is {
		tenant, ok = task.Tenant, true
	}
	if ok {
		home, _ = k.cfg.Homes.OfTenant(tenant)
	}
	return home, ok
}

// ServedLimit returns the home of a limit, and the epoch in which our region serves it now, or a
// schema.NotServedError. It does no I/O.
func (k *Keeper) ServedLimit(key schema.LimitKey) (home string, epoch int64, err error) {
	home, ok := k.limit(key)
	if !ok {
		return "", 0, fmt.Errorf("limit %q has no home: %w", key, schema.ErrNotServed)
	}
	epoch, err = k.ServedHome(home)
	return home, epoch, err
}

// lease returns whether our region serves what the key of a lease stands for, as a func.
func (g *Guarded) lease(key string) func() error {
	kind, of, _ := strings.Cut(key, "/")
	switch kind {
	case "run":
		if run, err := schema.ParseEntryID(of); err == nil {
			return g.shard(run.Shard())
		}
	case "slots":
		if _, ok := g.keeper.limit(schema.LimitKey(of)); ok {
			return func() error {
				_, _, err := g.keeper.ServedLimit(schema.LimitKey(of))
				return err
			}
		}
	case "rate":
		name, _, _ := strings.Cut(of, "/")
		return g.tenant(name)
	}
	first := g.keeper.cfg.Homes.Names()[0]
	return func() error {
		_, err := g.keeper.ServedHome(first)
		return err
	}
}

// SwapLease implements schema.LeaseStore. Who takes a lease asks again before it acts, so success is
// told as it is.
func (g *Guarded) SwapLease(ctx context.Context, was, is schema.Lease, expires time.Time) (schema.Lease, error) {
	ends := strings.HasPrefix(is.Key, "run/") && was.Holder != nil && is.Holder == nil
	if err := g.lease(is.Key)(); err != nil && !ends {
		return schema.Lease{}, err
	}
	return g.Store.SwapLease(ctx, was, is, expires)
}

// CancelRun implements schema.MarkStore.
func (g *Guarded) CancelRun(ctx context.Context, id schema.RunID, asRead schema.EntryID, mark schema.Cancel, expires time.Time) (schema.Marks, error) {
	return g.mark(id, func() (schema.Marks, error) { return g.Store.CancelRun(ctx, id, asRead, mark, expires) })
}

// MoveRun implements schema.MarkStore.
func (g *Guarded) MoveRun(ctx context.Context, id schema.RunID, asRead, to schema.EntryID, expires time.Time) (schema.Marks, error) {
	return g.mark(id, func() (schema.Marks, error) { return g.Store.MoveRun(ctx, id, asRead, to, expires) })
}

// mark is decided for the marks of a run. With a conflict come the marks that stand.
func (g *Guarded) mark(id schema.RunID, set func() (schema.Marks, error)) (schema.Marks, error) {
	serves := g.shard(id.Shard())
	if err := serves(); err != nil {
		return schema.Marks{}, err
	}
	marks, err := set()
	if err == nil || errors.Is(err, schema.ErrConflict) {
		if lost := serves(); lost != nil {
			return schema.Marks{}, fmt.Errorf("%w: %w", schema.ErrUnknown, lost)
		}
	}
	return marks, err
}

// CreateJob implements schema.JobStore.
func (g *Guarded) CreateJob(ctx context.Context, j schema.Job) error {
	return decidedOnly(g.shard(j.ID.Shard()), func() error { return g.Store.CreateJob(ctx, j) })
}

// CreateJobs implements schema.JobBatchStore.
func (g *Guarded) CreateJobs(ctx context.Context, jobs []schema.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	return decidedOnly(g.shard(jobs[0].ID.Shard()), func() error { return g.Store.CreateJobs(ctx, jobs) })
}

// SwapJob implements schema.JobStore.
func (g *Guarded) SwapJob(ctx context.Context, was int64, j schema.Job) error {
	return decidedOnly(g.shard(j.ID.Shard()), func() error { return g.Store.SwapJob(ctx, was, j) })
}

// named is what RegisterName answers.
type named struct {
	holder schema.JobID
	since  time.Time
	mine   bool
}

// RegisterName implements schema.JobIndex.
func (g *Guarded) RegisterName(ctx context.Context, tenant, name string, id schema.JobID, at time.Time) (schema.JobID, time.Time, bool, error) {
	n, err := decided(g.tenant(tenant), func() (n named, err error) {
		n.holder, n.since, n.mine, err = g.Store.RegisterName(ctx, tenant, name, id, at)
		return n, err
	})
	return n.holder, n.since, n.mine, err
}

// TransferName implements schema.JobIndex.
func (g *Guarded) TransferName(ctx context.Context, tenant, name string, from, to schema.JobID, at time.Time) error {
	return decidedOnly(g.tenant(tenant), func() error { return g.Store.TransferName(ctx, tenant, name, from, to, at) })
}

// registered is what RegisterKey answers.
type registered struct {
	record schema.KeyRecord
	mine   bool
}

// RegisterKey implements schema.KeyStore.
func (g *Guarded) RegisterKey(ctx context.Context, tenant, key string, claim schema.KeyRecord, expires time.Time) (schema.KeyRecord, bool, error) {
	r, err := decided(g.tenant(tenant), func() (r registered, err error) {
		r.record, r.mine, err = g.Store.RegisterKey(ctx, tenant, key, claim, expires)
		return r, err
	})
	return r.record, r.mine, err
}

// CreateAPIKey implements schema.APIKeyStore.
func (g *Guarded) CreateAPIKey(ctx context.Context, k schema.APIKey) error {
	return decidedOnly(g.tenant(k.Tenant), func() error { return g.Store.CreateAPIKey(ctx, k) })
}

// DeleteAPIKey implements schema.APIKeyStore.
func (g *Guarded) DeleteAPIKey(ctx context.Context, tenant, name string, at time.Time) (schema.APIKey, error) {
	return decided(g.tenant(tenant), func() (schema.APIKey, error) { return g.Store.DeleteAPIKey(ctx, tenant, name, at) })
}

// SwapSigningKeys implements schema.SigningKeyStore.
func (g *Guarded) SwapSigningKeys(ctx context.Context, tenant string, was int64, is schema.SigningKeys) error {
	return decidedOnly(g.tenant(tenant), func() error { return g.Store.SwapSigningKeys(ctx, tenant, was, is) })
}

// SwapSecret implements schema.SecretStore.
func (g *Guarded) SwapSecret(ctx context.Context, was int64, is schema.Secret) error {
	return decidedOnly(g.tenant(is.Tenant), func() error { return g.Store.SwapSecret(ctx, was, is) })
}

// DeleteSecret implements schema.SecretStore.
func (g *Guarded) DeleteSecret(ctx context.Context, tenant, name string, was int64) error {
	return decidedOnly(g.tenant(tenant), func() error { return g.Store.DeleteSecret(ctx, tenant, name, was) })
}

// SwapNotificationGroup implements schema.IncidentStore.
func (g *Guarded) SwapNotificationGroup(ctx context.Context, was int64, is schema.NotificationGroup) error {
	return decidedOnly(g.tenant(is.Tenant), func() error { return g.Store.SwapNotificationGroup(ctx, was, is) })
}

// DeleteNotificationGroup implements schema.IncidentStore.
func (g *Guarded) DeleteNotificationGroup(ctx context.Context, tenant, name string, was int64) error {
	return decidedOnly(g.tenant(tenant), func() error { return g.Store.DeleteNotificationGroup(ctx, tenant, name, was) })
}
