package admission

import (
	"container/list"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// Bounds of calls to the store.
const (
	// storeTimeout bounds one read or write.
	storeTimeout = 5 * time.Second
	// retryAfter is the pause after a read or write that failed.
	retryAfter = 500 * time.Millisecond
)

// The rules by which one target, or one tenant, is kept from taking everything.
const (
	// reservedPart is the part of the slots that a target, or a tenant, never gets: others find
	// one.
	reservedPart = 8
	// rivalsFor is how long another target, or tenant, counts as present after it asked.
	rivalsFor = time.Minute
	// slowAfter is from when on an attempt counts as slow: between one and two of it.
	slowAfter = time.Second
	// waitingPart and waitingLeast bound how many attempts wait in memory for a slow target:
	// max(slots/waitingPart, waitingLeast).
	waitingPart, waitingLeast = 4, 8
	// RecheckEvery is how often an attempt that waits asks again without having been woken.
	RecheckEvery = 250 * time.Millisecond
	// maxTargets bounds the idle targets and tenants that are remembered. Those with something
	// under way are no more than attempts in hand, and blocks.
	maxTargets = 10_000

	// The delay of a deferral begins with DeferFirst and doubles up to deferMost. Up to half of it
	// is added at random.
	DeferFirst = breakerDelay
	deferMost  = 5 * time.Minute
	// poolMost bounds the delay of the first poolTries deferrals of a start for want of labels.
	poolMost  = time.Minute
	poolTries = 50
	// maxDeferrals is how often a start is deferred because its target fails, in 25 min or more.
	// After that it counts as an attempt: a run whose target is gone for good must fail in the end.
	maxDeferrals = 10
	// deferredPerSecond is how many deferred runs a second come back to one failing target, on each
	// executor. A deferral costs the store two writes and two reads, and a target that has
	// recovered must not get all of them at once. It bounds the line only up to the end of
	// [Load.untilTurn]: 120,000 runs.
	deferredPerSecond = 200
	// regionMost bounds the delay of runs that wait for their region, and regionsPerSecond how many
	// of them come back a second, on each executor: they cost as much, and load a region that does
	// the work of another one. If there are more they come back later, up to deferMost.
	regionMost, regionsPerSecond = 30 * time.Second, 50
)

// Controller decides whether an attempt may begin now, must wait, or is deferred. Targets that
// fail, hang or drip thus harm no others (the rules: package comment). A deferral costs no attempt:
// a later entry stands in for the one at hand.
type Controller struct {
	slots   int
	log     *slog.Logger
	metrics *controllerMetrics

	mu       sync.Mutex
	loads    map[targetKey]*Load
	ofTenant map[string]map[targetKey]*Load // the same by tenant; none is empty
	idle     loadCache                      // all loads that are idle, and some others
	targets  rivalry
	tenants  rivalry
	limited  map[*Load]struct{} // those that have a block
	region   Load               // the line of runs that wait for their region
	inMemory int                // attempts that wait in memory for slots of their tasks' limits
	attend   func(*Load)        // begins to look after the block of one
}

// targetKey names a target of a tenant or, without a name, the tenant. Tenants do not share a host:
// one that opens a circuit with calls that cannot succeed must not stop the calls of others.
type targetKey struct{ tenant, name string }

// rivalry remembers which key asked last, and when another one did.
type rivalry struct {
	last      targetKey
	at, other time.Time
}

// note notes that k asks, and reports whether another key did lately.
func (a *rivalry) note(k targetKey, now time.Time) bool {
	if k != a.last {
		a.other, a.last = a.at, k
	}
	a.at = now
	return !a.other.IsZero() && now.Sub(a.other) < rivalsFor
}

// Load is what is under way to a target, of a tenant, or of a task or a tenant with a limit.
type Load struct {
	key      targetKey
	busy     int           // attempts that have begun, or are about to
	waiting  int           // attempts that wait in memory …
	waits    [4]waiters    // … by priority
	took     time.Duration // about how long an attempt takes
	nextTurn time.Time     // when the next deferred run will find room
	breaker  *breaker      // nil until an attempt fails
	block    *block        // of a limit: what we have of it; nil while there is nothing to do
	owner    *tenantLoads  // of its tenant …
	inTenant *list.Element // … and where in its order …
	inAll    *list.Element // … and in that of all; nil, all three: it has something under way, and came to the end of an order
	used     time.Time

	second        int64 // the one in which attempts were last begun …
	begun, before int   // … how many in it, and in the one before
}

// waiters are the attempts of one priority that wait at a load.
type waiters struct {
	n      int
	credit int           // what it has of its weight, over what it was woken
	wakeUp chan struct{} // cap 1: it is their turn; nil until one has waited
}

// slow returns how many attempts surely take longer than slowAfter.
func (l *Load) slow(now time.Time) int {
	l.roll(now)
	return l.busy - l.begun - l.before
}

func (l *Load) roll(now time.Time) {
	switch second := now.UnixNano() / int64(slowAfter); second - l.second {
	case 0:
	case 1:
		l.second, l.before, l.begun = second, l.begun, 0
	default:
		l.second, l.before, l.begun = second, 0, 0
	}
}

// NewController returns a Controller of an executor with that many slots.
func NewController(slots int, log *slog.Logger, r prometheus.Registerer) *Controller {
	return &Controller{
		slots: slots, log: log, metrics: newControllerMetrics(r),
		loads: make(map[targetKey]*Load), ofTenant: make(map[string]map[targetKey]*Load), idle: loadCache{byTenant: make(map[string]*tenantLoads)},
		limited: make(map[*Load]struct{}),
	}
}

// Permit is the right to begin an attempt. The zero Permit is of work whose target is unknown and
// whose task has no limit.
type Permit struct {
	g          *Controller
	loads      [4]*Load // those that there are of host, tenant and task, and of the tenant's quota
	at         time.Time
	hasBreaker bool
	opened     int    // what the target's breaker wants to know at the end
	Session    string // under which the slots of the task's limit and of the quota are held; "": it has none
	Preempted  bool   // its attempt was stopped for a critical one, which is to have its place
}

// The places in a Permit.
const (
	ofHost = iota
	ofTenant
	ofTask
	ofQuota
)

// The reasons of deferrals.
const (
	ReasonBreaker = "breaker" // the target fails again and again
	ReasonShare   = "crowded" // the target, or the tenant, is slow and has its share of the slots
	ReasonLimit   = "limit"   // as many runs of the task, or of the tenant, are under way as may
	ReasonRate    = "rate"    // the reservation under the rate of the task has expired
	ReasonRegion  = "region"  // another region alone may run it
	ReasonPool    = "pool"    // the executor lacks labels that it requires
)

// Decision is what becomes of a Request.
type Decision struct {
	Permit   Permit
	Admitted bool
	Wait     <-chan struct{} // not now: until this tells, or RecheckEvery has passed
	Defer    time.Duration   // not now: that much later
	Reason   string
	Cause    schema.Cause // of a deferral
	// Full is what has no room now, and would have if one attempt less were under way there; nil:
	// that is not so, or not what it waits for.
	Full *Load
}

// Admit decides on a request. waitsAt is the Load at which the same request waits already, or nil.
// With Decision.Wait, the request waits at the Load that is returned until Admit or Leave is called
// with it.
func (g *Controller) Admit(r Request, waitsAt *Load) (d Decision, at *Load) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trim(now)
	rivals := [...]bool{ofHost: g.targets.note(r.target, now), ofTenant: g.tenants.note(targetKey{tenant: r.target.tenant}, now)}
	if waitsAt != nil {
		waitsAt.unwait(r.Rank)
		g.remember(waitsAt)
	}
	p := Permit{g: g, at: now, hasBreaker: r.hasBreaker}
	if r.target.name != "" {
		p.loads[ofHost], p.loads[ofTenant] = g.load(r.target, now), g.load(targetKey{tenant: r.target.tenant}, now)
	} else if r.TaskLimit == 0 && r.TenantLimit == 0 {
		return Decision{Admitted: true}, nil
	}
	host := p.loads[ofHost]
	admitted := r.Deferrals < maxDeferrals
	if host != nil && host.breaker != nil && admitted {
		if ok, wait := host.breaker.admits(); !ok {
			host.breaker.deferred++
			return g.deferBy(ReasonBreaker, schema.CauseBreaker, max(wait, backedOff(r.Deferrals), host.untilTurn(now, time.Second/deferredPerSecond))), nil
		}
	}
	var room [4]int // at each
	if r.TaskLimit > 0 {
		t := g.taskLoad(r)
		if room[ofTask] = t.block.usable - t.busy; room[ofTask] <= 0 {
			return g.awaitQuota(t, r, now)
		}
		p.loads[ofTask], p.Session = t, t.block.session
	}
	if r.TenantLimit > 0 {
		q := g.limitLoad(quotaKey(r.target.tenant), r.TenantLimit)
		if room[ofQuota] = q.block.usable - q.busy; room[ofQuota] <= 0 || r.TaskLimit > 0 && q.block.session != p.Session {
			return g.awaitQuota(q, r, now)
		}
		p.loads[ofQuota], p.Session = q, q.block.session
	}
	for i, l := range p.loads[:ofTask] {
		if l == nil {
			break
		}
		most, half := Share(g.slots)
		if l == host && r.targetLimit > 0 {
			most, half = min(most, r.targetLimit), min(half, r.targetLimit)
		}
		room[i] = most - l.busy
		stuck := l.slow(now)
		if l.busy < most && !(rivals[i] && stuck >= half) {
			continue
		}
		if l.busy-1 < most && !(rivals[i] && stuck-1 >= half) {
			d.Full = l
		}
		if !r.Waits && IsSlow(stuck, most, half) && l.waiting >= MostWaiting(g.slots) {
			wait := max(l.untilTurn(now, ShareStep(l.took, most)), ShareLeast(r.Deferrals))
			cause := schema.CauseTargetShare
			if i == ofTenant {
				cause = schema.CauseTenantShare
			}
			full := d.Full
			d = g.deferBy(ReasonShare, cause, wait)
			d.Full = full
			return d, nil
		}
		d.Wait = l.wait(r.Rank)
		return d, l
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
			l.wakeOne() // several may have ended since one was told
		}
	}
	return Decision{Permit: p, Admitted: true}, nil
}

