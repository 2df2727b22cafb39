package cassandra

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// TestIDOrderIsTimeOrder: what Cassandra returns for a partition is in byte order, so in order of
// due times, over many pages, and slices of it hold exactly what lies between.
func TestIDOrderIsTimeOrder(t *testing.T) {
	s := openTest(t)
	rng := seeded(t)
	start, tenant := somewhere(), unique("order")
	p := schema.Partition{Bucket: schema.BucketOf(start), Shard: 7}
	var want []schema.EntryID
	var entries []schema.Entry
	for range 2000 {
		due := start.Add(time.Duration(rng.IntN(int(schema.BucketSpan/time.Millisecond))) * time.Millisecond)
		e := entryAt(t, due, p.Shard, tenant, nil)
		entries, want = append(entries, e), append(want, e.ID)
	}
	put(t, s, entries...)
	slices.SortFunc(want, schema.EntryID.Compare)

	got, err := s.Entries(t.Context(), p, schema.IDRange{}, 10_000)
	if err != nil {
		t.Fatalf("Entries: %v", err)
	}
	var gotIDs []schema.EntryID
	for i, e := range got {
		gotIDs = append(gotIDs, e.ID)
		if i > 0 && e.Due().Before(got[i-1].Due()) {
			t.Fatalf("Entries: %s after %s is not in order of due times", e.ID, got[i-1].ID)
		}
	}
	if !slices.Equal(gotIDs, want) {
		t.Fatalf("Entries: got %d ids, want the %d written, in byte order", len(gotIDs), len(want))
	}

	for range 50 {
		a, b := rng.IntN(len(want)), rng.IntN(len(want))
		r := schema.IDRange{After: want[min(a, b)], Before: want[max(a, b)]}
		limit := 1 + rng.IntN(len(want))
		between := want[min(a, b)+min(1, max(a, b)-min(a, b)) : max(a, b)]
		between = between[:min(limit, len(between))]
		ids, err := s.EntryIDs(t.Context(), p, r, limit)
		if err != nil || !slices.Equal(ids, between) {
			t.Fatalf("EntryIDs(%s, %s, %d): got %d ids, %v, want %d", r.After, r.Before, limit, len(ids), err, len(between))
		}
	}
}

// TestEntryComesBackAsWritten covers each kind of payload and the text's bytes.
func TestEntryComesBackAsWritten(t *testing.T) {
	s := openTest(t)
	for _, test := range []struct {
		name    string
		payload []byte
		large   bool
	}{
		{"no payload", nil, false},
		{"inline", []byte(`{"a":1}`), false},
		{"the largest inline", bytes.Repeat([]byte("x"), schema.InlinePayload), false},
		{"large", bytes.Repeat([]byte("y"), schema.InlinePayload+1), true},
		{"the largest", bytes.Repeat([]byte("z"), schema.MaxPayload), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := entryAt(t, somewhere(), 1, unique("back"), test.payload)
			put(t, s, e)
			got, err := s.EntriesByID(t.Context(), e.ID.Partition(), []schema.EntryID{e.ID})
			if err != nil || len(got) != 1 {
				t.Fatalf("EntriesByID: got %d entries, %v, want 1", len(got), err)
			}
			if !bytes.Equal(got[0].Text(), e.Text()) {
				t.Errorf("text: got %s, want %s", got[0].Text(), e.Text())
			}
			payload := got[0].Payload
			if at, ok := got[0].LargePayload(); ok != test.large {
				t.Errorf("LargePayload: got %v, want %v", ok, test.large)
			} else if ok {
				if payload != nil {
					t.Errorf("a large payload lies in the row as well")
				}
				if payload, err = s.Payload(t.Context(), at); err != nil {
					t.Fatalf("Payload: %v", err)
				}
			}
			if !bytes.Equal(payload, test.payload) {
				t.Errorf("payload: got %d bytes, want %d", len(payload), len(test.payload))
			}
		})
	}
}

// TestBatchesAreSplit: more than one batch's rows and bytes in one call, over partitions, are all
// held.
func TestBatchesAreSplit(t *testing.T) {
	s, reg := openCounted(t)
	start, tenant := somewhere(), unique("split")
	var entries []schema.Entry
	for i := range 250 {
		entries = append(entries, entryAt(t, start.Add(time.Duration(i)*time.Second), schema.Shard(i%3), tenant,
			bytes.Repeat([]byte("p"), rand.IntN(schema.InlinePayload))))
	}
	put(t, s, entries...)
	n := counted(t, reg)["insert_entry"]
	if n < 5 || n > 20 { // about 500 KiB in batches of at most 128 KiB and 100 rows
		t.Errorf("PutEntries of 250 entries: %d batches, want 5 to 20", n)
	}
	for _, e := range entries {
		got, err := s.EntriesByID(t.Context(), e.ID.Partition(), []schema.EntryID{e.ID})
		if err != nil || len(got) != 1 || !bytes.Equal(got[0].Payload, e.Payload) {
			t.Fatalf("EntriesByID(%s): got %d entries, %v, want the one written", e.ID, len(got), err)
		}
	}
}

// TestTooLargeIsRefusedWhole: nothing of a call with one row over the bound is written.
func TestTooLargeIsRefusedWhole(t *testing.T) {
	s := openTest(t)
	start := somewhere()
	small := entryAt(t, start, 2, unique("large"), nil)
	large, err := schema.NewEntry(schema.MakeEntryID(start, 2, schema.RandomHash()),
		schema.Spec{Tenant: "t", Labels: map[string]string{"l": strings.Repeat("x", 1<<20)}}, nil, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.PutEntries(t.Context(), []schema.Entry{small, large}); !errors.Is(err, schema.ErrTooLarge) {
		t.Fatalf("PutEntries: got %v, want ErrTooLarge", err)
	}
	if ids, err := s.EntryIDs(t.Context(), small.ID.Partition(), schema.IDRange{}, 10); err != nil || len(ids) != 0 {
		t.Errorf("EntryIDs: got %v, %v, want none", ids, err)
	}
}

// TestRowsLeave: a row is gone after its expiry.
func TestRowsLeave(t *testing.T) {
	s := openTest(t)
	e := entryAt(t, somewhere(), 3, unique("ttl"), nil)
	e.Expires = time.Now().Add(-time.Hour) // already over: the shortest there is
	put(t, s, e)
	for t.Context().Err() == nil {
		ids, err := s.EntryIDs(t.Context(), e.ID.Partition(), schema.IDRange{}, 10)
		if err != nil {
			t.Fatalf("EntryIDs: %v", err)
		}
		if len(ids) == 0 {
			return
		}
	}
	t.Fatal("the row never left")
}

// TestLongerLivedWins: the same row written again, with a longer and then with a shorter life,
// keeps the longer.
func TestLongerLivedWins(t *testing.T) {
	s := openTest(t)
	e := entryAt(t, somewhere(), 3, unique("rewrite"), []byte("p"))
	short := e
	short.Expires = time.Now().Add(-time.Hour)
	put(t, s, short)
	put(t, s, e)
	put(t, s, short)
	other := entryAt(t, e.Due(), 3, unique("rewrite"), nil) // shows when the short life is over
	other.Expires = short.Expires
	put(t, s, other)
	for t.Context().Err() == nil {
		ids, err := s.EntryIDs(t.Context(), e.ID.Partition(), schema.IDRange{}, 10)
		if err != nil {
			t.Fatalf("EntryIDs: %v", err)
		}
		if slices.Contains(ids, other.ID) {
			continue
		}
		if !slices.Contains(ids, e.ID) {
			t.Fatal("the row left with the shorter of its lives")
		}
		return
	}
}
