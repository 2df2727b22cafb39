package admin

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

const (
	// keyFresh and keyAge are how long a key is not read again, and is used. So a revoked key is
	// refused on every node within 10 s, also if the signal was lost.
	keyFresh = 4 * time.Second
	keyAge   = 8 * time.Second
	// keyCacheSize bounds the keys kept in memory.
	keyCacheSize = 10_000
	// keyReads bounds the concurrent reads of keys that are not in memory, so that a caller that
	// guesses keys does not keep the store busy.
	keyReads = 64
	// usedEvery is how exactly the last use of a key is known.
	usedEvery = 5 * time.Minute
	// usesWaiting bounds the uses that wait to be written. More are dropped, and a later use is
	// written instead.
	usesWaiting = 1000
)

// KeyPrefix begins every key, so that a key in a text is recognised as one.
const KeyPrefix = "carillon_"

// keyEncoding writes the random part of a key.
var keyEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

const keyBytes = 32 // of randomness

// ErrNoKey: there is no such key, or it is revoked or expired. It does not say which.
var ErrNoKey = errors.New("no such API key")

// ErrKeyName is returned for a new key whose name another one of the tenant has.
var ErrKeyName = fmt.Errorf("the tenant has a key of this name: %w", schema.ErrConflict)

// Keys makes, revokes and recognises API keys. Its methods may be called from any goroutine.
//
// A key is 256 random bits. It is shown once, when it is made, and is not stored. The store has its
// SHA-256, by which it is found. So neither reading the store nor measuring the time of answers
// reveals it.
type Keys struct {
	store   schema.APIKeyStore
	signals bucketer.Signaller
	now     func() time.Time
	log     *slog.Logger

	cache *refreshingCache[schema.KeyHash, schema.APIKey]
	reads chan struct{}
	uses  chan keyUse

	mu   sync.Mutex
	used map[schema.KeyHash]time.Time // when its use was noted last
}

type keyUse struct {
	hash schema.KeyHash
	at   time.Time
}

// NewKeys returns Keys over store. Uses of keys are written only while Run runs.
func NewKeys(store schema.APIKeyStore, signals bucketer.Signaller, now func() time.Time, log *slog.Logger) *Keys {
	k := &Keys{
		store: store, signals: signals, now: now, log: log,
		reads: make(chan struct{}, keyReads), uses: make(chan keyUse, usesWaiting), used: make(map[schema.KeyHash]time.Time),
	}
	k.cache = newRefreshingCache(k.read, now, keyFresh, keyAge, keyCacheSize)
	return k
}

// read reads a key, at most keyReads at once.
func (k *Keys) read(ctx context.Context, hash schema.KeyHash) (schema.APIKey, error) {
	select {
	case k.reads <- struct{}{}:
		defer func() { <-k.reads }()
	case <-ctx.Done():
		return schema.APIKey{}, fmt.Errorf("read key: %w: %w", schema.ErrUnavailable, ctx.Err())
	}
	return k.store.APIKey(ctx, hash)
}

// Authenticate returns the API key, which says its tenant and role, or ErrNoKey. Other errors are
// the store's: nothing may be concluded.
func (k *Keys) Authenticate(ctx context.Context, key string) (schema.APIKey, error) {
	if !wellFormed(key) {
		return schema.APIKey{}, ErrNoKey
	}
	hash := schema.HashKey(key)
	found, err := k.cache.of(ctx, hash)
	now := k.now()
	switch {
	case errors.Is(err, schema.ErrNotFound):
		return schema.APIKey{}, ErrNoKey
	case err != nil:
		return schema.APIKey{}, err
	case found.Expired(now):
		return schema.APIKey{}, ErrNoKey
	}
	k.note(hash, now)
	return found, nil
}

// wellFormed reports whether key may be one. Others are not looked up.
func wellFormed(key string) bool {
	secret, ok := strings.CutPrefix(key, KeyPrefix)
	if !ok || len(secret) != keyEncoding.EncodedLen(keyBytes) {
		return false
	}
	raw, err := keyEncoding.DecodeString(secret)
	return err == nil && len(raw) == keyBytes
}

// note remembers that a key is used, to be written by Run.
func (k *Keys) note(hash schema.KeyHash, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if last, ok := k.used[hash]; ok && now.Sub(last) < usedEvery {
		return
	}
	select {
	case k.uses <- keyUse{hash, now}:
		if len(k.used) >= keyCacheSize {
			clear(k.used)
		}
		k.used[hash] = now
	default:
	}
}

// Run writes the uses of keys, until ctx ends. It returns nil.
func (k *Keys) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case use := <-k.uses:
			if err := k.store.TouchAPIKey(ctx, use.hash, use.at); err != nil && ctx.Err() == nil {
				k.log.Warn("the use of a key could not be noted", "err", err)
			}
		}
	}
}

// Create makes a key of that tenant, name, role, maker and expiry. It returns the key as stored,
// and its secret, which cannot be had again. It answers ErrKeyName if the tenant has a key of this
// name.
func (k *Keys) Create(ctx context.Context, key schema.APIKey) (secret string, stored schema.APIKey, err error) {
	var raw [keyBytes]byte
	_, _ = rand.Read(raw[:]) // never fails (crypto/rand.Read's contract since Go 1.24)
	secret = KeyPrefix + keyEncoding.EncodeToString(raw[:])
	key.Hash, key.CreatedAt = schema.HashKey(secret), k.now().UTC().Truncate(time.Millisecond)
	err = k.store.CreateAPIKey(ctx, key)
	if errors.Is(err, schema.ErrConflict) {
		err = ErrKeyName
	}
	if err != nil {
		return "", schema.APIKey{}, fmt.Errorf("create key: %w", err)
	}
	k.changed(key.Hash)
	return secret, key, nil
}

// List returns at most limit keys of a tenant with a name after `after`, in name order.
func (k *Keys) List(ctx context.Context, tenant, after string, limit int) ([]schema.APIKey, error) {
	return k.store.APIKeys(ctx, tenant, after, limit)
}

// Revoke removes a key, and returns what it was, or ErrNotFound. A node that gets the signal
// refuses the key at once, every other node within 10 s.
func (k *Keys) Revoke(ctx context.Context, tenant, name string) (schema.APIKey, error) {
	was, err := k.store.DeleteAPIKey(ctx, tenant, name, k.now())
	if err != nil {
		return schema.APIKey{}, fmt.Errorf("revoke key: %w", err)
	}
	k.changed(was.Hash)
	return was, nil
}

func (k *Keys) changed(hash schema.KeyHash) {
	k.cache.forget(hash)
	k.signals.Signal(schema.TopicKey, []byte(hash.String()))
}

// Changed forgets a key. body is that of a signal of topic "key".
func (k *Keys) Changed(body []byte) {
	var hash schema.KeyHash
	if hash.UnmarshalText(body) == nil {
		k.cache.forget(hash)
	}
}
