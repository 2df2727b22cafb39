package schematest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/schema"
)

// holds checks who has a name, by asking and by claiming it for a job that nobody knows.
func (b *bench) holds(tenant, name string, want schema.JobID, since time.Time) {
	b.Helper()
	got, at, err := b.store.JobByName(b.ctx, tenant, name)
	if want.IsZero() {
		b.wantErr(err, schema.ErrNotFound, "JobByName")
		return
	}
	if err != nil || got != want || !at.Equal(since) {
		b.Errorf("JobByName(%s) = %s since %v, %v; want %s since %v", name, got, at, err, want, since)
	}
	got, at, mine, err := b.store.RegisterName(b.ctx, tenant, name, b.jobID(b.jobPlace(), 0), b.now.Add(time.Hour))
	if err != nil || mine || got != want || !at.Equal(since) {
		b.Errorf("ClaimName(%s) by another = %s since %v, mine %v, %v; want %s since %v", name, got, at, mine, err, want, since)
	}
}

// claimName claims a name that must be free or the job's.
func (b *bench) claimName(tenant, name string, id schema.JobID, at, since time.Time) {
	b.Helper()
	holder, got, mine, err := b.store.RegisterName(b.ctx, tenant, name, id, at)
	if err != nil || !mine || holder != id || !got.Equal(since) {
		b.Errorf("ClaimName(%s, %s) = %s since %v, mine %v, %v; want it since %v", tenant, name, holder, got, mine, err, since)
	}
}

var nameRules = []rule{
	{"the first job to claim a name has it", func(b *bench) {
		id := b.jobID(b.jobPlace(), 0)
		b.holds(b.tenant, "n", schema.JobID{}, time.Time{})
		b.claimName(b.tenant, "n", id, b.now, b.now)
		b.holds(b.tenant, "n", id, b.now)
		b.claimName(b.tenant, "n", id, b.now.Add(time.Minute), b.now) // repeated after ErrUnknown, it must not be taken for another's
	}},
	{"names belong to tenants", func(b *bench) {
		for i, of := range [][2]string{{b.tenant, "n"}, {b.tenant, "n2"}, {b.tenant + "n", ""}, {b.tenant + "2", "n"}} {
			id, at := b.jobID(b.jobPlace(), i), b.now.Add(time.Duration(i)*time.Millisecond)
			b.claimName(of[0], of[1], id, at, at)
			b.holds(of[0], of[1], id, at)
		}
	}},
	{"a name is passed on by who has it", func(b *bench) {
		p := b.jobPlace()
		first, second, third := b.jobID(p, 0), b.jobID(p, 1), b.jobID(p, 2)
		var none schema.JobID
		at := func(s int) time.Time { return b.now.Add(time.Duration(s) * time.Second) }
		b.wantErr(b.store.TransferName(b.ctx, b.tenant, "n", first, second, at(0)), schema.ErrConflict, "PassName of a free name")
		b.claimName(b.tenant, "n", first, at(0), at(0))
		for _, step := range []struct {
			name     string
			from, to schema.JobID
			at       int
			want     error
			holder   schema.JobID
			since    int
		}{
			{"by another", second, third, 1, schema.ErrConflict, first, 0},
			{"by nobody", none, third, 1, schema.ErrConflict, first, 0},
			{"to another", first, second, 2, nil, second, 2},
			{"by who had it", first, third, 3, schema.ErrConflict, second, 2},
			{"to itself", second, second, 4, nil, second, 4},
			{"to none, by another", first, none, 5, schema.ErrConflict, second, 4},
			{"to none", second, none, 6, nil, none, 0},
			{"by who gave it up", second, third, 7, schema.ErrConflict, none, 0},
		} {
			if err := b.store.TransferName(b.ctx, b.tenant, "n", step.from, step.to, at(step.at)); !errors.Is(err, step.want) {
				b.Errorf("%s: PassName = %v, want %v", step.name, err, step.want)
			}
			b.Log(step.name)
			b.holds(b.tenant, "n", step.holder, at(step.since))
		}
		b.claimName(b.tenant, "n", third, at(9), at(9))
		b.holds(b.tenant, "n", third, at(9))
	}},
	{"of many claims at once one wins", func(b *bench) {
		for round := range raceRounds {
			name := fmt.Sprint("n", round)
			ids, told := make([]schema.JobID, racers), make([]schema.JobID, racers)
			for i := range ids {
				ids[i] = b.jobID(b.jobPlace(), i)
			}
			var won atomic.Int64
			race(racers, func(i int) {
				holder, _, mine, err := b.store.RegisterName(b.ctx, b.tenant, name, ids[i], b.now)
				for errors.Is(err, schema.ErrUnknown) && b.ctx.Err() == nil {
					holder, _, mine, err = b.store.RegisterName(b.ctx, b.tenant, name, ids[i], b.now)
				}
				if err != nil {
					b.Errorf("ClaimName %d = %v", i, err)
				}
				if mine != (holder == ids[i]) {
					b.Errorf("ClaimName %d = %s, mine %v, asked for %s", i, holder, mine, ids[i])
				}
				if mine {
					won.Add(1)
				}
				told[i] = holder
			})
			if won.Load() != 1 || slices.ContainsFunc(told, func(id schema.JobID) bool { return id != told[0] }) {
				b.Errorf("%d of %d claims won, want 1; told: %v, want one job", won.Load(), racers, told)
			}
		}
	}},
	{"of many who take a name over at once one wins", func(b *bench) {
		for round := range raceRounds {
			name, gone := fmt.Sprint("n", round), b.jobID(b.jobPlace(), 0)
			b.claimName(b.tenant, name, gone, b.now, b.now)
			ids := make([]schema.JobID, racers)
			for i := range ids {
				ids[i] = b.jobID(b.jobPlace(), i)
			}
			won := make([]bool, racers)
			race(racers, func(i int) {
				err := b.store.TransferName(b.ctx, b.tenant, name, gone, ids[i], b.now)
				won[i] = err == nil
				if err != nil && !errors.Is(err, schema.ErrConflict) && !errors.Is(err, schema.ErrUnknown) {
					b.Errorf("PassName %d = %v, want none or %v", i, err, schema.ErrConflict)
				}
			})
			holder, _, err := b.store.JobByName(b.ctx, b.tenant, name)
			b.must(err, "JobByName")
			for i := range won {
				if won[i] && holder != ids[i] || holder == gone {
					b.Errorf("PassName %d won %v, but %s has the name", i, won[i], holder)
				}
			}
		}
	}},
}

