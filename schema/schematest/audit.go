package schematest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

// auditEntry makes the entry number n, at that many ms after the beginning of day.
func (b *bench) auditEntry(day, ms int, n uint16) schema.AuditEntry {
	at := time.Unix(int64(day)*24*3600, 0).Add(time.Duration(ms) * time.Millisecond).UTC()
	return schema.AuditEntry{
		ID: schema.MakeAuditID(at, n, b.rnd.Uint64()), Tenant: b.tenant, At: at, Actor: "me", Action: "update", Object: fmt.Sprint("task/", n),
		Before: []byte(`{"a":1}`), After: []byte(`{"a":"ü"}`), Note: "note",
	}
}

func sameEntry(a, b schema.AuditEntry) bool {
	return a.ID == b.ID && a.Tenant == b.Tenant && a.At.Equal(b.At) && a.Actor == b.Actor && a.Action == b.Action && a.Object == b.Object &&
		string(a.Before) == string(b.Before) && string(a.After) == string(b.After) && a.Note == b.Note
}

var auditRules = []rule{
	{"entries of a day come newest first, page by page, of one tenant", func(b *bench) {
		day := schema.AuditDay(b.now)
		var all []schema.AuditEntry
		for i := range 7 { // two of one ms each
			all = append(all, b.auditEntry(day, 1000+i/2, uint16(i))) // #nosec G115 -- small
		}
		bare := b.auditEntry(day, 5000, 0)
		bare.Before, bare.After, bare.Note = nil, nil, ""
		all = append(all, bare)
		other := b.auditEntry(day, 1, 1)
		other.Tenant += "0"
		b.must(b.store.PutAudit(b.ctx, append(slices.Clone(all), other, b.auditEntry(day-1, 1, 1), b.auditEntry(day+1, 0, 1))), "PutAudit")
		b.must(b.store.PutAudit(b.ctx, all[:2]), "PutAudit again")
		slices.Reverse(all)
		for _, limit := range []int{1, 3, 8, 100} {
			got := pages(b, "Audit", limit, func(last *schema.AuditEntry) ([]schema.AuditEntry, error) {
				return b.store.Audit(b.ctx, b.tenant, day, or(last, func(e *schema.AuditEntry) schema.AuditID { return e.ID }), limit)
			})
			if !slices.EqualFunc(got, all, sameEntry) {
				b.Errorf("Audit, limit %d = %+v\nwant %+v", limit, got, all)
			}
		}
	}},
}

