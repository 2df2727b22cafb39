package embedded

import (
	"context"
	"encoding/json"
	"fmt"

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
		column: colValue, timestamp: op.Progress.Updated.UnixMicro(), expires: expiryOf(op.ID.Time().Add(schema.OperationRetention)), data: data,
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
	var row operationRow
	data, err := s.value(ctx, operationKey(tenant, id))
	if err == nil {
		err = unavailable(json.Unmarshal(data, &row))
	}
	if err != nil {
		return schema.Operation{}, fmt.Errorf("read operation %s: %w", id, err)
	}
	return schema.Operation{ID: id, Tenant: tenant, Spec: row.Spec, Progress: row.Progress}, nil
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
