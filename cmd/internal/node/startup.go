package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
)

// startupServer answers on the API's listener while the node starts: /healthz is fine, pages for browsers
// are there, and everything else gets 503. Once the node is up, it passes requests on its own connections to the API.
type startupServer struct {
	mu      sync.Mutex
	waiting string       // what the node waits for
	api     http.Handler // nil during the start

	secured func(net.Listener) net.Listener // nil: as it is
}

func (g *startupServer) waitFor(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = what
}

// handOver passes requests to api from now on.
func (g *startupServer) handOver(api http.Handler) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.api = api
}

// ServeHTTP answers as a node that is not ready, in the form of the API (/openapi.json).
func (g *startupServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	waiting, api := g.waiting, g.api
	g.mu.Unlock()
	if api != nil {
		w.Header().Set("Connection", "close") // the next connection is the API's own
		api.ServeHTTP(w, r)
		return
	}
	switch {
	case r.URL.Path == "/healthz":
		_, _ = fmt.Fprintln(w, "ok")
	case httpapi.ServePage(w, r): // the console tells what its node waits for
	case r.URL.Path == "/readyz":
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintf(w, "starting: waiting for %s\n", waiting)
	default:
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"type": "about:blank", "title": http.StatusText(http.StatusServiceUnavailable), "status": http.StatusServiceUnavailable,
			"detail": "The node is starting: it waits for " + waiting + ".",
		})
	}
}

// keepOpen is a listener that another server can take over: Close ends Accept and leaves the socket
// open.
type keepOpen struct{ *net.TCPListener }

func (l keepOpen) Accept() (net.Conn, error) {
	c, err := l.TCPListener.Accept()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = net.ErrClosed // the server would retry after a time-out
	}
	return c, err
}

func (l keepOpen) Close() error { return l.SetDeadline(time.Unix(1, 0)) }

const (
	// startupReadTimeout bounds the read of a request head during the start.
	startupReadTimeout = 10 * time.Second
	// startupStopTimeout bounds the last answers on these connections when the node stops.
	startupStopTimeout = 2 * time.Second
)

// serve answers on l. release stops accepting and returns when another server may serve l; stop
// ends the connections that are left.
//
// http.Server.Shutdown cannot do what release does: it drops a request that arrives at the same
// instant, and takes a connection without a request for a busy one.
func (g *startupServer) serve(l *net.TCPListener) (release, stop func() error) {
	server := &http.Server{Handler: g, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: startupReadTimeout}
	var open net.Listener = keepOpen{l}
	if g.secured != nil {
		open = g.secured(open)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(open) }()
	release = func() error {
		err := keepOpen{l}.Close()
		if serr := <-served; !errors.Is(serr, net.ErrClosed) {
			err = errors.Join(err, serr)
		}
		return errors.Join(err, l.SetDeadline(time.Time{}))
	}
	stop = func() error {
		bounded, cancel := context.WithTimeout(context.Background(), startupStopTimeout)
		defer cancel()
		if server.Shutdown(bounded) == nil {
			return nil
		}
		return server.Close()
	}
	return release, stop
}
