package peer

import (
	"context"
	"errors"
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

// Means are what systems need of the caller.
type Means struct {
	Log         *slog.Logger // of what their clients say
	Goscheduler string       // folder of a checkout of goscheduler; "" = there is none
	Temporal    string       // the program temporal; "" = that of $PATH
}

// systems are all there are, by name.
var systems = map[string]func(m Means) measure.System{
	"river":         func(m Means) measure.System { return &river{tuned: true, log: m.Log} },
	"river-relaxed": func(m Means) measure.System { return &river{tuned: true, relaxed: true, log: m.Log} },
	"river-default": func(m Means) measure.System { return &river{log: m.Log} },

	"asynq-always":   func(m Means) measure.System { return &asynqPeer{tuned: true, aof: server.AOFAlways, log: m.Log} },
	"asynq-everysec": func(m Means) measure.System { return &asynqPeer{tuned: true, aof: server.AOFEverySec, log: m.Log} },
	"asynq-off":      func(m Means) measure.System { return &asynqPeer{tuned: true, aof: server.AOFOff, log: m.Log} },
	"asynq-punctual": func(m Means) measure.System {
		return &asynqPeer{tuned: true, roundUp: true, aof: server.AOFEverySec, log: m.Log}
	},
	"asynq-default": func(m Means) measure.System { return &asynqPeer{aof: server.AOFEverySec, log: m.Log} },

	"goscheduler":          func(m Means) measure.System { return &goscheduler{checkout: m.Goscheduler, log: m.Log} },
	"goscheduler-punctual": func(m Means) measure.System { return &goscheduler{checkout: m.Goscheduler, roundUp: true, log: m.Log} },

	"temporal": func(m Means) measure.System { return newTemporal(m, server.TemporalConfig{Tuned: true}) },
	"temporal-relaxed": func(m Means) measure.System {
		return newTemporal(m, server.TemporalConfig{Tuned: true, Relaxed: true})
	},
	"temporal-default": func(m Means) measure.System { return newTemporal(m, server.TemporalConfig{}) },
}

// ErrNoCheckout says that a system is built from a checkout, and none is named.
var ErrNoCheckout = errors.New("no checkout is named: --goscheduler DIR, of `git clone https://github.com/myntra/goscheduler`")

// Names returns the names of all systems, sorted.
func Names() []string { return slices.Sorted(maps.Keys(systems)) }

// New returns a system by its name; ErrNoCheckout if m lacks what it is built from. It starts nothing.
func New(name string, m Means) (measure.System, error) {
	newPeer, ok := systems[name]
	if !ok {
		return nil, fmt.Errorf("no system %q, want one of %s", name, strings.Join(Names(), ", "))
	}
	p := newPeer(m)
	if _, ok := p.(*goscheduler); ok && m.Goscheduler == "" {
		return nil, fmt.Errorf("%s: %w", name, ErrNoCheckout)
	}
	return p, nil
}

func newTemporal(m Means, c server.TemporalConfig) *temporal {
	c.Program = m.Temporal
	return &temporal{TemporalConfig: c, log: m.Log}
}

// NamesOf returns the names of the systems that a protocol is for, sorted.
func NamesOf(protocol string) []string {
	return slices.DeleteFunc(Names(), func(name string) bool {
		_, chains := systems[name](Means{}).(measure.Chainer)
		return chains != (protocol == measure.Workflows)
	})
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
