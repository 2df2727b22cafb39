package schematest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// letter makes the dead letter of a run of the test's tenant due at due, written age µs after the
// beginning of the test.
func (b *bench) letter(due time.Time, age int64) schema.DeadLetter {
	b.Helper()
	run := schema.MakeEntryID(due, schema.Shard(b.rnd.IntN(64)), b.rnd.Uint64()) // #nosec G115 -- small
	retry := schema.MakeEntryID(due.Add(time.Minute), run.Shard(), b.rnd.Uint64())
	spec := schema.Spec{Tenant: b.tenant, Kind: schema.KindRetry, Of: run, Attempt: 3, Nominal: due, Accepted: b.now.UnixMicro(), Task: "mail"}
	e, err := schema.NewEntry(retry, spec, []byte(`{"to":"ü"}`), time.Time{})
	b.must(err, "NewEntry")
	return schema.DeadLetter{
		Tenant: b.tenant, Run: run, Entry: e, Attempts: 3, Began: b.now.Add(-time.Minute),
		Last: schema.Record{
			Entry: retry, Executor: "x", Started: b.now.Add(-time.Second), Finished: b.now, Outcome: schema.Failed, Error: "answered 500", Status: 500,
			Output: "oh", Final: true,
		},
		Earlier: []schema.Attempt{
			{Run: run, Number: 1, Fence: 7, Record: &schema.Record{Entry: run, Started: b.now.Add(-time.Minute), Finished: b.now.Add(-50 * time.Second), Outcome: schema.TimedOut}},
			{Run: run, Number: 2, Fence: 9, Record: &schema.Record{Entry: run, Finished: b.now.Add(-40 * time.Second), Outcome: schema.Lost, Error: "ü"}},
		},
		Written: b.now.UnixMicro() + age, Expires: b.later(),
	}
}

func (b *bench) putLetters(letters ...schema.DeadLetter) {
	b.Helper()
	b.must(b.store.PutDeadLetters(b.ctx, letters), "PutDeadLetters of %d", len(letters))
}

// sameLetter compares letters by what they say; whole tells whether the payload is to be there.
func sameLetter(got, want schema.DeadLetter, whole bool) bool {
	payload := want.Entry.Payload
	if !whole {
		payload = nil
	}
	same := got.Entry.ID == want.Entry.ID && string(got.Entry.Text()) == string(want.Entry.Text()) && string(got.Entry.Payload) == string(payload) &&
		reflect.DeepEqual(got.Entry.Spec, want.Entry.Spec)
	got.Entry, want.Entry = schema.Entry{}, schema.Entry{}
	return same && reflect.DeepEqual(got, want)
}

// wantLetter checks the letter of a run, alone and in the list of its day.
func (b *bench) wantLetter(want schema.DeadLetter) {
	b.Helper()
	got, err := b.store.DeadLetter(b.ctx, want.Tenant, want.Run)
	if err != nil || !sameLetter(got, want, true) {
		b.Errorf("DeadLetter = %+v, %v\nwant %+v", got, err, want)
	}
	list, err := b.store.DeadLetters(b.ctx, want.Tenant, want.Day(), schema.RunID{}, 100)
	b.must(err, "DeadLetters")
	if i := slices.IndexFunc(list, func(l schema.DeadLetter) bool { return l.Run == want.Run }); i < 0 || !sameLetter(list[i], want, false) {
		b.Errorf("DeadLetters = %+v\nwant one like %+v, without payload", list, want)
	}
	all, err := b.store.Resolutions(b.ctx, want.Tenant, want.Day(), []schema.RunID{want.Run})
	if resolution, ok := all[want.Run]; err != nil || !ok || !reflect.DeepEqual(resolution, want.Resolution) {
		b.Errorf("Resolutions = %+v, %v; want %+v", all, err, want.Resolution)
	}
}

