package executor

import (
	"container/list"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// The rules by which one target, or one tenant, is kept from taking everything.
const (
	// reserved is which part of the slots nobody gets who has all others: an eighth, so that whoever comes finds one.
	reserved = 8
	// rivalsFor is how long somebody else counts as being there.
	rivalsFor = time.Minute
	// stuckAfter is from when on an attempt holds its slot for long: between one and two of it.
	stuckAfter = time.Second
	// parkedPart and parkedLeast bound who waits in memory for a slow target: that part of the slots, or as many.
	parkedPart, parkedLeast = 4, 8
	// gateEvery is how often who waits looks again, should nobody tell.
	gateEvery = 250 * time.Millisecond
	// maxTargets bounds the targets and tenants that are remembered, besides those to which something is under way: of these there are no more than
	// attempts in hand, and blocks.
	maxTargets = 10_000

	// The delay of a run that is put off begins with putOffFirst and doubles up to putOffMost, with up to half of it at random on top.
	putOffFirst = breakerDelay
	putOffMost  = 5 * time.Minute
	// maxPutOffs is how often a start is put off because its target fails, 25 min in all or more: then it counts as an attempt, or a run whose target is
	// gone for good would never fail.
	maxPutOffs = 10
	// putOffPace is how many runs a second come back to one target that fails, by each executor, once many of them are put off: each time costs the store two writes and two
	// reads, which are others' too; and a target that has recovered is not met by all of them at once. It bounds the line to [load.inTurn]'s end: beyond
	// 120,000 more come back.
	putOffPace = 200
)

// gate decides whether an attempt may begin now, must wait, or is put off. It keeps targets that fail, hang or drip from harming others:
//
//   - One target (a host or NATS subject of a tenant, a script), and one tenant, has at most seven eighths of the slots; and no more than half of them in
//     attempts that take longer than stuckAfter, if another has asked lately. Who is quick is held up by the first rule alone, in memory.
//   - Behind who is slow only a few wait in memory. The rest are put off to about the time when it will be their turn.
//   - Of a host or subject that fails again and again (a circuit breaker) everything is put off but a few probes.
//
// To be put off costs no attempt: an entry that is due later stands in for the one at hand.
type gate struct {
	slots   int
	log     *slog.Logger
	metrics *gateMetrics

	mu      sync.Mutex
	loads   map[targetKey]*load
	shares  shares // all loads that are idle, and some others
	targets asked
	tenants asked
	limited map[*load]struct{} // those that have a block
	waiting int                // attempts that wait in memory for slots of their tasks' limits
	tend    func(*load)        // begins to look after the block of one
}

// targetKey names a target of a tenant, or, without a name, the tenant. Tenants do not share the fate of a host: one that breaks a host's breaker with
// calls that cannot succeed must not stop the calls of others.
type targetKey struct{ tenant, name string }

// asked remembers who asked last, and when somebody else did.
type asked struct {
	last      targetKey
	at, other time.Time
}

// note takes down that k asks, and reports whether another did lately.
func (a *asked) note(k targetKey, now time.Time) bool {
	if k != a.last {
		a.other, a.last = a.at, k
	}
	a.at = now
	return !a.other.IsZero() && now.Sub(a.other) < rivalsFor
}

// load is what is under way to a target, of a tenant, or of a task with a limit.
type load struct {
	key     targetKey
	busy    int           // attempts that have begun, or are about to
	parked  int           // attempts that wait in memory …
	waits   [4]waiters    // … by priority
	took    time.Duration // about how long an attempt takes
	turn    time.Time     // when the next of those put off will find room
	breaker *breaker      // nil until an attempt fails
	block   *block        // of a task: what we have of its limit; nil while there is nothing to do
	share   *share        // of its tenant …
	place   *list.Element // … and where in its order …
	age     *list.Element // … and in that of all; nil, all three: it has something under way, and came to the end of an order
	used    time.Time

	second        int64 // the one in which attempts were last begun …
	begun, before int   // … how many in it, and in the one before
}

// waiters are the attempts of one priority that wait at a load.
type waiters struct {
	n      int
	credit int           // what it has of its weight, over what it was woken
	freed  chan struct{} // cap 1: it is their turn; nil until one has waited
}

// stuck returns how many attempts surely take longer than stuckAfter.
func (l *load) stuck(now time.Time) int {
	l.roll(now)
	return l.busy - l.begun - l.before
}

func (l *load) roll(now time.Time) {
	switch second := now.UnixNano() / int64(stuckAfter); second - l.second {
	case 0:
	case 1:
		l.second, l.before, l.begun = second, l.begun, 0
	default:
		l.second, l.before, l.begun = second, 0, 0
	}
}

func newGate(slots int, log *slog.Logger, m *gateMetrics) *gate {
	return &gate{slots: slots, log: log, metrics: m, loads: make(map[targetKey]*load), shares: shares{of: make(map[string]*share)}, limited: make(map[*load]struct{})}
}

// pass is the right to begin an attempt. The zero pass is of work whose target cannot be told and whose task has no limit.
type pass struct {
	g       *gate
	loads   [3]*load // those that there are of host, tenant and task
	at      time.Time
	breaks  bool
	opened  int    // what the target's breaker wants to know at the end
	session string // under which the slot of the task's limit is held; "": it has none
}

// The places in a pass.
const (
	ofHost = iota
	ofTenant
	ofTask
)

// wish is what an attempt asks the gate for.
type wish struct {
	target  targetKey
	class   int  // the rank of its priority
	limit   int  // attempts of its tenant at once; 0 = what the slots give
	breaks  bool // it has a breaker
	putOffs int  // how often it was put off

	task  string // of its tenant …
	most  int    // … whose runs may be under way at once, so many in the whole cluster; 0 = any number
	again bool   // it was put off before
}

// ruling is what the gate says.
type ruling struct {
	pass   pass
	ok     bool
	wait   <-chan struct{} // not now: until this tells, or gateEvery has passed
	putOff time.Duration   // not now: that much later
	why    string
	cause  schema.Cause // of a putOff
}

// ask decides on a wish; parked is the load at which the same wish waits already, or nil. What it answers with is where it waits from then on.
func (g *gate) ask(w wish, parked *load) (v ruling, at *load) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trim(now)
	rivals := [...]bool{ofHost: g.targets.note(w.target, now), ofTenant: g.tenants.note(targetKey{tenant: w.target.tenant}, now)}
	if parked != nil {
		parked.leave(w.class)
		g.rest(parked)
	}
	p := pass{g: g, at: now, breaks: w.breaks}
	if w.target.name != "" {
		p.loads[ofHost], p.loads[ofTenant] = g.load(w.target, now), g.load(targetKey{tenant: w.target.tenant}, now)
	} else if w.most == 0 {
		return ruling{ok: true}, nil
	}
	host := p.loads[ofHost]
	admitted := w.putOffs < maxPutOffs
	if host != nil && host.breaker != nil && admitted {
		if ok, wait := host.breaker.admits(); !ok {
			host.breaker.deferred++
			return g.later("breaker", schema.CauseBreaker, max(wait, backedOff(w.putOffs), host.inTurn(now, time.Second/putOffPace))), nil
		}
	}
	var room [3]int // at each
	if w.most > 0 {
		t := g.task(w)
		if room[ofTask] = t.block.use - t.busy; room[ofTask] <= 0 {
			return g.await(t, w, now)
		}
		p.loads[ofTask], p.session = t, t.block.session
	}
	for i, l := range p.loads[:ofTask] {
		if l == nil {
			break
		}
		most, half := max(g.slots-g.slots/reserved, 1), max(g.slots/2, 1)
		if l == host && w.limit > 0 {
			most, half = min(most, w.limit), min(half, w.limit)
		}
		room[i] = most - l.busy
		stuck := l.stuck(now)
		if l.busy < most && !(rivals[i] && stuck >= half) {
			continue
		}
		if stuck >= max(min(most, half)/2, 1) && l.parked >= max(g.slots/parkedPart, parkedLeast) {
			wait := max(l.inTurn(now, max(l.took, stuckAfter)/time.Duration(most)), backedOff(w.putOffs)/(1<<2))
			cause := schema.CauseTargetShare
			if i == ofTenant {
				cause = schema.CauseTenantShare
			}
			return g.later("crowded", cause, wait), nil
		}
		return ruling{wait: l.wait(w.class)}, l
	}
	if host != nil && host.breaker != nil {
		p.opened = host.breaker.begin(admitted)
	}
	for i, l := range p.loads {
		if l == nil {
			continue
		}
		l.roll(now)
		l.begun++
		l.busy++
		if l.block != nil {
			l.block.began(l.busy)
		}
		if room[i] > 1 {
			l.tell() // several may have ended since one was told
		}
	}
	return ruling{pass: p, ok: true}, nil
}

