package schematest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/schema"
)

// executor draws a name.
func (b *bench) executor() string { return fmt.Sprintf("executor-%016x", b.rnd.Uint64()) }

// wantSession checks which session of an executor stands; a zero want means none.
func (b *bench) wantSession(executor string, want schema.Session) {
	b.Helper()
	got, err := b.store.Session(b.ctx, executor)
	if want.ID == "" {
		b.wantErr(err, schema.ErrNotFound, "Session")
		return
	}
	if err != nil || got.Executor != want.Executor || got.ID != want.ID || !got.Expires.Equal(want.Expires) || !slices.EqualFunc(got.Former, want.Former, sameFormer) {
		b.Errorf("Session = %+v, %v; want %+v", got, err, want)
	}
}

func sameFormer(x, y schema.FormerSession) bool { return x.ID == y.ID && x.Expires.Equal(y.Expires) }

var sessionRules = []rule{
	{"one stands at a time, and is replaced as read", func(b *bench) {
		executor := b.executor()
		b.wantSession(executor, schema.Session{})
		first := schema.Session{Executor: executor, ID: "first", Expires: b.now.Add(10 * time.Second)}
		renewed := first
		renewed.Expires = first.Expires.Add(3*time.Second + time.Millisecond)
		second := schema.Session{Executor: executor, ID: "second", Expires: b.now.Add(20 * time.Second)}
		for _, step := range []struct {
			name    string
			was, is schema.Session
			want    error
			stands  schema.Session
		}{
			{name: "renew none", was: first, is: renewed, want: schema.ErrConflict},
			{name: "begin", is: first, stands: first},
			{name: "begin a second", is: second, want: schema.ErrConflict, stands: first},
			{name: "renew", was: first, is: renewed, stands: renewed},
			{name: "renew what was renewed", was: first, is: second, want: schema.ErrConflict, stands: renewed},
			{name: "declare dead what was renewed", was: first, is: schema.Session{Executor: executor}, want: schema.ErrConflict, stands: renewed},
			{name: "declare another dead", was: second, is: schema.Session{Executor: executor}, want: schema.ErrConflict, stands: renewed},
			{name: "declare dead", was: renewed, is: schema.Session{Executor: executor}},
			{name: "renew the dead", was: renewed, is: first, want: schema.ErrConflict},
			{name: "begin anew", is: second, stands: second},
			{name: "declare dead without a name", was: second},
		} {
			err := b.store.SwapSession(b.ctx, step.was, step.is)
			if !errors.Is(err, step.want) {
				b.Errorf("%s: SwapSession = %v, want %v", step.name, err, step.want)
			}
			b.Log(step.name)
			b.wantSession(executor, step.stands)
		}
	}},
	{"what it remembers is kept as it is said", func(b *bench) {
		executor := b.executor()
		var former []schema.FormerSession
		for i := range schema.MaxFormer {
			former = append(former, schema.FormerSession{ID: fmt.Sprintf("%016x", i), Expires: b.now.Add(time.Duration(i) * time.Millisecond)})
		}
		was := schema.Session{}
		for i, remembered := range [][]schema.FormerSession{former[:2], nil, former[:1], former[1:3], former, nil} {
			is := schema.Session{Executor: executor, ID: "same", Expires: b.now.Add(time.Duration(i) * time.Second), Former: remembered}
			b.must(b.store.SwapSession(b.ctx, was, is), "SwapSession")
			b.wantSession(executor, is)
			was = is
		}
		b.must(b.store.SwapSession(b.ctx, was, schema.Session{Executor: executor}), "SwapSession")
		b.wantSession(executor, schema.Session{})
		again := schema.Session{Executor: executor, ID: "again", Expires: b.now}
		b.must(b.store.SwapSession(b.ctx, schema.Session{}, again), "SwapSession")
		b.wantSession(executor, again)
	}},
	{"an expired one stands until it is declared dead", func(b *bench) {
		executor := b.executor()
		old := schema.Session{Executor: executor, ID: "old", Expires: b.now.Add(-time.Hour)}
		b.must(b.store.SwapSession(b.ctx, schema.Session{}, old), "SwapSession")
		b.wantSession(executor, old)
		err := b.store.SwapSession(b.ctx, schema.Session{}, schema.Session{Executor: executor, ID: "new", Expires: b.now})
		b.wantErr(err, schema.ErrConflict, "SwapSession beside an expired one")
	}},
	{"of many at once one wins", func(b *bench) {
		for range raceRounds {
			executor := b.executor()
			var won atomic.Int32
			race(racers, func(i int) {
				is := schema.Session{Executor: executor, ID: fmt.Sprint(i), Expires: b.now}
				switch err := b.store.SwapSession(b.ctx, schema.Session{}, is); {
				case err == nil:
					won.Add(1)
				case errors.Is(err, schema.ErrUnknown): // the store may not have known: the session tells
				case !errors.Is(err, schema.ErrConflict):
					b.Errorf("SwapSession %d = %v, want none or %v", i, err, schema.ErrConflict)
				}
			})
			if _, err := b.store.Session(b.ctx, executor); err != nil || won.Load() > 1 {
				b.Errorf("%d of %d won; Session = %v; want one winner", won.Load(), racers, err)
			}
		}
	}},
}

