package node

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// stopWithin bounds the stop of one part, in addition to the time that the part may drain.
const stopWithin = 60 * time.Second

// cleanups is a stack of named close functions, run last in, first out.
type cleanups struct {
	names []string
	funcs []func() error
}

func (c *cleanups) push(name string, f func() error) {
	c.names, c.funcs = append(c.names, name), append(c.funcs, f)
}

func (c *cleanups) run(log *slog.Logger) {
	for i := len(c.funcs) - 1; i >= 0; i-- {
		if err := c.funcs[i](); err != nil {
			log.Warn("close failed", "what", c.names[i], "err", err)
		}
	}
}

// stages are running parts. stop stops them one by one, in the reverse order of their start.
type stages struct {
	parts  []stage
	broken chan error
}

type stage struct {
	name   string
	stop   context.CancelFunc
	done   chan struct{}
	within time.Duration // the bound of its stop; after that stop goes on without it
}

// start runs a part until it is stopped. failed reports an error of it.
func (s *stages) start(ctx context.Context, name string, run func(ctx context.Context) error) {
	s.startDraining(ctx, name, 0, run)
}

// startDraining is start for a part that may take wait to drain when it is stopped.
func (s *stages) startDraining(ctx context.Context, name string, wait time.Duration, run func(ctx context.Context) error) {
	if s.broken == nil {
		s.broken = make(chan error, 16)
	}
	ctx, cancel := context.WithCancel(ctx)
	p := stage{name, cancel, make(chan struct{}), wait + stopWithin}
	s.parts = append(s.parts, p)
	broken := s.broken
	go func() {
		defer close(p.done)
		if err := run(ctx); err != nil {
			select {
			case broken <- fmt.Errorf("%s: %w", name, err):
			default:
			}
		}
	}()
}

// failed returns a channel that gets the error of a part that ended by itself.
func (s *stages) failed() <-chan error { return s.broken }

// stop stops the parts, the last started first.
func (s *stages) stop(log *slog.Logger) {
	for i := len(s.parts) - 1; i >= 0; i-- {
		p := s.parts[i]
		p.stop()
		select {
		case <-p.done:
		case <-time.After(p.within):
			log.Error("part did not stop in time: going on without it", "part", p.name)
		}
	}
}

// expirer is a store that must be told to drop expired rows; Cassandra does that by itself.
type expirer interface {
	Expire(ctx context.Context, now time.Time) (buckets int, err error)
}

// expireEvery is how often the embedded store drops expired rows.
const expireEvery = time.Minute

func (n *Node) expire(ctx context.Context, e expirer) {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := e.Expire(ctx, n.now()); err != nil && ctx.Err() == nil {
			n.log.Warn("expired rows could not be dropped", "err", err)
		}
	}
}
