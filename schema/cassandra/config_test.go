package cassandra

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// notify is a logger that calls f at every message of level info or above: not at what the driver
// says.
func notify(f func()) *slog.Logger { return slog.New(notifying{slog.DiscardHandler, f}) }

type notifying struct {
	slog.Handler
	f func()
}

func (n notifying) Enabled(_ context.Context, l slog.Level) bool  { return l >= slog.LevelInfo }
func (n notifying) Handle(_ context.Context, _ slog.Record) error { n.f(); return nil }

func TestValidateReportsEveryFault(t *testing.T) {
	err := Config{
		Hosts: []string{""}, Port: 70000, Keyspace: "Big Name", Datacenter: "d'c", Password: "secret",
		TLS: &TLS{Cert: "c"}, Timeout: -1, ConnectTimeout: 1, ReconnectInterval: 1, NumConns: 1000, PageBytes: 1,
	}.Validate()
	if err == nil {
		t.Fatal("Validate: got nil, want faults")
	}
	for _, want := range []string{
		"hosts:", "port:", "keyspace:", "datacenter:", "password:", "tls:",
		" timeout:", "connect_timeout:", "reconnect_interval:", "num_conns:", "page_bytes:",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Validate: no fault of %q in: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("Validate tells the password: %v", err)
	}
	if err := (Config{Hosts: []string{"h"}}).Validate(); err != nil {
		t.Errorf("Validate of the defaults: %v", err)
	}
	if err := (Config{}).Validate(); err == nil {
		t.Error("Validate without hosts: got nil")
	}
}

func TestTLSConfig(t *testing.T) {
	ca, server := newCertificates(t)
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		tls   TLS
		fault string
	}{
		{"system's certificates", TLS{}, ""},
		{"own certificates", TLS{CA: ca, Cert: server.cert, Key: server.key, ServerName: "n"}, ""},
		{"no such file", TLS{CA: filepath.Join(dir, "none.pem")}, "read certificates to trust"},
		{"a file without certificates", TLS{CA: empty}, "holds no PEM certificate"},
		{"a key that is none", TLS{Cert: server.cert, Key: empty}, "read client certificate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cl, err := Config{Hosts: []string{"h"}, TLS: &test.tls}.withDefaults().cluster("")
			if test.fault != "" {
				if err == nil || !strings.Contains(err.Error(), test.fault) {
					t.Fatalf("cluster: got %v, want %q", err, test.fault)
				}
				return
			}
			if err != nil {
				t.Fatalf("cluster: %v", err)
			}
			if o := cl.SslOpts; !o.EnableHostVerification || o.InsecureSkipVerify || o.MinVersion < tls.VersionTLS12 || o.ServerName != test.tls.ServerName {
				t.Errorf("cluster: verification %v, skipped %v, version %x, name %q", o.EnableHostVerification, o.InsecureSkipVerify, o.MinVersion, o.ServerName)
			}
		})
	}
}

// TestWrongCertificateIsRefused: a server that anybody could be is not spoken to, whatever it would
// answer.
func TestWrongCertificateIsRefused(t *testing.T) {
	ca, server := newCertificates(t)
	otherCA, _ := newCertificates(t)
	pair, err := tls.LoadX509KeyPair(server.cert, server.key)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name      string
		tls       TLS
		handshake bool
	}{
		{"right", TLS{CA: ca, ServerName: "cassandra.test"}, true},
		{"unknown authority", TLS{CA: otherCA, ServerName: "cassandra.test"}, false},
		{"other name", TLS{CA: ca, ServerName: "other.test"}, false},
		{"address that the certificate does not have", TLS{CA: ca}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan bool)
			go func() { // accepts until closed; says whether any handshake ended well
				good := false
				for {
					conn, err := l.Accept()
					if err != nil {
						done <- good
						return
					}
					c := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{pair}})
					if c.Handshake() == nil {
						// the client speaks only to whom it trusts
						_, err := c.Read(make([]byte, 1))
						good = good || err == nil
					}
					_ = c.Close()
				}
			}()
			cfg := Config{Hosts: []string{"127.0.0.1"}, Port: l.Addr().(*net.TCPAddr).Port, TLS: &test.tls}
			_, err = Open(t.Context(), cfg)
			if err == nil {
				t.Error("Open of a server that answers nothing: got nil")
			}
			if !test.handshake && errors.Is(err, schema.ErrUnavailable) {
				t.Errorf("Open: got %v: a wrong certificate does not get right by trying again", err)
			}
			_ = l.Close()
			if got := <-done; got != test.handshake {
				t.Errorf("spoke to the server: %v, want %v (Open: %v)", got, test.handshake, err)
			}
		})
	}
}

type certificate struct{ cert, key string }

// newCertificates makes an authority, and a certificate of it for cassandra.test, in files.
func newCertificates(t *testing.T) (ca string, server certificate) {
	t.Helper()
	dir := t.TempDir()
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sign := func(c, parent *x509.Certificate, pub, by any) []byte {
		der, err := x509.CreateCertificate(rand.Reader, c, parent, pub, by)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	caKey, serverKey := key(), key()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "cassandra.test"}, DNSNames: []string{"cassandra.test"},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
	}
	der, err := x509.MarshalECPrivateKey(serverKey)
	if err != nil {
		t.Fatal(err)
	}
	ca = write("ca.pem", "CERTIFICATE", sign(authority, authority, &caKey.PublicKey, caKey))
	server.cert = write("cert.pem", "CERTIFICATE", sign(leaf, authority, &serverKey.PublicKey, caKey))
	server.key = write("key.pem", "EC PRIVATE KEY", der)
	return ca, server
}