// listed reads all jobs of a tenant in pages of limit.
func (b *bench) listed(tenant string, limit int) []schema.JobID {
	b.Helper()
	var got []schema.JobID
	for before := (schema.JobID{}); ; before = got[len(got)-1] {
		page, err := b.store.JobIDs(b.ctx, tenant, before, limit)
		b.must(err, "JobIDs")
		got = append(got, page...)
		if len(page) < limit || len(got) > 1000 {
			return got
		}
	}
}

var listRules = []rule{
	{"a tenant's jobs are listed newest first, page by page", func(b *bench) {
		other := b.tenant + "0"
		var want, all []schema.JobID
		for i := range 9 {
			want = append(want, b.jobID(jobPlace{schema.Shard(b.rnd.IntN(schema.MaxShards)), b.now}, i)) // #nosec G115 -- small
		}
		all = slices.Clone(want)
		slices.Reverse(want)
		for _, i := range b.rnd.Perm(len(all)) {
			b.must(b.store.ListJob(b.ctx, b.tenant, all[i], time.Time{}), "ListJob")
		}
		b.must(b.store.ListJob(b.ctx, b.tenant, all[4], time.Time{}), "ListJob again")
		b.must(b.store.ListJob(b.ctx, other, b.jobID(b.jobPlace(), 0), time.Time{}), "ListJob of another tenant")
		for _, limit := range []int{1, 4, 9, 10, 500} {
			b.wantJobIDs(b.listed(b.tenant, limit), want, "JobIDs, limit %d", limit)
		}
		if got, err := b.store.JobIDs(b.ctx, b.tenant, schema.JobID{}, 0); err != nil || len(got) != 0 {
			b.Errorf("JobIDs, limit 0 = %d, %v; want none", len(got), err)
		}
		b.wantJobIDs(b.listed(b.tenant+"1", 10), nil, "JobIDs of nobody")
	}},
	{"what has ended leaves the list, also if it is noted late once more", func(b *bench) {
		p := jobPlace{1, b.now}
		stays, leaves, extended := b.jobID(p, 0), b.jobID(p, 1), b.jobID(p, 2)
		for _, id := range []schema.JobID{stays, leaves, extended} {
			b.must(b.store.ListJob(b.ctx, b.tenant, id, time.Time{}), "ListJob")
		}
		for _, step := range []struct {
			id      schema.JobID
			expires time.Time
		}{{leaves, b.soon()}, {leaves, time.Time{}}, {extended, b.later()}, {extended, b.soon()}} {
			b.must(b.store.ListJob(b.ctx, b.tenant, step.id, step.expires), "ListJob")
		}
		b.eventually("the job leaves the list", func() bool { return !slices.Contains(b.listed(b.tenant, 10), leaves) })
		b.must(b.store.ListJob(b.ctx, b.tenant, leaves, time.Time{}), "ListJob of what has left")
		b.wantJobIDs(b.listed(b.tenant, 10), []schema.JobID{extended, stays}, "JobIDs")
	}},
}

