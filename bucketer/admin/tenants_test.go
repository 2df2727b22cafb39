package admin

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
)

// tenantsOn returns Tenants over a store in memory, shared by so many nodes.
func tenantsOn(t *testing.T, nodes *int) *Tenants {
	t.Helper()
	return NewTenants(bucketertest.OpenStore(t), bucketertest.Signals(nil), time.Now, func() int { return *nodes })
}

// state states quotas of a tenant.
func state(t *testing.T, tenants *Tenants, name string, q schema.Quotas) {
	t.Helper()
	if _, _, err := tenants.PutTenant(t.Context(), schema.Tenant{Name: name, Weight: 1, Quotas: q}); err != nil {
		t.Fatalf("PutTenant = %v", err)
	}
}

// admitted returns how many of n runs are admitted at once, and the last refusal.
func admitted(t *testing.T, tenants *Tenants, name string, n, bytes int) (count int, refused *QuotaError) {
	t.Helper()
	for range n {
		err := tenants.AdmitRun(t.Context(), name, bytes)
		if err == nil {
			count++
		} else if !errors.As(err, &refused) || !errors.Is(err, ErrQuota) {
			t.Fatalf("AdmitRun = %v, want a QuotaError", err)
		}
	}
	return count, refused
}

func TestTenantsHaveDefaults(t *testing.T) {
	one := 1
	tenants := tenantsOn(t, &one)
	got, err := tenants.Tenant(t.Context(), "a")
	if err != nil || got != (schema.Tenant{Name: "a", Weight: 1}) {
		t.Errorf("Tenant = %+v, %v; want weight 1 and nothing else", got, err)
	}
	stored, was, err := tenants.PutTenant(t.Context(), schema.Tenant{Name: "a", Weight: 5})
	if err != nil || was != got || stored.Weight != 5 || stored.CreatedAt.IsZero() {
		t.Errorf("PutTenant = %+v, %+v, %v", stored, was, err)
	}
	again, was, err := tenants.PutTenant(t.Context(), schema.Tenant{Name: "a", Weight: 6})
	if err != nil || was.Weight != 5 || !again.CreatedAt.Equal(stored.CreatedAt) {
		t.Errorf("PutTenant again = %+v, %+v, %v; want that it was made at %v", again, was, err, stored.CreatedAt)
	}
}

// Nodes read the retentions of tenants that are noted to have one; for others nothing is noted.
func TestARetentionIsNotedForAllNodes(t *testing.T) {
	one := 1
	tenants := tenantsOn(t, &one)
	for name, days := range map[string]int{"a": 2, "b": 0} {
		if _, _, err := tenants.PutTenant(t.Context(), schema.Tenant{Name: name, Weight: 1, Retention: days}); err != nil {
			t.Fatalf("PutTenant = %v", err)
		}
		if got, err := tenants.Retention(t.Context(), name); err != nil || got != days {
			t.Errorf("Retention(%s) = %d, %v; want %d", name, got, err, days)
		}
	}
	if names, err := tenants.store.(schema.SubscriptionStore).Listening(t.Context(), "", 10); err != nil || !slices.Equal(names, []string{schema.Keeping("a")}) {
		t.Errorf("noted are %q, %v; want %s alone", names, err, schema.Keeping("a"))
	}
	if most, err := tenants.MaxRetention(t.Context()); err != nil || most != 7 {
		t.Errorf("MaxRetention = %d, %v; want the 7 days of the store", most, err)
	}
}

func TestRunsAMinuteAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := 1
		tenants := tenantsOn(t, &nodes)
		if n, _ := admitted(t, tenants, "a", 1000, 1<<20); n != 1000 {
			t.Errorf("without quotas %d of 1000 runs are admitted", n)
		}
		state(t, tenants, "a", schema.Quotas{RunsPerMinute: 60})
		n, refused := admitted(t, tenants, "a", 100, 0)
		if n != 60 || refused == nil || refused.Quota != "runs_per_minute" || refused.Limit != 60 || refused.RetryAfter <= 0 || refused.RetryAfter > time.Second {
			t.Errorf("of a quota of 60 a minute %d are admitted at once, then %+v; want 60, and to wait a second", n, refused)
		}
		if n, _ := admitted(t, tenants, "b", 100, 0); n != 100 {
			t.Errorf("of another tenant %d of 100 are admitted", n)
		}
		time.Sleep(refused.RetryAfter)
		if n, _ := admitted(t, tenants, "a", 100, 0); n != 1 {
			t.Errorf("after the time that was told %d are admitted, want 1", n)
		}
		time.Sleep(10 * time.Minute)
		if n, _ := admitted(t, tenants, "a", 100, 0); n != 60 {
			t.Errorf("after ten minutes of rest %d are admitted at once, want 60", n)
		}
		nodes = 4 // three more nodes share it now
		time.Sleep(10 * time.Minute)
		if n, _ := admitted(t, tenants, "a", 100, 0); n != 15 {
			t.Errorf("of a quarter of the quota %d are admitted, want 15", n)
		}
		state(t, tenants, "a", schema.Quotas{})
		if n, _ := admitted(t, tenants, "a", 1000, 0); n != 1000 {
			t.Errorf("when the quota is lifted %d of 1000 are admitted", n)
		}
	})
}

