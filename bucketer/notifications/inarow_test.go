package notifications_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// ended returns the record of a run of a job that was due and ended now, or of a one-off run.
func (w *world) ended(job schema.JobID, outcome schema.Outcome) bucketer.Finished {
	w.T.Helper()
	time.Sleep(time.Minute)
	now := time.Now().UTC()
	spec := schema.Spec{
		Tenant: tenant, Job: job, JobName: "nightly", Nominal: now, Accepted: now.UnixMicro(), Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/"}},
	}
	e, err := schema.NewEntry(schema.MakeEntryID(now, 1, schema.RandomHash()), spec, nil, now.Add(time.Hour))
	if err != nil {
		w.T.Fatal(err)
	}
	rec := schema.Record{
		Entry: e.ID, Outcome: outcome, Final: outcome == schema.Failed, Error: "refused", Started: now, Finished: now.Add(time.Millisecond), Announce: true,
	}
	f := bucketer.Finished{Entry: e, Attempt: schema.Attempt{Run: e.ID, Number: 1, Fence: 1, Record: &rec, Written: now.UnixMicro(), Expires: now.Add(time.Hour)}}
	if err := w.e.Record(w.T.Context(), []schema.Attempt{f.Attempt}); err != nil {
		w.T.Fatal(err)
	}
	return f
}

// follow follows records up together, and returns how many are to be followed up again.
func (w *world) follow(finished ...bucketer.Finished) (again int) {
	w.T.Helper()
	w.e.FollowUp(w.T.Context(), finished, func(_ int, err error) {
		if err != nil {
			again++
		}
	})
	return again
}

// counted returns of how many failures in a row each incident tells, by their time.
func (w *world) counted() (counts []int) {
	w.T.Helper()
	for minute := schema.BucketOf(w.began); minute <= schema.BucketOf(time.Now()); minute++ {
		page, err := w.Counts.Incidents(w.T.Context(), tenant, minute, schema.EntryID{}, 100)
		if err != nil {
			w.T.Fatal(err)
		}
		for i := range page {
			counts = append(counts, page[i].InARow)
		}
	}
	return counts
}

func threeInARow(r *schema.NotificationRule) { r.Match.InARow = 3 }

// TestFailuresInARowAreTold: a rule for three in a row takes the third, and those after it.
func TestFailuresInARowAreTold(t *testing.T) {
	const failed, succeeded, missed, cancelled = schema.Failed, schema.Succeeded, schema.Missed, schema.Cancelled
	for name, c := range map[string]struct {
		outcomes []schema.Outcome
		want     []int // of each incident
	}{
		"two":                       {[]schema.Outcome{failed, failed}, nil},
		"three":                     {[]schema.Outcome{failed, failed, failed}, []int{3}},
		"five":                      {[]schema.Outcome{failed, failed, failed, failed, failed}, []int{3, 3, 3}},
		"a success ends it":         {[]schema.Outcome{failed, failed, succeeded, failed, failed}, nil},
		"another three":             {[]schema.Outcome{succeeded, failed, failed, failed, succeeded, failed}, []int{3}},
		"what never ran is no part": {[]schema.Outcome{failed, missed, failed, cancelled, failed}, []int{3}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.put(threeInARow)
				job := schema.MakeJobID(w.began, 1, 7)
				for _, outcome := range c.outcomes {
					if again := w.follow(w.ended(job, outcome)); again > 0 {
						t.Fatal("a record is to be followed up again")
					}
				}
				if got := w.counted(); !slices.Equal(got, c.want) {
					t.Errorf("incidents tell of %v failures in a row, want %v", got, c.want)
				}
				defer w.notify(always())()
				time.Sleep(20 * time.Minute)
				told := 0
				for _, n := range w.counts() {
					told += n
				}
				if told != len(c.want) {
					t.Errorf("messages tell of %d failures, want %d", told, len(c.want))
				}
			})
		})
	}
}

