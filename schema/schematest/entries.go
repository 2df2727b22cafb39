package schematest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

var entryRules = []rule{
	{"what is read is what was written, byte for byte", func(b *bench) {
		p := b.partition()
		spec := schema.Spec{
			Tenant: b.tenant, Kind: schema.KindRetry, Of: b.id(p, 0), Nominal: b.now, Accepted: b.now.UnixMicro(),
			JobName: "näme", Generation: 1 << 60, Attempt: 3, Priority: schema.High, Task: "t",
			Labels: map[string]string{"k": "v\x00\u2028"}, Key: "key", BodyHash: "hash",
		}
		e, err := schema.NewEntry(b.id(p, 1), spec, []byte("\x00\xff\n{}"), b.later())
		b.must(err, "NewEntry")
		b.put(e)
		got := b.one(p)
		b.wantEntry(got, e)
		if !got.Expires.IsZero() {
			b.Errorf("Expires read = %v, want zero", got.Expires)
		}
		if got.Marks != (schema.Marks{}) {
			b.Errorf("marks of an unmarked entry = %+v, want none", got.Marks)
		}
	}},
	{"fields of another version survive", func(b *bench) {
		p := b.partition()
		text := fmt.Sprintf(`{ "tenant":%q, "nominal":"2026-01-01T00:00:00Z", "accepted":%d, "of_a_newer_version":[1, 2] }`,
			b.tenant, b.now.UnixMicro())
		e := schema.LoadEntry(b.id(p, 0), []byte(text), nil, schema.Marks{})
		b.must(e.Fault, "LoadEntry")
		e.Expires = b.later()
		b.put(e)
		b.wantEntry(b.one(p), e)
	}},
	{"a text that cannot be understood is a fault of its row alone", func(b *bench) {
		p := b.partition()
		ids := b.ids(p, 3)
		bad := schema.LoadEntry(ids[1], []byte(`{"tenant":7}`), nil, schema.Marks{})
		if bad.Fault == nil {
			b.Fatal("LoadEntry of a faulty text has no fault")
		}
		bad.Expires = b.later()
		b.put(b.entry(ids[0], ""), bad, b.entry(ids[2], ""))
		got := b.all(p)
		b.wantIDs(idsOf(got), ids, "Entries")
		for i, e := range got {
			if faulty := e.Fault != nil; faulty != (i == 1) {
				b.Errorf("fault of entry %d = %v", i, e.Fault)
			}
		}
	}},
	{"entries come in the order of ids, which is that of due times", func(b *bench) {
		p := b.partition()
		var entries []schema.Entry
		for range 300 {
			entries = append(entries, b.entry(b.id(p, b.rnd.IntN(60_000)), "p"))
		}
		for chunk := range slices.Chunk(entries, 60) {
			b.put(chunk...)
		}
		slices.SortFunc(entries, func(x, y schema.Entry) int { return x.ID.Compare(y.ID) })
		got := b.all(p)
		b.wantIDs(idsOf(got), idsOf(entries), "Entries")
		if !slices.IsSortedFunc(got, func(x, y schema.Entry) int { return x.Due().Compare(y.Due()) }) {
			b.Error("Entries are not in the order of due times")
		}
	}},
	{"a range is open at both ends", func(b *bench) {
		p := b.partition()
		ids := b.ids(p, 5)
		for _, id := range ids {
			b.put(b.entry(id, ""))
		}
		before, after := schema.FirstID(p.Bucket.Start().Add(-time.Hour), p.Shard), schema.LastID(p.Bucket.End().Add(time.Hour), p.Shard)
		for _, c := range []struct {
			name string
			r    schema.IDRange
			want []schema.EntryID
		}{
			{"all", schema.IDRange{}, ids},
			{"after the second", schema.IDRange{After: ids[1]}, ids[2:]},
			{"before the fourth", schema.IDRange{Before: ids[3]}, ids[:3]},
			{"between", schema.IDRange{After: ids[0], Before: ids[4]}, ids[1:4]},
			{"neighbours", schema.IDRange{After: ids[1], Before: ids[2]}, nil},
			{"one id", schema.IDRange{After: ids[2], Before: ids[2]}, nil},
			{"the wrong way round", schema.IDRange{After: ids[3], Before: ids[1]}, nil},
			{"after the last", schema.IDRange{After: ids[4]}, nil},
			{"before the first", schema.IDRange{Before: ids[0]}, nil},
			{"wider than the partition", schema.IDRange{After: before, Before: after}, ids},
			{"from an instant", schema.IDRange{After: schema.FirstID(ids[2].Time(), p.Shard)}, ids[2:]},
			{"to an instant", schema.IDRange{Before: schema.FirstID(ids[2].Time(), p.Shard)}, ids[:2]},
		} {
			got, err := b.store.Entries(b.ctx, p, c.r, 100)
			b.must(err, "Entries, %s", c.name)
			b.wantIDs(idsOf(got), c.want, "Entries, %s", c.name)
			gotIDs, err := b.store.EntryIDs(b.ctx, p, c.r, 100)
			b.must(err, "EntryIDs, %s", c.name)
			b.wantIDs(gotIDs, c.want, "EntryIDs, %s", c.name)
		}
	}},
	{"fewer than limit means the end", func(b *bench) {
		p := b.partition()
		ids := b.ids(p, 25)
		for _, id := range ids {
			b.put(b.entry(id, "p"))
		}
		for _, limit := range []int{1, 10, 24, 25, 26} {
			var got, gotIDs []schema.EntryID
			for r := (schema.IDRange{}); ; r.After = got[len(got)-1] {
				page, err := b.store.Entries(b.ctx, p, r, limit)
				b.must(err, "Entries, limit %d", limit)
				pageIDs, err := b.store.EntryIDs(b.ctx, p, r, limit)
				b.must(err, "EntryIDs, limit %d", limit)
				got, gotIDs = append(got, idsOf(page)...), append(gotIDs, pageIDs...)
				if len(page) > limit || len(got) > len(ids) {
					b.Fatalf("Entries, limit %d = a page of %d, %d entries so far; want at most %d", limit, len(page), len(got), len(ids))
				}
				if len(page) < limit {
					break
				}
			}
			b.wantIDs(got, ids, "pages of Entries, limit %d", limit)
			b.wantIDs(gotIDs, ids, "pages of EntryIDs, limit %d", limit)
		}
	}},
	{"a partition holds its own rows only", func(b *bench) {
		p := b.partition()
		p.Shard = 1 + p.Shard%(schema.MaxShards-2)
		around := []schema.Partition{
			{Bucket: p.Bucket, Shard: p.Shard - 1},
			{Bucket: p.Bucket, Shard: p.Shard + 1},
			{Bucket: p.Bucket - 1, Shard: p.Shard},
			{Bucket: p.Bucket + 1, Shard: p.Shard},
		}
		first, last := b.id(p, 0), b.id(p, 59_999)
		batch := []schema.Entry{b.entry(first, ""), b.entry(last, "")}
		for _, other := range around {
			batch = append(batch, b.entry(b.id(other, 0), ""), b.entry(b.id(other, 59_999), ""))
		}
		b.put(batch...) // one batch of five partitions
		b.wantIDs(idsOf(b.all(p)), []schema.EntryID{first, last}, "Entries")
		for _, other := range around {
			if got := b.all(other); len(got) != 2 {
				b.Errorf("Entries of %s, beside %s = %d entries, want 2", other, p, len(got))
			}
		}
	}},
	{"by id come those that exist, in order, each once", func(b *bench) {
		p := b.partition()
		ids := b.ids(p, 100)
		var want []schema.EntryID
		for i, id := range ids {
			if i%3 == 0 {
				want = append(want, id)
				b.put(b.entry(id, "p"))
			}
		}
		asked := slices.Clone(ids)
		rand.New(b.rnd).Shuffle(len(asked), func(i, j int) { asked[i], asked[j] = asked[j], asked[i] })
		got, err := b.store.EntriesByID(b.ctx, p, asked)
		b.must(err, "EntriesByID")
		b.wantIDs(idsOf(got), want, "EntriesByID")
		for i := range got {
			if string(got[i].Payload) != "p" {
				b.Errorf("payload of %s = %q, want p", got[i].ID, got[i].Payload)
			}
		}
		got, err = b.store.EntriesByID(b.ctx, p, []schema.EntryID{ids[0], ids[0]})
		b.must(err, "EntriesByID of one id twice")
		b.wantIDs(idsOf(got), ids[:1], "EntriesByID of one id twice")
		for _, asked := range [][]schema.EntryID{nil, {ids[1]}} {
			got, err = b.store.EntriesByID(b.ctx, p, asked)
			b.must(err, "EntriesByID(%v)", asked)
			b.wantIDs(idsOf(got), nil, "EntriesByID(%v)", asked)
		}
	}},
	{"small payloads lie in the row, large ones under their id", func(b *bench) {
		for _, size := range []int{1, schema.InlinePayload, schema.InlinePayload + 1, schema.MaxPayload} {
			p := b.partition()
			e := b.entry(b.id(p, 0), text(size))
			b.put(e)
			got, inline := b.one(p), size <= schema.InlinePayload
			if at, large := got.LargePayload(); large == inline {
				b.Errorf("LargePayload of %d bytes = %s, %v", size, at, large)
			}
			if inline != (len(got.Payload) == size) || !inline && len(got.Payload) > 0 {
				b.Errorf("payload of %d bytes, read with its entry = %d bytes", size, len(got.Payload))
			}
			payload, err := b.store.Payload(b.ctx, e.ID)
			if inline {
				b.wantErr(err, schema.ErrNotFound, "Payload of an inline payload")
			} else if err != nil || string(payload) != text(size) {
				b.Errorf("Payload of %d bytes = %d bytes, %v", size, len(payload), err)
			}
		}
	}},
	{"an entry without payload leaves the payload alone", func(b *bench) {
		for _, size := range []int{1, schema.MaxPayload} {
			p := b.partition()
			e := b.entry(b.id(p, 0), text(size))
			b.put(e)
			bare := schema.LoadEntry(e.ID, e.Text(), nil, schema.Marks{})
			bare.Expires = b.later().Add(time.Minute)
			b.put(bare)
			got := b.one(p)
			if at, large := got.LargePayload(); large {
				payload, err := b.store.Payload(b.ctx, at)
				b.must(err, "Payload")
				got.Payload = payload
			}
			if len(got.Payload) != size {
				b.Errorf("payload of %d bytes, after its entry was written without = %d bytes", size, len(got.Payload))
			}
		}
	}},
	{"writing again changes nothing", func(b *bench) {
		p := b.partition()
		entries := []schema.Entry{b.entry(b.id(p, 0), "p"), b.entry(b.id(p, 1), text(schema.MaxPayload))}
		for range 3 {
			b.put(entries...)
		}
		got := b.all(p)
		b.wantIDs(idsOf(got), idsOf(entries), "Entries")
		b.wantEntry(got[0], entries[0])
	}},
	{"the higher timestamp wins, in whichever order", func(b *bench) {
		for _, order := range []string{"older first", "newer first"} {
			p := b.partition()
			id := b.id(p, 0)
			older, newer := b.version(id, 0, "older", "o", b.later()), b.version(id, 1, "newer", "n", b.later())
			if order == "older first" {
				b.put(older)
				b.put(newer)
			} else {
				b.put(newer)
				b.put(older)
			}
			b.Log(order)
			b.wantEntry(b.one(p), newer)
		}
	}},
	{"of equal timestamps the longer-lived wins, in whichever order", func(b *bench) {
		long, short, gone := b.partition(), b.partition(), b.partition()
		first, second := b.id(long, 0), b.id(short, 0)
		b.put(b.version(first, 0, "t", "p", b.later()))
		b.put(b.version(first, 0, "t", "p", b.soon()))
		b.put(b.version(second, 0, "t", text(schema.MaxPayload), b.soon()))
		b.put(b.version(second, 0, "t", text(schema.MaxPayload), b.later()))
		b.put(b.version(b.id(gone, 0), 0, "t", "p", b.soon()))
		b.eventually("an entry expires", func() bool { return len(b.all(gone)) == 0 })
		if got := b.one(long); string(got.Payload) != "p" {
			b.Errorf("payload of the longer-lived = %q, want p", got.Payload)
		}
		b.one(short)
		_, err := b.store.Payload(b.ctx, second)
		b.must(err, "Payload of the longer-lived")
	}},
	{"the higher timestamp wins, also if it leaves sooner, in whichever order", func(b *bench) {
		for _, order := range []string{"longer-lived first", "shorter-lived first"} {
			p := b.partition()
			id := b.id(p, 0)
			long, short := b.version(id, 0, "long", "l", b.later()), b.version(id, 1, "short", "s", b.soon())
			if order == "longer-lived first" {
				b.put(long)
				b.put(short)
			} else {
				b.put(short)
				b.put(long)
			}
			b.Log(order)
			b.eventually("the entry expires", func() bool { return len(b.all(p)) == 0 })
		}
	}},
	{"what has expired does not exist", func(b *bench) {
		p := b.partition()
		soon, stays := b.version(b.id(p, 0), 0, "t", text(schema.MaxPayload), b.soon()), b.entry(b.id(p, 1), "")
		b.put(soon, stays)
		b.eventually("the entry expires", func() bool { return len(b.all(p)) == 1 })
		b.wantIDs(idsOf(b.all(p)), []schema.EntryID{stays.ID}, "Entries")
		ids, err := b.store.EntryIDs(b.ctx, p, schema.IDRange{}, 1)
		b.must(err, "EntryIDs")
		b.wantIDs(ids, []schema.EntryID{stays.ID}, "EntryIDs, limit 1")
		b.eventually("the payload expires", func() bool {
			_, err := b.store.Payload(b.ctx, soon.ID)
			return errors.Is(err, schema.ErrNotFound)
		})
	}},
	{"a row that is too large is refused, and its batch with it", func(b *bench) {
		p := b.partition()
		err := b.store.PutEntries(b.ctx, []schema.Entry{b.entry(b.id(p, 0), text(32<<20)), b.entry(b.id(p, 1), "")})
		b.wantErr(err, schema.ErrTooLarge, "PutEntries of 32 MiB")
		b.wantIDs(idsOf(b.all(p)), nil, "Entries")
	}},
	{"what is read belongs to the reader", func(b *bench) {
		p := b.partition()
		e := b.entry(b.id(p, 0), "payload")
		b.put(e)
		got := b.one(p)
		clear(got.Payload)
		b.wantEntry(b.one(p), e)
	}},
	{"writers at once lose nothing", func(b *bench) {
		p := b.partition()
		ids := b.ids(p, 400)
		entries := make([]schema.Entry, len(ids))
		for i, id := range ids {
			entries[i] = b.entry(id, strings.Repeat("p", i%50+1))
		}
		race(8, func(i int) {
			for chunk := range slices.Chunk(entries[i*50:(i+1)*50], 10) {
				if err := b.store.PutEntries(b.ctx, chunk); err != nil {
					b.Errorf("PutEntries = %v", err)
				}
			}
		})
		b.wantIDs(idsOf(b.all(p)), ids, "Entries")
	}},
}

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
