package main

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// hangups are the SIGHUPs of the process. They end the command in order, as other signals do, unless
// it has taken them.
type hangups struct {
	taken atomic.Bool
	heard chan struct{} // holds one that nobody has acted on yet
}

type hangupsKey struct{}

// withHangups returns a context that SIGHUP ends until a command takes it (takeHangups). stop lets go
// of the signal. Where the parent process ignores SIGHUP, as nohup does, so does this one.
func withHangups(ctx context.Context) (_ context.Context, stop func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, func() {}
	}
	h := &hangups{heard: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.WithValue(ctx, hangupsKey{}, h))
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range signals {
			if !h.taken.Load() {
				cancel()
				continue
			}
			select {
			case h.heard <- struct{}{}:
			default:
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		<-done
		cancel()
	}
}

// takeHangups has SIGHUP end the command no more: the channel gets a value instead. It is nil where
// the signal is ignored.
func takeHangups(ctx context.Context) <-chan struct{} {
	h, ok := ctx.Value(hangupsKey{}).(*hangups)
	if !ok {
		return nil
	}
	h.taken.Store(true)
	return h.heard
}