// later puts off. The caller holds mu.
func (g *gate) later(why string, cause schema.Cause, wait time.Duration) ruling {
	g.metrics.putOff.WithLabelValues(why).Inc()
	return ruling{putOff: wait + rand.N(wait/2+1), why: why, cause: cause}
}

// backedOff returns how long a start waits that was put off n times before.
func backedOff(n int) time.Duration { return min(putOffFirst<<min(n, 10), putOffMost) }

// inTurn returns how long it will be until one more of those put off finds room: each takes a place in a line that moves by one in every step. The caller
// holds mu.
func (l *load) inTurn(now time.Time, step time.Duration) time.Duration {
	if l.turn.Before(now.Add(time.Second)) {
		l.turn = now.Add(time.Second)
	}
	if l.turn.Before(now.Add(2 * putOffMost)) {
		l.turn = l.turn.Add(step)
	}
	return l.turn.Sub(now)
}

// load returns what is under way to a target. The caller holds mu.
func (g *gate) load(k targetKey, now time.Time) *load {
	l := g.loads[k]
	switch {
	case l == nil:
		k.name = strings.Clone(k.name) // it may be a part of a long URL
		l = &load{key: k}
		g.loads[k] = l
		g.shares.put(l, now)
	case l.place != nil:
		g.shares.touch(l, now)
	}
	return l
}

