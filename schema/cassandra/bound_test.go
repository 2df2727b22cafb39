package cassandra

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/congestion"
	"github.com/gocql/gocql"
)

// TestStatementsInFlightAreBounded: of the plain statements maxInFlight are under way, the others
// wait in order to be sent, for as long as their context stands. Those on which others' lives hang
// do not wait behind them.
func TestStatementsInFlightAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := newMetrics(nil)
		if err != nil {
			t.Fatal(err)
		}
		s := &core{speculation: newSpeculation(gocql.RoundRobinHostPolicy()), window: congestion.New(minInFlight, maxInFlight, DefaultTimeout/slowPart), metrics: m}
		const surplus = 50
		var sent atomic.Int64
		answer := make(chan struct{})
		ask := func(ctx context.Context, st statement, m mode) error {
			return s.repeat(ctx, st, m, func() error {
				sent.Add(1)
				<-answer
				return nil
			})
		}
		under := func(what string, want int64) {
			t.Helper()
			synctest.Wait() // until everybody waits: for an answer, or to be sent
			if got := sent.Load(); got != want {
				t.Errorf("%s: %d statements were sent, want %d", what, got, want)
			}
		}
		var wg sync.WaitGroup
		for range maxInFlight + surplus {
			wg.Go(func() {
				if err := ask(t.Context(), insertEntry, writing); err != nil {
					t.Errorf("a statement that had to wait: %v", err)
				}
			})
		}
		under("all at once", maxInFlight)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = s.repeat(ctx, selectEntries, reading, func() error { t.Error("a statement over the bound was sent"); return nil })
		if !errors.Is(err, schema.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a statement whose context ends while it waits: got %v, want ErrUnavailable and the context's", err)
		}

		exempt := 0
		for st := range urgent {
			exempt++
			wg.Go(func() { _ = ask(t.Context(), st, reading) })
		}
		for _, st := range []statement{cancelRun, registerKey, renewSession} {
			exempt++
			wg.Go(func() { _ = ask(t.Context(), st, conditional) })
		}
		under("with those that do not wait", int64(maxInFlight+exempt))

		close(answer)
		wg.Wait()
		under("all answered", int64(maxInFlight+surplus+exempt))
		if n := s.window.UnderWay(); n != 0 {
			t.Errorf("all answered: %d places are taken, want 0", n)
		}
	})
}

// TestFailedStatementGivesItsPlaceBack: a place that is lost would be missed for ever.
func TestFailedStatementGivesItsPlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := newMetrics(nil)
		if err != nil {
			t.Fatal(err)
		}
		s := &core{speculation: newSpeculation(gocql.RoundRobinHostPolicy()), window: congestion.New(minInFlight, maxInFlight, DefaultTimeout/slowPart), metrics: m}
		for name, fault := range map[string]error{
			"unknown, all tries": gocql.ErrTimeoutNoResponse, "for good": answer{gocql.ErrCodeInvalid, ""}, "no row": gocql.ErrNotFound,
		} {
			if err := s.repeat(t.Context(), insertEntry, writing, func() error { return fault }); err == nil {
				t.Errorf("%s: repeat: got nil", name)
			}
			if n := s.window.UnderWay(); n != 0 {
				t.Errorf("%s: %d places are taken after it, want 0", name, n)
			}
		}
	})
}

// TestHeartbeatsPassBulkWork: on a real server, while every place for a plain statement is taken by
// writes that are not answered, sessions are read and renewed, keys are claimed, and the clock is
// read.
func TestHeartbeatsPassBulkWork(t *testing.T) {
	cfg := testConfig(t)
	w := new(wire)
	cfg.dialer = w
	s := openWith(t, cfg)
	start := somewhere()
	tenant := unique("bulk")
	put(t, s, entryAt(t, start, 5, tenant, nil)) // the statement that is held back from here
	const surplus = 50
	holds := w.holdLast(maxInFlight + surplus)
	release := sync.OnceValue(w.letGo)
	var writers sync.WaitGroup
	defer func() {
		if err := release(); err != nil {
			t.Errorf("send on what was held back: %v", err)
		}
		writers.Wait()
	}()
	for range maxInFlight + surplus {
		e := entryAt(t, start, 5, tenant, nil)
		writers.Go(func() {
			if err := s.PutEntries(t.Context(), []schema.Entry{e}); err != nil {
				t.Errorf("PutEntries: %v", err)
			}
		})
	}
	for n := range maxInFlight {
		select {
		case <-holds:
		case <-time.After(time.Minute):
			t.Fatalf("%d writes are under way, want %d", n, maxInFlight)
		}
	}

	// never used up by a test that passes
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	session := schema.Session{Executor: unique("e"), ID: "1", Expires: time.Now().Add(time.Hour)}
	if err := s.SwapSession(ctx, schema.Session{}, session); err != nil {
		t.Errorf("SwapSession: %v", err)
	}
	if got, err := s.Session(ctx, session.Executor); err != nil || got.ID != session.ID {
		t.Errorf("Session: got %+v, %v, want that of before", got, err)
	}
	claim := schema.KeyRecord{BodyHash: "h", Text: []byte("{}"), Expires: session.Expires}
	for _, first := range []bool{true, false} {
		claim.Entry = schema.MakeEntryID(start, 1, schema.RandomHash())
		if _, mine, err := s.RegisterKey(ctx, tenant, "k", claim, session.Expires); err != nil || mine != first {
			t.Errorf("ClaimKey: got mine %v, %v, want %v, nil", mine, err, first)
		}
	}
	if _, err := s.Time(ctx); err != nil {
		t.Errorf("Time: %v", err)
	}
	if n := w.heldBack(); n != maxInFlight {
		t.Errorf("%d writes are under way, want %d", n, maxInFlight)
	}
	if err := release(); err != nil {
		t.Fatalf("send on what was held back: %v", err)
	}
	writers.Wait()
	ids, err := s.EntryIDs(t.Context(), schema.MakeEntryID(start, 5, 0).Partition(), schema.IDRange{}, 1000)
	if err != nil || len(ids) != maxInFlight+surplus+1 {
		t.Errorf("EntryIDs: got %d, %v, want %d: who waited is written as well", len(ids), err, maxInFlight+surplus+1)
	}
}
