package bucketer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// Every entry stands in exactly one batch; a batch keeps the bounds of rows and bytes, and holds
// one partition unless it is made of leftovers.
func TestPlanIsAPartitionOfItsEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.IntRange(1, 40).Draw(t, "shards")
		sizes := rapid.SampledFrom([][]int{{10}, {10, 3000}, {10, 60_000}, {10, 200_000}}).Draw(t, "sizes")
		entries := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) schema.Entry {
			at := testNow.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "minute")) * time.Minute)
			id := schema.MakeEntryID(at, schema.Shard(rapid.IntRange(0, shards-1).Draw(t, "shard")), rapid.Uint64().Draw(t, "hash"))
			return schema.LoadEntry(id, []byte(strings.Repeat(" ", rapid.SampledFrom(sizes).Draw(t, "size"))), nil, schema.Marks{})
		}), 0, 700).Draw(t, "entries")

		seen := make([]int, len(entries))
		leftovers := make(map[schema.Partition]int)
		whole := make(map[schema.Partition]int)
		for _, batch := range Batches(entries) {
			parts := make(map[schema.Partition]int)
			bytes := 0
			for _, i := range batch {
				seen[i]++
				parts[entries[i].ID.Partition()]++
				bytes += entries[i].Size()
			}
			if len(batch) == 0 || len(batch) > BatchRows {
				t.Fatalf("a batch of %d rows, want 1…%d", len(batch), BatchRows)
			}
			if bytes > batchBytes && len(batch) > 1 {
				t.Fatalf("a batch of %d rows has %d bytes, want at most %d", len(batch), bytes, batchBytes)
			}
			if len(parts) > 1 && len(batch) > mixedRows {
				t.Fatalf("a batch of %d partitions has %d rows, want at most %d", len(parts), len(batch), mixedRows)
			}
			for p, n := range parts {
				switch {
				case len(parts) > 1 && n >= leftoverRows:
					t.Fatalf("a mixed batch holds %d rows of %s, want fewer than %d", n, p, leftoverRows)
				case n < leftoverRows:
					leftovers[p]++
				default:
					whole[p]++
				}
			}
		}
		for i, n := range seen {
			if n != 1 {
				t.Fatalf("entry %d of %d stands in %d batches, want 1", i, len(entries), n)
			}
		}
		if len(sizes) == 1 { // nothing but the number of rows ends a batch
			for p, n := range leftovers {
				if n > 1 {
					t.Fatalf("%s has %d leftovers, want at most one", p, n)
				}
			}
		}
	})
}

func TestPlanFillsBatches(t *testing.T) {
	entries := make([]schema.Entry, 0, 1018)
	add := func(shard schema.Shard, n int) {
		for range n {
			id := schema.MakeEntryID(testNow, shard, schema.RandomHash())
			entries = append(entries, schema.LoadEntry(id, []byte(`{}`), nil, schema.Marks{}))
		}
	}
	add(1, 1000)
	add(2, 3)
	add(3, 4)
	add(4, 6)
	add(5, 5)
	var sizes []int
	for _, b := range Batches(entries) {
		sizes = append(sizes, len(b))
	}
	slices.Sort(sizes)
	if want := []int{5, 6, 7, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100}; !slices.Equal(sizes, want) {
		t.Errorf("plan of 1000, 3, 4, 6 and 5 rows = batches of %v, want %v", sizes, want)
	}
}

// Of a row that is due within 5 s of being held the owner of its shard is told, and of no other.
func TestNearRule(t *testing.T) {
	for name, row := range map[string]struct {
		ahead, delay time.Duration
		want         bool
	}{
		"now":                            {0, 0, true},
		"in 4.999 s":                     {4999 * time.Millisecond, 0, true},
		"in 5 s":                         {5 * time.Second, 0, false},
		"in 7 s, held after 3 s":         {7 * time.Second, 3 * time.Second, true},
		"in 9 s, held after 3 s":         {9 * time.Second, 3 * time.Second, false},
		"in an hour":                     {time.Hour, 0, false},
		"now, held 4 s late":             {0, 4 * time.Second, true},
		"in 1 s, held after 6 s, at 5 s": {time.Second, 6 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, schema.Settings{})
				w.BefallFirst(1, "PutEntries", schematest.Fault{Delay: row.delay})
				id := w.submit(callTo(time.Now().Add(row.ahead)))
				near := w.Hinted()
				if got := len(near) == 1 && near[0].ID == id; got != row.want || len(near) > 1 {
					t.Errorf("hints:\n%swant one of %s: %v", bucketertest.Describe(near), id, row.want)
				}
				if all := w.Entries(2 * time.Hour); len(all) != 1 {
					t.Errorf("rows:\n%swant only the run", bucketertest.Describe(all))
				}
			})
		})
	}
}

