package flow

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/loadtest/wait"
)

const (
	// ChainSteps is how many steps a chain has.
	ChainSteps = 5
	// Starters bounds the requests to start a run that are under way at once in Saturate.
	Starters = 64
	// lookEvery is how often Saturate asks how many runs are done, while it may start none.
	lookEvery = 5 * time.Millisecond
)

// A Start asks for run number i, counted from 0, and returns when that is answered.
type Start func(ctx context.Context, i int) error

// Saturate starts n runs in order, Starters at once, and keeps at most `open` of them open. done says
// how many are at their end. It returns when the last start was answered, with the first error of a
// start or of done. It does not wait for the runs.
func Saturate(ctx context.Context, n, open int, done func(ctx context.Context) (int, error), start Start) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(Starters)
	ended := 0
	var err error
	for i := 0; i < n && err == nil; i++ {
		if i-ended >= open {
			ended, err = room(ctx, i-open, done)
		}
		if err = cmp.Or(err, ctx.Err()); err == nil {
			g.Go(func() error { return start(ctx, i) })
		}
	}
	return cmp.Or(g.Wait(), err) // a start that failed has ended ctx
}

// room waits until more than so many runs are done, and returns how many.
func room(ctx context.Context, than int, done func(ctx context.Context) (int, error)) (ended int, err error) {
	_, err = wait.Poll(ctx, lookEvery, time.Time{}, func() (bool, error) {
		ended, err = done(ctx)
		return ended > than, err
	})
	if err != nil {
		return ended, fmt.Errorf("wait until runs are done: %w", err)
	}
	return ended, nil
}

// Pace starts run i of n at began + i × every, whether earlier starts were answered or not. It returns
// when the last start was answered, with the first error of a start.
func Pace(ctx context.Context, began time.Time, n int, every time.Duration, start Start) error {
	g, ctx := errgroup.WithContext(ctx)
	var err error
	for i := 0; i < n && err == nil; i++ {
		if err = wait.Until(ctx, began.Add(time.Duration(i)*every)); err == nil {
			g.Go(func() error { return start(ctx, i) })
		}
	}
	return cmp.Or(g.Wait(), err) // a start that failed has ended ctx
}

// Every returns the time between two starts of chains whose steps together come at a rate a second.
func Every(stepsPerS int) time.Duration {
	return ChainSteps * time.Second / time.Duration(stepsPerS)
}
