package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// RegisterKey implements schema.KeyStore.
func (s keyStore) RegisterKey(
	ctx context.Context, tenant, key string, claim schema.KeyRecord, expires time.Time,
) (schema.KeyRecord, bool, error) {
	inForce, err := s.registerKey(ctx, tenant, key, claim, expires)
	if err != nil {
		return schema.KeyRecord{}, false, fmt.Errorf("register key %q of %s: %w", key, tenant, err)
	}
	// Compared by what they say: a record that is repeated after ErrUnknown is still its own.
	return inForce, inForce.Entry == claim.Entry && inForce.BodyHash == claim.BodyHash, nil
}

func (s keyStore) registerKey(
	ctx context.Context, tenant, name string, claim schema.KeyRecord, expires time.Time,
) (schema.KeyRecord, error) {
	data, err := json.Marshal(claim)
	if err != nil {
		return schema.KeyRecord{}, err
	}
	if len(data) > maxRow {
		return schema.KeyRecord{}, fmt.Errorf("%w: %d bytes", schema.ErrTooLarge, len(data))
	}
	if err := s.enter(ctx); err != nil {
		return schema.KeyRecord{}, err
	}
	defer s.leave()
	key := appendName(nil, tableKeys, tenant, name)
	defer s.lock(key)()
	row, err := s.row(key)
	if err != nil {
		return schema.KeyRecord{}, err
	}
	if c := row.at(colValue, s.nowMS()); c != nil {
		var stands schema.KeyRecord
		err := json.Unmarshal(c.data, &stands)
		return stands, unavailable(err)
	}
	return claim, s.setRow(key, data, expires)
}

// RegisteredKey implements schema.KeyStore.
func (s keyStore) RegisteredKey(ctx context.Context, tenant, key string) (schema.KeyRecord, error) {
	var r schema.KeyRecord
	data, err := s.value(ctx, appendName(nil, tableKeys, tenant, key))
	if err == nil {
		err = unavailable(json.Unmarshal(data, &r))
	}
	if err != nil {
		return schema.KeyRecord{}, fmt.Errorf("read key %q of %s: %w", key, tenant, err)
	}
	return r, nil
}
