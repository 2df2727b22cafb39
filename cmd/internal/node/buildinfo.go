package node

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

// buildInfo returns a metric that is always 1 and says which version runs.
func buildInfo(version string) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "carillon", Name: "build_info", Help: "Always 1: its labels say which version runs, and which Go built it.",
		ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version()},
	})
	g.Set(1)
	return g
}
