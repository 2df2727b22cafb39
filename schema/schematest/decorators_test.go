package schematest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var due = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// partition is where the entries of these tests lie.
var partition = schema.Partition{Bucket: schema.BucketOf(due), Shard: 1}

func open(t *testing.T) *embedded.Store {
	t.Helper()
	s, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return s
}

func entries(t *testing.T, n int) []schema.Entry {
	t.Helper()
	var all []schema.Entry
	for i := range n {
		id := schema.MakeEntryID(due, 1, uint64(i))
		e, err := schema.NewEntry(id, schema.Spec{Tenant: "t", Nominal: due}, nil, time.Time{})
		if err != nil {
			t.Fatalf("NewEntry = %v", err)
		}
		all = append(all, e)
	}
	return all
}

// held returns how many entries s holds.
func held(t *testing.T, s schema.Store) int {
	t.Helper()
	ids, err := s.EntryIDs(context.Background(), partition, schema.IDRange{}, 1000)
	if err != nil {
		t.Fatalf("EntryIDs = %v", err)
	}
	return len(ids)
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name        string
		fault       schematest.Fault
		writeErr    error // of PutEntries of four
		markErr     error // of CancelRun of an entry that is there
		readErr     error
		heldAtOnce  int // of the four
		heldAtClose int
		cancelled   bool
		takes       time.Duration
	}{
		{name: "none", heldAtOnce: 4, heldAtClose: 4, cancelled: true},
		{name: "delay", fault: schematest.Fault{Delay: time.Hour}, heldAtOnce: 4, heldAtClose: 4, cancelled: true, takes: time.Hour},
		{
			name: "fail", fault: schematest.Fault{Fail: true},
			writeErr: schema.ErrUnavailable, markErr: schema.ErrUnavailable, readErr: schema.ErrUnavailable,
		},
		{
			name: "silent", fault: schematest.Fault{Silent: true},
			writeErr: schema.ErrUnknown, markErr: schema.ErrUnknown, readErr: schema.ErrUnavailable,
		},
		{
			name: "lose", fault: schematest.Fault{Lose: true}, heldAtOnce: 4, heldAtClose: 4, cancelled: true,
			writeErr: schema.ErrUnknown, markErr: schema.ErrUnknown, readErr: schema.ErrUnavailable,
		},
		{
			name: "tear", fault: schematest.Fault{Tear: true}, heldAtOnce: 2, heldAtClose: 2, cancelled: true,
			writeErr: schema.ErrUnknown, markErr: schema.ErrUnknown, readErr: schema.ErrUnavailable,
		},
		{
			name: "late", fault: schematest.Fault{Late: time.Hour}, heldAtOnce: 0, heldAtClose: 4, cancelled: true,
			writeErr: schema.ErrUnknown, markErr: schema.ErrUnknown, readErr: schema.ErrUnavailable,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				inner := open(t)
				old := entries(t, 5)[4]
				if err := inner.PutEntries(ctx, []schema.Entry{old}); err != nil {
					t.Fatalf("PutEntries of the store beneath = %v", err)
				}
				var ops []string
				s := schematest.Faulty(inner, func(_ context.Context, op string) schematest.Fault {
					ops = append(ops, op)
					return c.fault
				})
				begin := time.Now()
				if err := s.PutEntries(ctx, entries(t, 4)); !errors.Is(err, c.writeErr) {
					t.Errorf("PutEntries = %v, want %v", err, c.writeErr)
				}
				if took := time.Since(begin); took != c.takes {
					t.Errorf("PutEntries took %v, want %v", took, c.takes)
				}
				if got := held(t, inner) - 1; got != c.heldAtOnce {
					t.Errorf("held when PutEntries returned = %d of 4, want %d", got, c.heldAtOnce)
				}
				if _, err := s.CancelRun(ctx, old.ID, schema.EntryID{}, schema.Cancel{At: begin}, time.Time{}); !errors.Is(err, c.markErr) {
					t.Errorf("CancelRun = %v, want %v", err, c.markErr)
				}
				if marks, err := inner.Marks(ctx, old.ID); err != nil || (marks.Cancelled != nil) != c.cancelled {
					t.Errorf("Marks = %+v, %v; want cancelled %v", marks, err, c.cancelled)
				}
				if got, err := s.Entries(ctx, partition, schema.IDRange{}, 9); !errors.Is(err, c.readErr) || err != nil && got != nil {
					t.Errorf("Entries = %d entries, %v; want %v", len(got), err, c.readErr)
				}
				if want := []string{"PutEntries", "CancelRun", "Entries"}; !slices.Equal(ops, want) {
					t.Errorf("the plan was asked about %q, want %q", ops, want)
				}
				time.Sleep(2 * time.Hour)
				if got := held(t, inner) - 1; got != c.heldAtClose {
					t.Errorf("held in the end = %d of 4, want %d", got, c.heldAtClose)
				}
				if err := s.Close(); err != nil {
					t.Errorf("Close = %v", err)
				}
			})
		})
	}
}

