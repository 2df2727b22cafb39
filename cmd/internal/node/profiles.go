package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"time"
)

// serveProfiles serves the profiles of the process under /debug/pprof/ on its own listener, until
// stop is called. It asks for no key. So it is off unless an address is set, it never listens at
// the API's address, and jobs cannot call it. It returns where it listens.
func (n *Node) serveProfiles(ctx context.Context) (at string, stop func(), err error) {
	if n.cfg.Admin.Listen == "" {
		return "", func() {}, nil
	}
	if err := n.cfg.Admin.Validate(); err != nil { // a caller of New may not have
		return "", nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", n.cfg.Admin.Listen)
	if err != nil {
		return "", nil, fmt.Errorf("listen for profiles: %w", err)
	}
	n.profiles = l.Addr().(*net.TCPAddr).AddrPort()
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: plainHost(mux), ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			n.log.Warn("profiles are not served any more", "err", err)
		}
	}()
	at = "http://" + l.Addr().String() + "/debug/pprof/"
	n.log.Info("profiles are served", "at", at)
	return at, func() {
		_ = server.Close() // a profile under way is cut
		<-done
	}, nil
}

// plainHost refuses requests that name a host other than localhost or an address. Otherwise a web
// page on this machine could read the answers: its own name may resolve to the listener's address
// (DNS rebinding).
func plainHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		_, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if err != nil && !strings.EqualFold(host, "localhost") {
			http.Error(w, "profiles are asked for at localhost or an IP address", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// warnOfOpenSettings logs settings that are valid and leave the node open to others.
func (n *Node) warnOfOpenSettings() {
	if n.cfg.Admin.Remote() {
		n.log.Warn("profiles are served to other machines: everybody who reaches admin.listen can read the memory of the process", "listen", n.cfg.Admin.Listen)
	}
	if n.cfg.API.Open() {
		n.log.Warn("api.auth is none: everybody who reaches api.listen may do everything, for every tenant", "listen", n.cfg.API.Listen)
	}
	if n.cfg.Ring.Exposed() {
		n.log.Warn("ring.key is not set: gossip is readable, and everybody who reaches ring.listen can join the cluster", "listen", n.cfg.Ring.Listen)
	}
	if open := n.cfg.Regions.Clear(n.cfg.Node.Region); len(open) > 0 {
		n.log.Warn("regions.api has URLs without TLS: the API keys of callers and of sessions of the console go to other regions in clear text", "urls", open)
	}
}
