package auth

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"

	"carillon.dev/carillon/schema"
)

// IdentityKey names what a certificate, its key and the authorities of callees are made of, without
// holding them: equal keys are equal identities.
type IdentityKey [sha256.Size]byte

// KeyOfIdentity returns the key of what Configure would make.
func KeyOfIdentity(a *schema.MTLSAuth, v Values) (key IdentityKey) {
	h := sha256.New()
	for _, name := range []string{a.CertificateSecret, a.KeySecret, a.CASecret} {
		_ = binary.Write(h, binary.BigEndian, int64(len(v[name]))) // a hash takes all
		for _, value := range v[name] {
			_ = binary.Write(h, binary.BigEndian, int64(len(value)))
			_, _ = h.Write(value)
		}
	}
	h.Sum(key[:0])
	return key
}

// Configure has a configuration of TLS show the certificate. Certificate and key are two secrets,
// put one after the other: of their values the newest two count that belong together. An error is a
// Fault.
func Configure(to *tls.Config, a *schema.MTLSAuth, v Values) error {
	certificates, keys := v[a.CertificateSecret], v[a.KeySecret]
	for _, name := range []string{a.CertificateSecret, a.KeySecret} {
		if _, err := v.newest(name); err != nil {
			return err
		}
	}
	found := false
	for age := 0; age <= len(certificates)+len(keys)-2 && !found; age++ {
		for i := max(0, age-len(keys)+1); i <= min(age, len(certificates)-1) && !found; i++ {
			// The errors of the library are about what the secrets hold.
			if pair, err := tls.X509KeyPair(certificates[i], keys[age-i]); err == nil {
				to.Certificates, found = []tls.Certificate{pair}, true
			}
		}
	}
	if !found {
		return faultf("the secrets %s and %s are not a certificate and its private key, as PEM", a.CertificateSecret, a.KeySecret)
	}
	if a.CASecret == "" {
		return nil
	}
	roots, err := Roots(a.CASecret, v)
	if err != nil {
		return err
	}
	to.RootCAs = roots
	return nil
}