// claim makes a claim of a body with that hash.
func (b *bench) claim(hash string) schema.KeyRecord {
	return schema.KeyRecord{
		BodyHash: hash, Entry: b.id(b.partition(), 0),
		Text: []byte(`{"a": "ü"}`), Payload: []byte("\x00\xff"), Expires: b.later(),
	}
}

// claims claims key and checks which claim is in force.
func (b *bench) claims(tenant, key string, claim, want schema.KeyRecord, wantMine bool) {
	b.Helper()
	got, mine, err := b.store.RegisterKey(b.ctx, tenant, key, claim, b.later())
	b.must(err, "RegisterKey")
	same := got.BodyHash == want.BodyHash && got.Entry == want.Entry && string(got.Text) == string(want.Text) &&
		string(got.Payload) == string(want.Payload) && got.Expires.Equal(want.Expires)
	if !same || mine != wantMine {
		b.Errorf("ClaimKey(%s, %s) = %+v, %v; want %+v, %v", tenant, key, got, mine, want, wantMine)
	}
}

var keyRules = []rule{
	{"the first claim stands, and knows itself again", func(b *bench) {
		first, second := b.claim("one"), b.claim("one")
		b.claims(b.tenant, "key", first, first, true)
		b.claims(b.tenant, "key", second, first, false)
		b.claims(b.tenant, "key", b.claim("two"), first, false)
		b.claims(b.tenant, "key", first, first, true) // repeated after ErrUnknown, it must not be taken for another's
	}},
	{"keys belong to tenants", func(b *bench) {
		for _, of := range [][2]string{{b.tenant, "key"}, {b.tenant, "key2"}, {b.tenant + "k", "ey"}, {b.tenant + "2", "key"}} {
			c := b.claim("hash")
			b.claims(of[0], of[1], c, c, true)
		}
	}},
	{"an expired claim is free", func(b *bench) {
		old, next := b.claim("old"), b.claim("next")
		_, _, err := b.store.RegisterKey(b.ctx, b.tenant, "key", old, b.soon())
		b.must(err, "RegisterKey")
		b.eventually("the claim expires", func() bool {
			got, mine, err := b.store.RegisterKey(b.ctx, b.tenant, "key", next, b.later())
			b.must(err, "RegisterKey")
			return mine && got.Entry == next.Entry
		})
		b.claims(b.tenant, "key", old, next, false)
	}},
	{"of many at once one wins", func(b *bench) {
		for round := range raceRounds {
			key := fmt.Sprint("key ", round)
			claims := make([]schema.KeyRecord, racers)
			for i := range claims {
				claims[i] = b.claim(fmt.Sprint(i))
			}
			got := make([]schema.KeyRecord, len(claims))
			var won atomic.Int32
			race(len(claims), func(i int) {
				inForce, mine, err := b.store.RegisterKey(b.ctx, b.tenant, key, claims[i], b.later())
				if err != nil {
					b.Errorf("ClaimKey %d = %v", i, err)
				}
				if mine {
					won.Add(1)
				}
				got[i] = inForce
			})
			for i := range got {
				if got[i].Entry != got[0].Entry {
					b.Errorf("claim in force for %d = %s, for 0 %s", i, got[i].Entry, got[0].Entry)
				}
			}
			if won.Load() != 1 {
				b.Errorf("%d of %d claims won, want 1", won.Load(), len(claims))
			}
		}
	}},
}