// deferBy defers a start. The caller holds mu.
func (g *Controller) deferBy(why string, cause schema.Cause, wait time.Duration) Decision {
	g.metrics.deferrals.WithLabelValues(why).Inc()
	return Decision{Defer: wait + rand.N(DeferSpread(wait)), Reason: why, Cause: cause}
}

// CountDeferral counts a deferral that was not decided here.
func (g *Controller) CountDeferral(why string) { g.metrics.deferrals.WithLabelValues(why).Inc() }

// backedOff returns how long a start waits that was deferred n times before.
func backedOff(n int) time.Duration { return min(DeferFirst<<min(n, 10), deferMost) }

// untilTurn returns how long it will be until one more deferred run finds room. Each takes a place
// in a line that moves by one in every step. The caller holds mu.
func (l *Load) untilTurn(now time.Time, step time.Duration) time.Duration {
	wait := NextTurn(l.nextTurn.Sub(now), step)
	l.nextTurn = now.Add(wait)
	return wait
}

// load returns what is under way to a target. The caller holds mu.
func (g *Controller) load(k targetKey, now time.Time) *Load {
	l := g.loads[k]
	switch {
	case l == nil:
		k.name = strings.Clone(k.name) // it may be a part of a long URL
		l = &Load{key: k}
		g.loads[k] = l
		if g.ofTenant[k.tenant] == nil {
			g.ofTenant[k.tenant] = make(map[targetKey]*Load)
		}
		g.ofTenant[k.tenant][k] = l
		g.idle.put(l, now)
	case l.inTenant != nil:
		g.idle.touch(l, now)
	}
	return l
}

