package planner

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	rules "carillon.dev/carillon/executor/admission"
)

// Config is what is played.
type Config struct {
	Slots     int           // of all executors …
	Executors int           // … which are so many; 0: one
	Starts    float64       // runs that the cluster can publish a second
	Span      time.Duration // in which runs become due; what waits then is played to its end
	Step      time.Duration // of the result
	Seed      uint64        // of everything random
	Loads     []Load
}

// Validate returns an error that joins every fault.
func (c *Config) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(c.Slots >= 1 && c.Slots <= MaxSlots, "slots: %d, want 1 to %d", c.Slots, MaxSlots)
	check(c.Executors >= 0 && c.Executors <= max(c.Slots, 1), "executors: %d, want 1 to one a slot", c.Executors)
	check(c.Starts > 0, "starts: %g, want more than 0 a second", c.Starts)
	check(c.Span > 0 && c.Span <= MaxSpan, "span: %s, want up to %s", c.Span, MaxSpan)
	check(c.Step > 0 && c.Step <= c.Span && c.Span/max(c.Step, 1) <= maxSteps/2, "step: %s, want from a %dth of the span to all of it", c.Step, maxSteps/2)
	check(len(c.Loads) > 0 && len(c.Loads) <= maxLoads, "loads: %d, want 1 to %d", len(c.Loads), maxLoads)
	if len(faults) == 0 {
		n := 0.0
		for i := range c.Loads {
			n += c.Loads[i].runs(c.Span)
		}
		check(n <= MaxRuns, "loads: %.0f runs in all, at most %d are played", n, MaxRuns)
	}
	return errors.Join(faults...)
}

// Usable returns how many of the slots the tenants of the loads may have together.
func (c *Config) Usable() int {
	of := make(map[string]bool)
	for i := range c.Loads {
		of[c.Loads[i].tenant()] = true
	}
	slots, executors := c.each()
	most, _ := rules.Share(slots)
	return min(c.Slots, most*executors*len(of))
}

// runs returns about how many runs of a load become due.
func (l *Load) runs(span time.Duration) float64 {
	herds := 0.0
	if l.Herd > 0 && l.HerdAt <= span {
		herds = 1
		if l.HerdEvery > 0 {
			herds += float64((span - l.HerdAt) / l.HerdEvery)
		}
	}
	return l.Rate*span.Seconds() + herds*float64(l.Herd) + float64(len(l.Recorded))
}

// Step is what happened in a step of time.
type Step struct {
	At       time.Duration `json:"at"` // when it begins
	Due      int           `json:"due"`
	Started  int           `json:"started"`
	Waiting  int           `json:"waiting"`     // due and not started, at its end
	Running  int           `json:"running"`     // at its end
	Use      float64       `json:"utilisation"` // of the slots, over the step
	WaitP50  time.Duration `json:"wait_p50"`    // of those that started
	WaitP99  time.Duration `json:"wait_p99"`
	waits    []time.Duration
	busyTime float64 // slots × ns
}

// Summary is what became of a load.
type Summary struct {
	Name     string        `json:"name"`
	Runs     int           `json:"runs"`
	WaitMean time.Duration `json:"wait_mean"`
	WaitP50  time.Duration `json:"wait_p50"`
	WaitP99  time.Duration `json:"wait_p99"`
	WaitMost time.Duration `json:"wait_max"`
	Deepest  int           `json:"waiting_max"` // due and not started at once
	waiting  int
	waits    []time.Duration
}

// Result is what Play foretells.
type Result struct {
	Steps []Step    `json:"steps"`
	Loads []Summary `json:"loads"`
	All   Summary   `json:"all"`
	Use   float64   `json:"utilisation"` // of the slots, over the span
	// Ended is when the last run ended.
	Ended time.Duration `json:"ended"`
	// Offered is the mean number of slots that the loads want; above Config.Slots what waits grows
	// without bound.
	Offered float64 `json:"offered_slots"`
}

// run is one run.
type run struct {
	load int
	due  time.Duration
	took time.Duration
	in   *site // in whose hand it is
	hold
}

// happens is an event: a run is due, may ask for a slot, or ends.
type happens struct {
	at   time.Duration
	n    uint64 // the order of those of an instant
	what func()
}

type events []happens

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].n, e[j].n)) < 0
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(happens)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// play is a Config being played.
type play struct {
	c      *Config
	rng    *rand.Rand
	now    time.Duration
	events events
	n      uint64
	result Result

	free      int           // of all slots
	published time.Duration // until when the cluster is busy with publishing
	reserved  []time.Duration
	stream    [4]fifo[*run] // published and in no executor's hand, by priority
	sites     []*site
	pulling   bool
	rechecks  fifo[wait] // in the order of their time

	guard    guard
	counted  time.Duration // up to here the slots' use was counted
	busyTime float64       // of all slots, in the span: slots × ns
	seen     func(run)     // is told of each run that becomes due; nil: nobody is
}

// Play plays a Config that is valid. The error says why it was not played to its end.
func Play(c *Config) (Result, error) {
	p := newPlay(c)
	if err := p.all(); err != nil {
		return Result{}, err
	}
	p.sum()
	return p.result, nil
}

