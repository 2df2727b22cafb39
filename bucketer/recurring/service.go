package recurring

import (
	"context"
	"log/slog"
	"sync"
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

// Jobs keeps the jobs that can have many runs, and sees to it that they go on. Its methods, which
// are those of its parts, may be called from any goroutine.
type Jobs struct {
	*Reader
	*Creator
	*Changer
	*Planner
	*CalendarKeeper
}

// Reader shows jobs, their times and their runs, and makes rows of runs without writing them.
type Reader struct {
	core    *bucketer.Bucketer
	runs    *runs.Runs
	store   bucketer.Store
	now     func() time.Time
	log     *slog.Logger
	metrics *metrics
	series  seriesCache
	names   nameCache
}

// upkeep looks after the next run of a job, and after its place in its tenant's list.
type upkeep struct{ *Reader }

// Creator makes jobs.
type Creator struct {
	upkeep
	cancel func(ctx context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error)
}

// Changer changes, triggers and finishes jobs.
type Changer struct {
	upkeep
	creator *Creator
	locks   shardLocks
	ending  ending
	failing todo
	stale   todo
}

// Planner plans jobs on: before a run of theirs starts, after runs were missed, and when they do
// not go on.
type Planner struct {
	*Reader
	changer   *Changer
	uncertain uncertainRows
}

// New returns Jobs.
func New(c Config) *Jobs {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	r := &Reader{
		core: c.Bucketer, runs: c.Runs, store: c.Store, now: c.Bucketer.Now, log: c.Logger, metrics: newMetrics(c.Registerer),
		series: seriesCache{known: make(map[seriesKey]*schedule.Schedule)}, names: nameCache{known: make(map[jobName]schema.JobID)},
	}
	changer := &Changer{
		upkeep: upkeep{r}, locks: newShardLocks(),
		ending: ending{jobs: make(map[schema.JobID]*schema.Job), more: make(chan struct{}, 1)}, failing: newTodo(), stale: newTodo(),
	}
	changer.creator = &Creator{upkeep: upkeep{r}, cancel: changer.CancelJob}
	return &Jobs{r, changer.creator, changer, &Planner{Reader: r, changer: changer}, &CalendarKeeper{Reader: r, changer: changer}}
}

// Watch finishes jobs whose last run was published, pauses jobs whose runs fail, and changes those
// that go by old dates of a calendar, until ctx ends. It returns nil.
func (j *Changer) Watch(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { j.do(ctx, &j.failing, "a job whose runs fail is not paused yet", j.pauseIfFailing) })
	wg.Go(func() { j.do(ctx, &j.stale, "a job goes by the old dates of a calendar", j.refresh) })
	j.finishAll(ctx)
	wg.Wait()
	return nil
}

type metrics struct {
	mended prometheus.Counter
	faulty prometheus.Counter
	paused prometheus.Counter
	// what Mend looked through, and how long that took
	looked, lookTime prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		mended: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "carillon_jobs_mended_total",
			Help: "Recurring jobs that were found without a next run: every one is a fault.",
		}),
		faulty: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "carillon_job_faults_total",
			Help: "Times that a recurring job could not go on because what is stored of it is not understood.",
		}),
		paused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "carillon_jobs_paused_total",
			Help: "Jobs that were paused because as many of their runs failed in a row as they allow.",
		}),
		looked: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "carillon_jobs_looked_through_total",
			Help: "Recurring jobs that were looked through for some without a next run.",
		}),
		lookTime: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "carillon_jobs_looked_through_seconds_total",
			Help: "Seconds that looking through them took.",
		}),
	}
	r.MustRegister(m.mended, m.faulty, m.paused, m.looked, m.lookTime)
	return m
}
