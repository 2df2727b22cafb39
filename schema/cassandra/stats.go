package cassandra

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
)

// The statements about counts of minutes; the words are those of statements.go.
const (
	// One row of stats. Idempotent.
	insertStats statement = `INSERT INTO stats (hour, minute, node, counts) VALUES (?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	// One partition of stats: at most 60 rows a node. Idempotent.
	selectStats statement = `SELECT minute, node, counts FROM stats WHERE hour = ?`
)

// maxStatsRows bounds the rows read of one hour: 60 of each of about 1,600 nodes.
const maxStatsRows = 100_000

// PutStats implements schema.StatsStore.
func (s statsStore) PutStats(ctx context.Context, m schema.MinuteStats) error {
	text, err := json.Marshal(m)
	if err == nil {
		err = s.write(ctx, insertStats, schema.StatsHour(m.Minute), m.Minute, m.Node, text,
			m.Written, s.ttl(m.Minute.Add(schema.StatsRetention)))
	}
	if err != nil {
		return fmt.Errorf("put stats of %s: %w", m.Node, err)
	}
	return nil
}

// Stats implements schema.StatsStore.
func (s statsStore) Stats(ctx context.Context, hour int) ([]schema.MinuteStats, error) {
	all, err := readPages(ctx, s.core, selectStats, &s.smallRows, maxStatsRows, []any{hour},
		func(iter *gocql.Iter) (m schema.MinuteStats, size int, keep, more bool) {
			var minute time.Time
			var node string
			var text []byte
			if !iter.Scan(&minute, &node, &text) {
				return m, 0, false, false
			}
			m, err := schema.Decode[schema.MinuteStats](text, "counts")
			_ = s.damage.Found("stats", node, err)
			m.Minute, m.Node = minute.UTC(), node
			return m, len(node) + len(text) + 64, err == nil, true
		})
	if err != nil {
		return nil, fmt.Errorf("read stats: %w", err)
	}
	return all, nil
}
