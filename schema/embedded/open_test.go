package embedded_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
)

func TestConfigReportsEveryFault(t *testing.T) {
	err := embedded.Config{Shards: schema.MaxShards + 1, Retention: -1}.Validate()
	for _, want := range []string{"shards", "retention"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want a fault of %s", err, want)
		}
	}
	if _, err := embedded.Open(embedded.Config{Shards: -1}); err == nil {
		t.Error("Open with -1 shards = no error")
	}
}

func TestNewStoreHasSettingsAndCursors(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 30, 0, time.UTC)
	s := open(t, embedded.Config{Shards: 3, Retention: time.Hour, Now: func() time.Time { return now }})
	settings, err := s.Settings(t.Context())
	if err != nil || settings.Shards != 3 || settings.Retention != time.Hour {
		t.Errorf("Settings = %+v, %v; want 3 shards and 1 h", settings, err)
	}
	before := schema.BucketOf(now) - 2
	var want []schema.Cursor
	for shard := range schema.Shard(3) {
		want = append(want, schema.Cursor{Shard: shard, Epoch: 1, Dispatched: before, Settled: before})
	}
	if got, err := s.Cursors(t.Context()); err != nil || !slices.Equal(got, want) {
		t.Errorf("Cursors = %+v, %v; want %+v", got, err, want)
	}
}

// What was acknowledged is there when the directory is opened again; its settings and cursors are
// its own.
func TestDirectoryKeepsEverything(t *testing.T) {
	cfg := embedded.Config{Dir: t.TempDir(), Shards: 2, Retention: time.Hour}
	now := time.Now()
	e := entry(t, now, 1, "payload", now.Add(time.Hour))
	cursor := schema.Cursor{Shard: 1, Epoch: 1, Dispatched: schema.BucketOf(now) + 5, Settled: schema.BucketOf(now) + 4}
	t.Run("written", func(t *testing.T) {
		s := open(t, cfg)
		if err := s.PutEntries(t.Context(), []schema.Entry{e}); err != nil {
			t.Errorf("PutEntries = %v", err)
		}
		if err := s.AdvanceCursor(t.Context(), cursor); err != nil {
			t.Errorf("AdvanceCursor = %v", err)
		}
		if _, err := embedded.Open(cfg); err == nil {
			t.Error("Open of a directory that is open = no error")
		}
	})
	t.Run("read", func(t *testing.T) {
		cfg.Shards, cfg.Retention = 9, time.Minute
		s := open(t, cfg)
		got, err := s.Entries(t.Context(), e.ID.Partition(), schema.IDRange{}, 9)
		if err != nil || len(got) != 1 || string(got[0].Text()) != string(e.Text()) || string(got[0].Payload) != "payload" {
			t.Errorf("Entries = %v, %v; want the entry", got, err)
		}
		if got, err := s.Cursor(t.Context(), 1); err != nil || got != cursor {
			t.Errorf("Cursor = %+v, %v; want %+v", got, err, cursor)
		}
		if got, err := s.Settings(t.Context()); err != nil || got.Shards != 2 || got.Retention != time.Hour {
			t.Errorf("Settings = %+v, %v; want 2 shards and 1 h", got, err)
		}
	})
}

// dirEnv makes the test that finds it the other process of TestDirectoryOfAnotherProcess.
const dirEnv = "CARILLON_TEST_STORE"

// The lock of a directory is told for what it is, not in the words of the system.
func TestDirectoryOfAnotherProcess(t *testing.T) {
	if dir := os.Getenv(dirEnv); dir != "" {
		_, err := embedded.Open(embedded.Config{Dir: dir})
		if !errors.Is(err, embedded.ErrInUse) || !strings.Contains(err.Error(), dir) {
			t.Errorf("Open of a directory that another process has open = %v, want ErrInUse and the directory", err)
		}
		return
	}
	dir := t.TempDir()
	open(t, embedded.Config{Dir: dir})
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$") // #nosec G204 -- this program
	cmd.Env = append(os.Environ(), dirEnv+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the other process: %v\n%s", err, out)
	}
}

