package planner

import (
	"math"
	"strings"
	"testing"
	"time"
)

// TestAPlayThatDoesNotEnd: a mistake of the planner is an error, not a command that never comes
// back.
func TestAPlayThatDoesNotEnd(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		wrong func(p *play)
		want  string
	}{
		"runs that are never let in": {
			"herd=3,at=1s,duration=1s,max_concurrent=1", func(p *play) { p.sites[0].tasks[0].limit.most = 0 },
			"nothing is under way from 1m0s on, and 3 of 3 runs still wait",
		},
		"something that comes again when all have ended": {
			"herd=3,at=59s,duration=4h,max_concurrent=1", func(p *play) {
				var again func()
				again = func() { p.at(p.now+time.Second, again) }
				again()
			},
			"nothing is under way from 12h0m59s on, and 0 of 3 runs still wait",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := Config{Slots: 20, Starts: math.Inf(1), Span: time.Minute, Step: time.Second, Seed: 1, Loads: []Load{load(t, test.text)}}
			p := newPlay(&c)
			test.wrong(p)
			if err := p.all(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("all = %v, want %q", err, test.want)
			}
		})
	}
}

// TestALongPlay: a play in which little happens for long is played to its end, unless that is
// further away than can be told.
func TestALongPlay(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"herd=3,at=1s,duration=24h,max_concurrent=1":  3 * 24 * time.Hour,
		"herd=30,at=1s,duration=24h":                  2 * 24 * time.Hour,
		"herd=30,at=1s,duration=1s,task_rate=0.1/h":   29 * 10 * time.Hour,
		"herd=30,at=1s,duration=1s,task_rate=1e-9/h":  0,
		"herd=30,at=1s,duration=1s,task_rate=1e-99/h": 0,
		"rate=1e-9/h":  -1,
		"rate=1e-99/h": -1,
	} {
		c := Config{Slots: 20, Starts: math.Inf(1), Span: time.Minute, Step: time.Second, Seed: 1, Loads: []Load{load(t, text)}}
		r, err := Play(&c)
		switch {
		case want > 0 && (err != nil || r.Ended < want || r.Ended > want+2*time.Minute):
			t.Errorf("%s ends at %s, %v; want about %s", text, r.Ended, err, want)
		case want == 0 && (err == nil || !strings.Contains(err.Error(), "more than 100 years")):
			t.Errorf("%s ends at %s, %v; want more than 100 years", text, r.Ended, err)
		case want < 0 && (err != nil || r.All.Runs != 0):
			t.Errorf("%s: %d runs, %v; want none", text, r.All.Runs, err)
		}
	}
}
