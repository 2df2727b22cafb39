package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// parted is a store in which writes go wrong by shard: schema.ErrUnavailable means that nothing was
// written, schema.ErrUnknown that it was, and the answer lost.
type parted struct {
	bucketer.Store
	mu       sync.Mutex
	entries  map[schema.Shard]error
	attempts map[schema.Shard]error
	unheld   []schema.EntryID // named by an attempt 0 when they were not held yet
}

// ill returns how a write of rows of these ids goes wrong.
func (s *parted) ill(how map[schema.Shard]error, shards []schema.Shard) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, shard := range shards {
		if err := how[shard]; err != nil {
			return fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	return nil
}

// heal takes every fault away.
func (s *parted) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries, s.attempts = nil, nil
}

func (s *parted) PutEntries(ctx context.Context, rows []schema.Entry) error {
	var shards []schema.Shard
	for i := range rows {
		shards = append(shards, rows[i].ID.Shard())
	}
	ill := s.ill(s.entries, shards)
	if errors.Is(ill, schema.ErrUnavailable) {
		return ill
	}
	return errors.Join(ill, s.Store.PutEntries(ctx, rows))
}

func (s *parted) PutAttempts(ctx context.Context, rows []schema.Attempt) error {
	var shards []schema.Shard
	for i := range rows {
		shards = append(shards, rows[i].Run.Shard())
		to := rows[i].Record.To
		if held, err := s.EntriesByID(ctx, to.Partition(), []schema.EntryID{to}); err != nil || len(held) == 0 {
			s.unheld = append(s.unheld, to)
		}
	}
	ill := s.ill(s.attempts, shards)
	if errors.Is(ill, schema.ErrUnavailable) {
		return ill
	}
	return errors.Join(ill, s.Store.PutAttempts(ctx, rows))
}

// inParts runs f in a bubble on a store whose writes may go wrong by shard, with six runs in each
// of three shards, one shard after the other.
func inParts(t *testing.T, setting schema.Settings, f func(t *testing.T, w *world, s *parted, runs []schema.Entry)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setting)
		s := &parted{Store: w.Store()}
		w.use(s)
		runs := make([]schema.Entry, 18)
		for i := range runs {
			id := schema.MakeEntryID(time.Now(), schema.Shard(i%3), uint64(i)) // #nosec G115 -- small
			e, err := w.EntryOf(bucketertest.Pointer(callTo(time.Time{})), id, time.Now())
			if err == nil {
				err = w.Counts.PutEntries(t.Context(), []schema.Entry{e})
			}
			if err != nil {
				t.Fatalf("run %d: %v", i, err)
			}
			runs[i] = e
		}
		w.Counts.Reset()
		f(t, w, s, runs)
	})
}

// byShard is what a write of each shard of inParts answers: the first goes well, the second fails,
// of the third nobody knows.
func byShard() map[schema.Shard]error {
	return map[schema.Shard]error{1: schema.ErrUnavailable, 2: schema.ErrUnknown}
}

// Of many records each is answered for itself: what failed, and only that, is repeated by whoever
// met it.
func TestFollowUpOfWhichAPartFails(t *testing.T) {
	inParts(t, schema.Settings{}, func(t *testing.T, w *world, s *parted, runs []schema.Entry) {
		due := time.Now().Add(time.Minute)
		var finished []bucketer.Finished
		for i, e := range runs {
			next := schema.MakeEntryID(due, e.ID.Shard(), uint64(100+i)) // #nosec G115 -- small
			finished = append(finished, bucketer.Finished{Entry: e, Attempt: w.Recorded(e, 1, schema.Record{Outcome: schema.Failed, Next: next})})
			// Between them records that name nothing: what is answered is not what is written.
			finished = append(finished, bucketer.Finished{Entry: e, Attempt: w.Recorded(e, 1, schema.Record{Outcome: schema.Lost})})
		}
		s.entries = byShard()
		var again []bucketer.Finished
		for i, err := range w.followUp(finished...) {
			var want error
			if rec := finished[i].Attempt.Record; !rec.Next.IsZero() {
				want = s.entries[rec.Next.Shard()]
			}
			if !errors.Is(err, want) {
				t.Errorf("record %d of shard %d = %v, want %v", i, finished[i].Entry.ID.Shard(), err, want)
			}
			if err != nil {
				again = append(again, finished[i])
			}
		}
		if len(again) != 12 {
			t.Fatalf("%d records are to be repeated, want the 12 of two shards", len(again))
		}
		held := make(map[schema.EntryID]string)
		for i := range finished {
			next := finished[i].Attempt.Record.Next
			if row, ok := w.Row(next); ok {
				held[next] = string(row.Text())
			}
		}
		if len(held) != 12 {
			t.Errorf("%d retries are held, want 12: those of the shard that went well, and of the one of which nobody knows", len(held))
		}

		s.heal()
		w.Counts.Reset()
		time.Sleep(10 * time.Second)
		for i, err := range w.followUp(again...) {
			if err != nil {
				t.Errorf("repeated: record %d = %v", i, err)
			}
		}
		if got := w.Counts.Tally("PutEntries"); got.Rows != 12 || got.Calls != 2 {
			t.Errorf("repeating took %+v, want the 12 rows that failed in 2 batches", got)
		}
		for i := range finished {
			next := finished[i].Attempt.Record.Next
			if next.IsZero() {
				continue
			}
			row, ok := w.Row(next)
			if !ok || row.Run() != finished[i].Entry.ID || row.Spec.AttemptNumber() != 2 {
				t.Errorf("retry %s is %s (%v), want attempt 2 of %s", next, row.Text(), ok, finished[i].Entry.ID)
			}
			if was, ok := held[next]; ok && was != string(row.Text()) {
				t.Errorf("retry %s was %s and is %s, want the same bytes", next, was, row.Text())
			}
		}
	})
}

