package runs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// followUp repeats nothing: it calls FollowUp once and fails the test where one is answered other
// than once.
func (w *world) followUp(finished ...bucketer.Finished) []error {
	w.T.Helper()
	errs, times := make([]error, len(finished)), make([]int, len(finished))
	w.FollowUp(context.Background(), finished, func(i int, err error) {
		errs[i] = err
		times[i]++
	})
	for i, n := range times {
		if n != 1 {
			w.T.Errorf("FollowUp: record %d was answered %d times, want once", i, n)
		}
	}
	return errs
}

// What a record names is written as often as the record is met, and is the same row each time.
func TestFollowUpIsTheSameRowEachTime(t *testing.T) {
	for name, size := range map[string]int{"inline payload": 100, "large payload": 5000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, schema.Settings{})
				job := callTo(time.Time{})
				job.Payload = []byte(strings.Repeat("p", size))
				id := w.submit(job)
				e, _ := w.Row(id)
				next := schema.MakeEntryID(time.Now().Add(time.Minute), id.Shard(), 42)
				a := w.Recorded(e, 1, schema.Record{Outcome: schema.Failed, Next: next})
				var first schema.Entry
				for i := range 3 {
					if errs := w.followUp(bucketer.Finished{Entry: e, Attempt: a}); errs[0] != nil {
						t.Fatalf("FollowUp = %v", errs[0])
					}
					row, ok := w.Row(next)
					if i == 0 {
						first = row
					}
					if !ok || string(row.Text()) != string(first.Text()) || string(row.Payload) != string(first.Payload) {
						t.Errorf("time %d: row %s, want %s", i, row.Text(), first.Text())
					}
					time.Sleep(10 * time.Second)
				}
				if s := first.Spec; s.Kind != schema.KindRetry || s.Of != id || s.AttemptNumber() != 2 || s.Accepted != a.Record.Finished.UnixMicro() {
					t.Errorf("the retry is %s, want attempt 2 of %s, accepted when the first ended", first.Text(), id)
				}
				if got, err := w.EntryPayload(t.Context(), &first); err != nil || len(got) != size {
					t.Errorf("payload of %d bytes, %v; want %d", len(got), err, size)
				}
				if k := bucketertest.Kinds(w.Entries(time.Hour)); k[schema.KindRetry] != 1 || len(k) != 2 {
					t.Errorf("kinds = %v, want the run and one retry", k)
				}
			})
		})
	}
}

// A record that is met beside the row of a run that was moved is followed by what was started, not
// by that row.
func TestFollowUpOfAMovedRunKeepsItsNewSpec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		id := w.submit(callTo(time.Now().Add(time.Hour)))
		run, err := w.Reschedule(t.Context(), "t", id, Change{At: &time.Time{}, Payload: bucketertest.Pointer([]byte(`"new"`)), Priority: bucketertest.Pointer(schema.Low)})
		if err != nil {
			t.Fatal(err)
		}
		next := schema.MakeEntryID(time.Now().Add(time.Minute), id.Shard(), 42)
		a := w.Recorded(run.Current, 1, schema.Record{Outcome: schema.Failed, Next: next})
		if errs := w.followUp(bucketer.Finished{Entry: run.Entry, Attempt: a}); errs[0] != nil {
			t.Fatalf("FollowUp = %v", errs[0])
		}
		if row, ok := w.Row(next); !ok || string(row.Payload) != `"new"` || row.Spec.Priority != schema.Low || row.Run() != id {
			t.Errorf("the retry is %s with payload %s (%v), want the changed work", row.Text(), row.Payload, ok)
		}
		w.BefallFirst(1, "EntriesByID", schematest.Fault{Fail: true})
		if errs := w.followUp(bucketer.Finished{Entry: run.Entry, Attempt: a}); !errors.Is(errs[0], schema.ErrUnavailable) {
			t.Errorf("FollowUp without knowing what was started = %v, want ErrUnavailable", errs[0])
		}
	})
}

func TestFollowUpAnswersEachRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		var finished []bucketer.Finished
		for i := range 300 {
			id := w.submit(callTo(time.Time{}))
			e, _ := w.Row(id)
			rec := schema.Record{Outcome: schema.Succeeded}
			if i%3 == 0 {
				rec = schema.Record{Outcome: schema.Failed, Next: schema.MakeEntryID(time.Now().Add(time.Minute), id.Shard(), uint64(i))} // #nosec G115 -- positive
			}
			f := bucketer.Finished{Entry: e, Attempt: w.Recorded(e, 1, rec)}
			if i%3 == 1 {
				f.Attempt.Record = nil
			}
			finished = append(finished, f)
		}
		w.Counts.Reset()
		for i, err := range w.followUp(finished...) {
			if err != nil {
				t.Errorf("record %d = %v", i, err)
			}
		}
		if got := w.Counts.Tallies(); got["PutEntries"].Rows != 100 || len(got) != 1 {
			t.Errorf("300 records, 100 with a retry, took %v; want writes of 100 rows alone", got)
		}
		w.BefallFirst(1000, "PutEntries", schematest.Fault{Lose: true})
		for i, err := range w.followUp(finished...) {
			if want := i%3 == 0; errors.Is(err, schema.ErrUnknown) != want {
				t.Errorf("record %d = %v, want ErrUnknown: %v", i, err, want)
			}
		}
	})
}

// The entry that stands in is held before the attempt 0 that names it: a crash between the two
// leaves the old one open.
func TestReplaceWritesTheEntryFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		id := w.submit(callTo(time.Time{}))
		from, _ := w.Row(id)
		to, err := w.LaterStart(&from, schema.KindWatch, schema.MakeEntryID(time.Now().Add(2*time.Minute), id.Shard(), 7), 1, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		attempts := func() []schema.Attempt { return w.mustRun(id).Attempts }

		w.BefallFirst(1, "PutEntries", schematest.Fault{Fail: true})
		if _, err := w.Replace(t.Context(), []schema.Entry{from}, []schema.Entry{to}); !errors.Is(err, schema.ErrUnavailable) || len(attempts()) != 0 {
			t.Errorf("Replace without the entry = %v and %d attempts, want ErrUnavailable and none", err, len(attempts()))
		}
		w.BefallFirst(1, "PutAttempts", schematest.Fault{Fail: true})
		if _, err := w.Replace(t.Context(), []schema.Entry{from}, []schema.Entry{to}); !errors.Is(err, schema.ErrUnavailable) || len(attempts()) != 0 {
			t.Errorf("Replace that crashed in between = %v and %d attempts, want ErrUnavailable and none", err, len(attempts()))
		}
		if _, ok := w.Row(to.ID); !ok {
			t.Error("the entry that stands in is not there")
		}
		if _, err := w.Replace(t.Context(), []schema.Entry{from}, []schema.Entry{to}); err != nil {
			t.Errorf("Replace again = %v", err)
		}
		got := attempts()
		if len(got) != 1 || got[0].Number != 0 || got[0].Record.Outcome != schema.Replaced || got[0].Record.To != to.ID || got[0].Record.Entry != id {
			t.Errorf("attempts = %+v, want attempt 0 that replaces %s by %s", got, id, to.ID)
		}
		if k := bucketertest.Kinds(w.Entries(time.Hour)); !maps.Equal(k, map[schema.Kind]int{schema.KindRun: 1, schema.KindWatch: 1}) {
			t.Errorf("kinds = %v, want the run and one watch entry", k)
		}
	})
}

// The row of a run is written again, as it is, when a later start would outlive it; otherwise it
// costs nothing.
func TestRowIsLengthenedOnlyWhenNeeded(t *testing.T) {
	for name, row := range map[string]struct {
		ahead time.Duration
		again int
	}{"soon": {time.Minute, 0}, "just before half of the retention": {time.Hour - time.Second, 0}, "past half of it": {time.Hour, 1}} {
		for kind, size := range map[string]int{"inline": 10, "large": 5000} {
			t.Run(name+" "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, schema.Settings{Retention: 2 * time.Hour})
					job := callTo(time.Time{})
					job.Payload = []byte(strings.Repeat("p", size))
					id := w.submit(job)
					before, _ := w.Row(id)
					next := schema.MakeEntryID(time.Now().Add(row.ahead), id.Shard(), 42)
					a := w.Recorded(before, 1, schema.Record{Outcome: schema.Failed, Next: next})
					w.Counts.Reset()
					if errs := w.followUp(bucketer.Finished{Entry: before, Attempt: a}); errs[0] != nil {
						t.Fatalf("FollowUp = %v", errs[0])
					}
					if got := w.Counts.Tally("PutEntries").Calls; got != 1+row.again {
						t.Errorf("%d writes, want %d", got, 1+row.again)
					}
					if got := w.Counts.Tally("EntriesByID").Calls; got != row.again {
						t.Errorf("%d reads, want %d", got, row.again)
					}
					time.Sleep(2*time.Hour + time.Minute)
					after, ok := w.Row(id)
					if ok != (row.again > 0) {
						t.Fatalf("after its own life the row is there: %v, want %v", ok, row.again > 0)
					}
					if !ok {
						return
					}
					if string(after.Text()) != string(before.Text()) || string(after.Payload) != string(before.Payload) {
						t.Errorf("row %s, want it as it was, %s", after.Text(), before.Text())
					}
					if got, err := w.EntryPayload(t.Context(), &after); err != nil || len(got) != size {
						t.Errorf("payload of %d bytes, %v; want %d", len(got), err, size)
					}
				})
			})
		}
	}
}

