package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"carillon.dev/carillon/schema"
)

// The tables of API keys. They are stored: never rename them.
const (
	tableAPIKeys  table = 'K' // hash
	tableKeyNames table = 'N' // tenant name; value: as in K
	tableKeyUses  table = 'U' // hash
)

func apiKeyKey(t table, hash schema.KeyHash) []byte { return append([]byte{byte(t)}, hash[:]...) }

func keyNameKey(tenant, name string) []byte { return appendName(nil, tableKeyNames, tenant, name) }

// CreateAPIKey implements schema.APIKeyStore.
func (s apiKeyStore) CreateAPIKey(ctx context.Context, k schema.APIKey) error {
	if err := s.createAPIKey(ctx, k); err != nil {
		return fmt.Errorf("create key %s of %s: %w", k.Name, k.Tenant, err)
	}
	return nil
}

func (s apiKeyStore) createAPIKey(ctx context.Context, k schema.APIKey) error {
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	name := keyNameKey(k.Tenant, k.Name)
	defer s.lock(name)()
	row, err := s.row(name)
	if err != nil {
		return err
	}
	if c := row.at(colValue, s.nowMS()); c != nil {
		if stands := s.loadKey(k.Tenant, k.Name, c.data); stands.Hash != k.Hash {
			return schema.ErrConflict
		}
		return nil
	}
	b := s.db.NewBatch()
	defer closeQuietly(b)
	value := appendCell(nil, cell{column: colValue, data: data})
	for _, key := range [][]byte{name, apiKeyKey(tableAPIKeys, k.Hash)} {
		if err := b.Set(key, value, nil); err != nil {
			return err
		}
	}
	return s.commit(b)
}

// APIKey implements schema.APIKeyStore.
func (s apiKeyStore) APIKey(ctx context.Context, hash schema.KeyHash) (k schema.APIKey, err error) {
	data, err := s.value(ctx, apiKeyKey(tableAPIKeys, hash))
	if err == nil {
		if k, err = schema.Decode[schema.APIKey](data, "key"); err != nil {
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
	var keys []schema.APIKey
	err := s.list(ctx, keyNameKey(tenant, ""), afterName(after), limit, func(rest []byte, row *cells, nowMS int64) (bool, error) {
		c := row.at(colValue, nowMS)
		if c != nil {
			keys = append(keys, s.loadKey(tenant, string(rest), c.data))
		}
		return c != nil, nil
	})
	for i := range keys {
		if err != nil {
			break
		}
		keys[i].LastUsed, err = s.lastUsed(ctx, keys[i].Hash)
	}
	if err != nil {
		return nil, fmt.Errorf("read keys of %s: %w", tenant, err)
	}
	return keys, nil
}

// loadKey makes a key of its row by name. One that cannot be understood has a Fault, and no hash.
func (s apiKeyStore) loadKey(tenant, name string, data []byte) schema.APIKey {
	k, err := schema.Decode[schema.APIKey](data, "key")
	if s.damage.Found("api_keys", tenant+"/"+name, err) != nil {
		k = schema.APIKey{Tenant: tenant, Name: name, Fault: err}
	}
	return k
}

func (s apiKeyStore) lastUsed(ctx context.Context, hash schema.KeyHash) (time.Time, error) {
	if err := s.enter(ctx); err != nil {
		return time.Time{}, err
	}
	defer s.leave()
	row, err := s.row(apiKeyKey(tableKeyUses, hash))
	if err != nil {
		return time.Time{}, err
	}
	c := row.at(colValue, s.nowMS())
	if c == nil {
		return time.Time{}, nil
	}
	return time.UnixMicro(c.timestamp).UTC().Truncate(time.Millisecond), nil
}

// DeleteAPIKey implements schema.APIKeyStore.
func (s apiKeyStore) DeleteAPIKey(ctx context.Context, tenant, name string, _ time.Time) (schema.APIKey, error) {
	k, err := s.deleteAPIKey(ctx, tenant, name)
	if err != nil {
		return schema.APIKey{}, fmt.Errorf("delete key %s of %s: %w", name, tenant, err)
	}
	return k, nil
}

func (s apiKeyStore) deleteAPIKey(ctx context.Context, tenant, called string) (k schema.APIKey, err error) {
	name := keyNameKey(tenant, called)
	if err := s.enter(ctx); err != nil {
		return k, err
	}
	defer s.leave()
	defer s.lock(name)()
	row, err := s.row(name)
	if err != nil {
		return k, err
	}
	c := row.at(colValue, s.nowMS())
	if c == nil {
		return k, schema.ErrNotFound
	}
	if k = s.loadKey(tenant, called, c.data); k.Fault != nil {
		if k.Hash, err = s.hashOf(tenant, called); err != nil {
			return k, err
		}
	}
	b := s.db.NewBatch()
	defer closeQuietly(b)
	for _, key := range [][]byte{name, apiKeyKey(tableAPIKeys, k.Hash), apiKeyKey(tableKeyUses, k.Hash)} {
		if err := b.Delete(key, nil); err != nil {
			return k, err
		}
	}
	return k, s.commit(b)
}

// hashOf looks among all keys for the hash of the key that has that tenant and name; zero: none.
func (s apiKeyStore) hashOf(tenant, name string) (hash schema.KeyHash, err error) {
	prefix := []byte{byte(tableAPIKeys)}
	err = s.scan(prefix, prefixEnd(prefix), func(key, value []byte) (bool, error) {
		row, err := parseRow(value)
		if err != nil {
			return false, err
		}
		if c := row.at(colValue, s.nowMS()); c != nil {
			if k, err := schema.Decode[schema.APIKey](c.data, "key"); err == nil && k.Tenant == tenant && k.Name == name {
				copy(hash[:], key[len(prefix):])
			}
		}
		return true, nil
	})
	return hash, err
}

// TouchAPIKey implements schema.APIKeyStore. It is not synced: the next use notes it again.
func (s apiKeyStore) TouchAPIKey(ctx context.Context, hash schema.KeyHash, at time.Time) error {
	if err := s.enter(ctx); err != nil {
		return fmt.Errorf("note the use of a key: %w", err)
	}
	defer s.leave()
	m := Mutation{key: apiKeyKey(tableKeyUses, hash), cells: appendCell(nil, cell{column: colValue, timestamp: at.UnixMicro()})}
	if err := s.db.Merge(m.key, m.cells, pebble.NoSync); err != nil {
		return fmt.Errorf("note the use of a key: %w: %w", schema.ErrUnknown, err)
	}
	if s.replicate != nil {
		s.replicate([]Mutation{m})
	}
	return nil
}
