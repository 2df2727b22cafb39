package operations

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// The actions of operations.
const (
	ActionCancel  = "cancel"
	ActionPause   = "pause"
	ActionResume  = "resume"
	ActionTrigger = "trigger"
	ActionRetry   = "retry"
	ActionReplay  = "replay"  // of dead letters
	ActionDiscard = "discard" // of dead letters
	// ActionBackfill is begun by Backfill.
	ActionBackfill = "backfill"
)

// Actions are those that a client may ask for with a filter.
var Actions = []string{ActionCancel, ActionPause, ActionResume, ActionTrigger, ActionRetry, ActionReplay, ActionDiscard}

// The bounds of operations.
const (
	// operationPage is how many jobs or runs an operation lists, and acts on, at once. After a
	// crash at most that many are repeated.
	operationPage = 200
	// operationActs bounds what a node acts on at once, for all operations. A change of a job takes
	// half a second, most of it waiting.
	operationActs = 200
	// operationsAtOnce bounds the operations that a node works on at once, and operationVisit is
	// about how long it stays with one while others wait.
	operationsAtOnce = 8
	operationVisit   = 2 * time.Second
	// operationPause is the shortest wait of an operation that its tenant's quota holds up; the
	// longest is a turn.
	operationPause = time.Second
	// operationFaults bounds the failures that an operation lists one by one.
	operationFaults = 10
	// maxPlain bounds the text of one failure, in bytes.
	maxPlain = 200
	// operationTurn is how long one node works on an operation before a node is chosen anew.
	operationTurn = 30 * time.Second
	// operationPoll is how often a node looks for open operations, and operationsOpen how many of
	// them it looks at.
	operationPoll  = 5 * time.Second
	operationsOpen = 1000
	// MaxOpenOperations is about how many operations of one tenant may be open at a time: of
	// several that are begun at once a few more may pass.
	MaxOpenOperations = 100
	// operationCount bounds how long Begin counts what matches.
	operationCount = 2 * time.Second
	// MaxOperationSpan is the longest stretch of due times of runs that one operation acts on.
	MaxOperationSpan = 31 * 24 * time.Hour
	// operationWindow is how much of it is listed at once: the longest Window.
	operationWindow = time.Hour
	// listPage is how many operations List reads at once, and listPages how often it reads for one
	// page of a list that asks for a state.
	listPage  = 100
	listPages = 10
)

// ErrManyOperations: as many operations as there may be are open, of the tenant or of all; nothing
// was begun (429).
var ErrManyOperations = errors.New("too many operations are open")

// OperationStore is what operations need of a store.
type OperationStore interface {
	schema.OperationStore
	schema.DecisionStore
}

// Operations does one thing to everything that matches a filter, in the background, on any node.
// Its methods may be called from any goroutine.
type Operations struct {
	pages
	bucketer *bucketer.Bucketer
	store    OperationStore
	quota    RunQuota
	node     string
	log      *slog.Logger
	metrics  *metrics
	wake     chan struct{} // holds one when there may be something to do
	acts     chan struct{} // a token for each action under way
}

// RunQuota bounds what tenants may start (admin.Tenants).
type RunQuota interface {
	// RunsLeft returns how many runs, at most `most`, the tenant may start by now; if none, how
	// long to wait for the next one.
	RunsLeft(ctx context.Context, tenant string, most int) (n int, wait time.Duration, err error)
	// TakeRuns takes n runs out of the tenant's quota, also if that has become less.
	TakeRuns(ctx context.Context, tenant string, n int) error
}

