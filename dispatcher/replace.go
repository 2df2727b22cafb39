package dispatcher

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// replacer puts watch entries in the place of what is open long after its bucket's end. So settled
// lags by minutes, however long runs last.
type replacer struct {
	*shard
	busy bool
}

// start replaces a batch of entries: watched ones, and published ones whose rows are about to
// expire. Of other published ones the stream has the message: an executor that got it would find
// the entry replaced and leave it, so a backlog would only grow. To a step its workflow run leads.
func (w *replacer) start(ctx context.Context, now time.Time) {
	if w.busy {
		return
	}
	// runs.Recorder.Replace writes a new watch entry once in half a retention at most.
	aging := w.d.writer.LeastRetention() / agingPart
	var ids []schema.EntryID
	var published []schema.EntryID // those of ids
	for p := range w.state.All() {
		if len(ids) >= replaceBatch {
			break
		}
		switch {
		case p.Phase == shardstate.Watching && !p.Parked && now.After(p.ID.Bucket().End().Add(replaceAfter)):
			ids = append(ids, p.ID)
		case p.Phase == shardstate.Published && !p.ID.IsStep() && now.Sub(p.ID.Time()) > aging && now.Sub(p.Inspected) > inspectAgain:
			p.Inspected = now
			ids, published = append(ids, p.ID), append(published, p.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	w.busy = true
	watchAt := make(map[schema.EntryID]time.Time) // of workflow runs
	for _, id := range ids {
		if p, ok := w.state.Pending(id); ok && p.Workflow {
			watchAt[id] = w.workflows.watchAt(p.Run, now)
		}
	}
	var done, others []schema.EntryID // others are left to an inspection
	w.work(ctx, func(ctx context.Context) error {
		found, err := w.inspect.ids(ctx, ids)
		if err != nil {
			return err
		}
		var from, to []schema.Entry
		for i := range found {
			m := &found[i]
			if m.standing.Over || m.verdict > bucketer.Doubtful || !isReplaceable(&m.entry) ||
				slices.Contains(published, m.entry.ID) && !w.isAging(&m.entry, now) {
				others = append(others, m.entry.ID)
				continue
			}
			at, isWorkflow := watchAt[m.entry.ID]
			if !isWorkflow {
				at = time.Time{}
			}
			watch, err := w.watchEntry(&m.entry, m.standing.Unnamed, at, now)
			if err != nil {
				return err
			}
			from, to = append(from, m.entry), append(to, watch)
		}
		done, err = w.d.writer.Replace(ctx, from, to)
		return err
	}, func(_ time.Time, err error) {
		w.busy = false
		for _, id := range others {
			if p, ok := w.state.Pending(id); ok && p.Phase == shardstate.Published {
				w.settle.next = append(w.settle.next, id) // others are inspected soon anyway
			}
		}
		for _, id := range done {
			if p, ok := w.state.Pending(id); ok && p.Workflow {
				w.workflows.replaced(p)
			}
			w.state.Done(id)
		}
		w.d.metrics.replaced.Add(float64(len(done)))
		if err != nil {
			w.failed(ctx, "replace", err)
		}
	})
}

// agingPart: an entry that was published is replaced after that part of its retention.
const agingPart = 4

// isAging reports whether the row of an entry that was published is about to expire, by the
// retention of its own run.
func (w *replacer) isAging(e *schema.Entry, now time.Time) bool {
	return now.Sub(e.Due()) > w.d.writer.ExpiryOf(&e.Spec, now, now).Sub(now)/agingPart
}

// isReplaceable reports whether a watch entry can take e's place. A watch entry starts e's run if
// nobody has. From an entry that plans others are to start, and of an unreadable row nothing can be
// started.
func isReplaceable(e *schema.Entry) bool { return e.Fault == nil && !e.Spec.Kind.Plans() }

// watchEntry makes the watch entry that takes e's place. Its id is a function of what it stands for
// and of its due time, so two owners write the same one. due is the smallest that lies ahead of
//
//	e is of a workflow run           at                         see workflows.watchAt
//	e waits for its mark (unnamed)   first + watchStep · 2^n    the run itself may last that long
//	else                             e.Due() + watchStep · n
func (w *replacer) watchEntry(e *schema.Entry, unnamed bool, at, now time.Time) (schema.Entry, error) {
	due := e.Due()
	first, _ := e.First() // zero for a later attempt's
	if !at.IsZero() {
		due = at
	} else if unnamed {
		due = first.Time()
		step := watchStep
		for !due.Add(step).After(now) {
			step *= 2
		}
		due = due.Add(step)
	} else {
		due = due.Add(now.Sub(due).Truncate(watchStep) + watchStep)
	}
	hash := schema.HashOf("watch", e.Run().String(), first.String(), strconv.FormatInt(due.UnixMilli(), 10))
	id := schema.MakeEntryID(due, e.ID.Shard(), hash)
	watch, err := w.d.writer.LaterStart(e, schema.KindWatch, id, e.Spec.AttemptNumber(), due)
	if err != nil {
		return schema.Entry{}, fmt.Errorf("watch entry of %s: %w", e.Run(), err)
	}
	return watch, nil
}
