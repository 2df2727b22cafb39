package admin

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"

	"carillon.dev/carillon/schema"
)

// rowSalt tells the keys of rows from other uses of the operator's keys.
const rowSalt = "carillon: data of tenants"

// SealRow returns text, sealed for a place in the store (schema.Sealed) with the first key. It
// opens at that place alone. ErrNoSeal if there is no key.
//
// Each place has keys of its own, derived from the operator's (HKDF, RFC 5869): one that encrypts,
// and one from which the nonce follows, as an HMAC of the text. So the bound of 2³² random nonces
// of one key is nowhere near, and equal text at one place is equal bytes: rows that are made twice
// are the same row. What that tells is that a text was written there before.
func (r *Keyring) SealRow(text []byte, place string) ([]byte, error) {
	k := r.current()
	if k.first == "" {
		return nil, ErrNoSeal
	}
	gcm, nonceKey, err := k.ofRow(k.first, place)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, nonceKey)
	_, _ = mac.Write(text) // never fails
	nonce := mac.Sum(nil)[:gcm.NonceSize()]
	b := make([]byte, 0, 64+len(k.first)+len(text))
	return gcm.Seal(schema.Sealed{Key: k.first, Nonce: nonce}.Append(b), nonce, text, []byte(place)), nil
}

// OpenRow is the inverse of SealRow. schema.ErrSealed: the key is not configured here, or the bytes
// are damaged, or were sealed for another place.
func (r *Keyring) OpenRow(sealed []byte, place string) ([]byte, error) {
	s, err := schema.ParseSealed(sealed)
	if err != nil {
		return nil, err
	}
	k := r.current()
	if k.named[s.Key] == nil {
		return nil, fmt.Errorf("%w: the key %q is not configured", schema.ErrSealed, s.Key)
	}
	gcm, _, err := k.ofRow(s.Key, place)
	if err != nil {
		return nil, err
	}
	text, err := gcm.Open(nil, s.Nonce, s.Text, []byte(place))
	if err != nil {
		return nil, fmt.Errorf("%w: it is damaged, or was moved from another row", schema.ErrSealed)
	}
	return text, nil
}

// FirstKey returns the name of the key that seals; "": there is none.
func (r *Keyring) FirstKey() string { return r.current().first }

// ofRow returns what encrypts at a place with the key of that name, and the key of its nonces.
func (k *sealKeys) ofRow(name, place string) (gcm cipher.AEAD, nonceKey []byte, err error) {
	keys, err := hkdf.Expand(sha256.New, k.rows[name], place, sealBytes+sha256.Size)
	if err != nil {
		return nil, nil, fmt.Errorf("key of a row: %w", err)
	}
	block, err := aes.NewCipher(keys[:sealBytes])
	if err != nil {
		return nil, nil, fmt.Errorf("key of a row: %w", err)
	}
	gcm, err = cipher.NewGCM(block)
	if err != nil {
		return nil, nil, fmt.Errorf("key of a row: %w", err)
	}
	return gcm, keys[sealBytes:], nil
}