// One record whose retry cannot be made does not keep those of the others from being written.
func TestFollowUpOfWhichOneCannotBeMade(t *testing.T) {
	inParts(t, schema.Settings{}, func(t *testing.T, w *world, _ *parted, runs []schema.Entry) {
		var finished []bucketer.Finished
		for i, e := range runs {
			next := schema.MakeEntryID(time.Now().Add(time.Minute), e.ID.Shard(), uint64(100+i)) // #nosec G115 -- small
			finished = append(finished, bucketer.Finished{Entry: e, Attempt: w.Recorded(e, 1, schema.Record{Outcome: schema.Failed, Next: next})})
		}
		// another entry was started: it must be read
		finished[4].Attempt.Record.Entry = schema.MakeEntryID(time.Now(), 9, 9)
		w.BefallFirst(1, "EntriesByID", schematest.Fault{Fail: true})
		for i, err := range w.followUp(finished...) {
			var want error
			if i == 4 {
				want = schema.ErrUnavailable
			}
			if !errors.Is(err, want) {
				t.Errorf("record %d = %v, want %v", i, err, want)
			}
			if _, ok := w.Row(finished[i].Attempt.Record.Next); ok != (i != 4) {
				t.Errorf("the retry of record %d is there: %v, want %v", i, ok, i != 4)
			}
		}
	})
}

// watches makes the watch entry of each run.
func (w *world) watches(runs []schema.Entry) []schema.Entry {
	w.T.Helper()
	due := time.Now().Add(2 * time.Minute)
	to := make([]schema.Entry, len(runs))
	for i := range runs {
		var err error
		id := schema.MakeEntryID(due, runs[i].ID.Shard(), schema.HashOf("watch", runs[i].ID.String()))
		if to[i], err = w.LaterStart(&runs[i], schema.KindWatch, id, 1, due); err != nil {
			w.T.Fatalf("Later = %v", err)
		}
	}
	return to
}

// replacedBy returns how many attempts 0 say that e was replaced by `to`, and fails the test where
// a row says anything else.
func (w *world) replacedBy(e, to schema.Entry) int {
	w.T.Helper()
	rows := w.mustRun(e.ID).Attempts
	for _, a := range rows {
		if a.Number != 0 || a.Record.Outcome != schema.Replaced || a.Record.Entry != e.ID || a.Record.To != to.ID {
			w.T.Errorf("attempt of %s: %+v, want that it was replaced by %s", e.ID, a.Record, to.ID)
		}
	}
	return len(rows)
}

