package embedded_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a store that the test closes at its end.
func open(t *testing.T, cfg embedded.Config) *embedded.Store {
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