// Close waits for what is under way, so that a simulation can end a store with late writes.
func TestCloseWaitsForLateWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := schematest.Faulty(open(t), func(context.Context, string) schematest.Fault {
			return schematest.Fault{Late: time.Hour}
		})
		begin := time.Now()
		if err := s.PutEntries(t.Context(), entries(t, 1)); !errors.Is(err, schema.ErrUnknown) {
			t.Errorf("PutEntries = %v, want %v", err, schema.ErrUnknown)
		}
		if err := s.Close(); err != nil || time.Since(begin) != time.Hour {
			t.Errorf("Close = %v after %v, want after an hour", err, time.Since(begin))
		}
	})
}

func TestDelayEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := open(t)
		s := schematest.Faulty(inner, func(context.Context, string) schematest.Fault {
			return schematest.Fault{Delay: time.Hour}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.PutEntries(ctx, entries(t, 1)); !errors.Is(err, schema.ErrUnavailable) || held(t, inner) != 0 {
			t.Errorf("PutEntries = %v, %d held; want %v, none", err, held(t, inner), schema.ErrUnavailable)
		}
	})
}

func TestSeededPlanRepeats(t *testing.T) {
	odds := schematest.Odds{Delay: 0.3, Fail: 0.2, Lose: 0.2, Tear: 0.2, Late: 0.2, MaxDelay: time.Second}
	draw := func(seed uint64, op string, others int) (faults []schematest.Fault) {
		plan := schematest.Seeded(seed, odds)
		for range 200 {
			faults = append(faults, plan(t.Context(), op))
			for range others {
				plan(t.Context(), "Other")
			}
		}
		return faults
	}
	first := draw(1, "PutEntries", 0)
	if !slices.Equal(draw(1, "PutEntries", 3), first) {
		t.Error("calls of another method change what befalls this one")
	}
	if slices.Equal(draw(2, "PutEntries", 0), first) || slices.Equal(draw(1, "PutAttempts", 0), first) {
		t.Error("another seed or another method has the same faults")
	}
	var seen schematest.Fault
	for _, f := range first {
		seen.Delay, seen.Late = max(seen.Delay, f.Delay), max(seen.Late, f.Late)
		seen.Fail, seen.Lose, seen.Tear = seen.Fail || f.Fail, seen.Lose || f.Lose, seen.Tear || f.Tear
	}
	if !seen.Fail || !seen.Lose || !seen.Tear || seen.Delay == 0 || seen.Late == 0 || max(seen.Delay, seen.Late) > time.Second {
		t.Errorf("faults seen in 200 calls = %+v, want every kind, none over a second", seen)
	}
}

// An unknown outcome that was one's own is a success, somebody else's is a conflict.
func TestRetryingDecidesUnknownOutcomes(t *testing.T) {
	ctx := t.Context()
	inner := open(t)
	run := entries(t, 1)[0]
	if err := inner.PutEntries(ctx, []schema.Entry{run}); err != nil {
		t.Fatalf("PutEntries = %v", err)
	}
	lost := 0
	s := schematest.Retrying(schematest.Faulty(inner, func(_ context.Context, op string) schematest.Fault {
		lose := op == "CancelRun" || op == "SwapSession"
		if lose {
			lost++
		}
		return schematest.Fault{Lose: lose}
	}))
	mine, other := schema.Cancel{At: due, By: "me"}, schema.Cancel{At: due, By: "another"}
	if marks, err := s.CancelRun(ctx, run.ID, schema.EntryID{}, mine, time.Time{}); err != nil || marks.Cancelled == nil {
		t.Errorf("CancelRun = %+v, %v; want the mark", marks, err)
	}
	if marks, err := s.CancelRun(ctx, run.ID, schema.EntryID{}, other, time.Time{}); !errors.Is(err, schema.ErrConflict) ||
		marks.Cancelled == nil || marks.Cancelled.By != "me" {
		t.Errorf("CancelRun of a cancelled run = %+v, %v; want my mark and %v", marks, err, schema.ErrConflict)
	}
	session := schema.Session{Executor: "ex", ID: "mine", Expires: due}
	if err := s.SwapSession(ctx, schema.Session{}, session); err != nil {
		t.Errorf("SwapSession = %v", err)
	}
	if err := s.SwapSession(ctx, schema.Session{}, schema.Session{Executor: "ex", ID: "another", Expires: due}); !errors.Is(err, schema.ErrConflict) {
		t.Errorf("SwapSession beside another = %v, want %v", err, schema.ErrConflict)
	}
	if lost != 4 {
		t.Errorf("%d conditional writes, want 4: none repeated", lost)
	}
}

