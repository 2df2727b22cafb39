package httpapi

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLSFiles names the files, as PEM, by which a client speaks TLS. Empty: certificates of nodes come
// from the system's authorities, and the client shows none.
type TLSFiles struct {
	CA   string // authorities of nodes' certificates
	Cert string // the certificate to show; with Key
	Key  string
}

// Config reads the files; nil means that none is named.
func (f TLSFiles) Config() (*tls.Config, error) {
	if f == (TLSFiles{}) {
		return nil, nil //nolint:nilnil // net/http takes it so
	}
	var faults []error
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		text, err := os.ReadFile(f.CA)
		c.RootCAs = x509.NewCertPool()
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("authorities of nodes: %w", err))
		case !c.RootCAs.AppendCertsFromPEM(text):
			faults = append(faults, fmt.Errorf("authorities of nodes: %s holds no certificate, as PEM", f.CA))
		}
	}
	switch {
	case (f.Cert == "") != (f.Key == ""):
		faults = append(faults, errors.New("a client's certificate goes together with its key"))
	case f.Cert != "":
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			faults = append(faults, fmt.Errorf("certificate of the client: %w", err))
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, errors.Join(faults...)
}
