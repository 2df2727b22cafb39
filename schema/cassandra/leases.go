package cassandra

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// leasePrefix keeps leases apart from the decisions in their table.
const leasePrefix = "lease/"

// SwapLease implements schema.LeaseStore.
func (s leaseStore) SwapLease(ctx context.Context, was, is schema.Lease, expires time.Time) (schema.Lease, error) {
	stands, err := s.swapLease(ctx, was, is, expires)
	if err != nil {
		return stands, fmt.Errorf("swap lease %q: %w", is.Key, err)
	}
	return stands, nil
}

func (s leaseStore) swapLease(ctx context.Context, was, is schema.Lease, expires time.Time) (schema.Lease, error) {
	if err := is.Follows(was); err != nil {
		return schema.Lease{}, err
	}
	if len(is.Record) > maxRowBytes {
		return schema.Lease{}, fmt.Errorf("%d bytes: %w", len(is.Record), schema.ErrTooLarge)
	}
	before, err := leaseCells(was)
	if err != nil {
		return schema.Lease{}, err
	}
	after, err := leaseCells(is)
	if err != nil {
		return schema.Lease{}, err
	}
	row := make(map[string]any)
	args := append([]any{s.ttl(expires)}, after...)
	applied, err := s.swap(ctx, swapLease, rowKey{leasePrefix + is.Key}, row, append(append(args, leasePrefix+is.Key), before...)...)
	switch {
	case errors.Is(err, schema.ErrUnknown):
		return s.settleLease(ctx, was, is, err)
	case err != nil:
		return schema.Lease{}, err
	case applied:
		return is, nil
	}
	fence, _ := row["fence"].(int64)
	session, _ := row["session"].(string)
	record, _ := row["record"].(string)
	stands, err := s.loadLease(is.Key, fence, session, record)
	switch {
	case err != nil:
		return schema.Lease{}, err
	case stands.Same(is):
		return stands, nil
	}
	return stands, schema.ErrConflict
}

// settleLease decides a swap of unknown outcome by reading the lease.
func (s leaseStore) settleLease(ctx context.Context, was, is schema.Lease, unknown error) (schema.Lease, error) {
	stands, err := s.lease(ctx, is.Key)
	if err != nil && !errors.Is(err, schema.ErrNotFound) {
		return schema.Lease{}, readAgain(unknown, err)
	}
	stands.Key = is.Key
	switch {
	case stands.Same(is):
		return stands, nil
	case stands.Same(was):
		return schema.Lease{}, unknown // its condition still holds: it may yet be done
	}
	return stands, schema.ErrConflict
}

// Lease implements schema.LeaseStore.
func (s leaseStore) Lease(ctx context.Context, key string) (schema.Lease, error) {
	l, err := s.lease(ctx, key)
	if err != nil {
		return schema.Lease{}, fmt.Errorf("read lease %q: %w", key, err)
	}
	return l, nil
}

func (s leaseStore) lease(ctx context.Context, key string) (schema.Lease, error) {
	var fence int64
	var session, record string
	if err := s.oneSerial(ctx, selectLease, []any{leasePrefix + key}, &fence, &session, &record); err != nil {
		return schema.Lease{}, err
	}
	if fence == 0 {
		return schema.Lease{}, schema.ErrNotFound
	}
	return s.loadLease(key, fence, session, record)
}

// leaseCells returns the cells fence, session and record; null where the lease has none.
func leaseCells(l schema.Lease) ([]any, error) {
	cells := []any{nil, nil, nil}
	if l.Fence != 0 {
		cells[0] = int64(l.Fence)
	}
	if l.Holder != nil {
		text, err := schema.EncodeSessionRef(l.Holder)
		if err != nil {
			return nil, err
		}
		cells[1] = string(text)
	}
	if len(l.Record) > 0 {
		cells[2] = string(l.Record)
	}
	return cells, nil
}

func (s leaseStore) loadLease(key string, fence int64, session, record string) (schema.Lease, error) {
	l := schema.Lease{Key: key, Fence: schema.Fence(fence)}
	if record != "" {
		l.Record = []byte(record)
	}
	if session != "" {
		holder, err := schema.DecodeSessionRef([]byte(session))
		if err != nil {
			return schema.Lease{}, s.damage.Found("leases", key, err)
		}
		l.Holder = holder
	}
	return l, nil
}

// decisionPrefix keeps decisions apart from the other rows of leases.
const decisionPrefix = "decide/"

// Decide implements schema.DecisionStore.
func (s decisionStore) Decide(ctx context.Context, key, text string, expires time.Time) (string, error) {
	decided, err := s.decide(ctx, decisionPrefix+key, text, expires)
	if err != nil {
		return "", fmt.Errorf("decide %q: %w", key, err)
	}
	return decided, nil
}

// Decided implements schema.DecisionStore.
func (s decisionStore) Decided(ctx context.Context, key string) (decided string, err error) {
	if err := s.one(ctx, selectDecision, []any{decisionPrefix + key}, &decided); err != nil {
		return "", fmt.Errorf("decision %q: %w", key, err)
	}
	return decided, nil
}

func (s decisionStore) decide(ctx context.Context, lease, text string, expires time.Time) (string, error) {
	if len(text) > maxRowBytes {
		return "", fmt.Errorf("%d bytes: %w", len(text), schema.ErrTooLarge)
	}
	row := make(map[string]any)
	applied, err := s.swap(ctx, createDecision, rowKey{lease}, row, lease, text, s.ttl(expires))
	switch {
	case errors.Is(err, schema.ErrUnknown):
		var decided string
		switch readErr := s.oneSerial(ctx, selectDecision, []any{lease}, &decided); {
		case errors.Is(readErr, schema.ErrNotFound):
			return "", err // it may yet be done
		case readErr != nil:
			return "", readAgain(err, readErr)
		}
		return decided, nil
	case err != nil:
		return "", err
	case applied:
		return text, nil
	}
	decided, _ := row["record"].(string)
	return decided, nil
}
