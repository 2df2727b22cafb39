package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// admin serves the profiles of the process under /debug/pprof/ on a listener of its own, until stop is called. It
// answers whoever reaches it, which is why it is off unless an address is set, and never on the API's. It returns where it listens.
func (n *Node) admin(ctx context.Context) (at string, stop func(), err error) {
	if n.cfg.Admin.Listen == "" {
		return "", func() {}, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", n.cfg.Admin.Listen)
	if err != nil {
		return "", nil, fmt.Errorf("listen for profiles: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			n.log.Warn("profiles are served no more", "err", err)
		}
	}()
	at = "http://" + l.Addr().String() + "/debug/pprof/"
	n.log.Info("profiles are served", "at", at)
	return at, func() {
		_ = server.Close() // a profile under way is cut
		<-done
	}, nil
}