// A change of a job that was lost is known again by its generation, also under one that followed;
// under two it stays unknown.
func TestRetryingDecidesChangesOfJobs(t *testing.T) {
	for _, c := range []struct {
		name   string
		follow []int64 // generations that others write before the look
		want   error
		stands int64
	}{
		{"it stands", nil, nil, 20},
		{"one followed", []int64{30}, nil, 30},
		{"two followed", []int64{30, 40}, schema.ErrUnknown, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := t.Context()
			inner := open(t)
			job := func(was, number int64) schema.Job {
				j := schema.Job{ID: schema.MakeJobID(due, 1, 1), Current: schema.Generation{Number: number}}
				if was != 0 {
					j.Before = &schema.Generation{Number: was}
				}
				return j
			}
			ops := map[string]int{}
			s := schematest.Retrying(schematest.Faulty(inner, func(_ context.Context, op string) schematest.Fault {
				ops[op]++
				was := int64(20)
				for _, number := range c.follow {
					if op != "Job" {
						break
					}
					if err := inner.SwapJob(ctx, was, job(was, number)); err != nil {
						t.Errorf("SwapJob of another = %v", err)
					}
					was = number
				}
				return schematest.Fault{Lose: op == "CreateJob" || op == "SwapJob"}
			}))
			if err := inner.CreateJob(ctx, job(0, 10)); err != nil {
				t.Fatalf("CreateJob = %v", err)
			}
			if err := s.SwapJob(ctx, 10, job(10, 20)); !errors.Is(err, c.want) {
				t.Errorf("SwapJob = %v, want %v", err, c.want)
			}
			if got, err := inner.Job(ctx, job(0, 0).ID); err != nil || got.Current.Number != c.stands {
				t.Errorf("Job = generation %d, %v; want %d", got.Current.Number, err, c.stands)
			}
			if ops["SwapJob"] != 1 || ops["Job"] != 1 {
				t.Errorf("%d changes, %d looks; want 1 and 1", ops["SwapJob"], ops["Job"])
			}
		})
	}
}

// Half of a torn batch of history is held, and the caller may use the batch again while a late one
// is under way.
func TestFaultsOfHistory(t *testing.T) {
	for name, c := range map[string]struct {
		fault            schematest.Fault
		atOnce, inTheEnd int
		wantErr          error
	}{
		"tear": {schematest.Fault{Tear: true}, 2, 2, schema.ErrUnknown},
		"late": {schematest.Fault{Late: time.Hour}, 0, 4, schema.ErrUnknown},
		"fail": {schematest.Fault{Fail: true}, 0, 0, schema.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := open(t)
				s := schematest.Faulty(inner, func(context.Context, string) schematest.Fault { return c.fault })
				job := schema.MakeJobID(due, 1, 1)
				batch := make([]schema.JobRun, 4)
				for i := range batch {
					batch[i] = schema.JobRun{Job: job, Run: schema.MakeEntryID(due, 1, uint64(i)), State: schema.StateFailed}
				}
				if err := s.PutJobRuns(t.Context(), batch); !errors.Is(err, c.wantErr) {
					t.Errorf("PutJobRuns = %v, want %v", err, c.wantErr)
				}
				clear(batch)
				held := func() int {
					lines, err := inner.JobRuns(t.Context(), job, schema.PeriodOf(due), schema.RunID{}, 10)
					if err != nil {
						t.Errorf("JobRuns = %v", err)
					}
					return len(lines)
				}
				if got := held(); got != c.atOnce {
					t.Errorf("%d lines are held when PutJobRuns returned, want %d", got, c.atOnce)
				}
				time.Sleep(2 * time.Hour)
				if got := held(); got != c.inTheEnd {
					t.Errorf("%d lines are held in the end, want %d", got, c.inTheEnd)
				}
			})
		})
	}
}

func TestRetryingGivesUp(t *testing.T) {
	tries := 0
	s := schematest.Retrying(schematest.Faulty(open(t), func(context.Context, string) schematest.Fault {
		tries++
		return schematest.Fault{Fail: true}
	}))
	if _, err := s.Settings(t.Context()); !errors.Is(err, schema.ErrUnavailable) || tries != 100 {
		t.Errorf("Settings = %v after %d tries, want %v after 100", err, tries, schema.ErrUnavailable)
	}
}

func TestCounting(t *testing.T) {
	s := schematest.Counting(open(t))
	ctx := t.Context()
	for range 2 {
		if err := s.PutEntries(ctx, entries(t, 3)); err != nil {
			t.Fatalf("PutEntries = %v", err)
		}
	}
	if _, err := s.Marks(ctx, schema.EntryID{}); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("Marks = %v, want %v", err, schema.ErrNotFound)
	}
	for op, want := range map[string]schematest.Tally{
		"PutEntries": {Calls: 2, Rows: 6}, "Marks": {Calls: 1, Rows: 1}, "CancelRun": {},
	} {
		if got := s.Tally(op); got != want {
			t.Errorf("Tally(%s) = %+v, want %+v", op, got, want)
		}
	}
	if got := len(s.Tallies()); got != 2 {
		t.Errorf("Tallies() = %d methods, want 2", got)
	}
	s.Reset()
	if got := len(s.Tallies()); got != 0 {
		t.Errorf("Tallies() after Reset = %d methods, want none", got)
	}
}