// Hints go to the shards of their rows, and those of one shard together.
func TestHintsGoToTheirShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		var entries []schema.Entry
		for i := range 60 {
			id := schema.MakeEntryID(time.Now(), schema.Shard(i%3), schema.RandomHash())
			e, err := w.EntryOf(bucketertest.Pointer(callTo(time.Time{})), id, time.Now())
			if err != nil {
				t.Fatalf("entry = %v", err)
			}
			entries = append(entries, e)
		}
		h := hintsByShard{}
		w.hints = &h
		w.Write(t.Context(), entries, func(int, error) {})
		for shard := range schema.Shard(3) {
			if calls := h.calls[shard]; len(calls) != 1 || calls[0] != 20 {
				t.Errorf("shard %d was told of %v entries, want of 20 at once", shard, calls)
			}
		}
		if h.strays > 0 {
			t.Errorf("%d hints went to another shard than their row's", h.strays)
		}
	})
}

type hintsByShard struct {
	mu     sync.Mutex
	calls  map[schema.Shard][]int
	strays int
}

func (h *hintsByShard) Near(shard schema.Shard, entries []schema.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls == nil {
		h.calls = make(map[schema.Shard][]int)
	}
	h.calls[shard] = append(h.calls[shard], len(entries))
	for i := range entries {
		if entries[i].ID.Shard() != shard {
			h.strays++
		}
	}
}

// A row that a quorum holds only 5 s after its due time gets an entry that is due now, and is
// answered on that one.
func TestLateRule(t *testing.T) {
	for name, row := range map[string]struct {
		delay time.Duration
		late  int
	}{
		"held 5 s after its due time":   {5 * time.Second, 0},
		"held 5.01 s after it":          {5010 * time.Millisecond, 1},
		"held a minute after it":        {time.Minute, 1},
		"held at once":                  {0, 0},
		"held just before the deadline": {4990 * time.Millisecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, schema.Settings{})
				w.BefallFirst(1, "PutEntries", schematest.Fault{Delay: row.delay})
				id := w.submit(callTo(time.Time{}))
				all := w.Entries(2 * time.Minute)
				if k := bucketertest.Kinds(all); k[schema.KindRun] != 1 || k[schema.KindLate] != row.late {
					t.Fatalf("rows:\n%swant the run and %d late entries", bucketertest.Describe(all), row.late)
				}
				near := w.Hinted()
				if len(near) != 1 {
					t.Fatalf("hints:\n%swant one", bucketertest.Describe(near))
				}
				if row.late == 0 {
					return
				}
				late := all[1]
				if late.Run() != id || time.Since(late.Due()) >= time.Millisecond || late.ID.Shard() != id.Shard() {
					t.Errorf("late entry:\n%swant one of %s, due now, in its shard", bucketertest.Describe(all[1:]), id)
				}
				if near[0].ID != late.ID {
					t.Errorf("hint of %s, want of the late entry %s", near[0].ID, late.ID)
				}
				if string(late.Payload) != `{"n":1}` || late.Spec.Work == nil || late.Spec.Tenant != "t" {
					t.Errorf("late entry %s has payload %s, want the run's work", late.Text(), late.Payload)
				}
			})
		})
	}
}