// cursorShard draws a shard that a rule may raise the cursor of: half of them for each rule, so that rules that
// run at once do not meet.
func (b *bench) cursorShard(half int) schema.Shard {
	return schema.Shard(schema.MaxShards - 1 - 2*b.rnd.IntN(500) - half) // #nosec G115 -- small
}

// nextEpoch begins an epoch of a shard, above whatever is there.
func (b *bench) nextEpoch(shard schema.Shard) schema.Cursor {
	b.Helper()
	c, err := b.store.Cursor(b.ctx, shard)
	if err != nil && !errors.Is(err, schema.ErrNotFound) {
		b.must(err, "Cursor")
	}
	c = schema.Cursor{Shard: shard, Epoch: c.Epoch + 1, Dispatched: 1_000, Settled: 900}
	b.must(b.store.AdvanceCursor(b.ctx, c), "AdvanceCursor")
	return c
}

func (b *bench) wantCursor(want schema.Cursor) {
	b.Helper()
	got, err := b.store.Cursor(b.ctx, want.Shard)
	if err != nil || got != want {
		b.Errorf("Cursor = %+v, %v; want %+v", got, err, want)
	}
	all, err := b.store.Cursors(b.ctx)
	b.must(err, "Cursors")
	if !slices.IsSortedFunc(all, func(x, y schema.Cursor) int { return int(x.Shard) - int(y.Shard) }) {
		b.Error("Cursors are not in the order of shards")
	}
	for i := range all {
		if i > 0 && all[i].Shard == all[i-1].Shard {
			b.Errorf("Cursors have shard %d twice", all[i].Shard)
		}
	}
	if !slices.Contains(all, want) {
		b.Errorf("Cursors lack %+v", want)
	}
}

var cursorRules = []rule{
	{"both numbers only grow within an epoch", func(b *bench) {
		c := b.nextEpoch(b.cursorShard(0))
		b.wantCursor(c)
		for _, step := range []struct {
			name                string
			dispatched, settled schema.Bucket
			want, wantSettled   schema.Bucket
		}{
			{"raise both", 1_010, 905, 1_010, 905},
			{"repeat", 1_010, 905, 1_010, 905},
			{"lower both", 1_000, 900, 1_010, 905},
			{"raise one, lower the other", 1_020, 1, 1_020, 905},
			{"the reverse", 1, 950, 1_020, 950},
			{"by a lot", 30_000_000, 29_000_000, 30_000_000, 29_000_000},
		} {
			raise := c
			raise.Dispatched, raise.Settled = step.dispatched, step.settled
			b.must(b.store.AdvanceCursor(b.ctx, raise), "AdvanceCursor, %s", step.name)
			raise.Dispatched, raise.Settled = step.want, step.wantSettled
			b.Log(step.name)
			b.wantCursor(raise)
		}
	}},
	{"the newest epoch counts, also where it is behind", func(b *bench) {
		c := b.nextEpoch(b.cursorShard(1))
		next := c
		next.Epoch, next.Dispatched, next.Settled = c.Epoch+1, 500, 400
		b.must(b.store.AdvanceCursor(b.ctx, next), "AdvanceCursor")
		b.wantCursor(next)
		c.Dispatched = 2_000
		b.must(b.store.AdvanceCursor(b.ctx, c), "AdvanceCursor of the epoch before")
		b.wantCursor(next)
	}},
	{"every shard below the settings' has one", func(b *bench) {
		settings, err := b.store.Settings(b.ctx)
		b.must(err, "Settings")
		all, err := b.store.Cursors(b.ctx)
		b.must(err, "Cursors")
		have := map[schema.Shard]bool{}
		for _, c := range all {
			have[c.Shard] = true
		}
		for shard := range settings.Shards {
			if !have[schema.Shard(shard)] { // #nosec G115 -- small
				b.Errorf("shard %d of %d has no cursor", shard, settings.Shards)
			}
		}
	}},
}