// batch makes n entries of one partition.
func batch(tb testing.TB, due time.Time, n int) []schema.Entry {
	tb.Helper()
	entries := make([]schema.Entry, n)
	for i := range entries {
		spec := schema.Spec{Tenant: "tenant", Nominal: due, Accepted: due.UnixMicro(), Task: "task"}
		id := schema.MakeEntryID(due.Add(time.Duration(i)*time.Millisecond), 1, schema.RandomHash())
		e, err := schema.NewEntry(id, spec, []byte(`{"hello":"world"}`), due.Add(time.Hour))
		if err != nil {
			tb.Fatalf("NewEntry = %v", err)
		}
		entries[i] = e
	}
	return entries
}

// maxPutAllocs bounds the allocations of one PutEntries of 100 rows: none of them is for a row.
const maxPutAllocs = 30

func TestPutEntriesDoesNotAllocateByRow(t *testing.T) {
	s := open(t, embedded.Config{})
	entries := batch(t, time.Now().Truncate(time.Minute), 100)
	got := testing.AllocsPerRun(100, func() {
		if err := s.PutEntries(t.Context(), entries); err != nil {
			t.Errorf("PutEntries = %v", err)
		}
	})
	if got > maxPutAllocs {
		t.Errorf("PutEntries of 100 rows allocates %.0f times, want at most %d", got, maxPutAllocs)
	}
}

// benchRows is how many rows a benchmark's batch has.
const benchRows = 100

func BenchmarkPutEntries(b *testing.B) {
	for name, cfg := range map[string]embedded.Config{"memory": {}, "disk": {Dir: b.TempDir()}} {
		b.Run(name, func(b *testing.B) {
			s, err := embedded.Open(cfg)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			due := time.Now().Truncate(time.Minute)
			entries := batch(b, due, benchRows)
			for b.Loop() {
				for i := range entries {
					entries[i].ID = schema.MakeEntryID(due.Add(time.Duration(i)*time.Millisecond), 1, schema.RandomHash())
				}
				if err := s.PutEntries(b.Context(), entries); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*benchRows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func BenchmarkEntries(b *testing.B) {
	s, err := embedded.Open(embedded.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	entries := batch(b, time.Now().Truncate(time.Minute), 1000)
	if err := s.PutEntries(b.Context(), entries); err != nil {
		b.Fatal(err)
	}
	p := entries[0].ID.Partition()
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			if got, err := s.Entries(b.Context(), p, schema.IDRange{}, 2000); err != nil || len(got) != 1000 {
				b.Fatal(len(got), err)
			}
		}
		b.ReportMetric(float64(b.N*1000)/b.Elapsed().Seconds(), "rows/s")
	})
	b.Run("ids", func(b *testing.B) {
		for b.Loop() {
			if got, err := s.EntryIDs(b.Context(), p, schema.IDRange{}, 2000); err != nil || len(got) != 1000 {
				b.Fatal(len(got), err)
			}
		}
		b.ReportMetric(float64(b.N*1000)/b.Elapsed().Seconds(), "rows/s")
	})
}

func BenchmarkPutAttempts(b *testing.B) {
	s, err := embedded.Open(embedded.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	due := time.Now().Truncate(time.Minute)
	attempts := make([]schema.Attempt, benchRows)
	for b.Loop() {
		for i := range attempts {
			attempts[i] = schema.Attempt{
				Run: schema.MakeEntryID(due, 1, schema.RandomHash()), Number: 1, Fence: schema.MakeFence(due), Expires: due.Add(time.Hour),
				Record: &schema.Record{Executor: "executor", Started: due, Finished: due, Outcome: schema.Succeeded},
			}
		}
		if err := s.PutAttempts(b.Context(), attempts); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*benchRows)/b.Elapsed().Seconds(), "rows/s")
}
