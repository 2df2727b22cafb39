package certs

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
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// authority signs certificates of tests.
type authority struct {
	t      *testing.T
	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, time.Now().Add(time.Hour))
	return a
}

// sign makes a certificate of a template, and its key: by the authority, or by itself if there is
// none yet.
func (a *authority) sign(c *x509.Certificate, until time.Time) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.serial++
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(a.serial), time.Now().Add(-2*time.Hour), until
	parent, by := c, key
	if a.cert != nil {
		parent, by = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return signed, key
}

// write puts PEM blocks into a file.
func (a *authority) write(name string, blocks ...*pem.Block) string {
	a.t.Helper()
	var text []byte
	for _, b := range blocks {
		text = append(text, pem.EncodeToMemory(b)...)
	}
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// ca returns the file of the authority's certificate.
func (a *authority) ca() string {
	return a.write("ca.pem", &pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// pool trusts the authority.
func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// issue makes the certificate of a name, which is good until then, in two files.
func (a *authority) issue(subject pkix.Name, until time.Time) (cert, key string) {
	a.t.Helper()
	c, k := a.sign(&x509.Certificate{
		Subject: subject, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, until)
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(subject.CommonName+".pem", &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}),
		a.write(subject.CommonName+".key", &pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// pair is the certificate of a name, to be shown by a client.
func (a *authority) pair(subject pkix.Name, until time.Time) []tls.Certificate {
	a.t.Helper()
	c, err := tls.LoadX509KeyPair(a.issue(subject, until))
	if err != nil {
		a.t.Fatal(err)
	}
	return []tls.Certificate{c}
}

func soon() time.Time { return time.Now().Add(30 * time.Minute) }
func past() time.Time { return time.Now().Add(-time.Minute) }

// serve serves by s, and answers with who the client is.
func serve(t *testing.T, s *Server) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, known := s.Peer(r.TLS)
		if !known {
			who.Name = "nobody"
		}
		_, _ = io.WriteString(w, who.Name+" "+who.Tenant+" "+string(who.Role))
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(s.Listen(l)) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return l.Addr().String()
}

// ask asks on a connection of its own. It returns the answer, and the number of the server's
// certificate.
func ask(ctx context.Context, address string, c *tls.Config) (answer string, serial int64, err error) {
	transport := &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/", nil)
	if err != nil {
		return "", 0, err
	}
	r, err := transport.RoundTrip(req)
	if err != nil {
		return "", 0, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return string(text), r.TLS.PeerCertificates[0].SerialNumber.Int64(), err
}

func load(t *testing.T, f Files) *Server {
	t.Helper()
	s, err := Load(f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestClientsAreVerified(t *testing.T) {
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	cert, key := ours.issue(pkix.Name{CommonName: "node"}, soon())
	files := Files{Cert: cert, Key: key, ClientCA: ours.ca(), Clients: map[string]admin.Identity{
		"deploy":           {Tenant: "acme", Role: schema.Operator},
		"CN=deploy,O=Acme": {Tenant: "acme", Role: schema.Admin},
	}}
	required := serve(t, load(t, files))
	files.Optional = true
	optional := serve(t, load(t, files))
	files.ClientCA = ""
	unasked := serve(t, load(t, files))

	deploy := pkix.Name{CommonName: "deploy"}
	for _, row := range []struct {
		name, address string
		shows         []tls.Certificate
		want          string // part of the error, if it begins with "!"
	}{
		{"a client that is known", required, ours.pair(deploy, soon()), "cert:deploy acme operator"},
		{"by its whole subject", required, ours.pair(pkix.Name{CommonName: "deploy", Organization: []string{"Acme"}}, soon()), "cert:CN=deploy,O=Acme acme admin"},
		{"a client that nobody knows", required, ours.pair(pkix.Name{CommonName: "other"}, soon()), "nobody  "},
		{"an expired certificate", required, ours.pair(deploy, past()), "!expired certificate"},
		{"of another authority", required, theirs.pair(deploy, soon()), "!unknown certificate authority"},
		{"no certificate", required, nil, "!handshake failure"},
		{"no certificate where it is optional", optional, nil, "nobody  "},
		{"a good one where it is optional", optional, ours.pair(deploy, soon()), "cert:deploy acme operator"},
		{"of another authority where it is optional", optional, theirs.pair(deploy, soon()), "!unknown certificate authority"},
		{"a good one where none is asked for", unasked, ours.pair(deploy, soon()), "nobody  "},
	} {
		t.Run(row.name, func(t *testing.T) {
			// shown whatever authorities the server names
			show := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if len(row.shows) == 0 {
					return new(tls.Certificate), nil
				}
				return &row.shows[0], nil
			}
			// A client of TLS 1.3 learns only while it sends its request that it is refused.
			got, _, err := ask(t.Context(), row.address, &tls.Config{RootCAs: ours.pool(), GetClientCertificate: show, MaxVersion: tls.VersionTLS12})
			if fault, wantErr := strings.CutPrefix(row.want, "!"); wantErr {
				if err == nil || !strings.Contains(err.Error(), fault) {
					t.Errorf("it was answered %q, %v, want an error with %q", got, err, fault)
				}
			} else if err != nil || got != row.want {
				t.Errorf("it was answered %q, %v, want %q", got, err, row.want)
			}
		})
	}
}

func TestServersAreVerified(t *testing.T) {
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	cert, key := ours.issue(pkix.Name{CommonName: "node"}, soon())
	good := serve(t, load(t, Files{Cert: cert, Key: key}))
	cert, key = ours.issue(pkix.Name{CommonName: "old"}, past())
	expired := serve(t, load(t, Files{Cert: cert, Key: key}))

	if _, _, err := ask(t.Context(), good, &tls.Config{RootCAs: ours.pool()}); err != nil {
		t.Errorf("a client that trusts the authority: %v", err)
	}
	var unknown x509.UnknownAuthorityError
	if _, _, err := ask(t.Context(), good, &tls.Config{RootCAs: theirs.pool()}); !errors.As(err, &unknown) {
		t.Errorf("a client that trusts another authority: %v, want an unknown authority", err)
	}
	var invalid x509.CertificateInvalidError
	if _, _, err := ask(t.Context(), expired, &tls.Config{RootCAs: ours.pool()}); !errors.As(err, &invalid) || invalid.Reason != x509.Expired {
		t.Errorf("a client of an expired certificate: %v, want that it has expired", err)
	}
	if _, _, err := ask(t.Context(), good, &tls.Config{RootCAs: ours.pool(), MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("a client of TLS 1.1: %v, want that the version is refused", err)
	}
}

// New certificates are put in force under load: no connection is refused, and those that begin
// later have the new one. No session from before is resumed: the client is verified by the new
// authorities.
func TestCertificatesAreReplacedUnderLoad(t *testing.T) {
	ours, next := newAuthority(t, "ours"), newAuthority(t, "next")
	cert, key := ours.issue(pkix.Name{CommonName: "node"}, soon())
	files := Files{Cert: cert, Key: key, ClientCA: ours.ca()}
	s := load(t, files)
	address := serve(t, s)
	client := &tls.Config{RootCAs: ours.pool(), Certificates: ours.pair(pkix.Name{CommonName: "deploy"}, soon()), ClientSessionCache: tls.NewLRUClientSessionCache(0), MaxVersion: tls.VersionTLS12}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const askers, replaced = 4, 10
	var all sync.WaitGroup
	asked := make(chan int64, 1)
	for range askers {
		all.Go(func() {
			for ctx.Err() == nil {
				_, serial, err := ask(ctx, address, client)
				if err != nil && ctx.Err() == nil {
					t.Errorf("a connection during a replacement: %v", err)
					cancel()
				}
				select {
				case asked <- serial:
				case <-ctx.Done():
				}
			}
		})
	}
	seen := make(map[int64]bool)
	for range replaced {
		cert, key := ours.issue(pkix.Name{CommonName: "node"}, soon())
		if err := s.Replace(Files{Cert: cert, Key: key, ClientCA: files.ClientCA}); err != nil {
			t.Fatal(err)
		}
		for want := ours.serial; !seen[want] && ctx.Err() == nil; { // those that began before end, too
			select {
			case serial := <-asked:
				seen[serial] = true
			case <-ctx.Done():
			}
		}
	}
	cancel()
	all.Wait()
	if len(seen) < replaced {
		t.Errorf("certificates %v were seen, want %d at least", slices.Sorted(maps.Keys(seen)), replaced)
	}

	if _, _, err := ask(t.Context(), address, client); err != nil {
		t.Fatal(err)
	}
	if err := s.Replace(Files{Cert: cert, Key: key, ClientCA: next.ca()}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ask(t.Context(), address, client); err == nil || !strings.Contains(err.Error(), "handshake failure") {
		t.Errorf("a client of an authority that is none any more: %v, want that it has no certificate to show", err)
	}
}

func TestFilesThatAreNoneChangeNothing(t *testing.T) {
	a := newAuthority(t, "ours")
	cert, key := a.issue(pkix.Name{CommonName: "node"}, soon())
	good := Files{Cert: cert, Key: key, ClientCA: a.ca()}
	s := load(t, good)
	in := s.inForce.Load()
	_, another := a.issue(pkix.Name{CommonName: "another"}, soon())
	empty := a.write("empty.pem")
	for name, f := range map[string]Files{
		"no certificate":  {Cert: empty, Key: key},
		"no such file":    {Cert: cert + "x", Key: key},
		"another key":     {Cert: cert, Key: another},
		"no authority":    {Cert: cert, Key: key, ClientCA: empty},
		"no such file CA": {Cert: cert, Key: key, ClientCA: empty + "x"},
	} {
		if err := s.Replace(f); err == nil || s.inForce.Load() != in {
			t.Errorf("%s: Replace = %v, changed %v, want an error, and nothing changed", name, err, s.inForce.Load() != in)
		}
		if _, err := Load(f); err == nil {
			t.Errorf("%s: Load = nil, want an error", name)
		}
	}
	if until := s.NotAfter(); !until.After(time.Now()) {
		t.Errorf("NotAfter = %v, want a time to come", until)
	}
}
