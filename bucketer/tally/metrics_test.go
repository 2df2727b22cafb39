package tally

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"carillon.dev/carillon/schema"
)

// scrape returns all series of the metrics of tl, by metric and labels.
func scrape(t *testing.T, tl interface{ Metrics() prometheus.Collector }) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(tl.Metrics())
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			if f.GetType() == dto.MetricType_HISTOGRAM {
				h := m.GetHistogram()
				series[name+" count"], series[name+" sum"] = float64(h.GetSampleCount()), h.GetSampleSum()
				for _, b := range h.GetBucket() {
					series[fmt.Sprint(name, " ", b.GetUpperBound())] = float64(b.GetCumulativeCount())
				}
				continue
			}
			series[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return series
}

// TestMetricsOfATenant: they tell of the minute under way and of those before.
func TestMetricsOfATenant(t *testing.T) {
	tl := New()
	tl.Due([]Lot{{Key{Tenant: "a"}, 4}})
	start(tl, Key{Tenant: "a"}, 5*time.Millisecond)
	tl.Take()
	start(tl, Key{Tenant: "a"}, 2*time.Second)
	start(tl, Key{Tenant: "a"}, time.Hour)
	tl.Missed(Key{Tenant: "a"}, "deadline: late", 3)
	b := tl.Begin()
	b.Ended(&Key{Tenant: "a"}, &schema.Record{Outcome: schema.TimedOut, Next: schema.MakeEntryID(time.UnixMilli(1000), 0, 1)})
	b.End()
	got := scrape(t, tl)
	for name, want := range map[string]float64{
		"carillon_tenant_due_total a": 4, "carillon_tenant_retries_total a": 1, "carillon_tenant_ends_total succeeded a": 3,
		"carillon_tenant_ends_total failed a": 1, "carillon_tenant_ends_total missed a": 3, "carillon_tenant_lateness_seconds a count": 3,
		"carillon_tenant_lateness_seconds a 0.01": 1, "carillon_tenant_lateness_seconds a 1": 1, "carillon_tenant_lateness_seconds a 5": 2,
		"carillon_tenant_lateness_seconds a 60": 2, "carillon_tenant_lateness_seconds a sum": .0035 + 1.5 + 300, "carillon_tenant_due_total *": 0,
	} {
		if got[name] != want {
			t.Errorf("%s = %v, want %v", name, got[name], want)
		}
	}
}

// TestMetricsOfWhatWaits: each reason has series, also while nothing waits for it.
func TestMetricsOfWhatWaits(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000).UTC()
	w := NewWaits(func() time.Time { return now })
	w.Deferred([]schema.Entry{
		deferred("a", "mail", "", now.Add(-8*time.Second), now.Add(5*time.Second)), deferred("b", "mail", "", now.Add(-3*time.Second), now.Add(5*time.Second)),
	}, schema.CauseRate)
	w.Held(schema.JobLimit(jobOf(1)), &schema.Spec{Tenant: "a", JobName: "report"}, 100, true, now.Add(-time.Minute))
	now = now.Add(time.Second)
	got := scrape(t, w)
	if len(got) != 18 {
		t.Errorf("%d series, want 18: %v", len(got), got)
	}
	for name, want := range map[string]float64{
		"carillon_runs_held rate": 2, "carillon_runs_held_oldest_seconds rate": 9, "carillon_runs_held concurrency": 100,
		"carillon_runs_held_oldest_seconds concurrency": 61, "carillon_runs_held breaker": 0, "carillon_runs_held_oldest_seconds breaker": 0,
	} {
		if got[name] != want {
			t.Errorf("%s = %v, want %v", name, got[name], want)
		}
	}
	now = now.Add(time.Hour)
	for name, value := range scrape(t, w) {
		if value != 0 {
			t.Errorf("%s = %v long after, want 0", name, value)
		}
	}
}

// TestMetricsOfManyTenants: of 10,000 tenants, 50 have series at a time; none of those falls while
// it is there, what all counted together is exact while none ends, and a tenant that becomes heavy
// is named within a minute.
func TestMetricsOfManyTenants(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	tl := New()
	last := make(map[string]float64)
	perTenant := len(scrape(t, tl))
	started := 0
	check := func(exact bool) {
		t.Helper()
		now := scrape(t, tl)
		if most := (TenantsNamed + 1) * perTenant; len(now) > most {
			t.Fatalf("%d series, want at most %d", len(now), most)
		}
		sum := 0.
		for name, is := range now {
			if is < last[name] {
				t.Fatalf("%s fell from %v to %v", name, last[name], is)
			}
			if len(name) > 6 && name[len(name)-6:] == " count" {
				sum += is
			}
		}
		if exact && sum != float64(started) {
			t.Fatalf("%v starts are counted, want %d", sum, started)
		}
		last = now
	}
	for minute := range 6 {
		for i := range 20_000 {
			start(tl, Key{Tenant: fmt.Sprintf("t%d", r.IntN(10_000))}, time.Millisecond)
			started++
			if i%2_000 == 0 {
				check(minute == 0)
			}
		}
		if minute == 3 {
			for range 5_000 {
				start(tl, Key{Tenant: "heavy"}, time.Millisecond)
			}
		}
		check(false)
		tl.Take()
		check(false)
		if _, named := last["carillon_tenant_due_total heavy"]; named != (minute >= 3) {
			t.Errorf("after minute %d the heavy tenant is named %t", minute, named)
		}
	}
}
