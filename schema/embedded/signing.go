package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// tableSigning holds the signing keys of tenants. It is stored: never rename it.
const tableSigning table = 'G' // tenant

func signingKey(tenant string) []byte { return append([]byte{byte(tableSigning)}, tenant...) }

// signingRow is what the row of a tenant's signing keys holds.
type signingRow struct {
	Revision int64               `json:"revision"`
	Keys     []schema.SigningKey `json:"keys"`
}

// SwapSigningKeys implements schema.SigningKeyStore.
func (s *Store) SwapSigningKeys(ctx context.Context, tenant string, was int64, is schema.SigningKeys) error {
	if err := s.swapSigningKeys(ctx, tenant, was, is); err != nil {
		return fmt.Errorf("swap signing keys of %s: %w", tenant, err)
	}
	return nil
}

func (s *Store) swapSigningKeys(ctx context.Context, tenant string, was int64, is schema.SigningKeys) error {
	if err := is.Follows(was); err != nil {
		return err
	}
	data, err := json.Marshal(signingRow{is.Revision, is.Keys})
	switch {
	case err != nil:
		return err
	case len(data) > maxRow:
		return fmt.Errorf("%w: %d bytes", schema.ErrTooLarge, len(data))
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	key := signingKey(tenant)
	defer s.lock(key)()
	row, err := s.row(key)
	if err != nil {
		return err
	}
	var stands signingRow
	if c := row.at(colValue, s.nowMS()); c != nil {
		if stands, err = schema.Decode[signingRow](c.data, "signing keys"); err != nil {
			return err
		}
	}
	switch stands.Revision {
	case is.Revision:
		return nil
	case was:
		return s.setRow(key, data, time.Time{})
	}
	return schema.ErrConflict
}

// SigningKeys implements schema.SigningKeyStore.
func (s *Store) SigningKeys(ctx context.Context, tenant string) (schema.SigningKeys, error) {
	data, err := s.value(ctx, signingKey(tenant))
	var row signingRow
	if err == nil {
		row, err = schema.Decode[signingRow](data, "signing keys")
		_ = s.damage.Found("signing_keys", tenant, err)
	}
	if err != nil {
		return schema.SigningKeys{}, fmt.Errorf("read signing keys of %s: %w", tenant, err)
	}
	return schema.SigningKeys{Revision: row.Revision, Keys: row.Keys}, nil
}
