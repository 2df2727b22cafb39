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
)

// gate answers on the API's listener while the node starts: alive, not ready, and nothing else.
// Connections that came meanwhile stay with it; once the node is up it lets the API answer on them.
type startupServer struct {
	mu      sync.Mutex
	waiting string       // for what the node waits
	api     http.Handler // nil while it waits
}

func (g *startupServer) waitFor(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = what
}

// handOver lets api answer from now on.
func (g *startupServer) handOver(api http.Handler) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.api = api
}

// ServeHTTP answers as the API says (/openapi.json) of a node that cannot promise anything yet.
func (g *startupServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	waiting, api := g.waiting, g.api
	g.mu.Unlock()
	if api != nil {
		w.Header().Set("Connection", "close") // the next connection is the API's own
		api.ServeHTTP(w, r)
		return
	}
	switch r.URL.Path {
	case "/healthz":
		_, _ = fmt.Fprintln(w, "ok") // the caller went away
	case "/readyz":
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

// keepOpen is a listener that can be handed on: closing it ends Accept and leaves the socket open.
type keepOpen struct{ *net.TCPListener }

func (l keepOpen) Accept() (net.Conn, error) {
	c, err := l.TCPListener.Accept()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = net.ErrClosed // a time-out would be tried again
	}
	return c, err
}

func (l keepOpen) Close() error { return l.SetDeadline(time.Unix(1, 0)) }

const (
	// startupReadTimeout bounds how long a caller may take to ask; the API sets its own bounds once
	// it answers.
	startupReadTimeout = 10 * time.Second
	// startupStopTimeout bounds how long the last answers on connections of the gate may take when
	// the node stops.
	startupStopTimeout = 2 * time.Second
)

// serve answers on l. release ends that for new connections and returns when l is free to be served
// by another; stop ends it for those that there are.
//
// http.Server.Shutdown would not do for release: it drops a request that arrives in its instant,
// and counts a connection on which nothing was asked yet as busy.
func (g *startupServer) serve(l *net.TCPListener) (release, stop func() error) {
	server := &http.Server{Handler: g, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: startupReadTimeout}
	served := make(chan error, 1)
	go func() { served <- server.Serve(keepOpen{l}) }()
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
