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

// errRevision: what is to follow has no higher revision.
var errRevision = errors.New("a revision only grows")

// Follows returns an error if k may not replace the keys of revision was.
func (k *SigningKeys) Follows(was int64) error {
	if k.Revision <= was || was < 0 {
		return errRevision
	}
	return nil
}

// Bounds of a tenant's secrets.
const (
	MaxSecrets        = 100      // of a tenant
	MinSecretValue    = 4        // bytes: what is shorter could not be kept out of outputs
	MaxSecretValue    = 64 << 10 // bytes
	MaxSecretVersions = 3        // of a secret: the one in force and those before it
)

// SecretVersion is a value that a secret has or had. It is stored sealed, so the store's rows do
// not give it away.
type SecretVersion struct {
	Number     int64     `json:"number"`      // from 1; each put of another value takes the next
	SealedWith string    `json:"sealed_with"` // which of the operator's keys opens it
	Sealed     []byte    `json:"sealed"`
	CreatedAt  time.Time `json:"created_at"`
	CreatedBy  string    `json:"created_by,omitempty"`
	Until      time.Time `json:"until,omitzero"` // it is opened before this; zero: until it is replaced
}

// Secret is a value of a tenant that calls are made with, and that nobody can read back: a
// password, a token, a private key.
type Secret struct {
	Tenant    string    `json:"-"`
	Name      string    `json:"-"` // unique in the tenant
	Revision  int64     `json:"-"` // drawn for every change, and higher than the one before
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by,omitempty"`
	LastUsed  time.Time `json:"-"` // to some minutes; zero: never
	// Versions: newest first: the one in force, and those that it has replaced.
	Versions []SecretVersion `json:"versions"`

	// Fault is set in a list where the stored text cannot be understood (ErrNotUnderstood). Then
	// all but the names is unknown.
	Fault error `json:"-"`
}

// Follows returns an error if s may not replace the secret of revision was.
func (s *Secret) Follows(was int64) error {
	if s.Revision <= was || was < 0 {
		return errRevision
	}
	return nil
}

// SecretStore holds the secrets of tenants. They are changed by conditional writes only.
type SecretStore interface {
	// SwapSecret replaces the secret, as read at revision was (0: there is none), by is. LastUsed
	// stays. Repeating it is harmless as long as nothing else has followed.
	//
	//	ErrConflict   another revision stands
	//	ErrUnknown    it may stand, or come to stand
	//	other         the revision of is must grow, or nothing is changed
	SwapSecret(ctx context.Context, was int64, is Secret) error
	// DeleteSecret removes the secret that was read at revision was. One that is not there is
	// removed already. Errors as SwapSecret.
	DeleteSecret(ctx context.Context, tenant, name string, was int64) error
	// Secret returns a secret, or ErrNotFound.
	Secret(ctx context.Context, tenant, name string) (Secret, error)
	// Secrets returns at most limit secrets of a tenant with a name after `after`, in name order.
	Secrets(ctx context.Context, tenant, after string, limit int) ([]Secret, error)
	// TouchSecret notes that the secret was used then. The latest use stands. A use makes no
	// secret of one that was deleted.
	TouchSecret(ctx context.Context, tenant, name string, at time.Time) error
}
