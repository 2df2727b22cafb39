package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

func leaseKey(key string) []byte { return append([]byte{byte(tableLeases)}, key...) }

// leaseRow is what the row of a lease holds besides its key.
type leaseRow struct {
	Fence  schema.Fence       `json:"fence"`
	Holder *schema.SessionRef `json:"holder,omitempty"`
	Record []byte             `json:"record,omitempty"`
}

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
	data, err := json.Marshal(leaseRow{is.Fence, is.Holder, is.Record})
	if err != nil {
		return schema.Lease{}, err
	}
	if len(data) > maxRow {
		return schema.Lease{}, fmt.Errorf("%w: %d bytes", schema.ErrTooLarge, len(data))
	}
	if err := s.enter(ctx); err != nil {
		return schema.Lease{}, err
	}
	defer s.leave()
	key := leaseKey(is.Key)
	defer s.lock(key)()
	row, err := s.row(key)
	if err != nil {
		return schema.Lease{}, err
	}
	stands := schema.Lease{Key: is.Key}
	if c := row.at(colValue, s.nowMS()); c != nil {
		if stands, err = s.loadLease(is.Key, c.data); err != nil {
			return schema.Lease{}, err
		}
	}
	switch {
	case stands.Same(is) && !stands.Same(was):
		return stands, nil
	case !stands.Same(was):
		return stands, schema.ErrConflict
	}
	return is, s.setRow(key, data, expires)
}

// Lease implements schema.LeaseStore.
func (s leaseStore) Lease(ctx context.Context, key string) (schema.Lease, error) {
	data, err := s.value(ctx, leaseKey(key))
	var l schema.Lease
	if err == nil {
		l, err = s.loadLease(key, data)
	}
	if err != nil {
		return schema.Lease{}, fmt.Errorf("read lease %q: %w", key, err)
	}
	return l, nil
}

func (s leaseStore) loadLease(key string, data []byte) (schema.Lease, error) {
	r, err := schema.Decode[leaseRow](data, "lease")
	if err != nil {
		return schema.Lease{}, s.damage.Found("leases", key, err)
	}
	return schema.Lease{Key: key, Fence: r.Fence, Holder: r.Holder, Record: r.Record}, nil
}

// Decide implements schema.DecisionStore.
func (s decisionStore) Decide(ctx context.Context, key, text string, expires time.Time) (string, error) {
	decided, err := s.decide(ctx, decisionKey(key), text, expires)
	if err != nil {
		return "", fmt.Errorf("decide %q: %w", key, err)
	}
	return decided, nil
}

// Decided implements schema.DecisionStore.
func (s decisionStore) Decided(ctx context.Context, key string) (string, error) {
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	defer s.leave()
	row, err := s.row(decisionKey(key))
	if err != nil {
		return "", err
	}
	if c := row.at(colValue, s.nowMS()); c != nil {
		return string(c.data), nil
	}
	return "", fmt.Errorf("decision %q: %w", key, schema.ErrNotFound)
}

func (s decisionStore) decide(ctx context.Context, key []byte, text string, expires time.Time) (string, error) {
	if len(text) > maxRow {
		return "", fmt.Errorf("%w: %d bytes", schema.ErrTooLarge, len(text))
	}
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	defer s.leave()
	defer s.lock(key)()
	row, err := s.row(key)
	if err != nil {
		return "", err
	}
	if c := row.at(colValue, s.nowMS()); c != nil {
		return string(c.data), nil
	}
	return text, s.setRow(key, []byte(text), expires)
}

func decisionKey(key string) []byte { return append([]byte{byte(tableDecisions)}, key...) }
