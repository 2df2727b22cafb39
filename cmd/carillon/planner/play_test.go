package planner

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/executor/admission"
	"carillon.dev/carillon/schema"
)

// load reads a load that is right.
func load(t *testing.T, text string) Load {
	t.Helper()
	l, err := ParseLoad(text)
	if err != nil {
		t.Fatalf("ParseLoad(%q) = %v", text, err)
	}
	return l
}

// played plays c to its end.
func played(t *testing.T, c *Config) Result {
	t.Helper()
	r, err := Play(c)
	if err != nil {
		t.Fatalf("Play = %v", err)
	}
	return r
}

// mustPlay plays p to its end.
func mustPlay(t *testing.T, p *play) {
	t.Helper()
	if err := p.all(); err != nil {
		t.Fatalf("it was not played to its end: %v", err)
	}
}

// TestErlang: with random arrivals and exponential durations the part of runs that wait, and their
// mean wait, are those of Erlang's C formula (Erlang 1917; Kleinrock, "Queueing Systems", volume 1,
// 3.5).
func TestErlang(t *testing.T) {
	const slots, rate, mean = 20, 17.0, time.Second // of 22: two are kept from a single tenant
	c := Config{Slots: slots + 2, Starts: math.Inf(1), Span: 24 * time.Hour, Step: time.Hour, Seed: 1, Loads: []Load{load(t, "rate=17/s,duration=mean=1s")}}
	waits := collect(t, &c)
	offered := rate * mean.Seconds()
	sum, term := 0.0, 1.0 // term = offered^k/k!
	for k := range slots {
		sum += term
		term *= offered / float64(k+1)
	}
	last := term / (1 - offered/slots)
	waiting := last / (sum + last)
	meanWait := waiting / (slots/mean.Seconds() - rate)
	waited, total := 0, 0.0
	for _, w := range waits {
		if w > 0 {
			waited++
		}
		total += w.Seconds()
	}
	n := float64(len(waits))
	if got := float64(waited) / n; math.Abs(got-waiting) > 0.03*waiting {
		t.Errorf("%.3f of %d runs wait, want %.3f", got, len(waits), waiting)
	}
	if got := total / n; math.Abs(got-meanWait) > 0.06*meanWait {
		t.Errorf("the mean wait is %.4f s, want %.4f s", got, meanWait)
	}
}

// collect plays c and returns the waits of all runs.
func collect(t *testing.T, c *Config) []time.Duration {
	t.Helper()
	p := newPlay(c)
	mustPlay(t, p)
	var waits []time.Duration
	for _, s := range p.result.Loads {
		waits = append(waits, s.waits...)
	}
	return waits
}

// TestLikeTheRealSlots: a herd of low priority meets steady runs of two others, played and run
// through the executor's own slots. The waits agree within a fifth.
func TestLikeTheRealSlots(t *testing.T) {
	c := Config{Slots: 7, Starts: math.Inf(1), Span: 2 * time.Hour, Step: time.Second, Seed: 3, Loads: []Load{
		load(t, "name=critical,rate=4/s,duration=500ms,priority=critical"),
		load(t, "name=normal,rate=6/s,duration=p50=500ms/p99=900ms"),
		load(t, "name=herd,herd=100,at=10s,every=2m,duration=200ms..600ms,priority=low"),
	}}
	p := newPlay(&c)
	var runs []run
	p.seen = func(r run) { runs = append(runs, r) }
	mustPlay(t, p)
	p.sum()
	real := make([][]time.Duration, len(c.Loads))
	synctest.Test(t, func(t *testing.T) {
		slots := admission.NewSlots(c.Slots, time.Now)
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, r := range runs {
			all.Go(func() {
				time.Sleep(r.due)
				due := time.Now()
				if !slots.Acquire(context.Background(), c.Loads[r.load].Priority, c.Loads[r.load].Name) {
					t.Error("it got no slot")
					return
				}
				mu.Lock()
				real[r.load] = append(real[r.load], time.Since(due))
				mu.Unlock()
				time.Sleep(r.took)
				slots.Release()
			})
		}
		all.Wait()
	})
	for i, waits := range real {
		_, p99, most := percentiles(waits)
		s := &p.result.Loads[i]
		// The longest wait is that of one run, and chance, but for who waits at the end of the
		// herd.
		if len(waits) != s.Runs || !near(s.WaitP99, p99) || i == 2 && !near(s.WaitMost, most) {
			t.Errorf("%s: %d runs wait for %s and %s (p99, most), foretold were %d, %s and %s", s.Name, len(waits), p99, most, s.Runs, s.WaitP99, s.WaitMost)
		}
	}
	if herd := p.result.Loads[2]; herd.WaitMost < 10*time.Second {
		t.Errorf("the herd waits for %s at most: it was to be a queue", herd.WaitMost)
	}
}

