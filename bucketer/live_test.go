package bucketer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// under is an attempt that runs under a session.
func under(executor, id string) schema.Attempt {
	return schema.Attempt{Number: 1, Session: &schema.SessionRef{Executor: executor, ID: id}}
}

// swap stores an executor's session and returns it.
func (w *world) swap(was schema.Session, id string, life time.Duration) schema.Session {
	w.T.Helper()
	is := schema.Session{Executor: "x", ID: id, Expires: time.Now().Add(life).UTC().Truncate(time.Millisecond)}
	was.Executor = "x"
	if err := w.Counts.SwapSession(context.Background(), was, is); err != nil {
		w.T.Fatalf("SwapSession = %v", err)
	}
	return is
}

func (w *world) alive(l *Liveness, executor, id string) bool {
	w.T.Helper()
	a := under(executor, id)
	live, err := l.Of(context.Background(), []schema.Attempt{a})
	if err != nil {
		w.T.Fatalf("Of = %v", err)
	}
	return live(*a.Session)
}

// An executor that starts again has another session within the second for which the last one is
// believed.
func TestNextSessionStandsWhileTheLastOneIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		l := NewLiveness(w.Counts, time.Now, nil)
		if w.alive(l, "x", "s1") {
			t.Error("a session that was never there stands")
		}
		s1 := w.swap(schema.Session{}, "s2", time.Minute)
		if !w.alive(l, "x", "s2") {
			t.Error("the first session of an executor does not stand right after none was seen")
		}
		w.swap(s1, "s3", time.Minute)
		if !w.alive(l, "x", "s3") {
			t.Error("the next session of an executor does not stand right after the last one was seen")
		}
		time.Sleep(sessionCacheAge)
		if w.alive(l, "x", "s2") {
			t.Error("a session that was replaced stands")
		}
	})
}

func TestLivenessReadsASessionOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		l := NewLiveness(w.Counts, time.Now, nil)
		w.swap(schema.Session{}, "s1", time.Minute)
		w.Counts.Reset()
		attempts := []schema.Attempt{
			under("x", "s1"), under("x", "s1"), under("x", "dead"), under("y", "gone"), under("x", ""),
			{Number: 0},
			{Number: 1, Record: &schema.Record{}, Session: &schema.SessionRef{Executor: "z", ID: "s"}},
		}
		for range 10 {
			live, err := l.Of(t.Context(), attempts)
			if err != nil || !live(*attempts[0].Session) || live(*attempts[2].Session) || live(*attempts[3].Session) || live(schema.SessionRef{}) {
				t.Fatalf("Of = %v; want s1 alone to stand", err)
			}
		}
		if n := w.Counts.Tally("Session").Calls; n != 3 {
			t.Errorf("%d reads within a second, want one for each of three sessions", n)
		}
		time.Sleep(sessionCacheAge)
		if _, err := l.Of(t.Context(), attempts); err != nil {
			t.Fatal(err)
		}
		if n := w.Counts.Tally("Session").Calls; n != 4 {
			t.Errorf("%d reads after a second, want one more, for the session that stood", n)
		}
	})
}

// slowSessions answers reads of sessions with what was stored when they began, once it is told to.
type slowSessions struct {
	SessionReader
	goOn  chan struct{}
	reads atomic.Int64
}

func (s *slowSessions) Session(ctx context.Context, executor string) (schema.Session, error) {
	s.reads.Add(1)
	session, err := s.SessionReader.Session(ctx, executor)
	select {
	case <-s.goOn:
		return session, err
	case <-ctx.Done():
		return schema.Session{}, ctx.Err()
	}
}

