package schematest

import (
	"errors"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// cancel is a mark by that name.
func (b *bench) cancel(by string) schema.Cancel { return schema.Cancel{At: b.now, By: by} }

// run writes an entry and returns its id.
func (b *bench) run(p schema.Partition) schema.RunID {
	b.Helper()
	e := b.entry(b.id(p, 0), "p")
	b.put(e)
	return e.ID
}

// wantMarks checks the marks of a run, by every way to read them. by is "" for a run that is not
// cancelled.
func (b *bench) wantMarks(id schema.RunID, by string, movedTo schema.EntryID) {
	b.Helper()
	marks, err := b.store.Marks(b.ctx, id)
	b.must(err, "Marks")
	b.sameMarks("Marks", marks, by, movedTo)
	entries, err := b.store.Entries(b.ctx, id.Partition(), schema.IDRange{}, 100)
	b.must(err, "Entries")
	byID, err := b.store.EntriesByID(b.ctx, id.Partition(), []schema.EntryID{id})
	b.must(err, "EntriesByID")
	for _, e := range slices.Concat(entries, byID) {
		if e.ID == id {
			b.sameMarks("marks of an entry", e.Marks, by, movedTo)
		}
	}
}

func (b *bench) sameMarks(what string, got schema.Marks, by string, movedTo schema.EntryID) {
	b.Helper()
	gotBy := ""
	if got.Cancelled != nil {
		gotBy = got.Cancelled.By
		if !got.Cancelled.At.Equal(b.now) {
			b.Errorf("%s: cancelled at %v, want %v", what, got.Cancelled.At, b.now)
		}
	}
	if gotBy != by || got.MovedTo != movedTo {
		b.Errorf("%s = cancelled by %q, moved to %q; want by %q, to %q", what, gotBy, got.MovedTo, by, movedTo)
	}
}

var markRules = []rule{
	{"a run that is not there cannot be marked", func(b *bench) {
		p := b.partition()
		id := b.id(p, 0)
		_, err := b.store.CancelRun(b.ctx, id, schema.EntryID{}, b.cancel("me"), b.later())
		b.wantErr(err, schema.ErrNotFound, "CancelRun")
		_, err = b.store.MoveRun(b.ctx, id, schema.EntryID{}, b.id(p, 1), b.later())
		b.wantErr(err, schema.ErrNotFound, "MoveRun")
		_, err = b.store.Marks(b.ctx, id)
		b.wantErr(err, schema.ErrNotFound, "Marks")
		b.wantIDs(idsOf(b.all(p)), nil, "Entries")
	}},
	{"a cancelled run stays as it was cancelled", func(b *bench) {
		p := b.partition()
		id := b.run(p)
		b.wantMarks(id, "", schema.EntryID{})
		_, err := b.store.CancelRun(b.ctx, id, schema.EntryID{}, b.cancel("first"), b.later())
		b.must(err, "CancelRun")
		b.wantMarks(id, "first", schema.EntryID{})
		marks, err := b.store.CancelRun(b.ctx, id, schema.EntryID{}, b.cancel("second"), b.later())
		b.wantErr(err, schema.ErrConflict, "CancelRun again")
		b.sameMarks("CancelRun again", marks, "first", schema.EntryID{})
		marks, err = b.store.MoveRun(b.ctx, id, schema.EntryID{}, b.id(p, 1), b.later())
		b.wantErr(err, schema.ErrConflict, "MoveRun of a cancelled run")
		b.sameMarks("MoveRun of a cancelled run", marks, "first", schema.EntryID{})
		b.wantMarks(id, "first", schema.EntryID{})
	}},
	{"a run is moved from where it was read", func(b *bench) {
		p := b.partition()
		id, first, second := b.run(p), b.id(p, 1), b.id(p, 2)
		_, err := b.store.MoveRun(b.ctx, id, schema.EntryID{}, first, b.later())
		b.must(err, "MoveRun")
		b.wantMarks(id, "", first)
		marks, err := b.store.MoveRun(b.ctx, id, schema.EntryID{}, second, b.later())
		b.wantErr(err, schema.ErrConflict, "MoveRun as if not moved")
		b.sameMarks("MoveRun as if not moved", marks, "", first)
		_, err = b.store.MoveRun(b.ctx, id, first, second, b.later())
		b.must(err, "MoveRun as read")
		b.wantMarks(id, "", second)
		_, err = b.store.MoveRun(b.ctx, id, second, first, b.later())
		b.must(err, "MoveRun back")
		b.wantMarks(id, "", first)
	}},
	{"a moved run is cancelled only as read", func(b *bench) {
		p := b.partition()
		id, to := b.run(p), b.id(p, 1)
		_, err := b.store.MoveRun(b.ctx, id, schema.EntryID{}, to, b.later())
		b.must(err, "MoveRun")
		marks, err := b.store.CancelRun(b.ctx, id, schema.EntryID{}, b.cancel("me"), b.later())
		b.wantErr(err, schema.ErrConflict, "CancelRun as if not moved")
		b.sameMarks("CancelRun as if not moved", marks, "", to)
		_, err = b.store.CancelRun(b.ctx, id, to, b.cancel("me"), b.later())
		b.must(err, "CancelRun as read")
		b.wantMarks(id, "me", to)
	}},
	{"marks survive another write of their entry", func(b *bench) {
		p := b.partition()
		e := b.entry(b.id(p, 0), "p")
		b.put(e)
		_, err := b.store.CancelRun(b.ctx, e.ID, schema.EntryID{}, b.cancel("me"), b.later())
		b.must(err, "CancelRun")
		e.Expires = b.later().Add(time.Minute)
		b.put(e)
		b.wantMarks(e.ID, "me", schema.EntryID{})
	}},
	{"a mark marks one run", func(b *bench) {
		p := b.partition()
		ids := b.ids(p, 3)
		for _, id := range ids {
			b.put(b.entry(id, ""))
		}
		_, err := b.store.CancelRun(b.ctx, ids[1], schema.EntryID{}, b.cancel("me"), b.later())
		b.must(err, "CancelRun")
		for i, by := range []string{"", "me", ""} {
			b.wantMarks(ids[i], by, schema.EntryID{})
		}
	}},
	{"marks do not keep a row that has left", func(b *bench) {
		p := b.partition()
		var e schema.Entry
		err := schema.ErrNotFound
		// it may have left already
		for life := 2 * time.Second; errors.Is(err, schema.ErrNotFound) && life < patience; life *= 2 {
			now, timeErr := b.store.Time(b.ctx)
			b.must(timeErr, "Time")
			e = b.version(b.id(p, 0), 0, "t", "p", now.Add(life))
			b.put(e)
			_, err = b.store.CancelRun(b.ctx, e.ID, schema.EntryID{}, b.cancel("me"), b.later())
		}
		b.must(err, "CancelRun")
		b.eventually("the entry expires", func() bool { return len(b.all(p)) == 0 })
		_, err = b.store.Marks(b.ctx, e.ID)
		b.wantErr(err, schema.ErrNotFound, "Marks")
		got, err := b.store.EntriesByID(b.ctx, p, []schema.EntryID{e.ID})
		b.must(err, "EntriesByID")
		b.wantIDs(idsOf(got), nil, "EntriesByID")
		_, err = b.store.CancelRun(b.ctx, e.ID, schema.EntryID{}, b.cancel("again"), b.later())
		b.wantErr(err, schema.ErrNotFound, "CancelRun")
	}},
}
