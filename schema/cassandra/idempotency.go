package cassandra

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
)

// RegisterKey implements schema.KeyStore.
func (s keyStore) RegisterKey(ctx context.Context, tenant, key string, claim schema.KeyRecord, expires time.Time) (schema.KeyRecord, bool, error) {
	inForce, mine, err := s.registerKey(ctx, tenant, key, claim, expires)
	if err != nil {
		return schema.KeyRecord{}, false, fmt.Errorf("register key %q of %s: %w", key, tenant, err)
	}
	return inForce, mine, nil
}

func (s keyStore) registerKey(ctx context.Context, tenant, key string, claim schema.KeyRecord, expires time.Time) (schema.KeyRecord, bool, error) {
	if len(claim.Text)+len(claim.Payload) > maxRowBytes {
		return schema.KeyRecord{}, false, schema.ErrTooLarge
	}
	row := make(map[string]any)
	applied, err := s.swap(ctx, registerKey, rowKey{tenant, key}, row, tenant, key,
		claim.BodyHash, uuid(claim.Entry), claim.Text, cell(claim.Payload), claim.Expires, s.ttl(expires))
	switch {
	case errors.Is(err, schema.ErrUnknown):
		return s.settleKey(ctx, tenant, key, claim, err)
	case err != nil:
		return schema.KeyRecord{}, false, err
	case applied:
		return claim, true, nil
	}
	entry, ok := row["entry_id"].(gocql.UUID)
	if !ok {
		return schema.KeyRecord{}, false, errors.New("the row in force has no entry")
	}
	hash, _ := row["body_hash"].(string)
	text, _ := row["spec"].(string)
	payload, _ := row["payload"].([]byte)
	until, _ := row["expires"].(time.Time)
	inForce := loadKeyRecord(hash, entry, []byte(text), payload, until)
	return inForce, sameKeyRecord(inForce, claim), nil
}

// sameKeyRecord compares records by what they say, so that one that is repeated after ErrUnknown is
// its own.
func sameKeyRecord(a, b schema.KeyRecord) bool { return a.Entry == b.Entry && a.BodyHash == b.BodyHash }

// settleKey decides a registration of unknown outcome by reading the record that stands.
func (s keyStore) settleKey(ctx context.Context, tenant, key string, claim schema.KeyRecord, unknown error) (schema.KeyRecord, bool, error) {
	inForce, err := s.registeredKey(ctx, tenant, key)
	if errors.Is(err, schema.ErrNotFound) {
		return schema.KeyRecord{}, false, unknown // its condition still holds: it may yet be done
	}
	if err != nil {
		return schema.KeyRecord{}, false, readAgain(unknown, err)
	}
	return inForce, sameKeyRecord(inForce, claim), nil
}

// RegisteredKey implements schema.KeyStore.
func (s keyStore) RegisteredKey(ctx context.Context, tenant, key string) (schema.KeyRecord, error) {
	r, err := s.registeredKey(ctx, tenant, key)
	if err != nil {
		return schema.KeyRecord{}, fmt.Errorf("read key %q of %s: %w", key, tenant, err)
	}
	return r, nil
}

func (s keyStore) registeredKey(ctx context.Context, tenant, key string) (schema.KeyRecord, error) {
	var hash string
	var entry gocql.UUID
	var text, payload []byte
	var until time.Time
	if err := s.oneSerial(ctx, selectKey, []any{tenant, key}, &hash, &entry, &text, &payload, &until); err != nil {
		return schema.KeyRecord{}, err
	}
	return loadKeyRecord(hash, entry, text, payload, until), nil
}

func loadKeyRecord(hash string, entry gocql.UUID, text, payload []byte, until time.Time) schema.KeyRecord {
	if len(payload) == 0 {
		payload = nil
	}
	return schema.KeyRecord{BodyHash: hash, Entry: schema.EntryID(entry), Text: text, Payload: payload, Expires: until.UTC()}
}
