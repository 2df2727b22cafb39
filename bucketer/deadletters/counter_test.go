package deadletters_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/bucketer/deadletters"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const day = 24 * time.Hour

// world is a store in memory, an Engine on it, and counters of nodes.
type world struct {
	*bucketertest.World
	e *engine.Engine
}

func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{World: bucketertest.NewWorld(t, schema.Settings{Shards: 64})}
		w.e = w.engine()
		f(t, w)
	})
}

// engine returns the Engine of another process.
func (w *world) engine() *engine.Engine {
	w.T.Helper()
	e, err := engine.New(bucketer.Config{Store: w.Store(), Hints: w, Signals: w})
	if err == nil {
		err = errors.Join(e.Refresh(w.T.Context()), e.RefreshListening(w.T.Context()))
	}
	if err != nil {
		w.T.Fatal(err)
	}
	return e
}

// node counts on another node, which owns a shard while owns says so.
func (w *world) node(owns func(schema.Shard) bool) (reg *prometheus.Registry, stop func()) {
	w.T.Helper()
	reg = prometheus.NewRegistry()
	c := deadletters.New(deadletters.Config{Bucketer: w.engine().Bucketer, Store: w.Store(), Owns: owns, Registerer: reg})
	ctx, cancel := context.WithCancel(w.T.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Run(ctx) // returns nil
	}()
	return reg, func() { cancel(); <-done }
}

func all(schema.Shard) bool { return true }

// waiting returns what a node says; ok is false if it says nothing.
func waiting(t *testing.T, reg *prometheus.Registry) (n int, ok bool) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "carillon_dead_letters_waiting" {
			return int(f.GetMetric()[0].GetGauge().GetValue()), true
		}
	}
	return 0, false
}

// want checks what nodes say together.
func want(t *testing.T, when string, n int, nodes ...*prometheus.Registry) {
	t.Helper()
	sum := 0
	for _, reg := range nodes {
		of, ok := waiting(t, reg)
		if !ok {
			t.Errorf("%s: a node says nothing, want %d of all", when, n)
		}
		sum += of
	}
	if sum != n {
		t.Errorf("%s: %d dead letters wait, want %d", when, sum, n)
	}
}

// fail records that a run of a tenant, due then, has failed for good just now.
func (w *world) fail(tenant string, due time.Time) bucketer.Finished {
	w.T.Helper()
	now := time.Now()
	spec := schema.Spec{Tenant: tenant, Nominal: due, Accepted: due.UnixMicro(), Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/"}}}
	e, err := schema.NewEntry(schema.MakeEntryID(due, 1, schema.RandomHash()), spec, nil, now.Add(100*day))
	if err != nil {
		w.T.Fatal(err)
	}
	if err := w.Store().PutEntries(w.T.Context(), []schema.Entry{e}); err != nil {
		w.T.Fatal(err)
	}
	rec := schema.Record{Entry: e.ID, Started: now, Finished: now.Add(time.Millisecond).UTC(), Outcome: schema.Failed, Final: true, Error: "refused", Status: 400}
	row := schema.Attempt{Run: e.ID, Number: 1, Fence: 1, Record: &rec, Written: now.UnixMicro(), Expires: now.Add(100 * day)}
	if err := w.e.Record(w.T.Context(), []schema.Attempt{row}); err != nil {
		w.T.Fatal(err)
	}
	return bucketer.Finished{Entry: e, Attempt: row}
}

// followUp does what follows from a record, in one process.
func (w *world) followUp(e *engine.Engine, f bucketer.Finished) (failed error) {
	e.FollowUp(w.T.Context(), []bucketer.Finished{f}, func(_ int, err error) { failed = err })
	return failed
}

// letter makes a dead letter of a tenant.
func (w *world) letter(tenant string, due time.Time) schema.RunID {
	w.T.Helper()
	f := w.fail(tenant, due)
	if err := w.followUp(w.e, f); err != nil {
		w.T.Fatalf("FollowUp = %v", err)
	}
	return f.Entry.ID
}

// TestWhatWaitsIsCounted: from nothing, by writing, resolving and leaving, whatever days and
// tenants.
func TestWhatWaitsIsCounted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		reg, stop := w.node(all)
		defer stop()
		if n, ok := waiting(t, reg); ok {
			t.Errorf("before anything was counted a node says %d", n)
		}
		time.Sleep(2 * time.Minute)
		want(t, "at first", 0, reg)

		now := time.Now()
		var runs []schema.RunID
		for _, tenant := range []string{"a", "a-b", "b"} {
			for _, due := range []time.Time{now, now, now.Add(-day), now.Add(-60 * day)} {
				runs = append(runs, w.letter(tenant, due))
			}
		}
		time.Sleep(2 * time.Minute)
		want(t, "written", 12, reg)

		if changed, err := w.e.Discard(t.Context(), "a", runs[0], "me"); err != nil || !changed {
			t.Fatalf("Discard = %v, %v", changed, err)
		}
		if _, err := w.e.Replay(t.Context(), "a", runs[1], "me"); err != nil {
			t.Fatalf("Replay = %v", err)
		}
		time.Sleep(2 * time.Minute)
		want(t, "two resolved", 10, reg)

		stop() // passes of weeks would take long
		later := func(when string, span time.Duration, n int) {
			time.Sleep(span)
			reg, stop := w.node(all)
			defer stop()
			time.Sleep(2 * time.Minute)
			want(t, when, n, reg)
		}
		time.Sleep(20 * day)
		w.letter("a", time.Now())
		later("before the first leave", 9*day, 11)
		later("after they left", 2*day, 1)
		later("after all left", 20*day, 0)
	})
}

