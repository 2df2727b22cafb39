package embedded_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a store that the test closes at its end.
func open(t testing.TB, cfg embedded.Config) *embedded.Store {
	t.Helper()
	s, err := embedded.Open(cfg)
	if err != nil {
		t.Fatalf("Open(%+v) = %v", cfg, err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return s
}

// entry returns an entry due at due, which leaves at expires.
func entry(t *testing.T, due time.Time, shard schema.Shard, payload string, expires time.Time) schema.Entry {
	t.Helper()
	spec := schema.Spec{Tenant: "t", Nominal: due, Accepted: due.UnixMicro(), Task: "task"}
	e, err := schema.NewEntry(schema.MakeEntryID(due, shard, schema.RandomHash()), spec, []byte(payload), expires)
	if err != nil {
		t.Fatalf("NewEntry = %v", err)
	}
	return e
}

// A store lives and dies within a bubble, whose clock is not held up by it.
func TestStoreLivesInABubble(t *testing.T) {
	for range 3 { // what one bubble leaves in pools, the next one must be able to use
		synctest.Test(t, func(t *testing.T) {
			s := open(t, embedded.Config{})
			begin := time.Now()
			e := entry(t, begin.Add(time.Hour), 3, "payload", begin.Add(2*time.Hour))
			if err := s.PutEntries(t.Context(), []schema.Entry{e}); err != nil {
				t.Fatalf("PutEntries = %v", err)
			}
			for i, want := range []int{1, 1, 0} {
				got, err := s.Entries(t.Context(), e.ID.Partition(), schema.IDRange{}, 10)
				if err != nil || len(got) != want {
					t.Errorf("Entries after %d h = %d entries, %v; want %d", i, len(got), err, want)
				}
				time.Sleep(time.Hour)
			}
		})
	}
}

// fast is a clock that runs twenty times as fast as the real one, so that what expires does so
// soon.
func fast() func() time.Time {
	begin := time.Now()
	return func() time.Time { return begin.Add(20 * time.Since(begin)) }
}

func TestContract(t *testing.T) {
	schematest.Exercise(t, func(t *testing.T) schema.Store { return open(t, embedded.Config{Now: fast()}) })
}

func TestContractOnDisk(t *testing.T) {
	schematest.Exercise(t, func(t *testing.T) schema.Store { return open(t, embedded.Config{Dir: t.TempDir(), Now: fast()}) })
}

// The contract holds through a store that delays, fails, loses answers, tears batches and writes
// late, for whoever repeats what may be repeated.
func TestContractThroughFaults(t *testing.T) {
	odds := schematest.Odds{Delay: 0.1, Fail: 0.1, Lose: 0.2, Tear: 0.1, Late: 0.1}
	schematest.Exercise(t, func(t *testing.T) schema.Store {
		seed := rand.Uint64()
		t.Logf("seed of the faults: %d", seed)
		s := schematest.Faulty(open(t, embedded.Config{Now: fast()}), schematest.Seeded(seed, odds))
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("Close() = %v", err)
			}
		})
		return schematest.Retrying(s)
	})
}
