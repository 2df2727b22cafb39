package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/check/workflows"
	"carillon.dev/carillon/loadtest/journal"
)

// workflowEvidence is what a check of workflows reads.
type workflowEvidence struct {
	workflows, triggers []string
}

// checkWorkflows judges runs of workflows.
func checkWorkflows(ctx context.Context, to *target, ev *evidence, b bounds, log *slog.Logger, w io.Writer, out string) error {
	h := workflows.History{Late: ev.late}
	var err error
	if h.Workflows, err = readFiles(ev.workflows, journal.ReadWorkflows); err != nil {
		return err
	}
	if h.Triggers, err = readFiles(ev.triggers, journal.ReadTriggers); err != nil {
		return err
	}
	if h.Losses, err = ev.losses(); err != nil {
		return err
	}
	log.Info("evidence read", "workflows", len(h.Workflows), "triggers", len(h.Triggers))
	client, done := to.client(log)
	defer done()
	client.Timeout = historyTimeout // a run is shown with all its steps
	var ids []string
	var times []time.Time
	for i := range h.Triggers {
		t := &h.Triggers[i]
		if times = append(times, t.Requested, t.Acked); t.Run != "" {
			ids = append(ids, t.Run)
		}
	}
	observe := func(o api.Observer) (runs []check.Observation, unlisted int, err error) {
		o.Client, o.Concurrency, o.Log = client, b.concurrency, log
		return o.Observe(ctx)
	}
	if h.Runs, h.Unlisted, err = observe(api.Observer{
		IDs: ids, Windows: api.Windows(times), WaitUntil: time.Now().Add(b.wait), Apart: b.apart,
	}); err != nil {
		return err
	}
	// The sink saw more meanwhile. Its record is read again after the last end.
	if h.Seen, h.SeenAll, err = ev.readSeen(); err != nil {
		return err
	}
	suspects, err := workflows.Suspects(h)
	if err != nil {
		return err
	}
	log.Info("reading the runs of steps that need it", "runs", len(suspects))
	if h.StepRuns, _, err = observe(api.Observer{IDs: suspects, WaitUntil: time.Now()}); err != nil {
		return err
	}
	rep, err := workflows.Judge(h)
	if err != nil {
		return err
	}
	return report(&rep, w, out)
}
