package dispatcher

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

const (
	// tenantsNamed bounds the tenants that metrics name: those with the largest backlog. The others
	// are added up as otherTenants, which is no tenant's name.
	tenantsNamed = 10
	otherTenants = "*"
)

// backlogMetrics tell operators and autoscalers what waits.
type backlogMetrics struct {
	due     *prometheus.GaugeVec
	oldest  *prometheus.GaugeVec
	streams *prometheus.GaugeVec
	tenants *prometheus.GaugeVec
	pools   poolMetrics
	unread  prometheus.Gauge
}

func newBacklogMetrics(r prometheus.Registerer) backlogMetrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "carillon", Subsystem: "dispatcher", Name: name, Help: help}, labels)
		r.MustRegister(g)
		return g
	}
	left := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "carillon", Subsystem: "dispatcher", Name: "unread_seconds",
		Help: "For how long the oldest rows have been due that scans left out and that are still to be read; 0 = none are. Set every 5 s.",
	})
	r.MustRegister(left)
	return backlogMetrics{
		unread:  left,
		due:     gauge("due_waiting", "Entries in this dispatcher's memory that are due and wait for budget, by lane and priority. Spilled rows are not counted.", "lane", "priority"),
		oldest:  gauge("oldest_wait_seconds", "For how long the oldest entry has been due that this dispatcher has not published, by lane and priority; 0 = none is.", "lane", "priority"),
		streams: gauge("stream_waiting", "Messages for any executor in the stream that none holds, by lane and priority; the same from every dispatcher. Those for executors with labels are told of by pool.", "lane", "priority"),
		pools: poolMetrics{
			due:     gauge("pool_due_waiting", "Entries in this dispatcher's memory that are due and wait for budget, by the labels of the executors that they are for.", "pool"),
			streams: gauge("pool_stream_waiting", "Messages in the streams that no executor holds, by the labels of the executors that they are for; the same from every dispatcher that has published for these.", "pool"),
			oldest:  gauge("pool_oldest_wait_seconds", "For how long the oldest entry has been due that this dispatcher has not published, by the labels of the executors that it is for; 0 = none is.", "pool"),
		},
		tenants: gauge("tenant_waiting", "Entries in this dispatcher's memory that are due and wait for budget, of the ten tenants with most of them, and of all others (*).", "tenant"),
	}
}

// poolMetrics tell what waits for the executors that have the same labels. There is no series of
// what any executor runs.
type poolMetrics struct{ due, streams, oldest *prometheus.GaugeVec }

func (m *poolMetrics) set(waits map[queue.Pool]depth.Backlog, since func(time.Time) float64) {
	for _, g := range []*prometheus.GaugeVec{m.due, m.streams, m.oldest} {
		g.Reset() // pools come and go
	}
	for pool, b := range waits {
		m.due.WithLabelValues(string(pool)).Set(float64(b.Queued))
		m.streams.WithLabelValues(string(pool)).Set(float64(b.InStream))
		m.oldest.WithLabelValues(string(pool)).Set(since(b.Oldest))
	}
}

// add returns the backlog of two subjects together, without its tenants.
func add(a, b depth.Backlog) depth.Backlog {
	return depth.Backlog{InStream: a.InStream + b.InStream, Queued: a.Queued + b.Queued, Oldest: earlier(a.Oldest, b.Oldest)}
}

// unread is since when rows of a shard have been due that are still to be taken in; zero = there
// are none.
type unread struct {
	spilled [4]time.Time // by priority
	left    time.Time    // those that the scan left out
}

// unreadRows are the unread rows of the shards that are dispatched here.
type unreadRows struct {
	mu      sync.Mutex
	byShard map[schema.Shard]unread
}

func (u *unreadRows) set(shard schema.Shard, of unread) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if of == (unread{}) {
		delete(u.byShard, shard)
		return
	}
	u.byShard[shard] = of
}

// oldest returns since when the oldest rows have been due: spilled ones by subject, and those left
// out.
func (u *unreadRows) oldest(lanes int) (spilled map[depth.Subject]time.Time, left time.Time) {
	spilled = make(map[depth.Subject]time.Time)
	u.mu.Lock()
	defer u.mu.Unlock()
	for shard, of := range u.byShard {
		left = earlier(left, of.left)
		for i, at := range of.spilled {
			s := depth.Subject{Lane: laneOf(shard, lanes), Priority: schema.Priorities[i]}
			spilled[s] = earlier(spilled[s], at)
		}
	}
	return spilled, left
}

// earlier returns the earlier of two times, of which zero ones do not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Backlog returns how many entries in this dispatcher's memory are due and wait until executors take
// more, and since when the oldest has been due. Spilled rows are not counted.
func (d *Dispatcher) Backlog() (entries int, oldest time.Time) {
	now := d.now()
	for _, b := range d.depth.Backlogs() {
		if b.Queued > 0 && b.Oldest.Before(now) { // else it is only prepared
			entries += b.Queued
			oldest = earlier(oldest, b.Oldest)
		}
	}
	return entries, oldest
}

// reportBacklog sets the metrics of what waits.
func (d *Dispatcher) reportBacklog(now time.Time) {
	since := func(at time.Time) float64 {
		if at.IsZero() {
			return 0
		}
		return max(now.Sub(at).Seconds(), 0)
	}
	m := d.metrics.backlog
	spilled, left := d.unread.oldest(d.lanes)
	m.unread.Set(since(left))
	byTenant, byPool, bySubject := make(map[string]int), make(map[queue.Pool]depth.Backlog), make(map[depth.Subject]depth.Backlog)
	for s, b := range d.depth.Backlogs() {
		if s.Pool != "" {
			byPool[s.Pool] = add(byPool[s.Pool], b)
			s.Pool, b.InStream = "", 0 // not every dispatcher reads what waits for a pool
		}
		bySubject[s] = add(bySubject[s], b)
		for tenant, n := range b.Tenants {
			byTenant[tenant] += n
		}
	}
	m.pools.set(byPool, since)
	for s, b := range bySubject {
		lane, priority := strconv.Itoa(int(s.Lane)), string(s.Priority)
		m.due.WithLabelValues(lane, priority).Set(float64(b.Queued))
		m.streams.WithLabelValues(lane, priority).Set(float64(b.InStream))
		m.oldest.WithLabelValues(lane, priority).Set(since(earlier(b.Oldest, spilled[s])))
	}
	names := make([]string, 0, len(byTenant))
	for name := range byTenant {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(byTenant[b]-byTenant[a], cmp.Compare(a, b)) })
	m.tenants.Reset()
	others := 0
	for i, name := range names {
		if i < tenantsNamed {
			m.tenants.WithLabelValues(name).Set(float64(byTenant[name]))
			continue
		}
		others += byTenant[name]
	}
	m.tenants.WithLabelValues(otherTenants).Set(float64(others))
}

// reportUnread notes since when what is still to be taken in has been due.
func (s *shard) reportUnread() {
	u := unread{spilled: s.state.Flows.OldestSpilled()}
	if s.scan.Unread.Any() {
		u.left = s.scan.Unread.After.Time()
	}
	s.d.unread.set(s.id, u)
}