// jobRun makes a line of history of a run due at a time, written age µs after the beginning of the test.
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
	var got []schema.JobRun
	for before := (schema.RunID{}); ; before = got[len(got)-1].Run {
		page, err := b.store.JobRuns(b.ctx, id, period, before, limit)
		b.must(err, "JobRuns")
		got = append(got, page...)
		if len(page) < limit || len(got) > 1000 {
			return got
		}
	}
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
		if got, err := b.store.JobRuns(b.ctx, id, schema.PeriodOf(begin), schema.RunID{}, 0); err != nil || len(got) != 0 {
			b.Errorf("JobRuns, limit 0 = %d, %v; want none", len(got), err)
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

var jobCallRules = []rule{
	{"writing no lines does nothing", func(b *bench) { b.must(b.store.PutJobRuns(b.ctx, nil), "PutJobRuns of none") }},
	{"a call whose context has ended answers that it did not answer", func(b *bench) {
		p := b.jobPlace()
		j := b.job(b.jobID(p, 0), 1)
		b.create(j)
		ctx, cancel := context.WithCancel(b.ctx)
		cancel()
		for name, call := range map[string]func() error{
			"CreateJob": func() error { return b.store.CreateJob(ctx, b.job(b.jobID(p, 1), 1)) },
			"SwapJob":   func() error { return b.store.SwapJob(ctx, 1, b.changed(j, 2, schema.JobPaused)) },
			"Job":       func() error { _, err := b.store.Job(ctx, j.ID); return err },
			"Jobs":      func() error { _, err := b.store.Jobs(ctx, p.shard, []schema.JobID{j.ID}); return err },
			"JobsOf":    func() error { _, err := b.store.JobsOf(ctx, p.shard, schema.JobID{}, 1); return err },
			"RegisterName": func() error { _, _, _, err := b.store.RegisterName(ctx, b.tenant, "n", j.ID, b.now); return err },
			"TransferName":  func() error { return b.store.TransferName(ctx, b.tenant, "n", j.ID, schema.JobID{}, b.now) },
			"JobByName": func() error { _, _, err := b.store.JobByName(ctx, b.tenant, "n"); return err },
			"ListJob":   func() error { return b.store.ListJob(ctx, b.tenant, j.ID, time.Time{}) },
			"JobIDs":    func() error { _, err := b.store.JobIDs(ctx, b.tenant, schema.JobID{}, 1); return err },
			"PutJobRuns": func() error {
				return b.store.PutJobRuns(ctx, []schema.JobRun{b.jobRun(j.ID, p.at, schema.StateFailed, 0)})
			},
			"JobRuns": func() error { _, err := b.store.JobRuns(ctx, j.ID, 1, schema.RunID{}, 1); return err },
			"Decide":  func() error { _, err := b.store.Decide(ctx, b.tenant, "x", b.later()); return err },
		} {
			if err := call(); !errors.Is(err, schema.ErrUnavailable) && !errors.Is(err, schema.ErrUnknown) {
				b.Errorf("%s = %v, want %v or %v", name, err, schema.ErrUnavailable, schema.ErrUnknown)
			}
		}
	}},
}
