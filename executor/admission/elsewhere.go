package admission

import (
	"math/rand/v2"
	"time"

	"carillon.dev/carillon/schema"
)

// DeferForRegion defers a start that another region alone may make. It was deferred n times before.
// Nobody is told when that region serves the home again, so it is tried soon:
//
//	min(5 s × 2^n, 30 s), or its turn among 50 a second, at most 5 min; and up to half more at random
func (g *Controller) DeferForRegion(n int) Decision {
	g.mu.Lock()
	defer g.mu.Unlock()
	turn := g.region.untilTurn(time.Now(), time.Second/regionsPerSecond)
	return g.deferBy(ReasonRegion, schema.CauseRegion, min(max(min(backedOff(n), regionMost), turn), deferMost))
}

// DeferForPool defers a start that this executor may not make, for want of labels. It was deferred
// n times before. In the first hour or so it is tried again every minute, since executors come and
// go; after that as seldom as for other reasons.
func (g *Controller) DeferForPool(n int) Decision {
	wait := backedOff(n)
	if n < poolTries {
		wait = min(wait, poolMost)
	}
	return g.deferBy(ReasonPool, schema.CausePool, wait)
}

// DeferForQuota defers a run of a tenant whose quota of runs a minute is used up: to its turn in a
// line that moves by one in every step.
func (g *Controller) DeferForQuota(tenant string, step time.Duration) Decision {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.metrics.deferrals.WithLabelValues(ReasonLimit).Inc()
	now := time.Now()
	g.trim(now)
	wait := g.load(quotaKey(tenant), now).untilTurn(now, step)
	return Decision{Defer: wait + rand.N(step+1), Reason: ReasonLimit, Cause: schema.CauseQuota}
}