// near reports whether two waits agree within a fifth, or 50 ms.
func near(a, b time.Duration) bool { return (a - b).Abs() <= max(a/5, b/5, 50*time.Millisecond) }

// TestBounds: what the bounds of tasks and of the cluster do to even loads can be said in advance.
func TestBounds(t *testing.T) {
	for _, test := range []struct {
		name, load    string
		slots         int
		starts        float64
		p99, most     time.Duration
		ended         time.Duration
		deepest, runs int
	}{
		{"there is room", "rate=10/s,even=true,duration=1s", 11, math.Inf(1), 0, 0, 60*time.Second + 900*time.Millisecond, 0, 599},
		{"the rate of a task", "herd=100,at=0s,duration=0s,task_rate=10/s", 100, math.Inf(1), 9900 * time.Millisecond, 9900 * time.Millisecond, 9900 * time.Millisecond, 99, 100},
		{"slots, of which a tenant gets 7/8", "herd=100,at=0s,duration=1s", 22, math.Inf(1), 4 * time.Second, 4 * time.Second, 5 * time.Second, 80, 100},
		{"starts a second", "herd=100,at=0s,duration=0s", 100, 100, 990 * time.Millisecond, 990 * time.Millisecond, 990 * time.Millisecond, 99, 100},
		{"herds that come again", "herd=10,at=1s,every=20s,duration=1s", 5, math.Inf(1), time.Second, time.Second, 43 * time.Second, 5, 30},
	} {
		c := Config{Slots: test.slots, Starts: test.starts, Span: time.Minute, Step: time.Second, Seed: 1, Loads: []Load{load(t, test.load)}}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		r := played(t, &c)
		if r.All.WaitP99 != test.p99 || r.All.WaitMost != test.most || r.Ended != test.ended || r.All.Deepest != test.deepest || r.All.Runs != test.runs {
			t.Errorf("%s: %d runs, p99 %s, most %s, ended at %s, %d waiting at most; want %d, %s, %s, %s, %d", test.name,
				r.All.Runs, r.All.WaitP99, r.All.WaitMost, r.Ended, r.All.Deepest, test.runs, test.p99, test.most, test.ended, test.deepest)
		}
	}
}

// TestSteps: each run is in one step as due and as started, and the use of the slots adds up.
func TestSteps(t *testing.T) {
	c := Config{Slots: 5, Starts: math.Inf(1), Span: 10 * time.Second, Step: 4 * time.Second, Seed: 1, Loads: []Load{load(t, "herd=20,at=1s,duration=1s")}}
	r := played(t, &c)
	var due, started []int
	for _, s := range r.Steps {
		due, started = append(due, s.Due), append(started, s.Started)
	}
	if !slices.Equal(due, []int{20, 0, 0}) || !slices.Equal(started, []int{15, 5, 0}) || r.Steps[0].Waiting != 5 || r.Steps[0].Running != 5 || r.Steps[0].Use != 0.75 || r.Steps[1].Use != 0.25 || r.Use != 0.4 || r.Offered != 2 {
		t.Errorf("%+v", r)
	}
	again := played(t, &c)
	if again.All.WaitP99 != r.All.WaitP99 {
		t.Error("the same seed gives another result")
	}
}

