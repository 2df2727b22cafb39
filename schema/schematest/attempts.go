package schematest

import (
	"bytes"
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

// part makes a part of an execution.
func part(attempt int, fence schema.Fence, number int, data string) schema.Part {
	return schema.Part{PartKey: schema.PartKey{Attempt: attempt, Fence: fence, Number: number}, Data: []byte(data)}
}

func (b *bench) putPart(run schema.RunID, kind schema.PartKind, p schema.Part) {
	b.must(b.store.PutPart(b.ctx, run, kind, p, b.now.UnixMicro(), b.later()), "PutPart")
}

func (b *bench) wantParts(run schema.RunID, kind schema.PartKind, after schema.PartKey, limit int, want ...schema.Part) {
	got, err := b.store.Parts(b.ctx, run, kind, after, limit)
	b.must(err, "Parts")
	if !slices.EqualFunc(got, want, func(g, w schema.Part) bool { return g.PartKey == w.PartKey && bytes.Equal(g.Data, w.Data) }) {
		b.Errorf("Parts after %+v, at most %d = %v, want %v", after, limit, got, want)
	}
}

var outputRules = []rule{
	{"parts come in order of attempt, fence and number", func(b *bench) {
		p := b.partition()
		run, other := b.id(p, 0), b.id(p, 1)
		all := []schema.Part{
			part(1, 5, 1, "a"), part(1, 5, 2, "\x00\xff"), part(1, 1<<50, 1, "b"), part(1, 1<<50, 10, "c"), part(2, 3, 9, "d"), part(10, 1, 1, "e"),
		}
		for i := range all {
			b.putPart(run, schema.OutputPart, all[(i*5+3)%len(all)]) // not in order
		}
		b.putPart(run, schema.OutputPart, all[0])
		b.putPart(run, schema.ReportPart, part(1, 5, 1, "a report"))
		b.putPart(other, schema.OutputPart, part(1, 5, 3, "not mine"))
		b.wantParts(run, schema.OutputPart, schema.PartKey{}, 100, all...)
		b.wantParts(run, schema.OutputPart, schema.PartKey{}, 2, all[:2]...)
		for i, p := range all {
			b.wantParts(run, schema.OutputPart, p.PartKey, 2, all[i+1:min(i+3, len(all))]...)
		}
		b.wantParts(run, schema.OutputPart, schema.PartKey{Attempt: 1, Fence: 6}, 2, all[2:4]...)
		b.wantParts(run, schema.ReportPart, schema.PartKey{}, 100, part(1, 5, 1, "a report"))
	}},
	{"the last part is that of one execution", func(b *bench) {
		run := b.id(b.partition(), 0)
		for _, p := range []schema.Part{part(1, 5, 1, "a"), part(1, 5, 12, "b"), part(1, 5, 2, "c"), part(1, 6, 1, "d"), part(2, 1, 1, "e")} {
			b.putPart(run, schema.ReportPart, p)
		}
		b.putPart(run, schema.OutputPart, part(1, 5, 13, "no report"))
		for _, want := range []schema.Part{part(1, 5, 12, "b"), part(1, 6, 1, "d"), part(2, 1, 1, "e")} {
			got, err := b.store.LastPart(b.ctx, run, schema.ReportPart, schema.PartKey{Attempt: want.Attempt, Fence: want.Fence})
			b.must(err, "LastPart")
			if got.PartKey != want.PartKey || !bytes.Equal(got.Data, want.Data) {
				b.Errorf("LastPart = %v, want %v", got, want)
			}
		}
		for _, none := range []schema.PartKey{{Attempt: 1, Fence: 4}, {Attempt: 1, Fence: 7}, {Attempt: 3, Fence: 5}} {
			_, err := b.store.LastPart(b.ctx, run, schema.ReportPart, none)
			b.wantErr(err, schema.ErrNotFound, "LastPart of %+v, of which there are none", none)
		}
	}},
	{"a part may have PartSize bytes, and the later write wins", func(b *bench) {
		run := b.id(b.partition(), 0)
		large := part(1, 1, 1, string(bytes.Repeat([]byte("x"), schema.PartSize)))
		b.putPart(run, schema.OutputPart, large)
		b.must(b.store.PutPart(b.ctx, run, schema.OutputPart, part(1, 1, 1, "older"), b.now.UnixMicro()-1, b.later()), "PutPart")
		b.wantParts(run, schema.OutputPart, schema.PartKey{}, 9, large)
	}},
	{"of none there are none", func(b *bench) {
		b.wantParts(b.id(b.partition(), 0), schema.OutputPart, schema.PartKey{}, 9)
	}},
	{"parts expire", func(b *bench) {
		run := b.id(b.partition(), 0)
		b.must(b.store.PutPart(b.ctx, run, schema.OutputPart, part(1, 1, 1, "x"), b.now.UnixMicro(), b.soon()), "PutPart")
		b.eventually("a part expires", func() bool {
			got, err := b.store.Parts(b.ctx, run, schema.OutputPart, schema.PartKey{}, 9)
			b.must(err, "Parts")
			_, err = b.store.LastPart(b.ctx, run, schema.OutputPart, schema.PartKey{Attempt: 1, Fence: 1})
			return len(got) == 0 && err != nil
		})
	}},
	{"reports come back as they went", func(b *bench) {
		run := b.id(b.partition(), 0)
		want := schema.Report{
			Lines: []schema.Line{{At: b.now.UTC(), Text: "grün <&> \u2028"}}, Dropped: 3,
			Progress: &schema.RunProgress{Done: 1, Total: 2, Text: "half", At: b.now.UTC()},
		}
		text, err := schema.EncodeReport(&want)
		b.must(err, "EncodeReport")
		b.putPart(run, schema.ReportPart, part(1, 1, 1, string(text)))
		p, err := b.store.LastPart(b.ctx, run, schema.ReportPart, schema.PartKey{Attempt: 1, Fence: 1})
		b.must(err, "LastPart")
		got, err := schema.DecodeReport(p.Data)
		b.must(err, "DecodeReport")
		if fmt.Sprint(got.Lines, got.Dropped, *got.Progress) != fmt.Sprint(want.Lines, want.Dropped, *want.Progress) {
			b.Errorf("report = %+v, want %+v", *got, want)
		}
	}},
}