// trim forgets loads until maxTargets are left in the cache. It comes before a request takes loads,
// so that it forgets none of them. A load that is not idle only leaves the cache: if it kept its
// place, long calls would in time be all that is at the end. The caller holds mu.
func (g *Controller) trim(now time.Time) {
	for g.idle.all.Len() > maxTargets {
		l := g.idle.evict(now)
		if !l.isIdle() {
			continue
		}
		delete(g.loads, l.key)
		if delete(g.ofTenant[l.key.tenant], l.key); len(g.ofTenant[l.key.tenant]) == 0 {
			delete(g.ofTenant, l.key.tenant)
		}
		if l.breaker != nil && !l.breaker.closed() {
			g.metrics.open.Dec()
		}
	}
}

// remember puts a load that has become idle back into the cache. The caller holds mu.
func (g *Controller) remember(l *Load) {
	if l.inTenant == nil && l.isIdle() {
		g.idle.put(l, time.Now())
	}
}

// isIdle reports whether the load is kept only for what it remembers.
func (l *Load) isIdle() bool { return l.busy == 0 && l.waiting == 0 && l.block == nil }

// Leave gives up waiting at a load.
func (g *Controller) Leave(at *Load, class int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at.unwait(class)
	at.wakeOne() // it may have been told just now
	g.remember(at)
}

