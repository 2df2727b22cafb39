package tally

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/schema"
)

const (
	// TenantsNamed is how many tenants have metrics of their own at a time.
	TenantsNamed = 50
	// otherTenants is the label of all tenants that are not named, together.
	otherTenants = "*"
	// swapsMost bounds how many tenants are named in a minute in place of others, where all places
	// are taken. So the series that a server keeps grow slowly, whatever tenants do.
	swapsMost = 5
)

// tenantClasses are those of schema.LatenessBounds that the metrics of tenants tell apart, seconds.
var tenantClasses = []float64{.01, .1, 1, 5, 60}

// tenantMetrics says which tenants have metrics of their own, and what was counted of each before
// the minute under way. What is counted now is on the board.
//
// A tenant is named when it is seen while there is room. Else it takes the place of one that did
// much less of late, whose series end. A tenant's counts begin at 0 whenever it is named: what was
// counted before went to the others and stays there, so no series ever falls but by ending.
type tenantMetrics struct {
	named  map[string]*namedTenant
	others schema.Counts
}

type namedTenant struct {
	before schema.Counts // the minutes that have ended
	weight float64       // a minute, of late
}

// has reports whether a tenant is named: the board does not count it with the others.
func (m *tenantMetrics) has(tenant string) bool { return m.named[tenant] != nil }

// fill names tenants on the board, the heaviest first, while there is room.
func (m *tenantMetrics) fill(b *board[string]) {
	if len(m.named) >= TenantsNamed {
		return
	}
	for _, c := range m.unnamed(b) {
		if len(m.named) >= TenantsNamed {
			return
		}
		m.named[c.Tenant] = &namedTenant{weight: float64(c.Weight())}
	}
}

// unnamed returns the tenants on the board that are not named, the heaviest first.
func (m *tenantMetrics) unnamed(b *board[string]) []schema.NameCounts {
	var of []schema.NameCounts
	for tenant, c := range b.cells {
		if !m.has(tenant) {
			of = append(of, *c)
		}
	}
	of, _ = Heaviest(of, len(of))
	return of
}

// turn adds the minute that ends on the board to what was before, and lets tenants that did much in
// it take the places of those that did less than half as much of late.
func (m *tenantMetrics) turn(b *board[string]) {
	m.fill(b)
	m.others.Add(&b.others)
	waiting := m.unnamed(b)
	for i := range waiting {
		m.others.Add(&waiting[i].Counts)
	}
	lightest := make([]string, 0, len(m.named))
	for tenant, n := range m.named {
		var now int64
		if c := b.cells[tenant]; c != nil {
			n.before.Add(&c.Counts)
			now = c.Weight()
		}
		n.weight += (float64(now) - n.weight) / 8
		lightest = append(lightest, tenant)
	}
	slices.SortFunc(lightest, func(x, y string) int {
		return cmp.Or(cmp.Compare(m.named[x].weight, m.named[y].weight), cmp.Compare(x, y))
	})
	for i := range min(swapsMost, len(waiting), len(lightest)) {
		weight := float64(waiting[i].Weight())
		if weight <= 2*m.named[lightest[i]].weight {
			return
		}
		delete(m.named, lightest[i])
		m.named[waiting[i].Tenant] = &namedTenant{weight: weight}
	}
}

// read calls f with what was counted since the start of each tenant that is named, and of all
// others.
func (m *tenantMetrics) read(b *board[string], f func(tenant string, c *schema.Counts)) {
	m.fill(b)
	others := m.others
	others.Add(&b.others)
	for tenant, c := range b.cells {
		if !m.has(tenant) {
			others.Add(&c.Counts)
		}
	}
	for tenant, n := range m.named {
		all := n.before
		if c := b.cells[tenant]; c != nil {
			all.Add(&c.Counts)
		}
		f(strings.ToValidUTF8(tenant, "?"), &all)
	}
	f(otherTenants, &others)
}

// Metrics returns the metrics of tenants, made of what is counted whenever they are read: runs cost
// no more for them. A Tally has one such collector.
func (t *Tally) Metrics() prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("carillon_tenant_"+name, help+" By tenant, of the 50 that did most of late on this node, and of all others together (*).", append(labels, "tenant"), nil)
	}
	return &tenantCollector{
		tally:    t,
		due:      desc("due_total", "Entries that were handed to executors for the first time that their attempt was."),
		retries:  desc("retries_total", "Retries that were written."),
		ends:     desc("ends_total", "Attempts that succeeded or failed (timed out and lost ones too), and runs that were missed.", "outcome"),
		lateness: desc("lateness_seconds", "What carillon_executor_lateness_seconds counts, in fewer classes; the sum is made of the middles of classes."),
	}
}

type tenantCollector struct {
	tally                        *Tally
	due, retries, ends, lateness *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *tenantCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.due, c.retries, c.ends, c.lateness} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *tenantCollector) Collect(to chan<- prometheus.Metric) {
	type counted struct {
		tenant string
		schema.Counts
	}
	all := make([]counted, 0, TenantsNamed+1)
	c.tally.mu.Lock() // who reads what is sent may be slow
	c.tally.metrics.read(&c.tally.tenants, func(tenant string, of *schema.Counts) { all = append(all, counted{tenant, *of}) })
	c.tally.mu.Unlock()
	for i := range all {
		of := &all[i]
		counter := func(d *prometheus.Desc, n int64, labels ...string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append(labels, of.tenant)...)
		}
		counter(c.due, of.Due)
		counter(c.retries, of.Retried)
		counter(c.ends, of.Succeeded, "succeeded")
		counter(c.ends, of.Failed, "failed")
		counter(c.ends, of.Missed, "missed")
		count, sum, classes := histogram(&of.Lateness)
		to <- prometheus.MustNewConstHistogram(c.lateness, count, sum, classes, of.tenant)
	}
}

// histogram returns starts by tenantClasses, and about how many seconds late they were together.
func histogram(c *schema.LatenessCounts) (count uint64, sum float64, classes map[float64]uint64) {
	classes = make(map[float64]uint64, len(tenantClasses))
	var below float64
	for i, n := range c {
		count += uint64(max(n, 0))
		if i == len(schema.LatenessBounds) {
			sum += float64(n) * below
			break
		}
		bound := schema.LatenessBounds[i].Seconds()
		sum += float64(n) * (below + bound) / 2
		if below = bound; slices.Contains(tenantClasses, bound) {
			classes[bound] = count
		}
	}
	return count, sum, classes
}
