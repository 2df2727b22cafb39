package schematest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/schema"
)

// jobPlace is where the jobs of a rule lie: a shard, and an instant of making that nobody else
// uses.
type jobPlace struct {
	shard schema.Shard
	at    time.Time
}

func (b *bench) jobPlace() jobPlace {
	p := b.partition()
	return jobPlace{shard: p.Shard, at: p.Bucket.Start()}
}

// jobID draws the id of a job made so many ms after the place's instant.
func (b *bench) jobID(p jobPlace, ms int) schema.JobID {
	return schema.MakeJobID(p.at.Add(time.Duration(ms)*time.Millisecond), p.shard, b.rnd.Uint64())
}

// generation makes a generation that says what every field can say.
func (b *bench) generation(number int64) schema.Generation {
	return schema.Generation{
		Number: number, State: schema.JobActive,
		Spec: schema.JobSpec{
			Tenant: b.tenant, Name: "nächtlich",
			Schedule: &schema.Schedule{
				Cron: "0 3 * * MON#1", Timezone: "Europe/Berlin", Gap: "skip", OverlapHour: "both",
				Start: b.now, End: b.now.Add(time.Hour), Jitter: schema.Duration(time.Minute),
			},
			MaxRuns: int(number % 1000), Priority: schema.High,
			Work:        &schema.Work{HTTP: &schema.HTTPTarget{URL: "https://example.org/a?b=c&d=<e>"}, Timeout: schema.Duration(time.Second)},
			Payload:     json.RawMessage(`{"a<b>&c":1.50e3,"ü":[null," "]}`),
			Labels:      map[string]string{"k": "v", "": "<&>"},
			Misfire:     &schema.Misfire{Policy: "run_all", Deadline: schema.Duration(time.Hour)},
			Concurrency: &schema.Concurrency{Limit: 2, OnLimit: "skip"}, JitterStated: true,
			Created: b.now, Updated: b.now.Add(time.Duration(number) * time.Millisecond),
		},
	}
}

// job makes a job that never changed.
func (b *bench) job(id schema.JobID, number int64) schema.Job {
	return schema.Job{ID: id, Current: b.generation(number)}
}

// changed makes what follows j.
func (b *bench) changed(j schema.Job, number int64, state schema.JobState) schema.Job {
	before := j.Current
	j.Before, j.Current, j.Cut = &before, b.generation(number), b.now.Add(2500*time.Millisecond)
	j.Current.State = state
	return j
}

func (b *bench) create(jobs ...schema.Job) {
	b.Helper()
	for _, j := range jobs {
		b.must(b.store.CreateJob(b.ctx, j), "CreateJob of %s", j.ID)
	}
}

// wantJob checks what every way to read a job shows.
func (b *bench) wantJob(want schema.Job) {
	b.Helper()
	want.Expires = time.Time{} // unknown when read
	got, err := b.store.Job(b.ctx, want.ID)
	b.must(err, "Job")
	b.sameJob("Job", got, want)
	byID, err := b.store.Jobs(b.ctx, want.ID.Shard(), []schema.JobID{want.ID})
	b.must(err, "Jobs")
	before := schema.MakeJobID(schema.EntryID(want.ID).Time().Add(-time.Millisecond), want.ID.Shard(), 0)
	walked, err := b.store.JobsOf(b.ctx, want.ID.Shard(), before, 1000)
	b.must(err, "JobsOf")
	walked = slices.DeleteFunc(walked, func(j schema.Job) bool { return j.ID != want.ID })
	for what, jobs := range map[string][]schema.Job{"Jobs": byID, "JobsOf": walked} {
		if len(jobs) != 1 {
			b.Errorf("%s = %d jobs %s, want 1", what, len(jobs), want.ID)
			continue
		}
		b.sameJob(what, jobs[0], want)
	}
}

func (b *bench) sameJob(what string, got, want schema.Job) {
	b.Helper()
	if !reflect.DeepEqual(got, want) {
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		b.Errorf("%s = %s,\nwant %s", what, g, w)
	}
}

