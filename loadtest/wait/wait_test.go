package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPoll(t *testing.T) {
	broken := errors.New("broken")
	for name, row := range map[string]struct {
		after int // calls after which it holds; 0 = never
		fails error
		ok    bool
		took  time.Duration
	}{
		"at once":        {after: 1, ok: true},
		"the third time": {after: 3, ok: true, took: 2 * time.Second},
		"never":          {took: 10 * time.Second},
		"it fails":       {fails: broken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, calls := time.Now(), 0
				ok, err := Poll(t.Context(), time.Second, began.Add(10*time.Second), func() (bool, error) {
					calls++
					return calls == row.after, row.fails
				})
				if ok != row.ok || !errors.Is(err, row.fails) || time.Since(began) != row.took {
					t.Errorf("Poll = %t, %v after %s, want %t, %v after %s", ok, err, time.Since(began), row.ok, row.fails, row.took)
				}
			})
		})
	}
}

func TestEveryEndsWithStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		var last context.Context
		stop := Every(t.Context(), time.Second, func(ctx context.Context) { calls, last = calls+1, ctx })
		time.Sleep(3500 * time.Millisecond)
		stop()
		time.Sleep(time.Minute)
		if calls != 3 || last.Err() == nil {
			t.Errorf("%d calls, want 3, and that their context has ended", calls)
		}
	})
}

func TestUntilEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := For(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("For = %v, want that of the context", err)
		}
	})
}