// What is refused for its bytes has not used up a run.
func TestBytesAMinuteAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := 1
		tenants := tenantsOn(t, &nodes)
		state(t, tenants, "a", schema.Quotas{RunsPerMinute: 20, PayloadBytesPerMinute: 10 * schema.MaxPayload})
		n, refused := admitted(t, tenants, "a", 50, schema.MaxPayload)
		if n != 10 || refused == nil || refused.Quota != "payload_bytes_per_minute" {
			t.Errorf("%d payloads are admitted, then %+v; want 10, and a refusal for their bytes", n, refused)
		}
		if n, _ := admitted(t, tenants, "a", 50, 0); n != 10 {
			t.Errorf("%d more runs without payload are admitted, want 10", n)
		}
		// A quota that is smaller than a payload only makes it wait.
		state(t, tenants, "b", schema.Quotas{PayloadBytesPerMinute: schema.MaxPayload / 2})
		if n, _ := admitted(t, tenants, "b", 2, schema.MaxPayload); n != 1 {
			t.Errorf("%d payloads larger than the quota are admitted at once, want 1", n)
		}
		time.Sleep(2*time.Minute + time.Second)
		if n, _ := admitted(t, tenants, "b", 2, schema.MaxPayload); n != 1 {
			t.Errorf("%d payloads larger than the quota are admitted after two minutes, want 1", n)
		}
	})
}

func TestLinesASecondAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := 1
		tenants := tenantsOn(t, &nodes)
		state(t, tenants, "a", schema.Quotas{ImportLinesPerSecond: 100})
		begin := time.Now()
		for range 1000 {
			for {
				wait, err := tenants.AdmitLine(t.Context(), "a")
				if err != nil {
					t.Fatal(err)
				}
				if wait == 0 {
					break
				}
				time.Sleep(wait)
			}
		}
		if took := time.Since(begin); took < 8900*time.Millisecond || took > 9100*time.Millisecond {
			// the first hundred at once
			t.Errorf("1000 lines at 100 a second took %v, want 9 s", took)
		}
		if wait, err := tenants.AdmitLine(t.Context(), "b"); wait != 0 || err != nil {
			t.Errorf("AdmitLine of another tenant = %v, %v; want 0", wait, err)
		}
	})
}

// Jobs are counted seldom while there is room, and again soon when there is none.
func TestJobsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := 1
		tenants := tenantsOn(t, &one)
		jobs, counts := 0, 0
		count := func(_ context.Context, most int) (int, error) {
			counts++
			return min(jobs, most), nil
		}
		create := func(n int) (made int) {
			for range n {
				err := tenants.AdmitJob(t.Context(), "a", count)
				var refused *QuotaError
				switch {
				case err == nil:
					made++
					jobs++
				case !errors.As(err, &refused) || refused.Quota != "jobs" || refused.Limit != 10 || refused.RetryAfter <= 0 || refused.RetryAfter > jobsRetry:
					t.Fatalf("AdmitJob = %v, want a QuotaError of 10 jobs", err)
				}
			}
			return made
		}
		if made := create(100); made != 100 || counts != 0 {
			t.Errorf("without quota %d of 100 are made, and they are counted %d times", made, counts)
		}
		jobs = 3
		state(t, tenants, "a", schema.Quotas{Jobs: 10})
		if made := create(100); made != 7 || counts != 1 {
			t.Errorf("beside 3 of 10, %d are made, counted %d times; want 7, counted once", made, counts)
		}
		jobs = 5 // some have ended
		if made := create(10); made != 0 || counts != 1 {
			t.Errorf("at once after that %d are made, counted %d times; want none, not counted again", made, counts)
		}
		time.Sleep(jobsRetry)
		if made := create(10); made != 5 || counts != 2 {
			t.Errorf("when five have ended %d are made, counted %d times; want 5, counted again", made, counts)
		}
		jobs = 100 // elsewhere
		time.Sleep(jobsAge)
		if made := create(10); made != 0 {
			t.Errorf("when others have made jobs %d are made, want none", made)
		}
	})
}