// TestWhoAsksAtOnceSharesOneRead: a thousand starts that ask for one session at once read it once;
// who gives up takes the read of nobody else with him.
func TestWhoAsksAtOnceSharesOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		w.swap(schema.Session{}, "s1", time.Minute)
		slow := &slowSessions{SessionReader: w.Counts, goOn: make(chan struct{})}
		l := NewLiveness(slow, time.Now, nil)
		attempts := []schema.Attempt{under("x", "s1")}
		first, giveUp := context.WithCancel(t.Context())
		ask := func(ctx context.Context, want bool) func() {
			return func() {
				if live, err := l.Of(ctx, attempts); (err == nil) != want || want && !live(*attempts[0].Session) {
					t.Errorf("Of = %v, want an answer: %v", err, want)
				}
			}
		}
		var wg sync.WaitGroup
		wg.Go(ask(first, false))
		synctest.Wait()
		for range 1000 {
			wg.Go(ask(t.Context(), true))
		}
		synctest.Wait()
		if n := slow.reads.Load(); n != 1 {
			t.Errorf("%d reads at once, want one", n)
		}
		giveUp()
		synctest.Wait()
		close(slow.goOn)
		wg.Wait()
		if n := slow.reads.Load(); n != 2 {
			t.Errorf("%d reads, want a second one after the first asker gave up", n)
		}
	})
}

// TestASharedReadIsNotOlderThanTheQuestion: a session that began while the last one was being read
// stands.
func TestASharedReadIsNotOlderThanTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		slow := &slowSessions{SessionReader: w.Counts, goOn: make(chan struct{})}
		l := NewLiveness(slow, time.Now, nil)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := l.Of(t.Context(), []schema.Attempt{under("x", "s0")}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		w.swap(schema.Session{}, "s1", time.Minute)
		wg.Go(func() {
			attempts := []schema.Attempt{under("x", "s1")}
			if live, err := l.Of(t.Context(), attempts); err != nil || !live(*attempts[0].Session) {
				t.Errorf("Of = %v; want s1 to stand, which was stored before it was asked for", err)
			}
		})
		synctest.Wait()
		close(slow.goOn)
		wg.Wait()
	})
}

func TestLivenessConcludesNothingFromAFailedRead(t *testing.T) {
	w := newWorld(t, schema.Settings{})
	l := NewLiveness(w.Faulty, time.Now, nil)
	w.BefallFirst(1, "Session", schematest.Fault{Fail: true})
	if _, err := l.Of(t.Context(), []schema.Attempt{under("x", "s1")}); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("Of = %v, want ErrUnavailable", err)
	}
	w.swap(schema.Session{}, "s1", time.Minute)
	if !w.alive(l, "x", "s1") {
		t.Error("the failed read was remembered")
	}
}

// A session is declared dead by a reaper alone, and only when it is 2 s past its expiry.
func TestReaperDeclaresDead(t *testing.T) {
	for name, row := range map[string]struct {
		after  time.Duration
		reaper bool
		halted bool
		stands bool
	}{
		"before its expiry":                {9 * time.Second, true, false, true},
		"at its expiry":                    {10 * time.Second, true, false, true},
		"the grace after":                  {10*time.Second + schema.SessionGrace, true, false, true},
		"1 ms more":                        {10*time.Second + schema.SessionGrace + time.Millisecond, true, false, false},
		"an hour after, by who only looks": {time.Hour, false, false, true},
		"an hour after, by a clock that may be wrong": {time.Hour, true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, schema.Settings{})
				w.swap(schema.Session{}, "s1", 10*time.Second)
				time.Sleep(row.after)
				l := NewLiveness(w.Counts, time.Now, nil)
				if row.reaper {
					l = NewReaper(w.Counts, time.Now, func() bool { return row.halted }, nil)
				}
				if got := w.alive(l, "x", "s1"); got != row.stands {
					t.Errorf("stands = %v, want %v", got, row.stands)
				}
				_, err := w.Counts.Session(t.Context(), "x")
				if gone := errors.Is(err, schema.ErrNotFound); gone == row.stands {
					t.Errorf("stored session gone: %v (%v), want %v", gone, err, !row.stands)
				}
			})
		})
	}
}

