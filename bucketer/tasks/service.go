package tasks

import (
	"log/slog"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// Config wires Tasks.
type Config struct {
	Bucketer *bucketer.Bucketer
	// Store is the store of the Bucketer.
	Store   bucketer.Store
	Signals bucketer.Signaller
	// Listeners must know of a change of a task before it is answered; nil: nobody but this node.
	Listeners *bucketer.TaskListeners
	Logger    *slog.Logger
}

// Tasks keeps the tasks of tenants. Its methods may be called from any goroutine.
type Tasks struct {
	core      *bucketer.Bucketer
	cache     *bucketer.TaskCache // the Bucketer's
	store     bucketer.Store
	signals   bucketer.Signaller
	listeners *bucketer.TaskListeners
	now       func() time.Time
	log       *slog.Logger
	// requires is which labels tasks require, as Rates found them last.
	requires atomic.Pointer[map[schema.TaskName]schema.Labels]
}

// New returns Tasks.
func New(c Config) *Tasks {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Tasks{
		core: c.Bucketer, cache: c.Bucketer.TaskCache(), store: c.Store, signals: c.Signals, listeners: c.Listeners,
		now: c.Bucketer.Now, log: c.Logger,
	}
}
