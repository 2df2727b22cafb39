package deadletters

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/damage"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tiny has every day spread at once.
const tiny = 1

// on returns the store of another process on a table.
func on(t *testing.T, table Table, now func() time.Time, spreadAfter int) *Store {
	t.Helper()
	bad, err := damage.New(slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Table: table, Damage: bad, MaxRow: schema.MaxRow, Now: now, SpreadAfter: spreadAfter})
}

// inMemory returns a store of which a process spreads a day after so many bytes.
func inMemory(t *testing.T, spreadAfter int) around {
	t.Helper()
	inner, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inner.Close() })
	table := newMemory(time.Now)
	return around{others{inner}, on(t, table, time.Now, spreadAfter), table}
}

// TestContract: whether days are spread at once, after some letters or never.
func TestContract(t *testing.T) {
	for _, after := range []int{tiny, 20_000, 1 << 40} {
		t.Run(fmt.Sprintf("after %d bytes", after), func(t *testing.T) {
			schematest.ExerciseDeadLetters(t, func(t *testing.T) schema.Store { return inMemory(t, after) })
		})
	}
}

// TestContractOfTwoProcesses: each call is made by one of two processes, of which only one spreads
// days.
func TestContractOfTwoProcesses(t *testing.T) {
	schematest.ExerciseDeadLetters(t, func(t *testing.T) schema.Store {
		a := inMemory(t, 2_000)
		return &inTurn{around: a, other: on(t, a.table, time.Now, 1<<40)}
	})
}

// TestContractThroughFaults: so it does when calls of the table fail, for whoever repeats them.
func TestContractThroughFaults(t *testing.T) {
	schematest.ExerciseDeadLetters(t, func(t *testing.T) schema.Store {
		seed := rand.Uint64()
		t.Logf("seed of the faults: %d", seed)
		rnd := rand.New(rand.NewPCG(seed, 0))
		a := inMemory(t, 2_000)
		a.table.fault = func(string, Partition) error {
			if rnd.Float64() < 0.03 {
				return schema.ErrUnavailable
			}
			return nil
		}
		return schematest.Retrying(a)
	})
}

// TestDamage: one bad row harms one letter, wherever it lies.
func TestDamage(t *testing.T) {
	schematest.ExerciseDeadLetterDamage(t, func(t *testing.T) schematest.Damager { return inMemory(t, tiny) })
}

var start = time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)

