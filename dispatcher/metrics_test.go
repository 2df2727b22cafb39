package dispatcher

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// TestScansAreTimed: each scan is observed once, with the time that its read took.
func TestScansAreTimed(t *testing.T) {
	const took = 20 * time.Millisecond
	inBubble(t, 1, func(t *testing.T, r *rig) {
		r.store.Store = schematest.Faulty(r.store.Store, func(_ context.Context, op string) schematest.Fault {
			if op != "Entries" {
				return schematest.Fault{}
			}
			return schematest.Fault{Delay: took}
		})
		n := r.start("d1")
		time.Sleep(time.Minute)
		n.stop()
		reg := prometheus.NewRegistry()
		reg.MustRegister(n.metrics.scanTime, n.metrics.scans)
		families, err := reg.Gather()
		if err != nil || len(families) != 2 {
			t.Fatalf("Gather = %d families, %v, want scan_seconds and scans_total", len(families), err)
		}
		h, scans := families[0].GetMetric()[0].GetHistogram(), families[1].GetMetric()[0].GetCounter().GetValue()
		count, sum := float64(h.GetSampleCount()), h.GetSampleSum()
		if count < 30 || count < scans-1 || count > scans { // one may have been under way at the end
			t.Errorf("scan_seconds counts %g of %g scans, want each, and at least 30 in a minute", count, scans)
		}
		// The stop cuts one short, and may cut another that began before all had heard of it.
		if want := count * took.Seconds(); math.Abs(sum-want) > 2.5*took.Seconds() {
			t.Errorf("scan_seconds adds up to %g s in %g scans, want %g s", sum, count, want)
		}
	})
}

// TestTheBacklogIsReported: the metrics have the backlog and its age by lane and priority, and name
// ten tenants at most.
func TestTheBacklogIsReported(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		r.handOf(schema.Low, nil, 10, 100*time.Millisecond) // 100 a second
		n := r.start("d1")
		time.Sleep(5 * time.Second)
		at := time.Now().Add(2 * time.Second).Truncate(time.Second)
		for i := range 14 {
			r.of(fmt.Sprintf("tenant-%02d", i), schema.Low, 500+10*i, at, 0)
		}
		time.Sleep(time.Until(at.Add(20 * time.Second)))
		w := n.metrics.backlog
		if oldest := gauged(t, w.oldest.WithLabelValues("0", "low")); oldest < 18 || oldest > 21 {
			t.Errorf("oldest_wait_seconds = %g, want about 20", oldest)
		}
		// Each is read at an instant of its own, so they are compared over ten seconds: now and
		// then a tenant has nothing in memory.
		var tenants int
		var due, stream, depth float64
		for range 40 {
			time.Sleep(250 * time.Millisecond)
			tenants = max(tenants, series(w.tenants))
			due, stream = max(due, gauged(t, w.due.WithLabelValues("0", "low"))), max(stream, gauged(t, w.streams.WithLabelValues("0", "low")))
			depth = max(depth, gauged(t, n.metrics.depth.WithLabelValues("0", "low")))
		}
		if tenants != tenantsNamed+1 {
			t.Errorf("tenant_waiting has %d series, want %d", tenants, tenantsNamed+1)
		}
		if due < 14*shardstate.MinHeld/4 || due > shardstate.MaxHeld || stream < leastBudget/2 || stream > firstBudget {
			t.Errorf("due_waiting = %g, stream_waiting = %g, want what is held of 14 tenants, and what keeps executors busy", due, stream)
		}
		if depth < stream/2 {
			t.Errorf("stream_depth = %g, want about the %g that wait, and what is held", depth, stream)
		}
	})
}

// series returns how many series a collector has.
func series(c prometheus.Collector) int {
	ch := make(chan prometheus.Metric, 1000)
	c.Collect(ch)
	return len(ch)
}

// gauged returns what a gauge says.
func gauged(t *testing.T, g prometheus.Gauge) float64 {
	t.Helper()
	var out dto.Metric
	if err := g.Write(&out); err != nil {
		t.Fatalf("read the metric: %v", err)
	}
	return out.GetGauge().GetValue()
}

func counted(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var out dto.Metric
	if err := c.Write(&out); err != nil {
		t.Fatalf("read the metric: %v", err)
	}
	return out.GetCounter().GetValue()
}
