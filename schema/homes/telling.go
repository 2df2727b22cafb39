package homes

import (
	"context"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

// telling writes how far a change is, every 2 s, so that every region can read it, and that of two
// who begin at once one learns of the other. It never writes over the row of somebody else who
// works on one: so of two rows one stays, and the other sees it when it looks next. Nothing is
// decided by it, so a row that cannot be written is left out. Its methods take nil: then they do
// nothing.
type telling struct {
	store  schema.EpochStore
	claims bool // the row is ours to write; touched by the goroutine of the change alone
	stop   context.CancelFunc
	over   chan struct{} // closed when nothing more is written

	mu    sync.Mutex
	is    schema.HomeProgress
	count int64
	at    time.Time // of the row that was written last
}

func newTelling(store schema.EpochStore, o schema.HomeChange) *telling {
	now := time.Now().UTC().Truncate(time.Millisecond)
	return &telling{store: store, is: schema.HomeProgress{
		Home: o.Home, To: o.To, By: o.By, Reason: o.Reason, Forced: o.Forced, Began: now, Phase: schema.PhaseChecking, Since: now,
	}}
}

// claim notes that the change is worked on, unless the row among beats says that somebody else
// works on one, or did and was not heard to end. beats are nil once it is known that nobody does.
func (t *telling) claim(ctx context.Context, beats []schema.Beat, was schema.Epoch) {
	if t == nil || t.claims {
		return
	}
	if stands, ok := schema.BeatOf(beats, schema.ChangeRow(t.is.Home)); ok && stands.Change != nil && !stands.Change.Ended() {
		return
	}
	t.claims = true
	t.is.Epoch, t.is.From = was.Number, was.Region
	t.write(ctx, beats == nil)
	ctx, t.stop = context.WithCancel(context.WithoutCancel(ctx))
	t.over = make(chan struct{})
	go func() {
		defer close(t.over)
		tick := time.NewTicker(schema.HomeLeaseRead)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				t.write(ctx, false)
			}
		}
	}()
}

// write writes the row, unless that of somebody else stands who works on a change: over it if it is
// known that nobody does.
func (t *telling) write(ctx context.Context, over bool) {
	ctx, cancel := context.WithTimeout(ctx, schema.HomeLeaseRead)
	defer cancel()
	beats, err := t.store.Beats(ctx)
	if err != nil {
		return
	}
	t.mu.Lock()
	is, count, at := t.is, t.count+1, t.at
	t.mu.Unlock()
	row := schema.ChangeRow(is.Home)
	if stands, ok := schema.BeatOf(beats, row); ok && stands.Change != nil {
		if other := *stands.Change; !over && !other.Same(is) && (!other.Ended() || is.Ended()) {
			return
		}
		if !stands.At.Before(at) {
			at = stands.At.Add(time.Millisecond)
		}
	}
	if now := time.Now().Truncate(time.Millisecond); now.After(at) {
		at = now // of two the later one stays
	}
	if t.store.PutBeat(ctx, schema.Beat{Region: row, Node: is.By, Count: count, At: at, Change: &is}) == nil {
		t.mu.Lock()
		t.count, t.at = count, at
		t.mu.Unlock()
	}
}

// now returns how far the change is.
func (t *telling) now() schema.HomeProgress {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.is
}

// phase notes that the next phase begins.
func (t *telling) phase(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.is.Phase, t.is.Since = name, time.Now().UTC().Truncate(time.Millisecond)
}

// compared notes how much was compared.
func (t *telling) compared(w Walked) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.is.Partitions, t.is.Of, t.is.Rows = w.Partitions, w.Of, w.Rows
}

// end writes how it ended, in 4 s at most, also if ctx has ended.
func (t *telling) end(ctx context.Context, phase string, err error) {
	if t == nil || t.stop == nil {
		return
	}
	t.stop()
	<-t.over
	t.stop = nil
	t.phase(phase)
	t.mu.Lock()
	if err != nil {
		t.is.Fault = err.Error()
	}
	t.mu.Unlock()
	t.write(context.WithoutCancel(ctx), false)
}

// worked returns who else works on a change of a home: whose row was written between two reads of
// the beats, or stands instead of ours. One that stayed as it was is of somebody who is gone.
func worked(before, after []schema.Beat, home string, tells *telling) (schema.HomeProgress, bool) {
	row, ok := schema.BeatOf(after, schema.ChangeRow(home))
	if !ok || row.Change == nil || row.Change.Ended() || tells != nil && row.Change.Same(tells.now()) {
		return schema.HomeProgress{}, false
	}
	if was, ok := schema.BeatOf(before, row.Region); ok && was.Count == row.Count && was.Change != nil && was.Change.Same(*row.Change) {
		return schema.HomeProgress{}, false
	}
	return *row.Change, true
}
