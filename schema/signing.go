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

// DefaultSigningKey signs the HTTP calls that name no key.
const DefaultSigningKey = "default"

// SigningSecret is a secret of a signing key. It is stored sealed, so the store's rows do not give
// it away.
type SigningSecret struct {
	SealedWith string    `json:"sealed_with"` // which of the operator's keys opens it
	Sealed     []byte    `json:"sealed"`
	CreatedAt  time.Time `json:"created_at"`
	Until      time.Time `json:"until,omitzero"` // it signs before this; zero: until it is replaced
}

// SigningKey is a named key of a tenant that signs HTTP calls.
type SigningKey struct {
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by,omitempty"`
	// Secrets: newest first: the one in force, and those that it has replaced.
	Secrets []SigningSecret `json:"secrets"`
}

// SigningKeys are all signing keys of a tenant, in name order.
type SigningKeys struct {
	Revision int64        `json:"-"` // drawn for every change, and higher than the one before
	Keys     []SigningKey `json:"keys"`
}

// SigningKeyStore holds the signing keys of tenants, by conditional writes only.
type SigningKeyStore interface {
	// SwapSigningKeys replaces all keys of a tenant, as read at revision was (0: there are none),
	// by is. Repeating it is harmless as long as nothing else has followed.
	//
	//	ErrConflict   another revision stands
	//	ErrUnknown    it may stand, or come to stand
	//	other         the revision of is must grow, or nothing is changed
	SwapSigningKeys(ctx context.Context, tenant string, was int64, is SigningKeys) error
	// SigningKeys returns the keys of a tenant, or ErrNotFound if there never were any.
	SigningKeys(ctx context.Context, tenant string) (SigningKeys, error)
}

// errRevision: the new keys have no higher revision.
var errRevision = errors.New("the revision of signing keys only grows")

// Follows returns an error if k may not replace the keys of revision was.
func (k *SigningKeys) Follows(was int64) error {
	if k.Revision <= was || was < 0 {
		return errRevision
	}
	return nil
}