// noLetter checks that there is no letter of a run.
func (b *bench) noLetter(tenant string, run schema.RunID) {
	b.Helper()
	_, err := b.store.DeadLetter(b.ctx, tenant, run)
	b.wantErr(err, schema.ErrNotFound, "DeadLetter")
	day := schema.DeadLetterDay(run)
	list, err := b.store.DeadLetters(b.ctx, tenant, day, schema.RunID{}, 100)
	if err != nil || slices.ContainsFunc(list, func(l schema.DeadLetter) bool { return l.Run == run }) {
		b.Errorf("DeadLetters = %+v, %v; want none of %s", list, err, run)
	}
	if all, err := b.store.Resolutions(b.ctx, tenant, day, []schema.RunID{run}); err != nil || len(all) != 0 {
		b.Errorf("Resolutions = %+v, %v; want none", all, err)
	}
}

// resolution makes a resolution of age µs after the beginning of the test.
func (b *bench) resolution(ending schema.ResolutionKind, age int64) schema.Resolution {
	return schema.Resolution{Kind: ending, At: time.UnixMicro(b.now.UnixMicro() + age).UTC(), By: "me"}
}

// ExerciseDeadLetters is the part of Exercise that is about dead letters.
func ExerciseDeadLetters(t *testing.T, open func(t *testing.T) schema.Store) {
	for _, r := range deadLetterRules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.check(newBench(t, open(t)))
		})
	}
}

