package bucketer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

// The actions of operations.
const (
	ActionCancel  = "cancel"
	ActionPause   = "pause"
	ActionResume  = "resume"
	ActionTrigger = "trigger"
	ActionRetry   = "retry"
)

// The bounds of operations.
const (
	// operationPage is how many jobs or runs are asked for at once, and operationAtOnce how many of them are acted on at once: a change of a
	// job waits for half a second.
	operationPage   = 100
	operationAtOnce = 32
	// operationFaults bounds the failures that are told of one by one.
	operationFaults = 10
	// operationTurn is for how long one node works an operation off before it is decided anew who does.
	operationTurn = 30 * time.Second
	// operationPoll is how often a node looks for open operations, and operationsOpen how many of them it looks at.
	operationPoll  = 5 * time.Second
	operationsOpen = 1000
	// operationCount bounds the time that the asker of an operation waits to hear how much matches.
	operationCount = 2 * time.Second
	// MaxOperationSpan is the longest stretch of due times of runs that one operation acts on.
	MaxOperationSpan = 31 * 24 * time.Hour
	// operationWindow is how much of it is listed at once: what a Window may be.
	operationWindow = time.Hour
)

// OperationStore is what operations need of a store.
type OperationStore interface {
	schema.OperationStore
	schema.DecisionStore
}

// Operations does one thing to everything that matches a filter, in the background, on any node.
//
// What authorises a node to work on an operation is a decision for each turn of half a minute; it is only advice: an action done twice is the
// same as once (triggers and retries have keys), and how far an operation has come is written after each page, so whoever goes on repeats at
// most a page. A page whose actions the store could not take is tried again later, as a whole.
type Operations struct {
	bucketer *Bucketer
	store    OperationStore
	node     string // and which of its lives
	now      func() time.Time
	log      *slog.Logger
	wake     chan struct{} // holds one when there may be something to do
}

// NewOperations returns Operations whose turns are taken under the name of node, which no other process may have. Nothing is worked off
// until Run is called.
func NewOperations(b *Bucketer, store OperationStore, node string) *Operations {
	return &Operations{bucketer: b, store: store, node: node, now: b.now, log: b.log, wake: make(chan struct{}, 1)}
}

// Begun is an operation that was asked for.
type Begun struct {
	Operation schema.Operation
	// Matched is how much matches by now, and All whether that is all that does: counting ends after a while.
	Matched int64
	All     bool
	// Existing: the key was known with the same body; nothing new was begun.
	Existing bool
}

