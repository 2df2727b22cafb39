package schema

import (
	"context"
	"errors"
	"time"
)

// Bounds of a tenant's signing keys.
const (
	MaxSigningKeys    = 32 // of a tenant
	MaxSigningSecrets = 3  // of a key: the one in force and those before it that are still valid
)

// DefaultSigningKey is the key by which the HTTP calls of a tenant are signed that name none.
const DefaultSigningKey = "default"

// SigningSecret is a secret of a signing key. It is stored sealed: who reads the store learns nothing of it.
type SigningSecret struct {
	SealedWith string    `json:"sealed_with"` // which of the operator's keys opens it
	Sealed     []byte    `json:"sealed"`
	CreatedAt  time.Time `json:"created_at"`
	Until      time.Time `json:"until,omitzero"` // it signs before this; zero: until it is replaced
}

// SigningKey is a named key of a tenant, by which HTTP calls are signed.
type SigningKey struct {
	Name      string          `json:"name"`
	CreatedAt time.Time       `json:"created_at"`
	CreatedBy string          `json:"created_by,omitempty"`
	Secrets   []SigningSecret `json:"secrets"` // newest first: the one in force, and those that it has replaced
}

// SigningKeys are all signing keys of a tenant, in name order.
type SigningKeys struct {
	Revision int64        `json:"-"` // drawn for every change, and higher than the one before
	Keys     []SigningKey `json:"keys"`
}

// SigningKeyStore holds the signing keys of tenants, by conditional writes only.
type SigningKeyStore interface {
	// SwapSigningKeys replaces all keys of a tenant, as read at revision was (0: there are none), by is. Repeating it is harmless as long as nothing else
	// has come after it. ErrConflict: another revision stands. ErrUnknown: it may or may not stand, and may still come to. A revision that does not
	// grow changes nothing.
	SwapSigningKeys(ctx context.Context, tenant string, was int64, is SigningKeys) error
	// SigningKeys returns the keys of a tenant, or ErrNotFound if there never were any.
	SigningKeys(ctx context.Context, tenant string) (SigningKeys, error)
}

// errRevision: keys were to be swapped by ones whose revision does not grow.
var errRevision = errors.New("the revision of signing keys only grows")

// Follows reports whether k may take the place of the keys of revision was.
func (k *SigningKeys) Follows(was int64) error {
	if k.Revision <= was || was < 0 {
		return errRevision
	}
	return nil
}
