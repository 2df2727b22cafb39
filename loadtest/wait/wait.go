// Package wait waits: until an instant, until a condition holds, and between repetitions.
package wait

import (
	"context"
	"time"
)

// Until returns at t, or with the error of ctx.
func Until(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// For returns after d, or with the error of ctx.
func For(ctx context.Context, d time.Duration) error { return Until(ctx, time.Now().Add(d)) }

// Poll calls holds at once and then each `every`, until it reports true or fails, or limit has come
// (zero: there is none). It returns whether it reported true.
func Poll(ctx context.Context, every time.Duration, limit time.Time, holds func() (bool, error)) (bool, error) {
	for limit.IsZero() || time.Now().Before(limit) {
		if ok, err := holds(); ok || err != nil {
			return ok, err
		}
		if err := For(ctx, every); err != nil {
			return false, err
		}
	}
	return false, nil
}

// Every calls do each `every` until stop is called or ctx ends. stop returns after the last call. The
// context of do ends with stop.
func Every(ctx context.Context, every time.Duration, do func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				do(ctx)
			}
		}
	}()
	return func() { cancel(); <-done }
}
