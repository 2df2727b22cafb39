package cassandra

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
)

// ClaimKey implements schema.KeyStore.
func (s *Store) ClaimKey(ctx context.Context, tenant, key string, claim schema.KeyClaim, expires time.Time) (schema.KeyClaim, bool, error) {
	inForce, mine, err := s.claimKey(ctx, tenant, key, claim, expires)
	if err != nil {
		return schema.KeyClaim{}, false, fmt.Errorf("claim key %q of %s: %w", key, tenant, err)
	}
	return inForce, mine, nil
}

func (s *Store) claimKey(ctx context.Context, tenant, key string, claim schema.KeyClaim, expires time.Time) (schema.KeyClaim, bool, error) {
	ttl, err := s.ttl(expires)
	if err != nil {
		return schema.KeyClaim{}, false, err
	}
	if len(claim.Text)+len(claim.Payload) > maxRowBytes {
		return schema.KeyClaim{}, false, schema.ErrTooLarge
	}
	row := make(map[string]any)
	applied, err := s.swap(ctx, claimKey, row, tenant, key,
		claim.BodyHash, uuid(claim.Entry), claim.Text, cell(claim.Payload), claim.Expires, ttl)
	switch {
	case errors.Is(err, schema.ErrUnknown):
		return s.settleClaim(ctx, tenant, key, claim, err)
	case err != nil:
		return schema.KeyClaim{}, false, err
	case applied:
		return claim, true, nil
	}
	entry, ok := row["entry_id"].(gocql.UUID)
	if !ok {
		return schema.KeyClaim{}, false, errors.New("the row in force has no entry")
	}
	hash, _ := row["body_hash"].(string)
	text, _ := row["spec"].(string)
	payload, _ := row["payload"].([]byte)
	until, _ := row["expires"].(time.Time)
	return keyClaim(hash, entry, []byte(text), payload, until), false, nil
}

// settleClaim decides a claim that was not answered (unknown) by reading the one in force. An entry's id is
// drawn for each claim, so that a claim with it is this one.
func (s *Store) settleClaim(ctx context.Context, tenant, key string, claim schema.KeyClaim, unknown error) (schema.KeyClaim, bool, error) {
	var hash string
	var entry gocql.UUID
	var text, payload []byte
	var until time.Time
	err := s.oneSerial(ctx, selectKey, []any{tenant, key}, &hash, &entry, &text, &payload, &until)
	if errors.Is(err, schema.ErrNotFound) {
		return schema.KeyClaim{}, false, unknown // its condition still holds: it may yet be done
	}
	if err != nil {
		return schema.KeyClaim{}, false, errors.Join(unknown, errors.New("read again: "+err.Error()))
	}
	return keyClaim(hash, entry, text, payload, until), schema.EntryID(entry) == claim.Entry, nil
}

func keyClaim(hash string, entry gocql.UUID, text, payload []byte, until time.Time) schema.KeyClaim {
	if len(payload) == 0 {
		payload = nil
	}
	return schema.KeyClaim{BodyHash: hash, Entry: schema.EntryID(entry), Text: text, Payload: payload, Expires: until.UTC()}
}