// Of many pairs those whose entry is held are replaced, and of each of the others it is said what
// went wrong: none is both or neither, and no attempt 0 names an entry that is not held.
func TestReplaceOfWhichAPartFails(t *testing.T) {
	inParts(t, schema.Settings{}, func(t *testing.T, w *world, s *parted, runs []schema.Entry) {
		to := w.watches(runs)
		s.entries = byShard()
		replaced, err := w.Replace(t.Context(), runs, to)
		if !errors.Is(err, schema.ErrUnavailable) || !errors.Is(err, schema.ErrUnknown) {
			t.Fatalf("Replace = %v, want ErrUnavailable of one shard and ErrUnknown of another", err)
		}
		if len(s.unheld) > 0 {
			t.Errorf("attempts 0 name %v before they are held", s.unheld)
		}
		var againFrom, againTo []schema.Entry
		for i := range runs {
			ok := slices.Contains(replaced, runs[i].ID)
			told := strings.Contains(err.Error(), fmt.Sprintf("replace %s by %s", runs[i].ID, to[i].ID))
			if good := s.entries[runs[i].ID.Shard()] == nil; ok != good || told != !good {
				t.Errorf("pair %d of shard %d: replaced %v, told of as failed %v; want %v, %v", i, runs[i].ID.Shard(), ok, told, good, !good)
			}
			if rows := w.replacedBy(runs[i], to[i]); rows > 0 != ok {
				t.Errorf("pair %d: replaced %v, with %d attempts 0", i, ok, rows)
			}
			if !ok {
				againFrom, againTo = append(againFrom, runs[i]), append(againTo, to[i])
			}
		}
		if len(replaced) != 6 {
			t.Errorf("%d pairs were replaced, want 6", len(replaced))
		}

		s.heal()
		replaced, err = w.Replace(t.Context(), againFrom, againTo)
		if err != nil || len(replaced) != 12 {
			t.Errorf("Replace of what was left = %d pairs, %v; want 12", len(replaced), err)
		}
		for i := range runs {
			if rows := w.replacedBy(runs[i], to[i]); rows != 1 {
				t.Errorf("pair %d has %d attempts 0, want 1", i, rows)
			}
		}
		if k := bucketertest.Kinds(w.Entries(time.Hour)); k[schema.KindRun] != 18 || k[schema.KindWatch] != 18 || len(k) != 2 {
			t.Errorf("kinds = %v, want 18 runs and a watch entry of each", k)
		}
	})
}

// While it is not known of every attempt 0 that it is held, no pair counts as replaced; again makes
// no other entries.
func TestReplaceWhoseAttemptsFail(t *testing.T) {
	for name, fault := range map[string]error{"failed": schema.ErrUnavailable, "unknown": schema.ErrUnknown} {
		t.Run(name, func(t *testing.T) {
			inParts(t, schema.Settings{}, func(t *testing.T, w *world, s *parted, runs []schema.Entry) {
				to := w.watches(runs)
				s.attempts = map[schema.Shard]error{1: fault}
				if replaced, err := w.Replace(t.Context(), runs, to); len(replaced) != 0 || !errors.Is(err, fault) {
					t.Errorf("Replace = %v, %v; want none and %v", replaced, err, fault)
				}
				if k := bucketertest.Kinds(w.Entries(time.Hour)); k[schema.KindWatch] != 18 {
					t.Errorf("kinds = %v, want every watch entry before the first attempt 0", k)
				}
				s.heal()
				replaced, err := w.Replace(t.Context(), runs, to)
				if err != nil || len(replaced) != 18 {
					t.Errorf("Replace again = %d pairs, %v; want all 18", len(replaced), err)
				}
				for i := range runs {
					if rows := w.replacedBy(runs[i], to[i]); rows == 0 {
						t.Errorf("pair %d has no attempt 0", i)
					}
				}
				if k := bucketertest.Kinds(w.Entries(time.Hour)); k[schema.KindWatch] != 18 || len(k) != 2 {
					t.Errorf("kinds = %v, want still 18 watch entries", k)
				}
			})
		})
	}
}

// What a later start needs is kept before it is written: without that its run, and no other, is not
// replaced.
func TestReplaceThatCannotLengthen(t *testing.T) {
	inParts(t, schema.Settings{Retention: 3 * time.Minute}, func(t *testing.T, w *world, s *parted, runs []schema.Entry) {
		to := w.watches(runs)
		var reads atomic.Int64
		w.Befall(func(_ context.Context, op string) schematest.Fault {
			return schematest.Fault{Fail: op == "EntriesByID" && reads.Add(1) == 7}
		})
		w.use(s.Store) // it reads, too
		replaced, err := w.Replace(t.Context(), runs, to)
		if len(replaced) != len(runs)-1 || !errors.Is(err, schema.ErrUnavailable) {
			t.Errorf("Replace = %d of %d runs, %v; want all but one, and ErrUnavailable", len(replaced), len(runs), err)
		}
		for i := range runs {
			ok := slices.Contains(replaced, runs[i].ID)
			if _, written := w.Row(to[i].ID); written != ok {
				t.Errorf("watch entry %d is there: %v, want %v", i, written, ok)
			}
			if rows := w.replacedBy(runs[i], to[i]); rows > 0 != ok {
				t.Errorf("pair %d: replaced %v, with %d attempts 0", i, ok, rows)
			}
		}
	})
}

