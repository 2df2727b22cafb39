package homes_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/homes"
)

// guardedWrites does every conditional write of rows whose shard is given and whose tenant is: of the
// tenants, "t" is at home in eu, "u" in us.
func guardedWrites(s schema.Store, shard schema.Shard, tenant string) map[string]error {
	ctx, now := context.Background(), time.Now()
	run := schema.MakeEntryID(now, shard, 7)
	job := schema.Job{ID: schema.MakeJobID(now, shard, 7), Current: schema.Generation{Number: 1, State: schema.JobActive, Spec: schema.JobSpec{Tenant: tenant}}}
	got := make(map[string]error)
	_, got["CancelRun"] = s.CancelRun(ctx, run, schema.EntryID{}, schema.Cancel{At: now}, now.Add(time.Hour))
	_, got["MoveRun"] = s.MoveRun(ctx, run, schema.EntryID{}, run, now.Add(time.Hour))
	got["CreateJob"] = s.CreateJob(ctx, job)
	got["CreateJobs"] = s.CreateJobs(ctx, []schema.Job{job})
	got["SwapJob"] = s.SwapJob(ctx, 0, job)
	_, _, got["RegisterKey"] = s.RegisterKey(ctx, tenant, "k", schema.KeyRecord{Entry: run}, now.Add(time.Hour))
	_, _, _, got["RegisterName"] = s.RegisterName(ctx, tenant, "n", job.ID, now)
	got["TransferName"] = s.TransferName(ctx, tenant, "n", job.ID, schema.JobID{}, now)
	got["CreateAPIKey"] = s.CreateAPIKey(ctx, schema.APIKey{Tenant: tenant, Name: "n", Hash: schema.HashKey(tenant)})
	_, got["DeleteAPIKey"] = s.DeleteAPIKey(ctx, tenant, "n", now)
	got["SwapSigningKeys"] = s.SwapSigningKeys(ctx, tenant, 0, schema.SigningKeys{Revision: 1})
	got["SwapSecret"] = s.SwapSecret(ctx, 0, schema.Secret{Tenant: tenant, Name: "n", Revision: 1})
	got["DeleteSecret"] = s.DeleteSecret(ctx, tenant, "n", 1)
	held := &schema.SessionRef{Executor: "x", ID: "s", Started: now.UTC().Truncate(time.Millisecond)}
	for _, key := range []string{
		schema.RunLease(run), schema.JobLimit(job.ID).Lease(), (&schema.Spec{Job: job.ID, ConcurrencyValue: "aa"}).Limit().Lease(),
		schema.TaskLimit(schema.TaskName{Tenant: tenant, Name: "n"}).Lease(), schema.TenantLimit(tenant).Lease(), schema.RateLease(schema.TaskName{Tenant: tenant, Name: "n"}, schema.Rate{Count: 1, Per: time.Second}),
	} {
		_, got["SwapLease "+key] = s.SwapLease(ctx, schema.Lease{}, schema.Lease{Key: key, Fence: 1, Holder: held}, now.Add(time.Hour))
	}
	return got
}

// TestConditionalWritesAreOfHomesThatAreServed: what our region does not serve is refused before
// anything is written, and everything else goes through.
func TestConditionalWritesAreOfHomesThatAreServed(t *testing.T) {
	inWorld(t, func(w *world) {
		h, err := w.homes.WithTenants(map[string]string{"u": "us"})
		if err != nil {
			t.Fatal(err)
		}
		w.homes = h
		eu, _, stop := w.start("eu", "a")
		defer stop()
		g := eu.Guard(w.store)
		for what, err := range guardedWrites(g, 2, "u") {
			if !errors.Is(err, schema.ErrNotServed) || errors.Is(err, schema.ErrUnknown) {
				t.Errorf("%s of home us = %v, want ErrNotServed", what, err)
			}
		}
		for what, err := range guardedWrites(g, 0, "t") {
			if errors.Is(err, schema.ErrNotServed) {
				t.Errorf("%s of home eu = %v, want it done", what, err)
			}
		}
	})
}

// losing is a store that loses the lease on the homes while it writes.
type losing struct {
	schema.Store
	lose func()
}

func (l losing) RegisterKey(ctx context.Context, tenant, key string, claim schema.KeyRecord, expires time.Time) (schema.KeyRecord, bool, error) {
	defer l.lose()
	return l.Store.RegisterKey(ctx, tenant, key, claim, expires)
}

func (l losing) CancelRun(ctx context.Context, id schema.RunID, asRead schema.EntryID, mark schema.Cancel, expires time.Time) (schema.Marks, error) {
	defer l.lose()
	return l.Store.CancelRun(ctx, id, asRead, mark, expires)
}

// TestADecisionAfterTheLeaseIsUnknown: where the lease ends while a write is under way, nobody is told
// that it stands.
func TestADecisionAfterTheLeaseIsUnknown(t *testing.T) {
	for what, write := range map[string]func(g schema.Store, run schema.RunID) error{
		"RegisterKey": func(g schema.Store, run schema.RunID) error {
			_, _, err := g.RegisterKey(context.Background(), "t", "k", schema.KeyRecord{Entry: run}, time.Now().Add(time.Hour))
			return err
		},
		"CancelRun": func(g schema.Store, run schema.RunID) error {
			_, err := g.CancelRun(context.Background(), run, schema.EntryID{}, schema.Cancel{At: time.Now()}, time.Now().Add(time.Hour))
			return err
		},
	} {
		inWorld(t, func(w *world) {
			eu, link, stop := w.start("eu", "a")
			defer stop()
			e, err := schema.NewEntry(schema.MakeEntryID(time.Now(), 0, 1), schema.Spec{Tenant: "t"}, nil, time.Now().Add(time.Hour))
			if err == nil {
				err = w.store.PutEntries(t.Context(), []schema.Entry{e})
			}
			if err != nil {
				t.Fatal(err)
			}
			g := eu.Guard(losing{w.store, func() {
				link.set(true)
				time.Sleep(schema.HomeLeaseLife)
			}})
			if err := write(g, e.ID); !errors.Is(err, schema.ErrUnknown) || !errors.Is(err, schema.ErrNotServed) {
				t.Errorf("%s: the lease ended during it: %v, want ErrUnknown that names the home", what, err)
			}
		})
	}
}

// TestAHolderMayEndItsRun: an outcome is recorded without the lease on the home, and nothing is claimed.
func TestAHolderMayEndItsRun(t *testing.T) {
	inWorld(t, func(w *world) {
		eu, link, stop := w.start("eu", "a")
		defer stop()
		g := eu.Guard(w.store)
		key, until := schema.RunLease(schema.MakeEntryID(time.Now(), 0, 1)), time.Now().Add(time.Hour)
		held := schema.Lease{Key: key, Fence: 1, Holder: &schema.SessionRef{Executor: "x", ID: "s", Started: time.Now().UTC().Truncate(time.Millisecond)}}
		if _, err := g.SwapLease(t.Context(), schema.Lease{}, held, until); err != nil {
			t.Fatal(err)
		}
		link.set(true)
		time.Sleep(schema.HomeLeaseLife)
		synctest.Wait()
		if _, err := g.SwapLease(t.Context(), held, held.Released(), until); err != nil {
			t.Errorf("the holder ends it without the lease on the home: %v, want nil", err)
		}
		if _, err := g.SwapLease(t.Context(), held.Released(), held, until); !errors.Is(err, schema.ErrNotServed) {
			t.Errorf("it is claimed without the lease on the home: %v, want ErrNotServed", err)
		}
	})
}

var _ schema.Store = (*homes.Guarded)(nil)
