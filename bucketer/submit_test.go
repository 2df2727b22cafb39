package bucketer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// An unkeyed line costs its share of a batch and nothing else: no read, no conditional write.
func TestUnkeyedLinesCostNoReadAndNoCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		jobs := make([]Job, MaxChunk)
		for i := range jobs {
			jobs[i] = callTo(time.Now().Add(time.Hour).Truncate(time.Minute).Add(time.Duration(i) * time.Millisecond))
		}
		for i, a := range w.batch(jobs...) {
			if a.err != nil || a.Existing || !a.Run.Time().Equal(jobs[i].At) {
				t.Fatalf("job %d: %+v, want a new run due %v", i, a, jobs[i].At)
			}
		}
		// 4096 = 100 + 62 · 64 + 28
		want := map[string]schematest.Tally{"PutEntries": {Calls: 64, Rows: MaxChunk}}
		if got := w.Counts.Tallies(); !maps.Equal(got, want) {
			t.Errorf("%d unkeyed lines of one minute took %v, want %v", MaxChunk, got, want)
		}
	})
}

// One read answers for many keyed lines.
func TestKeyedLinesShareTheirReads(t *testing.T) {
	const lines, minutes = 100_000, 10
	w := newWorld(t, schema.Settings{})
	begin := time.Now().Add(time.Hour).Truncate(time.Minute)
	for first := 0; first < lines; first += MaxChunk {
		var jobs []Job
		for i := first; i < min(first+MaxChunk, lines); i++ {
			at := begin.Add(time.Duration(i) * minutes * time.Minute / lines)
			jobs = append(jobs, keyed(fmt.Sprint(i), at))
		}
		for i, a := range w.batch(jobs...) {
			if a.err != nil || a.Existing {
				t.Fatalf("line %d: %+v, want a new run", first+i, a)
			}
		}
	}
	tallies := w.Counts.Tallies()
	reads := tallies["EntriesByID"].Calls
	if reads > lines/10 || reads == 0 {
		t.Errorf("%d keyed lines took %d reads, want at most 0.1 a line", lines, reads)
	}
	if writes := tallies["PutEntries"].Calls; writes > lines/20 {
		t.Errorf("%d keyed lines took %d batches, want at least 20 rows each", lines, writes)
	}
	delete(tallies, "EntriesByID")
	delete(tallies, "PutEntries")
	if len(tallies) != 0 {
		t.Errorf("keyed lines took %v besides, want nothing", tallies)
	}
	t.Logf("%d lines: %d reads", lines, reads)
}

func TestKeyedLineSentAgainIsTheSameRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		at := time.Now().Add(time.Hour)
		jobs := make([]Job, 300)
		for i := range jobs {
			jobs[i] = keyed(fmt.Sprint(i), at)
		}
		first := w.batch(jobs...)
		time.Sleep(time.Minute)
		jobs[7].BodyHash = "another"
		for i, a := range w.batch(jobs...) {
			switch {
			case i == 7:
				if !errors.Is(a.err, ErrKeyReused) {
					t.Errorf("the key with another body: %+v, want ErrKeyReused", a)
				}
			case a.err != nil || !a.Existing || a.Run != first[i].Run:
				t.Fatalf("line %d again: %+v, want the existing %s", i, a, first[i].Run)
			}
		}
		if got := len(w.Entries(2 * time.Hour)); got != len(jobs) {
			t.Errorf("%d rows, want %d", got, len(jobs))
		}
		if other := w.batch(keyed("0", at.Add(time.Second)))[0]; other.err != nil || other.Existing {
			t.Errorf("the key at another instant: %+v, want a new run", other)
		}
	})
}

func TestLinesRepeatedWithinAChunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		at := time.Now().Add(time.Hour)
		other := keyed("k", at)
		other.BodyHash = "another"
		now := keyed("now", time.Time{})
		got := w.batch(keyed("k", at), keyed("k", at), other, keyed("k", at), now, now, callTo(at), callTo(at))
		run := got[0].Run
		for i, want := range []answer{
			{Receipt{Run: run}, nil},
			{Receipt{Run: run, Existing: true}, nil},
			{Receipt{}, ErrKeyReused},
			{Receipt{Run: run, Existing: true}, nil},
		} {
			if got[i].Receipt != want.Receipt || !errors.Is(got[i].err, want.err) {
				t.Errorf("line %d = %+v, want %+v", i, got[i], want)
			}
		}
		if got[4].Run != got[5].Run || got[4].Existing == got[5].Existing {
			t.Errorf("one key twice: %+v and %+v, want one run that existed for one of them", got[4], got[5])
		}
		if got[6].Run == got[7].Run || got[6].err != nil || got[7].err != nil {
			t.Errorf("two equal unkeyed lines: %+v and %+v, want two runs", got[6], got[7])
		}
		if n := len(w.Entries(2 * time.Hour)); n != 4 {
			t.Errorf("%d rows, want 4", n)
		}
	})
}