// TestSlowStoreGetsOnWithWhatOutlivesItsRun: the rows of a hundred runs were read and written again
// one after the other. The time was up before anything else was written, and all began anew.
func TestSlowStoreGetsOnWithWhatOutlivesItsRun(t *testing.T) {
	const runs = 100
	for _, c := range []struct {
		delay time.Duration // of each statement
		calls int           // after so many calls of 5 s all is done
	}{{25 * time.Millisecond, 1}, {500 * time.Millisecond, 4}} {
		within := func(f func(ctx context.Context)) {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			f(ctx)
		}
		// inSlow runs f in a bubble on runs whose later starts, two minutes from now, outlive them.
		inSlow := func(t *testing.T, f func(t *testing.T, w *world, from []schema.Entry)) {
			synctest.Test(t, func(t *testing.T) {
				// who asks has runs of one shard
				w := newWorld(t, schema.Settings{Retention: 3 * time.Minute, Shards: 1})
				var from []schema.Entry
				for range runs {
					e, ok := w.Row(w.submit(callTo(time.Time{})))
					if !ok {
						t.Fatal("a run is not there")
					}
					from = append(from, e)
				}
				w.Befall(func(context.Context, string) schematest.Fault { return schematest.Fault{Delay: c.delay} })
				f(t, w, from)
			})
		}
		t.Run(fmt.Sprint("FollowUp ", c.delay), func(t *testing.T) {
			inSlow(t, func(t *testing.T, w *world, from []schema.Entry) {
				var open []bucketer.Finished
				for i, e := range from {
					next := schema.MakeEntryID(time.Now().Add(2*time.Minute), e.ID.Shard(), uint64(i)) // #nosec G115 -- small
					open = append(open, bucketer.Finished{Entry: e, Attempt: w.Recorded(e, 1, schema.Record{Outcome: schema.Failed, Next: next})})
				}
				for range c.calls {
					within(func(ctx context.Context) {
						var mu sync.Mutex
						var left []bucketer.Finished
						w.FollowUp(ctx, open, func(i int, err error) {
							mu.Lock()
							defer mu.Unlock()
							if err != nil {
								left = append(left, open[i])
							}
						})
						open = left
					})
				}
				if k := bucketertest.Kinds(w.Entries(time.Hour)); len(open) > 0 || k[schema.KindRetry] != runs {
					t.Errorf("after %d calls: %d records are left, and there are %v; want none, and a retry of each run", c.calls, len(open), k)
				}
			})
		})
		t.Run(fmt.Sprint("Replace ", c.delay), func(t *testing.T) {
			inSlow(t, func(t *testing.T, w *world, from []schema.Entry) {
				to := w.watches(from)
				for range c.calls {
					within(func(ctx context.Context) {
						replaced, _ := w.Replace(ctx, from, to) // what fails is left
						was := func(e schema.Entry) bool { return slices.Contains(replaced, e.Run()) }
						from, to = slices.DeleteFunc(from, was), slices.DeleteFunc(to, was)
					})
				}
				if len(from) > 0 {
					t.Errorf("after %d calls: %d runs are left, want none", c.calls, len(from))
				}
			})
		})
	}
}

// toldWaits keeps the entries that it is told of, by cause.
type toldWaits map[schema.Cause][]schema.EntryID

func (w toldWaits) Deferred(entries []schema.Entry, cause schema.Cause) {
	for i := range entries {
		w[cause] = append(w[cause], entries[i].ID)
	}
}

func (toldWaits) Held(schema.LimitKey, *schema.Spec, int, bool, time.Time) {}

// TestADeferralSaysWhy: the record of an entry that is replaced to a deferral has its cause, and that
// it waits is told.
func TestADeferralSaysWhy(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		told := make(toldWaits)
		w.open(bucketer.Config{Halted: w.Stopped.Load, Waits: told})
		id := w.submit(callTo(time.Time{}))
		e, _ := w.Row(id)
		to, err := w.Defer(&e, time.Now().Add(time.Minute), "", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.DeferTo(t.Context(), []schema.Entry{e}, []schema.Entry{to}, schema.CauseRate); err != nil {
			t.Fatal(err)
		}
		rows, err := w.Counts.Attempts(t.Context(), id.Partition(), []schema.RunID{id})
		if err != nil || len(rows) != 1 || rows[0].Record.Reason != schema.Deferred || rows[0].Record.Cause != schema.CauseRate {
			t.Errorf("attempts of what was deferred = %+v, %v; want an attempt 0, deferred because of the rate", rows, err)
		}
		if len(told) != 1 || !slices.Equal(told[schema.CauseRate], []schema.EntryID{to.ID}) {
			t.Errorf("told was %v, want %s alone, because of the rate", told, to.ID)
		}
	})
}