var statsRules = []rule{
	{"an hour is read whole, and a minute of a node is replaced", func(b *bench) {
		hour := b.now.Truncate(time.Hour)
		minute := func(m int, node string, due int64) schema.MinuteStats {
			return schema.MinuteStats{
				Written: b.now.UnixMicro() - due,
				Minute:  hour.Add(time.Duration(m) * time.Minute), Node: b.tenant + node, Due: due, Started: 2, Succeeded: 3, Failed: 4,
				Missed: 5, Retried: 6, Lateness: []schema.LatenessClass{{UpTo: schema.Duration(time.Millisecond), Count: 2}},
				Fixed: schema.LatenessCounts{0: 1, 5: 1},
			}
		}
		want := []schema.MinuteStats{minute(0, "a", 1), minute(59, "a", 1), minute(59, "b", 2)}
		for _, m := range []schema.MinuteStats{minute(59, "b", 7), want[2], want[1], want[0], minute(60, "a", 1), minute(-1, "a", 1)} {
			b.must(b.store.PutStats(b.ctx, m), "PutStats")
		}
		all, err := b.store.Stats(b.ctx, schema.StatsHour(hour))
		b.must(err, "Stats")
		var got []schema.MinuteStats
		for _, m := range all { // others count too
			if len(m.Node) > len(b.tenant) && m.Node[:len(b.tenant)] == b.tenant {
				got = append(got, m)
			}
		}
		for i := range want {
			want[i].Written = 0
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			b.Errorf("Stats = %+v\nwant %+v", got, want)
		}
	}},
	{"counts by name of an hour are read from a minute on, of one kind, and a minute of a node is replaced", func(b *bench) {
		hour := b.now.Truncate(time.Hour)
		minute := func(m int, node string, due int64) schema.NameStats {
			return b.nameStats(hour.Add(time.Duration(m)*time.Minute), node, due)
		}
		want := []schema.NameStats{minute(0, "a", 1), minute(30, "a", 3), minute(30, "b", 4), minute(59, "a", 2)}
		older := want[3]
		older.Written, older.Names = older.Written-1, nil
		other := minute(30, "a", 9)
		other.Kind = schema.ByJob
		for _, n := range []schema.NameStats{want[3], older, want[2], want[1], want[0], minute(60, "a", 1), minute(-1, "a", 1), other} {
			b.must(b.store.PutNameStats(b.ctx, n), "PutNameStats")
		}
		for i := range want {
			want[i].Written = 0
		}
		for from, first := range map[time.Duration]int{-time.Hour: 0, 0: 0, time.Minute: 1, 30 * time.Minute: 1, 31 * time.Minute: 3} {
			all, err := b.store.NameStats(b.ctx, schema.ByTask, schema.StatsHour(hour), hour.Add(from))
			b.must(err, "NameStats")
			var got []schema.NameStats
			for _, n := range all { // others count too
				if strings.HasPrefix(n.Node, b.tenant) {
					got = append(got, n)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want[first:]) {
				b.Errorf("NameStats from %v on = %+v\nwant %+v", from, got, want[first:])
			}
		}
		counts, err := b.store.Stats(b.ctx, schema.StatsHour(hour))
		b.must(err, "Stats")
		for _, m := range counts {
			if strings.HasPrefix(m.Node, b.tenant) {
				b.Errorf("Stats = %+v: counts by name are no counts of all runs", m)
			}
		}
	}},
	{"counts by name that are too large are refused", func(b *bench) {
		n := b.nameStats(b.now.Truncate(time.Minute), "a", 1)
		n.Names[0].Name = strings.Repeat("x", schema.MaxNameStats)
		b.wantErr(b.store.PutNameStats(b.ctx, n), schema.ErrTooLarge, "PutNameStats")
	}},
}

// nameStats makes what a node counted in a minute by task.
func (b *bench) nameStats(minute time.Time, node string, due int64) schema.NameStats {
	counts := schema.Counts{
		Due: due, Started: 2, Succeeded: 3, Failed: 4, Missed: 5, Retried: 6,
		Lateness: schema.LatenessCounts{0: 1, 16: 1}, MaxLateness: schema.Duration(time.Hour),
	}
	return schema.NameStats{
		Minute: minute, Node: b.tenant + node, Kind: schema.ByTask, Others: counts, Written: b.now.UnixMicro(),
		Names: []schema.NameCounts{
			{Tenant: b.tenant, Name: "t", Counts: counts},
			{Tenant: b.tenant, Job: schema.MakeJobID(minute, 1, 7), Counts: schema.Counts{Failed: 1}},
		},
	}
}

// The audit log and counts of a store that is wrapped (around.go).

func (a *around) PutAudit(ctx context.Context, entries []schema.AuditEntry) error {
	return putBatch(ctx, a, "PutAudit", entries, a.inner.PutAudit)
}

func (a *around) Audit(ctx context.Context, tenant string, day int, before schema.AuditID, limit int) ([]schema.AuditEntry, error) {
	return read(ctx, a, "Audit", limit, func(ctx context.Context) ([]schema.AuditEntry, error) {
		return a.inner.Audit(ctx, tenant, day, before, limit)
	})
}

func (a *around) PutStats(ctx context.Context, m schema.MinuteStats) error {
	return put(ctx, a, "PutStats", func(ctx context.Context) error { return a.inner.PutStats(ctx, m) })
}

func (a *around) Stats(ctx context.Context, hour int) ([]schema.MinuteStats, error) {
	return read(ctx, a, "Stats", 1, func(ctx context.Context) ([]schema.MinuteStats, error) { return a.inner.Stats(ctx, hour) })
}

func (a *around) PutNameStats(ctx context.Context, s schema.NameStats) error {
	return put(ctx, a, "PutNameStats", func(ctx context.Context) error { return a.inner.PutNameStats(ctx, s) })
}

func (a *around) NameStats(ctx context.Context, kind schema.StatsKind, hour int, from time.Time) ([]schema.NameStats, error) {
	return read(ctx, a, "NameStats", 1, func(ctx context.Context) ([]schema.NameStats, error) {
		return a.inner.NameStats(ctx, kind, hour, from)
	})
}
