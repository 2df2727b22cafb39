package schematest

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// jobRun makes a line of history of a run due at a time, written age µs after the beginning of the
// test.
func (b *bench) jobRun(id schema.JobID, due time.Time, state schema.State, age int64) schema.JobRun {
	return schema.JobRun{
		Job: id, Run: schema.MakeEntryID(due, id.Shard(), b.rnd.Uint64()), State: state,
		Nominal: due.Add(-time.Second), Started: due, Finished: due.Add(time.Minute + time.Millisecond),
		Written: b.now.UnixMicro() + age, Expires: b.later(),
	}
}

// history reads a period of a job in pages of limit.
func (b *bench) history(id schema.JobID, period, limit int) []schema.JobRun {
	b.Helper()
	return pages(b, "JobRuns", limit, func(last *schema.JobRun) ([]schema.JobRun, error) {
		return b.store.JobRuns(b.ctx, id, period, or(last, func(r *schema.JobRun) schema.RunID { return r.Run }), limit)
	})
}

func (b *bench) wantHistory(got, want []schema.JobRun, format string, args ...any) {
	b.Helper()
	want = slices.Clone(want)
	for i := range want {
		want[i].Expires = time.Time{} // unknown when read
	}
	if len(got) == 0 && len(want) == 0 || reflect.DeepEqual(got, want) {
		return
	}
	b.Errorf("%s = %d lines:\n\t%+v\nwant %d:\n\t%+v", fmt.Sprintf(format, args...), len(got), got, len(want), want)
}

var historyRules = []rule{
	{"lines come newest first, page by page, in periods", func(b *bench) {
		p := b.jobPlace()
		id, other := b.jobID(p, 0), b.jobID(p, 1)
		begin := p.at.Truncate(schema.HistoryPeriod) // a period's
		if got := schema.PeriodOf(begin); got == schema.PeriodOf(begin.Add(-time.Millisecond)) {
			b.Fatalf("PeriodOf(%v) = %d, as the ms before", begin, got)
		}
		var all []schema.JobRun
		for _, due := range []time.Duration{-25 * time.Hour, -2 * time.Millisecond, -time.Millisecond, 0, time.Millisecond, time.Hour, 2 * time.Hour, 23 * time.Hour, 24 * time.Hour} {
			all = append(all, b.jobRun(id, begin.Add(due), schema.StateSucceeded, 0))
		}
		all = append(all, schema.JobRun{ // says little
			Job: id, Run: schema.MakeEntryID(begin.Add(12*time.Hour), p.shard, 1), State: schema.StateMissed,
			Missed:  &schema.Stretch{From: begin, To: begin.Add(time.Hour), Count: 61, Reason: "deadline"},
			Written: b.now.UnixMicro(), Expires: b.later(),
		})
		shuffled := slices.Clone(all)
		b.rnd.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		b.must(b.store.PutJobRuns(b.ctx, append(shuffled, b.jobRun(other, begin, schema.StateFailed, 0))), "PutJobRuns")
		slices.SortFunc(all, func(x, y schema.JobRun) int { return y.Run.Compare(x.Run) })
		for _, limit := range []int{1, 2, 100} {
			var got []schema.JobRun
			for period := schema.PeriodOf(begin) + 2; period >= schema.PeriodOf(begin)-3; period-- {
				of := b.history(id, period, limit)
				for i := range of {
					if of[i].Period() != period {
						b.Errorf("JobRuns of period %d has %s, of %d", period, of[i].Run, of[i].Period())
					}
				}
				got = append(got, of...)
			}
			b.wantHistory(got, all, "JobRuns, limit %d, over all periods", limit)
		}
	}},
	{"the latest write of a line wins, whatever comes last", func(b *bench) {
		p := b.jobPlace()
		failed := b.jobRun(b.jobID(p, 0), p.at, schema.StateFailed, 0)
		succeeded := failed
		succeeded.State, succeeded.Written = schema.StateSucceeded, failed.Written+1
		succeeded.Started = time.Time{}
		for _, put := range []schema.JobRun{failed, succeeded, failed, succeeded, failed} {
			b.must(b.store.PutJobRuns(b.ctx, []schema.JobRun{put}), "PutJobRuns")
		}
		b.wantHistory(b.history(failed.Job, failed.Period(), 10), []schema.JobRun{succeeded}, "JobRuns")
	}},
	{"many lines of many jobs are written at once", func(b *bench) {
		p := b.jobPlace()
		p.at = p.at.Truncate(schema.HistoryPeriod)
		want := map[schema.JobID][]schema.JobRun{}
		var all []schema.JobRun
		for job := range 70 { // most have one line, one has many
			id, lines := b.jobID(p, job), 1+job%3
			if job == 33 {
				lines = 230
			}
			for i := range lines {
				r := b.jobRun(id, p.at.Add(time.Duration(i)*time.Second), schema.StateSucceeded, int64(i))
				all, want[id] = append(all, r), append(want[id], r)
			}
			slices.Reverse(want[id])
		}
		b.rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		given := slices.Clone(all)
		for range 2 {
			b.must(b.store.PutJobRuns(b.ctx, all), "PutJobRuns of %d", len(all))
		}
		if !reflect.DeepEqual(all, given) {
			b.Error("PutJobRuns changed what it was given")
		}
		for id, lines := range want {
			b.wantHistory(b.history(id, lines[0].Period(), 100), lines, "JobRuns of %s", id)
		}
	}},
	{"a line leaves", func(b *bench) {
		p := b.jobPlace()
		id := b.jobID(p, 0)
		stays, leaves := b.jobRun(id, p.at, schema.StateSucceeded, 0), b.jobRun(id, p.at.Add(time.Second), schema.StateSucceeded, 0)
		leaves.Expires = b.soon()
		b.must(b.store.PutJobRuns(b.ctx, []schema.JobRun{stays, leaves}), "PutJobRuns")
		b.eventually("the line leaves", func() bool { return len(b.history(id, leaves.Period(), 10)) <= 1 })
		b.wantHistory(b.history(id, stays.Period(), 10), []schema.JobRun{stays}, "JobRuns")
	}},
}