// letter makes the dead letter of a run.
func letter(t *testing.T, due time.Time, shard schema.Shard, size int) schema.DeadLetter {
	t.Helper()
	run := schema.MakeEntryID(due, shard, schema.RandomHash())
	e, err := schema.NewEntry(run, schema.Spec{Tenant: "acme", Nominal: due, Accepted: 1, Task: "mail"}, make([]byte, size), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return schema.DeadLetter{
		Tenant: "acme", Run: run, Entry: e, Attempts: 1, Written: due.UnixMicro(), Expires: due.Add(schema.DeadLetterRetention),
		Last: schema.Record{Entry: run, Finished: due, Outcome: schema.Failed, Final: true},
	}
}

var today = schema.TenantDay{Tenant: "acme", Day: schema.PeriodOf(start)}

func frozen() time.Time { return start }

// TestABadDayIsSpread: a day with many letters fills no partition, and the letters of one batch of
// outcomes share one.
func TestABadDayIsSpread(t *testing.T) {
	table := newMemory(frozen)
	s := on(t, table, frozen, 0)
	const size, batches, rows = 1000, 3200, 10
	for i := range batches {
		var batch []schema.DeadLetter
		for range rows {
			batch = append(batch, letter(t, start.Add(time.Duration(i/64)*time.Minute), schema.Shard(i%64), size)) // #nosec G115 -- small
		}
		if err := s.PutDeadLetters(t.Context(), batch); err != nil {
			t.Fatalf("PutDeadLetters = %v", err)
		}
	}
	n := table.letters(today)
	if first := n[firstOf(today)]; first*size > spreadAfter || first*size < spreadAfter/2 {
		t.Errorf("the first partition has %d letters of %d bytes, want about %d bytes", first, size, spreadAfter)
	}
	delete(n, firstOf(today))
	most := 0
	for _, k := range n {
		most = max(most, k)
	}
	if len(n) != Parts || most > 2*batches*rows/Parts {
		t.Errorf("letters lie in %d parts, at most %d in one; want %d parts with about as many each: %v", len(n), most, Parts, n)
	}
	if table.puts != batches {
		t.Errorf("%d batches were written as %d, want as they are", batches, table.puts)
	}
	got, err := s.CountDeadLetters(t.Context(), today, 1<<20)
	if want := (schema.DeadLetterCount{Waiting: batches * rows, Looked: batches * rows}); err != nil || got != want {
		t.Errorf("CountDeadLetters = %+v, %v; want %+v", got, err, want)
	}
}

// TestAnOrdinaryDayCostsNoMore: what writes a few letters asks nothing, and what reads them reads
// one partition.
func TestAnOrdinaryDayCostsNoMore(t *testing.T) {
	table := newMemory(frozen)
	s := on(t, table, frozen, 0)
	var calls []string
	table.fault = func(op string, p Partition) error {
		if p != firstOf(today) {
			t.Errorf("%s of %v, want of the first partition alone", op, p)
		}
		calls = append(calls, op)
		return nil
	}
	var runs []schema.RunID
	for i := range 100 {
		l := letter(t, start, schema.Shard(i%64), 1000) // #nosec G115 -- small
		runs = append(runs, l.Run)
		if err := s.PutDeadLetters(t.Context(), []schema.DeadLetter{l}); err != nil {
			t.Fatalf("PutDeadLetters = %v", err)
		}
	}
	if slices.ContainsFunc(calls, func(op string) bool { return op != "Put" }) || len(calls) != 100 {
		t.Errorf("100 letters cost %d calls, %v; want a Put each", len(calls), calls)
	}
	for _, row := range []struct {
		what string
		do   func() error
		want int
	}{
		{"DeadLetter", func() error { _, err := s.DeadLetter(t.Context(), "acme", runs[7]); return err }, 1},
		{"DeadLetters", func() error { _, err := s.DeadLetters(t.Context(), "acme", today.Day, schema.RunID{}, 50); return err }, 2},
		{"Resolutions", func() error { _, err := s.Resolutions(t.Context(), "acme", today.Day, runs); return err }, 1},
		{"CountDeadLetters", func() error { _, err := s.CountDeadLetters(t.Context(), today, 10_000); return err }, 2},
		{"PutResolution", func() error {
			return s.PutResolution(t.Context(), "acme", runs[7], schema.Resolution{Kind: schema.ResolvedDiscarded, At: start}, start.Add(time.Hour))
		}, 1},
	} {
		calls = nil
		if err := row.do(); err != nil || len(calls) != row.want {
			t.Errorf("%s = %v, and cost %v; want %d calls", row.what, err, calls, row.want)
		}
	}
}

// TestWithoutTheMarkNothingIsSpread: while the mark of a day cannot be held, its letters are
// refused or lie in the first partition, so whoever is told that one is held finds it.
func TestWithoutTheMarkNothingIsSpread(t *testing.T) {
	table := newMemory(frozen)
	s, reader := on(t, table, frozen, 10_000), on(t, table, frozen, 0)
	fails := true
	table.fault = func(op string, _ Partition) error {
		if op == "Resolve" && fails {
			return schema.ErrUnavailable
		}
		return nil
	}
	held, refused := 0, 0
	for i := range 60 {
		l := letter(t, start.Add(time.Duration(i)*time.Minute), 5, 1000)
		fails = i < 40
		err := s.PutDeadLetters(t.Context(), []schema.DeadLetter{l})
		switch {
		case errors.Is(err, schema.ErrUnavailable):
			refused++
			continue
		case err != nil:
			t.Fatalf("PutDeadLetters = %v", err)
		}
		held++
		if _, err := reader.DeadLetter(t.Context(), "acme", l.Run); err != nil {
			t.Fatalf("DeadLetter of letter %d, which is held = %v", i, err)
		}
		if got, err := reader.DeadLetters(t.Context(), "acme", today.Day, schema.RunID{}, 100); err != nil || len(got) != held || got[0].Run != l.Run {
			t.Fatalf("DeadLetters after letter %d = %d, %v; want the %d that are held, the last one first", i, len(got), err, held)
		}
	}
	if n := table.letters(today); refused == 0 || len(n) < 2 {
		t.Errorf("%d were refused, and letters lie in %v; want some of both", refused, n)
	}
}

// TestLettersOfAnOlderBuild: what it wrote is found in order among those of a spread day, and what
// it resolves meanwhile is resolved.
func TestLettersOfAnOlderBuild(t *testing.T) {
	table := newMemory(frozen)
	older, newer := on(t, table, frozen, 1<<40), on(t, table, frozen, tiny)
	var all []schema.DeadLetter
	for i := range 90 {
		l := letter(t, start.Add(time.Duration(i%7)*time.Minute), schema.Shard(i%64), 10) // #nosec G115 -- small
		all = append(all, l)
		by := newer
		if i < 30 || i%3 == 0 {
			by = older
		}
		if err := by.PutDeadLetters(t.Context(), []schema.DeadLetter{l}); err != nil {
			t.Fatalf("PutDeadLetters = %v", err)
		}
	}
	discarded := schema.Resolution{Kind: schema.ResolvedDiscarded, At: start.Add(time.Hour), By: "me"}
	for i := range all {
		if i%2 == 0 {
			row := Row{Run: all[i].Run, Resolved: discarded.At.UnixMicro(), Expires: start.Add(time.Hour)}
			row.Resolution, _ = schema.EncodeResolution(&discarded) // it can be
			if err := table.Resolve(t.Context(), firstOf(today), row); err != nil {
				t.Fatalf("Resolve = %v", err)
			}
		}
	}
	slices.SortFunc(all, func(x, y schema.DeadLetter) int { return y.Run.Compare(x.Run) })
	got, err := newer.DeadLetters(t.Context(), "acme", today.Day, schema.RunID{}, 1000)
	if err != nil || !slices.EqualFunc(got, all, func(x, y schema.DeadLetter) bool { return x.Run == y.Run }) {
		t.Fatalf("DeadLetters = %d, %v; want the %d in order", len(got), err, len(all))
	}
	resolved := 0
	for i := range got {
		if got[i].Resolution != nil {
			resolved++
		}
	}
	if resolved != 45 {
		t.Errorf("%d letters are resolved, want the 45 that the older build has", resolved)
	}
}

// TestAMarkStaysAsLongAsItsLetters: letters that stay longer than those that a day was marked for
// write the mark again.
func TestAMarkStaysAsLongAsItsLetters(t *testing.T) {
	var mu sync.Mutex
	at := start
	now := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return at
	}
	table := newMemory(now)
	s := on(t, table, now, tiny)
	var last schema.DeadLetter
	for range 25 { // runs of one day fail from day to day
		last = letter(t, start, 3, 10)
		last.Expires = now().Add(10 * 24 * time.Hour)
		if err := s.PutDeadLetters(t.Context(), []schema.DeadLetter{last}); err != nil {
			t.Fatalf("PutDeadLetters = %v", err)
		}
		if got, err := on(t, table, now, 0).DeadLetters(t.Context(), "acme", today.Day, schema.RunID{}, 100); err != nil || !slices.ContainsFunc(got, func(l schema.DeadLetter) bool { return l.Run == last.Run }) {
			t.Fatalf("DeadLetters = %d, %v; want that of %s among them", len(got), err, last.Run)
		}
		mu.Lock()
		at = at.Add(24 * time.Hour)
		mu.Unlock()
	}
	mu.Lock()
	at = last.Expires.Add(-time.Second)
	mu.Unlock()
	if _, err := s.DeadLetter(t.Context(), "acme", last.Run); err != nil {
		t.Errorf("DeadLetter before it leaves = %v", err)
	}
}

// inTurn has two processes make the calls that write, one after the other.
type inTurn struct {
	around
	other *Store
	mu    sync.Mutex
	n     int
}

func (s *inTurn) next() *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n++; s.n%2 == 0 {
		return s.other
	}
	return s.Store
}

func (s *inTurn) PutDeadLetters(ctx context.Context, letters []schema.DeadLetter) error {
	return s.next().PutDeadLetters(ctx, letters)
}

func (s *inTurn) PutResolution(ctx context.Context, tenant string, run schema.RunID, f schema.Resolution, expires time.Time) error {
	return s.next().PutResolution(ctx, tenant, run, f, expires)
}

func (s *inTurn) DeadLetters(ctx context.Context, tenant string, day int, before schema.RunID, limit int) ([]schema.DeadLetter, error) {
	return s.next().DeadLetters(ctx, tenant, day, before, limit)
}
