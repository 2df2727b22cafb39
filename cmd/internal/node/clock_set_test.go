package node

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// settable is a clock that the test sets, beside another that it does not.
type settable struct {
	*clock
	step   time.Duration // how far ours was set since the start
	silent bool          // the other does not answer
	told   []bool        // what changed was called with
}

func newSettable() *settable {
	s := &settable{}
	began := time.Now()
	s.clock = &clock{
		now: func() time.Time { return time.Now().Add(s.step) }, mono: func() time.Duration { return time.Since(began) },
		set: make(chan struct{}), log: slog.New(slog.DiscardHandler), changed: func(off bool) { s.told = append(s.told, off) },
		sources: []timeSource{{"other", func(context.Context) (time.Time, error) {
			if s.silent {
				return time.Time{}, errors.New("silent")
			}
			return time.Now(), nil
		}}},
	}
	return s
}

func TestClockIsOffUntilItWasCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSettable()
		s.silent = true
		s.compare(t.Context())
		if !s.Off() {
			t.Error("Off() = false although no other clock has answered yet")
		}
		s.silent = false
		s.compare(t.Context())
		if err := s.Err(); err != nil {
			t.Errorf("Err() after the first comparison = %v, want nil", err)
		}
		if len(s.told) != 0 {
			t.Errorf("changed was called with %v; a clock that is right from the start is no change", s.told)
		}
		s.silent = true
		time.Sleep(time.Hour)
		s.compare(t.Context())
		if err := s.Err(); err != nil {
			t.Errorf("Err() of a clock that nobody set while the others are silent = %v, want nil", err)
		}
	})
}

func TestClockThatWasSetIsOffUntilItIsCompared(t *testing.T) {
	for name, row := range map[string]struct {
		step time.Duration
		set  bool // off right after it was set
		then bool // off after the next comparison
	}{
		"0.4 s ahead": {400 * time.Millisecond, false, false},
		"0.6 s ahead": {600 * time.Millisecond, true, false},
		"0.6 s back":  {-600 * time.Millisecond, true, false},
		"20 s back":   {-20 * time.Second, true, true},
		"a day ahead": {24 * time.Hour, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSettable()
				s.compare(t.Context())
				time.Sleep(time.Second)
				s.step = row.step
				if got := s.Off(); got != row.set {
					t.Errorf("Off() right after it was set = %t, want %t; %v", got, row.set, s.Err())
				}
				s.compare(t.Context())
				if got := s.Off(); got != row.then {
					t.Errorf("Off() after the next comparison = %t, want %t; %v", got, row.then, s.Err())
				}
			})
		})
	}
}

func TestClockIsComparedAsSoonAsItMayHaveBeenSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSettable()
		set := make(chan struct{}, 1)
		s.clock.set = set
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.run(ctx) }()
		synctest.Wait()
		s.step = time.Second
		if !s.Off() {
			t.Fatal("Off() = false right after the clock was set")
		}
		set <- struct{}{}
		synctest.Wait()
		if err := s.Err(); err != nil {
			t.Errorf("Err() = %v, want a comparison at once, and nil", err)
		}
		cancel()
		<-done
	})
}

// What was read of the others before a step says nothing of the clock after it.
func TestClockThatIsSetWhileItIsComparedIsOffUntilTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSettable()
		s.compare(t.Context())
		s.sources = append(s.sources, timeSource{"slower", func(context.Context) (time.Time, error) {
			s.step = 4 * time.Second
			return time.Time{}, errors.New("silent")
		}})
		s.compare(t.Context())
		if !s.Off() {
			t.Error("Off() = false of a clock that was set by 4 s while it was compared, want true")
		}
		s.compare(t.Context())
		if !s.Off() || len(s.told) != 1 || !s.told[0] {
			t.Errorf("Off() after the next comparison = %t, and changed was called with %v, want true and once true", s.Off(), s.told)
		}
		s.step, s.sources = 0, s.sources[:1]
		s.compare(t.Context())
		if err := s.Err(); err != nil {
			t.Errorf("Err() of a clock that was set right = %v, want nil", err)
		}
	})
}
