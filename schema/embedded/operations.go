package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// The tables of operations. They are stored: never rename them.
const (
	tableOperations table = 'O' // tenant id
	tableOpen       table = 'W' // id; the tenant, or nothing if it is open no more
)

// operationRow is the value of an operation.
type operationRow struct {
	Spec     schema.OperationSpec `json:"spec"`
	Progress schema.Progress      `json:"progress"`
}

func operationKey(tenant string, id schema.OperationID) []byte {
	return appendName(nil, tableOperations, tenant, string(id[:]))
}

// PutOperation implements schema.OperationStore.
func (s *Store) PutOperation(ctx context.Context, op schema.Operation) error {
	if err := s.putOperation(ctx, &op); err != nil {
		return fmt.Errorf("put operation %s: %w", op.ID, err)
	}
	return nil
}

func (s *Store) putOperation(ctx context.Context, op *schema.Operation) error {
	data, err := json.Marshal(operationRow{op.Spec, op.Progress})
	if err != nil {
		return err
	}
	if len(data) > maxRow {
		return fmt.Errorf("%w: %d bytes", schema.ErrTooLarge, len(data))
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	row := cell{
		column: colValue, timestamp: op.Progress.Updated.UnixMicro(), expires: expiryOf(op.Progress.Updated.Add(schema.OperationRetention)), data: data,
	}
	open := row
	if open.data = []byte(op.Tenant); op.Progress.Done {
		open.data = nil
	}
	keys := [][]byte{operationKey(op.Tenant, op.ID), append([]byte{byte(tableOpen)}, op.ID[:]...)}
	defer s.lockAll(keys...)() // Expire must not remove what it did not see
	b := s.db.NewBatch()
	defer closeQuietly(b)
	for i, c := range []cell{row, open} {
		if err := b.Merge(keys[i], appendCell(nil, c), nil); err != nil {
			return err
		}
		if err := b.Set(rowExpiryKey(c.expires, keys[i]), nil, nil); err != nil {
			return err
		}
	}
	return s.commit(b)
}

// Operation implements schema.OperationStore.
func (s *Store) Operation(ctx context.Context, tenant string, id schema.OperationID) (schema.Operation, error) {
	op, err := s.operation(ctx, tenant, id)
	if err != nil {
		return schema.Operation{}, fmt.Errorf("read operation %s: %w", id, err)
	}
	return op, nil
}

func (s *Store) operation(ctx context.Context, tenant string, id schema.OperationID) (op schema.Operation, err error) {
	if err := s.enter(ctx); err != nil {
		return op, err
	}
	defer s.leave()
	cs, err := s.row(operationKey(tenant, id))
	if err != nil {
		return op, err
	}
	nowMS := s.nowMS()
	c := cs.at(colValue, nowMS)
	if c == nil {
		return op, schema.ErrNotFound
	}
	row, err := schema.Decode[operationRow](c.data, "operation")
	_ = s.damage.Found("operations", id.String(), err)
	op = schema.Operation{ID: id, Tenant: tenant, Spec: row.Spec, Progress: row.Progress}
	if c := cs.at(colStopped, nowMS); c != nil {
		mark, _ := schema.Decode[schema.Cancel](c.data, "cancel mark") // one that cannot be understood is one
		op.Cancelled = &mark
	}
	return op, err
}

// CancelOperation implements schema.OperationStore.
func (s *Store) CancelOperation(ctx context.Context, tenant string, id schema.OperationID, mark schema.Cancel) error {
	if err := s.cancelOperation(ctx, operationKey(tenant, id), mark); err != nil {
		return fmt.Errorf("cancel operation %s: %w", id, err)
	}
	return nil
}

// markRetention is how long the mark of a cancelled operation stays: longer than what is written of the operation after it.
const markRetention = schema.OperationRetention + 24*time.Hour

func (s *Store) cancelOperation(ctx context.Context, key []byte, mark schema.Cancel) error {
	data, err := json.Marshal(mark)
	if err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	c := cell{column: colStopped, timestamp: mark.At.UnixMicro(), expires: expiryOf(mark.At.Add(markRetention)), data: data}
	defer s.lock(key)() // Expire must not remove what it did not see
	b := s.db.NewBatch()
	defer closeQuietly(b)
	if err := b.Merge(key, appendCell(nil, c), nil); err != nil {
		return err
	}
	if err := b.Set(rowExpiryKey(c.expires, key), nil, nil); err != nil {
		return err
	}
	return s.commit(b)
}

// OpenOperations implements schema.OperationStore.
func (s *Store) OpenOperations(ctx context.Context, limit int) ([]schema.OpenOperation, error) {
	if limit <= 0 {
		return nil, nil
	}
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("read open operations: %w", err)
	}
	defer s.leave()
	prefix := []byte{byte(tableOpen)}
	nowMS := s.nowMS()
	var open []schema.OpenOperation
	err := s.scan(prefix, prefixEnd(prefix), func(key, value []byte) (bool, error) {
		row, err := parseRow(value)
		if c := row.at(colValue, nowMS); err == nil && c != nil && len(c.data) > 0 {
			open = append(open, schema.OpenOperation{Tenant: string(c.data), ID: schema.OperationID(key[1:])})
		}
		return len(open) < limit, err
	})
	if err != nil {
		return nil, fmt.Errorf("read open operations: %w", err)
	}
	return open, nil
}
