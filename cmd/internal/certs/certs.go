package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"os"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/bucketer/admin"
)

// Files are what a Server is made of. They hold PEM.
type Files struct {
	Cert string // the certificate, followed by those that lead from it to a root
	Key  string
	// ClientCA are the authorities from which certificates of clients come; "": clients are not
	// asked for one.
	ClientCA string
	// Optional: a client may come without a certificate. One that it shows must be good
	// nevertheless.
	Optional bool
	// Clients are who is known by the certificate, by its subject (RFC 2253) or its common name.
	Clients map[string]admin.Identity
}

// Server has the certificates in force. Its methods may be called concurrently.
type Server struct{ inForce atomic.Pointer[material] }

// material is what was read of files at one time. It is immutable.
type material struct {
	tls      *tls.Config
	clients  map[string]admin.Identity
	notAfter time.Time
}

// Load makes a Server of files.
func Load(f Files) (*Server, error) {
	s := new(Server)
	err := s.Replace(f)
	return s, err
}

// Replace reads the files again, and has new connections served by them. After an error nothing has
// changed.
func (s *Server) Replace(f Files) error {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return fmt.Errorf("certificate of the API: %w", err)
	}
	m := &material{clients: maps.Clone(f.Clients), tls: &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"},
		// The keys of tickets would be those of the listener, whatever is replaced: a session would
		// go on with the certificates that it began with.
		SessionTicketsDisabled: true,
	}}
	if pair.Leaf != nil {
		m.notAfter = pair.Leaf.NotAfter
	}
	if f.ClientCA != "" {
		if m.tls.ClientCAs, err = authorities(f.ClientCA); err != nil {
			return fmt.Errorf("authorities of clients: %w", err)
		}
		m.tls.ClientAuth = tls.RequireAndVerifyClientCert
		if f.Optional {
			m.tls.ClientAuth = tls.VerifyClientCertIfGiven
		}
	}
	s.inForce.Store(m)
	return nil
}

func authorities(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file) // #nosec G304 -- the operator names it
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate, as PEM", file)
	}
	return pool, nil
}

// NotAfter returns until when the certificate in force is good.
func (s *Server) NotAfter() time.Time { return s.inForce.Load().notAfter }

// Listen has the connections of l served by the certificates that are in force when each begins.
// The handshake is up to whoever reads first.
func (s *Server) Listen(l net.Listener) net.Listener {
	return tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return s.inForce.Load().tls, nil
		},
	})
}

// Peer returns who the client of a connection is, by its certificate. False means that it showed
// none, or that nobody is known by it.
func (s *Server) Peer(state *tls.ConnectionState) (admin.Identity, bool) {
	if len(state.VerifiedChains) == 0 {
		return admin.Identity{}, false
	}
	subject := &state.VerifiedChains[0][0].Subject
	clients := s.inForce.Load().clients
	for _, name := range []string{subject.String(), subject.CommonName} {
		if who, known := clients[name]; known && name != "" {
			who.Name = "cert:" + name
			return who, len(who.Name) <= admin.MaxIdentity
		}
	}
	return admin.Identity{}, false
}
