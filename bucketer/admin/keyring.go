package admin

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"carillon.dev/carillon/bucketer"
)

const (
	sealBytes   = 32 // of a key: AES-256
	maxSealKeys = 16
	maxSealName = 32
)

// ErrNoSeal: the operator has named no key to seal secrets with, so none are taken (409).
var ErrNoSeal = errors.New("no key is configured to seal secrets with")

// Keyring seals and opens secrets that lie in the store, with the operator's keys: AES-256 in
// Galois/counter mode (NIST SP 800-38D), under a nonce of 96 random bits each time. The first key
// seals, all of them open: a new one is put first on every node, and an old one is left out once
// nothing is sealed with it any more. Replace changes the keys while others seal and open. The zero
// Keyring has none.
type Keyring struct {
	keys atomic.Pointer[sealKeys]
}

// sealKeys are the keys of a Keyring, which do not change.
type sealKeys struct {
	first string
	named map[string]cipher.AEAD
	rows  map[string][]byte // by name: what the keys of rows are derived from (SealRow)
}

// ParseKeyring reads keys written as "name:base64 of 32 bytes". The error names every fault by the
// number of the key, and repeats no key.
func ParseKeyring(texts []string) (*Keyring, error) {
	r := &sealKeys{named: make(map[string]cipher.AEAD, len(texts)), rows: make(map[string][]byte, len(texts))}
	var faults []error
	if len(texts) > maxSealKeys {
		faults = append(faults, fmt.Errorf("at most %d keys", maxSealKeys))
		texts = nil
	}
	for i, text := range texts {
		name, encoded, _ := strings.Cut(strings.TrimSpace(text), ":")
		key, err := base64.StdEncoding.DecodeString(encoded)
		switch {
		case bucketer.NameFault(name) != "" || len(name) > maxSealName:
			faults = append(faults, fmt.Errorf("key %d: want a name of lower-case letters and digits, a colon, and the base64 of %d bytes", i+1, sealBytes))
			continue
		case err != nil || len(key) != sealBytes:
			faults = append(faults, fmt.Errorf("key %d (%s): is not the base64 of %d bytes", i+1, name, sealBytes))
			continue
		case r.named[name] != nil:
			faults = append(faults, fmt.Errorf("key %d: the name %s is there twice", i+1, name))
			continue
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			faults = append(faults, fmt.Errorf("key %d: %w", i+1, err))
			continue
		}
		if r.named[name], err = cipher.NewGCM(block); err != nil {
			faults = append(faults, fmt.Errorf("key %d: %w", i+1, err))
			continue
		}
		if r.rows[name], err = hkdf.Extract(sha256.New, key, []byte(rowSalt)); err != nil {
			faults = append(faults, fmt.Errorf("key %d: %w", i+1, err))
			continue
		}
		if r.first == "" {
			r.first = name
		}
	}
	ring := &Keyring{}
	ring.keys.Store(r)
	return ring, errors.Join(faults...)
}

// Replace has r seal and open with the keys of another. What is under way ends with the keys that
// it began with.
func (r *Keyring) Replace(by *Keyring) { r.keys.Store(by.keys.Load()) }

// current returns the keys in force.
func (r *Keyring) current() *sealKeys {
	if r != nil {
		if k := r.keys.Load(); k != nil {
			return k
		}
	}
	return &sealKeys{}
}

// Seal returns secret, sealed, and the name of the key. What it is for is sealed in: it opens for
// the same place alone. ErrNoSeal if there is no key.
func (r *Keyring) Seal(secret []byte, place string) (with string, sealed []byte, err error) {
	k := r.current()
	if k.first == "" {
		return "", nil, ErrNoSeal
	}
	gcm := k.named[k.first]
	sealed = make([]byte, gcm.NonceSize(), gcm.NonceSize()+len(secret)+gcm.Overhead())
	_, _ = rand.Read(sealed) // never fails (crypto/rand.Read's contract since Go 1.24)
	return k.first, gcm.Seal(sealed, sealed, secret, []byte(place)), nil
}

// Open is the inverse of Seal. bucketer.ErrSealed: the key is not configured here, or the secret
// was tampered with.
func (r *Keyring) Open(with string, sealed []byte, place string) ([]byte, error) {
	gcm := r.current().named[with]
	if gcm == nil {
		return nil, fmt.Errorf("%w: the key %q is not configured here", bucketer.ErrSealed, with)
	}
	if len(sealed) < gcm.NonceSize() {
		return nil, bucketer.ErrSealed
	}
	secret, err := gcm.Open(nil, sealed[:gcm.NonceSize()], sealed[gcm.NonceSize():], []byte(place))
	if err != nil {
		return nil, bucketer.ErrSealed
	}
	return secret, nil
}

// randomBytes draws n bytes.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails, as above
	return b
}
