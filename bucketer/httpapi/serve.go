package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
)

// Run serves the API on l until ctx ends. It then takes no new requests, ends imports where they
// are, gives the others StopTimeout, and closes what is left. It returns nil when it was told to
// stop. It closes l.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: s.config.HeaderTimeout, IdleTimeout: s.config.IdleTimeout, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		s.endImports()
		return fmt.Errorf("serve the API: %w", err)
	case <-ctx.Done():
	}
	s.endImports()
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.StopTimeout)
	defer cancel()
	if err := server.Shutdown(bound); err != nil {
		s.log.Warn("requests cut at the end", "err", err)
		if err := server.Close(); err != nil {
			s.log.Debug("close the API", "err", err)
		}
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		s.log.Debug("end of serving", "err", err)
	}
	return nil
}

func (s *Server) endImports() { s.stop.Do(func() { close(s.stopping) }) }
