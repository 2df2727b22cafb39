package homes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// syncTells is how often a comparison says how far it is.
const syncTells = 5 * time.Second

// prepare announces that a home goes elsewhere, lets that become known, and has it drained. An
// announcement cannot be taken back. So if the move is given up the next epoch is written for the
// region that serves already; not if somebody else moves the home at the same time.
func (ch *Changing) prepare(ctx context.Context) error {
	c, o, was := ch.c, ch.Plan.Change, ch.Plan.Was
	ch.tells.phase(schema.PhaseAnnounced)
	err := c.Store.PutBeat(ctx, schema.Announcement(was))
	if err != nil {
		err = fmt.Errorf("announce that home %s is moved: %w", o.Home, err)
	} else {
		c.say("it is announced that home %s goes to region %s; region %s serves it for another %v", o.Home, o.To, was.Region, schema.TakeOverWait)
		if err = pause(ctx, schema.TakeOverWait); err == nil && o.Drain > 0 {
			ch.tells.phase(schema.PhaseDraining)
			err = c.drain(ctx, o, was)
		}
		if err == nil && o.Sync && o.Since > lateReach {
			err = c.rewind(ctx, o)
		}
	}
	if err == nil || errors.Is(err, errOther) {
		return err
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*schema.HomeLeaseRead)
	defer cancel()
	again := was.Next(was.Region, o.By, "the move to region "+o.To+" was given up", time.Now())
	switch stands, failed := c.Store.InsertEpoch(bounded, again); {
	case failed == nil:
		c.say("the move is given up: region %s serves home %s in epoch %d", stands.Region, stands.Home, stands.Number)
	case !errors.Is(failed, schema.ErrConflict):
		ch.end = schema.PhaseUnknown
		c.say("the move is given up, and that could not be written: until the next epoch region %s stops for home %s if it cannot read for %v; do it again", was.Region, o.Home, schema.ShortLeaseLife)
	}
	return err
}

// errOther: somebody else drains the home too.
var errOther = errors.New("the request")

// drain has the region that serves a home take in and publish nothing more of it, and waits. If it
// is given up the request is taken back; one that cannot be is of no effect after some time. The
// request bears the time of that region, as its last sign of life tells it: the clock of this
// machine is not asked.
func (c Changer) drain(ctx context.Context, o schema.HomeChange, was schema.Epoch) error {
	beats, err := c.Store.Beats(ctx)
	if err != nil {
		return err
	}
	ask := schema.Beat{
		Region: schema.DrainRow(o.Home), Node: o.By, Count: was.Number, At: time.Now(),
		Drain: &schema.Drain{Home: o.Home, Epoch: was.Number, To: o.To, For: schema.Duration(o.Drain)},
	}
	if b, ok := schema.BeatOf(beats, was.Region); ok {
		ask.At = b.At
	}
	ask.At = ask.At.Truncate(time.Millisecond)
	if last, ok := schema.BeatOf(beats, ask.Region); ok && !ask.At.After(last.At) {
		ask.At = last.At.Add(time.Millisecond) // of two the later one stays
	}
	if err := c.Store.PutBeat(ctx, ask); err != nil {
		return fmt.Errorf("ask region %s to drain home %s: %w", was.Region, o.Home, err)
	}
	if beats, err = c.Store.Beats(ctx); err != nil {
		return err
	}
	if stands, _ := schema.BeatOf(beats, ask.Region); !stands.At.Equal(ask.At) || stands.Drain == nil || *stands.Drain != *ask.Drain {
		return fmt.Errorf("home %s is not drained: %w of %s stands, not ours; do it again", o.Home, errOther, stands.Node)
	}
	c.say("region %s takes in and publishes nothing more of home %s; waiting %v for what is under way", was.Region, o.Home, o.Drain)
	if pause(ctx, o.Drain) == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), schema.HomeLeaseRead)
	defer cancel()
	ask.Drain, ask.At = nil, ask.At.Add(time.Millisecond)
	if err := c.Store.PutBeat(bounded, ask); err != nil {
		c.say("that it is given up could not be written: region %s takes in again within %v", was.Region, o.Drain+schema.DrainSpare)
	}
	return fmt.Errorf("drain home %s: %w", o.Home, ctx.Err())
}

// Compare has all data centres hold what any of them holds of a home, over the due times of o, and
// says what was done.
func (c Changer) Compare(ctx context.Context, o schema.HomeChange) error {
	return c.sync(ctx, o, func(Walked) {})
}

// sync compares the rows of a home, and says what was done.
func (c Changer) sync(ctx context.Context, o schema.HomeChange, progress func(Walked)) error {
	store, err := c.Rows()
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // never fails
	syncer, ok := store.(interface {
		schema.CursorStore
		schema.Syncer
	})
	if !ok {
		c.say("there is one copy of the rows of home %s: nothing is to be compared", o.Home)
		return nil
	}
	now, shards, err := c.shardsOf(ctx, store, o.Home)
	if err != nil {
		return err
	}
	c.say("comparing what all data centres hold of home %s", o.Home)
	done, err := Walk{
		Store: syncer, Shards: shards, Since: o.Since, Until: o.Until, Now: now, ProgressEvery: syncTells,
		Progress: func(w Walked) {
			progress(w)
			c.say("  %d of %d minutes of shards, %d rows, %v", w.Partitions, w.Of, w.Rows, w.Took.Round(time.Second))
		},
	}.Do(ctx)
	progress(done)
	said := fmt.Sprintf("%d of %d minutes of %d shards, %d rows, in %v", done.Partitions, done.Of, done.Shards, done.Rows, done.Took.Round(10*time.Millisecond))
	if err != nil {
		return fmt.Errorf("home %s is compared in part only (%s): %w", o.Home, said, err)
	}
	c.say("compared what was due from %s to %s: %s", done.From.Format(time.RFC3339), done.To.Format(time.RFC3339), said)
	return nil
}

// rewind has whoever serves a home next look at everything that was due since o.Since.
func (c Changer) rewind(ctx context.Context, o schema.HomeChange) error {
	store, err := c.Rows()
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // never fails
	_, shards, err := c.shardsOf(ctx, store, o.Home)
	if err != nil {
		return err
	}
	if shards == nil {
		shards = []schema.Shard{} // none, not all
	}
	_, err = Rewind{Shards: shards, Since: o.Since, Say: c.Say}.Do(ctx, store)
	return err
}

// shardsOf returns the time, by the clocks of the store, and the shards of a home.
func (c Changer) shardsOf(ctx context.Context, store RowStore, home string) (time.Time, []schema.Shard, error) {
	now, err := schema.TimeByMost(ctx, store)
	if err != nil {
		return time.Time{}, nil, fmt.Errorf("ask for the time: %w", err)
	}
	settings, err := store.Settings(ctx)
	if err != nil {
		return time.Time{}, nil, fmt.Errorf("read the settings: %w", err)
	}
	return now, c.Shards(home, settings.Shards), nil
}
