package recurring

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

// Config wires Jobs.
type Config struct {
	Bucketer *bucketer.Bucketer
	Runs     *runs.Runs
	// Store is the store of the Bucketer.
	Store      bucketer.Store
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Jobs keeps the jobs that can have many runs, and sees to it that they go on. Its methods may be
// called from any goroutine.
type Jobs struct {
	core    *bucketer.Bucketer
	runs    *runs.Runs
	store   bucketer.Store
	now     func() time.Time
	log     *slog.Logger
	metrics *metrics

	series    seriesCache
	uncertain uncertainRows
	locks     shardLocks
	ending    ending
}

// New returns Jobs.
func New(c Config) *Jobs {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	return &Jobs{
		core: c.Bucketer, runs: c.Runs, store: c.Store, now: c.Bucketer.Now, log: c.Logger, metrics: newMetrics(c.Registerer),
		series: seriesCache{known: make(map[seriesKey]*schedule.Schedule)},
		locks:  newShardLocks(),
		ending: ending{jobs: make(map[schema.JobID]*schema.Job), more: make(chan struct{}, 1)},
	}
}

// Watch finishes jobs whose last run was published, until ctx ends. It returns nil.
func (j *Jobs) Watch(ctx context.Context) error {
	j.finishAll(ctx)
	return nil
}

type metrics struct {
	missed *prometheus.CounterVec // by cause
	mended prometheus.Counter
	faulty prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		missed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_occurrences_missed_total",
			Help: "Nominal times of recurring jobs that were given up before an executor was asked, by cause.",
		}, []string{"cause"}),
		mended: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "carillon_jobs_mended_total",
			Help: "Recurring jobs that were found without a next run: every one is a fault.",
		}),
		faulty: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "carillon_job_faults_total",
			Help: "Times that a recurring job could not go on because what is stored of it is not understood.",
		}),
	}
	for _, cause := range []string{"changed", "deadline", "skip", "run_latest", "fault"} {
		m.missed.WithLabelValues(cause)
	}
	r.MustRegister(m.missed, m.mended, m.faulty)
	return m
}
