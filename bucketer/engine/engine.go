// Package engine wires the bucketer with what writes through it: the parts that a dispatcher, an
// executor and the API need together.
package engine

import (
	"cmp"
	"context"
	"sync"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/concurrency"
	"carillon.dev/carillon/bucketer/events"
	"carillon.dev/carillon/bucketer/joins"
	"carillon.dev/carillon/bucketer/logs"
	"carillon.dev/carillon/bucketer/notifications"
	"carillon.dev/carillon/bucketer/orchestration"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/search"
	"carillon.dev/carillon/bucketer/tasks"
	"carillon.dev/carillon/schema"
)

// The parts whose names would hide a method of theirs.
type (
	runParts  = runs.Runs
	taskParts = tasks.Tasks
	jobs      = recurring.Jobs
	workflows = orchestration.Orchestrator
	eventPart = events.Events
	joinPart  = joins.Joins
	ruleParts = notifications.Rules
	logParts  = logs.Searcher
	searching = search.Searcher
)

// Engine has the methods of all its parts.
type Engine struct {
	*bucketer.Bucketer
	*runParts
	*taskParts
	*jobs
	*concurrency.WaitLists
	*workflows
	*eventPart
	*joinPart
	*ruleParts
	*logParts
	*searching
}

// New returns an Engine, which refuses writes until Refresh or Watch has read the settings.
func New(c bucketer.Config) (*Engine, error) {
	b, err := bucketer.New(c)
	if err != nil {
		return nil, err
	}
	r := runs.New(runs.Config{
		Bucketer: b, Store: c.Store, Signals: c.Signals, Now: c.Now, DeadLetterRetention: c.DeadLetterRetention,
		Logger: c.Logger, Registerer: c.Registerer,
	})
	t := tasks.New(tasks.Config{
		Bucketer: b, Store: c.Store, Signals: c.Signals, Listeners: c.Listeners, Logger: c.Logger,
	})
	j := recurring.New(recurring.Config{
		Bucketer: b, Runs: r, Store: c.Store, Logger: c.Logger, Registerer: c.Registerer,
	})
	w := concurrency.New(concurrency.Config{
		Bucketer: b, Runs: r, Jobs: j, Store: c.Store, Logger: c.Logger, Registerer: c.Registerer,
	})
	o := orchestration.New(orchestration.Config{
		Bucketer: b, Runs: r, Jobs: j, Limits: w, Store: c.Store, Ended: c.WorkflowEnded, Now: c.Now, Logger: c.Logger, Registerer: c.Registerer,
	})
	r.RetryWorkflows(o.RetryWorkflow)
	r.AskWaits(o.FindWaits)
	n := joins.New(joins.Config{Bucketer: b, Runs: r, Jobs: j, Store: c.Store, Logger: c.Logger, Registerer: c.Registerer})
	v := events.New(events.Config{
		Bucketer: b, Runs: r, Jobs: j, Steps: o, Joins: n, Store: c.Store, Logger: c.Logger, Registerer: c.Registerer,
	})
	rules := notifications.NewRules(b, c.Store, c.Registerer)
	rules.LinkTo(c.PublicURL)
	r.TellIncidents(rules)
	r.TellFailures(j.NoteFailure)
	return &Engine{b, r, t, j, w, o, v, n, rules, logs.New(b, r, j, o), search.New(b, r, c.Store, cmp.Or(c.DeadLetterRetention, schema.DeadLetterRetention))}, nil
}

// RunParts returns the part that shows and changes runs.
func (e *Engine) RunParts() *runs.Runs { return e.runParts }

// Recurring returns the part that keeps the jobs that can have many runs.
func (e *Engine) Recurring() *recurring.Jobs { return e.jobs }

// NotificationRules returns the part that keeps the rules for notifications.
func (e *Engine) NotificationRules() *notifications.Rules { return e.ruleParts }

// Watch runs what its parts do in the background, until ctx ends. It returns nil.
func (e *Engine) Watch(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { _ = e.jobs.Watch(ctx) }) // returns nil
	err := e.Bucketer.Watch(ctx)
	wg.Wait()
	return err
}