// wait notes that one more attempt of a priority waits, and returns what tells that it is its turn.
// The caller holds mu.
func (l *Load) wait(class int) <-chan struct{} {
	l.waiting++
	if l.block != nil {
		*l.block.inMemory++
	}
	w := &l.waits[class]
	if w.n++; w.wakeUp == nil {
		w.wakeUp = make(chan struct{}, 1)
	}
	return w.wakeUp
}

// unwait notes that one attempt less of a priority waits. The caller holds mu.
func (l *Load) unwait(class int) {
	l.waiting--
	if l.block != nil { // the block stays as long as attempts wait
		*l.block.inMemory--
	}
	if w := &l.waits[class]; w.n > 1 {
		w.n--
	} else {
		w.n, w.credit = 0, 0
	}
}

// wakeOne wakes one of the attempts that wait at a load, by the weights of their priorities. Where
// a target is scarce and the slots are not, no other rule orders them. The caller holds mu.
func (l *Load) wakeOne() {
	if l.waiting == 0 {
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
	case l.waits[next].wakeUp <- struct{}{}:
	default:
	}
}

// End gives the permit back, with what the attempt tells of its target.
func (p Permit) End(found *target.Health) { p.EndWith(found, nil) }

// EndWith is End with the error of the attempt; nil or "" if it told none.
func (p Permit) EndWith(found *target.Health, told *string) {
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
		if !p.Preempted || !l.wakeFirst(schema.Critical.Rank()) {
			l.wakeOne()
		}
		g.remember(l)
	}
	for _, l := range p.loads[ofTask:] {
		if l != nil {
			l.taskEnded()
		}
	}
	if host == nil {
		g.mu.Unlock()
		return
	}
	if p.hasBreaker && h == target.Unhealthy && host.breaker == nil {
		host.breaker = newBreaker() // a target that never fails needs none
	}
	if b := host.breaker; b != nil && h == target.Unhealthy && told != nil && *told != "" {
		b.failedWith(*told, now) // before it may open, or be said to have closed
	}
	changed, closed := false, false
	if b := host.breaker; b != nil {
		changed = b.end(h, p.opened)
		closed = b.closed()
	}
	g.mu.Unlock()
	switch key := host.key; {
	case changed && closed:
		g.metrics.open.Dec()
		g.log.Info("a target works again", "tenant", key.tenant, "target", key.name)
	case changed:
		g.metrics.open.Inc()
		g.log.Warn("a target fails again and again: its runs are deferred", "tenant", key.tenant, "target", key.name)
	}
}