// TestAStreakIsCountedInAnyOrder: whatever order its records are followed up in, alone or together,
// it is told of once all of them are.
func TestAStreakIsCountedInAnyOrder(t *testing.T) {
	for _, order := range [][][]int{{{0}, {1}, {2}}, {{2}, {1}, {0}}, {{1}, {2}, {0}}, {{0, 1, 2}}, {{2, 1}, {0}}, {{0}, {2, 1}}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.put(threeInARow)
				job := schema.MakeJobID(w.began, 1, 7)
				w.follow(w.ended(job, schema.Failed), w.ended(job, schema.Succeeded)) // another streak
				var all []bucketer.Finished
				for range 3 {
					all = append(all, w.ended(job, schema.Failed))
				}
				w.follow(w.ended(job, schema.Succeeded), w.ended(job, schema.Failed), w.ended(job, schema.Failed)) // and another
				if got := w.counted(); len(got) > 0 {
					t.Fatalf("incidents tell of %v failures in a row before there are three", got)
				}
				for i, together := range order {
					var part []bucketer.Finished
					for _, k := range together {
						part = append(part, all[k])
					}
					w.follow(part...)
					if got, last := w.counted(), i == len(order)-1; last != slices.Contains(got, 3) || !last && len(got) > 0 {
						t.Errorf("once the records %v are followed up, incidents tell of %v failures in a row; want one of 3 after the last alone", order[:i+1], got)
					}
				}
			})
		})
	}
}

// TestFaultsAtEveryCallOfCounting: whatever call of the store fails, is torn or loses its answer,
// the third failure is told of once its record is followed up again.
func TestFaultsAtEveryCallOfCounting(t *testing.T) {
	for name, fault := range map[string]schematest.Fault{"fails": {Fail: true}, "loses its answer": {Lose: true}, "is torn": {Tear: true}} {
		for n := 1; ; n++ {
			reached := false
			inWorld(t, func(t *testing.T, w *world) {
				w.put(threeInARow)
				job := schema.MakeJobID(w.began, 1, 7)
				w.follow(w.ended(job, schema.Failed), w.ended(job, schema.Failed))
				third := w.ended(job, schema.Failed)
				var calls atomic.Int64
				w.Befall(func(context.Context, string) (none schematest.Fault) {
					if calls.Add(1) == int64(n) {
						return fault
					}
					return none
				})
				for tries := 0; w.follow(third) > 0; tries++ {
					if tries == 5 {
						t.Fatalf("call %d %s: the record cannot be followed up", n, name)
					}
				}
				reached = calls.Load() >= int64(n)
				if got := w.counted(); !slices.Equal(got, []int{3}) {
					t.Errorf("call %d %s: incidents tell of %v failures in a row, want one of 3", n, name, got)
				}
			})
			if !reached {
				if n < 4 {
					t.Fatalf("only %d calls", n)
				}
				break
			}
		}
	}
}

// TestOnlyWhereARuleAsksItIsCounted: elsewhere no history is read, and a line of it is written
// once. Of one-off runs nothing is told.
func TestOnlyWhereARuleAsksItIsCounted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.put(nil)
		w.put(func(r *schema.NotificationRule) { r.Name, r.Match.Job, r.Match.InARow = "others", "weekly", 2 })
		job := schema.MakeJobID(w.began, 1, 7)
		all := []bucketer.Finished{w.ended(job, schema.Failed), w.ended(job, schema.Failed)}
		w.Counts.Reset()
		w.follow(all...)
		if reads, writes := w.Counts.Tally("JobRuns").Calls, w.Counts.Tally("PutJobRuns").Calls; reads != 0 || writes != 1 {
			t.Errorf("history was read %d times and written %d times, want 0 and 1", reads, writes)
		}
		if got := w.counted(); !slices.Equal(got, []int{0, 0}) {
			t.Errorf("incidents tell of %v failures in a row, want that none was counted", got)
		}
	})
	inWorld(t, func(t *testing.T, w *world) {
		w.put(threeInARow)
		for range 4 {
			w.follow(w.ended(schema.JobID{}, schema.Failed))
		}
		if got := w.counted(); len(got) > 0 {
			t.Errorf("incidents of one-off runs were written: %v", got)
		}
	})
}
