package dispatcher

import (
	"context"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer/orchestration"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

const (
	// workflowBatch bounds the workflow runs that are advanced in one step. All runs of a workflow lie in
	// one shard, and a step waits for the store several times, whatever it is for. While the store is so
	// slow that a step fails, as few as leastBatch are.
	workflowBatch, leastBatch = 256, 4
	// workflowWatchStep is the distance of watch entries of a workflow run with steps under way: so
	// soon a new owner finds it.
	workflowWatchStep = 20 * time.Second
)

// workflows advances the workflow runs of the shard: when one is due, when a step of it has ended,
// and when its time has come. An entry of a step's run is closed only after that.
type workflows struct {
	*shard
	runs  map[schema.RunID]*workflowRun
	dirty []schema.RunID // to be advanced, each once
	busy  bool
	most  int       // of the next step; 0: workflowBatch
	wake  time.Time // when the next run is to be advanced by time; zero: none
}

// workflowRun is a workflow run that the shard advances.
type workflowRun struct {
	state     *orchestration.State // nil: to be made from its rows
	entries   []schema.EntryID     // of the run, pending, in the order in which they came
	seen      int                  // so many of entries are closed if the advance says that the run is over
	ended     []orchestration.StepEnd
	finished  []schema.EntryID // entries of steps, to be closed once the run is past their end
	cancelled bool
	dirty     bool
	reload    bool // what is being done goes by rows that may have changed
	wake      time.Time
	idle      bool
}

// latest returns the latest entry of the run that is pending; zero: there is none.
func (r *workflowRun) latest() (latest schema.EntryID) {
	for _, id := range r.entries {
		if id.Compare(latest) > 0 {
			latest = id
		}
	}
	return latest
}

// touch has a workflow run advanced soon.
func (w *workflows) touch(run schema.RunID) *workflowRun {
	r := w.runs[run]
	if r == nil {
		r = new(workflowRun)
		w.runs[run] = r
	}
	if !r.dirty {
		r.dirty = true
		w.dirty = append(w.dirty, run)
	}
	return r
}

// due has a workflow run advanced whose entry is pending. A watch entry may say that something about
// the run was changed: it is made anew from its rows.
func (w *workflows) due(p *shardstate.Pending, cancelled bool) {
	r := w.touch(p.Run)
	r.cancelled = r.cancelled || cancelled
	if slices.Contains(r.entries, p.ID) {
		return
	}
	r.entries = append(r.entries, p.ID)
	if p.Kind == schema.KindWatch {
		r.state, r.reload = nil, true
	}
}

// finished closes an entry of which a notice came.
func (w *workflows) finished(n *schema.Notice) {
	if p, ok := w.state.Pending(n.Entry); ok && p.Step != nil {
		w.finish(p.ID, p.Run, p.Step, n.Succeeded)
		return
	}
	w.publish.done(n.Entry)
}

// close closes an entry by its rows.
func (w *workflows) close(e *schema.Entry) { w.finish(e.ID, e.Run(), e.Spec.Step, false) }

// finish closes an entry. That of a step's run is closed once its workflow run was advanced.
func (w *workflows) finish(id schema.EntryID, run schema.RunID, step *schema.Step, succeeded bool) {
	if step == nil {
		w.publish.done(id)
		return
	}
	r := w.touch(step.Workflow)
	r.ended = append(r.ended, orchestration.StepEnd{Run: run, Succeeded: succeeded})
	p, ok := w.state.Pending(id)
	if !ok || p.Phase == shardstate.Finishing {
		return
	}
	if p.Phase == shardstate.Queued {
		w.d.depth.Withdraw(p.Ticket)
	}
	p.Finish(w.state)
	r.finished = append(r.finished, id)
}

// upkeep advances what is to be advanced, a batch at a time.
func (w *workflows) upkeep(ctx context.Context, now time.Time) {
	if !w.wake.IsZero() && !now.Before(w.wake) {
		w.wake = time.Time{}
		for id, r := range w.runs {
			switch {
			case r.wake.IsZero():
			case !now.Before(r.wake):
				r.wake = time.Time{}
				w.touch(id)
			default:
				w.wakeAt(r.wake)
			}
		}
	}
	if w.busy || len(w.dirty) == 0 {
		return
	}
	w.start(ctx, now)
}

// wakeAt has upkeep look for runs whose time has come at that instant, or before.
func (w *workflows) wakeAt(t time.Time) {
	if w.wake.IsZero() || t.Before(w.wake) {
		w.wake = t
	}
}

func (w *workflows) start(ctx context.Context, now time.Time) {
	n := min(len(w.dirty), w.batch())
	batch := make([]*orchestration.Turn, n)
	finished := make([][]schema.EntryID, n)
	for i, id := range w.dirty[:n] {
		r := w.runs[id]
		r.seen = len(r.entries)
		batch[i] = &orchestration.Turn{Run: id, Entry: r.latest(), State: r.state, Ended: r.ended, Cancelled: r.cancelled}
		finished[i] = r.finished
		r.dirty, r.reload, r.state, r.ended, r.finished, r.wake = false, false, nil, nil, nil, time.Time{}
	}
	w.dirty = append(w.dirty[:0], w.dirty[n:]...)
	room := max(w.limit(shardstate.OnTime)-w.state.Flows.Waiting(shardstate.OnTime), 1)
	w.busy = true
	w.work(ctx, func(ctx context.Context) error {
		w.d.writer.Advance(ctx, batch, room)
		return nil
	}, func(now time.Time, _ error) {
		w.busy = false
		failed := 0
		for i, t := range batch {
			if t.Err != nil {
				failed++
			}
			w.advanced(ctx, t, finished[i], now)
		}
		w.resize(n, failed)
	})
}

// batch returns how many runs the next step may advance.
func (w *workflows) batch() int {
	if w.most == 0 {
		return workflowBatch
	}
	return w.most
}

// resize halves the batch after a step of which most runs failed, and doubles it after a full one that
// did not. A step has storeTimeout. Runs that fail are read anew, which is more work: a batch that stays
// too large would never end.
func (w *workflows) resize(n, failed int) {
	switch {
	case failed > n/2:
		w.most = max(n/2, leastBatch)
	case n == w.batch():
		w.most = min(2*n, workflowBatch)
	}
}

// advanced takes in what became of a workflow run.
func (w *workflows) advanced(ctx context.Context, t *orchestration.Turn, finished []schema.EntryID, now time.Time) {
	r := w.runs[t.Run]
	if t.Err != nil {
		w.failed(ctx, "workflow", t.Err)
		r.finished = append(r.finished, finished...)
		r.wake, r.idle = now.Add(retryStep), false
		w.wakeAt(r.wake)
		return
	}
	for _, id := range finished {
		w.state.Done(id)
	}
	for i := range t.Start {
		if e := &t.Start[i]; !w.state.Has(e.ID) {
			w.state.Add(&queue.Envelope{Entry: *e, CheckedAt: t.Checked})
		}
	}
	for i := range t.Inspect {
		w.state.Watch(&t.Inspect[i], now)
		w.settle.next = append(w.settle.next, t.Inspect[i].ID)
	}
	for i := range t.Advance {
		w.touch(t.Advance[i].ID)
	}
	if t.Over {
		for _, id := range r.entries[:r.seen] {
			w.publish.done(id)
		}
		delete(w.runs, t.Run)
		if r.dirty {
			// An end that came meanwhile: its entry is to be closed. Or an entry of the run did: a
			// run that waits for a limit may have got its turn.
			r.entries, r.seen, r.cancelled = r.entries[r.seen:], 0, false
			w.runs[t.Run] = r
		}
		if !t.Parent.IsZero() {
			p := w.touch(t.Parent)
			p.ended = append(p.ended, orchestration.StepEnd{Run: t.Run})
		}
		return
	}
	if r.wake, r.idle = t.Wake, t.Idle; !r.reload {
		r.state = t.State
	}
	if !r.wake.IsZero() {
		w.wakeAt(r.wake)
	}
}

// watchAt returns when the watch entry of a workflow run is due that takes the place of its entry:
// when the run's time comes, if nothing is under way, or soon.
func (w *workflows) watchAt(run schema.RunID, now time.Time) time.Time {
	if r := w.runs[run]; r != nil && r.idle && !r.dirty && r.wake.After(now) {
		return r.wake
	}
	return now.Truncate(workflowWatchStep).Add(2 * workflowWatchStep)
}

// replaced notes that a watch entry took the place of an entry of a workflow run. A run that is idle
// until then is forgotten.
func (w *workflows) replaced(p *shardstate.Pending) {
	r := w.runs[p.Run]
	if r == nil {
		return
	}
	if r.idle && !r.dirty && !w.busy {
		delete(w.runs, p.Run)
	}
}
