package cassandra

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"carillon.dev/carillon/schema"
)

// The statements about signing keys; the words are those of statements.go.
const (
	// One row of signing_keys, conditional (LOCAL_SERIAL): a null revision stands for a row that is not there. Not idempotent.
	swapSigningKeys statement = `UPDATE signing_keys SET revision = ?, spec = ? WHERE tenant = ? IF revision = ?`
	// One row of signing_keys, at LOCAL_SERIAL. Idempotent.
	selectSigningRevision statement = `SELECT revision FROM signing_keys WHERE tenant = ?`
	// One row of signing_keys. Idempotent.
	selectSigningKeys statement = `SELECT revision, spec FROM signing_keys WHERE tenant = ?`
)

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
	text, err := json.Marshal(is)
	switch {
	case err != nil:
		return err
	case len(text) > maxRowBytes:
		return fmt.Errorf("%d bytes: %w", len(text), schema.ErrTooLarge)
	}
	var before any
	if was != 0 {
		before = was
	}
	row := make(map[string]any)
	applied, err := s.swap(ctx, swapSigningKeys, row, is.Revision, string(text), tenant, before)
	stands, _ := row["revision"].(int64)
	if errors.Is(err, schema.ErrUnknown) {
		stands = 0
		readErr := s.oneSerial(ctx, selectSigningRevision, []any{tenant}, &stands)
		if readErr != nil && !errors.Is(readErr, schema.ErrNotFound) || stands == was {
			return err // its condition still holds: it may yet be done
		}
		err = nil
	}
	switch {
	case err != nil:
		return err
	case !applied && stands != is.Revision:
		return schema.ErrConflict
	}
	return nil
}

// SigningKeys implements schema.SigningKeyStore.
func (s *Store) SigningKeys(ctx context.Context, tenant string) (k schema.SigningKeys, err error) {
	var text []byte
	var revision int64
	err = s.one(ctx, selectSigningKeys, []any{tenant}, &revision, &text)
	if err == nil {
		k, err = schema.Decode[schema.SigningKeys](text, "signing keys")
		k.Revision = revision
		_ = s.damage.Found("signing_keys", tenant, err)
	}
	if err != nil {
		return schema.SigningKeys{}, fmt.Errorf("read signing keys of %s: %w", tenant, err)
	}
	return k, nil
}
