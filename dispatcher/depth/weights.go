package depth

import "time"

const (
	// weightAge is for how long a weight is used before it is asked for again.
	weightAge = time.Second
	// maxUnweighed bounds the tenants that Unweighed returns, maxWeights the weights that are kept.
	maxUnweighed = 64
	maxWeights   = 10_000
)

// weights are the shares of tenants that competed lately; a tenant without an entry has 1.
type weights map[string]weight

type weight struct {
	share int
	at    time.Time
}

func (w weights) of(tenant string) int { return max(w[tenant].share, 1) }

// Unweighed returns some tenants that compete and whose weight is not known, or is too old.
func (c *Controller) Unweighed(now time.Time) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var tenants []string
	for _, b := range c.subjects {
		for tenant := range b.queues.byTenant {
			if now.Sub(c.weights[tenant].at) >= weightAge {
				if tenants = append(tenants, tenant); len(tenants) == maxUnweighed {
					return tenants
				}
			}
		}
	}
	return tenants
}

// Weigh sets the share of a tenant.
func (c *Controller) Weigh(tenant string, share int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.weights) >= maxWeights {
		clear(c.weights)
	}
	c.weights[tenant] = weight{share, now}
	for _, b := range c.subjects {
		if q, ok := b.queues.byTenant[tenant]; ok {
			b.queues.round.Weigh(&q.flow, share)
		}
	}
}