// A later start of a run whose row has left carries all that it needs.
func TestFollowUpOfARunThatHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{Retention: time.Hour})
		id := w.submit(callTo(time.Time{}))
		e, _ := w.Row(id)
		time.Sleep(2 * time.Hour)
		next := schema.MakeEntryID(time.Now().Add(time.Minute), id.Shard(), 42)
		if errs := w.followUp(bucketer.Finished{Entry: e, Attempt: w.Recorded(e, 1, schema.Record{Outcome: schema.Failed, Next: next})}); errs[0] != nil {
			t.Fatalf("FollowUp = %v", errs[0])
		}
		if _, ok := w.Row(id); ok {
			t.Error("the row is back")
		}
		if row, ok := w.Row(next); !ok || string(row.Payload) != `{"n":1}` {
			t.Errorf("the retry has payload %s (%v)", row.Payload, ok)
		}
	})
}

// TestWhatIsSaidOfARunAtOnceSharesNoRow: a step of a catch-up says of one run, and so in one
// partition, that it is missed and that the rest was replaced.
func TestWhatIsSaidOfARunAtOnceSharesNoRow(t *testing.T) {
	w := newWorld(t, schema.Settings{})
	for range 20_000 {
		run := schema.LoadEntry(schema.MakeEntryID(testNow, 1, schema.RandomHash()), []byte(`{}`), nil, schema.Marks{})
		catchUp := schema.LoadEntry(schema.MakeEntryID(testNow, 1, schema.RandomHash()), fmt.Appendf(nil, `{"kind":"catch_up","of":%q}`, run.ID), nil, schema.Marks{})
		said := []schema.Attempt{
			w.NotStarted(run, schema.Record{Outcome: schema.Missed}, testNow),
			w.NotStarted(run, schema.Record{Outcome: schema.Replaced}, testNow),
			w.NotStarted(catchUp, schema.Record{Outcome: schema.Replaced}, testNow),
		}
		for i := range said {
			if said[i].Run != run.ID || said[i].Fence < 0 || said[i].Fence == said[(i+1)%3].Fence {
				t.Fatalf("NotStarted = run %s, fences %d, %d and %d, want %s and three of them", said[i].Run, said[0].Fence, said[1].Fence, said[2].Fence, run.ID)
			}
		}
	}
}

func TestRecordWritesBatchesOfOnePartition(t *testing.T) {
	w := newWorld(t, schema.Settings{})
	var attempts []schema.Attempt
	for i := range 350 {
		id := schema.MakeEntryID(testNow, schema.Shard(i%2), schema.RandomHash())
		e := schema.LoadEntry(id, []byte(`{}`), nil, schema.Marks{})
		attempts = append(attempts, w.NotStarted(e, schema.Record{Outcome: schema.Missed}, time.Now()))
	}
	seen := &batches{Store: w.Store()}
	w.use(seen)
	if err := w.Record(t.Context(), attempts); err != nil {
		t.Fatal(err)
	}
	slices.Sort(seen.sizes)
	if want := []int{75, 75, 100, 100}; !slices.Equal(seen.sizes, want) || seen.mixed {
		t.Errorf("batches of %v (mixed: %v), want %v of one partition each", seen.sizes, seen.mixed, want)
	}
	seen.err = schema.ErrUnknown
	if err := w.Record(t.Context(), attempts); !errors.Is(err, schema.ErrUnknown) {
		t.Errorf("Record = %v, want ErrUnknown", err)
	}
	if err := w.Record(t.Context(), nil); err != nil {
		t.Errorf("Record of nothing = %v", err)
	}
}

