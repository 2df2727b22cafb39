package forward

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
)

// DialBy has a Forwarder that has sent nothing yet connect by dial.
func DialBy(f *Forwarder, dial func(context.Context) (net.Conn, error)) {
	f.http.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
}

// Trust has a Forwarder that has sent nothing yet trust certificates of roots.
func Trust(f *Forwarder, roots *x509.CertPool) {
	f.http.TLSClientConfig = &tls.Config{RootCAs: roots}
}
