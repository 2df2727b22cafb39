package dispatcher

import (
	"context"
	"time"
)

const (
	// weightAge is how long a weight is believed while its tenant competes.
	weightAge = time.Second
	// weightReads bounds the weights asked for at one reading of the streams, and weightsKept those remembered.
	weightReads = 64
	weightsKept = 10_000
)

// weights are the shares of tenants that competed lately, as far as they were asked for; others have 1.
type weights map[string]weight

type weight struct {
	share int
	at    time.Time
}

func (w weights) of(tenant string) int { return max(w[tenant].share, 1) }

// unweighed returns some tenants that compete and whose weights are not known, or not any more.
func (b *budget) unweighed(now time.Time) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var tenants []string
	for _, a := range b.subjects {
		for tenant := range a.lines.byTenant {
			if now.Sub(b.weights[tenant].at) >= weightAge {
				if tenants = append(tenants, tenant); len(tenants) == weightReads {
					return tenants
				}
			}
		}
	}
	return tenants
}

// weigh sets the share of a tenant.
func (b *budget) weigh(tenant string, share int, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.weights) >= weightsKept {
		clear(b.weights)
	}
	b.weights[tenant] = weight{share, now}
	for _, a := range b.subjects {
		if l, ok := a.lines.byTenant[tenant]; ok {
			a.lines.round.Weigh(&l.flow, share)
		}
	}
}

// weighTenants asks for the weights of those who compete. One that cannot be read stays as it was.
func (d *Dispatcher) weighTenants(ctx context.Context) {
	if d.tenants == nil {
		return
	}
	now := d.now()
	for _, tenant := range d.budget.unweighed(now) {
		share, err := d.tenants.Weight(ctx, tenant)
		if err != nil {
			if ctx.Err() == nil {
				d.metrics.failures.WithLabelValues("weigh").Inc()
			}
			return // a store that fails once would for all
		}
		d.budget.weigh(tenant, share, now)
	}
}