var deadLetterRules = []rule{
	{"a letter is found by its run, and is its tenant's", func(b *bench) {
		l := b.letter(b.now, 0)
		b.noLetter(b.tenant, l.Run)
		b.putLetters(l)
		b.putLetters(l)
		b.wantLetter(l)
		b.noLetter(b.tenant+"0", l.Run)
		// failed long after it was due, and says little
		bare := b.letter(b.now.Add(-400*24*time.Hour), 0)
		e, err := schema.NewEntry(bare.Run, schema.Spec{Tenant: b.tenant, Nominal: bare.Run.Time(), Accepted: 1, Task: "mail"}, nil, time.Time{})
		b.must(err, "NewEntry")
		bare.Entry, bare.Attempts, bare.Began = e, 1, time.Time{}
		bare.Last = schema.Record{Entry: e.ID, Finished: b.now, Outcome: schema.Lost, Final: true}
		b.putLetters(bare)
		b.wantLetter(bare)
		if all, err := b.store.Resolutions(b.ctx, b.tenant, l.Day(), nil); err != nil || len(all) != 0 {
			b.Errorf("Resolutions of no run = %+v, %v; want none", all, err)
		}
	}},
	{"the letters of a day come newest first, page by page", func(b *bench) {
		day := b.now.Truncate(schema.HistoryPeriod)
		var all, others []schema.DeadLetter
		for _, at := range []time.Duration{-time.Millisecond, 0, time.Millisecond, time.Hour, 5 * time.Hour, 24*time.Hour - time.Millisecond, 24 * time.Hour} {
			l := b.letter(day.Add(at), 0)
			if all = append(all, l); l.Day() != schema.PeriodOf(day) {
				others, all = append(others, l), all[:len(all)-1]
			}
		}
		foreign := b.letter(day.Add(2*time.Hour), 0)
		foreign.Tenant = b.tenant + "0"
		mixed := slices.Concat(others, all, []schema.DeadLetter{foreign})
		b.rnd.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		b.putLetters(mixed...)
		slices.SortFunc(all, func(x, y schema.DeadLetter) int { return y.Run.Compare(x.Run) })
		for _, limit := range []int{1, 2, len(all), 100} {
			got := pages(b, "DeadLetters", limit, func(last *schema.DeadLetter) ([]schema.DeadLetter, error) {
				return b.store.DeadLetters(b.ctx, b.tenant, schema.PeriodOf(day), or(last, func(l *schema.DeadLetter) schema.RunID { return l.Run }), limit)
			})
			if !slices.EqualFunc(got, all, func(x, y schema.DeadLetter) bool { return sameLetter(x, y, false) }) {
				b.Errorf("DeadLetters, limit %d = %+v\nwant %+v", limit, got, all)
			}
		}
	}},
	{"the letters of a bad day come in order, whoever writes between two pages", func(b *bench) {
		day := b.now.Truncate(schema.HistoryPeriod)
		var all []schema.DeadLetter
		for i := range 200 {
			all = append(all, b.letter(day.Add(time.Hour+time.Duration(i/10)*20*time.Second), 0))
		}
		for part := range slices.Chunk(all, 30) {
			b.putLetters(part...)
		}
		b.putLetters(all[:50]...) // again, as whoever repeats what follows from a record
		for i := range all {
			if i%3 == 0 {
				f := b.resolution(schema.ResolvedDiscarded, 1)
				b.must(b.store.PutResolution(b.ctx, b.tenant, all[i].Run, f, b.later()), "PutResolution")
				all[i].Resolution = &f
			}
		}
		slices.SortFunc(all, func(x, y schema.DeadLetter) int { return y.Run.Compare(x.Run) })
		newer := 0
		for _, limit := range []int{7, 64, 1000} {
			got := pages(b, "DeadLetters", limit, func(last *schema.DeadLetter) ([]schema.DeadLetter, error) {
				if last != nil {
					newer++
					b.putLetters(b.letter(day.Add(12*time.Hour+time.Duration(newer)*time.Second), 0)) // does not move what comes after last
				}
				return b.store.DeadLetters(b.ctx, b.tenant, schema.PeriodOf(day), or(last, func(l *schema.DeadLetter) schema.RunID { return l.Run }), limit)
			})
			got = got[max(0, len(got)-len(all)):]
			if !slices.EqualFunc(got, all, func(x, y schema.DeadLetter) bool { return sameLetter(x, y, false) }) {
				b.Errorf("DeadLetters, limit %d: %d letters, which are not the %d in order", limit, len(got), len(all))
			}
		}
		at, waiting := schema.TenantDay{Tenant: b.tenant, Day: schema.PeriodOf(day)}, len(all)-(len(all)+2)/3
		want := schema.DeadLetterCount{Waiting: waiting + newer, Looked: len(all) + newer}
		if got, err := b.store.CountDeadLetters(b.ctx, at, 10_000); err != nil || got != want {
			b.Errorf("CountDeadLetters = %+v, %v; want %+v", got, err, want)
		}
		runs, waits := make([]schema.RunID, 100), 0
		for i := range runs {
			runs[i] = all[i].Run
		}
		resolutions, err := b.store.Resolutions(b.ctx, b.tenant, at.Day, runs)
		for i := range runs {
			if f, ok := resolutions[runs[i]]; !ok || !reflect.DeepEqual(f, all[i].Resolution) {
				waits++
			}
		}
		if err != nil || len(resolutions) != len(runs) || waits > 0 {
			b.Errorf("Resolutions = %d, %v, of which %d are another; want %d", len(resolutions), err, waits, len(runs))
		}
	}},
	{"the later of two letters of a run stands, whatever comes last", func(b *bench) {
		first := b.letter(b.now, 0)
		second := first
		second.Last.Error, second.Last.Output, second.Attempts, second.Written = "answered 404", "", 1, first.Written+1
		for _, l := range []schema.DeadLetter{first, second, first} {
			b.putLetters(l)
		}
		b.wantLetter(second)
	}},
	{"a resolution outlives its letter's being written again, and the later one stands", func(b *bench) {
		l, other := b.letter(b.now, 0), b.letter(b.now, 0)
		b.putLetters(l, other)
		discarded := b.resolution(schema.ResolvedDiscarded, 1)
		b.must(b.store.PutResolution(b.ctx, b.tenant, l.Run, discarded, b.later()), "PutResolution")
		again := l
		again.Written += 1_000_000
		b.putLetters(l, again)
		again.Resolution = &discarded
		b.wantLetter(again)
		replayed := b.resolution(schema.ResolvedReplayed, 2)
		replayed.Run = other.Run
		for _, f := range []schema.Resolution{replayed, discarded} {
			b.must(b.store.PutResolution(b.ctx, b.tenant, l.Run, f, b.later()), "PutResolution")
		}
		again.Resolution = &replayed
		b.wantLetter(again)
		b.wantLetter(other)
		all, err := b.store.Resolutions(b.ctx, b.tenant, l.Day(), []schema.RunID{l.Run, other.Run, b.letter(b.now, 0).Run})
		if want := (map[schema.RunID]*schema.Resolution{l.Run: &replayed, other.Run: nil}); err != nil || !reflect.DeepEqual(all, want) {
			b.Errorf("Resolutions = %+v, %v; want %+v", all, err, want)
		}
	}},
	{"a resolution that comes before its letter is no letter, and is met by it", func(b *bench) {
		l, f := b.letter(b.now, 0), b.resolution(schema.ResolvedSuperseded, 0)
		b.must(b.store.PutResolution(b.ctx, b.tenant, l.Run, f, b.later()), "PutResolution")
		b.noLetter(b.tenant, l.Run)
		b.putLetters(l)
		l.Resolution = &f
		b.wantLetter(l)
	}},
	{"many letters, some large, are written at once", func(b *bench) {
		var all []schema.DeadLetter
		for i := range 130 {
			l := b.letter(b.now.Add(time.Duration(i)*time.Minute), 0)
			if i%10 == 0 {
				e, err := schema.NewEntry(l.Entry.ID, l.Entry.Spec, []byte(text(schema.MaxPayload)), time.Time{})
				b.must(err, "NewEntry")
				l.Entry = e
			}
			if i%3 == 0 {
				l.Tenant = b.tenant + "0"
			}
			all = append(all, l)
		}
		b.putLetters(all...)
		for i := range all {
			if got, err := b.store.DeadLetter(b.ctx, all[i].Tenant, all[i].Run); err != nil || !sameLetter(got, all[i], true) {
				b.Errorf("DeadLetter %d = %s, %v; want %s", i, got.Run, err, all[i].Run)
			}
		}
	}},
	{"a letter leaves, and its resolution with it", func(b *bench) {
		l := b.letter(b.now, 0)
		l.Expires = b.soon()
		b.putLetters(l)
		b.must(b.store.PutResolution(b.ctx, b.tenant, l.Run, b.resolution(schema.ResolvedDiscarded, 0), b.later()), "PutResolution")
		b.eventually("the letter leaves", func() bool {
			_, err := b.store.DeadLetter(b.ctx, b.tenant, l.Run)
			return err != nil
		})
		b.noLetter(b.tenant, l.Run)
	}},
	{"letters of a day are counted, those that wait apart", func(b *bench) {
		day := b.now.Truncate(schema.HistoryPeriod)
		at := schema.TenantDay{Tenant: b.tenant, Day: schema.PeriodOf(day)}
		var letters []schema.DeadLetter
		for i := range 5 {
			letters = append(letters, b.letter(day.Add(time.Duration(i)*time.Hour), 0))
		}
		foreign, tomorrow, never := b.letter(day, 0), b.letter(day.Add(24*time.Hour), 0), b.letter(day.Add(time.Minute), 0)
		foreign.Tenant = b.tenant + "0"
		b.putLetters(append(letters, foreign, tomorrow)...)
		for _, run := range []schema.RunID{letters[1].Run, letters[4].Run, never.Run} {
			b.must(b.store.PutResolution(b.ctx, b.tenant, run, b.resolution(schema.ResolvedDiscarded, 1), b.later()), "PutResolution")
		}
		for limit, want := range map[int]schema.DeadLetterCount{
			0: {}, 1: {Waiting: 0, Looked: 1}, 2: {Waiting: 1, Looked: 2}, 5: {Waiting: 3, Looked: 5}, 100: {Waiting: 3, Looked: 5},
		} {
			if got, err := b.store.CountDeadLetters(b.ctx, at, limit); err != nil || got != want {
				b.Errorf("CountDeadLetters, limit %d = %+v, %v; want %+v", limit, got, err, want)
			}
		}
	}},
	{"where letters lie is noted by the day in which their runs ended, in order, page by page", func(b *bench) {
		ended := schema.PeriodOf(b.now) + 1000 + b.rnd.IntN(1_000_000)
		var want []schema.TenantDay
		for _, name := range []string{"", "-", "-b", ".", "a"} { // some sort before what separates names from days
			for _, day := range []int{ended - 400, ended, ended + 1} {
				want = append(want, schema.TenantDay{Tenant: b.tenant + name, Day: day})
			}
		}
		for _, i := range b.rnd.Perm(len(want)) {
			for range 2 {
				b.must(b.store.NoteDeadLetters(b.ctx, ended, want[i], b.later()), "NoteDeadLetters")
			}
		}
		b.must(b.store.NoteDeadLetters(b.ctx, ended+1, schema.TenantDay{Tenant: b.tenant, Day: 1}, b.later()), "NoteDeadLetters")
		for _, limit := range []int{1, 2, len(want), 100} {
			got := pages(b, "NotedDeadLetters", limit, func(last *schema.TenantDay) ([]schema.TenantDay, error) {
				return b.store.NotedDeadLetters(b.ctx, ended, or(last, func(at *schema.TenantDay) schema.TenantDay { return *at }), limit)
			})
			if !slices.Equal(got, want) {
				b.Errorf("NotedDeadLetters, limit %d = %+v\nwant %+v", limit, got, want)
			}
		}
	}},
	{"what is noted of letters leaves", func(b *bench) {
		ended := schema.PeriodOf(b.now) + 1000 + b.rnd.IntN(1_000_000)
		b.must(b.store.NoteDeadLetters(b.ctx, ended, schema.TenantDay{Tenant: b.tenant, Day: ended}, b.soon()), "NoteDeadLetters")
		b.eventually("the note leaves", func() bool {
			got, err := b.store.NotedDeadLetters(b.ctx, ended, schema.TenantDay{}, 10)
			return err == nil && len(got) == 0
		})
	}},
	{"what is no letter is refused", func(b *bench) {
		l := b.letter(b.now, 0)
		l.Entry = schema.Entry{ID: l.Entry.ID}
		if err := b.store.PutDeadLetters(b.ctx, []schema.DeadLetter{l}); err == nil || errors.Is(err, schema.ErrUnknown) {
			b.Errorf("PutDeadLetters without text = %v, want a fault of the caller", err)
		}
		large := b.letter(b.now, 0)
		large.Last.Output = text(2 << 20)
		b.wantErr(b.store.PutDeadLetters(b.ctx, []schema.DeadLetter{large}), schema.ErrTooLarge, "PutDeadLetters of 2 MiB")
	}},
}

