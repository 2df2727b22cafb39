package operations

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// openOperation is what this process knows of an operation that is open.
type openOperation struct {
	schema.OpenOperation
	at   time.Time // when to look at it next
	busy bool      // somebody works on it
	turn int64     // the last turn that was ours

	action string // "" until it was looked at
}

// visit is what came of working on an operation for a while.
type visit struct {
	of    *openOperation
	does  string        // its action; "" if it could not be read
	wait  time.Duration // until it is to be looked at again
	ended bool
	err   error
}

// Run works open operations off, several side by side, until ctx ends. It returns nil.
func (o *Operations) Run(ctx context.Context) error {
	tick := time.NewTicker(operationPoll)
	defer tick.Stop()
	open := make(map[schema.OperationID]*openOperation)
	ends := make(chan visit)
	var wg sync.WaitGroup
	defer wg.Wait()
	o.list(ctx, open)
	for working := 0; ; {
		wait := operationPoll
		for _, op := range due(open) {
			if wait = op.at.Sub(o.now()); wait > 0 || working == operationsAtOnce {
				break
			}
			op.busy = true
			working++
			wg.Go(func() {
				end := o.visit(ctx, op)
				select {
				case ends <- end:
				case <-ctx.Done():
				}
			})
		}
		next := time.NewTimer(max(wait, 0))
		if working == operationsAtOnce {
			next.Stop()
		}
		select {
		case <-ctx.Done():
			next.Stop()
			return nil
		case end := <-ends:
			working--
			o.ended(ctx, open, end)
		case <-o.wake:
			o.list(ctx, open)
		case <-tick.C:
			o.list(ctx, open)
		case <-next.C:
		}
		next.Stop()
	}
}

// due returns the operations that this node does not work on now, the one that has waited longest
// first.
func due(open map[schema.OperationID]*openOperation) []*openOperation {
	idle := slices.DeleteFunc(slices.Collect(maps.Values(open)), func(op *openOperation) bool { return op.busy })
	slices.SortFunc(idle, func(x, y *openOperation) int {
		if c := x.at.Compare(y.at); c != 0 {
			return c
		}
		return schema.EntryID(x.ID).Compare(schema.EntryID(y.ID))
	})
	return idle
}

// list reads what is open.
func (o *Operations) list(ctx context.Context, open map[schema.OperationID]*openOperation) {
	listed, err := o.store.OpenOperations(ctx, operationsOpen)
	if err != nil {
		if ctx.Err() == nil {
			o.log.Warn("open operations could not be read", "err", err)
		}
		return
	}
	known := make(map[schema.OperationID]bool, len(listed))
	for _, entry := range listed {
		known[entry.ID] = true
		if open[entry.ID] == nil {
			open[entry.ID] = &openOperation{OpenOperation: entry, at: o.now()}
		}
	}
	maps.DeleteFunc(open, func(id schema.OperationID, op *openOperation) bool { return !op.busy && !known[id] })
	o.metrics.countOpen(open)
}

// ended notes what came of working on an operation.
func (o *Operations) ended(ctx context.Context, open map[schema.OperationID]*openOperation, end visit) {
	op := end.of
	op.busy = false
	if end.does != "" {
		op.action = end.does
	}
	if end.err != nil && ctx.Err() == nil {
		o.log.Warn("an operation could not be worked off", "operation", op.ID, "tenant", op.Tenant, "err", end.err)
		end.wait = operationPoll
	}
	op.at = o.now().Add(end.wait)
	if end.ended {
		delete(open, op.ID)
	}
	o.metrics.countOpen(open)
}

// visit goes on with an operation while it is our turn, for about operationVisit.
func (o *Operations) visit(ctx context.Context, of *openOperation) (end visit) {
	end.of = of
	if o.bucketer.Regions().ServesTenant(of.Tenant) != nil {
		end.wait = operationPoll // the region that serves the tenant's home works it off
		return end
	}
	for began := o.now(); ; {
		op, err := o.store.Operation(ctx, of.Tenant, of.ID)
		switch {
		case errors.Is(err, schema.ErrNotFound):
			// the node that made it has not written it yet, and may never do so
			end.wait = operationPoll
			return end
		case err == nil:
			err = o.bucketer.Ready()
		}
		if err != nil {
			end.err = err
			return end
		}
		end.does = op.Spec.Action
		ours, rest, err := o.ours(ctx, of)
		if err != nil || !ours {
			end.wait, end.err = rest, err
			return end
		}
		was := op.Progress
		wait, err := o.step(ctx, &op)
		if ctx.Err() == nil {
			o.metrics.countStep(&op, &was, err)
		}
		switch {
		case err != nil:
			end.err = err
		case op.Progress.Done:
			end.ended = true
		case wait > 0:
			end.wait = wait
		case o.now().Sub(began) < operationVisit:
			continue
		}
		return end
	}
}

// ours reports whether it is this node's turn with an operation, and how long the turn lasts. It
// asks the store once a turn.
func (o *Operations) ours(ctx context.Context, of *openOperation) (ours bool, rest time.Duration, err error) {
	turn, rest := turnAt(o.now())
	if of.turn == turn {
		return true, rest, nil
	}
	if ours, err = o.turn(ctx, of.ID); ours {
		of.turn = turn
	}
	return ours, rest, err
}

