package flow

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestSaturateKeepsItsBound: runs that take a second each, ten open at once, all are started.
func TestSaturateKeepsItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, open = 95, 10
		var started, ended, most atomic.Int64
		began := time.Now()
		err := Saturate(t.Context(), n, open, func(context.Context) (int, error) { return int(ended.Load()), nil }, func(context.Context, int) error {
			if now := started.Add(1) - ended.Load(); now > most.Load() {
				most.Store(now)
			}
			time.AfterFunc(time.Second, func() { ended.Add(1) })
			return nil
		})
		if err != nil || started.Load() != n || most.Load() != open {
			t.Errorf("Saturate = %v after %d starts, at most %d open, want nil, %d, %d", err, started.Load(), most.Load(), n, open)
		}
		if took := time.Since(began).Round(time.Second); took != 9*time.Second {
			t.Errorf("it took %s, want 9 s: the last five wait for nine times ten", took)
		}
		time.Sleep(2 * time.Second) // the timers
	})
}

func TestStartsThatFailEndIt(t *testing.T) {
	broken := errors.New("broken")
	start := func(_ context.Context, i int) error {
		if i == 3 {
			return broken
		}
		return nil
	}
	never := func(context.Context) (int, error) { return 0, nil }
	rows := []struct {
		name string
		do   func(ctx context.Context) error
		want error
	}{
		{"a start of Saturate", func(ctx context.Context) error { return Saturate(ctx, 100, 5, never, start) }, broken},
		{"a start of Pace", func(ctx context.Context) error { return Pace(ctx, time.Now(), 100, time.Second, start) }, broken},
		{"the count", func(ctx context.Context) error {
			return Saturate(ctx, 100, 2, func(context.Context) (int, error) { return 0, broken }, start)
		}, broken},
		{"the context of Saturate", func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return Saturate(ctx, 100, 2, never, start)
		}, context.DeadlineExceeded},
		{"the context of Pace", func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return Pace(ctx, time.Now(), 3, time.Second, start)
		}, context.DeadlineExceeded},
		{"none", func(ctx context.Context) error { return Pace(ctx, time.Now(), 3, time.Second, start) }, nil},
		{"none of Saturate", func(ctx context.Context) error { return Saturate(ctx, 3, 3, never, start) }, nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err := row.do(t.Context()); !errors.Is(err, row.want) {
					t.Errorf("it ends with %v, want %v", err, row.want)
				}
			})
		})
	}
}

// TestPaceDoesNotWaitForAnswers: each start comes at its instant, though answers take longer.
func TestPaceDoesNotWaitForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		at := make([]time.Duration, 40)
		err := Pace(t.Context(), began, len(at), Every(200), func(_ context.Context, i int) error {
			at[i] = time.Since(began)
			time.Sleep(time.Minute)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range at {
			if want := time.Duration(i) * 25 * time.Millisecond; got != want {
				t.Errorf("start %d came after %s, want %s", i, got, want)
			}
		}
	})
}