// What around passes on of dead letters.

func (a *around) PutDeadLetters(ctx context.Context, letters []schema.DeadLetter) error {
	return putBatch(ctx, a, "PutDeadLetters", letters, a.inner.PutDeadLetters)
}

func (a *around) DeadLetter(ctx context.Context, tenant string, run schema.RunID) (schema.DeadLetter, error) {
	return read(ctx, a, "DeadLetter", 1, func(ctx context.Context) (schema.DeadLetter, error) { return a.inner.DeadLetter(ctx, tenant, run) })
}

func (a *around) DeadLetters(ctx context.Context, tenant string, day int, before schema.RunID, limit int) ([]schema.DeadLetter, error) {
	return read(ctx, a, "DeadLetters", limit, func(ctx context.Context) ([]schema.DeadLetter, error) {
		return a.inner.DeadLetters(ctx, tenant, day, before, limit)
	})
}

func (a *around) Resolutions(ctx context.Context, tenant string, day int, runs []schema.RunID) (map[schema.RunID]*schema.Resolution, error) {
	return read(ctx, a, "Resolutions", len(runs), func(ctx context.Context) (map[schema.RunID]*schema.Resolution, error) {
		return a.inner.Resolutions(ctx, tenant, day, runs)
	})
}

func (a *around) PutResolution(ctx context.Context, tenant string, run schema.RunID, f schema.Resolution, expires time.Time) error {
	return put(ctx, a, "PutResolution", func(ctx context.Context) error { return a.inner.PutResolution(ctx, tenant, run, f, expires) })
}

func (a *around) NoteDeadLetters(ctx context.Context, ended int, at schema.TenantDay, expires time.Time) error {
	return put(ctx, a, "NoteDeadLetters", func(ctx context.Context) error { return a.inner.NoteDeadLetters(ctx, ended, at, expires) })
}

func (a *around) NotedDeadLetters(ctx context.Context, ended int, after schema.TenantDay, limit int) ([]schema.TenantDay, error) {
	return read(ctx, a, "NotedDeadLetters", limit, func(ctx context.Context) ([]schema.TenantDay, error) {
		return a.inner.NotedDeadLetters(ctx, ended, after, limit)
	})
}

func (a *around) CountDeadLetters(ctx context.Context, at schema.TenantDay, limit int) (schema.DeadLetterCount, error) {
	return read(ctx, a, "CountDeadLetters", limit, func(ctx context.Context) (schema.DeadLetterCount, error) {
		return a.inner.CountDeadLetters(ctx, at, limit)
	})
}
