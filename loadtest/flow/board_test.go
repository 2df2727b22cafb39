package flow

import (
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// ms returns the instant so many milliseconds after t0; the zero time for a negative number.
func ms(n int) time.Time {
	if n < 0 {
		return time.Time{}
	}
	return t0.Add(time.Duration(n) * time.Millisecond)
}

// call is a call of a step, and whether anybody asked for it.
type call struct {
	place   Place
	at, end int // ms; -1 = never
	status  int
	strange bool
}

func boardOf(runs, steps int, calls ...call) *Board {
	b := NewBoard(runs, steps)
	var seen []check.Sighting
	for i, c := range calls {
		seen = append(seen, check.Sighting{Attempt: i, At: ms(c.at), End: ms(c.end), Status: c.status})
	}
	b.Read(seen, func(s *check.Sighting) (Place, bool) { return calls[s.Attempt].place, !calls[s.Attempt].strange })
	return b
}

func TestGapsOfChains(t *testing.T) {
	rows := []struct {
		name   string
		calls  []call // of two runs of two steps
		gaps   []int  // ms
		missed int
		extra  int
		early  int
		odd    int
	}{
		{"in order", []call{{Place{0, 0}, 0, 1, 200, false}, {Place{0, 1}, 11, 12, 200, false}, {Place{1, 0}, 5, 6, 200, false}, {Place{1, 1}, 36, 37, 200, false}}, []int{10, 30}, 0, 0, 0, 0},
		{"the record is in any order", []call{{Place{1, 1}, 36, 37, 200, false}, {Place{0, 1}, 11, 12, 200, false}, {Place{1, 0}, 5, 6, 200, false}, {Place{0, 0}, 0, 1, 200, false}}, []int{10, 30}, 0, 0, 0, 0},
		{"a second call of a step is extra, and the first answer counts", []call{
			{Place{0, 0}, 0, 1, 200, false}, {Place{0, 0}, 50, 51, 200, false}, {Place{0, 1}, 11, 12, 200, false}, {Place{0, 1}, 8, 9, 200, false},
		}, []int{7}, 2, 2, 0, 0},
		{"only an answer of 2xx ends a step", []call{{Place{0, 0}, 0, 1, 500, false}, {Place{0, 0}, 20, 21, 200, false}, {Place{0, 1}, 25, 26, 200, false}}, []int{4}, 2, 1, 0, 0},
		{"early", []call{{Place{0, 0}, 0, 20, 200, false}, {Place{0, 1}, 5, 6, 200, false}}, []int{0}, 2, 0, 1, 0},
		{"a step after one that never ended is early", []call{{Place{0, 0}, 0, -1, 0, false}, {Place{0, 1}, 5, 6, 200, false}}, []int{0}, 2, 0, 1, 0},
		{"a step after one that never came is early", []call{{Place{0, 1}, 5, 6, 200, false}}, []int{0}, 3, 0, 1, 0},
		{"what nobody asked for", []call{{Place{0, 0}, 0, 1, 200, true}, {Place{2, 0}, 0, 1, 200, false}, {Place{0, 2}, 0, 1, 200, false}, {Place{-1, 1}, 0, 1, 200, false}}, nil, 4, 0, 0, 4},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			b := boardOf(2, 2, row.calls...)
			gaps, early := b.Gaps()
			var got []int
			for _, g := range gaps {
				got = append(got, int(g.Milliseconds()))
			}
			if !slices.Equal(got, row.gaps) || early != row.early {
				t.Errorf("Gaps = %v, %d early, want %v, %d", got, early, row.gaps, row.early)
			}
			if b.Missed() != row.missed || b.Extra != row.extra || b.Unexpected != row.odd {
				t.Errorf("missed, extra, unexpected = %d, %d, %d, want %d, %d, %d", b.Missed(), b.Extra, b.Unexpected, row.missed, row.extra, row.odd)
			}
		})
	}
}

func TestArrivalsAreTheFirstOnes(t *testing.T) {
	b := boardOf(1, 3, call{Place{0, 2}, 90, 91, 200, false}, call{Place{0, 0}, 40, 41, 200, false}, call{Place{0, 0}, 99, 100, 200, false})
	if got, want := b.Arrivals(), []time.Time{ms(40), ms(90)}; !slices.Equal(got, want) {
		t.Errorf("Arrivals = %v, want %v", got, want)
	}
	if !b.Last().Equal(ms(90)) {
		t.Errorf("Last = %v, want the last first arrival, %v", b.Last(), ms(90))
	}
	if last := NewBoard(1, 3).Last(); !last.IsZero() {
		t.Errorf("Last of an empty board = %v, want zero", last)
	}
}

func TestJoinOfAFanOut(t *testing.T) {
	item := func(i, at, end int) call { return call{Place{0, i}, at, end, 200, false} }
	rows := []struct {
		name   string
		calls  []call
		gap    int
		fanned int
		ok     bool
	}{
		{"after the last answer", []call{item(0, 10, 90), item(1, 30, 40), item(2, 95, 96)}, 5, 30, true},
		{"early", []call{item(0, 10, 90), item(1, 30, 40), item(2, 60, 61)}, -30, 30, true},
		{"an item never came", []call{item(0, 10, 90), item(2, 95, 96)}, 0, 0, false},
		{"an item was never answered", []call{item(0, 10, 90), item(1, 30, -1), item(2, 95, 96)}, 0, 0, false},
		{"the join never came", []call{item(0, 10, 90), item(1, 30, 40)}, 0, 0, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			gap, fanned, ok := boardOf(1, 3, row.calls...).Join()
			if ok != row.ok || gap != time.Duration(row.gap)*time.Millisecond || ok && !fanned.Equal(ms(row.fanned)) {
				t.Errorf("Join = %s, %s, %t, want %d ms, %s, %t", gap, fanned, ok, row.gap, ms(row.fanned), row.ok)
			}
		})
	}
}