// Begin makes an operation, which is worked off from now on, and counts what it will meet. A key makes it once; a key that came with another
// body is ErrKeyReused.
func (o *Operations) Begin(ctx context.Context, tenant string, spec schema.OperationSpec, key, bodyHash string) (Begun, error) {
	if _, err := o.bucketer.ready(); err != nil {
		return Begun{}, err
	}
	now := o.now()
	op := schema.Operation{
		ID: schema.MakeOperationID(now, schema.RandomHash()), Tenant: tenant, Spec: spec, Progress: schema.Progress{Updated: now.UTC().Truncate(time.Microsecond)},
	}
	var begun Begun
	if key != "" {
		claim, err := o.store.Decide(ctx, "operation of "+tenant+" "+key, bodyHash+" "+op.ID.String(), now.Add(keyRetention))
		if err != nil {
			return Begun{}, fmt.Errorf("claim key: %w", err)
		}
		hash, id, _ := strings.Cut(claim, " ")
		if hash != bodyHash {
			return Begun{}, ErrKeyReused
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
	if err := o.store.PutOperation(ctx, op); err != nil {
		return Begun{}, err
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
	begun.Operation = op
	begun.Matched, begun.All = o.count(ctx, op)
	return begun, nil
}

// Operation returns an operation of the tenant, or schema.ErrNotFound.
func (o *Operations) Operation(ctx context.Context, tenant string, id schema.OperationID) (schema.Operation, error) {
	return o.store.Operation(ctx, tenant, id)
}

// count counts what matches, for a while, and reports whether it came to the end.
func (o *Operations) count(ctx context.Context, op schema.Operation) (matched int64, all bool) {
	ctx, cancel := context.WithTimeout(ctx, operationCount)
	defer cancel()
	for at := ""; ; {
		targets, next, err := o.page(ctx, &op, at)
		if err != nil {
			return matched, false // the count is a courtesy
		}
		if matched += int64(len(targets)); next == "" {
			return matched, true
		}
		at = next
	}
}

// Run works open operations off until ctx ends. It returns nil.
func (o *Operations) Run(ctx context.Context) error {
	tick := time.NewTicker(operationPoll)
	defer tick.Stop()
	for {
		if err := o.workOff(ctx); err != nil && ctx.Err() == nil {
			o.log.Warn("operations could not be worked off", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-o.wake:
		case <-tick.C:
		}
	}
}

// workOff looks at every open operation, and works off those whose turn is ours.
func (o *Operations) workOff(ctx context.Context) error {
	open, err := o.store.OpenOperations(ctx, operationsOpen)
	if err != nil {
		return err
	}
	var faults []error
	for _, entry := range open {
		op, err := o.store.Operation(ctx, entry.Tenant, entry.ID)
		switch {
		case errors.Is(err, schema.ErrNotFound): // its maker never came to write it
		case err != nil:
			faults = append(faults, err)
		case !op.Progress.Done:
			faults = append(faults, o.work(ctx, op))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(faults...)
}

// work goes on with an operation while it is our turn.
func (o *Operations) work(ctx context.Context, op schema.Operation) error {
	for !op.Progress.Done {
		if _, err := o.bucketer.ready(); err != nil {
			return err
		}
		ours, err := o.turn(ctx, op.ID)
		if err != nil || !ours {
			return err
		}
		if err := o.step(ctx, &op); err != nil {
			return fmt.Errorf("operation %s: %w", op.ID, err)
		}
	}
	return nil
}

// turn reports whether it is our turn with an operation.
func (o *Operations) turn(ctx context.Context, id schema.OperationID) (bool, error) {
	now := o.now()
	turn := now.UnixMilli() / operationTurn.Milliseconds()
	whose, err := o.store.Decide(ctx, "operation/"+id.String()+"/"+strconv.FormatInt(turn, 10), o.node, now.Add(2*operationTurn))
	if err != nil {
		return false, fmt.Errorf("take a turn with operation %s: %w", id, err)
	}
	return whose == o.node, nil
}

// step works off the next page of an operation, and writes how far it has come. After an error it has not come further.
func (o *Operations) step(ctx context.Context, op *schema.Operation) error {
	targets, next, err := o.page(ctx, op, op.Progress.At)
	if err != nil {
		return err
	}
	p := op.Progress
	p.At, p.Done = next, next == ""
	p.Matched += int64(len(targets))
	if !op.Spec.DryRun {
		if err := o.actOn(ctx, op, targets, &p); err != nil {
			return err
		}
	}
	if p.Updated = o.now().UTC().Truncate(time.Microsecond); !p.Updated.After(op.Progress.Updated) {
		p.Updated = op.Progress.Updated.Add(time.Microsecond)
	}
	was := op.Progress
	op.Progress = p
	if err := o.store.PutOperation(ctx, *op); err != nil {
		op.Progress = was
		return err
	}
	return nil
}

// target is a job or a run that matches.
type target struct {
	name string
	// act does what the operation does, and reports whether that changed anything.
	act func(ctx context.Context) (changed bool, err error)
}

// actOn acts on the targets, and counts in p what became of them. An error means that some could not be acted on now.
func (o *Operations) actOn(ctx context.Context, op *schema.Operation, targets []target, p *schema.Progress) error {
	p.Faults = append([]string(nil), p.Faults...)
	var (
		mu    sync.Mutex
		later error
		wg    sync.WaitGroup
	)
	tokens := make(chan struct{}, operationAtOnce)
	for _, t := range targets {
		tokens <- struct{}{}
		wg.Go(func() {
			defer func() { <-tokens }()
			changed, err := t.act(ctx)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && changed:
				p.Changed++
			case err == nil, errors.Is(err, ErrFinished), errors.Is(err, ErrNotFinished), errors.Is(err, schema.ErrNotFound):
				p.Unchanged++
			case passing(err):
				later = err
			default:
				p.Failed++
				if len(p.Faults) < operationFaults {
					p.Faults = append(p.Faults, t.name+": "+plainly(err))
				}
				o.log.Warn("an operation failed for one", "operation", op.ID, "tenant", op.Tenant, "of", t.name, "err", err)
			}
		})
	}
	wg.Wait()
	return later
}

// passing reports whether an error may be none when the same is done again later.
func passing(err error) bool {
	for _, e := range []error{
		schema.ErrUnknown, schema.ErrUnavailable, ErrNotReady, ErrOverloaded, ErrPartitionFull, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// plainly says an error to its tenant: what it means, without the words of drivers.
func plainly(err error) string {
	for _, e := range []error{schema.ErrConflict, ErrStale, ErrNoTask, ErrKeyReused, schema.ErrTooLarge} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return "it could not be done"
}

// page returns what matches from at on, and where to go on; "" is the beginning, and the end.
func (o *Operations) page(ctx context.Context, op *schema.Operation, at string) ([]target, string, error) {
	if op.Spec.Filter.From.IsZero() {
		return o.jobsPage(ctx, op, at)
	}
	return o.runsPage(ctx, op, at)
}

// jobsPage lists jobs, newest first, from the one that was there last when the operation was made.
func (o *Operations) jobsPage(ctx context.Context, op *schema.Operation, at string) ([]target, string, error) {
	f := &op.Spec.Filter
	filter := JobFilter{State: schema.JobState(f.State), NamePrefix: f.NamePrefix}
	filter.Label, filter.Value, _ = strings.Cut(f.Label, "=")
	before := schema.MakeJobID(op.ID.Time().Add(time.Millisecond), 0, 0)
	if at != "" {
		var err error
		if before, err = schema.ParseJobID(at); err != nil {
			return nil, "", fmt.Errorf("where an operation goes on: %w", err)
		}
	}
	jobs, next, err := o.bucketer.ListJobs(ctx, op.Tenant, filter, before, operationPage)
	if err != nil {
		return nil, "", err
	}
	targets := make([]target, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		targets[i] = target{name: "job " + j.ID.String(), act: func(ctx context.Context) (bool, error) { return o.actOnJob(ctx, op, j) }}
	}
	if next == nil {
		return targets, "", nil
	}
	return targets, next.String(), nil
}

func (o *Operations) actOnJob(ctx context.Context, op *schema.Operation, j *schema.Job) (changed bool, err error) {
	b, state := o.bucketer, j.Current.State
	switch op.Spec.Action {
	case ActionCancel:
		if state.Ended() {
			return false, nil
		}
		_, err = b.CancelJob(ctx, op.Tenant, j.ID, 0)
	case ActionPause:
		if state != schema.JobActive {
			return false, nil
		}
		_, err = b.PauseJob(ctx, op.Tenant, j.ID, 0)
	case ActionResume:
		if state != schema.JobPaused {
			return false, nil
		}
		_, err = b.ResumeJob(ctx, op.Tenant, j.ID, 0)
	case ActionTrigger:
		_, err = b.TriggerJob(ctx, op.Tenant, j.ID, keyOf(op, j.ID), "operation")
	default:
		return false, fmt.Errorf("%q of a job is no action", op.Spec.Action)
	}
	return err == nil, err
}

// keyOf returns the idempotency key of what an operation makes of a job or a run. It is longer than keys of callers may be, so it is
// none of theirs.
func keyOf[ID ~[16]byte](op *schema.Operation, of ID) string {
	key := "operation " + op.ID.String() + " of " + schema.JobID(of).String()
	return key + strings.Repeat(" ", max(0, MaxKey+1-len(key)))
}

// place is where the listing of runs goes on: within one window after another.
type place struct {
	From  time.Time `json:"from"`
	After Position  `json:"after"`
}

// runsPage lists runs in the order of due time, an hour at a time.
func (o *Operations) runsPage(ctx context.Context, op *schema.Operation, at string) ([]target, string, error) {
	f := &op.Spec.Filter
	here := place{From: f.From}
	if at != "" {
		if err := json.Unmarshal([]byte(at), &here); err != nil {
			return nil, "", fmt.Errorf("where an operation goes on: %w", err)
		}
	}
	w := Window{Tenant: op.Tenant, From: here.From, To: here.From.Add(operationWindow), State: schema.State(f.State), Task: f.Task}
	if w.To.After(f.To) {
		w.To = f.To
	}
	runs, next, err := o.bucketer.Runs(ctx, w, here.After, operationPage)
	if err != nil {
		return nil, "", err
	}
	var targets []target
	for i := range runs {
		r := &runs[i]
		// What is retried may be due within the window as well, and may fail again.
		if op.Spec.Action == ActionRetry && (!r.State.Terminal() || !r.Current.Due().Before(op.ID.Time())) {
			continue
		}
		targets = append(targets, target{name: "run " + r.ID.String(), act: func(ctx context.Context) (bool, error) { return o.actOnRun(ctx, op, r) }})
	}
	switch {
	case next != nil:
		here.After = *next
	case w.To.Before(f.To):
		here = place{From: w.To}
	default:
		return targets, "", nil
	}
	text, err := json.Marshal(here)
	return targets, string(text), err
}

func (o *Operations) actOnRun(ctx context.Context, op *schema.Operation, r *Run) (changed bool, err error) {
	switch op.Spec.Action {
	case ActionCancel:
		if r.State.Terminal() {
			return false, nil
		}
		_, err = o.bucketer.Cancel(ctx, op.Tenant, r.ID, op.Spec.By)
	case ActionRetry:
		_, err = o.bucketer.Retry(ctx, op.Tenant, r.ID, keyOf(op, r.ID))
	default:
		return false, fmt.Errorf("%q of a run is no action", op.Spec.Action)
	}
	return err == nil, err
}