// turnAt returns the number of the turn at now, and how long it still lasts.
func turnAt(now time.Time) (turn int64, rest time.Duration) {
	turn = now.UnixMilli() / operationTurn.Milliseconds()
	return turn, time.UnixMilli((turn + 1) * operationTurn.Milliseconds()).Sub(now)
}

// turn takes the turn with an operation, or reports that another node has it.
func (o *Operations) turn(ctx context.Context, id schema.OperationID) (bool, error) {
	now := o.now()
	turn, _ := turnAt(now)
	whose, err := o.store.Decide(ctx, "operation/"+id.String()+"/"+strconv.FormatInt(turn, 10), o.node, now.Add(2*operationTurn))
	if err != nil {
		return false, fmt.Errorf("take a turn with operation %s: %w", id, err)
	}
	return whose == o.node, nil
}

// step goes on with an operation by a page, and writes how far it has come. After an error the
// operation has not come further. A wait that is not zero is how long to leave it alone.
func (o *Operations) step(ctx context.Context, op *schema.Operation) (wait time.Duration, err error) {
	p := op.Progress
	p.Faults = slices.Clone(p.Faults)
	switch {
	case p.Done: // and noted as open all the same
		return 0, o.store.PutOperation(ctx, *op)
	case op.Cancelled != nil:
		p.Done = true
	default:
		work := o.pageStep
		if op.Spec.Action == ActionBackfill {
			work = o.backfillStep
		}
		if wait, err = work(ctx, op, &p); err != nil {
			return wait, err
		}
		// The row of a waiting operation is written again too, so that it does not expire.
		if reflect.DeepEqual(p, op.Progress) && o.now().Sub(p.Updated) < schema.OperationRetention/2 {
			return wait, nil
		}
	}
	return wait, o.advance(ctx, op, p)
}

// advance writes that an operation has come as far as p.
func (o *Operations) advance(ctx context.Context, op *schema.Operation, p schema.Progress) error {
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

// pageStep works on the next page of an operation. If the tenant's quota has nothing left for runs
// that it would start, it says how long to wait.
func (o *Operations) pageStep(ctx context.Context, op *schema.Operation, p *schema.Progress) (wait time.Duration, err error) {
	limit := operationPage
	starts := !op.Spec.DryRun && op.Spec.StartsRuns()
	if starts {
		if limit, wait, err = o.left(ctx, op.Tenant, limit); err != nil || limit == 0 {
			return wait, err
		}
	}
	targets, next, err := o.page(ctx, op, p.At, limit)
	if err != nil {
		return 0, err
	}
	p.At, p.Done = next, next == ""
	p.Matched += int64(len(targets))
	if op.Spec.DryRun {
		return 0, nil
	}
	if starts && o.quota != nil {
		if err := o.quota.TakeRuns(ctx, op.Tenant, len(targets)); err != nil {
			return 0, err
		}
	}
	return 0, o.actOn(ctx, op, targets, p)
}

// left returns how many runs, at most `most`, the tenant's quota has left by now, or how long to
// wait for the next one.
func (o *Operations) left(ctx context.Context, tenant string, most int) (n int, wait time.Duration, err error) {
	if o.quota == nil {
		return most, 0, nil
	}
	n, wait, err = o.quota.RunsLeft(ctx, tenant, most)
	return n, min(max(wait, operationPause), operationTurn), err
}

// target is a job or a run that matches.
type target struct {
	name string
	// act does what the operation does, and reports whether that changed anything.
	act func(ctx context.Context) (changed bool, err error)
}

// actOn acts on the targets side by side, and counts in p what became of them. An error means that
// the store could not take some of them now.
func (o *Operations) actOn(ctx context.Context, op *schema.Operation, targets []target, p *schema.Progress) error {
	var (
		mu    sync.Mutex
		later error
		wg    sync.WaitGroup
	)
	for _, t := range targets {
		o.acts <- struct{}{}
		wg.Go(func() {
			defer func() { <-o.acts }()
			changed, err := t.act(ctx)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && changed:
				p.Changed++
			case err == nil, errors.Is(err, bucketer.ErrFinished), errors.Is(err, runs.ErrNotFinished), errors.Is(err, schema.ErrNotFound):
				p.Unchanged++
			case passing(err):
				later = err
			default:
				p.Failed++
				fault(p, t.name+": "+plainly(err))
				o.log.Warn("an operation failed for one", "operation", op.ID, "tenant", op.Tenant, "of", t.name, "err", err)
			}
		})
	}
	wg.Wait()
	return later
}

// fault notes a failure in p, unless enough were noted.
func fault(p *schema.Progress, text string) {
	if len(p.Faults) < operationFaults {
		p.Faults = append(p.Faults, text)
	}
}

// passing reports whether the same may succeed later.
func passing(err error) bool {
	for _, e := range []error{
		schema.ErrUnknown, schema.ErrUnavailable, bucketer.ErrNotReady, bucketer.ErrOverloaded, bucketer.ErrPartitionFull, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// plainly says an error to its tenant, without the words of drivers.
func plainly(err error) string {
	var faults bucketer.Faults
	if errors.As(err, &faults) {
		return string(bucketer.Shorten([]byte(faults.Error()), maxPlain))
	}
	for _, e := range []error{schema.ErrConflict, recurring.ErrStale, bucketer.ErrNoTask, bucketer.ErrKeyReused, runs.ErrPayloadGone, schema.ErrTooLarge, schema.ErrNotUnderstood} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return "it could not be done"
}