// Config wires Operations.
type Config struct {
	Bucketer *bucketer.Bucketer
	Runs     *runs.Runs
	Jobs     *recurring.Jobs
	Store    OperationStore
	// Quota bounds the runs that operations start; nil bounds nothing.
	Quota RunQuota
	// Note is told of each job that an operation has cancelled, paused or resumed, for the audit log;
	// it does not wait. nil: nobody is told.
	Note func(op *schema.Operation, job *schema.Job)
	// Node names this process and which of its lives it is: turns are taken under this name.
	Node       string
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// New returns Operations that work nothing off until Run is called.
func New(c Config) *Operations {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	return &Operations{
		pages: pages{runs: c.Runs, jobs: c.Jobs, task: c.Bucketer.TaskCache().Task, now: c.Bucketer.Now, note: c.Note}, bucketer: c.Bucketer, store: c.Store, quota: c.Quota, node: c.Node,
		log:     c.Logger,
		metrics: newMetrics(c.Registerer),
		wake:    make(chan struct{}, 1), acts: make(chan struct{}, operationActs),
	}
}

// Begun is an operation that was asked for.
type Begun struct {
	Operation schema.Operation
	// Matched is how much matches by now, and All whether that is all that does: counting ends
	// after a while.
	Matched int64
	All     bool
	// Existing: the key was known with the same body; nothing new was begun.
	Existing bool
}

// Begin makes an operation, which is worked off from now on, and counts what matches. A key makes
// it once; a key that came with another body is ErrKeyReused. A tenant that has MaxOpenOperations
// answers ErrManyOperations.
func (o *Operations) Begin(ctx context.Context, tenant string, spec schema.OperationSpec, key, bodyHash string) (Begun, error) {
	begun, err := o.begin(ctx, tenant, key, bodyHash, func(time.Time) (schema.OperationSpec, error) { return spec, nil })
	if err == nil && !begun.Existing {
		begun.Matched, begun.All = o.count(ctx, begun.Operation)
	}
	return begun, err
}

// begin makes an operation of what spec returns, unless the key has made one.
func (o *Operations) begin(
	ctx context.Context, tenant, key, bodyHash string, spec func(now time.Time) (schema.OperationSpec, error),
) (begun Begun, err error) {
	if err := o.bucketer.Ready(); err != nil {
		return Begun{}, err
	}
	if err := o.bucketer.Regions().ServesTenant(tenant); err != nil {
		return Begun{}, err // where its tenant is at home an operation is worked off
	}
	now := o.now()
	op := schema.Operation{
		ID: schema.MakeOperationID(now, schema.RandomHash()), Tenant: tenant, Progress: schema.Progress{Updated: now.UTC().Truncate(time.Microsecond)},
	}
	if key != "" {
		made, err := o.store.Decide(ctx, "operation of "+tenant+" "+key, bodyHash+" "+op.ID.String(), now.Add(bucketer.KeyRetention))
		if err != nil {
			return Begun{}, fmt.Errorf("register key: %w", err)
		}
		id, ours := strings.CutPrefix(made, bodyHash+" ")
		if !ours {
			return Begun{}, bucketer.ErrKeyReused
		}
		if begun.Existing = id != op.ID.String(); begun.Existing {
			if op.ID, err = schema.ParseOperationID(id); err != nil {
				return Begun{}, fmt.Errorf("key of an operation: %w", err)
			}
			stands, err := o.store.Operation(ctx, tenant, op.ID)
			if !errors.Is(err, schema.ErrNotFound) { // else its maker never came to write it
				return Begun{Operation: stands, Matched: stands.Progress.Matched, All: stands.Progress.Done, Existing: true}, err
			}
		}
	}
	if err := o.room(ctx, tenant); err != nil {
		return Begun{}, err
	}
	if op.Spec, err = spec(now); err != nil {
		return Begun{}, err
	}
	op.Progress.At = beginsAt(&op.Spec)
	if err := o.store.PutOperation(ctx, op); err != nil {
		return Begun{}, err
	}
	o.look()
	return Begun{Operation: op}, nil
}

// room answers ErrManyOperations if the tenant has as many open operations as it may have, or if
// there are so many in all that one more would not be looked at.
func (o *Operations) room(ctx context.Context, tenant string) error {
	open, err := o.store.OpenOperations(ctx, operationsOpen)
	if err != nil {
		return fmt.Errorf("count open operations: %w", err)
	}
	own := 0
	for i := range open {
		if open[i].Tenant == tenant {
			own++
		}
	}
	switch {
	case own >= MaxOpenOperations:
		return fmt.Errorf("tenant %s has %d operations: %w", tenant, own, ErrManyOperations)
	case len(open) >= operationsOpen:
		return fmt.Errorf("%d operations of all tenants: %w", len(open), ErrManyOperations)
	}
	return nil
}

// look makes Run look for open operations now.
func (o *Operations) look() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Cancel ends an operation of the tenant where it is. What it did stays done, what it started goes
// on, and it goes no further than the page under way. Cancelling twice is the same as once. One
// that is done answers ErrFinished.
func (o *Operations) Cancel(ctx context.Context, tenant string, id schema.OperationID, by string) (schema.Operation, error) {
	op, err := o.store.Operation(ctx, tenant, id)
	switch {
	case err != nil:
		return schema.Operation{}, err
	case op.Cancelled != nil:
		return op, nil
	case op.Progress.Done:
		return op, fmt.Errorf("cancel operation %s: %w", id, bucketer.ErrFinished)
	}
	if err := o.bucketer.Ready(); err != nil {
		return schema.Operation{}, err
	}
	if err := o.bucketer.Regions().ServesTenant(tenant); err != nil {
		return schema.Operation{}, err
	}
	op.Cancelled = &schema.Cancel{At: o.now().UTC().Truncate(time.Millisecond), By: by}
	if err := o.store.CancelOperation(ctx, tenant, id, *op.Cancelled); err != nil {
		return schema.Operation{}, err
	}
	o.look()
	return op, nil
}

// Operation returns an operation of the tenant, or schema.ErrNotFound.
func (o *Operations) Operation(ctx context.Context, tenant string, id schema.OperationID) (schema.Operation, error) {
	return o.store.Operation(ctx, tenant, id)
}

// List returns at most limit operations of the tenant, newest first, before `before` (zero: from the
// newest), and where to go on: nil at the end. With a state it returns only those in it. It reads a
// bounded number of operations, so a page may hold fewer than limit, even none, and still name where
// to go on.
func (o *Operations) List(
	ctx context.Context, tenant, state string, before schema.OperationID, limit int,
) (selected []schema.Operation, next *schema.OperationID, err error) {
	for range listPages {
		read := listPage
		if state == "" {
			read = limit - len(selected) + 1 // one more tells whether there are more
		}
		page, err := o.store.Operations(ctx, tenant, before, read)
		if err != nil {
			return nil, nil, fmt.Errorf("list operations: %w", err)
		}
		for i := range page {
			if len(selected) == limit {
				return selected, &before, nil
			}
			before = page[i].ID
			if state == "" || page[i].Fault == nil && page[i].State() == state {
				selected = append(selected, page[i])
			}
		}
		if len(page) < read {
			return selected, nil, nil
		}
	}
	return selected, &before, nil
}

// count counts what matches, for a while, and reports whether it came to the end.
func (o *Operations) count(ctx context.Context, op schema.Operation) (matched int64, all bool) {
	ctx, cancel := context.WithTimeout(ctx, operationCount)
	defer cancel()
	for at := ""; ; {
		targets, next, err := o.page(ctx, &op, at, operationPage)
		if err != nil {
			return matched, false // the count is a courtesy
		}
		if matched += int64(len(targets)); next == "" {
			return matched, true
		}
		at = next
	}
}
