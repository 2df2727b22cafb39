package cassandra

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
)

// The statements about operations; the words are those of statements.go.
const (
	// One row of operations. Idempotent.
	insertOperation statement = `INSERT INTO operations (tenant, operation_id, spec, progress) VALUES (?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	// One row of operations. Idempotent.
	cancelOperation statement = `INSERT INTO operations (tenant, operation_id, cancelled) VALUES (?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	// One row of operations. Idempotent. One that was only marked has no spec.
	selectOperation statement = `SELECT spec, progress, cancelled FROM operations WHERE tenant = ? AND operation_id = ?`
	// One row of the partition of what is open. Idempotent.
	insertOpen statement = `INSERT INTO operations (tenant, operation_id, spec) VALUES ('*', ?, ?) USING TIMESTAMP ? AND TTL ?`
	// One row of the partition of what is open. Idempotent.
	deleteOpen statement = `DELETE FROM operations USING TIMESTAMP ? WHERE tenant = '*' AND operation_id = ?`
	// The partition of what is open (no tenant has that name), oldest first. Idempotent.
	selectOpen statement = `SELECT operation_id, spec FROM operations WHERE tenant = '*' ORDER BY operation_id ASC`
)

// PutOperation implements schema.OperationStore. What is open is noted before the operation is there, and is noted no more after it is done:
// what is cut short in between is an operation too many in the list, and never one too few.
func (s *Store) PutOperation(ctx context.Context, op schema.Operation) error {
	if err := s.putOperation(ctx, &op); err != nil {
		return fmt.Errorf("put operation %s: %w", op.ID, err)
	}
	return nil
}

func (s *Store) putOperation(ctx context.Context, op *schema.Operation) error {
	spec, err := json.Marshal(op.Spec)
	if err != nil {
		return err
	}
	progress, err := json.Marshal(op.Progress)
	if err != nil {
		return err
	}
	if len(spec)+len(progress) > maxRowBytes {
		return schema.ErrTooLarge
	}
	id, written, ttl := gocql.UUID(op.ID), op.Progress.Updated.UnixMicro(), s.ttl(op.Progress.Updated.Add(schema.OperationRetention))
	if !op.Progress.Done {
		if err := s.write(ctx, insertOpen, id, op.Tenant, written, ttl); err != nil {
			return err
		}
	}
	if err := s.write(ctx, insertOperation, op.Tenant, id, spec, progress, written, ttl); err != nil || !op.Progress.Done {
		return err
	}
	return s.write(ctx, deleteOpen, written, id)
}

// CancelOperation implements schema.OperationStore.
func (s *Store) CancelOperation(ctx context.Context, tenant string, id schema.OperationID, mark schema.Cancel) error {
	text, err := json.Marshal(mark)
	if err == nil {
		err = s.write(ctx, cancelOperation, tenant, gocql.UUID(id), text, mark.At.UnixMicro(), s.ttl(mark.At.Add(markRetention)))
	}
	if err != nil {
		return fmt.Errorf("cancel operation %s: %w", id, err)
	}
	return nil
}

// markRetention is how long the mark of a cancelled operation stays: longer than what is written of the operation after it.
const markRetention = schema.OperationRetention + 24*time.Hour

// Operation implements schema.OperationStore.
func (s *Store) Operation(ctx context.Context, tenant string, id schema.OperationID) (schema.Operation, error) {
	op := schema.Operation{ID: id, Tenant: tenant}
	var spec, progress, cancelled []byte
	err := s.one(ctx, selectOperation, []any{tenant, gocql.UUID(id)}, &spec, &progress, &cancelled)
	if err == nil && spec == nil {
		err = schema.ErrNotFound
	}
	if err == nil {
		err = s.damage.Found("operations", id.String(), loadOperation(&op, spec, progress, cancelled))
	}
	if err != nil {
		return schema.Operation{}, fmt.Errorf("read operation %s: %w", id, err)
	}
	return op, nil
}

// loadOperation fills in op. A cancel mark that cannot be understood is one.
func loadOperation(op *schema.Operation, spec, progress, cancelled []byte) (err error) {
	if op.Spec, err = schema.Decode[schema.OperationSpec](spec, "operation"); err == nil {
		op.Progress, err = schema.Decode[schema.Progress](progress, "progress")
	}
	if cancelled != nil {
		mark, _ := schema.Decode[schema.Cancel](cancelled, "cancel mark")
		op.Cancelled = &mark
	}
	return err
}

// OpenOperations implements schema.OperationStore.
func (s *Store) OpenOperations(ctx context.Context, limit int) ([]schema.OpenOperation, error) {
	open, err := readPages(ctx, s, selectOpen, &s.smallRows, limit, nil,
		func(iter *gocql.Iter) (o schema.OpenOperation, size int, keep, more bool) {
			var id gocql.UUID
			if !iter.Scan(&id, &o.Tenant) {
				return o, 0, false, false
			}
			o.ID = schema.OperationID(id)
			return o, len(o.Tenant) + 64, true, true
		})
	if err != nil {
		return nil, fmt.Errorf("read open operations: %w", err)
	}
	return open, nil
}