var settingsRules = []rule{
	{"a store that is ready has them", func(b *bench) {
		got, err := b.store.Settings(b.ctx)
		if err != nil || got.Shards < 1 || got.Shards > schema.MaxShards || got.Retention <= 0 {
			b.Errorf("Settings = %+v, %v; want shards and a retention", got, err)
		}
	}},
}

// task makes a task as of that many ms after the beginning of the test.
func (b *bench) task(name string, age int, subject string) schema.Task {
	return schema.Task{
		Tenant: b.tenant, Name: name, Description: "ü",
		Work:          schema.Work{NATS: &schema.NATSTarget{Subject: subject}, Timeout: schema.Duration(time.Minute)},
		PayloadSchema: []byte(`{"type":"object"}`), Rate: "1/s", MaxConcurrent: 3,
		CreatedAt: b.now, UpdatedAt: b.now.Add(time.Duration(age) * time.Millisecond),
	}
}

func (b *bench) wantTask(want schema.Task) {
	b.Helper()
	got, err := b.store.Task(b.ctx, want.Tenant, want.Name)
	b.must(err, "Task")
	if got.Tenant != want.Tenant || got.Name != want.Name || got.Work.NATS == nil || *got.Work.NATS != *want.Work.NATS ||
		got.Work.Timeout != want.Work.Timeout || string(got.PayloadSchema) != string(want.PayloadSchema) || got.Rate != want.Rate ||
		got.MaxConcurrent != want.MaxConcurrent || got.Description != want.Description ||
		!got.CreatedAt.Equal(want.CreatedAt) || !got.UpdatedAt.Equal(want.UpdatedAt) {
		b.Errorf("Task = %+v, want %+v", got, want)
	}
}

var taskRules = []rule{
	{"put, replaced, removed, put again", func(b *bench) {
		_, err := b.store.Task(b.ctx, b.tenant, "t")
		b.wantErr(err, schema.ErrNotFound, "Task before it was put")
		first, second, third := b.task("t", 0, "first"), b.task("t", 1, "second"), b.task("t", 3, "third")
		b.must(b.store.PutTask(b.ctx, first), "PutTask")
		b.wantTask(first)
		b.must(b.store.PutTask(b.ctx, second), "PutTask again")
		b.wantTask(second)
		b.must(b.store.PutTask(b.ctx, first), "PutTask, a late repetition of the first")
		b.wantTask(second)
		for range 2 {
			b.must(b.store.DeleteTask(b.ctx, b.tenant, "t", b.now.Add(2*time.Millisecond)), "DeleteTask")
			_, err = b.store.Task(b.ctx, b.tenant, "t")
			b.wantErr(err, schema.ErrNotFound, "Task after it was deleted")
		}
		b.must(b.store.PutTask(b.ctx, third), "PutTask after DeleteTask")
		b.wantTask(third)
	}},
	{"one that is not there is removed already", func(b *bench) {
		b.must(b.store.DeleteTask(b.ctx, b.tenant, "t", b.now), "DeleteTask")
	}},
	{"they are listed by name, page by page, of one tenant", func(b *bench) {
		names := []string{"a", "a-b", "a.b", "aa", "b", "b0", "c"}
		var tasks []schema.Task
		for _, name := range names {
			tasks = append(tasks, b.task(name, 0, "s"))
		}
		other := b.task("a", 0, "s")
		other.Tenant += "0"
		for _, t := range append(slices.Clone(tasks), other, b.task("gone", 0, "s")) {
			b.must(b.store.PutTask(b.ctx, t), "PutTask")
		}
		b.must(b.store.DeleteTask(b.ctx, b.tenant, "gone", b.now.Add(time.Millisecond)), "DeleteTask")
		slices.SortFunc(tasks, byName)
		for _, limit := range []int{1, 3, 7, 8} {
			var got []string
			for after := ""; ; after = got[len(got)-1] {
				page, err := b.store.Tasks(b.ctx, b.tenant, after, limit)
				b.must(err, "Tasks")
				for _, t := range page {
					got = append(got, t.Name)
				}
				if len(page) < limit || len(got) > len(names) {
					break
				}
			}
			if !slices.Equal(got, names) {
				b.Errorf("Tasks, limit %d = %q, want %q", limit, got, names)
			}
		}
	}},
}

