package admin

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

const (
	// signingFresh and signingAge are how long a tenant's signing keys are not read again, and are
	// used.
	signingFresh = 5 * time.Second
	signingAge   = 10 * time.Second
	// signingCacheSize bounds the tenants whose keys are kept in memory.
	signingCacheSize = 10_000
	// signingTries bounds how often a change is made again after a conflict.
	signingTries = 5
	// signingDraw is how many numbers the revision of a change is drawn from.
	signingDraw = 1 << 31
	// signingBytes is the size of a new secret.
	signingBytes = 32
)

// Bounds of the time for which a replaced secret goes on signing.
const (
	DefaultOverlap = 24 * time.Hour
	MaxOverlap     = 30 * 24 * time.Hour
)

// ErrManyKeys: the tenant has as many signing keys, or the key as many valid secrets, as there may
// be (409).
var ErrManyKeys = errors.New("there are as many keys, or valid secrets of one key, as there may be")

// SecretText returns a secret as it is shown to people, and as Standard Webhooks has it.
func SecretText(secret []byte) string { return "whsec_" + base64.StdEncoding.EncodeToString(secret) }

// Signing keeps the keys by which tenants' HTTP calls are signed. Its methods may be called from
// any goroutine.
//
// A secret is drawn here, shown once, and stored sealed (Keyring). After a rotation the old secret
// signs beside the new one for a stated time, in which receivers can change over. Executors call
// Secrets before each call, which answers from memory.
type Signing struct {
	store   schema.SigningKeyStore
	keyring *Keyring
	signals bucketer.Signaller
	now     func() time.Time

	cache *refreshingCache[string, map[string][]openSecret]
}

// openSecret is a secret in memory.
type openSecret struct {
	secret []byte
	until  time.Time // zero: no end
	err    error     // it cannot be opened
}

// NewSigning returns a Signing over store.
func NewSigning(store schema.SigningKeyStore, keyring *Keyring, signals bucketer.Signaller, now func() time.Time) *Signing {
	s := &Signing{store: store, keyring: keyring, signals: signals, now: now}
	s.cache = newRefreshingCache(s.read, now, signingFresh, signingAge, signingCacheSize)
	return s
}

// read reads and opens the keys of a tenant.
func (s *Signing) read(ctx context.Context, tenant string) (map[string][]openSecret, error) {
	stored, err := s.store.SigningKeys(ctx, tenant)
	if err != nil {
		return nil, err
	}
	open := make(map[string][]openSecret, len(stored.Keys))
	for _, k := range stored.Keys {
		for _, v := range k.Secrets {
			o := openSecret{until: v.Until}
			o.secret, o.err = s.keyring.Open(v.SealedWith, v.Sealed, placeOf(tenant, k.Name))
			open[k.Name] = append(open[k.Name], o)
		}
	}
	return open, nil
}

// placeOf is what a secret is sealed for. A secret that is moved to another tenant's row cannot be
// opened.
func placeOf(tenant, name string) string { return "signing\x00" + tenant + "\x00" + name }

// Secrets returns the secrets by which calls of the tenant are signed with the key of that name,
// the newest first. It answers ErrNotFound if there is no such key, and bucketer.ErrSealed if it
// cannot be opened here. Other errors are the store's.
func (s *Signing) Secrets(ctx context.Context, tenant, name string) ([][]byte, error) {
	keys, err := s.cache.of(ctx, tenant)
	if err != nil {
		return nil, err
	}
	all := keys[name]
	if len(all) == 0 {
		return nil, schema.ErrNotFound
	}
	now := s.now()
	secrets := make([][]byte, 0, len(all))
	for _, o := range all {
		if !o.until.IsZero() && !now.Before(o.until) {
			continue
		}
		if o.err != nil {
			return nil, o.err
		}
		secrets = append(secrets, o.secret)
	}
	return secrets, nil
}

// Create makes a key and returns its secret, which cannot be had again. ErrKeyName: the tenant has a
// key of this name. ErrNoSeal, ErrManyKeys.
func (s *Signing) Create(ctx context.Context, tenant, name, by string) (secret []byte, key schema.SigningKey, err error) {
	secret, v, err := s.draw(tenant, name)
	if err != nil {
		return nil, key, fmt.Errorf("create signing key: %w", err)
	}
	key = schema.SigningKey{Name: name, CreatedAt: v.CreatedAt, CreatedBy: by, Secrets: []schema.SigningSecret{v}}
	err = s.change(ctx, tenant, func(all *schema.SigningKeys) error {
		at, found := find(all, name)
		switch {
		case found:
			return ErrKeyName
		case len(all.Keys) >= schema.MaxSigningKeys:
			return ErrManyKeys
		}
		all.Keys = slices.Insert(all.Keys, at, key)
		return nil
	})
	if err != nil {
		return nil, schema.SigningKey{}, fmt.Errorf("create signing key: %w", err)
	}
	return secret, key, nil
}

