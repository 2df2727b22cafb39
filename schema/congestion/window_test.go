package congestion

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// server answers one question after the other, each in work. It works on a question also when
// nobody waits for the answer any more.
type server struct {
	work time.Duration
	mu   sync.Mutex
	free time.Time // when it has worked on all that it was asked
}

// ask returns how long the answer takes.
func (s *server) ask() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.free.Before(now) {
		s.free = now
	}
	s.free = s.free.Add(s.work)
	return s.free.Sub(now)
}

// stall has the server work on nothing for d.
func (s *server) stall(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = time.Now().Add(d)
}

const (
	patience = 2 * time.Second // of a caller
	callers  = 600
)

// answered lets callers ask a server that could answer 100 questions a second and has been down for
// a minute. It returns how many get their answer in the third minute after that.
func answered(w *Window) int64 {
	s := server{work: 10 * time.Millisecond}
	s.stall(time.Minute)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	began := time.Now()
	var n atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for w.Acquire(ctx) {
				took := min(s.ask(), patience)
				time.Sleep(took)
				now := time.Now()
				w.Observe(took, now)
				w.Release()
				if minute := int(now.Sub(began) / time.Minute); took < patience && minute == 3 {
					n.Add(1)
				}
				time.Sleep(rand.N(100 * time.Millisecond)) // before it asks again, or for the next
			}
		})
	}
	all.Wait()
	return n.Load()
}

// TestServerRecovers: a server that was asked for more than it can answer answers what it can. With
// as many calls under way as before, it goes on to answer nobody.
func TestServerRecovers(t *testing.T) {
	const could = 60 * 100
	synctest.Test(t, func(t *testing.T) {
		if got := answered(New(4, 256, patience/4)); got < could*3/4 {
			t.Errorf("with a window that shrinks: %d answers of %d in time, want three quarters", got, could)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		if got := answered(New(256, 256, patience/4)); got > could/10 {
			t.Errorf("with a fixed window: %d answers of %d in time: the server is not overloaded, and this test shows nothing", got, could)
		}
	})
}

// spans feeds a window with spans of answers, of which a share is slow, and returns its size.
func spans(w *Window, n int, slow, all int) int {
	now := w.since
	for range n {
		now = now.Add(span)
		for i := range all {
			took := w.slow
			if i < slow {
				took++
			}
			w.Observe(took, now)
		}
	}
	w.Observe(0, now.Add(span)) // judges the last
	return w.Size()
}

func TestSize(t *testing.T) {
	for _, c := range []struct {
		name                   string
		from, spans, slow, all int
		want                   int
	}{
		{"nothing is slow", 256, 3, 0, 100, 256},
		{"one slow node of three", 256, 3, 67, 100, 256},
		{"nearly all are slow", 256, 1, 80, 100, 153},
		{"for long", 256, 30, 100, 100, 4},
		{"few are asked, all slow", 256, 1, 1, 1, 153},
		{"it grows from the least", 4, 1, 0, 1, 6},
		{"to the most", 4, 30, 0, 100, 256},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := New(4, 256, time.Second)
			w.since = time.Unix(1e9, 0)
			w.size = c.from
			for range 256 - c.from {
				w.places <- struct{}{}
				w.withheld++
			}
			if got := spans(w, c.spans, c.slow, c.all); got != c.want {
				t.Errorf("size after %d spans of %d slow answers of %d: got %d, want %d", c.spans, c.slow, c.all, got, c.want)
			}
		})
	}
}

// TestPlaces: whatever is asked, answered and observed, no more calls are under way than may be, a
// place that is free is given, and in the end none is lost.
func TestPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const least, most = 2, 8
		w := New(least, most, time.Second)
		now := time.Unix(1e9, 0)
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		under := 0
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				if under >= w.Size() {
					t.Skip("full")
				}
				if !w.Acquire(context.Background()) {
					t.Fatal("a free place was not given")
				}
				under++
			},
			"release": func(t *rapid.T) {
				if under == 0 {
					t.Skip("nothing under way")
				}
				w.Release()
				under--
			},
			"observe": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "ms")) * time.Millisecond)
				w.Observe(time.Duration(rapid.IntRange(0, 2).Draw(t, "took"))*time.Second, now)
			},
			"": func(t *rapid.T) {
				if size := w.Size(); size < least || size > most {
					t.Fatalf("size %d", size)
				}
				if got := w.UnderWay(); got != under {
					t.Fatalf("%d under way, want %d", got, under)
				}
				if len(w.places) == most && w.Acquire(ended) {
					t.Fatal("a place was given that there is not")
				}
			},
		})
		for ; under > 0; under-- {
			w.Release()
		}
		if spans(w, 40, 0, 1); len(w.places) != 0 {
			t.Fatalf("%d places are lost", len(w.places))
		}
	})
}