// newPlay returns a play with no event yet.
func newPlay(c *Config) *play {
	p := &play{
		c: c, rng: rand.New(rand.NewPCG(c.Seed, 1)), free: c.Slots, // #nosec G404 -- drawn from the seed
		reserved: make([]time.Duration, len(c.Loads)), guard: newGuard(c),
	}
	p.sites = newSites(p)
	return p
}

// all plays to the end of the last run.
func (p *play) all() error {
	c := p.c
	p.step(c.Span - 1)
	p.result.Loads = make([]Summary, len(c.Loads))
	for i := range c.Loads {
		l := &c.Loads[i]
		p.result.Loads[i].Name = l.Name
		p.result.Offered += l.runs(c.Span) / c.Span.Seconds() * l.mean().Seconds()
		p.arrivals(i)
	}
	for {
		next, ok := p.recheckAt()
		event := len(p.events) > 0 && (!ok || p.events[0].at <= next)
		if event {
			next = p.events[0].at
		} else if !ok {
			break
		}
		if err := p.guard.check(p, next); err != nil {
			return err
		}
		p.goTo(next)
		if event {
			heap.Pop(&p.events).(happens).what()
		} else {
			p.recheck()
		}
	}
	p.tick(c.Span)
	return nil
}

// goTo makes it a later instant.
func (p *play) goTo(at time.Duration) {
	if at > p.now {
		p.deepest()
	}
	p.tick(at)
	p.now = at
}

// deepest notes how much waits at the end of an instant.
func (p *play) deepest() {
	for i := range p.result.Loads {
		s := &p.result.Loads[i]
		s.Deepest = max(s.Deepest, s.waiting)
	}
	p.result.All.Deepest = max(p.result.All.Deepest, p.result.All.waiting)
}

// mean returns how long runs of the load take.
func (l *Load) mean() time.Duration {
	if len(l.Recorded) == 0 {
		return l.Duration.Mean()
	}
	sum := time.Duration(0)
	for _, r := range l.Recorded {
		sum += r.Took
	}
	return sum / time.Duration(len(l.Recorded))
}

func (p *play) at(t time.Duration, what func()) {
	p.n++
	heap.Push(&p.events, happens{t, p.n, what})
}

// arrivals has the runs of a load become due, one after the other.
func (p *play) arrivals(i int) {
	l := &p.c.Loads[i]
	if l.Rate > 0 {
		var next func()
		gap := func() time.Duration {
			if l.Even {
				return every(l.Rate)
			}
			return bounded(p.rng.ExpFloat64() / l.Rate * float64(time.Second))
		}
		next = func() {
			p.due(&run{load: i, due: p.now, took: l.Duration.draw(p.rng)})
			if t := p.now + gap(); t < p.c.Span {
				p.at(t, next)
			}
		}
		if t := gap(); t < p.c.Span {
			p.at(t, next)
		}
	}
	if l.Herd > 0 && l.HerdAt < p.c.Span {
		var herd func()
		herd = func() {
			for range l.Herd {
				p.due(&run{load: i, due: p.now, took: l.Duration.draw(p.rng)})
			}
			if t := p.now + l.HerdEvery; l.HerdEvery > 0 && t < p.c.Span {
				p.at(t, herd)
			}
		}
		p.at(l.HerdAt, herd)
	}
	for _, r := range l.Recorded {
		if r.Due < p.c.Span {
			p.at(r.Due, func() { p.due(&run{load: i, due: p.now, took: r.Took}) })
		}
	}
}

// step returns the step of an instant. There are maxSteps at most: the last one has all that comes
// later.
func (p *play) step(t time.Duration) *Step {
	n := min(int(t/p.c.Step), maxSteps-1)
	for len(p.result.Steps) <= n {
		p.result.Steps = append(p.result.Steps, Step{At: time.Duration(len(p.result.Steps)) * p.c.Step})
	}
	return &p.result.Steps[n]
}

// tick counts the use of the slots up to an instant.
func (p *play) tick(to time.Duration) {
	for p.counted < to {
		s := p.step(p.counted)
		end := min(to, s.At+p.c.Step)
		if len(p.result.Steps) == maxSteps {
			end = to
		}
		busy := float64(p.c.Slots - p.free)
		s.busyTime += float64(end-p.counted) * busy
		p.busyTime += float64(max(min(end, p.c.Span)-p.counted, 0)) * busy
		p.counted = end
		s.Waiting, s.Running = p.result.All.waiting, p.c.Slots-p.free
	}
}

// due has a run become due.
func (p *play) due(r *run) {
	sum := &p.result.Loads[r.load]
	if p.seen != nil {
		p.seen(*r)
	}
	p.step(p.now).Due++
	for _, s := range []*Summary{sum, &p.result.All} {
		s.Runs++
		s.waiting++
	}
	p.publish(r)
}

// publish has a run published now that is due, for the first time or after a deferral. It gets its
// start time under the rate of its task.
func (p *play) publish(r *run) {
	l := &p.c.Loads[r.load]
	p.published = max(p.published, p.now)
	at := p.published
	p.published += every(p.c.Starts)
	if l.TaskRate > 0 {
		at = max(at, p.reserved[r.load])
		p.reserved[r.load] = at + every(l.TaskRate)
	}
	if at == p.now {
		p.arrive(r)
		return
	}
	p.at(at, func() { p.arrive(r) })
}
