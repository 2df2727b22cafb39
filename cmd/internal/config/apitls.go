package config

import (
	"errors"
	"fmt"
	"strings"

	"carillon.dev/carillon/bucketer/admin"
)

// APITLS says by which certificates the API is served, and which its clients show.
type APITLS struct {
	Cert string `koanf:"cert"` // file; empty: no TLS
	Key  string `koanf:"key"`
	// ClientCA names the file of the authorities of clients' certificates; empty: none is asked
	// for.
	ClientCA string `koanf:"client_ca"`
	// ClientAuth is ClientsRequired or ClientsOptional.
	ClientAuth string `koanf:"client_auth"`
	// Clients are "subject=tenant/role": whom a certificate stands for.
	Clients []string `koanf:"clients"`
}

// What APITLS.ClientAuth may be.
const (
	ClientsRequired = "required"
	ClientsOptional = "optional"
)

// On reports whether the API has TLS.
func (t APITLS) On() bool { return t.Cert != "" }

// Scheme returns that of the URLs of the API.
func (t APITLS) Scheme() string {
	if t.On() {
		return "https"
	}
	return "http"
}

// Validate reports every fault of the keys. It reads no file.
func (t APITLS) Validate() error {
	var faults []error
	fault := func(key, format string, args ...any) {
		faults = append(faults, fmt.Errorf("api.tls.%s: %s", key, fmt.Sprintf(format, args...)))
	}
	if (t.Cert == "") != (t.Key == "") {
		fault("cert", "goes together with api.tls.key")
	}
	if t.ClientCA != "" && !t.On() {
		fault("client_ca", "is set, and api.tls.cert is not: clients would not be asked")
	}
	if t.ClientAuth != ClientsRequired && t.ClientAuth != ClientsOptional {
		fault("client_auth", "%q is not %s or %s", t.ClientAuth, ClientsRequired, ClientsOptional)
	}
	if len(t.Clients) > 0 && t.ClientCA == "" {
		fault("clients", "are named, and api.tls.client_ca is not: nobody's certificate would be verified")
	}
	if _, err := t.Identities(); err != nil {
		fault("clients", "%v", err)
	}
	return errors.Join(faults...)
}

// Identities returns whom certificates stand for, by subject.
func (t APITLS) Identities() (map[string]admin.Identity, error) {
	all := make(map[string]admin.Identity, len(t.Clients))
	var faults []error
	for _, text := range t.Clients {
		at := strings.LastIndexByte(text, '=') // a subject has some, too
		if at <= 0 {
			faults = append(faults, fmt.Errorf("%q is not a subject, '=', and a tenant and role, such as deploy=acme/operator", text))
			continue
		}
		subject := strings.TrimSpace(text[:at])
		who, err := admin.ParseGrant(text[at+1:])
		if err != nil {
			faults = append(faults, fmt.Errorf("%q: %w", text, err))
		}
		if _, twice := all[subject]; twice {
			faults = append(faults, fmt.Errorf("%q is there twice", subject))
		}
		all[subject] = who
	}
	return all, errors.Join(faults...)
}
