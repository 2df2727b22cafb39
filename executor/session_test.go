package executor

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
)

// troubled is a session store whose next swaps go as told: nil = well.
type troubled struct {
	schema.SessionStore
	delay time.Duration // of each swap, before it takes effect

	mu    sync.Mutex
	swaps []func(do func() error) error
}

func (s *troubled) next(swaps ...func(do func() error) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swaps = append(s.swaps, swaps...)
}

func (s *troubled) SwapSession(ctx context.Context, was, is schema.Session) error {
	time.Sleep(s.delay)
	do := func() error { return s.SessionStore.SwapSession(ctx, was, is) }
	s.mu.Lock()
	how := func(do func() error) error { return do() }
	if len(s.swaps) > 0 {
		how, s.swaps = s.swaps[0], s.swaps[1:]
	}
	s.mu.Unlock()
	return how(do)
}

// applied and lost are swaps of unknown outcome.
func applied(do func() error) error { return errors.Join(schema.ErrUnknown, do()) }
func lost(func() error) error       { return schema.ErrUnknown }
func refused(func() error) error    { return schema.ErrUnavailable }

// inSession runs f in a bubble with an embedded store in memory.
func inSession(t *testing.T, f func(t *testing.T, s *troubled, k *sessionKeeper)) {
	synctest.Test(t, func(t *testing.T) {
		store, err := embedded.Open(embedded.Config{})
		if err != nil {
			t.Fatalf("open the store: %v", err)
		}
		defer func() {
			if err := store.Close(); err != nil {
				t.Errorf("close the store: %v", err)
			}
		}()
		s := &troubled{SessionStore: store}
		f(t, s, newSessionKeeper(s, "executor-1", time.Now, func() bool { return false }, slog.New(slog.DiscardHandler)))
	})
}

// alive checks what the keeper says now, and returns the id.
func alive(t *testing.T, k *sessionKeeper, when string, want bool) string {
	t.Helper()
	id, ok := k.current(time.Now())
	if ok != want {
		t.Errorf("%s: current: got %q, %v, want %v", when, id, ok, want)
	}
	return id
}

func beat(t *testing.T, k *sessionKeeper, when string, want error) {
	t.Helper()
	if err := k.beat(t.Context()); !errors.Is(err, want) {
		t.Errorf("%s: beat: got %v, want %v", when, err, want)
	}
}

func stored(t *testing.T, s *troubled) schema.Session {
	t.Helper()
	is, err := s.Session(t.Context(), "executor-1")
	if err != nil && !errors.Is(err, schema.ErrNotFound) {
		t.Fatalf("Session: %v", err)
	}
	return is
}

func TestSessionOpensAndIsRenewed(t *testing.T) {
	inSession(t, func(t *testing.T, s *troubled, k *sessionKeeper) {
		alive(t, k, "before the first beat", false)
		beat(t, k, "open", nil)
		id := alive(t, k, "opened", true)
		for range 5 {
			time.Sleep(renewEvery)
			beat(t, k, "renew", nil)
			if now := alive(t, k, "renewed", true); now != id {
				t.Errorf("renewed: got the session %s, want %s", now, id)
			}
		}
		if is := stored(t, s); is.ID != id || !is.Expires.Equal(time.Now().Add(sessionLife).Truncate(time.Millisecond)) {
			t.Errorf("stored: got %+v, want %s until %s", is, id, time.Now().Add(sessionLife))
		}
	})
}

// What the predecessor of the same name ran is lost: its session must not pass for ours.
func TestSessionReplacesThatOfAPredecessor(t *testing.T) {
	inSession(t, func(t *testing.T, s *troubled, k *sessionKeeper) {
		beat(t, k, "open the predecessor's", nil)
		was := alive(t, k, "predecessor", true)
		k = newSessionKeeper(s, "executor-1", time.Now, func() bool { return false }, slog.New(slog.DiscardHandler))
		beat(t, k, "open", nil)
		if id := alive(t, k, "opened", true); id == was || stored(t, s).ID != id {
			t.Errorf("opened after a predecessor: got %s, stored %+v, want another session than %s, stored", id, stored(t, s), was)
		}
	})
}

// The deadline counts from before the renewal was sent, not from when its answer came: an observer
// may count from there.
func TestSessionDeadlineCountsFromTheSending(t *testing.T) {
	inSession(t, func(t *testing.T, s *troubled, k *sessionKeeper) {
		s.delay = 4 * time.Second
		beat(t, k, "open", nil)
		time.Sleep(6*time.Second - time.Nanosecond)
		alive(t, k, "1 ns before the deadline", true)
		time.Sleep(time.Nanosecond)
		alive(t, k, "at the deadline", false)
		beat(t, k, "renew", nil)
		alive(t, k, "renewed after the deadline", true)
	})
}

