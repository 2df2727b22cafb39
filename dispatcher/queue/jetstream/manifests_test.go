package jetstream_test

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.yaml.in/yaml/v3"

	"carillon.dev/carillon/dispatcher/queue/jetstream"
)

const manifests = "../../../deploy/kubernetes/"

// configured writes a nats.conf of the manifests, with certificates of an authority, and reads it as
// the server does. The files of a client are returned as well.
func configured(t *testing.T, conf string) (*server.Options, *jetstream.TLS) {
	t.Helper()
	dir, a := t.TempDir(), newAuthority(t)
	der, _, key := a.issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "nats"}, DNSNames: []string{"nats-0.nats.carillon.svc"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, filepath.Join(dir, "tls.crt"), "CERTIFICATE", der)
	writePEM(t, filepath.Join(dir, "tls.key"), "EC PRIVATE KEY", secret)
	writePEM(t, filepath.Join(dir, "ca.crt"), "CERTIFICATE", a.cert.Raw)
	t.Setenv("POD_NAME", "nats-0")
	t.Setenv("NATS_PASSWORD", "p4ss")
	path := filepath.Join(dir, "nats.conf")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(conf, "/etc/nats-tls/", dir+"/")), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatalf("ProcessConfigFile: %v", err)
	}
	return o, &jetstream.TLS{CA: filepath.Join(dir, "ca.crt"), ServerName: "nats-0.nats.carillon.svc"}
}

func TestServersOfTheManifestsProveThemselvesToEachOther(t *testing.T) {
	text, err := os.ReadFile(manifests + "components/nats/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	o, _ := configured(t, string(text))
	if o.TLSConfig == nil || !o.JetStream || o.ServerName != "nats-0" || len(o.Users) != 1 {
		t.Errorf("nats.conf: TLS %v, JetStream %t, name %q, %d users; want all of them, and one user", o.TLSConfig != nil, o.JetStream, o.ServerName, len(o.Users))
	}
	if c := o.Cluster; c.TLSConfig == nil || c.TLSConfig.ClientAuth == 0 || len(o.Routes) != 3 {
		t.Errorf("nats.conf: routes %v; want three, with TLS on which both sides prove themselves", o.Routes)
	}
}

// A node with the configuration of the manifests reaches the server with that of the manifests.
func TestANodeReachesTheServerOfTheManifests(t *testing.T) {
	text, err := os.ReadFile(manifests + "overlays/dev/nats.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var m struct{ Data map[string]string }
	if err := yaml.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	o, files := configured(t, m.Data["nats.conf"])
	o.Host, o.Port, o.HTTPPort, o.PidFile, o.StoreDir, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, 0, "", t.TempDir(), true, true
	s, err := server.NewServer(o)
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
	url := "tls://" + s.Addr().(*net.TCPAddr).String()
	q, err := jetstream.Connect(t.Context(), jetstream.Config{URLs: []string{url}, User: "carillon", Password: "p4ss", TLS: files})
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	if err := q.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	w := waits{slog.DiscardHandler, make(chan string, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if q, err := jetstream.Connect(ctx, jetstream.Config{URLs: []string{url}, User: "carillon", Password: "wrong", TLS: files, Logger: slog.New(w)}); err == nil {
			_ = q.Close()
			t.Error("Connect with another password = nil, want it refused")
		}
	}()
	select {
	case <-w.errs:
	case <-ended:
	}
	cancel()
	<-ended
}
