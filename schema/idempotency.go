package schema

import (
	"context"
	"time"
)

// KeyRecord is what an idempotency key stands for: the hash of the body that it came with first,
// and the entry made of that body.
type KeyRecord struct {
	BodyHash string
	Entry    EntryID
	Text     []byte // the entry's text and payload, to write the recorded row again
	Payload  []byte
	Expires  time.Time // of the entry
}

// KeyStore holds idempotency keys.
type KeyStore interface {
	// RegisterKey records claim under the tenant's key, until expires, unless the key is taken. It
	// returns the record that stands, and whether it is the one given.
	RegisterKey(ctx context.Context, tenant, key string, claim KeyRecord, expires time.Time) (KeyRecord, bool, error)
}
