package peer

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/loadtest/peers/measure"
	"carillon.dev/carillon/loadtest/peers/server"
)

// systems are all there are, by name.
var systems = map[string]func(log *slog.Logger) measure.Peer{
	"river":         func(log *slog.Logger) measure.Peer { return &river{tuned: true, log: log} },
	"river-relaxed": func(log *slog.Logger) measure.Peer { return &river{tuned: true, relaxed: true, log: log} },
	"river-default": func(log *slog.Logger) measure.Peer { return &river{log: log} },

	"asynq-always":   func(log *slog.Logger) measure.Peer { return &asynqPeer{tuned: true, aof: server.AOFAlways, log: log} },
	"asynq-everysec": func(log *slog.Logger) measure.Peer { return &asynqPeer{tuned: true, aof: server.AOFEverySec, log: log} },
	"asynq-off":      func(log *slog.Logger) measure.Peer { return &asynqPeer{tuned: true, aof: server.AOFOff, log: log} },
	"asynq-punctual": func(log *slog.Logger) measure.Peer {
		return &asynqPeer{tuned: true, roundUp: true, aof: server.AOFEverySec, log: log}
	},
	"asynq-default": func(log *slog.Logger) measure.Peer { return &asynqPeer{aof: server.AOFEverySec, log: log} },
}

// Names returns the names of all systems, sorted.
func Names() []string { return slices.Sorted(maps.Keys(systems)) }

// New returns a system by its name. It starts nothing.
func New(name string, log *slog.Logger) (measure.Peer, error) {
	newPeer, ok := systems[name]
	if !ok {
		return nil, fmt.Errorf("no system %q, want one of %s", name, strings.Join(Names(), ", "))
	}
	return newPeer(log), nil
}

// inParts calls do for parts of the numbers below n, each of at most size, from workers goroutines, in about their order.
func inParts(ctx context.Context, n, size, workers int, do func(ctx context.Context, from, to int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for from := 0; from < n && ctx.Err() == nil; from += size {
		g.Go(func() error { return do(ctx, from, min(from+size, n)) })
	}
	return g.Wait()
}

// moduleVersion returns the version of a module in this program.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return m.Version
		}
	}
	return "unknown"
}