func TestReadRecorded(t *testing.T) {
	const pages = `{"items":[
	{"tenant":"a","task":"mail","due_at":"2026-11-27T10:00:02Z","attempts":[{"started_at":"2026-11-27T10:00:02Z","finished_at":"2026-11-27T10:00:03Z"},{"started_at":"2026-11-27T10:00:08Z","finished_at":"2026-11-27T10:00:10Z"}]},
	{"tenant":"a","task":"mail","due_at":"2026-11-27T10:00:05Z","attempts":[]}]}
	{"tenant":"b","priority":"high","due_at":"2026-11-27T10:00:00Z","attempts":[{"started_at":"2026-11-27T10:00:01Z","finished_at":"2026-11-27T10:00:01.5Z"}]}`
	loads, span, left, err := ReadRecorded(strings.NewReader(pages))
	if err != nil || len(loads) != 2 || left != 1 || span != 2*time.Second+time.Millisecond {
		t.Fatalf("ReadRecorded = %+v, %s, %d, %v", loads, span, left, err)
	}
	if b, a := loads[0], loads[1]; b.Priority != schema.High || b.Name != "inline" || a.Recorded[0] != (Recorded{2 * time.Second, 3 * time.Second}) {
		t.Errorf("loads = %+v", loads)
	}
	c := Config{Slots: 1, Starts: math.Inf(1), Span: span, Step: time.Second, Seed: 1, Loads: loads}
	if r := played(t, &c); r.All.Runs != 2 || r.Ended != 5*time.Second {
		t.Errorf("played: %+v", r.All)
	}
	for _, bad := range []string{"", "x", `{"items":[]}`, `{"due_at":"yesterday"}`} {
		if _, _, _, err := ReadRecorded(strings.NewReader(bad)); err == nil {
			t.Errorf("ReadRecorded(%q) = nil, want an error", bad)
		}
	}
}

func TestFaultsOfLoads(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "is no member",
		"duration=1s":                   "either a rate or a herd",
		"rate=1/s,herd=3":               "either a rate or a herd",
		"rate=0":                        "no rate such as",
		"rate=1/d":                      "no rate such as",
		"herd=0":                        "not a whole number",
		"rate=1,rate=2":                 "stands twice",
		"rate=1,at=1s":                  "go with herd",
		"herd=1,even=true":              "even with rate",
		"rate=1,duration=3s..1s":        "no duration such as",
		"rate=1,duration=p50=2s/p99=1s": "no duration such as",
		"rate=1,duration=mean=0s":       "no duration such as",
		"rate=1,duration=-1s":           "no duration such as",
		"rate=1,priority=urgent":        "none of critical",
		"rate=1,colour=red":             "is none of name",
		"rate=1,max_concurrent=many":    "not a whole number",
		"herd=1,at=-1s":                 "no span such as",
		"rate=1,task_rate=NaN":          "no rate such as",
	} {
		if _, err := ParseLoad(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseLoad(%q) = %v, want %q", text, err, want)
		}
	}
	c := Config{}
	if err := c.Validate(); err == nil || strings.Count(err.Error(), "\n") != 4 {
		t.Errorf("Validate = %v, want five faults", err)
	}
	c = Config{Slots: 1, Starts: 1, Span: time.Hour, Step: time.Hour, Loads: []Load{load(t, "rate=1e6")}}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "at most 20000000 are played") {
		t.Errorf("Validate = %v, want too many runs", err)
	}
}

func TestDistributions(t *testing.T) {
	for text, mean := range map[string]time.Duration{"2s": 2 * time.Second, "1s..3s": 2 * time.Second, "mean=2s": 2 * time.Second, "p50=1s/p99=5s": 1270 * time.Millisecond} {
		d, err := ParseDistribution(text)
		if err != nil {
			t.Fatal(err)
		}
		c := Config{Seed: 7}
		p := newPlay(&c)
		sum := time.Duration(0)
		for range 100_000 {
			sum += d.draw(p.rng)
		}
		if got := sum / 100_000; (got-d.Mean()).Abs() > d.Mean()/50 || (d.Mean()-mean).Abs() > mean/100 {
			t.Errorf("%s: drawn %s on average, Mean = %s, want %s", text, got, d.Mean(), mean)
		}
	}
}

func TestPlot(t *testing.T) {
	for _, span := range []time.Duration{time.Second, time.Minute} {
		c := Config{Slots: 5, Starts: math.Inf(1), Span: span, Step: time.Second, Seed: 1, Loads: []Load{load(t, "rate=10/s,duration=600ms")}}
		r := played(t, &c)
		svg, err := Plot(&r, c.Slots)
		if err != nil || !strings.Contains(string(svg), "waiting") || !strings.Contains(string(svg), "</svg>") {
			t.Errorf("Plot over %s = %d bytes, %v", span, len(svg), err)
		}
	}
}
