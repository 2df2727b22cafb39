package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
)

// historyTimeout bounds the reading of one page of a history.
const historyTimeout = 30 * time.Second

// recurringEvidence is what a check of recurring jobs reads.
type recurringEvidence struct {
	events, end  string
	stops, kills []string
}

// checkRecurring judges recurring jobs.
func checkRecurring(ctx context.Context, to *target, ev *evidence, b bounds, log *slog.Logger, w io.Writer, out string) error {
	h, err := ev.readRecurring()
	if err != nil {
		return err
	}
	h.Late, h.Calm, h.Off = ev.late, ev.calm, ev.off
	if h.Seen, h.SeenAll, err = ev.readSeen(); err != nil {
		return err
	}
	log.Info("evidence read", "events", len(h.Events), "arrivals", len(h.Seen))
	client, done := to.client(log)
	defer done()
	client.Timeout = historyTimeout
	o := &api.Histories{
		Client: client, WaitUntil: later(time.Now(), h.End).Add(b.wait), Apart: b.apart, Concurrency: b.concurrency, Log: log,
	}
	if err := o.Read(ctx, &h); err != nil {
		return err
	}
	// The sink saw more meanwhile. Its record is read again after the last end.
	if h.Seen, h.SeenAll, err = ev.readSeen(); err != nil {
		return err
	}
	rep, err := check.JudgeRecurring(h)
	if err != nil {
		return err
	}
	return report(&rep, w, out)
}

// readRecurring reads the events, and the spans and instants of the flags.
func (ev *recurringEvidence) readRecurring() (h check.RecurringHistory, err error) {
	if h.End, err = time.Parse(time.RFC3339Nano, ev.end); err != nil {
		return h, fmt.Errorf("read --end: %w", err)
	}
	if h.Stops, err = spansOf("--stop", ev.stops, func(from, to time.Time) check.Stop { return check.Stop{From: from, To: to} }); err != nil {
		return h, err
	}
	for _, text := range ev.kills {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return h, fmt.Errorf("read --kill: %w", err)
		}
		h.Kills = append(h.Kills, check.Kill{At: at})
	}
	h.Events, err = journal.ReadFile(ev.events, journal.ReadEvents)
	return h, err
}