// Rotate gives a key a new secret and returns it. Older secrets go on signing for overlap, unless
// they end sooner. It answers ErrManyKeys if schema.MaxSigningSecrets would be valid at once;
// ErrNotFound, ErrNoSeal.
func (s *Signing) Rotate(ctx context.Context, tenant, name string, overlap time.Duration) (secret []byte, key schema.SigningKey, err error) {
	secret, v, err := s.draw(tenant, name)
	if err != nil {
		return nil, key, fmt.Errorf("rotate signing key: %w", err)
	}
	end := v.CreatedAt.Add(overlap)
	err = s.change(ctx, tenant, func(all *schema.SigningKeys) error {
		at, found := find(all, name)
		if !found {
			return schema.ErrNotFound
		}
		key = all.Keys[at]
		secrets := []schema.SigningSecret{v}
		for _, old := range key.Secrets {
			if old.Until.IsZero() || old.Until.After(end) {
				old.Until = end
			}
			if old.Until.After(v.CreatedAt) {
				secrets = append(secrets, old)
			}
		}
		if len(secrets) > schema.MaxSigningSecrets {
			return ErrManyKeys
		}
		key.Secrets = secrets
		all.Keys[at] = key
		return nil
	})
	if err != nil {
		return nil, schema.SigningKey{}, fmt.Errorf("rotate signing key: %w", err)
	}
	return secret, key, nil
}

// Revoke removes a key, and returns what it was, or ErrNotFound. Within 10 s no call is signed with
// it.
func (s *Signing) Revoke(ctx context.Context, tenant, name string) (was schema.SigningKey, err error) {
	err = s.change(ctx, tenant, func(all *schema.SigningKeys) error {
		at, found := find(all, name)
		if !found {
			return schema.ErrNotFound
		}
		was = all.Keys[at]
		all.Keys = slices.Delete(all.Keys, at, at+1)
		return nil
	})
	if err != nil {
		return schema.SigningKey{}, fmt.Errorf("revoke signing key: %w", err)
	}
	return was, nil
}

// List returns the keys of a tenant, in name order; their secrets stay sealed.
func (s *Signing) List(ctx context.Context, tenant string) ([]schema.SigningKey, error) {
	all, err := s.store.SigningKeys(ctx, tenant)
	if errors.Is(err, schema.ErrNotFound) {
		return nil, nil
	}
	return all.Keys, err
}

// draw makes a new secret, as it is and as it is stored.
func (s *Signing) draw(tenant, name string) (secret []byte, v schema.SigningSecret, err error) {
	secret = randomBytes(signingBytes)
	v.CreatedAt = s.now().UTC().Truncate(time.Millisecond)
	v.SealedWith, v.Sealed, err = s.keyring.Seal(secret, placeOf(tenant, name))
	return secret, v, err
}

// change changes the keys of a tenant, and tries again after a conflict. An error of f means that
// nothing is changed.
func (s *Signing) change(ctx context.Context, tenant string, f func(all *schema.SigningKeys) error) error {
	var err error
	for range signingTries {
		var all schema.SigningKeys
		if all, err = s.store.SigningKeys(ctx, tenant); err != nil && !errors.Is(err, schema.ErrNotFound) {
			return err
		}
		was := all.Revision
		if err := f(&all); err != nil {
			return err
		}
		// Two concurrent changes must not draw the same revision: one would be taken for the other.
		all.Revision = max(was, s.now().UnixMicro()) + 1 + rand.Int64N(signingDraw)
		err = s.store.SwapSigningKeys(ctx, tenant, was, all)
		if err == nil || errors.Is(err, schema.ErrUnknown) {
			s.cache.forget(tenant)
			s.signals.Signal(schema.TopicSigning, []byte(tenant))
		}
		if !errors.Is(err, schema.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", schema.ErrUnavailable, err) // others change them all the time
}

func find(all *schema.SigningKeys, name string) (at int, found bool) {
	return slices.BinarySearchFunc(all.Keys, name, func(k schema.SigningKey, name string) int { return cmp.Compare(k.Name, name) })
}

// Changed forgets the keys of a tenant. body is that of a signal of topic "signing".
func (s *Signing) Changed(body []byte) { s.cache.forget(string(body)) }