// A row never counts as held earlier than it was, whichever clock says so.
func TestEndedAt(t *testing.T) {
	sent := time.Now()
	wall := sent.Round(0)
	for name, row := range map[string]struct{ sent, now, want time.Time }{
		"nothing was set":        {sent, sent.Add(6 * time.Second), wall.Add(6 * time.Second)},
		"at once":                {sent, sent, wall},
		"set back by 1 s":        {sent, bucketertest.SetBack(t, sent.Add(6*time.Second), time.Second), wall.Add(6 * time.Second)},
		"set back to the same":   {sent, bucketertest.SetBack(t, sent.Add(6*time.Second), 6*time.Second), wall.Add(6 * time.Second)},
		"set back by an hour":    {sent, bucketertest.SetBack(t, sent.Add(6*time.Second), time.Hour), wall.Add(6 * time.Second)},
		"set forward by an hour": {sent, bucketertest.SetBack(t, sent.Add(6*time.Second), -time.Hour), wall.Add(time.Hour + 6*time.Second)},
		"no monotonic, later":    {wall, wall.Add(6 * time.Second), wall.Add(6 * time.Second)},
		// nothing else is known
		"no monotonic, set back": {wall, wall.Add(-6 * time.Second), wall.Add(-6 * time.Second)},
		"only the first has it":  {sent, wall.Add(6 * time.Second), wall.Add(6 * time.Second)},
		"only the second has it": {wall, bucketertest.SetBack(t, sent.Add(6*time.Second), time.Second), wall.Add(5 * time.Second)},
	} {
		if got := EndedAt(row.sent, row.now); !got.Round(0).Equal(row.want) {
			t.Errorf("%s: EndedAt(%s, %s) = %s, want %s", name, row.sent, row.now, got, row.want)
		}
	}
}

// A clock that was set back while a row was written made the row count as held in time, and its
// sweep might have passed it.
func TestLateRuleWhileTheClockIsSetBack(t *testing.T) {
	for name, row := range map[string]struct {
		took, back time.Duration
		late       int
	}{
		"in time":                             {4 * time.Second, 0, 0},
		"in time, and set back":               {4 * time.Second, 3 * time.Second, 0},
		"too late":                            {6 * time.Second, 0, 1},
		"too late, and set back to in time":   {6 * time.Second, 3 * time.Second, 1},
		"too late, and set back by a minute":  {6 * time.Second, time.Minute, 1},
		"in time, but set forward meanwhile":  {time.Second, -6 * time.Second, 1},
		"too late, and set back by the delay": {6 * time.Second, 6 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, schema.Settings{})
			began := time.Now() // not in a bubble, whose times have no monotonic reading
			e, err := w.EntryOf(bucketertest.Pointer(callTo(time.Time{})), schema.MakeEntryID(began, 3, 7), began)
			if err != nil {
				t.Fatal(err)
			}
			ended := bucketertest.SetBack(t, began.Add(row.took), row.back)
			readings := []time.Time{began}
			w.now = func() time.Time {
				if len(readings) == 0 {
					return ended
				}
				at := readings[0]
				readings = readings[1:]
				return at
			}
			w.Write(t.Context(), []schema.Entry{e}, func(_ int, err error) {
				if err != nil {
					t.Errorf("write = %v", err)
				}
			})
			if k := bucketertest.Kinds(w.Entries(2 * time.Minute)); k[schema.KindRun] != 1 || k[schema.KindLate] != row.late {
				t.Errorf("kinds = %v, want the run and %d late entries", k, row.late)
			}
		})
	}
}

// The rows of a batch that were held too late get their late entries in as few batches as they came
// in.
func TestLateEntriesAreWrittenInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{Shards: 1})
		jobs := make([]Job, 200)
		for i := range jobs {
			jobs[i] = callTo(time.Time{})
		}
		w.BefallFirst(2, "PutEntries", schematest.Fault{Delay: 6 * time.Second})
		for i, a := range w.batch(jobs...) {
			if a.err != nil {
				t.Fatalf("job %d: %v", i, a.err)
			}
		}
		if got := w.Counts.Tally("PutEntries"); got.Calls != 4 || got.Rows != 400 {
			t.Errorf("200 rows held late took %+v, want 4 batches of 100", got)
		}
		if k := bucketertest.Kinds(w.Entries(time.Minute)); k[schema.KindLate] != 200 {
			t.Errorf("kinds = %v, want 200 late entries", k)
		}
	})
}

