package schematest

import (
	"errors"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// holds checks who has a name, by reading it and by registering it for another job.
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
		b.Errorf("RegisterName(%s) by another = %s since %v, mine %v, %v; want %s since %v", name, got, at, mine, err, want, since)
	}
}

// registers registers a name that must be free or the job's.
func (b *bench) registers(tenant, name string, id schema.JobID, at, since time.Time) {
	b.Helper()
	holder, got, mine, err := b.store.RegisterName(b.ctx, tenant, name, id, at)
	if err != nil || !mine || holder != id || !got.Equal(since) {
		b.Errorf("RegisterName(%s, %s) = %s since %v, mine %v, %v; want it since %v", tenant, name, holder, got, mine, err, since)
	}
}

var nameRules = []rule{
	{"the first job to claim a name has it", func(b *bench) {
		id := b.jobID(b.jobPlace(), 0)
		b.holds(b.tenant, "n", schema.JobID{}, time.Time{})
		b.registers(b.tenant, "n", id, b.now, b.now)
		b.holds(b.tenant, "n", id, b.now)
		// repeated after ErrUnknown, it must not be taken for another's
		b.registers(b.tenant, "n", id, b.now.Add(time.Minute), b.now)
	}},
	{"names belong to tenants", func(b *bench) {
		for i, of := range [][2]string{{b.tenant, "n"}, {b.tenant, "n2"}, {b.tenant + "n", ""}, {b.tenant + "2", "n"}} {
			id, at := b.jobID(b.jobPlace(), i), b.now.Add(time.Duration(i)*time.Millisecond)
			b.registers(of[0], of[1], id, at, at)
			b.holds(of[0], of[1], id, at)
		}
	}},
	{"a name is passed on by who has it", func(b *bench) {
		p := b.jobPlace()
		first, second, third := b.jobID(p, 0), b.jobID(p, 1), b.jobID(p, 2)
		var none schema.JobID
		at := func(s int) time.Time { return b.now.Add(time.Duration(s) * time.Second) }
		b.wantErr(b.store.TransferName(b.ctx, b.tenant, "n", first, second, at(0)), schema.ErrConflict, "TransferName of a free name")
		b.registers(b.tenant, "n", first, at(0), at(0))
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
				b.Errorf("%s: TransferName = %v, want %v", step.name, err, step.want)
			}
			b.Log(step.name)
			b.holds(b.tenant, "n", step.holder, at(step.since))
		}
		b.registers(b.tenant, "n", third, at(9), at(9))
		b.holds(b.tenant, "n", third, at(9))
	}},
}

// listed reads all jobs of a tenant in pages of limit.
func (b *bench) listed(tenant string, limit int) []schema.JobID {
	b.Helper()
	return pages(b, "JobIDs", limit, func(last *schema.JobID) ([]schema.JobID, error) {
		return b.store.JobIDs(b.ctx, tenant, or(last, func(id *schema.JobID) schema.JobID { return *id }), limit)
	})
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
		b.wantJobIDs(b.listed(b.tenant+"1", 10), nil, "JobIDs of nobody")
	}},
	{"many are listed at once as each would be alone", func(b *bench) {
		p := jobPlace{1, b.now}
		want := make([]schema.JobID, 30)
		for i := range want {
			want[len(want)-1-i] = b.jobID(p, i)
		}
		leaves := b.jobID(p, len(want))
		b.must(b.store.ListJob(b.ctx, b.tenant, leaves, b.soon()), "ListJob")
		for range 2 {
			b.must(b.store.ListJobs(b.ctx, b.tenant, append([]schema.JobID{leaves}, want...)), "ListJobs of %d", len(want)+1)
		}
		b.eventually("the job leaves the list", func() bool { return !slices.Contains(b.listed(b.tenant, 100), leaves) })
		b.wantJobIDs(b.listed(b.tenant, 100), want, "JobIDs")
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

// claim makes a claim of a body with that hash.
func (b *bench) record(hash string) schema.KeyRecord {
	return schema.KeyRecord{
		BodyHash: hash, Entry: b.id(b.partition(), 0),
		Text: []byte(`{"a": "ü"}`), Payload: []byte("\x00\xff"), Expires: b.later(),
	}
}

// claims claims key and checks which claim is in force.
func (b *bench) keeps(tenant, key string, claim, want schema.KeyRecord, wantMine bool) {
	b.Helper()
	got, mine, err := b.store.RegisterKey(b.ctx, tenant, key, claim, b.later())
	b.must(err, "RegisterKey")
	if !sameRecord(got, want) || mine != wantMine {
		b.Errorf("RegisterKey(%s, %s) = %+v, %v; want %+v, %v", tenant, key, got, mine, want, wantMine)
	}
	if got, err := b.store.RegisteredKey(b.ctx, tenant, key); err != nil || !sameRecord(got, want) {
		b.Errorf("RegisteredKey(%s, %s) = %+v, %v; want %+v", tenant, key, got, err, want)
	}
}

func sameRecord(a, b schema.KeyRecord) bool {
	return a.BodyHash == b.BodyHash && a.Entry == b.Entry && string(a.Text) == string(b.Text) &&
		string(a.Payload) == string(b.Payload) && a.Expires.Equal(b.Expires)
}

var keyRules = []rule{
	{"the first claim stands, and knows itself again", func(b *bench) {
		first, second := b.record("one"), b.record("one")
		b.keeps(b.tenant, "key", first, first, true)
		b.keeps(b.tenant, "key", second, first, false)
		b.keeps(b.tenant, "key", b.record("two"), first, false)
		// repeated after ErrUnknown, it must not be taken for another's
		b.keeps(b.tenant, "key", first, first, true)
	}},
	{"keys belong to tenants", func(b *bench) {
		_, err := b.store.RegisteredKey(b.ctx, b.tenant, "key")
		b.wantErr(err, schema.ErrNotFound, "RegisteredKey before it was registered")
		for _, of := range [][2]string{{b.tenant, "key"}, {b.tenant, "key2"}, {b.tenant + "k", "ey"}, {b.tenant + "2", "key"}} {
			c := b.record("hash")
			b.keeps(of[0], of[1], c, c, true)
		}
		_, err = b.store.RegisteredKey(b.ctx, b.tenant, "key3")
		b.wantErr(err, schema.ErrNotFound, "RegisteredKey of another key")
	}},
	{"an expired claim is free", func(b *bench) {
		old, next := b.record("old"), b.record("next")
		_, _, err := b.store.RegisterKey(b.ctx, b.tenant, "key", old, b.soon())
		b.must(err, "RegisterKey")
		b.eventually("the claim expires", func() bool {
			if _, err := b.store.RegisteredKey(b.ctx, b.tenant, "key"); !errors.Is(err, schema.ErrNotFound) {
				b.must(err, "RegisteredKey")
				return false
			}
			got, mine, err := b.store.RegisterKey(b.ctx, b.tenant, "key", next, b.later())
			b.must(err, "RegisterKey")
			return mine && got.Entry == next.Entry
		})
		b.keeps(b.tenant, "key", old, next, false)
	}},
}
