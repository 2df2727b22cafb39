package homes

import (
	"fmt"
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct{ readsFailed, beatsFailed prometheus.Counter }

func newMetrics(k *Keeper) (*metrics, error) {
	m := &metrics{
		readsFailed: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "carillon", Subsystem: "region", Name: "epoch_reads_failed_total",
			Help: "Reads of who serves the homes that were not answered. Five in a row end what this region may do.",
		}),
		beatsFailed: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "carillon", Subsystem: "region", Name: "beats_failed_total",
			Help: "Signs of life of this region that were not written.",
		}),
	}
	collectors := []prometheus.Collector{m.readsFailed, m.beatsFailed}
	for _, home := range k.cfg.Homes.Names() {
		collectors = append(collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "carillon", Subsystem: "region", Name: "home_epoch", ConstLabels: prometheus.Labels{"home": home},
			Help: "The epoch in which this region serves a home, 0 if it does not.",
		}, func() float64 {
			epoch, _ := k.ServedHome(home) // 0 with an error
			return float64(epoch)
		}))
	}
	for _, region := range k.cfg.Regions {
		if region == k.cfg.Region {
			continue
		}
		collectors = append(collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "carillon", Subsystem: "region", Name: "replication_lag_seconds", ConstLabels: prometheus.Labels{"region": region},
			Help: "Age of the newest sign of life of another region that this data centre has, by both clocks: so much of what that region did may be missing here. One is written every 2 s. NaN: none was seen.",
		}, func() float64 {
			if lag, ok := k.Lag(region); ok {
				return lag.Seconds()
			}
			return math.NaN()
		}))
	}
	if k.cfg.Registerer == nil {
		return m, nil
	}
	for _, c := range collectors {
		if err := k.cfg.Registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}