// A session that was replaced has fallen, but for what was claimed under it: that stands until the
// session would have been declared dead.
func TestClaimsOutlastTheReplacement(t *testing.T) {
	for name, row := range map[string]struct {
		after   time.Duration
		guarded bool
		halted  bool
		stands  bool
	}{
		"not claimed":                  {time.Second, false, false, false},
		"claimed":                      {time.Second, true, false, true},
		"claimed, at its expiry":       {10 * time.Second, true, false, true},
		"claimed, the grace after":     {10*time.Second + schema.SessionGrace, true, false, true},
		"claimed, 1 ms more":           {10*time.Second + schema.SessionGrace + time.Millisecond, true, false, false},
		"by a clock that may be wrong": {time.Hour, true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, schema.Settings{})
				was := w.swap(schema.Session{}, "s1", 10*time.Second)
				next, err := schema.Session{Executor: "x", ID: "s2", Expires: time.Now().Add(2 * time.Hour)}.After(was, time.Now())
				if err == nil {
					err = w.Counts.SwapSession(t.Context(), was, next)
				}
				if err != nil {
					t.Fatal(err)
				}
				l := NewReaper(w.Counts, time.Now, func() bool { return row.halted }, nil)
				a := under("x", "s1")
				a.Session.Guarded = row.guarded
				stands := func() bool {
					live, err := l.Of(t.Context(), []schema.Attempt{a})
					if err != nil {
						t.Fatalf("Of = %v", err)
					}
					return live(*a.Session)
				}
				if got := stands(); got != row.guarded {
					t.Errorf("stands at once = %v, want %v", got, row.guarded)
				}
				time.Sleep(row.after)
				if got := stands(); got != row.stands {
					t.Errorf("stands = %v, want %v", got, row.stands)
				}
			})
		})
	}
}

// renewing is a store in which the executor renews its session between read and declaration.
type renewing struct {
	schema.SessionStore
	renew func()
}

func (r renewing) SwapSession(ctx context.Context, was, is schema.Session) error {
	r.renew()
	return r.SessionStore.SwapSession(ctx, was, is)
}

func TestRenewalBeforeTheDeclarationWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		s1 := w.swap(schema.Session{}, "s1", 10*time.Second)
		time.Sleep(time.Minute)
		l := NewReaper(renewing{w.Counts, func() { w.swap(s1, "s1", 10*time.Second) }}, time.Now, func() bool { return false }, nil)
		if !w.alive(l, "x", "s1") {
			t.Error("a session that was renewed in between was declared dead")
		}
	})
}

// A declaration of unknown outcome decides nothing: the attempt may still be under way.
func TestDeclarationOfUnknownOutcomeDecidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		w.swap(schema.Session{}, "s1", 10*time.Second)
		time.Sleep(time.Minute)
		l := NewReaper(w.Faulty, time.Now, func() bool { return false }, nil)
		w.BefallFirst(1, "SwapSession", schematest.Fault{Lose: true})
		if _, err := l.Of(t.Context(), []schema.Attempt{under("x", "s1")}); !errors.Is(err, schema.ErrUnknown) {
			t.Errorf("Of = %v, want ErrUnknown", err)
		}
		if w.alive(l, "x", "s1") {
			t.Error("the session was removed, and still stands")
		}
	})
}

// TestASessionOfAnotherRegionIsDecidedThere: its row here is a copy, which may be late. Nodes of
// two data centres that both write it conditionally overwrite each other.
func TestASessionOfAnotherRegionIsDecidedThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		is := w.swap(schema.Session{}, "s1", 10*time.Second)
		halted := false
		us := &Regions{Region: "us"}
		if us.HasExecutor(is.Executor) || !us.HasExecutor(us.ExecutorName("n")) || us.ExecutorName("n.us") != "n.us" {
			t.Fatalf("executor %s belongs to region us: %v; n.us: %v", is.Executor, us.HasExecutor(is.Executor), us.HasExecutor(us.ExecutorName("n")))
		}
		check := func(when string, want bool) {
			t.Helper()
			reaper := NewReaper(w.Counts, time.Now, func() bool { return halted }, us)
			looker := NewLiveness(w.Counts, time.Now, us)
			if a, b := w.alive(reaper, is.Executor, "s1"), w.alive(looker, is.Executor, "s1"); a != want || !halted && b != want {
				t.Errorf("%s: it stands: %v, %v; want %v", when, a, b, want)
			}
		}
		time.Sleep(10*time.Second + schema.SessionGrace)
		check("as long as it may be alive there", true)
		time.Sleep(time.Millisecond)
		check("from then on", false)
		halted = true
		check("by a clock that may be wrong", true)
		if got, err := w.Counts.Session(t.Context(), is.Executor); err != nil || got.ID != "s1" {
			t.Errorf("Session = %+v, %v; want it as it was", got, err)
		}
	})
}