// TestLettersOfACrash: a letter is counted once, wherever its writer died, and whoever writes it
// again.
func TestLettersOfACrash(t *testing.T) {
	for _, op := range []string{"NoteDeadLetters", "PutDeadLetters"} {
		t.Run(op, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				reg, stop := w.node(all)
				defer stop()
				f := w.fail("a", time.Now())
				w.BefallFirst(1, op, schematest.Fault{Fail: true})
				if err := w.followUp(w.e, f); !errors.Is(err, schema.ErrUnavailable) {
					t.Fatalf("FollowUp = %v, want ErrUnavailable", err)
				}
				time.Sleep(2 * time.Minute)
				want(t, "before the letter is written", 0, reg)
				for _, e := range []*engine.Engine{w.e, w.engine(), w.e} {
					if err := w.followUp(e, f); err != nil {
						t.Fatalf("FollowUp again = %v", err)
					}
				}
				time.Sleep(2 * time.Minute)
				want(t, "written again and again", 1, reg)
			})
		})
	}
}

// TestNodesShareTenants: each tenant is counted by the owner of its shard, also when that changes.
func TestNodesShareTenants(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for i := range 40 {
			w.letter("tenant-"+string(rune('a'+i)), time.Now())
		}
		var bound atomic.Int32 // shards from here on are of the second
		bound.Store(32)
		first, stopFirst := w.node(func(s schema.Shard) bool { return int32(s) < bound.Load() })
		defer stopFirst()
		second, stopSecond := w.node(func(s schema.Shard) bool { return int32(s) >= bound.Load() })
		defer stopSecond()
		time.Sleep(3 * time.Minute)
		want(t, "of two nodes", 40, first, second)
		if n, _ := waiting(t, first); n == 0 || n == 40 {
			t.Errorf("the first counts %d of 40, want a share", n)
		}
		bound.Store(0)
		if n, _ := waiting(t, first); n != 0 {
			t.Errorf("a node that owns nothing says %d", n)
		}
		time.Sleep(3 * time.Minute)
		want(t, "after the second has taken all", 40, first, second)
	})
}

// TestAStoreThatDoesNotAnswer: the numbers stay, and it is counted.
func TestAStoreThatDoesNotAnswer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.letter("a", time.Now())
		reg, stop := w.node(all)
		defer stop()
		time.Sleep(2 * time.Minute)
		for _, op := range []string{"NotedDeadLetters", "CountDeadLetters"} {
			before := bucketertest.Gathered(t, reg, "carillon_dead_letter_count_failures_total")
			w.BefallFirst(1000, op, schematest.Fault{Fail: true})
			time.Sleep(2 * time.Minute)
			want(t, "without "+op, 1, reg)
			if after := bucketertest.Gathered(t, reg, "carillon_dead_letter_count_failures_total"); after <= before {
				t.Errorf("without %s %v failures are counted, after %v", op, after, before)
			}
		}
		w.Befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
		w.letter("a", time.Now())
		time.Sleep(2 * time.Minute)
		want(t, "answering again", 2, reg)
	})
}

// TestCountingIsSlow: many tenants' days are counted at the pace that the package states, and no
// more than 10,000 letters of one are asked for.
func TestCountingIsSlow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const days = 400
		ended := schema.PeriodOf(time.Now())
		for i := range days {
			if err := w.Store().NoteDeadLetters(t.Context(), ended, schema.TenantDay{Tenant: "a", Day: ended - i}, time.Now().Add(day)); err != nil {
				t.Fatal(err)
			}
		}
		var reads atomic.Int64
		w.Befall(func(_ context.Context, op string) schematest.Fault {
			if op == "CountDeadLetters" || op == "NotedDeadLetters" {
				reads.Add(1)
			}
			return schematest.Fault{}
		})
		reg, stop := w.node(all)
		defer stop()
		for second := range 20 {
			time.Sleep(time.Second)
			if n := reads.Load(); n > int64(21+20*(second+1)+1) {
				t.Fatalf("%d reads after %d s, want 20 a second and 21 at once", n, second+1)
			}
		}
		if _, ok := waiting(t, reg); ok {
			t.Errorf("counted after 20 s and %d reads, want that it takes longer", reads.Load())
		}
		time.Sleep(10 * time.Second)
		want(t, "after all were looked at", 0, reg)
	})
}