var callRules = []rule{
	{"a store knows the time", func(b *bench) {
		first, err := b.store.Time(b.ctx)
		b.must(err, "Time")
		second, err := b.store.Time(b.ctx)
		b.must(err, "Time")
		if second.Before(first) {
			b.Errorf("Time = %v, after %v", second, first)
		}
	}},
	{"the clock of each host that serves the store can be asked", func(b *bench) {
		clocks := b.store.Clocks()
		if len(clocks) == 0 {
			b.Error("Clocks = none, want one for each host")
		}
		for _, c := range clocks {
			first, err := c.Time(b.ctx)
			b.must(err, "Time of one host")
			second, err := c.Time(b.ctx)
			b.must(err, "Time of one host")
			if second.Before(first) {
				b.Errorf("Time of %q = %v, after %v", c.Host, second, first)
			}
			ctx, cancel := context.WithCancel(b.ctx)
			cancel()
			if at, err := c.Time(ctx); err == nil {
				b.Errorf("Time of %q with a context that has ended = %v, want an error", c.Host, at)
			}
		}
	}},
	{"writing nothing does nothing", func(b *bench) {
		b.must(b.store.PutEntries(b.ctx, nil), "PutEntries of none")
		b.must(b.store.PutAttempts(b.ctx, nil), "PutAttempts of none")
	}},
	{"a call whose context has ended answers that it did not answer", func(b *bench) {
		p := b.partition()
		run := b.run(p)
		ctx, cancel := context.WithCancel(b.ctx)
		cancel()
		open := func(err error, what string) {
			b.Helper()
			if !errors.Is(err, schema.ErrUnavailable) && !errors.Is(err, schema.ErrUnknown) {
				b.Errorf("%s = %v, want %v or %v", what, err, schema.ErrUnavailable, schema.ErrUnknown)
			}
		}
		_, err := b.store.Entries(ctx, p, schema.IDRange{}, 1)
		open(err, "Entries")
		_, err = b.store.EntryIDs(ctx, p, schema.IDRange{}, 1)
		open(err, "EntryIDs")
		_, err = b.store.EntriesByID(ctx, p, []schema.EntryID{run})
		open(err, "EntriesByID")
		_, err = b.store.Payload(ctx, run)
		open(err, "Payload")
		_, err = b.store.Marks(ctx, run)
		open(err, "Marks")
		_, err = b.store.CancelRun(ctx, run, schema.EntryID{}, b.cancel("me"), b.later())
		open(err, "CancelRun")
		_, err = b.store.Attempts(ctx, p, []schema.RunID{run})
		open(err, "Attempts")
		_, err = b.store.Session(ctx, b.executor())
		open(err, "Session")
		_, err = b.store.Task(ctx, b.tenant, "t")
		open(err, "Task")
		_, err = b.store.Cursors(ctx)
		open(err, "Cursors")
		_, _, err = b.store.RegisterKey(ctx, b.tenant, "key", b.claim("hash"), b.later())
		open(err, "RegisterKey")
		open(b.store.PutEntries(ctx, []schema.Entry{b.entry(b.id(p, 1), "")}), "PutEntries")
		open(b.store.PutAttempts(ctx, []schema.Attempt{b.attempt(run, 1, 1, schema.Failed)}), "PutAttempts")
		open(b.store.AdvanceCursor(ctx, schema.Cursor{Shard: schema.MaxShards - 1, Epoch: -1}), "AdvanceCursor")
	}},
}
