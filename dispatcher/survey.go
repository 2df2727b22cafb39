package dispatcher

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/schema"
)

const (
	// tenantsTold bounds the tenants that metrics name: those of whom most waits. The others are told together, as otherTenants, which is no tenant's name.
	tenantsTold  = 10
	otherTenants = "*"
)

// waits are the metrics of what is due and waits, for operators and autoscalers.
type waits struct {
	due     *prometheus.GaugeVec
	oldest  *prometheus.GaugeVec
	streams *prometheus.GaugeVec
	tenants *prometheus.GaugeVec
	gap     prometheus.Gauge
}

func newWaits(r prometheus.Registerer) waits {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "carillon", Subsystem: "dispatcher", Name: name, Help: help}, labels)
		r.MustRegister(g)
		return g
	}
	gap := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "carillon", Subsystem: "dispatcher", Name: "gap_seconds",
		Help: "For how long the oldest rows have been due that scans left out and that are still to be read, of any priority; 0 = none are. Told every 5 s.",
	})
	r.MustRegister(gap)
	return waits{
		gap:     gap,
		due:     gauge("due_waiting", "Entries in this dispatcher's memory that are due and wait for their turn, by lane and priority. Rows that were passed over are not counted.", "lane", "priority"),
		oldest:  gauge("oldest_wait_seconds", "For how long the oldest entry has been due that this dispatcher has not published, by lane and priority; 0 = none is.", "lane", "priority"),
		streams: gauge("stream_waiting", "Messages in the stream that no executor holds, by lane and priority; every dispatcher tells the same.", "lane", "priority"),
		tenants: gauge("tenant_waiting", "Entries in this dispatcher's memory that are due and wait for their turn, of the ten tenants with most of them, and of all others (*).", "tenant"),
	}
}

// unread is since when rows of a shard have been due that were read, or would have been, and are still to be taken; zero = there are none.
type unread struct {
	passed [4]time.Time // those that were passed over, of each priority
	gap    time.Time    // those that the scan left out
}

// unread notes what is still to be taken of a shard.
func (b *budget) unread(shard schema.Shard, u unread) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if u == (unread{}) {
		delete(b.behind, shard)
		return
	}
	b.behind[shard] = u
}

// survey says what waits.
type survey struct {
	due    map[subject]int
	oldest map[subject]time.Time
	stream map[subject]int
	tenant map[string]int
	gap    time.Time // since when what scans left out has been due; zero = nothing was
}

func (b *budget) survey(lanes int) survey {
	v := survey{due: make(map[subject]int), oldest: make(map[subject]time.Time), stream: make(map[subject]int), tenant: make(map[string]int)}
	b.mu.Lock()
	defer b.mu.Unlock()
	older := func(s subject, at time.Time) {
		if was := v.oldest[s]; was.IsZero() || at.Before(was) {
			v.oldest[s] = at
		}
	}
	for s, a := range b.subjects {
		v.stream[s], v.due[s] = a.waiting, 0
		for tenant, l := range a.lines.byTenant {
			if len(l.claims) > 0 {
				v.due[s] += len(l.claims)
				v.tenant[tenant] += len(l.claims)
				older(s, l.claims[0].id.Time())
			}
		}
	}
	for shard, u := range b.behind {
		if !u.gap.IsZero() && (v.gap.IsZero() || u.gap.Before(v.gap)) {
			v.gap = u.gap
		}
		for i, at := range u.passed {
			if !at.IsZero() {
				older(subject{laneOf(shard, lanes), schema.Priorities[i]}, at)
			}
		}
	}
	return v
}

// tellWaits sets the metrics of what waits.
func (d *Dispatcher) tellWaits(now time.Time) {
	v := d.budget.survey(d.lanes)
	w := d.metrics.waits
	for s, n := range v.due {
		lane := strconv.Itoa(int(s.lane))
		w.due.WithLabelValues(lane, string(s.priority)).Set(float64(n))
		w.streams.WithLabelValues(lane, string(s.priority)).Set(float64(v.stream[s]))
		wait := 0.
		if at, ok := v.oldest[s]; ok {
			wait = max(now.Sub(at).Seconds(), 0)
		}
		w.oldest.WithLabelValues(lane, string(s.priority)).Set(wait)
	}
	w.gap.Set(0)
	if !v.gap.IsZero() {
		w.gap.Set(max(now.Sub(v.gap).Seconds(), 0))
	}
	names := make([]string, 0, len(v.tenant))
	for name := range v.tenant {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(v.tenant[b]-v.tenant[a], cmp.Compare(a, b)) })
	w.tenants.Reset()
	others := 0
	for i, name := range names {
		if i < tenantsTold {
			w.tenants.WithLabelValues(name).Set(float64(v.tenant[name]))
			continue
		}
		others += v.tenant[name]
	}
	w.tenants.WithLabelValues(otherTenants).Set(float64(others))
}

// tellUnread notes since when what is still to be taken has been due.
func (s *shard) tellUnread() {
	var u unread
	for f := range s.book.passed {
		i := rank(f.priority)
		if at := f.after.Time(); u.passed[i].IsZero() || at.Before(u.passed[i]) {
			u.passed[i] = at
		}
	}
	if g := s.scan.gap; !g.to.IsZero() {
		u.gap = g.after.Time()
	}
	s.d.budget.unread(s.id, u)
}
