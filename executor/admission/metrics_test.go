package admission

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// counted returns what a metric says.
func counted(t *testing.T, m prometheus.Metric) float64 {
	t.Helper()
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatalf("read the metric: %v", err)
	}
	return out.GetCounter().GetValue() + out.GetGauge().GetValue()
}