// A node that does not hear of a change knows it within 10 s. TestSchedulesCountInRunsAMinute: each
// executor has its share of the runs that schedules start, and what they take requests to the same
// node have no more, and the other way round.
func TestSchedulesCountInRunsAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucketers, executors := 1, 2
		tenants := tenantsOn(t, &bucketers).WithExecutors(func() int { return executors })
		scheduled := func(n int) (admitted int, apart time.Duration) {
			for range n {
				a, err := tenants.AdmitScheduled(t.Context(), "a")
				switch {
				case err != nil:
					t.Fatalf("AdmitScheduled = %v", err)
				case a == 0:
					admitted++
				default:
					apart = a
				}
			}
			return admitted, apart
		}
		if n, _ := scheduled(1000); n != 1000 {
			t.Errorf("without a quota %d of 1000 start", n)
		}
		state(t, tenants, "a", schema.Quotas{RunsPerMinute: 60})
		if n, apart := scheduled(100); n != 30 || apart != 2*time.Second {
			t.Errorf("%d of 100 start, the others %v apart; want 30, half of the quota, and 2 s", n, apart)
		}
		if n, _ := admitted(t, tenants, "a", 100, 0); n != 30 {
			t.Errorf("after 30 that were scheduled %d requests are admitted, want the 30 that are left", n)
		}
		time.Sleep(time.Minute)
		if n, _ := admitted(t, tenants, "a", 40, 0); n != 40 {
			t.Errorf("a minute later %d of 40 requests are admitted, want all", n)
		}
		if n, _ := scheduled(100); n != 0 {
			t.Errorf("after 40 requests %d start that are scheduled, want none: the share of 30 is used up", n)
		}
		time.Sleep(time.Minute)
		if n, _ := scheduled(100); n != 30 {
			t.Errorf("after a minute of rest %d start, want 30", n)
		}
	})
}

func TestQuotasOfOthersAreHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := 1
		here := tenantsOn(t, &one)
		there := NewTenants(here.store, bucketertest.Signals(nil), time.Now, func() int { return one })
		heard := NewTenants(here.store, bucketertest.Signals(nil), time.Now, func() int { return one })
		here.signals = bucketertest.Signals{func(topic string, body []byte) {
			if topic == schema.TopicTenant {
				heard.Changed(body)
			}
		}}
		for _, tenants := range []*Tenants{there, heard} {
			if n, _ := admitted(t, tenants, "a", 10, 0); n != 10 {
				t.Errorf("before the quota %d of 10 are admitted", n)
			}
		}
		if n, err := here.Concurrency(t.Context(), "a"); n != 0 || err != nil {
			t.Errorf("Concurrency of a tenant without quotas = %d, %v", n, err)
		}
		state(t, here, "a", schema.Quotas{RunsPerMinute: 1, Concurrency: 3})
		if n, err := here.Concurrency(t.Context(), "a"); n != 3 || err != nil {
			t.Errorf("Concurrency = %d, %v; want the 3 that were stated", n, err)
		}
		if n, _ := admitted(t, heard, "a", 10, 0); n != 1 {
			t.Errorf("where it was heard of %d are admitted, want 1", n)
		}
		time.Sleep(10 * time.Second)
		if n, _ := admitted(t, there, "a", 10, 0); n != 1 {
			t.Errorf("where nothing was heard of it %d are admitted after 10 s, want 1", n)
		}
	})
}

func TestAcknowledgedChangesOfTenantsStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := embedded.Open(embedded.Config{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		clock := func(d time.Duration) func() time.Time { return func() time.Time { return time.Now().Add(d) } }
		one := func() int { return 1 }
		for weight, d := range []time.Duration{1900 * time.Millisecond, -1900 * time.Millisecond, 0, 1900 * time.Millisecond, 0} {
			tenants := NewTenants(store, bucketertest.Signals(nil), clock(d), one)
			if _, _, err := tenants.PutTenant(t.Context(), schema.Tenant{Name: "t", Weight: weight + 1}); err != nil {
				t.Fatal(err)
			}
			if got, err := store.Tenant(t.Context(), "t"); err != nil || got.Weight != weight+1 {
				t.Fatalf("the tenant is %+v, %v, want weight %d", got, err, weight+1)
			}
		}
	})
}
