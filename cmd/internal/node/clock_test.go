package node

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

func TestMedian(t *testing.T) {
	const s = time.Second
	for name, row := range map[string]struct {
		offsets []time.Duration
		want    time.Duration
	}{
		"one":                     {[]time.Duration{3 * s}, 3 * s},
		"two, the nearer to zero": {[]time.Duration{-9 * s, s}, s},
		"two, both off":           {[]time.Duration{-9 * s, -4 * s}, -4 * s},
		"two, opposite sides":     {[]time.Duration{5 * s, -3 * s}, -3 * s},
		"three, out of order":     {[]time.Duration{9 * s, 0, s}, s},
		"one of three lies":       {[]time.Duration{0, 3600 * s, 0}, 0},
		"four":                    {[]time.Duration{4 * s, 1 * s, 3 * s, 2 * s}, 2 * s},
		"four below":              {[]time.Duration{-4 * s, -1 * s, -3 * s, -2 * s}, -2 * s},
	} {
		t.Run(name, func(t *testing.T) {
			in := append([]time.Duration(nil), row.offsets...)
			if got := median(row.offsets); got != row.want {
				t.Errorf("median(%v) = %v, want %v", in, got, row.want)
			}
		})
	}
}

// stub is a clock elsewhere that is ahead of ours, takes its time to answer, or does not answer.
type stub struct {
	ahead, takes time.Duration
	silent       bool
}

func (s *stub) time(ctx context.Context) (time.Time, error) {
	if s.silent {
		<-ctx.Done()
		return time.Time{}, ctx.Err()
	}
	time.Sleep(s.takes / 2) // in a synctest bubble
	now := time.Now().Add(s.ahead)
	time.Sleep(s.takes / 2)
	return now, nil
}

func TestClockIsComparedWithTheOthers(t *testing.T) {
	const s = time.Second
	for name, row := range map[string]struct {
		others []stub
		off    bool
	}{
		"all right":                    {[]stub{{}, {}}, false},
		"a little off":                 {[]stub{{ahead: 1900 * time.Millisecond}}, false},
		"behind the others":            {[]stub{{ahead: 3 * s}, {ahead: 4 * s}}, true},
		"ahead of the others":          {[]stub{{ahead: -3 * s}, {ahead: -4 * s}}, true},
		"one of the others is off":     {[]stub{{}, {ahead: 9 * s}}, false},
		"two of three others agree":    {[]stub{{ahead: 9 * s}, {ahead: 9 * s}, {}}, true},
		"the way counts half":          {[]stub{{takes: 900 * time.Millisecond, ahead: 1800 * time.Millisecond}}, false},
		"who is slow has no say":       {[]stub{{takes: 3 * s, ahead: 9 * s}, {}}, false},
		"who is silent has no say":     {[]stub{{silent: true}, {ahead: 9 * s}}, true},
		"all are silent: nobody knows": {[]stub{{silent: true}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &clock{now: time.Now, log: slog.New(slog.DiscardHandler)}
				for i := range row.others {
					c.sources = append(c.sources, timeSource{"other", row.others[i].time})
				}
				c.compare(t.Context())
				if got := c.Off(); got != row.off {
					t.Errorf("Off = %t, want %t; %v", got, row.off, c.Err())
				}
			})
		})
	}
}

func TestClockTellsEachChangeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := &stub{}
		var told []bool
		c := &clock{
			now: time.Now, log: slog.New(slog.DiscardHandler), sources: []timeSource{{"other", other.time}},
			changed: func(off bool) { told = append(told, off) },
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.run(ctx)
		}()
		synctest.Wait()
		other.ahead = 5 * time.Second
		time.Sleep(3 * clockEvery)
		other.silent = true // what was known stays
		time.Sleep(3 * clockEvery)
		if !c.Off() {
			t.Error("Off = false since the other is silent, want what was known before")
		}
		other.silent, other.ahead = false, 0
		time.Sleep(3 * clockEvery)
		cancel()
		<-done
		if len(told) != 2 || !told[0] || told[1] {
			t.Errorf("changed was called with %v, want once true and once false", told)
		}
	})
}
