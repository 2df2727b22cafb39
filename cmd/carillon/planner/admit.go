package planner

import (
	"time"

	rules "carillon.dev/carillon/executor/admission"
)

// hold is where a run stands in admission.
type hold struct {
	at        *place // it waits there in memory; nil: it does not
	n         uint64 // of this wait
	admitted  time.Duration
	deferrals int  // for the sake of its tenant's share
	deferred  bool // it was, for whatever reason
}

// place is what an executor has under way of a tenant, or of a task with a limit, and what waits
// for it in memory, as admission.Load.
type place struct {
	busy     int
	waiting  int
	waits    [4]waits
	took     time.Duration
	nextTurn time.Duration

	second        int64 // the one in which runs last began …
	begun, before int   // … how many in it, and in the one before

	reached, lacked time.Duration // since when runs find no room, and when one did last
	*block                        // nil: it is a tenant
}

// waits are the runs of a priority that wait at a place, in the order in which they asked last.
type waits struct {
	n, credit int
	runs      fifo[wait]
}

// wait is a run that began to wait. If the run's n is another one it waits no more.
type wait struct {
	r     *run
	n     uint64
	again time.Duration // when it asks again, unless it is woken
}

func (w *wait) over() bool { return w.r.at == nil || w.r.n != w.n }

// fifo is a queue that gives back the memory of what has left it.
type fifo[T any] struct {
	items []T
	first int
}

func (q *fifo[T]) len() int  { return len(q.items) - q.first }
func (q *fifo[T]) push(x T)  { q.items = append(q.items, x) }
func (q *fifo[T]) front() *T { return &q.items[q.first] }
func (q *fifo[T]) pop() (x T) {
	q.items[q.first], x = x, q.items[q.first]
	if q.first++; q.first > len(q.items)/2 {
		n := copy(q.items, q.items[q.first:])
		clear(q.items[n:])
		q.items, q.first = q.items[:n], 0
	}
	return x
}

const never = -time.Hour // before anything that matters

// each returns how many slots an executor has, and how many executors there are.
func (c *Config) each() (slots, executors int) {
	n := max(c.Executors, 1)
	return max(c.Slots/n, 1), n
}

func rankOf(p *play, r *run) int { return p.c.Loads[r.load].Priority.Rank() }

// roll begins the second of now.
func (s *place) roll(now time.Duration) {
	switch second := int64(now / rules.SlowAfter); second - s.second {
	case 0:
	case 1:
		s.second, s.before, s.begun = second, s.begun, 0
	default:
		s.second, s.before, s.begun = second, 0, 0
	}
}

// arrive has a run that is published come to the executors.
func (p *play) arrive(r *run) {
	p.stream[rankOf(p, r)].push(r)
	p.pull()
}

// pull has executors take in hand what they have room for: each run one that is drawn.
func (p *play) pull() {
	if p.pulling {
		return // the one that is under way goes on
	}
	p.pulling = true
	for more := true; more; {
		more = false
		for rank := range p.stream {
			for p.stream[rank].len() > 0 {
				x := p.siteWithRoom(rank)
				if x == nil {
					break
				}
				r := p.stream[rank].pop()
				r.in = x
				x.inHand++
				x.pending[rank]++
				x.ask(r)
				more = true
			}
		}
	}
	p.pulling = false
}

// siteWithRoom draws an executor of those that have room for a run of a priority; nil: none has.
func (p *play) siteWithRoom(rank int) *site {
	var drawn *site
	n := int64(0)
	for _, x := range p.sites {
		if !x.hasRoom(rank) {
			continue
		}
		if n++; n == 1 || p.rng.Int64N(n) == 0 {
			drawn = x
		}
	}
	return drawn
}

// ask has a run in hand ask for admission: it takes a slot, waits in memory or is deferred.
func (x *site) ask(r *run) {
	p := x.p
	t, task := x.tenants[r.load], x.tasks[r.load]
	if t != x.last {
		x.last, x.other = t, x.asked
	}
	x.asked = p.now
	if task != nil && task.busy >= task.usable {
		x.awaitLimit(task, r)
		return
	}
	most, half := rules.Share(x.slots)
	t.roll(p.now)
	slow := t.busy - t.begun - t.before
	if t.busy >= most || p.now-x.other < rules.RivalsFor && slow >= half {
		if !rules.IsSlow(slow, most, half) || t.waiting < rules.MostWaiting(x.slots) {
			x.wait(t, r)
			return
		}
		wait := max(untilTurn(p, t, rules.ShareStep(t.took, most)), rules.ShareLeast(r.deferrals))
		r.deferrals++
		x.postpone(r, wait+random(p, rules.DeferSpread(wait)))
		return
	}
	r.admitted = p.now
	for _, s := range [...]*place{t, task} {
		if s == nil {
			continue
		}
		s.roll(p.now)
		s.begun++
		s.busy++
		if s.block != nil {
			s.peak = max(s.peak, s.busy)
		}
	}
	x.take(r)
	if t.busy < most {
		x.wakeOne(t)
	}
	if task != nil && task.busy < task.usable {
		x.wakeOne(task)
	}
}

