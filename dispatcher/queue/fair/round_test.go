package fair

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// load is a flow with what waits in it.
type load struct {
	flow    Flow[*load]
	name    int
	waiting int
	served  int
}

func newLoad(r *Round[*load], name, weight int) *load {
	l := &load{name: name}
	l.flow.Of = l
	r.Weigh(&l.flow, weight)
	return l
}

// serve serves the next flow once, and returns false if none waits.
func serve(r *Round[*load]) (*load, bool) {
	f := r.Next()
	if f == nil {
		return nil, false
	}
	l := f.Of
	l.waiting--
	l.served++
	if l.waiting == 0 {
		r.Leave(f)
	}
	return l, true
}

func (l *load) add(r *Round[*load], n int) {
	l.waiting += n
	r.Join(&l.flow)
}

// TestSharesFollowWeights: at every instant, of flows that all wait, what each was served by its
// weight differs by at most one quantum.
func TestSharesFollowWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Round[*load]
		var all []*load
		for i, w := range rapid.SliceOfN(rapid.IntRange(1, 50), 1, 12).Draw(t, "weights") {
			l := newLoad(&r, i, w)
			l.add(&r, math.MaxInt32)
			all = append(all, l)
		}
		for range rapid.IntRange(1, 2000).Draw(t, "served") {
			if _, ok := serve(&r); !ok {
				t.Fatal("nobody was served although all wait")
			}
			least, most := math.Inf(1), 0.0
			for _, l := range all {
				by := float64(l.served) / float64(l.flow.Weight())
				least, most = min(least, by), max(most, by)
			}
			if most-least > 1 {
				t.Fatalf("served by weight: between %.2f and %.2f, want within one", least, most)
			}
		}
	})
}

// TestNothingIsLeft: for any joins and leaves, some flow is served as long as one waits, everything
// is served once, and the round knows how many flows wait and their weights.
func TestNothingIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Round[*load]
		all := make([]*load, 6)
		for i := range all {
			all[i] = newLoad(&r, i, rapid.IntRange(0, 9).Draw(t, "weight"))
		}
		one := func(t *rapid.T) *load { return rapid.SampledFrom(all).Draw(t, "flow") }
		came, served := 0, 0
		t.Repeat(map[string]func(*rapid.T){
			"come": func(t *rapid.T) {
				n := rapid.IntRange(1, 30).Draw(t, "n")
				one(t).add(&r, n)
				came += n
			},
			"serve": func(t *rapid.T) {
				if l, ok := serve(&r); ok {
					served++
					if l.waiting < 0 {
						t.Fatalf("%d was served although it does not wait", l.name)
					}
				} else if came != served {
					t.Fatalf("nobody was served while %d wait", came-served)
				}
			},
			"weigh": func(t *rapid.T) { r.Weigh(&one(t).flow, rapid.IntRange(0, 9).Draw(t, "weight")) },
			"owe":   func(t *rapid.T) { r.Owe(&one(t).flow) },
			"leave": func(t *rapid.T) {
				l := one(t)
				came -= l.waiting
				l.waiting = 0
				r.Leave(&l.flow)
			},
			"": func(t *rapid.T) {
				n, weights := 0, 0
				for _, l := range all {
					if l.flow.Waits() != (l.waiting > 0) {
						t.Fatalf("%d waits: %v, want %v", l.name, l.flow.Waits(), l.waiting > 0)
					}
					if l.waiting > 0 {
						n, weights = n+1, weights+l.flow.Weight()
					}
				}
				if r.Len() != n || r.Weights() != weights {
					t.Fatalf("Len = %d, Weights = %d, want %d, %d", r.Len(), r.Weights(), n, weights)
				}
			},
		})
	})
}

// TestANewcomerWaitsOneRound: a flow that joins is served after at most the sum of the others'
// weights, and a flow that was away has saved no credit.
func TestANewcomerWaitsOneRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Round[*load]
		sum := 0
		for i, w := range rapid.SliceOfN(rapid.IntRange(1, 50), 1, 12).Draw(t, "weights") {
			newLoad(&r, i, w).add(&r, math.MaxInt32)
			sum += w
		}
		late := newLoad(&r, -1, rapid.IntRange(1, 9).Draw(t, "its weight"))
		for range 3 {
			for range rapid.IntRange(0, 300).Draw(t, "before") {
				serve(&r)
			}
			late.add(&r, 1)
			others := 0
			for {
				if l, _ := serve(&r); l == late {
					break
				}
				if others++; others > sum {
					t.Fatalf("a newcomer waited for %d others, want at most %d", others, sum)
				}
			}
		}
	})
}

// TestDebtsArePaid: a flow that was served out of turn is served that much less in the next rounds.
func TestDebtsArePaid(t *testing.T) {
	var r Round[*load]
	a, b := newLoad(&r, 0, 2), newLoad(&r, 1, 1)
	for range 4 {
		r.Owe(&a.flow)
	}
	a.add(&r, 100)
	b.add(&r, 100)
	var got []int
	for range 8 {
		l, _ := serve(&r)
		got = append(got, l.name)
	}
	// The first two turns of a pay.
	if want := []int{1, 1, 0, 0, 1, 0, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("served %v, want %v", got, want)
	}
	r.Back(&a.flow)
	got = got[:0]
	for range 3 {
		l, _ := serve(&r)
		got = append(got, l.name)
	}
	if want := []int{0, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("after one was given back: served %v, want %v", got, want)
	}
}

func BenchmarkNext(b *testing.B) {
	var r Round[*load]
	for i := range 10_000 {
		newLoad(&r, i, 1+i%7).add(&r, math.MaxInt)
	}
	b.ReportAllocs()
	for b.Loop() {
		serve(&r)
	}
}