// A store that is always too late is given up on after a bounded number of tries, and the outcome
// is unknown.
func TestLateEntriesThatAreLateThemselvesAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		w.BefallFirst(1000, "PutEntries", schematest.Fault{Delay: 6 * time.Second})
		_, err := w.Submit(t.Context(), callTo(time.Time{}))
		if !errors.Is(err, schema.ErrUnknown) {
			t.Errorf("Submit = %v, want ErrUnknown", err)
		}
		if got := w.Counts.Tally("PutEntries").Calls; got != 1+LateTries {
			t.Errorf("%d writes, want the row and %d late entries", got, LateTries)
		}
		if near := w.Hinted(); len(near) != 0 {
			t.Errorf("hints:\n%swant none", bucketertest.Describe(near))
		}
	})
}

// Whatever befalls the late entry is answered: the run is not promised.
func TestLateEntryThatCannotBeWrittenIsNotPromised(t *testing.T) {
	for name, f := range map[string]schematest.Fault{"failed": {Fail: true}, "lost": {Lose: true}, "torn": {Tear: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, schema.Settings{})
				calls := 0
				w.Befall(func(_ context.Context, op string) schematest.Fault {
					if op != "PutEntries" {
						return schematest.Fault{}
					}
					if calls++; calls == 1 {
						return schematest.Fault{Delay: 6 * time.Second}
					}
					return f
				})
				_, err := w.Submit(t.Context(), callTo(time.Time{}))
				if !errors.Is(err, schema.ErrUnknown) && !errors.Is(err, schema.ErrUnavailable) {
					t.Errorf("Submit = %v, want ErrUnknown or ErrUnavailable", err)
				}
			})
		})
	}
}

// A context that ends while batches wait for their turn answers each of their jobs.
func TestWriteAnswersWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		for range callsInFlight {
			w.calls <- struct{}{}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		answered := 0
		w.SubmitBatch(ctx, []Job{callTo(time.Time{}), callTo(time.Now().Add(time.Hour))}, func(_ int, _ Receipt, err error) {
			if answered++; !errors.Is(err, schema.ErrUnavailable) {
				t.Errorf("answer = %v, want ErrUnavailable", err)
			}
		})
		if answered != 2 {
			t.Errorf("%d answers, want 2", answered)
		}
	})
}

// Equal arguments make equal bytes: whoever repeats a follow-up writes the same row.
func TestLaterIsAFunctionOfItsArguments(t *testing.T) {
	w := newWorld(t, schema.Settings{})
	for name, size := range map[string]int{"none": 0, "small": 100, "at the border": schema.InlinePayload, "large": schema.InlinePayload + 1} {
		t.Run(name, func(t *testing.T) {
			job := callTo(testNow)
			job.Payload, job.Labels = make([]byte, size), map[string]string{"b": "1", "a": "2", "c": "3"}
			e, err := w.EntryOf(&job, schema.MakeEntryID(testNow, 3, 7), testNow)
			if err != nil {
				t.Fatalf("entry = %v", err)
			}
			id := schema.MakeEntryID(testNow.Add(time.Minute), 3, 8)
			fresh, err1 := w.LaterStart(&e, schema.KindRetry, id, 2, testNow)
			read := schema.LoadEntry(e.ID, e.Text(), e.Payload, schema.Marks{Cancelled: &schema.Cancel{}})
			if size > schema.InlinePayload {
				read.Payload = nil // as it comes from the store
			}
			again, err2 := w.LaterStart(&read, schema.KindRetry, id, 2, testNow)
			if err1 != nil || err2 != nil || string(fresh.Text()) != string(again.Text()) || !slices.Equal(fresh.Payload, again.Payload) {
				t.Errorf("Later = %s and %s (%v, %v), want the same", fresh.Text(), again.Text(), err1, err2)
			}
			if fresh.Spec.PayloadSize != size || fresh.Run() != e.ID || fresh.Spec.AttemptNumber() != 2 {
				t.Errorf("Later = %s, want attempt 2 of %s with %d bytes", fresh.Text(), e.ID, size)
			}
			at, large := fresh.LargePayload()
			if large != (size > schema.InlinePayload) || large && at != e.ID {
				t.Errorf("payload lies at %s (%v), want that of the run", at, large)
			}
		})
	}
}