// wantNoJob checks that no way to read a job shows it.
func (b *bench) wantNoJob(id schema.JobID) {
	b.Helper()
	_, err := b.store.Job(b.ctx, id)
	b.wantErr(err, schema.ErrNotFound, "Job")
	byID, err := b.store.Jobs(b.ctx, id.Shard(), []schema.JobID{id})
	b.must(err, "Jobs")
	walked, err := b.store.JobsOf(b.ctx, id.Shard(), schema.JobID{}, 10_000)
	b.must(err, "JobsOf")
	for _, j := range slices.Concat(byID, walked) {
		if j.ID == id {
			b.Errorf("read %+v, want nothing", j)
		}
	}
}

var jobRules = []rule{
	{"a job is made once, however often", func(b *bench) {
		id := b.jobID(b.jobPlace(), 0)
		b.wantNoJob(id)
		first := b.job(id, 7)
		for range 3 {
			b.create(first)
			b.wantJob(first)
		}
		b.wantErr(b.store.SwapJob(b.ctx, 0, b.job(id, 9)), schema.ErrConflict, "SwapJob of no job where there is one")
		b.wantJob(first)
	}},
	{"a copy of its making that comes late changes nothing", func(b *bench) {
		first := b.job(b.jobID(b.jobPlace(), 0), 7)
		b.create(first)
		second := b.changed(first, 8, schema.JobPaused)
		b.must(b.store.SwapJob(b.ctx, 7, second), "SwapJob")
		b.create(first)
		b.wantJob(second)
		alone := b.job(first.ID, 9) // cells that are not there any more do not come back either
		b.must(b.store.SwapJob(b.ctx, 8, alone), "SwapJob")
		b.create(first)
		b.wantJob(alone)
	}},
	{"what was written where there was no job stands", func(b *bench) {
		id := b.jobID(b.jobPlace(), 0)
		ended := b.job(id, 7)
		ended.Current.State, ended.Current.Spec.Schedule, ended.Current.Spec.Work = schema.JobCancelled, nil, nil
		b.must(b.store.SwapJob(b.ctx, 0, ended), "SwapJob of no job")
		b.wantJob(ended)
		b.create(b.job(id, 5)) // of unknown outcome, and on its way until now
		b.wantJob(ended)
		b.wantErr(b.store.SwapJob(b.ctx, 0, b.job(id, 9)), schema.ErrConflict, "SwapJob of no job once more")
		b.wantJob(ended)
	}},
	{"a job that says little comes back as it was", func(b *bench) {
		id := b.jobID(b.jobPlace(), 0)
		j := schema.Job{ID: id, Current: schema.Generation{
			Number: 1, State: schema.JobPaused, Spec: schema.JobSpec{Tenant: b.tenant, Task: "t", Created: b.now, Updated: b.now},
		}}
		b.create(j)
		b.wantJob(j)
	}},
	{"it is replaced whole, and as read", func(b *bench) {
		id := b.jobID(b.jobPlace(), 0)
		first := b.job(id, 100)
		second := b.changed(first, 200, schema.JobPaused)
		third := b.changed(second, 300, schema.JobActive)
		alone := b.job(id, 400)
		b.wantErr(b.store.SwapJob(b.ctx, 100, second), schema.ErrNotFound, "SwapJob of no job")
		b.wantNoJob(id)
		b.create(first)
		for _, step := range []struct {
			name   string
			was    int64
			is     schema.Job
			want   error
			stands schema.Job
		}{
			{"as another was read", 99, second, schema.ErrConflict, first},
			{"as read", 100, second, nil, second},
			{"as read before", 100, third, schema.ErrConflict, second},
			{"once more", 200, third, nil, third},
			{"by one that never changed", 300, alone, nil, alone},
		} {
			if err := b.store.SwapJob(b.ctx, step.was, step.is); !errors.Is(err, step.want) {
				b.Errorf("%s: SwapJob = %v, want %v", step.name, err, step.want)
			}
			b.Log(step.name)
			b.wantJob(step.stands)
		}
		if err := b.store.SwapJob(b.ctx, 400, third); err == nil {
			b.Error("SwapJob of 400 by 300 = no error")
		}
		b.wantJob(alone)
	}},
	{"a job that is made and changed at once is changed, or was not there yet", func(b *bench) {
		for range raceRounds {
			first := b.job(b.jobID(b.jobPlace(), 0), 1)
			second := b.changed(first, 2, schema.JobPaused)
			var err error
			race(racers, func(i int) {
				if i > 0 {
					b.create(first)
					return
				}
				err = b.store.SwapJob(b.ctx, 1, second)
			})
			switch {
			case err == nil:
				b.wantJob(second)
			case errors.Is(err, schema.ErrNotFound):
				b.wantJob(first)
			case !errors.Is(err, schema.ErrUnknown):
				b.Errorf("SwapJob = %v, want none or %v", err, schema.ErrNotFound)
			}
		}
	}},
	{"no change is lost", func(b *bench) {
		first := b.job(b.jobID(b.jobPlace(), 0), 1)
		first.Current.Spec.MaxRuns = 0
		b.create(first)
		const each = 4
		var unknown atomic.Int64
		race(racers, func(i int) {
			for done := 0; done < each; {
				j, err := b.store.Job(b.ctx, first.ID)
				if err != nil {
					b.Errorf("Job = %v", err)
					return
				}
				before := j.Current
				j.Before = &before
				// higher, and nobody else's
				j.Current.Number = (before.Number/racers+1)*racers + int64(i)
				j.Current.Spec.MaxRuns++
				switch err := b.store.SwapJob(b.ctx, before.Number, j); {
				case err == nil:
					done++
				case errors.Is(err, schema.ErrUnknown): // it may count or not
					done++
					unknown.Add(1)
				case !errors.Is(err, schema.ErrConflict):
					b.Errorf("SwapJob = %v, want none or %v", err, schema.ErrConflict)
					return
				}
			}
		})
		got, err := b.store.Job(b.ctx, first.ID)
		b.must(err, "Job")
		if n := got.Current.Spec.MaxRuns; n > each*racers || n < each*racers-int(unknown.Load()) {
			b.Errorf("%d changes stand, want %d (%d of unknown outcome)", n, each*racers, unknown.Load())
		}
	}},
	{"many are made at once as each would be alone", func(b *bench) {
		p := b.jobPlace()
		jobs := make([]schema.Job, 60)
		var want []schema.JobID
		for i := range jobs {
			jobs[i] = b.job(b.jobID(p, i), int64(i+1))
			want = append(want, jobs[i].ID)
		}
		b.create(jobs[3])
		changed := b.changed(jobs[3], 100, schema.JobPaused)
		b.must(b.store.SwapJob(b.ctx, 4, changed), "SwapJob")
		for range 2 { // again, however late, is harmless
			b.must(b.store.CreateJobs(b.ctx, jobs), "CreateJobs of %d", len(jobs))
			got, err := b.store.Jobs(b.ctx, p.shard, want)
			b.must(err, "Jobs")
			b.wantJobIDs(jobIDsOf(got), want, "Jobs")
			b.wantJob(jobs[0])
			b.wantJob(changed)
			b.wantJob(jobs[len(jobs)-1])
		}
	}},
	{"what cannot be a row is refused with all that is made beside it", func(b *bench) {
		p := b.jobPlace()
		small, another := b.job(b.jobID(p, 0), 1), b.job(b.jobID(p, 1), 1)
		large, leaving := another, another
		large.Current.Spec.Payload = json.RawMessage(`"` + text(2<<20) + `"`)
		leaving.Expires = b.later()
		// The first half of a batch may have been written by itself, so what is refused comes
		// first.
		b.wantErr(b.store.CreateJobs(b.ctx, []schema.Job{large, small}), schema.ErrTooLarge, "CreateJobs of 2 MiB")
		oneOff := b.job(schema.JobOf(b.id(b.partition(), 0)), 2)
		beside := b.job(schema.MakeJobID(p.at, oneOff.ID.Shard(), b.rnd.Uint64()), 1)
		if err := b.store.CreateJobs(b.ctx, []schema.Job{oneOff, beside}); err == nil {
			b.Error("CreateJobs of a one-off job = no error")
		}
		b.wantNoJob(small.ID)
		b.wantNoJob(beside.ID)
		for what, with := range map[string]schema.Job{"has changed": b.changed(another, 2, schema.JobActive), "has ended": leaving} {
			if err := b.store.CreateJobs(b.ctx, []schema.Job{with, small}); err == nil {
				b.Errorf("CreateJobs of one that %s = no error", what)
			}
		}
		b.wantNoJob(another.ID)
		elsewhere := b.job(b.jobID(jobPlace{p.shard ^ 1, p.at}, 2), 1)
		if err := b.store.CreateJobs(b.ctx, []schema.Job{b.job(b.jobID(p, 3), 1), elsewhere}); err == nil {
			b.Error("CreateJobs of two shards = no error")
		}
		b.wantNoJob(elsewhere.ID)
	}},
	{"many are read at once, each once, in the order of their ids", func(b *bench) {
		p := b.jobPlace()
		const there = 60
		var want, ask []schema.JobID
		for i := range 100 {
			id := b.jobID(p, i)
			if i < there {
				b.create(b.job(id, int64(i+1)))
				want = append(want, id)
			}
			ask = append(ask, id)
		}
		ask[99] = ask[3] // one twice
		b.rnd.Shuffle(len(ask), func(i, j int) { ask[i], ask[j] = ask[j], ask[i] })
		got, err := b.store.Jobs(b.ctx, p.shard, ask)
		b.must(err, "Jobs")
		b.wantJobIDs(jobIDsOf(got), want, "Jobs")
		for _, j := range got {
			if i := slices.Index(want, j.ID); i >= 0 && j.Current.Number != int64(i+1) {
				b.Errorf("Jobs: generation %d under the id of %d", j.Current.Number, i+1)
			}
		}
		got, err = b.store.Jobs(b.ctx, p.shard, nil)
		if err != nil || len(got) != 0 {
			b.Errorf("Jobs of none = %d, %v; want none", len(got), err)
		}
		if _, err := b.store.Jobs(b.ctx, p.shard, append(ask, b.jobID(p, 100))); err == nil {
			b.Error("Jobs of 101 = no error")
		}
		if _, err := b.store.Jobs(b.ctx, p.shard^1, ask[:1]); err == nil {
			b.Error("Jobs of another shard = no error")
		}
	}},
	{"a shard is walked page by page", func(b *bench) {
		p := b.jobPlace()
		var want []schema.JobID
		for i := range 7 {
			want = append(want, b.jobID(p, i))
		}
		for _, i := range b.rnd.Perm(len(want)) {
			b.create(b.job(want[i], 1))
		}
		b.create(b.job(b.jobID(jobPlace{p.shard ^ 1, p.at}, 3), 1))
		last := schema.MakeJobID(p.at.Add(time.Second), p.shard, 0)
		for _, limit := range []int{1, 3, 7, 8, 1000} {
			var got []schema.JobID
			for after := schema.MakeJobID(p.at.Add(-time.Millisecond), p.shard, 0); ; {
				page, err := b.store.JobsOf(b.ctx, p.shard, after, limit)
				b.must(err, "JobsOf")
				if len(page) > limit {
					b.Fatalf("JobsOf, limit %d = %d jobs", limit, len(page))
				}
				for _, j := range page {
					// others' jobs follow
					if after = j.ID; schema.EntryID(j.ID).Compare(schema.EntryID(last)) < 0 {
						got = append(got, j.ID)
					}
				}
				if len(page) < limit || len(got) > len(want) || schema.EntryID(after).Compare(schema.EntryID(last)) > 0 {
					break
				}
			}
			b.wantJobIDs(got, want, "JobsOf, limit %d", limit)
		}
		got, err := b.store.JobsOf(b.ctx, p.shard, schema.JobID{}, 1)
		if err != nil || len(got) != 1 {
			b.Errorf("JobsOf from the oldest = %d, %v; want 1", len(got), err)
		}
	}},
	{"a job that has ended stays for its time, then nothing of it is left", func(b *bench) {
		ended, revived := b.job(b.jobID(b.jobPlace(), 0), 1), b.job(b.jobID(b.jobPlace(), 0), 1)
		b.create(ended, revived)
		now, err := b.store.Time(b.ctx)
		b.must(err, "Time")
		leaving := b.changed(ended, 2, schema.JobFinished)
		leaving.Expires = now.Add(10 * time.Second)
		b.must(b.store.SwapJob(b.ctx, 1, leaving), "SwapJob of what ends")
		// a slow machine may have let it leave already
		if got, err := b.store.Job(b.ctx, ended.ID); err == nil {
			leaving.Expires = time.Time{}
			b.sameJob("Job that has ended", got, leaving)
		}
		soon := b.changed(revived, 2, schema.JobCancelled)
		soon.Expires = b.later()
		b.must(b.store.SwapJob(b.ctx, 1, soon), "SwapJob of what ends later")
		stays := b.changed(soon, 3, schema.JobActive)
		stays.Expires = time.Time{}
		b.must(b.store.SwapJob(b.ctx, 2, stays), "SwapJob back")
		b.eventually("the job leaves", func() bool {
			_, err := b.store.Job(b.ctx, ended.ID)
			return errors.Is(err, schema.ErrNotFound)
		})
		b.wantNoJob(ended.ID)
		b.wantErr(b.store.SwapJob(b.ctx, 2, b.changed(leaving, 3, schema.JobActive)), schema.ErrNotFound, "SwapJob of what has left")
		b.wantNoJob(ended.ID)
		b.wantJob(stays)
	}},
	{"what cannot be a row is refused", func(b *bench) {
		p := b.jobPlace()
		large := b.job(b.jobID(p, 0), 2)
		large.Current.Spec.Payload = json.RawMessage(`"` + text(2<<20) + `"`)
		b.wantErr(b.store.CreateJob(b.ctx, large), schema.ErrTooLarge, "CreateJob of 2 MiB")
		b.wantNoJob(large.ID)
		small := b.job(large.ID, 1)
		b.create(small)
		b.wantErr(b.store.SwapJob(b.ctx, 1, large), schema.ErrTooLarge, "SwapJob of 2 MiB")
		b.wantJob(small)
		oneOff := b.job(schema.JobOf(b.id(b.partition(), 0)), 2)
		if err := b.store.CreateJob(b.ctx, oneOff); err == nil {
			b.Error("CreateJob of a one-off job = no error")
		}
		changed := b.changed(b.job(b.jobID(p, 1), 1), 2, schema.JobActive)
		if err := b.store.CreateJob(b.ctx, changed); err == nil {
			b.Error("CreateJob of one that has changed = no error")
		}
		leaving := b.job(changed.ID, 1)
		leaving.Expires = b.later()
		if err := b.store.CreateJob(b.ctx, leaving); err == nil {
			b.Error("CreateJob of one that has ended = no error")
		}
		b.wantNoJob(changed.ID)
	}},
}

func jobIDsOf(jobs []schema.Job) []schema.JobID {
	ids := make([]schema.JobID, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].ID
	}
	return ids
}

func (b *bench) wantJobIDs(got, want []schema.JobID, format string, args ...any) {
	b.Helper()
	if !slices.Equal(got, want) {
		b.Errorf("%s = %d ids:\n\t%v\nwant %d:\n\t%v", fmt.Sprintf(format, args...), len(got), got, len(want), want)
	}
}
