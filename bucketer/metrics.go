package bucketer

import (
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	entries     *prometheus.CounterVec
	late        prometheus.Counter
	near        prometheus.Counter
	keysChecked prometheus.Counter
	refused     *prometheus.CounterVec
	unlisted    prometheus.Counter
	missed      *prometheus.CounterVec // by cause
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		entries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_entries_written_total", Help: "Entries that a quorum holds, by why they exist.",
		}, []string{"kind"}),
		late: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "carillon_entries_late_total", Help: "Rows that were held too late for their sweep and got a late entry.",
		}),
		near: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "carillon_near_hints_total", Help: "Entries whose dispatcher was told because they were due soon.",
		}),
		keysChecked: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "carillon_key_reads_total", Help: "Slice reads that looked for rows of keyed import lines.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_intake_refused_total", Help: "Jobs that were refused before anything was written, by reason.",
		}, []string{"reason"}),
	}
	m.unlisted = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "carillon_job_runs_unlisted_total", Help: "Runs of jobs that are not listed until they have ended, since their line of history could not be written.",
	})
	m.missed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "carillon_occurrences_missed_total",
		Help: "Nominal times of recurring jobs and workflows that were given up before an executor was asked, by cause.",
	}, []string{"cause"})
	for _, cause := range []string{"changed", "deadline", "skip", "run_latest", "skipped", "fault"} {
		m.missed.WithLabelValues(cause)
	}
	for _, kind := range []string{"run", "late", "retry", "reschedule", "deferral", "watch", "catch_up", "turn"} {
		m.entries.WithLabelValues(kind)
	}
	for _, reason := range []string{"partition_full", "overloaded", "not_ready"} {
		m.refused.WithLabelValues(reason)
	}
	r.MustRegister(m.entries, m.late, m.near, m.keysChecked, m.refused, m.unlisted, m.missed)
	return m
}