// awaitLimit has a run wait for the limit of its task, or be deferred.
func (x *site) awaitLimit(s *place, r *run) {
	p := x.p
	x.attend(s)
	if p.now-s.lacked > rules.ReachedFor {
		s.reached = p.now
	}
	s.lacked = p.now
	s.roll(p.now)
	speed := max(s.begun, s.before)
	of, all := rules.MostWaitingForLimit(speed, x.slots, r.deferred)
	waiting, limits := 0, 0
	for _, l := range x.limits {
		waiting += l.waiting
		if l.attended {
			limits++
		}
	}
	if s.waiting < of && waiting < all {
		x.wait(s, r)
		return
	}
	step, least, ok := rules.LimitStep(speed, limits, p.now-s.reached)
	if !ok {
		x.postpone(r, rules.UnknownSpeedLeast+random(p, rules.UnknownSpeedSpread))
		return
	}
	wait := max(untilTurn(p, s, step), least)
	x.postpone(r, wait+random(p, rules.LimitSpread(wait)))
}

// untilTurn returns how long it will be until one more deferred run finds room.
func untilTurn(p *play, s *place, step time.Duration) time.Duration {
	wait := rules.NextTurn(s.nextTurn-p.now, step)
	s.nextTurn = p.now + wait
	return wait
}

func random(p *play, below time.Duration) time.Duration {
	return time.Duration(p.rng.Int64N(int64(below)))
}

// postpone defers a run: it leaves the executor, and is published again later.
func (x *site) postpone(r *run, wait time.Duration) {
	p := x.p
	r.deferred = true
	x.inHand--
	x.pending[rankOf(p, r)]--
	p.at(p.now+wait, func() { p.publish(r) })
	p.pull()
}

// wait has a run wait in memory. It loses its place in the order each time that it asks again.
func (x *site) wait(s *place, r *run) {
	p := x.p
	p.n++
	r.at, r.n = s, p.n
	w := wait{r, p.n, p.now + rules.RecheckEvery}
	s.waiting++
	class := &s.waits[rankOf(p, r)]
	class.n++
	for class.runs.len() > 0 && class.runs.front().over() {
		class.runs.pop()
	}
	class.runs.push(w)
	p.rechecks.push(w)
}

func (p *play) unwait(r *run) {
	s := r.at
	r.at = nil
	s.waiting--
	if class := &s.waits[rankOf(p, r)]; class.n > 1 {
		class.n--
	} else {
		class.n, class.credit = 0, 0
	}
}

// recheckAt returns when the next run that waits asks again; false: none waits.
func (p *play) recheckAt() (time.Duration, bool) {
	for p.rechecks.len() > 0 {
		if w := p.rechecks.front(); !w.over() {
			return w.again, true
		}
		p.rechecks.pop()
	}
	return 0, false
}

// recheck has that run ask again.
func (p *play) recheck() {
	w := p.rechecks.pop()
	p.unwait(w.r)
	w.r.in.ask(w.r)
}

// wakeOne has one of the runs that wait at a place ask again, by the weights of their priorities.
func (x *site) wakeOne(s *place) {
	if s.waiting == 0 {
		return
	}
	next, sum := -1, 0
	for i, weight := range rules.PriorityWeights() {
		w := &s.waits[i]
		if w.n == 0 {
			continue
		}
		w.credit += weight
		sum += weight
		if next < 0 || w.credit > s.waits[next].credit {
			next = i
		}
	}
	class := &s.waits[next]
	class.credit -= sum
	for class.runs.len() > 0 {
		if w := class.runs.pop(); !w.over() {
			x.p.unwait(w.r)
			x.ask(w.r)
			return
		}
	}
}

// giveBack gives back what admission gave a run that has ended.
func (x *site) giveBack(r *run) {
	x.inHand--
	t, task := x.tenants[r.load], x.tasks[r.load]
	for _, s := range [...]*place{t, task} {
		if s == nil {
			continue
		}
		s.busy--
		if took := x.p.now - r.admitted; s.took == 0 {
			s.took = took
		} else {
			s.took += (took - s.took) / 8
		}
	}
	x.wakeOne(t)
	if task != nil {
		if task.held > task.usable {
			x.wake(task) // others wait for what is free now
		}
		x.wakeOne(task)
	}
}
