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
