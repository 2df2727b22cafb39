package console

import (
	"slices"
	"strconv"
	"testing"
)

// dueServer answers pages of runs that are due at those times (ms), as a node does that looks at
// walk ms at most for one page.
type dueServer struct {
	times []float64
	walk  float64
	calls int
}

func (d *dueServer) read(s slice) (duePage, error) {
	d.calls++
	begin := s.from
	if s.cursor != "" {
		begin, _ = strconv.ParseFloat(s.cursor, 64)
	}
	end := min(s.to, begin+d.walk)
	var found []float64
	for _, at := range d.times {
		if at >= begin && at < end {
			found = append(found, at)
		}
	}
	page := duePage{due: found[:min(len(found), 500)]}
	switch {
	case len(found) > 500:
		page.next = strconv.FormatFloat(page.due[499]+1, 'f', -1, 64)
	case end < s.to:
		page.next = strconv.FormatFloat(end, 'f', -1, 64)
	}
	return page, nil
}

// TestLatest: the cases of latest.test.ts, and the same number of requests.
func TestLatest(t *testing.T) {
	var dense, herd []float64
	for i := range 100_000 {
		dense = append(dense, float64(i*9))
	}
	for range 5000 {
		herd = append(herd, 800_000)
	}
	look := func(times []float64, walk, guess float64, calls int) (latest, int) {
		t.Helper()
		d := &dueServer{times: times, walk: walk}
		found, err := latestOf(d.read, 0, 900_000, search{want: 50, guess: guess, calls: calls, late: func() bool { return false }})
		if err != nil {
			t.Fatal(err)
		}
		return found, d.calls
	}
	const whole = 1e12 // a page may look at all

	found, calls := look([]float64{1000, 400_000, 899_999}, whole, 15_000, 24)
	if !slices.Equal(found.due, []float64{899_999, 400_000, 1000}) || !found.whole || calls >= 8 {
		t.Errorf("a sparse window: %+v in %d calls, want all three, the latest first, in less than 8", found, calls)
	}
	found, calls = look(dense, whole, 15_000, 24)
	if len(found.due) < 50 || found.due[0] != 899_991 || found.due[1] != 899_982 || found.whole || calls >= 10 {
		t.Errorf("a dense window: %d from %g on in %d calls, want 50 or more, the latest first, in less than 10", len(found.due), found.from, calls)
	}
	if _, calls = look(dense, whole, found.span, 24); calls >= 4 {
		t.Errorf("with the guess of the first time it takes %d calls, want less than 4", calls)
	}
	found, calls = look([]float64{100_000}, 1000, 15_000, 20)
	if len(found.due) != 0 || found.whole || found.from <= 100_000 || calls != 20 {
		t.Errorf("where it takes too long: %+v in %d calls, want it to give up after 20", found, calls)
	}
	if found, calls = look(herd, whole, 15_000, 24); found.whole || calls > 24 {
		t.Errorf("where all are due at one instant: %+v in %d calls, want it to end", found, calls)
	}
}
