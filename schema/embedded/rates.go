package embedded

import (
	"context"
	"fmt"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

// tableRated holds which tasks may have a rate. It is stored: never rename it.
const tableRated table = 'R' // tenant, 0, name

// ratedKey sorts by tenant, then by name: neither holds a zero byte.
func ratedKey(task schema.TaskName) []byte {
	key := append([]byte{byte(tableRated)}, task.Tenant...)
	return append(append(key, 0), task.Name...)
}

// PutRated implements schema.RateStore.
func (s *Store) PutRated(ctx context.Context, task schema.TaskName, rated bool, at time.Time) error {
	c := cell{column: colValue, timestamp: at.UnixMicro()}
	if !rated {
		c.column = colDeleted
	}
	if err := s.mergeCell(ctx, ratedKey(task), c); err != nil {
		return fmt.Errorf("note the rate of task %s of %s: %w", task.Name, task.Tenant, err)
	}
	return nil
}

// RatedTasks implements schema.RateStore.
func (s *Store) RatedTasks(ctx context.Context, after schema.TaskName, limit int) ([]schema.TaskName, error) {
	var tasks []schema.TaskName
	prefix := []byte{byte(tableRated)}
	lower := prefix
	if after != (schema.TaskName{}) {
		lower = append(ratedKey(after), 0)
	}
	err := s.standing(ctx, len(prefix), lower, prefixEnd(prefix), limit, func(rest []byte, _ *cell) error {
		tenant, name, ok := strings.Cut(string(rest), "\x00")
		if !ok {
			return errCorrupt
		}
		tasks = append(tasks, schema.TaskName{Tenant: tenant, Name: name})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read which tasks have a rate: %w", err)
	}
	return tasks, nil
}
