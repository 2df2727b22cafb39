package sim

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestMachine: what a step and a slew do to the wall clock and to the monotonic one.
func TestMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		m := machine{began: began, since: began}
		last := m.read(time.Now())
		passes := func(what string, sleep, wantWall, wantMono time.Duration) {
			t.Helper()
			time.Sleep(sleep)
			now := m.read(time.Now())
			if wall := now.Round(0).Sub(last.Round(0)).Round(time.Microsecond); wall != wantWall {
				t.Errorf("%s: the wall clock passed %v, want %v", what, wall, wantWall)
			}
			if mono := now.Sub(last).Round(time.Microsecond); mono != wantMono {
				t.Errorf("%s: the monotonic clock passed %v, want %v", what, mono, wantMono)
			}
			last = now
		}
		passes("right", 10*time.Second, 10*time.Second, 10*time.Second)
		m.step(-90 * time.Second)
		passes("set back", time.Second, -89*time.Second, time.Second)
		m.step(92 * time.Second)
		passes("set ahead", time.Second, 93*time.Second, time.Second)
		m.discipline(time.Now())
		passes("slewed", 12*time.Second, 11*time.Second, 11*time.Second)
		passes("slewed to the end", 36*time.Second, 35*time.Second, 35*time.Second)
		if off := m.offset(time.Now()); off != 0 {
			t.Errorf("offset after the slew = %v, want 0", off)
		}
		m.step(-6 * time.Second)
		m.discipline(time.Now())
		passes("slewed the other way", 12*time.Second, 7*time.Second, 13*time.Second)
		m.correct(time.Now())
		if off := m.offset(time.Now().Add(time.Minute)); off != 0 {
			t.Errorf("offset a minute after the correction = %v, want 0", off)
		}
		passes("corrected", time.Second, 6*time.Second, time.Second)
	})
}

// TestReadingIsATimeWithAMonotonicReading: time.Time lies in memory as withMonotonic takes it to.
func TestReadingIsATimeWithAMonotonicReading(t *testing.T) {
	wall := time.Date(2026, 2, 28, 23, 59, 59, 123456789, time.UTC)
	a, b := withMonotonic(wall, time.Second), withMonotonic(wall.Add(-time.Hour), 3*time.Second)
	if !a.Equal(a.Round(0)) || !a.Round(0).Equal(wall) {
		t.Errorf("withMonotonic(%v) tells %v", wall, a.Round(0))
	}
	if got := b.Sub(a); got != 2*time.Second {
		t.Errorf("between the readings lie %v by the monotonic clock, want 2s", got)
	}
	if got := b.Round(0).Sub(a.Round(0)); got != -time.Hour {
		t.Errorf("between the readings lie %v by the wall clock, want -1h", got)
	}
}
