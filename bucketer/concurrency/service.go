package concurrency

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// Config wires WaitLists.
type Config struct {
	Bucketer *bucketer.Bucketer
	Runs     *runs.Runs
	Jobs     *recurring.Jobs
	// Store is the store of the Bucketer.
	Store      bucketer.Store
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// WaitLists keeps the runs that the limits of their jobs hold back, and starts them when there are
// slots. Its methods may be called from any goroutine.
type WaitLists struct {
	core    *bucketer.Bucketer
	runs    *runs.Runs
	jobs    *recurring.Jobs
	store   bucketer.Store
	now     func() time.Time
	log     *slog.Logger
	metrics metrics
	// regions: there are some, so an executor may be unable to give a slot back.
	regions bool

	fronts waitFronts
	walks  waitWalks
	absent absentRows
}

// New returns WaitLists.
func New(c Config) *WaitLists {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	l := &WaitLists{
		core: c.Bucketer, runs: c.Runs, jobs: c.Jobs, store: c.Store, now: c.Bucketer.Now, log: c.Logger, regions: c.Bucketer.Regions() != nil,
		fronts: waitFronts{of: make(map[schema.LimitKey]*waitFront)},
		walks:  waitWalks{of: make(map[schema.LimitKey]waitWalk)},
		absent: absentRows{since: make(map[schema.EntryID]time.Time)},
	}
	l.metrics.turns = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "carillon_limit_turns_total", Help: "Runs that were held back by a limit and whose turn came.",
	})
	c.Registerer.MustRegister(l.metrics.turns)
	return l
}

type metrics struct {
	turns prometheus.Counter
}