// TestSessionOfAClockThatWasSet: a renewal by a clock that had been set back was over at once, and
// what ran under it was started elsewhere while it ran; one by a clock that had been set ahead
// would have outlived its executor.
func TestSessionOfAClockThatWasSet(t *testing.T) {
	for _, tc := range []struct {
		name string
		step time.Duration
	}{{"back", -90 * time.Second}, {"ahead", 90 * time.Second}} {
		t.Run(tc.name, func(t *testing.T) {
			inSession(t, func(t *testing.T, s *troubled, k *sessionKeeper) {
				var step time.Duration
				k.now = func() time.Time { return time.Now().Add(step) }
				k.halted = func() bool { return step != 0 }
				expiry := func(when string) {
					t.Helper()
					if err := k.beat(t.Context()); err != nil {
						t.Fatalf("beat %s: %v", when, err)
					}
					got, err := s.Session(t.Context(), "executor-1")
					if want := time.Now().Add(sessionLife).UTC().Truncate(time.Millisecond); err != nil || !got.Expires.Equal(want) {
						t.Errorf("session %s: got one until %v, %v, want until %v", when, got.Expires, err, want)
					}
				}
				expiry("at the start")
				time.Sleep(renewEvery)
				step = tc.step
				expiry("after the step")
				time.Sleep(renewEvery)
				expiry("later")
				time.Sleep(renewEvery)
				step = 0
				expiry("when the clock is right again")
			})
		})
	}
}

func TestSessionDeclaredDead(t *testing.T) {
	inSession(t, func(t *testing.T, s *troubled, k *sessionKeeper) {
		beat(t, k, "open", nil)
		was := alive(t, k, "opened", true)
		time.Sleep(sessionLife + schema.SessionGrace)
		if err := s.SwapSession(t.Context(), stored(t, s), schema.Session{Executor: "executor-1"}); err != nil {
			t.Fatalf("declare dead: %v", err)
		}
		beat(t, k, "renew", schema.ErrConflict)
		alive(t, k, "declared dead", false)
		beat(t, k, "open again", nil)
		if id := alive(t, k, "opened again", true); id == was {
			t.Errorf("opened again: got %s, want another session than the one declared dead", id)
		}
	})
}

func TestSessionOfUnknownOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		how  func(func() error) error
		want error
	}{
		"applied":     {applied, schema.ErrUnknown},
		"not applied": {lost, schema.ErrUnknown},
		"refused":     {refused, schema.ErrUnavailable},
	} {
		t.Run(name+" at a renewal", func(t *testing.T) {
			inSession(t, func(t *testing.T, s *troubled, k *sessionKeeper) {
				beat(t, k, "open", nil)
				opened := time.Now()
				id := alive(t, k, "opened", true)
				time.Sleep(renewEvery)
				s.next(c.how)
				beat(t, k, "renew", c.want)
				alive(t, k, "after the trouble", true)
				time.Sleep(time.Until(opened.Add(sessionLife)))
				alive(t, k, "at the deadline of the last good renewal", false)
				beat(t, k, "renew", nil)
				if now := alive(t, k, "renewed", true); now != id || stored(t, s).ID != id {
					t.Errorf("renewed: got %s, stored %s, want %s", now, stored(t, s).ID, id)
				}
			})
		})
		t.Run(name+" at the opening", func(t *testing.T) {
			inSession(t, func(t *testing.T, s *troubled, k *sessionKeeper) {
				s.next(c.how)
				beat(t, k, "open", c.want)
				alive(t, k, "not opened for certain", false)
				beat(t, k, "open again", nil)
				if id := alive(t, k, "opened", true); stored(t, s).ID != id {
					t.Errorf("opened: got %s, stored %s", id, stored(t, s).ID)
				}
			})
		})
	}
}

func TestSessionIsKeptUntilItsEnd(t *testing.T) {
	inSession(t, func(t *testing.T, s *troubled, k *sessionKeeper) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			k.run(ctx)
		}()
		synctest.Wait()
		id := alive(t, k, "at once", true)
		for range 20 {
			time.Sleep(sessionLife / 2)
			alive(t, k, "kept", true)
		}
		// Three failures in a row are gone over well before the deadline.
		s.next(refused, lost, applied)
		time.Sleep(sessionLife)
		if now := alive(t, k, "after failures", true); now != id {
			t.Errorf("after failures: got the session %s, want %s", now, id)
		}
		cancel()
		<-done
		if err := k.close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
		alive(t, k, "closed", false)
		if is := stored(t, s); is.ID != "" {
			t.Errorf("closed: got %+v stored, want none", is)
		}
	})
}

func TestSessionCloses(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, s *troubled, k *sessionKeeper)
		want    error
	}{
		"never opened": {func(*testing.T, *troubled, *sessionKeeper) {}, nil},
		"declared dead": {func(t *testing.T, s *troubled, k *sessionKeeper) {
			beat(t, k, "open", nil)
			if err := s.SwapSession(t.Context(), stored(t, s), schema.Session{Executor: "executor-1"}); err != nil {
				t.Fatalf("declare dead: %v", err)
			}
		}, nil},
		"store away": {func(t *testing.T, s *troubled, k *sessionKeeper) {
			beat(t, k, "open", nil)
			s.next(refused)
		}, schema.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			inSession(t, func(t *testing.T, s *troubled, k *sessionKeeper) {
				c.prepare(t, s, k)
				if err := k.close(t.Context()); !errors.Is(err, c.want) {
					t.Errorf("close: got %v, want %v", err, c.want)
				}
				alive(t, k, "closed", false)
			})
		})
	}
}
