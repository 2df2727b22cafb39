package cassandra

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
)

// The statements about API keys; the words are those of statements.go.
const (
	// One row of api_key_names, conditional. Not idempotent.
	createKeyName statement = `INSERT INTO api_key_names (tenant, name, hash, spec) VALUES (?, ?, ?, ?) IF NOT EXISTS`
	// One row of api_key_names, conditional. Not idempotent.
	dropKeyName statement = `DELETE FROM api_key_names WHERE tenant = ? AND name = ? IF hash = ?`
	// One row of api_key_names, serial. Idempotent.
	selectKeyName statement = `SELECT hash, spec FROM api_key_names WHERE tenant = ? AND name = ?`
	// A slice of one tenant's keys, in name order. Idempotent.
	selectKeyNames statement = `SELECT name, hash, spec FROM api_key_names WHERE tenant = ? AND name > ?`
	// One row of api_keys. Idempotent.
	insertAPIKey statement = `INSERT INTO api_keys (hash, tenant, name, spec) VALUES (?, ?, ?, ?) USING TIMESTAMP ?`
	// One row of api_keys. Idempotent.
	deleteAPIKey statement = `DELETE FROM api_keys USING TIMESTAMP ? WHERE hash = ?`
	// One row of api_keys. Idempotent.
	selectAPIKey statement = `SELECT spec FROM api_keys WHERE hash = ?`
	// One row of api_keys. Idempotent.
	touchAPIKey statement = `UPDATE api_keys USING TIMESTAMP ? AND TTL ? SET last_used = ? WHERE hash = ?`
	// Of at most maxIDsPerRead rows of api_keys, each a partition: only lists ask for it.
	// Idempotent.
	selectUses statement = `SELECT hash, last_used FROM api_keys WHERE hash IN ?`
)

// usedTTL is how long the last use of a key is known, in seconds.
const usedTTL = 400 * 24 * 3600

// CreateAPIKey implements schema.APIKeyStore. The name is written first: a creation that is cut
// short leaves a key that is listed and not valid, never one that is valid and not listed.
func (s apiKeyStore) CreateAPIKey(ctx context.Context, k schema.APIKey) error {
	if err := s.createAPIKey(ctx, k); err != nil {
		return fmt.Errorf("create key %s of %s: %w", k.Name, k.Tenant, err)
	}
	return nil
}

func (s apiKeyStore) createAPIKey(ctx context.Context, k schema.APIKey) error {
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	applied, err := s.swap(ctx, createKeyName, rowKey{k.Tenant, k.Name}, make(map[string]any), k.Tenant, k.Name, k.Hash.String(), text)
	if err != nil && !errors.Is(err, schema.ErrUnknown) {
		return err
	}
	if !applied {
		stands, readErr := s.keyByName(ctx, k.Tenant, k.Name)
		switch {
		case readErr == nil && stands.Hash == k.Hash:
			// by what it says: it is repeated after ErrUnknown
		case readErr == nil:
			return schema.ErrConflict
		case err != nil:
			return err
		default:
			return readErr
		}
	}
	return s.write(ctx, insertAPIKey, k.Hash.String(), k.Tenant, k.Name, text, k.CreatedAt.UnixMicro())
}

// keyByName reads a key by its name, as every conditional write before has left it.
func (s apiKeyStore) keyByName(ctx context.Context, tenant, name string) (k schema.APIKey, err error) {
	var hash string
	var text []byte
	if err = s.oneSerial(ctx, selectKeyName, []any{tenant, name}, &hash, &text); err == nil {
		k = s.loadKey(tenant, name, hash, text)
	}
	return k, err
}

// loadKey makes a key of its row by name. One that cannot be understood has a Fault; it can be
// revoked, since its hash has a column of its own.
func (s apiKeyStore) loadKey(tenant, name, hash string, text []byte) schema.APIKey {
	k, err := schema.Decode[schema.APIKey](text, "key")
	if s.damage.Found("api_keys", tenant+"/"+name, err) != nil {
		k = schema.APIKey{Tenant: tenant, Name: name, Fault: err}
		_ = k.Hash.UnmarshalText([]byte(hash)) // else it has none, which is no key's
	}
	return k
}

