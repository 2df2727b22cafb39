package dispatcher

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/queue/inproc"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
)

// TestHealth: what fails for long enough makes unhealthy, what succeeds for long enough makes
// healthy again.
func TestHealth(t *testing.T) {
	const second = time.Second
	bad := errors.New("bad")
	start := time.Unix(0, 0)
	type event struct {
		at, began time.Duration
		w         path
		err       error
	}
	// Every second from..to, something that began took before.
	every := func(from, to, took time.Duration, w path, err error) (all []event) {
		for at := from; at <= to; at += second {
			all = append(all, event{at, at - took, w, err})
		}
		return all
	}
	join := func(parts ...[]event) (all []event) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	for _, row := range []struct {
		name   string
		events []event
		want   []time.Duration // when it changes: unhealthy, healthy, …
	}{
		{"all is well", every(0, 60*second, 0, probeStore, nil), nil},
		{"a probe fails", every(5*second, 60*second, 0, probeStore, bad), []time.Duration{15 * second}},
		{"a probe that takes long counts from its start", every(5*second, 60*second, 3*second, probeQueue, bad), []time.Duration{12 * second}},
		{"a probe hangs", every(3*second, 3*second, 3*second, probeStore, bad), []time.Duration{10 * second}},
		{"scans fail", every(5*second, 20*second, 0, scanning, bad), []time.Duration{15 * second, (20 + 16 + 10) * second}},
		{"one publication fails", every(5*second, 5*second, 0, publication, bad), nil},
		{
			"a link that is up each other second",
			join(every(2*second, 3*second, 0, probeStore, bad), every(4*second, 4*second, 0, probeStore, nil), every(5*second, 11*second, 0, probeStore, bad), every(12*second, 99*second, 0, probeStore, nil)),
			nil,
		},
		{
			"other paths do not help",
			join(every(1*second, 30*second, 0, publication, bad), every(1*second, 30*second, 0, scanning, nil)),
			[]time.Duration{11 * second, (30 + 16 + 10) * second},
		},
		{
			"a relapse takes twice as long to recover from",
			join(every(1*second, 20*second, 0, probeStore, bad), every(21*second, 40*second, 0, probeStore, nil),
				every(41*second, 60*second, 0, probeStore, bad), every(61*second, 99*second, 0, probeStore, nil)),
			[]time.Duration{11 * second, 31 * second, 51 * second, 81 * second},
		},
		{
			"a failure meanwhile begins it anew",
			join(every(1*second, 20*second, 0, probeStore, bad), every(21*second, 25*second, 0, probeStore, nil),
				every(26*second, 26*second, 0, probeStore, bad), every(27*second, 60*second, 0, probeStore, nil)),
			[]time.Duration{11 * second, 37 * second},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			var h health
			var got []time.Duration
			for now := time.Duration(0); now < 100*second; now += second {
				for _, e := range row.events {
					if e.at == now {
						h.note(e.w, start.Add(e.began), start.Add(now), e.err)
					}
				}
				healthy, changed := h.judge(start.Add(now))
				if changed {
					if got = append(got, now); healthy != (len(got)%2 == 0) {
						t.Fatalf("after %v healthy = %v", now, healthy)
					}
				}
			}
			if len(got) != len(row.want) {
				t.Fatalf("it changes after %v, want %v", got, row.want)
			}
			for i := range got {
				if got[i] != row.want[i] {
					t.Errorf("it changes after %v, want %v", got, row.want)
				}
			}
		})
	}
}

// TestAnUnhealthyDispatcherSaysSo: whatever it cannot do, the ring knows after some ten seconds,
// and again once it can.
func TestAnUnhealthyDispatcherSaysSo(t *testing.T) {
	for _, row := range []struct {
		name string
		harm func(r *rig, n *node, on bool)
		most time.Duration // until the ring knows
		why  string
	}{
		{"scans fail", func(r *rig, _ *node, on bool) { r.fail("Entries", on) }, 12 * time.Second, "scans fail: "},
		{"the queue is out of reach", func(_ *rig, n *node, on bool) {
			if on {
				n.conn.Cut()
			} else {
				n.conn.Heal()
			}
		}, 12 * time.Second, "the queue does not answer: "},
		{"publications get no answer", func(r *rig, _ *node, on bool) {
			r.harm(func(e inproc.Event) inproc.Verdict { return inproc.Verdict{Drop: on && e.Point == inproc.Receipt} })
		}, 16 * time.Second, "publications fail: "},
		{"the store's driver hangs", func(r *rig, _ *node, on bool) { r.store.hang(on) }, 12 * time.Second, "the store does not answer: "},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, r *rig) {
				r.hand(nil)
				n := r.start("d1")
				time.Sleep(20 * time.Second)
				for i := range 600 {
					r.run(time.Now().Add(time.Duration(i)*100*time.Millisecond), 0)
				}
				began := time.Now()
				row.harm(r, n, true)
				time.Sleep(time.Minute)
				said := r.reports("d1")
				if len(said) != 1 || said[0].healthy || said[0].at.Sub(began) > row.most || said[0].at.Sub(began) < unhealthyAfter-2*time.Second {
					t.Errorf("within a minute it said %v since %v, want once that it is unhealthy, after 8 s to %v", said, began, row.most)
				}
				if why := n.Unhealthy(); why == nil || !strings.Contains(why.Error(), row.why) {
					t.Errorf("it is unhealthy since %v, want that %s", why, row.why)
				}
				row.harm(r, n, false)
				time.Sleep(40 * time.Second)
				if why := n.Unhealthy(); why != nil {
					t.Errorf("well again, it is unhealthy since %v", why)
				}
				if said = r.reports("d1"); len(said) != 2 || !said[1].healthy {
					t.Errorf("40 s after all was well again it had said %v, want that it is healthy", said)
				}
			})
		})
	}
}

// hang makes calls of the store neither fail nor return, whatever their context says, until it is
// called again.
func (s *tapped) hang(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		s.hangs = make(chan struct{})
		return
	}
	close(s.hangs)
	s.hangs = nil
}

func (s *tapped) wait() {
	s.mu.Lock()
	hangs := s.hangs
	s.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
}

func (s *tapped) EntryIDs(ctx context.Context, p schema.Partition, r schema.IDRange, limit int) ([]schema.EntryID, error) {
	s.wait()
	return s.Store.EntryIDs(ctx, p, r, limit)
}

// report is what a dispatcher said of its health, and when.
type report struct {
	at      time.Time
	healthy bool
}

// reportingRing notes what the dispatcher of that name says of its health.
type reportingRing struct {
	*ring.Fixed
	r    *rig
	name string
}

func (n reportingRing) ReportHealth(healthy bool) error {
	n.r.mu.Lock()
	defer n.r.mu.Unlock()
	if n.r.health == nil {
		n.r.health = make(map[string][]report)
	}
	n.r.health[n.name] = append(n.r.health[n.name], report{time.Now(), healthy})
	return nil
}

// reports returns what the dispatcher of that name said of its health.
func (r *rig) reports(name string) []report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.health[name])
}
