package measure

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// errConsumersEnded says that consumers ended although nobody told them to.
var errConsumersEnded = errors.New("the consumers ended by themselves")

// consumers are the workers of a peer while they run.
type consumers struct {
	log    atomic.Pointer[Log]
	cancel context.CancelFunc
	done   chan struct{} // closed when they have ended
	err    error         // how; to be read after done

	stopped bool // stop has told how
}

// consumers starts the peer's workers. Whoever calls it must stop them.
func (m *measurement) consumers(ctx context.Context) *consumers {
	ctx, cancel := context.WithCancel(ctx)
	c := &consumers{cancel: cancel, done: make(chan struct{})}
	var callee *caller
	if m.sink != nil {
		callee = newCaller(m.sink, m.cfg.Payload)
		callee.named = m.cfg.Protocol == Workflows
	}
	handle := func(ctx context.Context, job Job) error {
		log := c.log.Load()
		log.Start(job, time.Now())
		var err error
		if callee != nil {
			err = callee.call(ctx, job)
		}
		log.End(time.Now())
		return err
	}
	c.log.Store(NewLog(-1, 0)) // until it is told where to note
	go func() {
		defer close(c.done)
		c.err = m.system.RunWorkers(ctx, handle)
		if callee != nil {
			callee.client.CloseIdleConnections()
		}
	}()
	return c
}

// into says where starts are noted from now on.
func (c *consumers) into(log *Log) { c.log.Store(log) }

// wait waits for d, and fails if ctx ends or the consumers do.
func (c *consumers) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.done:
		if c.err != nil {
			return fmt.Errorf("%w: %w", errConsumersEnded, c.err)
		}
		return errConsumersEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop stops them and waits until nothing is under way. It may be called again, and then returns nil.
func (c *consumers) stop() error {
	c.cancel()
	<-c.done
	if c.stopped {
		return nil
	}
	c.stopped = true
	if c.err != nil {
		return fmt.Errorf("run workers: %w", c.err)
	}
	return nil
}
