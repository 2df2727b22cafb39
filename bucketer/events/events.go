package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

// Config wires Events.
type Config struct {
	Bucketer *bucketer.Bucketer
	Runs     *runs.Runs
	Jobs     *recurring.Jobs
	Steps    Steps
	Joins    Joins
	// Store is the store of the Bucketer.
	Store      bucketer.Store
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Steps ends the waits of steps (orchestration.Orchestrator has it).
type Steps interface {
	// StepHeard tells a step that waits for an event of one. It does nothing if the step does not
	// wait, or does not want the event. Telling it again is harmless.
	StepHeard(ctx context.Context, step schema.RunID, e *schema.Entry, body json.RawMessage, value workflow.Value) error
}

// Joins starts runs that wait for other jobs (joins.Joins has it). Calls may be repeated.
type Joins interface {
	// PlanEnd plans what follows from the end of a run, which the event e says.
	PlanEnd(ctx context.Context, e *schema.Entry) error
	// PlanJoin looks after the run that waits of which e is an entry.
	PlanJoin(ctx context.Context, e *schema.Entry) error
}

// Events takes in events and plans what they start. Its methods may be called from any goroutine.
type Events struct {
	core    *bucketer.Bucketer
	runs    *runs.Runs
	jobs    *recurring.Jobs
	steps   Steps
	joins   Joins
	store   bucketer.Store
	log     *slog.Logger
	metrics *metrics
	filters workflow.FilterCache
	places  bucketer.Places // how far events are planned that have many subscribers
}

type metrics struct {
	accepted prometheus.Counter
	planned  prometheus.Counter
	heard    *prometheus.CounterVec // by what became of a subscriber
}

// What became of a subscriber of an event.
const (
	started  = "started"  // a run of a job
	filtered = "filtered" // the filter did not take the event
	refused  = "refused"  // the task's schema does not take the body
	faulty   = "faulty"   // the filter could not be evaluated, or the job not be understood
)

// New returns Events.
func New(c Config) *Events {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	m := &metrics{
		accepted: prometheus.NewCounter(prometheus.CounterOpts{Name: "carillon_events_accepted_total", Help: "Events that were accepted."}),
		planned:  prometheus.NewCounter(prometheus.CounterOpts{Name: "carillon_events_planned_total", Help: "Events of which everything was planned that they start."}),
		heard: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_event_jobs_total", Help: "Jobs that an event was offered to, by what became of it.",
		}, []string{"what"}),
	}
	for _, what := range []string{started, filtered, refused, faulty} {
		m.heard.WithLabelValues(what)
	}
	c.Registerer.MustRegister(m.accepted, m.planned, m.heard)
	return &Events{core: c.Bucketer, runs: c.Runs, jobs: c.Jobs, steps: c.Steps, joins: c.Joins, store: c.Store, log: c.Logger, metrics: m}
}

// Publish takes an event in. Nil means that it is durable and will be planned. The same key and body
// hash give the same event for bucketer.KeyRetention; another body answers bucketer.ErrKeyReused.
// The receipt's run is the id of the event.
func (v *Events) Publish(ctx context.Context, tenant, name string, body json.RawMessage, key, bodyHash string) (bucketer.Receipt, error) {
	now := v.core.Now()
	s, err := v.core.InForce()
	if err != nil {
		v.core.CountRefused("not_ready")
		return bucketer.Receipt{}, err
	}
	shard, err := v.core.Regions().Draw(tenant, s.Shards)
	if err != nil {
		return bucketer.Receipt{}, err
	}
	durability, err := v.core.Regions().DurabilityOf(ctx, tenant, "")
	if err != nil {
		return bucketer.Receipt{}, err
	}
	id := schema.MakeEntryID(bucketer.DueTime(time.Time{}, now), shard, schema.RandomHash())
	says := schema.Spec{
		Tenant: tenant, Kind: schema.KindEvent, Of: id, Nominal: id.Time(), Accepted: now.UnixMicro(), Event: &schema.Event{Name: name},
		Key: key, BodyHash: bodyHash, Everywhere: durability == schema.DurableEverywhere, Retention: v.core.RetentionOf(tenant),
	}
	e, err := schema.NewEntry(id, says, body, v.core.ExpiryOf(&says, id.Time(), now))
	if err != nil {
		return bucketer.Receipt{}, err
	}
	if err := v.core.TakeRoom(&e); err != nil {
		return bucketer.Receipt{}, err
	}
	receipt := bucketer.Receipt{Run: id}
	if key == "" {
		err = v.core.WriteNew(ctx, e)
	} else {
		// Keys of events are no keys of jobs.
		receipt, err = v.core.SubmitKeyed(ctx, &bucketer.Job{Tenant: tenant, Key: "event/" + name + "/" + key, BodyHash: bodyHash}, e, now)
	}
	if err == nil && !receipt.Existing {
		v.metrics.accepted.Inc()
	}
	return receipt, err
}

