package planner

import (
	"time"

	"carillon.dev/carillon/executor"
	rules "carillon.dev/carillon/executor/admission"
	"carillon.dev/carillon/schema"
)

// hold is where a run stands in admission.
type hold struct {
	at        *place // it waits there in memory; nil: it does not
	n         uint64 // of this wait
	admitted  time.Duration
	deferrals int  // for the sake of its tenant's share
	deferred  bool // it was, for whatever reason
}

// gate plays what package admission does: which runs begin now, which wait in memory, and which
// are deferred. Every number is a function of that package. Executors are played as one: what each
// may have is multiplied.
type gate struct {
	tenants []*place // by load
	tasks   []*place // by load; nil: its task has no limit
	limits  []*place // of tasks
	last    *place   // the tenant that asked last …
	asked   time.Duration
	other   time.Duration // … and when another one did

	stream   [4]fifo[*run] // published and in no executor's hand, by priority
	inHand   int
	pending  [4]int // of these, without a slot
	most     int    // in hand
	fetch    int    // what is kept for each other priority
	pulling  bool
	rechecks fifo[wait] // in the order of their time
}

// place is what is under way of a tenant, or of a task with a limit, and what waits for it in
// memory, as admission.Load.
type place struct {
	limit    int // of a task; 0: it is a tenant
	busy     int
	waiting  int
	waits    [4]waits
	took     time.Duration
	nextTurn time.Duration

	second        int64 // the one in which runs last began …
	begun, before int   // … how many in it, and in the one before

	reached, lacked time.Duration // since when runs find no room, and when one did last
	block
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

func newGate(c *Config) gate {
	a := gate{asked: never, other: never}
	of := make(map[string]*place)
	for i := range c.Loads {
		l := &c.Loads[i]
		if of[l.tenant()] == nil {
			of[l.tenant()] = &place{}
		}
		a.tenants = append(a.tenants, of[l.tenant()])
		var task *place
		if l.TaskLimit > 0 {
			task = &place{limit: l.TaskLimit, lacked: never, block: block{tick: never}}
			a.limits = append(a.limits, task)
		}
		a.tasks = append(a.tasks, task)
	}
	slots, n := c.each()
	a.most, a.fetch = executor.MessagesInHand(slots, len(schema.Priorities))
	a.most, a.fetch = a.most*n, a.fetch*n
	return a
}

// each returns how many slots an executor has, and how many executors there are.
func (c *Config) each() (slots, executors int) {
	n := max(c.Executors, 1)
	return max(c.Slots/n, 1), n
}

// share returns what a tenant may have of all executors (admission.Share).
func (c *Config) share() (most, half int) {
	slots, n := c.each()
	most, half = rules.Share(slots)
	return most * n, half * n
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

// pull has executors take in hand what they have room for.
func (p *play) pull() {
	if p.pulling {
		return // the one that is under way goes on
	}
	p.pulling = true
	for more := true; more; {
		more = false
		for rank := range p.stream {
			for p.stream[rank].len() > 0 && p.hasRoom(rank) {
				p.inHand++
				p.pending[rank]++
				p.ask(p.stream[rank].pop())
				more = true
			}
		}
	}
	p.pulling = false
}

// hasRoom reports whether one more run of a priority may be in hand: for each other one there is
// room for a fetch.
func (p *play) hasRoom(rank int) bool {
	free := p.most - p.inHand
	for other, n := range p.pending {
		if other != rank {
			free -= max(p.fetch-n, 0)
		}
	}
	return free > 0
}

// ask has a run in hand ask for admission: it takes a slot, waits in memory or is deferred.
func (p *play) ask(r *run) {
	t, task := p.tenants[r.load], p.tasks[r.load]
	if t != p.last {
		p.last, p.other = t, p.asked
	}
	p.asked = p.now
	if task != nil && task.busy >= task.usable {
		p.awaitLimit(task, r)
		return
	}
	slots, n := p.c.each()
	most, half := p.c.share()
	t.roll(p.now)
	slow := t.busy - t.begun - t.before
	if t.busy >= most || p.now-p.other < rules.RivalsFor && slow >= half {
		if !rules.IsSlow(slow, most, half) || t.waiting < n*rules.MostWaiting(slots) {
			p.wait(t, r)
			return
		}
		wait := max(untilTurn(p, t, rules.ShareStep(t.took, most)), rules.ShareLeast(r.deferrals))
		r.deferrals++
		p.postpone(r, wait+random(p, rules.DeferSpread(wait)))
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
		s.peak = max(s.peak, s.busy)
	}
	p.take(r)
	if t.busy < most {
		p.wakeOne(t)
	}
	if task != nil && task.busy < task.usable {
		p.wakeOne(task)
	}
}

// awaitLimit has a run wait for the limit of its task, or be deferred.
func (p *play) awaitLimit(s *place, r *run) {
	attend(p, s)
	if p.now-s.lacked > rules.ReachedFor {
		s.reached = p.now
	}
	s.lacked = p.now
	s.roll(p.now)
	slots, n := p.c.each()
	speed := max(s.begun, s.before) / n
	of, all := rules.MostWaitingForLimit(speed, slots, r.deferred)
	waiting, limits := 0, 0
	for _, l := range p.limits {
		waiting += l.waiting
		if l.attended {
			limits++
		}
	}
	if s.waiting < n*of && waiting < n*all {
		p.wait(s, r)
		return
	}
	step, least, ok := rules.LimitStep(speed, limits, p.now-s.reached)
	if !ok {
		p.postpone(r, rules.UnknownSpeedLeast+random(p, rules.UnknownSpeedSpread))
		return
	}
	wait := max(untilTurn(p, s, step/time.Duration(n)), least)
	p.postpone(r, wait+random(p, rules.LimitSpread(wait)))
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
func (p *play) postpone(r *run, wait time.Duration) {
	r.deferred = true
	p.inHand--
	p.pending[rankOf(p, r)]--
	p.at(p.now+wait, func() { p.publish(r) })
	p.pull()
}

// wait has a run wait in memory. It loses its place in the order each time that it asks again.
func (p *play) wait(s *place, r *run) {
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
	p.ask(w.r)
}

// wakeOne has one of the runs that wait at a place ask again, by the weights of their priorities.
func (p *play) wakeOne(s *place) {
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
			p.unwait(w.r)
			p.ask(w.r)
			return
		}
	}
}

// giveBack gives back what admission gave a run that has ended.
func (p *play) giveBack(r *run) {
	p.inHand--
	t, task := p.tenants[r.load], p.tasks[r.load]
	for _, s := range [...]*place{t, task} {
		if s == nil {
			continue
		}
		s.busy--
		if took := p.now - r.admitted; s.took == 0 {
			s.took = took
		} else {
			s.took += (took - s.took) / 8
		}
	}
	p.wakeOne(t)
	if task != nil {
		p.wakeOne(task)
	}
}
