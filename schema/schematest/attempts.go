package schematest

import (
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// attempt makes an attempt with a record of that outcome, if any.
func (b *bench) attempt(run schema.RunID, number int, fence schema.Fence, outcome schema.Outcome) schema.Attempt {
	a := schema.Attempt{Run: run, Number: number, Fence: fence, Written: b.now.UnixMicro(), Expires: b.later()}
	if outcome != "" {
		a.Record = &schema.Record{
			Entry: run, Executor: "ex", Started: b.now, Finished: b.now.Add(time.Second), Outcome: outcome,
			Output: "out\x00put", Next: run, Final: true,
		}
	}
	return a
}

// session makes a reference to a session of that id.
func (b *bench) session(id string, entry schema.EntryID) *schema.SessionRef {
	return &schema.SessionRef{Executor: "ex", ID: id, Started: b.now, Entry: entry}
}

func (b *bench) putAttempts(attempts ...schema.Attempt) {
	b.Helper()
	b.must(b.store.PutAttempts(b.ctx, attempts), "PutAttempts of %d", len(attempts))
}

func (b *bench) attempts(p schema.Partition, runs ...schema.RunID) []schema.Attempt {
	b.Helper()
	got, err := b.store.Attempts(b.ctx, p, runs)
	b.must(err, "Attempts")
	return got
}

// say puts an attempt in words: what of it must come back.
func say(a schema.Attempt) string {
	s := fmt.Sprintf("%s #%d ^%d", a.Run, a.Number, a.Fence)
	if a.Record != nil {
		s += fmt.Sprintf(" record %+v", *a.Record)
	}
	if a.Session != nil {
		s += fmt.Sprintf(" session %+v", *a.Session)
	}
	return s
}

func (b *bench) wantAttempts(got []schema.Attempt, want ...schema.Attempt) {
	b.Helper()
	var gotWords, wantWords []string
	for _, a := range got {
		gotWords = append(gotWords, say(a))
	}
	for _, a := range want {
		wantWords = append(wantWords, say(a))
	}
	if !slices.Equal(gotWords, wantWords) {
		b.Errorf("Attempts = %d:\n\t%q\nwant %d:\n\t%q", len(got), gotWords, len(want), wantWords)
	}
}

var attemptRules = []rule{
	{"they come by run, number and fence, of the runs asked for", func(b *bench) {
		p := b.partition()
		runs := b.ids(p, 4)
		var all []schema.Attempt
		for _, run := range runs {
			for _, number := range []int{0, 1, 2, 11, 300} {
				for _, fence := range []schema.Fence{0, 1, 255, 1 << 50} {
					all = append(all, b.attempt(run, number, fence, schema.Failed))
				}
			}
		}
		shuffled := slices.Clone(all)
		b.rnd.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		b.putAttempts(shuffled...)
		b.wantAttempts(b.attempts(p, runs[3], runs[1], runs[0], runs[2]), all...)
		b.wantAttempts(b.attempts(p, runs[2]), all[40:60]...)
		b.wantAttempts(b.attempts(p, runs[3], b.id(p, 5), runs[0]), slices.Concat(all[:20], all[60:])...)
		b.wantAttempts(b.attempts(p, runs[1], runs[1]), all[20:40]...)
	}},
	{"of none there are none", func(b *bench) {
		p := b.partition()
		b.wantAttempts(b.attempts(p))
		b.wantAttempts(b.attempts(p, b.id(p, 0), b.id(p, 1)))
	}},
	{"record and session are separate cells", func(b *bench) {
		for _, order := range []string{"session first", "record first", "at once"} {
			p := b.partition()
			run := b.id(p, 0)
			both := b.attempt(run, 1, 7, schema.Succeeded)
			both.Session = b.session("s", run)
			record, session := both, both
			record.Session, session.Record = nil, nil
			b.Log(order)
			switch order {
			case "session first":
				b.putAttempts(session)
				b.wantAttempts(b.attempts(p, run), session)
				b.putAttempts(record)
			case "record first":
				b.putAttempts(record)
				b.wantAttempts(b.attempts(p, run), record)
				b.putAttempts(session)
			default:
				b.putAttempts(both)
			}
			b.wantAttempts(b.attempts(p, run), both)
		}
	}},
	{"writing again changes nothing", func(b *bench) {
		p := b.partition()
		a := b.attempt(b.id(p, 0), 1, 7, schema.Succeeded)
		b.putAttempts(a)
		b.putAttempts(a, a)
		b.wantAttempts(b.attempts(p, a.Run), a)
	}},
	{"the higher timestamp wins, cell by cell", func(b *bench) {
		p := b.partition()
		run := b.id(p, 0)
		older, newer := b.attempt(run, 1, 7, schema.Failed), b.attempt(run, 1, 7, schema.Succeeded)
		older.Session = b.session("old", run)
		newer.Written++
		b.putAttempts(newer)
		b.putAttempts(older)
		want := newer
		want.Session = older.Session
		b.wantAttempts(b.attempts(p, run), want)
	}},
	{"what has expired does not exist, cell by cell", func(b *bench) {
		p := b.partition()
		run := b.id(p, 0)
		session, record := b.attempt(run, 1, 7, ""), b.attempt(run, 1, 7, schema.Succeeded)
		session.Session, session.Expires = b.session("s", run), b.soon()
		gone := b.attempt(run, 2, 8, schema.Failed)
		gone.Expires = b.soon()
		b.putAttempts(session, record, gone)
		b.eventually("an attempt and a session expire", func() bool {
			got := b.attempts(p, run)
			return len(got) == 1 && got[0].Session == nil
		})
		b.wantAttempts(b.attempts(p, run), record)
	}},
	{"of equal timestamps the longer-lived wins", func(b *bench) {
		p := b.partition()
		stays, goes := b.attempt(b.id(p, 0), 1, 7, schema.Lost), b.attempt(b.id(p, 1), 1, 7, schema.Lost)
		short := stays
		short.Expires, goes.Expires = b.soon(), b.soon()
		b.putAttempts(stays)
		b.putAttempts(short)
		b.putAttempts(goes)
		b.eventually("an attempt expires", func() bool { return len(b.attempts(p, goes.Run)) == 0 })
		b.wantAttempts(b.attempts(p, stays.Run), stays)
	}},
	{"attempts that are kept stay as they are, for longer, and no others", func(b *bench) {
		p := b.partition()
		run := b.id(p, 0)
		lost, other := b.attempt(run, 1, 7, schema.Lost), b.attempt(run, 2, 8, schema.Failed)
		lost.Expires, other.Expires = b.soon(), b.soon()
		// written later than the record, and to stay below what is recorded in between
		session := lost
		session.Record, session.Session, session.Written = nil, b.session("s", run), lost.Written+10
		b.putAttempts(lost, session, other)
		b.must(b.store.KeepAttempts(b.ctx, run, b.later(), func(a *schema.Attempt) bool { return a.Number == 1 }), "KeepAttempts")
		both := lost
		both.Session = session.Session
		b.eventually("what is not kept expires", func() bool { return len(b.attempts(p, run)) == 1 })
		b.wantAttempts(b.attempts(p, run), both)
		truth := b.attempt(run, 1, 7, schema.Succeeded)
		truth.Written = lost.Written + 1
		b.putAttempts(truth)
		both.Record = truth.Record
		b.wantAttempts(b.attempts(p, run), both)
		b.must(b.store.KeepAttempts(b.ctx, b.id(p, 1), b.later(), func(*schema.Attempt) bool { return true }), "KeepAttempts of none")
	}},
	{"to keep attempts for less long than they live changes nothing", func(b *bench) {
		p := b.partition()
		stays, goes := b.attempt(b.id(p, 0), 1, 7, schema.Lost), b.attempt(b.id(p, 1), 1, 7, schema.Lost)
		goes.Expires = b.soon()
		b.putAttempts(stays, goes)
		b.must(b.store.KeepAttempts(b.ctx, stays.Run, b.soon(), func(*schema.Attempt) bool { return true }), "KeepAttempts")
		b.eventually("an attempt expires", func() bool { return len(b.attempts(p, goes.Run)) == 0 })
		b.wantAttempts(b.attempts(p, stays.Run), stays)
	}},
	{"they lie with their run, whichever partitions a batch has", func(b *bench) {
		p, q := b.partition(), b.partition()
		one, other := b.attempt(b.id(p, 0), 1, 7, schema.Succeeded), b.attempt(b.id(q, 0), 1, 7, schema.Failed)
		b.putAttempts(one, other)
		b.wantAttempts(b.attempts(p, one.Run), one)
		b.wantAttempts(b.attempts(q, other.Run), other)
	}},
	{"nothing is read of a run's entry", func(b *bench) {
		p := b.partition()
		a := b.attempt(b.id(p, 0), 0, 0, schema.Missed)
		b.putAttempts(a)
		b.wantIDs(idsOf(b.all(p)), nil, "Entries, where only an attempt lies")
		b.wantAttempts(b.attempts(p, a.Run), a)
	}},
}
