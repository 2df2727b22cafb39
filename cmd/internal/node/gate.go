package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// gate answers on the API's listener while the node starts: alive, not ready, and nothing else.
type gate struct {
	mu      sync.Mutex
	waiting string // for what the node waits
}

func (g *gate) waitFor(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = what
}

// ServeHTTP answers as API.md says of a node that cannot promise anything yet.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	waiting := g.waiting
	g.mu.Unlock()
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

func (l keepOpen) Close() error { return l.SetDeadline(time.Unix(1, 0)) }

// serve answers on l until stop is called, which returns when the listener is free to be served by another.
func (g *gate) serve(l *net.TCPListener) (stop func() error) {
	server := &http.Server{Handler: g, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(keepOpen{l}) }()
	return func() error {
		bounded, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		err := server.Shutdown(bounded)
		if serr := <-served; !errors.Is(serr, http.ErrServerClosed) {
			err = errors.Join(err, serr)
		}
		return errors.Join(err, l.SetDeadline(time.Time{}))
	}
}
