package embedded_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
)

// backwards opens a store whose clock the test sets: when it is set back, what was removed stays
// away, and what has merely expired is seen again.
func backwards(t *testing.T, now time.Time) (s *embedded.Store, set func(time.Time)) {
	t.Helper()
	clock := now
	return open(t, embedded.Config{Now: func() time.Time { return clock }}), func(now time.Time) { clock = now }
}

func TestExpireRemovesWholeBuckets(t *testing.T) {
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s, set := backwards(t, begin)
	ctx := t.Context()
	large := string(make([]byte, schema.MaxPayload))
	// One entry a minute that leaves an hour after its due time, but for the one of minute 3, which
	// has a late companion.
	var all []schema.Entry
	for minute := range 6 {
		due := begin.Add(time.Duration(minute) * time.Minute)
		all = append(all, entry(t, due, 1, large, due.Add(time.Hour)))
	}
	companion := entry(t, begin.Add(3*time.Minute), 2, "", begin.Add(24*time.Hour))
	if err := s.PutEntries(ctx, append(all, companion)); err != nil {
		t.Fatalf("PutEntries = %v", err)
	}
	for i, e := range all {
		a := schema.Attempt{Run: e.ID, Number: 1, Fence: 1, Record: &schema.Record{Outcome: schema.Failed}, Expires: e.Expires}
		if err := s.PutAttempts(ctx, []schema.Attempt{a}); err != nil {
			t.Fatalf("PutAttempts %d = %v", i, err)
		}
		if err := s.PutPart(ctx, e.ID, schema.OutputPart, schema.Part{PartKey: schema.PartKey{Attempt: 1, Fence: 1, Number: 1}, Data: []byte("x")}, 1, e.Expires); err != nil {
			t.Fatalf("PutPart %d = %v", i, err)
		}
	}
	for _, step := range []struct {
		after   time.Duration
		removed int
		left    string // which of the six are still stored
	}{
		{0, 0, "012345"},
		{time.Hour + 30*time.Second, 0, "012345"}, // lifetimes are noted to the minute
		{time.Hour + time.Minute, 1, "12345"},
		{time.Hour + 5*time.Minute, 3, "35"}, // 1, 2 and 4, around what keeps 3
		{time.Hour + 5*time.Minute, 0, "35"},
		{23 * time.Hour, 1, "3"},
		{25 * time.Hour, 1, ""},
	} {
		now := begin.Add(step.after)
		set(now)
		if removed, err := s.Expire(ctx, now); err != nil || removed != step.removed {
			t.Errorf("Expire after %v = %d, %v; want %d", step.after, removed, err, step.removed)
		}
		set(begin)
		left, leftRows := "", ""
		for i, e := range all {
			if got, err := s.Entries(ctx, e.ID.Partition(), schema.IDRange{}, 9); err != nil {
				t.Errorf("Entries = %v", err)
			} else if len(got) > 0 {
				left += fmt.Sprint(i)
			}
			rows := 0
			if _, err := s.Payload(ctx, e.ID); err == nil {
				rows++
			}
			if got, err := s.Attempts(ctx, e.ID.Partition(), []schema.RunID{e.ID}); err == nil {
				rows += len(got)
			}
			if got, err := s.Parts(ctx, e.ID, schema.OutputPart, schema.PartKey{}, 9); err == nil {
				rows += len(got)
			}
			if rows == 3 {
				leftRows += fmt.Sprint(i)
			} else if rows != 0 {
				t.Errorf("after %v %d rows of entry %d are left, want 3 or none", step.after, rows, i)
			}
		}
		if left != step.left || leftRows != step.left {
			t.Errorf("after %v the entries %q and the other rows of %q are left, want %q", step.after, left, leftRows, step.left)
		}
	}
}

// An expired claim is removed, unless its key was claimed anew meanwhile.
func TestExpireRemovesClaims(t *testing.T) {
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s, set := backwards(t, begin)
	ctx := t.Context()
	claim := func(key, hash string, expires time.Time) (inForce string) {
		t.Helper()
		got, _, err := s.RegisterKey(ctx, "tenant", key, schema.KeyRecord{BodyHash: hash}, expires)
		if err != nil {
			t.Fatalf("ClaimKey = %v", err)
		}
		return got.BodyHash
	}
	claim("gone", "first", begin.Add(time.Hour))
	claim("anew", "first", begin.Add(time.Hour))
	claim("stays", "first", begin.Add(3*time.Hour))
	later := begin.Add(time.Hour)
	set(later)
	claim("anew", "second", begin.Add(3*time.Hour))
	if _, err := s.Expire(ctx, later); err != nil {
		t.Errorf("Expire = %v", err)
	}
	set(begin)
	for key, want := range map[string]string{"gone": "probe", "anew": "second", "stays": "first"} {
		if got := claim(key, "probe", later); got != want {
			t.Errorf("claim in force of %q = %s, want %s", key, got, want)
		}
	}
}

// Rows without expiry keep their bucket for ever.
func TestExpireLeavesWhatNeverExpires(t *testing.T) {
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s, _ := backwards(t, begin)
	e := entry(t, begin, 1, "", time.Time{})
	if err := s.PutEntries(t.Context(), []schema.Entry{e, entry(t, begin, 1, "", begin.Add(time.Hour))}); err != nil {
		t.Fatalf("PutEntries = %v", err)
	}
	if removed, err := s.Expire(t.Context(), begin.AddDate(1000, 0, 0)); err != nil || removed != 0 {
		t.Errorf("Expire = %d, %v; want none", removed, err)
	}
}

// A row that is written into an expired bucket while the bucket is being removed is not lost.
func TestExpireDoesNotRemoveWhatIsBeingWritten(t *testing.T) {
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s, set := backwards(t, begin)
	now := begin.Add(time.Hour)
	set(now)
	ctx := t.Context()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, err := s.Expire(ctx, now); err != nil {
				t.Errorf("Expire = %v", err)
			}
		}
	})
	for round := range 20 {
		// Many buckets that have expired, each until its second entry comes.
		var old, fresh []schema.Entry
		for i := range 100 {
			due := begin.Add(-time.Duration(100*round+i) * time.Minute)
			old = append(old, entry(t, due, 2, "", due))
			fresh = append(fresh, entry(t, due, 1, "", now.Add(time.Hour)))
		}
		if err := s.PutEntries(ctx, old); err != nil {
			t.Errorf("PutEntries = %v", err)
		}
		for _, e := range fresh {
			if err := s.PutEntries(ctx, []schema.Entry{e}); err != nil {
				t.Errorf("PutEntries = %v", err)
			}
		}
		for _, e := range fresh {
			got, err := s.EntriesByID(ctx, e.ID.Partition(), []schema.EntryID{e.ID})
			if err != nil || len(got) != 1 {
				t.Errorf("EntriesByID of an acknowledged entry = %d, %v; want it", len(got), err)
			}
		}
	}
	close(done)
	wg.Wait()
}

func TestClosedStoreIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := embedded.Open(embedded.Config{})
		if err != nil {
			t.Fatalf("Open = %v", err)
		}
		for range 2 {
			if err := s.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
		}
		_, readErr := s.Settings(t.Context())
		_, expireErr := s.Expire(t.Context(), time.Now())
		for what, err := range map[string]error{
			"Settings": readErr, "Expire": expireErr, "AdvanceCursor": s.AdvanceCursor(t.Context(), schema.Cursor{}),
		} {
			if !errors.Is(err, schema.ErrUnavailable) {
				t.Errorf("%s of a closed store = %v, want %v", what, err, schema.ErrUnavailable)
			}
		}
	})
}
