// Package webhook signs HTTP calls and checks their signatures, as the specification "Standard
// Webhooks" says (standardwebhooks.com), version 1.
//
// A call has three headers: webhook-id, which stays the same when the call is repeated;
// webhook-timestamp, in seconds since the Unix epoch; and webhook-signature, a list of signatures
// separated by spaces, each of them "v1," and the base64 of the HMAC-SHA256 over
//
//	<id>.<timestamp>.<body>
//
// There are several while a secret is being replaced: one that is right is enough. A secret is 24
// to 64 bytes, written as "whsec_" and their base64.
//
// Executors use Sign. Verifier is for those who are called by Carillon, or by anybody else who
// keeps to the specification. The package imports the standard library alone, so that it can be
// used without the rest.
package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of a signed call.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// DefaultTolerance is how old a call may be, or how far ahead of the receiver's clock: what is
// older may be a replay.
const DefaultTolerance = 5 * time.Minute

const (
	secretPrefix = "whsec_"
	version      = "v1,"
	secretBytes  = 32 // of a new secret
	minSecret    = 24 // bytes, as the specification bounds them
	maxSecret    = 64
	// maxSignatures bounds how many signatures of a call are looked at.
	maxSignatures = 16
)

// The faults of a call.
var (
	ErrUnsigned  = errors.New("webhook: a header is missing or not valid")
	ErrTimestamp = errors.New("webhook: the timestamp is too old or lies ahead")
	ErrSignature = errors.New("webhook: no signature is right")
)

// errSecret never holds the secret.
var errSecret = errors.New("webhook: a secret is \"whsec_\" and the base64 of 24 to 64 bytes")

// NewSecret draws a secret.
func NewSecret() []byte {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails (crypto/rand.Read's contract since Go 1.24)
	return secret
}

// FormatSecret returns a secret as it is shown to people.
func FormatSecret(secret []byte) string {
	return secretPrefix + base64.StdEncoding.EncodeToString(secret)
}

// ParseSecret reads what FormatSecret has written. The error does not repeat it.
func ParseSecret(text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(secret) < minSecret || len(secret) > maxSecret {
		return nil, errSecret
	}
	return secret, nil
}

// Sign returns what the header webhook-signature says of a call with that id and body at that time
// (to the second): a signature for each secret.
func Sign(id string, at time.Time, body []byte, secrets ...[]byte) string {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	out := make([]byte, 0, len(secrets)*(len(version)+base64.StdEncoding.EncodedLen(sha256.Size)+1))
	for i, secret := range secrets {
		if i > 0 {
			out = append(out, ' ')
		}
		out = append(out, version...)
		out = base64.StdEncoding.AppendEncode(out, sum(id, timestamp, body, secret))
	}
	return string(out)
}

func sum(id, timestamp string, body, secret []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	head := make([]byte, 0, len(id)+len(timestamp)+2)
	head = append(append(append(append(head, id...), '.'), timestamp...), '.')
	mac.Write(head)
	mac.Write(body)
	return mac.Sum(nil)
}

// Verifier checks calls. Its methods may be called from many goroutines.
type Verifier struct {
	// Tolerance is DefaultTolerance unless it is set; Now is time.Now.
	Tolerance time.Duration
	Now       func() time.Time

	secrets [][]byte
}

// NewVerifier returns a Verifier that takes calls signed with any of the secrets ("whsec_…"). While
// a secret is being replaced there are two.
func NewVerifier(secrets ...string) (*Verifier, error) {
	v := &Verifier{}
	for i, text := range secrets {
		secret, err := ParseSecret(text)
		if err != nil {
			return nil, fmt.Errorf("secret %d: %w", i+1, err)
		}
		v.secrets = append(v.secrets, secret)
	}
	if len(v.secrets) == 0 {
		return nil, errors.New("webhook: a verifier needs a secret")
	}
	return v, nil
}

// Verify reports whether a call with those headers and that body, as received to the byte, is from
// who has a secret, and is of now: ErrUnsigned, ErrTimestamp or ErrSignature if not. A caller that
// remembers the ids (webhook-id) for the tolerance also notices repetitions.
func (v *Verifier) Verify(h http.Header, body []byte) error {
	id, timestamp, signatures := h.Get(HeaderID), h.Get(HeaderTimestamp), h.Get(HeaderSignature)
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	// A timestamp has one way to be written, or "+1" and "1" would be two of one signature's worth.
	if id == "" || signatures == "" || err != nil || strconv.FormatInt(seconds, 10) != timestamp {
		return ErrUnsigned
	}
	tolerance, now := v.Tolerance, time.Now
	if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	if v.Now != nil {
		now = v.Now
	}
	if limit := int64(tolerance / time.Second); seconds < now().Unix()-limit || seconds > now().Unix()+limit {
		return ErrTimestamp
	}
	right, looked := false, 0
	for text := range strings.SplitSeq(signatures, " ") {
		if looked++; looked > maxSignatures {
			break
		}
		encoded, ok := strings.CutPrefix(text, version)
		if !ok {
			continue // of a version to come, or with a public key (v1a)
		}
		given, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			continue
		}
		for _, secret := range v.secrets {
			// Constant in time, or a forger could find the right bytes one after the other.
			right = hmac.Equal(given, sum(id, timestamp, body, secret)) || right
		}
	}
	if !right {
		return ErrSignature
	}
	return nil
}
