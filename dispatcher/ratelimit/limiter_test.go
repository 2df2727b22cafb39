package ratelimit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

var origin = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// waiting is an entry of the task "t/slow" that keeps its answers.
type waiting struct {
	e   schema.Entry
	got []Reservation
}

func (w *waiting) ID() schema.EntryID     { return w.e.ID }
func (w *waiting) Reserved(r Reservation) { w.got = append(w.got, r) }

func due(at time.Time, hash uint64) *waiting {
	return &waiting{e: schema.Entry{ID: schema.MakeEntryID(at, 0, hash), Spec: schema.Spec{Tenant: "t", Task: "slow"}}}
}

// limited returns a Limiter under which "t/slow" has the rate.
func limited(t *testing.T, rate string) (*Limiter, schema.Rate) {
	t.Helper()
	r, err := schema.ParseRate(rate)
	if err != nil {
		t.Fatal(err)
	}
	l := New()
	l.SetRates(map[schema.TaskName]schema.Rate{{Tenant: "t", Name: "slow"}: r})
	return l, r
}

// reserve reserves one block, as the user of the package does against a register that nobody else
// uses.
func reserve(l *Limiter, now time.Time) {
	for _, lim := range l.TakeWanting() {
		for n, ok := l.Want(lim, now); ok; n, ok = l.Want(lim, now) {
			to, block := lim.Reserve(lim.Known(), n, now, "test")
			lim.Saw(to)
			l.Deal(lim, block, now)
		}
	}
}

// TestStartsAreDealtByDueTime: those who wait get the starts of a block in the order of their due
// times, one rate interval apart, and each is answered once.
func TestStartsAreDealtByDueTime(t *testing.T) {
	l, r := limited(t, "10/s")
	var all []*waiting
	for i := range 5 {
		w := due(origin.Add(time.Duration(5-i)*time.Millisecond), uint64(i))
		if got, ok := l.Reserve(&w.e, r, w, origin); ok {
			t.Fatalf("Reserve = %v at once, with no block in hand", got)
		}
		all = append(all, w)
	}
	reserve(l, origin)
	slices.Reverse(all)
	for i, w := range all {
		want := Reservation{origin.Add(time.Duration(i) * 100 * time.Millisecond), r.String()}
		if len(w.got) != 1 || !w.got[0].At.Equal(want.At) || w.got[0].Rate != want.Rate {
			t.Errorf("number %d by due time got %v, want %v", i, w.got, want)
		}
	}
	if n := l.Waiting(); n != 0 {
		t.Errorf("%d wait in the end, want none", n)
	}
}

// TestUnusedStartsExpire: what is left of a block is given out at once, but not long after its
// instant.
func TestUnusedStartsExpire(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {maxUnused, true}, {time.Minute, false}} {
		t.Run(c.after.String(), func(t *testing.T) {
			l, r := limited(t, "10/s")
			w := due(origin, 1)
			for range 9 { // the demand for which a block is reserved besides
				l.Reserve(&w.e, r, w, origin)
			}
			l.Leave(func(Waiter) bool { return true })
			l.Reserve(&w.e, r, w, origin)
			reserve(l, origin)
			now := origin.Add(c.after)
			if got, ok := l.Reserve(&w.e, r, w, now); ok != c.want || ok && got.At.Before(now.Add(-maxUnused)) {
				t.Errorf("Reserve %v later = %v, %v, want %v", c.after, got, ok, c.want)
			}
		})
	}
}

// TestNoStartWithinReach: those who wait are told when to ask again, and so is whoever asks for a
// while.
func TestNoStartWithinReach(t *testing.T) {
	l, r := limited(t, "1/m")
	w := due(origin, 1)
	l.Reserve(&w.e, r, w, origin)
	for _, lim := range l.TakeWanting() {
		l.Deal(lim, schema.Reservations{}, origin)
	}
	again := Reservation{At: origin.Add(Reach)}
	if len(w.got) != 1 || w.got[0] != again {
		t.Errorf("who waited got %v, want %v", w.got, again)
	}
	if got, ok := l.Reserve(&w.e, r, w, origin); !ok || got != again {
		t.Errorf("Reserve = %v, %v, want %v at once", got, ok, again)
	}
	if _, ok := l.Reserve(&w.e, r, w, origin.Add(fullFor)); ok {
		t.Error("Reserve after a while was answered at once, want another look at the register")
	}
}

// TestARateThatChangesIsAskedAgain: who waits under the rate before is told, once.
func TestARateThatChangesIsAskedAgain(t *testing.T) {
	l, r := limited(t, "10/s")
	w := due(origin, 1)
	l.Reserve(&w.e, r, w, origin)
	stale := l.TakeWanting()
	l.SetRates(nil)
	if len(w.got) != 1 || w.got[0] != (Reservation{}) {
		t.Fatalf("got %v, want the zero Reservation once", w.got)
	}
	if _, ok := l.Rate(&w.e); ok {
		t.Error("Rate = ok of a task that has none")
	}
	if n, ok := l.Want(stale[0], origin); ok {
		t.Errorf("Want = %d under a rate that is gone", n)
	}
	l.Deal(stale[0], schema.Reservations{Rate: r, First: origin, Count: 3}, origin)
	if len(w.got) != 1 {
		t.Errorf("got %v, want nothing more", w.got)
	}
}

func TestReservationFits(t *testing.T) {
	e := &due(origin, 1).e
	for _, c := range []struct {
		name string
		r    Reservation
		now  time.Time
		want bool
	}{
		{"at the due time", Reservation{origin, "10/s"}, origin, true},
		{"a little later", Reservation{origin.Add(maxEarly), "10/s"}, origin, true},
		{"later", Reservation{origin.Add(maxEarly + 1), "10/s"}, origin, false},
		{"none within reach", Reservation{At: origin}, origin, false},
		{"too late to be published", Reservation{origin, "10/s"}, origin.Add(schema.ReservationLife / 2), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.r.Fits(e, c.now); got != c.want {
				t.Errorf("Fits(%s) = %v, want %v", fmt.Sprint(c.r), got, c.want)
			}
		})
	}
}
