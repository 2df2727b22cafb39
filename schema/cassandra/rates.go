package cassandra

import (
	"context"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
)

// The statements about rates; the words are those of statements.go.
const (
	// One row of rated_tasks. Idempotent.
	insertRated statement = `INSERT INTO rated_tasks (list, tenant, task) VALUES ('*', ?, ?) USING TIMESTAMP ?`
	// One row of rated_tasks. Idempotent.
	deleteRated statement = `DELETE FROM rated_tasks USING TIMESTAMP ? WHERE list = '*' AND tenant = ? AND task = ?`
	// A slice of the only partition of rated_tasks, by tenant and task. Idempotent.
	selectRated statement = `SELECT tenant, task FROM rated_tasks WHERE list = '*' AND (tenant, task) > (?, ?)`
)

// PutRated implements schema.RateStore: of one timestamp the deletion wins.
func (s *Store) PutRated(ctx context.Context, task schema.TaskName, rated bool, at time.Time) error {
	var err error
	if rated {
		err = s.write(ctx, insertRated, task.Tenant, task.Name, at.UnixMicro())
	} else {
		err = s.write(ctx, deleteRated, at.UnixMicro(), task.Tenant, task.Name)
	}
	if err != nil {
		return fmt.Errorf("note the rate of task %s of %s: %w", task.Name, task.Tenant, err)
	}
	return nil
}

// RatedTasks implements schema.RateStore.
func (s *Store) RatedTasks(ctx context.Context, after schema.TaskName, limit int) ([]schema.TaskName, error) {
	tasks, err := readPages(ctx, s, selectRated, &s.smallRows, limit, []any{after.Tenant, after.Name},
		func(iter *gocql.Iter) (t schema.TaskName, size int, keep, more bool) {
			if !iter.Scan(&t.Tenant, &t.Name) {
				return t, 0, false, false
			}
			return t, len(t.Tenant) + len(t.Name) + 64, true, true
		})
	if err != nil {
		return nil, fmt.Errorf("read which tasks have a rate: %w", err)
	}
	return tasks, nil
}
