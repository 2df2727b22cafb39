package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	tlog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"carillon.dev/carillon/loadtest/flow"
	"carillon.dev/carillon/loadtest/peers/measure"
	"carillon.dev/carillon/loadtest/peers/server"
)

const (
	temporalQueue    = "bench"
	temporalChain    = "chain"
	temporalStep     = "step"
	temporalTimeout  = time.Minute      // of a step
	temporalRunning  = 10 * time.Minute // of a chain
	temporalConnect  = 10 * time.Second // of a try
	temporalStopping = 10 * time.Second // for what is under way

	// What tuned means. The documentation of workers names pollers and slots as what bounds throughput, and the cache of
	// workflows as what saves replays.
	temporalPollers  = 16 // of workflow tasks, and as many of activities
	temporalSlots    = 2000
	temporalWorkflow = 20_000 // in the cache, more than are ever open
)

// temporal is a dev server of Temporal with SQLite on a disk, and a worker of this process. A chain is a workflow of
// activities, one after the other, each a call of the handler.
type temporal struct {
	server.TemporalConfig

	log     *slog.Logger
	server  *server.Temporal
	client  client.Client
	version string
}

// Name implements measure.System.
func (t *temporal) Name() string {
	switch {
	case t.Relaxed:
		return "temporal-relaxed"
	case t.Tuned:
		return "temporal"
	default:
		return "temporal-default"
	}
}

// Settings implements measure.System.
func (t *temporal) Settings() measure.Settings {
	s := measure.Settings{
		Durability: server.TemporalDurability(t.TemporalConfig),
		Versions:   map[string]string{"temporal": t.version, "sdk": moduleVersion("go.temporal.io/sdk")},
	}
	if t.Tuned {
		s.Tuning = map[string]string{
			"pollers": fmt.Sprintf("%d of workflow tasks, %d of activity tasks", temporalPollers, temporalPollers),
			"slots":   fmt.Sprintf("%d of workflow tasks, %d of activities", temporalSlots, temporalSlots),
			"cache":   fmt.Sprint(temporalWorkflow), "eager": "activities and starts of workflows", "server": server.TemporalTuning(),
		}
	}
	return s
}

// Start implements measure.System.
func (t *temporal) Start(ctx context.Context, dir string) (err error) {
	if t.server, err = server.StartTemporal(ctx, dir, t.TemporalConfig); err != nil {
		return err
	}
	t.version = t.server.Version(ctx)
	for { // it listens before it answers
		try, cancel := context.WithTimeout(ctx, temporalConnect)
		t.client, err = client.DialContext(try, client.Options{HostPort: t.server.Address(), Logger: tlog.NewStructuredLogger(t.log)})
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("connect: %w", errors.Join(err, ctx.Err()))
		}
	}
}

// RunWorkers implements measure.System.
func (t *temporal) RunWorkers(ctx context.Context, handle measure.Handler) error {
	options := worker.Options{WorkerStopTimeout: temporalStopping}
	if t.Tuned {
		worker.SetStickyWorkflowCacheSize(temporalWorkflow)
		options.MaxConcurrentWorkflowTaskPollers, options.MaxConcurrentActivityTaskPollers = temporalPollers, temporalPollers
		options.MaxConcurrentWorkflowTaskExecutionSize, options.MaxConcurrentActivityExecutionSize = temporalSlots, temporalSlots
		options.MaxConcurrentEagerActivityExecutionSize = temporalSlots
	}
	failed := make(chan error, 1)
	options.OnFatalError = func(err error) {
		select {
		case failed <- err:
		default: // one is enough
		}
	}
	w := worker.New(t.client, temporalQueue, options)
	w.RegisterWorkflowWithOptions(chain, workflow.RegisterOptions{Name: temporalChain})
	w.RegisterActivityWithOptions(func(ctx context.Context, job measure.Job) error { return handle(ctx, job) }, activity.RegisterOptions{Name: temporalStep})
	if err := w.Start(); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	defer w.Stop()
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return fmt.Errorf("worker: %w", err)
	}
}

// chain is the workflow: its steps one after the other, from job `first` on.
func chain(ctx workflow.Context, wave, first int) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: temporalTimeout})
	for i := range flow.ChainSteps {
		if err := workflow.ExecuteActivity(ctx, temporalStep, measure.Job{Wave: wave, I: first + i}).Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// StartChain implements measure.Chainer.
func (t *temporal) StartChain(ctx context.Context, wave, n int) error {
	_, err := t.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: fmt.Sprintf("w%d-%d", wave, n), TaskQueue: temporalQueue, WorkflowExecutionTimeout: temporalRunning, EnableEagerStart: t.Tuned,
	}, temporalChain, wave, n*flow.ChainSteps)
	if err != nil {
		return fmt.Errorf("start workflow %d: %w", n, err)
	}
	return nil
}

// Servers implements measure.System.
func (t *temporal) Servers() map[string]int { return map[string]int{"temporal": t.server.PID()} }

// Stop implements measure.System.
func (t *temporal) Stop(ctx context.Context) error {
	if t.client != nil {
		t.client.Close()
	}
	if t.server == nil {
		return nil
	}
	return t.server.Stop(ctx)
}