// batches is a store that looks at batches of attempts.
type batches struct {
	bucketer.Store
	sizes []int
	mixed bool
	err   error
}

func (b *batches) PutAttempts(_ context.Context, attempts []schema.Attempt) error {
	b.sizes = append(b.sizes, len(attempts))
	for i := range attempts {
		b.mixed = b.mixed || attempts[i].Run.Partition() != attempts[0].Run.Partition()
	}
	return b.err
}

// A record that was read does not say when its row leaves. The line of history that follows from it
// leaves all the same.
func TestLinesOfRecordsThatWereReadLeave(t *testing.T) {
	w := newWorld(t, schema.Settings{})
	job := schema.MakeJobID(testNow, 1, 1)
	e, err := schema.NewEntry(schema.MakeEntryID(testNow, 1, 2), schema.Spec{Tenant: "t", Job: job, Trigger: schema.TriggerManual}, nil, testNow)
	if err != nil {
		t.Fatal(err)
	}
	lines := &historyLines{Store: w.Store()}
	w.use(lines)
	rec := schema.Record{Entry: e.ID, Outcome: schema.Succeeded, Finished: testNow}
	w.FollowUp(t.Context(), []bucketer.Finished{{Entry: e, Attempt: schema.Attempt{Run: e.ID, Number: 1, Record: &rec}}}, func(_ int, err error) {
		if err != nil {
			t.Errorf("FollowUp = %v", err)
		}
	})
	if len(lines.all) != 1 || !lines.all[0].Expires.After(testNow) {
		t.Errorf("lines %+v, want one that leaves", lines.all)
	}
}

// historyLines is a store that looks at lines of history.
type historyLines struct {
	bucketer.Store
	all []schema.JobRun
}

func (h *historyLines) PutJobRuns(_ context.Context, lines []schema.JobRun) error {
	h.all = append(h.all, lines...)
	return nil
}

// Who pauses jobs is told of failures for good once their line of history is held, of jobs that
// pause then.
func TestFailuresAreTold(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		told := 0
		w.TellFailures(func(tenant string, _ schema.JobID) {
			if told++; tenant != "t" {
				t.Errorf("told of a job of %q, want t", tenant)
			}
		})
		down := false
		w.Befall(func(_ context.Context, op string) schematest.Fault {
			return schematest.Fault{Fail: down && op == "PutJobRuns"}
		})
		failed := schema.Record{Outcome: schema.Failed, Final: true}
		for _, row := range []struct {
			name string
			spec schema.Spec
			rec  schema.Record
			down bool
			want int
		}{
			{"a failure for good", schema.Spec{PauseAfter: 3}, failed, false, 1},
			{"of a job that does not pause", schema.Spec{}, failed, false, 0},
			{"one that is tried again", schema.Spec{PauseAfter: 3}, schema.Record{Outcome: schema.Failed, Next: schema.MakeEntryID(time.Now(), 0, 9)}, false, 0},
			{"a success", schema.Spec{PauseAfter: 3}, schema.Record{Outcome: schema.Succeeded}, false, 0},
			{"a run that was missed", schema.Spec{PauseAfter: 3}, schema.Record{Outcome: schema.Missed}, false, 0},
			{"a line that is not held", schema.Spec{PauseAfter: 3}, failed, true, 0},
		} {
			told, down = 0, row.down
			id := schema.MakeEntryID(time.Now(), 0, schema.RandomHash())
			row.spec.Tenant, row.spec.Job, row.spec.Nominal, row.spec.Work = "t", schema.MakeJobID(time.Now(), 0, 5), time.Now(), callTo(time.Time{}).Work
			e, err := schema.NewEntry(id, row.spec, nil, time.Now().Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			errs := w.followUp(bucketer.Finished{Entry: e, Attempt: w.Recorded(e, 1, row.rec)})
			if told != row.want || (errs[0] != nil) != row.down {
				t.Errorf("%s: told %d times, %v; want %d", row.name, told, errs[0], row.want)
			}
		}
	})
}
