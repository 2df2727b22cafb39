package schematest

import (
	"errors"
	"reflect"
	"slices"
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
