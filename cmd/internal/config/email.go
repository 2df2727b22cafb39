package config

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"os"
	"slices"
	"strconv"
	"strings"

	"carillon.dev/carillon/schema"
)

// Email is the operator's mail server: notifications by mail that name none are sent by it.
type Email struct {
	Server   string `koanf:"server"` // host:port; empty: there is none
	TLS      string `koanf:"tls"`    // one of schema.EmailTLS
	CA       string `koanf:"ca"`     // file; default: the system's roots
	Username string `koanf:"username"`
	Password string `koanf:"password"`
	From     string `koanf:"from"` // the address that mails come from
	// Recipients are whom mails may go to: addresses, or domains with an @ before them. Empty: all.
	Recipients []string `koanf:"recipients"`
}

// Validate reports every fault of the keys.
func (e Email) Validate() error {
	var faults []error
	fault := func(key, format string, args ...any) {
		faults = append(faults, fmt.Errorf("email.%s: %s", key, fmt.Sprintf(format, args...)))
	}
	if !slices.Contains(schema.EmailTLS, e.TLS) {
		fault("tls", "%q is not %s", e.TLS, strings.Join(schema.EmailTLS, ", "))
	}
	if (e.Username == "") != (e.Password == "") {
		fault("username", "goes together with email.password")
	}
	if e.TLS == schema.NoTLS && e.Password != "" {
		fault("tls", "none sends the password for everybody to read")
	}
	if e.CA != "" {
		if _, err := e.Roots(); err != nil {
			fault("ca", "%v", err)
		}
	}
	for _, r := range e.Recipients {
		if local, domain, found := strings.Cut(r, "@"); !found || domain == "" || strings.ContainsAny(local+domain, "@ ") {
			fault("recipients", "%q is not an address, or a domain with an @ before it", r)
		}
	}
	if e.Server == "" {
		return errors.Join(faults...)
	}
	host, port, err := net.SplitHostPort(e.Server)
	if n, notNumber := strconv.Atoi(port); err != nil || host == "" || notNumber != nil || n < 1 || n > 65535 {
		fault("server", "%q is not host:port", e.Server)
	}
	if a, err := mail.ParseAddress(e.From); err != nil || strings.ContainsFunc(e.From, func(r rune) bool { return r < ' ' || r > '~' }) || !strings.Contains(a.Address, "@") {
		fault("from", "%q is not an address such as carillon@example.com", e.From)
	}
	return errors.Join(faults...)
}

// Roots returns whom the server's certificate is to come from; nil: the system's.
func (e Email) Roots() (*x509.CertPool, error) {
	if e.CA == "" {
		return nil, nil //nolint:nilnil // crypto/tls takes it so
	}
	text, err := os.ReadFile(e.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate, as PEM", e.CA)
	}
	return pool, nil
}
