package runs

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// Config wires Runs.
type Config struct {
	Bucketer *bucketer.Bucketer
	// Store is the store of the Bucketer.
	Store   bucketer.Store
	Signals bucketer.Signaller
	// Now is the wall clock, by which sessions are remembered; nil means time.Now.
	Now func() time.Time
	// DeadLetterRetention is how long a dead letter is kept; default schema.DeadLetterRetention.
	DeadLetterRetention time.Duration
	Logger              *slog.Logger
	Registerer          prometheus.Registerer
}

// Runs is everything that is done with runs after they were accepted. Its methods may be called
// from any goroutine.
type Runs struct {
	*Reader
	*DeadLetterQueue
	*Recorder
	*Control
}

// parts are what each part of Runs needs.
type parts struct {
	core    *bucketer.Bucketer
	store   bucketer.Store
	now     func() time.Time // does not go back
	log     *slog.Logger
	metrics *metrics

	workflows *workflows
}

// Reader shows runs, and what they put out.
type Reader struct {
	parts
	live *bucketer.Liveness
}

// DeadLetterQueue keeps the runs that failed for good.
type DeadLetterQueue struct {
	parts
	reader    *Reader
	retention time.Duration
	notes     notes
}

// Recorder writes what became of attempts, and what follows from that.
type Recorder struct {
	parts
	reader  *Reader
	letters *DeadLetterQueue
	drops   rate.Sometimes // events that are dropped are audited now and then
	watch   *watch
}

// Control changes runs for their owners: cancel, reschedule, run again.
type Control struct {
	parts
	reader   *Reader
	letters  *DeadLetterQueue
	recorder *Recorder
	signals  bucketer.Signaller
}

// New returns Runs.
func New(c Config) *Runs {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	if c.DeadLetterRetention == 0 {
		c.DeadLetterRetention = schema.DeadLetterRetention
	}
	p := parts{core: c.Bucketer, store: c.Store, now: c.Bucketer.Now, log: c.Logger, metrics: newMetrics(c.Registerer), workflows: new(workflows)}
	r := &Reader{parts: p, live: bucketer.NewLiveness(c.Store, c.Now, c.Bucketer.Regions())}
	q := &DeadLetterQueue{parts: p, reader: r, retention: c.DeadLetterRetention}
	rec := &Recorder{parts: p, reader: r, letters: q, drops: rate.Sometimes{Interval: auditDropsEvery}, watch: new(watch)}
	return &Runs{r, q, rec, &Control{parts: p, reader: r, letters: q, recorder: rec, signals: c.Signals}}
}