// A keyed line is found under each number of shards of the last 24 h, and by nothing older.
func TestKeyedLineIsFoundAfterShardsWereRaised(t *testing.T) {
	for name, row := range map[string]struct {
		ago  time.Duration
		want bool
	}{"a minute ago": {time.Minute, true}, "23 h ago": {23 * time.Hour, true}, "25 h ago": {25 * time.Hour, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, schema.Settings{Shards: 4})
				jobs := make([]Job, 40)
				for i := range jobs {
					jobs[i] = keyed(fmt.Sprint(i), time.Now().Add(48*time.Hour))
				}
				first := w.batch(jobs...)
				w.Setting.Shards, w.Setting.History = 64, []schema.ShardCount{{Shards: 4, Until: time.Now()}}
				time.Sleep(row.ago)
				if err := w.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
				found := 0
				for i, a := range w.batch(jobs...) {
					if a.err != nil {
						t.Fatalf("line %d: %v", i, a.err)
					}
					if a.Existing && a.Run == first[i].Run {
						found++
					}
				}
				if row.want && found != len(jobs) || !row.want && found > len(jobs)/2 {
					t.Errorf("%d of %d lines were found, want all: %v", found, len(jobs), row.want)
				}
			})
		})
	}
}

// A line that is sent again after its due time starts, if nothing says that it has.
func TestKeyedLineMetLate(t *testing.T) {
	for name, row := range map[string]struct {
		wait time.Duration
		do   func(w *world, run schema.Entry)
		late int
	}{
		"before its due time":    {time.Minute - time.Second, nil, 0},
		"5 s after it":           {time.Minute + 5*time.Second, nil, 0},
		"6 s after it":           {time.Minute + 6*time.Second, nil, 1},
		"an hour after it":       {time.Hour, nil, 1},
		"after it has failed":    {time.Hour, func(w *world, e schema.Entry) { w.Recorded(e, 1, schema.Record{Outcome: schema.Failed}) }, 0},
		"while it runs":          {time.Hour, func(w *world, e schema.Entry) { w.Running(e, 1) }, 0},
		"after it was missed":    {time.Hour, func(w *world, e schema.Entry) { w.Recorded(e, 0, schema.Record{Outcome: schema.Missed}) }, 0},
		"after it was cancelled": {time.Hour, func(w *world, e schema.Entry) { w.cancel(e.ID) }, 0},
		"after it was moved to later": {time.Hour, func(w *world, e schema.Entry) {
			w.move(e.ID, time.Now().Add(24*time.Hour))
		}, 0},
	} {
		for _, kind := range []string{"import line", "single request"} {
			t.Run(kind+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, schema.Settings{})
					job := keyed("k", time.Now().Add(time.Minute))
					send := func() (Receipt, error) {
						if kind == "import line" {
							a := w.batch(job)[0]
							return a.Receipt, a.err
						}
						return w.Submit(context.Background(), job)
					}
					first, err := send()
					if err != nil {
						t.Fatalf("the line = %v", err)
					}
					if row.do != nil {
						e, _ := w.Row(first.Run)
						row.do(w, e)
					}
					time.Sleep(row.wait)
					w.Hinted()
					again, err := send()
					if err != nil || !again.Existing || again.Run != first.Run {
						t.Fatalf("the line again = %+v, %v; want the existing %s", again, err, first.Run)
					}
					all := w.Entries(2 * time.Hour)
					if got := bucketertest.Kinds(all)[schema.KindLate]; got != row.late {
						t.Errorf("rows:\n%swant %d late entries", bucketertest.Describe(all), row.late)
					}
					if near := w.Hinted(); len(near) != row.late {
						t.Errorf("hints:\n%swant %d", bucketertest.Describe(near), row.late)
					}
				})
			})
		}
	}
}

// The row was not held when the line was sent again, but only when its read had ended: late is
// judged by then.
func TestKeyedLineReadSlowlyIsJudgedAfterTheRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		job := keyed("k", time.Now().Add(time.Minute))
		w.batch(job)
		time.Sleep(time.Minute + 4*time.Second)
		w.BefallFirst(1, "EntriesByID", schematest.Fault{Delay: 2 * time.Second})
		if a := w.batch(job)[0]; a.err != nil || !a.Existing {
			t.Fatalf("again = %+v", a)
		}
		if k := bucketertest.Kinds(w.Entries(time.Hour)); k[schema.KindLate] != 1 {
			t.Errorf("kinds = %v, want a late entry: the row is known to be held only 6 s after its due time", k)
		}
	})
}

