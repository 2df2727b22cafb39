package cassandra

import (
	"testing"
	"time"

	"github.com/gocql/gocql"

	"carillon.dev/carillon/schema"
)

// TestTimeToLiveOfARun: rows of a run of a tenant with a retention of a day have that TTL in
// Cassandra, also where a row of the same id that lives for longer was written before or after,
// under an earlier timestamp (bucketer.Writer.StampOf).
func TestTimeToLiveOfARun(t *testing.T) {
	const day = 24 * time.Hour
	s := openTest(t)
	for name, shortLast := range map[string]bool{"the shorter one last": true, "the longer one last": false} {
		t.Run(name, func(t *testing.T) {
			long := entryAt(t, somewhere(), 3, unique("retention"), []byte("p"))
			long.Expires = time.Now().Add(7 * day)
			spec := long.Spec
			spec.Accepted, spec.Retention = spec.Accepted+7, 1
			short, err := schema.NewEntry(long.ID, spec, []byte("p"), time.Now().Add(day))
			if err != nil {
				t.Fatal(err)
			}
			first, last := short, long
			if shortLast {
				first, last = long, short
			}
			put(t, s, first)
			put(t, s, last)
			a := schema.Attempt{
				Run: long.ID, Number: 1, Fence: 1, Written: time.Now().UnixMicro(), Expires: time.Now().Add(day + time.Hour),
				Record: &schema.Record{Entry: long.ID, Outcome: schema.Succeeded, Finished: time.Now().UTC()},
			}
			if err := s.PutAttempts(t.Context(), []schema.Attempt{a}); err != nil {
				t.Fatal(err)
			}
			p, id := long.ID.Partition(), gocql.UUID(long.ID)
			for query, want := range map[string]time.Duration{
				`SELECT ttl(spec) FROM runs WHERE bucket = ? AND shard = ? AND entry_id = ?`:     day,
				`SELECT ttl(payload) FROM runs WHERE bucket = ? AND shard = ? AND entry_id = ?`:  day,
				`SELECT ttl(record) FROM attempts WHERE bucket = ? AND shard = ? AND run_id = ?`: day + time.Hour,
			} {
				var ttl int
				if err := s.session.Query(query, int64(p.Bucket), int(p.Shard), id).Consistency(gocql.LocalQuorum).Scan(&ttl); err != nil {
					t.Fatalf("%s: %v", query, err)
				}
				if got := time.Duration(ttl) * time.Second; got > want+time.Second || got < want-time.Hour/2 {
					t.Errorf("%s: got %v, want %v", query, got, want)
				}
			}
		})
	}
}
