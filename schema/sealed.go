package schema

import (
	"bytes"
	"fmt"
)

// ErrSealed: data of a tenant that is stored encrypted cannot be opened here: the key is not
// configured, or the data was damaged or moved from another row. It is an ErrNotUnderstood.
var ErrSealed = fmt.Errorf("%w: it is encrypted and cannot be opened here", ErrNotUnderstood)

// Sealed is data of a tenant as it is stored encrypted (package sealed). Its bytes are, in this
// order:
//
//	4 magic | 1 len key | key | 12 nonce | the data encrypted, as long as it is clear | 16 tag
//
// Payloads are JSON, or the definition of a workflow, and so never begin with the magic.
type Sealed struct {
	Key   string // the name of the operator's key
	Nonce []byte
	Text  []byte // the data, encrypted, and its tag
}

const (
	sealedNonce = 12
	sealedTag   = 16
)

// sealedMagic is what no JSON begins with, nor text.
var sealedMagic = []byte("\x00cs\x01")

// IsSealed reports whether b is sealed, by its first bytes.
func IsSealed(b []byte) bool { return len(b) > 0 && b[0] == 0 && bytes.HasPrefix(b, sealedMagic) }

// ClearSize returns how many bytes b has when it is clear: what bounds of payloads are about.
func ClearSize(b []byte) int {
	if !IsSealed(b) {
		return len(b)
	}
	s, err := ParseSealed(b)
	if err != nil {
		return len(b)
	}
	return len(s.Text) - sealedTag
}

// Append appends the bytes of s to b.
func (s Sealed) Append(b []byte) []byte {
	b = append(b, sealedMagic...)
	b = append(b, byte(len(s.Key))) // #nosec G115 -- names of keys are short
	b = append(b, s.Key...)
	b = append(b, s.Nonce...)
	return append(b, s.Text...)
}

// ParseSealed is the inverse of Append. It shares b's memory; the error is ErrSealed.
func ParseSealed(b []byte) (Sealed, error) {
	rest, ok := bytes.CutPrefix(b, sealedMagic)
	if !ok || len(rest) == 0 || len(rest) < 1+int(rest[0])+sealedNonce+sealedTag {
		return Sealed{}, fmt.Errorf("%w: it is cut, or damaged", ErrSealed)
	}
	n := 1 + int(rest[0])
	return Sealed{Key: string(rest[1:n]), Nonce: rest[n : n+sealedNonce], Text: rest[n+sealedNonce:]}, nil
}

// PayloadOpener opens payloads that were carried as they are stored (package sealed). A store that
// is none needs none.
type PayloadOpener interface {
	// OpenPayload returns the payload that the entry carries, or ErrSealed.
	OpenPayload(e *Entry) ([]byte, error)
}