func TestSubmitRefuses(t *testing.T) {
	for name, row := range map[string]struct {
		do   func(w *world)
		job  Job
		want error
	}{
		"no such task":                 {nil, Job{Tenant: "t", Task: "none"}, ErrNoTask},
		"a task of another":            {func(w *world) { w.task("u", "mine") }, Job{Tenant: "t", Task: "mine"}, ErrNoTask},
		"a task":                       {func(w *world) { w.task("t", "mine") }, Job{Tenant: "t", Task: "mine"}, nil},
		"while halted":                 {func(w *world) { w.Stopped.Store(true) }, callTo(time.Time{}), ErrNotReady},
		"settings unread":              {func(w *world) { w.settings.Store(nil) }, callTo(time.Time{}), ErrNotReady},
		"tasks cannot be read":         {func(w *world) { w.BefallFirst(9, "Task", schematest.Fault{Fail: true}) }, Job{Tenant: "t", Task: "mine"}, schema.ErrUnavailable},
		"the key's registration fails": {func(w *world) { w.BefallFirst(9, "RegisterKey", schematest.Fault{Fail: true}) }, keyed("k", time.Time{}), schema.ErrUnavailable},
		"the key's registration is of unknown outcome": {
			func(w *world) { w.BefallFirst(9, "RegisterKey", schematest.Fault{Lose: true}) },
			keyed("k", time.Time{}), schema.ErrUnknown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, schema.Settings{})
				if row.do != nil {
					row.do(w)
				}
				if _, err := w.Submit(t.Context(), row.job); !errors.Is(err, row.want) {
					t.Errorf("Submit = %v, want %v", err, row.want)
				}
				if a := w.batch(row.job, row.job); !errors.Is(a[0].err, row.want) || !errors.Is(a[1].err, row.want) {
					t.Errorf("SubmitBatch = %v, want %v", a, row.want)
				}
				if n := len(w.Entries(time.Minute)); row.want != nil && n != 0 {
					t.Errorf("%d rows were written, want none", n)
				}
			})
		})
	}
}

func TestSubmitBatchRefusesLargeChunks(t *testing.T) {
	w := newWorld(t, schema.Settings{})
	for i, a := range w.batch(make([]Job, MaxChunk+1)...) {
		if !errors.Is(a.err, ErrOverloaded) {
			t.Fatalf("job %d of %d = %v, want ErrOverloaded", i, MaxChunk+1, a.err)
		}
	}
	w.SubmitBatch(t.Context(), nil, func(int, Receipt, error) { t.Error("an empty chunk was answered") })
}

// Whatever the store does, every job is answered exactly once; of what is answered with success an
// entry was held in time for its sweep; and sending the keyed lines again until they succeed makes
// one run each.
func TestSubmitBatchThroughFaults(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { submitThroughFaults(t, seed) })
		})
	}
}

func submitThroughFaults(t *testing.T, seed uint64) {
	w := newWorld(t, schema.Settings{Shards: 4})
	w.Befall(schematest.Seeded(seed, schematest.Odds{Delay: 0.3, Fail: 0.15, Lose: 0.1, Tear: 0.1, Late: 0.1, MaxDelay: 8 * time.Second}))
	draw := rand.New(rand.NewPCG(seed, 1))
	begin := time.Now()
	var jobs []Job
	for i := range 400 {
		at := begin.Add(time.Duration(draw.IntN(120_000)) * time.Millisecond)
		switch i % 4 {
		case 0:
			jobs = append(jobs, callTo(at))
		case 1:
			jobs = append(jobs, keyed(fmt.Sprint("now", i), time.Time{}))
		default:
			jobs = append(jobs, keyed(fmt.Sprint("at", draw.IntN(i)), at.Truncate(time.Minute)))
		}
	}
	done := make(map[schema.RunID]bool)
	byKey := make(map[string]schema.RunID)
	open := jobs
	for round := 0; len(open) > 0; round++ {
		if round == 50 {
			w.Befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
		}
		var again []Job
		for i, a := range w.batch(open...) {
			switch {
			case a.err == nil:
				done[a.Run] = true
				if open[i].Key != "" {
					key := fmt.Sprint(open[i].Key, open[i].At)
					if was, ok := byKey[key]; ok && was != a.Run {
						t.Fatalf("key %s was answered with %s and with %s", key, was, a.Run)
					}
					byKey[key] = a.Run
				}
			case errors.Is(a.err, schema.ErrUnknown), errors.Is(a.err, schema.ErrUnavailable):
				if open[i].Key != "" {
					again = append(again, open[i])
				}
			default:
				t.Fatalf("job %+v = %v", open[i], a.err)
			}
		}
		open = again
	}
	inTime := make(map[schema.RunID]bool) // an entry of the run was held early enough for its sweep
	late := 0
	for _, e := range w.Entries(3 * time.Hour) {
		if !w.Held[e.ID].After(e.Due().Add(LateAfter)) {
			inTime[e.Run()] = true
		}
		if e.Spec.Kind == schema.KindLate {
			late++
		}
	}
	for id := range done {
		if _, ok := w.Row(id); !ok || !inTime[id] {
			t.Errorf("run %s was promised: held %v, by a sweep's time %v; want both", id, ok, inTime[id])
		}
	}
	if late == 0 {
		t.Error("no row was late: the faults are too few to show anything")
	}
}
