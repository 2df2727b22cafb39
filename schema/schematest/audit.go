package schematest

import (
	"fmt"
	"slices"
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
}
