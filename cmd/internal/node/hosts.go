package node

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"time"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/internal/certs"
	"carillon.dev/carillon/cmd/internal/config"
)

// hosts returns a func that says which hosts a request to the API may name: any host, unless only
// this machine can reach the address.
func hosts(at net.Addr, advertise string) func(string) bool {
	if tcp, ok := at.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return nil
	}
	if u, err := url.Parse(advertise); err == nil && u.Hostname() != "" {
		return httpapi.LocalHost(u.Hostname())
	}
	return httpapi.LocalHost()
}

// certFiles returns what the certificates of the API are made of.
func certFiles(t config.APITLS) (certs.Files, error) {
	clients, err := t.Identities()
	return certs.Files{
		Cert: t.Cert, Key: t.Key, ClientCA: t.ClientCA, Optional: t.ClientAuth == config.ClientsOptional, Clients: clients,
	}, err
}

// apiCerts have the API served by certificates. Its methods take nil: the API has no TLS.
type apiCerts struct {
	server *certs.Server
	log    *slog.Logger
}

// openCerts reads the certificates of the API; nil if it has no TLS.
func openCerts(t config.APITLS, log *slog.Logger) (*apiCerts, error) {
	if !t.On() {
		return nil, nil //nolint:nilnil // there are none
	}
	a := &apiCerts{log: log}
	files, err := certFiles(t)
	if err == nil {
		a.server, err = certs.Load(files)
	}
	if err != nil {
		return nil, fmt.Errorf("api.tls: %w", err)
	}
	a.tell()
	return a, nil
}

// replace puts the certificates in force that the configuration names now.
func (a *apiCerts) replace(c config.Config) error {
	if (a != nil) != c.API.TLS.On() {
		return errRestart // the listener has TLS, or has not
	}
	if a == nil {
		return nil
	}
	files, err := certFiles(c.API.TLS)
	if err == nil {
		err = a.server.Replace(files)
	}
	if err == nil {
		a.tell()
	}
	return err
}

// tell logs until when the certificate in force is good.
func (a *apiCerts) tell() {
	until := a.server.NotAfter()
	if time.Now().After(until) {
		a.log.Warn("the certificate of the API has expired: clients refuse it", "not_after", until)
		return
	}
	a.log.Info("certificates of the API are in force", "not_after", until)
}

// listen returns a listener whose connections have TLS, if the API has.
func (a *apiCerts) listen(l net.Listener) net.Listener {
	if a == nil {
		return l
	}
	return a.server.Listen(l)
}

// peer returns what knows clients by their certificates; nil: nothing does.
func (a *apiCerts) peer() func(*tls.ConnectionState) (admin.Identity, bool) {
	if a == nil {
		return nil
	}
	return a.server.Peer
}
