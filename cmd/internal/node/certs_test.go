package node

import (
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/deploy/local/cluster"
)

// A node whose configuration names a certificate is reached over TLS alone, and takes another one
// while it runs.
func TestTheAPIHasTLS(t *testing.T) {
	dir := t.TempDir()
	made := func(name string) (ca, cert string) {
		t.Helper()
		authority, server, err := cluster.NewCertificate([]net.IP{net.IPv4(127, 0, 0, 1)}, "api.test", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		ca, cert = filepath.Join(dir, name+"-ca.pem"), filepath.Join(dir, name+".pem")
		if err := errors.Join(os.WriteFile(ca, authority, 0o600), os.WriteFile(cert, server, 0o600)); err != nil {
			t.Fatal(err)
		}
		return ca, cert
	}
	ca, cert := made("one")
	w := newWorld(t, "a")
	secure := func(c *config.Config) { c.API.TLS.Cert, c.API.TLS.Key = cert, cert }
	r := startWith(t, "a", w.opener("a"), slog.New(slog.DiscardHandler), secure)
	base := <-r.ready
	if !strings.HasPrefix(base, "https://") {
		t.Errorf("the node is at %s, want https", base)
	}
	ask := func(url, ca string) error {
		t.Helper()
		client, err := httpapi.NewClient(httpapi.ClientConfig{URLs: []string{url}, TLS: httpapi.TLSFiles{CA: ca}, Retries: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		_, err = client.Whoami(t.Context())
		return err
	}
	if err := ask(base, ca); err != nil {
		t.Errorf("a client that trusts the authority: %v", err)
	}
	if err := ask(r.url, ""); err == nil {
		t.Error("a client without TLS is answered")
	}
	next, cert2 := made("two")
	var unknown x509.UnknownAuthorityError
	if err := ask(base, next); !errors.As(err, &unknown) {
		t.Errorf("a client of another authority: %v, want that it knows none", err)
	}
	cfg := r.node.cfg
	cfg.API.TLS.Cert, cfg.API.TLS.Key = cert2, cert2
	if err := r.node.certs.replace(cfg); err != nil {
		t.Fatal(err)
	}
	if err := ask(base, next); err != nil {
		t.Errorf("a client that trusts the next authority, after the certificate was replaced: %v", err)
	}
	cfg.API.TLS.Cert, cfg.API.TLS.Key = "", ""
	if err := r.node.certs.replace(cfg); !errors.Is(err, errRestart) {
		t.Errorf("TLS is turned off: %v, want that it needs a restart", err)
	}
}
