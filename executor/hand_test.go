package executor

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// TestMessagesOfOneRunInHand: three messages of one run, and one of another, leave in every order.
func TestMessagesOfOneRunInHand(t *testing.T) {
	run, other := schema.MakeEntryID(time.Now(), 1, 1), schema.MakeEntryID(time.Now(), 2, 2)
	for _, order := range [][]int{{0, 1, 2, 3}, {0, 2, 1, 3}, {1, 0, 2, 3}, {1, 2, 0, 3}, {2, 0, 1, 3}, {3, 2, 1, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			h := messagesInHand{byRun: make(map[schema.RunID]*attempt)}
			var left []*attempt
			for i := range 4 {
				e := &schema.Entry{ID: run}
				if i == 3 {
					e.ID = other
				}
				left = append(left, attemptOf(nil, e))
				h.add(left[i])
			}
			for n, i := range order {
				gone := left[i]
				h.remove(gone)
				left[i] = nil
				found := h.all()
				if len(found) != 3-n || h.n != 3-n || slices.Contains(found, gone) {
					t.Fatalf("after %d have left: %d in hand, %d counted, want %d", n+1, len(found), h.n, 3-n)
				}
				want := 0
				for _, a := range left {
					if a != nil && a.entry.ID == run {
						want++
					}
				}
				h.of(run, func(a *attempt) {
					if want--; !slices.Contains(left, a) {
						t.Error("one that has left is found by its run")
					}
				})
				if want != 0 {
					t.Errorf("by their run %d fewer are found than are in hand", want)
				}
			}
			if len(h.byRun) != 0 {
				t.Errorf("%d runs are remembered of which nothing is in hand", len(h.byRun))
			}
		})
	}
}

// A cancel of a run among all that a large executor has in hand.
func BenchmarkCancelOfOneInHand(b *testing.B) {
	x := &Executor{messages: messagesInHand{byRun: make(map[schema.RunID]*attempt)}}
	for i := range 200_000 {
		x.messages.add(attemptOf(nil, &schema.Entry{ID: schema.MakeEntryID(time.Now(), 1, uint64(i))}))
	}
	other := schema.MakeEntryID(time.Now(), 2, 5)
	for b.Loop() {
		x.Cancel(other)
	}
}
