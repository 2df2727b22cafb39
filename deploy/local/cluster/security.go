package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Security is what a client of a cluster of Spec.Secure needs.
type Security struct {
	CA         string // PEM file of the authority's certificate
	ServerName string // a name that the node's certificate has, besides its address
	Username   string // the superuser that every new Cassandra begins with
	Password   string
}

const (
	certificateName   = "server.pem" // of a node, in its conf folder: certificate and key
	authorityName     = "ca.pem"
	securityName      = "cassandra.test"
	certificateLife   = 30 * 24 * time.Hour
	certificateBefore = time.Hour // for clocks that were set since
)

// Security returns what a client of the Cassandra node needs; nil if it asks for nothing. The file
// is there once the cluster is up.
func (c *Cluster) Security() *Security {
	if !c.plan.Spec.Secure {
		return nil
	}
	return &Security{CA: filepath.Join(c.dir, authorityName), ServerName: securityName, Username: "cassandra", Password: "cassandra"}
}

// secure gives the node a certificate, if its cluster is secure and it has none yet.
func (c *Cluster) secure(n cassandraNode) error {
	s := c.Security()
	if s == nil || exists(n.conf(certificateName)) {
		return nil
	}
	authority, server, err := NewCertificate([]net.IP{net.ParseIP(n.ip())}, securityName, time.Now())
	if err != nil {
		return fmt.Errorf("make certificate: %w", err)
	}
	if err := writeFile(s.CA, authority, 0o600); err != nil {
		return err
	}
	return writeFile(n.conf(certificateName), server, 0o600)
}

// NewCertificate returns PEM of an authority's certificate, and of a key with a certificate by it
// for addresses and a name. Nobody keeps the authority's key.
func NewCertificate(ips []net.IP, name string, now time.Time) (authority, server []byte, err error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of " + name},
		NotBefore: now.Add(-certificateBefore), NotAfter: now.Add(certificateLife),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: ips,
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return nil, nil, err
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	server = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	server = append(server, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leafDER})...)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}), server, nil
}

// dial connects to addr: encrypted where there is an s, with the server's certificate verified.
func (s *Security) dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	if s == nil {
		return d.DialContext(ctx, "tcp", addr)
	}
	text, err := os.ReadFile(s.CA)
	if err != nil {
		return nil, fmt.Errorf("read authorities: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	return (&tls.Dialer{NetDialer: &d, Config: &tls.Config{RootCAs: roots, ServerName: s.ServerName, MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", addr)
}

// plain returns the answer to a node that asks for a log-in (SASL PLAIN).
func (s *Security) plain() []byte {
	token := "\x00" + s.Username + "\x00" + s.Password
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(token))), token...)
}
