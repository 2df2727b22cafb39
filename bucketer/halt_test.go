package bucketer

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestOutOfStep(t *testing.T) {
	for name, row := range map[string]struct {
		mono, wall time.Duration
		want       bool
	}{
		"a step":                          {haltStep, haltStep, false},
		"a slow step":                     {haltAfter, haltAfter, false},
		"stopped":                         {haltAfter + time.Millisecond, haltAfter + time.Millisecond, true},
		"machine suspended":               {haltStep, time.Hour, true},
		"clock set 0.4 s ahead":           {haltStep, haltStep + 400*time.Millisecond, false},
		"clock set 0.6 s ahead":           {haltStep, haltStep + 600*time.Millisecond, true},
		"clock set back 0.6 s":            {haltStep, haltStep - 600*time.Millisecond, true},
		"clock set back while it stopped": {time.Minute, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outOfStep(row.mono, row.wall); got != row.want {
				t.Errorf("outOfStep after %v monotonic and %v wall time = %v, want %v", row.mono, row.wall, got, row.want)
			}
		})
	}
}

// A process that goes on after a stop is halted before its ticker has noticed, and until it has.
func TestHaltedBeforeTheTickerNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var skew atomic.Int64 // what the clock has gained while the process was stopped
		h := NewHalt(func() time.Time { return time.Now().Add(time.Duration(skew.Load())) })
		told := h.Subscribe()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- h.Run(ctx) }()
		time.Sleep(time.Hour)
		if h.Halted() || h.Halts() != 0 {
			t.Fatalf("halted %v, %d times within a quiet hour", h.Halted(), h.Halts())
		}
		skew.Add(int64(3 * time.Second))
		if !h.Halted() {
			t.Error("not halted right after a stop of 3 s")
		}
		select {
		case <-told:
			t.Error("told before the ticker noticed")
		default:
		}
		time.Sleep(haltStep)
		synctest.Wait()
		if h.Halted() || h.Halts() != 1 {
			t.Errorf("after the next step: halted %v, %d times; want not any more, once", h.Halted(), h.Halts())
		}
		for range 3 { // nobody takes what is told: it is coalesced
			skew.Add(int64(time.Minute))
			time.Sleep(haltStep)
			synctest.Wait()
		}
		<-told
		select {
		case <-told:
			t.Error("told twice of what happened before the first was taken")
		default:
		}
		skew.Add(int64(time.Minute))
		<-told
		if h.Halts() != 5 {
			t.Errorf("%d halts, want 5", h.Halts())
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

// A stop between New and Run is noticed by Halted alone: nothing was remembered yet.
func TestHaltedBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHalt(time.Now)
		time.Sleep(haltAfter + time.Millisecond)
		if !h.Halted() {
			t.Error("a detector that does not run says that all is well")
		}
		h.Begin()
		if h.Halted() {
			t.Error("a detector that has just begun counts what was before, want that only what follows counts")
		}
	})
}

// A clock that is off halts the node for as long as it is; afterwards what is in memory counts as
// out of date.
func TestHaltedForAnotherReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHalt(time.Now)
		var off atomic.Bool
		h.Also(off.Load)
		told := h.Subscribe()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		time.Sleep(time.Minute)
		if h.Halted() || h.Halts() != 0 {
			t.Errorf("Halted() = %v, %d halts, while all is well", h.Halted(), h.Halts())
		}
		off.Store(true)
		if !h.Halted() {
			t.Error("Halted() = false while the other reason holds")
		}
		time.Sleep(time.Minute)
		if h.Halts() != 0 {
			t.Error("told before the reason was gone")
		}
		off.Store(false)
		<-told
		if h.Halted() || h.Halts() != 1 {
			t.Errorf("Halted() = %v, %d halts afterwards, want false and 1", h.Halted(), h.Halts())
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}
