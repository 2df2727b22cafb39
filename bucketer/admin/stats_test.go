package admin

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
)

func TestCountsOfNodesAreAddedUp(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	store, err := embedded.Open(embedded.Config{Shards: 1, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	class := func(ms, count int64) schema.LatenessClass {
		return schema.LatenessClass{UpTo: schema.Duration(time.Duration(ms) * time.Millisecond), Count: count}
	}
	for _, m := range []schema.MinuteStats{
		{Minute: now.Add(-2 * time.Minute), Node: "a", Due: 1, Started: 2, Succeeded: 3, Failed: 4, Missed: 5, Retried: 6, Lateness: []schema.LatenessClass{class(1, 98), class(5, 1)}},
		{Minute: now.Add(-2 * time.Minute), Node: "b", Due: 10, Started: 20, Succeeded: 30, Failed: 40, Missed: 50, Retried: 60, Lateness: []schema.LatenessClass{class(2, 100), class(5, 1)}},
		{Minute: now, Node: "a", Due: 1},
		{Minute: now.Add(time.Minute), Node: "a", Due: 1},
		{Minute: now.Add(-2 * time.Hour), Node: "a", Due: 1},
	} {
		if err := store.PutStats(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Stats{store}.Minutes(t.Context(), now.Add(-time.Hour), now.Add(time.Minute))
	if err != nil || len(got) != 2 {
		t.Fatalf("Minutes = %+v, %v; want two", got, err)
	}
	m := got[0]
	if m.Due != 11 || m.Started != 22 || m.Succeeded != 33 || m.Failed != 44 || m.Missed != 55 || m.Retried != 66 {
		t.Errorf("the counts of two nodes together = %+v", m)
	}
	if want := (Lateness{class(1, 98), class(2, 100), class(5, 2)}); !slices.Equal(m.Lateness, want) {
		t.Errorf("the lateness of two nodes together = %v, want %v", m.Lateness, want)
	}
	for q, want := range map[float64]int64{0: 1, .25: 1, .5: 2, .99: 2, 1: 5} {
		if got := m.Lateness.Rank(q); got.Std().Milliseconds() != want {
			t.Errorf("Rank(%v) = %v, want %v ms", q, got, want)
		}
	}
	if got := Lateness(nil).Rank(.5); got != 0 {
		t.Errorf("Rank of nothing = %v, want 0", got)
	}
}

// Whatever order nodes come in, together they count the same.
func TestLatenessIsAddedInAnyOrder(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	var nodes [][]schema.LatenessClass
	for range 10 {
		var l []schema.LatenessClass
		for i := range 20 {
			if rnd.IntN(2) == 0 {
				l = append(l, schema.LatenessClass{UpTo: schema.Duration(i), Count: rnd.Int64N(5) + 1})
			}
		}
		nodes = append(nodes, l)
	}
	var first Lateness
	for _, l := range nodes {
		first = first.add(l)
	}
	for range 20 {
		rnd.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		var again Lateness
		for _, l := range nodes {
			again = again.add(l)
		}
		if !slices.Equal(first, again) {
			t.Errorf("in another order: %v, want %v", again, first)
		}
	}
}
