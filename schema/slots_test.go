package schema_test

import (
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// TestSlotsOfALimit: what a limit gives, keeps and takes back.
func TestSlotsOfALimit(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	a, b, c := schema.MakeEntryID(now, 1, 1), schema.MakeEntryID(now, 1, 2), schema.MakeEntryID(now, 1, 3)
	none := func(*schema.Slots) {}
	for _, tt := range []struct {
		name string
		have func(s *schema.Slots)
		do   func(s *schema.Slots) bool
		want bool
		runs int
	}{
		{"the first of one", none, func(s *schema.Slots) bool { return s.Acquire(a, "x", "1", 1) }, true, 1},
		{"the second of one", func(s *schema.Slots) { s.Acquire(a, "x", "1", 1) }, func(s *schema.Slots) bool { return s.Acquire(b, "x", "1", 1) }, false, 1},
		{"again under the same session", func(s *schema.Slots) { s.Acquire(a, "x", "1", 1) }, func(s *schema.Slots) bool { return s.Acquire(a, "x", "1", 1) }, true, 1},
		{"again under another session, with room", func(s *schema.Slots) { s.Acquire(a, "x", "1", 1) }, func(s *schema.Slots) bool { return s.Acquire(a, "y", "2", 5) }, false, 1},
		{"one that is kept for it", func(s *schema.Slots) { s.Keep(a, now, 1) }, func(s *schema.Slots) bool { return s.Acquire(a, "x", "1", 1) }, true, 1},
		{"one that is kept for another", func(s *schema.Slots) { s.Keep(a, now, 1) }, func(s *schema.Slots) bool { return s.Acquire(b, "x", "1", 1) }, false, 1},
		{"a limit that was lowered", func(s *schema.Slots) { s.Acquire(a, "x", "1", 2); s.Acquire(b, "x", "1", 2) }, func(s *schema.Slots) bool { return s.Acquire(c, "x", "1", 1) }, false, 2},
		{"keep where there is none", func(s *schema.Slots) { s.Acquire(a, "x", "1", 1) }, func(s *schema.Slots) bool { return s.Keep(b, now, 1) }, false, 1},
		{"keep for what has one", func(s *schema.Slots) { s.Acquire(a, "x", "1", 2) }, func(s *schema.Slots) bool { return s.Keep(a, now, 2) }, false, 1},
		{"leave", func(s *schema.Slots) { s.Acquire(a, "x", "1", 2); s.Acquire(b, "x", "1", 2) }, func(s *schema.Slots) bool { return s.Release(a, "1") }, true, 1},
		{"leave another session's", func(s *schema.Slots) { s.Acquire(a, "x", "1", 1) }, func(s *schema.Slots) bool { return s.Release(a, "2") }, false, 1},
		{"leave what is kept as if it were held", func(s *schema.Slots) { s.Keep(a, now, 1) }, func(s *schema.Slots) bool { return s.Release(a, "1") }, false, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s schema.Slots
			tt.have(&s)
			before := s
			if got := tt.do(&s); got != tt.want || len(s.Taken) != tt.runs {
				t.Errorf("got %v and %+v, want %v and %d taken", got, s.Taken, tt.want, tt.runs)
			}
			if _, ok := before.Of(b); ok && len(before.Taken) != 2 {
				t.Errorf("what was read before was changed: %+v", before.Taken)
			}
		})
	}

	var s schema.Slots
	s.Acquire(a, "x", "1", 9)
	s.Acquire(b, "y", "2", 9)
	s.Keep(c, now.Add(time.Second), 9)
	if rows := s.Sessions(); len(rows) != 2 || rows[0].Session.Executor != "x" || rows[1].Session.ID != "2" {
		t.Errorf("Sessions = %+v, want those of x and y", rows)
	}
	pruned := s
	pruned.Prune(now, func(ref schema.SessionRef) bool { return ref.Executor == "y" })
	if _, ok := pruned.Of(a); ok || len(pruned.Taken) != 2 || len(s.Taken) != 3 {
		t.Errorf("Prune with x dead = %+v, want b and c (of %+v)", pruned.Taken, s.Taken)
	}
	pruned.Prune(now.Add(time.Second), func(schema.SessionRef) bool { return true })
	if _, ok := pruned.Of(c); ok || len(pruned.Taken) != 1 {
		t.Errorf("Prune when the time of c has run out = %+v, want b alone", pruned.Taken)
	}
}

// TestSlotsAreWhatTheLeaseSays: written and read again they are the same, and no two writes are.
func TestSlotsAreWhatTheLeaseSays(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	id := schema.MakeJobID(now, 3, 7)
	key := schema.JobLimit(id)
	if got, ok := key.Job(); !ok || got != id {
		t.Errorf("Job of %s = %v, %v; want %v", key, got, ok, id)
	}
	if _, ok := schema.LimitKey("task/t/x").Job(); ok {
		t.Error("a task's limit is taken for a job's")
	}
	free := schema.Lease{Key: key.Lease()}
	var s schema.Slots
	s.Acquire(schema.MakeEntryID(now, 3, 1), "x", "1", 2)
	s.Keep(schema.MakeEntryID(now, 3, 2), now, 2)
	is, err := free.WithSlots(s, now)
	if err != nil || is.Key != free.Key || is.Holder != nil {
		t.Fatalf("WithSlots = %+v, %v", is, err)
	}
	got, err := is.Slots()
	if err != nil || len(got.Taken) != 2 || got.Taken[0] != s.Taken[0] || !got.Taken[1].Until.Equal(now) || !got.Taken[1].Kept() {
		t.Errorf("Slots = %+v, %v; want %+v", got, err, s)
	}
	empty, err := is.WithSlots(schema.Slots{}, now.Add(-time.Hour))
	if err != nil || empty.Fence <= is.Fence || len(empty.Record) != 0 {
		t.Errorf("WithSlots of none = %+v, %v; want a higher fence and no record", empty, err)
	}
	if _, err := (schema.Lease{Record: []byte("{")}).Slots(); err == nil {
		t.Error("Slots of a broken record: no error")
	}
}

// TestTheLargestLimitFitsIntoItsLease: as many slots as a job may ask for, under names as long as
// they come, are far from the 1 MiB that a row may have.
func TestTheLargestLimitFitsIntoItsLease(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	var s schema.Slots
	for i := range 1000 {
		s.Acquire(schema.MakeEntryID(now, 1, uint64(i)), strings.Repeat("x", 63), strings.Repeat("s", 16), 1000)
	}
	is, err := schema.Lease{}.WithSlots(s, now)
	if err != nil || len(s.Taken) != 1000 || len(is.Record) > 256<<10 {
		t.Errorf("WithSlots of %d = %d bytes, %v; want at most 256 KiB for 1000", len(s.Taken), len(is.Record), err)
	}
}
