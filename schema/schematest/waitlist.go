package schematest

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// waiter makes the row of a run that is due ms after the beginning of p, and of an entry as much
// later.
func (b *bench) waiter(key schema.LimitKey, p schema.Partition, ms, later int) schema.Waiter {
	run := b.id(p, ms)
	entry := run
	if later > 0 {
		entry = b.id(p, ms+later)
	}
	return schema.Waiter{Limit: key, Shard: p.Shard, Run: run, Entry: entry, Noted: b.now.UTC(), Expires: b.later()}
}

func (b *bench) putWaiting(rows ...schema.Waiter) {
	b.Helper()
	for _, w := range rows {
		b.must(b.store.PutWaiter(b.ctx, w), "PutWaiter")
	}
}

// wantWaiting checks what waits for a limit, in order.
func (b *bench) wantWaiting(key schema.LimitKey, want ...schema.Waiter) {
	b.Helper()
	got, err := b.store.Waiters(b.ctx, key, schema.IDRange{}, 100)
	b.must(err, "Waiters")
	same := len(got) == len(want)
	for i := range got {
		same = same && got[i].Limit == key && got[i].Run == want[i].Run && got[i].Entry == want[i].Entry
	}
	if !same {
		b.Errorf("Waiters(%s) = %+v\nwant %+v", key, got, want)
	}
}

// wantWaitedFor checks what is waited for in a shard, of the limits of this test.
func (b *bench) wantWaitedFor(shard schema.Shard, want ...schema.LimitMark) {
	b.Helper()
	got := make([]schema.LimitMark, 0, len(want))
	for after := schema.LimitKey(""); ; {
		page, err := b.store.LimitsWithWaiters(b.ctx, shard, after, 2)
		b.must(err, "LimitsWithWaiters")
		for _, m := range page {
			// other tests share the store
			if len(m.Limit) >= len(b.tenant) && string(m.Limit[:len(b.tenant)]) == b.tenant {
				got = append(got, m)
			}
			after = m.Limit
		}
		if len(page) < 2 {
			break
		}
	}
	if len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
		b.Errorf("LimitsWithWaiters(%d) = %+v\nwant %+v", shard, got, want)
	}
}

func mark(w schema.Waiter) schema.LimitMark {
	return schema.LimitMark{Shard: w.Shard, Limit: w.Limit, Noted: w.Noted}
}