// Event returns an event of the tenant, or schema.ErrNotFound.
func (v *Events) Event(ctx context.Context, tenant string, id schema.EntryID) (schema.Entry, error) {
	found, err := v.core.Stored(ctx, []schema.EntryID{id})
	if err != nil {
		return schema.Entry{}, err
	}
	e, ok := found[id]
	if !ok || e.Spec.Tenant != tenant || !isEvent(&e) {
		return schema.Entry{}, fmt.Errorf("event %s: %w", id, schema.ErrNotFound)
	}
	return e, nil
}

// isEvent reports whether e is an event that its tenant sees.
func isEvent(e *schema.Entry) bool {
	return e.Spec.Kind == schema.KindEvent && e.Spec.Of == e.ID && e.Spec.Event != nil && !schema.IsEndOf(e.Spec.Event.Name)
}

// Events returns the tenant's events of w by the time at which they were accepted, of that name ("":
// any), at most limit. About pages see runs.Reader.Runs.
func (v *Events) Events(ctx context.Context, w runs.Window, name string, pos runs.Position, limit int) ([]schema.Entry, *runs.Position, error) {
	return v.runs.Entries(ctx, w, pos, limit, func(e *schema.Entry) bool {
		return isEvent(e) && (name == "" || e.Spec.Event.Name == name)
	})
}

// RunsOf returns runs of jobs that an event of the tenant started, in the order in which they were
// planned, from number `from` on, at most limit, and whether there are more. Steps that it ended are
// not among them. Of an event that is being planned they are those so far.
func (v *Events) RunsOf(ctx context.Context, tenant string, id schema.EntryID, from, limit int) ([]runs.Run, bool, error) {
	if _, err := v.Event(ctx, tenant, id); err != nil {
		return nil, false, err
	}
	var ids []schema.RunID
	for after := (schema.EntryID{}); len(ids) <= from+limit; {
		text, err := v.store.Decided(ctx, pageKey(id, after))
		if errors.Is(err, schema.ErrNotFound) {
			break
		}
		if err != nil {
			return nil, false, err
		}
		page, err := parsePage(text)
		if err != nil {
			return nil, false, err
		}
		for _, s := range page.Starts {
			ids = append(ids, s.Run)
		}
		if after = page.last(); after.IsZero() {
			break
		}
	}
	if from >= len(ids) {
		return nil, false, nil
	}
	ids = ids[from:]
	more := len(ids) > limit
	if more {
		ids = ids[:limit]
	}
	found, err := v.core.Stored(ctx, ids)
	if err != nil {
		return nil, false, err
	}
	rows := make([]schema.Entry, 0, len(ids))
	for _, id := range ids {
		if row, ok := found[id]; ok {
			rows = append(rows, row)
		}
	}
	list, err := v.runs.Fold(ctx, rows)
	if err == nil {
		_, err = v.runs.NoteWaits(ctx, list)
	}
	return list, more, err
}