// APIKey implements schema.APIKeyStore.
func (s apiKeyStore) APIKey(ctx context.Context, hash schema.KeyHash) (k schema.APIKey, err error) {
	var text []byte
	err = s.one(ctx, selectAPIKey, []any{hash.String()}, &text)
	switch {
	case err == nil && len(text) == 0: // a use that was noted after the key was deleted
		err = schema.ErrNotFound
	case err == nil:
		if k, err = schema.Decode[schema.APIKey](text, "key"); err != nil {
			_ = s.damage.Found("api_keys", hash.String(), err)
			err = schema.ErrNotFound
		}
	}
	if err != nil {
		return schema.APIKey{}, fmt.Errorf("read key: %w", err)
	}
	return k, nil
}

// APIKeys implements schema.APIKeyStore.
func (s apiKeyStore) APIKeys(ctx context.Context, tenant, after string, limit int) ([]schema.APIKey, error) {
	keys, err := s.apiKeys(ctx, tenant, after, limit)
	if err != nil {
		return nil, fmt.Errorf("read keys of %s: %w", tenant, err)
	}
	return keys, nil
}

func (s apiKeyStore) apiKeys(ctx context.Context, tenant, after string, limit int) ([]schema.APIKey, error) {
	keys, err := readPages(ctx, s.core, selectKeyNames, &s.smallRows, limit, []any{tenant, after},
		func(iter *gocql.Iter) (k schema.APIKey, size int, keep, more bool) {
			var name, hash string
			var text []byte
			if !iter.Scan(&name, &hash, &text) {
				return k, 0, false, false
			}
			return s.loadKey(tenant, name, hash, text), len(text) + 64, true, true
		})
	if err != nil {
		return nil, err
	}
	uses := make(map[string]time.Time, len(keys))
	for start := 0; start < len(keys); start += maxIDsPerRead {
		var hashes []string
		for i := start; i < min(start+maxIDsPerRead, len(keys)); i++ {
			hashes = append(hashes, keys[i].Hash.String())
		}
		if err := s.lastUses(ctx, hashes, uses); err != nil {
			return nil, err
		}
	}
	for i := range keys {
		keys[i].LastUsed = uses[keys[i].Hash.String()]
	}
	return keys, nil
}

// lastUses reads when keys were used last.
func (s apiKeyStore) lastUses(ctx context.Context, hashes []string, into map[string]time.Time) error {
	_, err := readPages(ctx, s.core, selectUses, &s.smallRows, len(hashes)+1, []any{hashes},
		func(iter *gocql.Iter) (none struct{}, size int, keep, more bool) {
			var hash string
			var at time.Time
			if !iter.Scan(&hash, &at) {
				return none, 0, false, false
			}
			if !at.IsZero() {
				into[hash] = at.UTC()
			}
			return none, 128, true, true
		})
	return err
}

// DeleteAPIKey implements schema.APIKeyStore. The key itself goes first: a deletion that is cut
// short leaves a key that is listed and not valid.
func (s apiKeyStore) DeleteAPIKey(ctx context.Context, tenant, name string, at time.Time) (schema.APIKey, error) {
	k, err := s.deleteAPIKey(ctx, tenant, name, at)
	if err != nil {
		return schema.APIKey{}, fmt.Errorf("delete key %s of %s: %w", name, tenant, err)
	}
	return k, nil
}

func (s apiKeyStore) deleteAPIKey(ctx context.Context, tenant, name string, at time.Time) (schema.APIKey, error) {
	k, err := s.keyByName(ctx, tenant, name)
	if err != nil {
		return k, err
	}
	// A clock that is behind must not leave the key in force.
	written := max(at.UnixMicro(), k.CreatedAt.UnixMicro()+1)
	if err := s.write(ctx, deleteAPIKey, written, k.Hash.String()); err != nil {
		return k, err
	}
	_, err = s.swap(ctx, dropKeyName, rowKey{tenant, name}, make(map[string]any), tenant, name, k.Hash.String())
	if !errors.Is(err, schema.ErrUnknown) {
		return k, err // not applied: somebody else has removed the same key
	}
	if stands, readErr := s.keyByName(ctx, tenant, name); errors.Is(readErr, schema.ErrNotFound) || readErr == nil && stands.Hash != k.Hash {
		return k, nil
	}
	return k, err
}

// TouchAPIKey implements schema.APIKeyStore.
func (s apiKeyStore) TouchAPIKey(ctx context.Context, hash schema.KeyHash, at time.Time) error {
	if err := s.write(ctx, touchAPIKey, at.UnixMicro(), usedTTL, at, hash.String()); err != nil {
		return fmt.Errorf("note the use of a key: %w", err)
	}
	return nil
}
