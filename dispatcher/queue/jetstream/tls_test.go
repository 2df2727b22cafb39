package jetstream_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"carillon.dev/carillon/dispatcher/queue/jetstream"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	a := authority{}
	_, a.cert, a.key = a.issue(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "authority"}})
	return a
}

// issue makes a certificate, which an authority without one signs for itself.
func (a authority) issue(t *testing.T, template *x509.Certificate) ([]byte, *x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if a.cert == nil {
		a = authority{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return der, cert, key
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// secured starts a server that proves to be "nats.test" by the authority, and asks clients for a
// certificate of it. It returns its URL.
func secured(t *testing.T, a authority) string {
	t.Helper()
	der, _, key := a.issue(t, &x509.Certificate{DNSNames: []string{"nats.test"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(), TLS: true, TLSVerify: true, TLSTimeout: 60,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, MinVersion: tls.VersionTLS12},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server is not ready")
	}
	return "nats://" + s.Addr().(*net.TCPAddr).String()
}

// waits is a log that tells of failures to connect.
type waits struct {
	slog.Handler
	errs chan string
}

func (waits) Enabled(context.Context, slog.Level) bool { return true }

func (w waits) WithAttrs([]slog.Attr) slog.Handler { return w }

func (w waits) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "err" {
			select {
			case w.errs <- a.Value.String():
			default:
			}
		}
		return true
	})
	return nil
}

// A client proves who it is, wants the server to be who it says, and takes files that were renewed
// at its next try.
func TestTLS(t *testing.T) {
	right, wrong := newAuthority(t), newAuthority(t)
	url, dir := secured(t, right), t.TempDir()
	files := &jetstream.TLS{CA: filepath.Join(dir, "ca"), Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), ServerName: "nats.test"}
	prove := func(a authority) {
		der, _, key := a.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "node"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		secret, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		writePEM(t, files.Cert, "CERTIFICATE", der)
		writePEM(t, files.Key, "EC PRIVATE KEY", secret)
	}
	prove(right)
	writePEM(t, files.CA, "CERTIFICATE", wrong.cert.Raw)

	w := waits{slog.DiscardHandler, make(chan string, 1)}
	connected := make(chan *jetstream.Queue, 1)
	go func() {
		q, err := jetstream.Connect(t.Context(), jetstream.Config{URLs: []string{url}, TLS: files, Memory: true, Logger: slog.New(w)})
		if err != nil {
			t.Errorf("Connect: %v", err)
		}
		connected <- q
	}()
	select {
	case err := <-w.errs:
		if !strings.Contains(err, "certificate") {
			t.Errorf("with another authority: %s, want that the certificate is not trusted", err)
		}
	case q := <-connected:
		if q != nil {
			_ = q.Close()
		}
		t.Fatal("the client trusts a server of another authority")
	}
	writePEM(t, files.CA, "CERTIFICATE", right.cert.Raw)
	q := <-connected
	if q == nil {
		t.Fatal("there is no connection after the authority was put right")
	}
	if err := q.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}

	for name, spoil := range map[string]func(c *jetstream.TLS){
		"another name":             func(c *jetstream.TLS) { c.ServerName = "other.test" },
		"a file that there is not": func(c *jetstream.TLS) { c.CA = filepath.Join(dir, "none") },
		"a file without any":       func(c *jetstream.TLS) { c.CA = files.Key },
		"no certificate":           func(c *jetstream.TLS) { c.Cert, c.Key = "", "" },
		"another's certificate":    func(*jetstream.TLS) { prove(wrong) },
	} {
		t.Run(name, func(t *testing.T) {
			prove(right)
			c := *files
			spoil(&c)
			ctx, cancel := context.WithCancel(t.Context())
			w := waits{slog.DiscardHandler, make(chan string, 1)}
			ended := make(chan error, 1)
			go func() {
				q, err := jetstream.Connect(ctx, jetstream.Config{URLs: []string{url}, TLS: &c, Memory: true, Logger: slog.New(w)})
				if err == nil {
					_ = q.Close()
				}
				ended <- err
			}()
			select {
			case <-w.errs: // refused: it tries again
				cancel()
				if err := <-ended; err == nil {
					t.Error("Connect = nil after a refusal")
				}
			case err := <-ended:
				cancel()
				if err == nil {
					t.Error("Connect = nil, want it refused")
				}
			}
		})
	}
}
