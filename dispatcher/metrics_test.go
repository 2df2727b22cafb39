package dispatcher

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
		if want := count * took.Seconds(); math.Abs(sum-want) > took.Seconds() {
			t.Errorf("scan_seconds adds up to %g s in %g scans, want %g s", sum, count, want)
		}
	})
}