// trim forgets loads, until maxTargets are left in the shares. It comes before an ask takes loads, so that it forgets none of them. Those that are
// not idle only leave their share: if they kept their places, long calls would in time be all that is at its end. The caller holds mu.
func (g *gate) trim(now time.Time) {
	for g.shares.used.Len() > maxTargets {
		l := g.shares.take(now)
		if !l.idle() {
			continue
		}
		delete(g.loads, l.key)
		if l.breaker != nil && !l.breaker.closed() {
			g.metrics.broken.Dec()
		}
	}
}

// rest follows wherever less is under way at a load: one that is idle comes back into its share. The caller holds mu.
func (g *gate) rest(l *load) {
	if l.place == nil && l.idle() {
		g.shares.put(l, time.Now())
	}
}

// idle reports whether nobody needs the load but for what it remembers.
func (l *load) idle() bool { return l.busy == 0 && l.parked == 0 && l.block == nil }

// unpark gives up waiting at a load.
func (g *gate) unpark(at *load, class int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at.leave(class)
	at.tell() // it may have been told just now
	g.rest(at)
}

// wait has one more of a priority wait, and returns what tells that it is its turn. The caller holds mu.
func (l *load) wait(class int) <-chan struct{} {
	l.parked++
	if l.block != nil {
		*l.block.all++
	}
	w := &l.waits[class]
	if w.n++; w.freed == nil {
		w.freed = make(chan struct{}, 1)
	}
	return w.freed
}

// leave has one less of a priority wait. The caller holds mu.
func (l *load) leave(class int) {
	l.parked--
	if l.block != nil { // it stays as long as somebody waits
		*l.block.all--
	}
	if w := &l.waits[class]; w.n > 1 {
		w.n--
	} else {
		w.n, w.credit = 0, 0
	}
}

// tell wakes one of those who wait at a load, by the weights of their priorities: they meet no other rule where a target is what is scarce, and not
// the slots. The caller holds mu.
func (l *load) tell() {
	if l.parked == 0 {
		return
	}
	next, sum := -1, 0
	for i := range l.waits {
		if l.waits[i].n == 0 {
			continue
		}
		l.waits[i].credit += priorityWeights[i]
		sum += priorityWeights[i]
		if next < 0 || l.waits[i].credit > l.waits[next].credit {
			next = i
		}
	}
	l.waits[next].credit -= sum
	select {
	case l.waits[next].freed <- struct{}{}:
	default:
	}
}

// end gives the pass back, with what the attempt tells of its target.
func (p pass) end(found *target.Health) {
	if p.g == nil {
		return
	}
	g, h, host := p.g, *found, p.loads[ofHost]
	now := time.Now()
	g.mu.Lock()
	for _, l := range p.loads {
		if l == nil {
			continue
		}
		l.busy--
		if took := now.Sub(p.at); l.took == 0 {
			l.took = took
		} else {
			l.took += (took - l.took) / 8
		}
		l.tell()
		g.rest(l)
	}
	if t := p.loads[ofTask]; t != nil {
		t.freed()
	}
	if host == nil {
		g.mu.Unlock()
		return
	}
	if p.breaks && h == target.Unhealthy && host.breaker == nil {
		host.breaker = newBreaker() // a target that never fails needs none
	}
	changed, closed := false, false
	if b := host.breaker; b != nil {
		changed = b.end(h, p.opened)
		closed = b.closed()
	}
	g.mu.Unlock()
	switch key := host.key; {
	case changed && closed:
		g.metrics.broken.Dec()
		g.log.Info("a target works again", "tenant", key.tenant, "target", key.name)
	case changed:
		g.metrics.broken.Inc()
		g.log.Warn("a target fails again and again: its runs are put off", "tenant", key.tenant, "target", key.name)
	}
}

// linger keeps one place of a target, not of its tenant, for what goes on though its attempt has ended, until it is gone. Nobody waits for it: it may never be.
func (g *gate) linger(k targetKey, gone <-chan struct{}) {
	g.mu.Lock()
	l := g.load(k, time.Now())
	l.busy++
	g.mu.Unlock()
	go func() {
		<-gone
		g.mu.Lock()
		defer g.mu.Unlock()
		l.busy--
		l.tell()
		g.rest(l)
	}()
}