var waitListRules = []rule{
	{"runs wait in the order of their due times, each limit's apart", func(b *bench) {
		p := b.partition()
		key, other := schema.LimitKey(b.tenant+"/a"), schema.LimitKey(b.tenant+"/ab")
		first, second, third := b.waiter(key, p, 10, 0), b.waiter(key, p, 20, 500), b.waiter(key, p, 70_000, 0)
		alone := b.waiter(other, p, 5, 0)
		b.putWaiting(third, alone, first, second, first)
		b.wantWaiting(key, first, second, third)
		b.wantWaiting(other, alone)
		b.wantWaiting(schema.LimitKey(b.tenant))
		got, err := b.store.Waiters(b.ctx, key, schema.IDRange{}, 2)
		if err != nil || len(got) != 2 || got[1].Run != second.Run {
			b.Errorf("Waiters of 2 = %+v, %v; want the first two", got, err)
		}
	}},
	{"a list is read in pages, each after the last run of the one before", func(b *bench) {
		p := b.partition()
		key := schema.LimitKey(b.tenant)
		var want []schema.Waiter
		for i := range 7 {
			want = append(want, b.waiter(key, p, 10*(i/2), 0)) // two of one ms
		}
		slices.SortFunc(want, func(x, y schema.Waiter) int { return x.Run.Compare(y.Run) })
		b.putWaiting(want...)
		got := pages(b, "Waiters", 2, func(last *schema.Waiter) ([]schema.Waiter, error) {
			after := or(last, func(w *schema.Waiter) schema.RunID { return w.Run })
			return b.store.Waiters(b.ctx, key, schema.IDRange{After: after}, 2)
		})
		if !slices.EqualFunc(got, want, func(x, y schema.Waiter) bool { return x.Run == y.Run }) {
			b.Errorf("the pages of Waiters hold %v\nwant %+v", got, want)
		}
		for _, part := range []struct {
			r    schema.IDRange
			want []schema.Waiter
		}{
			{schema.IDRange{After: want[1].Run, Before: want[5].Run}, want[2:5]},
			{schema.IDRange{Before: want[3].Run}, want[:3]},
			{schema.IDRange{After: schema.LastID(want[2].Run.Time(), schema.MaxShards-1)}, want[4:]},
			{schema.IDRange{Before: schema.FirstID(want[2].Run.Time(), 0)}, want[:2]},
			{schema.IDRange{After: want[3].Run, Before: want[2].Run}, nil},
		} {
			rows, err := b.store.Waiters(b.ctx, key, part.r, 100)
			b.must(err, "Waiters of %v", part.r)
			if !slices.EqualFunc(rows, part.want, func(x, y schema.Waiter) bool { return x.Run == y.Run }) {
				b.Errorf("Waiters of %v = %+v\nwant %+v", part.r, rows, part.want)
			}
		}
	}},
	{"a row tells when it leaves, and lives longer when it is written again", func(b *bench) {
		w := b.waiter(schema.LimitKey(b.tenant), b.partition(), 10, 0)
		leaves := func() time.Time {
			rows, err := b.store.Waiters(b.ctx, w.Limit, schema.IDRange{}, 1)
			if b.must(err, "Waiters"); len(rows) != 1 {
				b.Fatalf("Waiters = %+v, want one row", rows)
			}
			return rows[0].Expires
		}
		longer := w
		longer.Expires = w.Expires.Add(time.Hour)
		for _, put := range []schema.Waiter{w, longer, w} { // the last one changes nothing
			b.putWaiting(put)
			want := w.Expires
			if put.Expires.After(want) || !leaves().Before(longer.Expires.Add(-time.Minute)) {
				want = longer.Expires
			}
			if got := leaves(); got.Sub(want).Abs() > time.Minute {
				b.Errorf("the row leaves at %v, want %v", got, want)
			}
		}
		if got := leaves(); got.Sub(longer.Expires).Abs() > time.Minute {
			b.Errorf("in the end the row leaves at %v, want %v", got, longer.Expires)
		}
	}},
	{"what was taken out is not put in again, but a later entry is", func(b *bench) {
		p := b.partition()
		key := schema.LimitKey(b.tenant)
		early := b.waiter(key, p, 10, 0)
		late := early
		late.Entry = b.id(p, 900)
		b.putWaiting(early)
		b.must(b.store.DeleteWaiter(b.ctx, early), "DeleteWaiter")
		b.wantWaiting(key)
		b.putWaiting(early)
		b.wantWaiting(key)
		b.putWaiting(late)
		b.wantWaiting(key, late)
		b.must(b.store.DeleteWaiter(b.ctx, early), "DeleteWaiter of the entry before")
		b.putWaiting(early)
		b.wantWaiting(key, late)
		b.must(b.store.DeleteWaiter(b.ctx, late), "DeleteWaiter")
		b.putWaiting(late)
		b.wantWaiting(key)
	}},
	{"what is taken out before it is put in does not come", func(b *bench) {
		w := b.waiter(schema.LimitKey(b.tenant), b.partition(), 10, 0)
		b.must(b.store.DeleteWaiter(b.ctx, w), "DeleteWaiter of nothing")
		b.putWaiting(w)
		b.wantWaiting(w.Limit)
	}},
	{"a mark tells when something was put in last, and stays until that is taken out", func(b *bench) {
		p := b.partition()
		one, two := b.waiter(schema.LimitKey(b.tenant+"/1"), p, 10, 0), b.waiter(schema.LimitKey(b.tenant+"/2"), p, 10, 0)
		again := b.waiter(one.Limit, p, 20, 0)
		again.Noted = one.Noted.Add(time.Microsecond)
		b.putWaiting(two, again, one)
		b.wantWaitedFor(p.Shard, mark(again), mark(two))
		b.wantWaitedFor(p.Shard ^ 1)
		b.must(b.store.DeleteLimitMark(b.ctx, mark(one)), "DeleteLimitMark of what was noted before")
		b.wantWaitedFor(p.Shard, mark(again), mark(two))
		b.must(b.store.DeleteLimitMark(b.ctx, mark(again)), "DeleteLimitMark")
		b.wantWaitedFor(p.Shard, mark(two))
		b.wantWaiting(one.Limit, one, again)
		again.Noted = again.Noted.Add(time.Microsecond)
		b.putWaiting(again)
		b.wantWaitedFor(p.Shard, mark(again), mark(two))
	}},
	{"marks of many limits are read in pages", func(b *bench) {
		p := b.partition()
		var want []schema.LimitMark
		for i := range 7 {
			w := b.waiter(schema.LimitKey(fmt.Sprintf("%s/%d", b.tenant, i)), p, i, 0)
			b.putWaiting(w)
			want = append(want, mark(w))
		}
		b.wantWaitedFor(p.Shard, want...)
	}},
	{"rows leave, and their marks", func(b *bench) {
		p := b.partition()
		w, stays := b.waiter(schema.LimitKey(b.tenant+"/1"), p, 10, 0), b.waiter(schema.LimitKey(b.tenant+"/2"), p, 10, 0)
		w.Expires = b.soon()
		b.putWaiting(w, stays)
		b.eventually("the row expires", func() bool {
			rows, err := b.store.Waiters(b.ctx, w.Limit, schema.IDRange{}, 1)
			return err == nil && len(rows) == 0
		})
		b.wantWaitedFor(p.Shard, mark(stays))
	}},
}
