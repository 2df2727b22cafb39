package bucketer

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// A key whose node crashed between key and row: the next use writes the row that was recorded.
func TestKeyRegisteredAndRowNeverWritten(t *testing.T) {
	for name, wait := range map[string]time.Duration{"at once": 0, "a minute later": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, schema.Settings{})
				w.BefallFirst(1, "PutEntries", schematest.Fault{Fail: true})
				if _, err := w.Submit(t.Context(), keyed("k", time.Time{})); !errors.Is(err, schema.ErrUnavailable) {
					t.Fatalf("Submit = %v, want ErrUnavailable", err)
				}
				time.Sleep(wait)
				again, err := w.Submit(t.Context(), keyed("k", time.Time{}))
				if err != nil || !again.Existing {
					t.Fatalf("again = %+v, %v", again, err)
				}
				row, ok := w.Row(again.Run)
				if !ok || string(row.Payload) != `{"n":1}` {
					t.Fatalf("row of %s = %v, %v; want it written", again.Run, row, ok)
				}
				want := 0
				if wait > LateAfter {
					want = 1
				}
				if k := bucketertest.Kinds(w.Entries(time.Hour)); k[schema.KindLate] != want || k[schema.KindRun] != 1 {
					t.Errorf("kinds = %v, want one run and %d late entries", k, want)
				}
				if near := w.Hinted(); len(near) != 1 {
					t.Errorf("hints:\n%swant one", bucketertest.Describe(near))
				}
			})
		})
	}
}

// A key outlives a row of short retention: its next use must not bring the run back.
func TestKeyOfARunThatHasLeftDoesNotStartItAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{Retention: time.Hour})
		id := w.submit(keyed("k", time.Time{}))
		time.Sleep(2 * time.Hour)
		w.Counts.Reset()
		again, err := w.Submit(t.Context(), keyed("k", time.Time{}))
		if err != nil || again != (Receipt{Run: id, Existing: true}) {
			t.Errorf("again = %+v, %v; want the existing %s", again, err, id)
		}
		if n := w.Counts.Tally("PutEntries").Calls; n != 0 {
			t.Errorf("%d batches were written, want none", n)
		}
	})
}

// A job that is refused for lack of room registers no key: nothing was written.
func TestPartitionFullRegistersNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{Shards: 1})
		at := time.Now().Add(time.Hour)
		p := schema.Partition{Bucket: schema.BucketOf(at)}
		w.fillUp(p)
		for name, job := range map[string]Job{"unkeyed": callTo(at), "keyed": keyed("k", at)} {
			if _, err := w.Submit(t.Context(), job); !errors.Is(err, ErrPartitionFull) {
				t.Errorf("Submit of a %s job = %v, want ErrPartitionFull", name, err)
			}
			if a := w.batch(job)[0]; !errors.Is(a.err, ErrPartitionFull) {
				t.Errorf("SubmitBatch of a %s job = %v, want ErrPartitionFull", name, a.err)
			}
		}
		got := w.Counts.Tallies()
		delete(got, "EntriesByID")
		if len(got) != 0 {
			t.Errorf("refused jobs took %v, want reads alone", got)
		}
		w.fill.noticed[schema.Partition{Bucket: p.Bucket + 1}] = filled{}
		id := w.submit(keyed("k", at.Add(time.Minute)))
		size := w.fill.noticed[id.Partition()].taken
		for range 3 {
			if r, err := w.Submit(t.Context(), keyed("k", at.Add(time.Minute))); err != nil || !r.Existing {
				t.Fatalf("again = %+v, %v", r, err)
			}
		}
		if got := w.fill.noticed[id.Partition()].taken; got != size || size == 0 {
			t.Errorf("a key sent four times counts %d bytes, want those of one row, %d", got, size)
		}
	})
}

// Two uses of one key at once make one run.
func TestKeyUsedTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		w.Befall(schematest.Seeded(1, schematest.Odds{Delay: 1, MaxDelay: 2 * time.Second}))
		var wg sync.WaitGroup
		got := make([]Receipt, 20)
		for i := range got {
			wg.Go(func() {
				r, err := w.Submit(t.Context(), keyed("k", time.Time{}))
				if err != nil {
					t.Errorf("Submit = %v", err)
				}
				got[i] = r
			})
		}
		wg.Wait()
		created := 0
		for _, r := range got {
			if r.Run != got[0].Run {
				t.Errorf("runs %s and %s of one key", r.Run, got[0].Run)
			}
			if !r.Existing {
				created++
			}
		}
		if k := bucketertest.Kinds(w.Entries(time.Hour)); created != 1 || k[schema.KindRun] != 1 {
			t.Errorf("%d were created, kinds %v; want one run", created, k)
		}
	})
}
