package jetstream

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
)

// TLS says how connections are encrypted. The server's certificate is always verified. Its files are
// read at each connection, so those that were renewed are in use from the next one on.
type TLS struct {
	CA         string // file of PEM certificates to trust; empty = those of the system
	Cert       string // file of our own certificate, for servers that ask for one; with Key
	Key        string
	ServerName string // empty = the host of each URL
}

// apply has connections use it.
func (t TLS) apply(o *nats.Options) {
	o.Secure, o.TLSConfig = true, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		o.RootCAsCB = t.roots
	}
	if t.Cert != "" {
		o.TLSCertCB = func() (tls.Certificate, error) {
			c, err := tls.LoadX509KeyPair(t.Cert, t.Key)
			if err != nil {
				return c, fmt.Errorf("certificate of the node: %w", err)
			}
			return c, nil
		}
	}
}

// roots reads the certificates to trust.
func (t TLS) roots() (*x509.CertPool, error) {
	text, err := os.ReadFile(t.CA) // #nosec G304 -- the operator names it
	if err != nil {
		return nil, fmt.Errorf("certificates to trust: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("certificates to trust: %s holds none", t.CA)
	}
	return pool, nil
}
