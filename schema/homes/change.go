package homes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

// A change has another region serve a home. The commands and the API make it the same way: what it
// needs is found out and every fault told (check), then it is announced, drained and decided
// (Changing.Do). Who decides is InsertEpoch alone. Of two that begin at once one goes on and the
// other learns of it, by the row in which whoever works on a change tells how far it is
// (telling.go).

// ListenFor is how long it is listened for signs of life of regions: each node writes one every 2
// s.
const ListenFor = 3 * schema.HomeLeaseRead

// MaxDrain bounds how long a home is drained: nothing is taken in for it meanwhile.
const MaxDrain = 5 * time.Minute

// MaxSpan bounds how far a comparison goes, to either side.
const MaxSpan = 366 * 24 * time.Hour

// lateReach is how long after its time a row is found by whoever takes a shard over, without a
// cursor that goes back.
const lateReach = 3 * time.Hour

// RowStore is what comparing the rows of a home, counting them, and having its shards looked at
// again needs. It can compare if it is a schema.Syncer too.
type RowStore interface {
	schema.CursorStore
	schema.SettingsStore
	schema.Prober
	schema.ClockStore
	EntryIDs(ctx context.Context, p schema.Partition, r schema.IDRange, limit int) ([]schema.EntryID, error)
	Close() error
}

// Changer has another region serve a home.
type Changer struct {
	Store          schema.EpochStore
	Region         string // ours
	Homes, Regions []string
	Shards         func(home string, below int) []schema.Shard // schema.Homes.Shards
	Rows           func() (RowStore, error)                    // opens the store of everything else
	Say            func(format string, args ...any)            // tells a person what is done; nil: nobody
}

func (c Changer) say(format string, args ...any) {
	if c.Say != nil {
		c.Say(format, args...)
	}
}

// Plan says what a change would cost. It takes ListenFor, and writes nothing.
//
//	*schema.ChangeRefusedError    it makes no sense as the regions are; further reasons stand in the plan
//	*schema.ChangeUnderWayError   somebody else works on one
func (c Changer) Plan(ctx context.Context, o schema.HomeChange) (schema.ChangePlan, error) {
	plan, err := c.check(ctx, o, nil)
	if err == nil && !plan.Already {
		plan.Backlog = c.backlog(ctx, &plan)
	}
	return plan, err
}

// Changing is a change that was found to be possible, and that nobody else works on.
type Changing struct {
	Plan  schema.ChangePlan
	c     Changer
	tells *telling
	end   string // the phase in which it ended; "": as its error says
}

// Begin finds out whether a change can be made, for ListenFor. The errors are those of Plan, and a
// *schema.ChangeRefusedError with what a plan says it would be refused for. The caller calls Do or
// Close, unless the plan says that the region serves the home already: then both do nothing.
func (c Changer) Begin(ctx context.Context, o schema.HomeChange) (*Changing, error) {
	ch := &Changing{c: c, tells: newTelling(c.Store, o)}
	var err error
	ch.Plan, err = c.check(ctx, o, ch.tells)
	if err == nil && len(ch.Plan.Refused) > 0 {
		err = &schema.ChangeRefusedError{Faults: ch.Plan.Refused}
	}
	if err != nil {
		ch.tells.end(ctx, schema.PhaseRefused, err)
		return nil, err
	}
	return ch, nil
}

// Progress returns how far it is.
func (ch *Changing) Progress() schema.HomeProgress { return ch.tells.now() }

// Close gives up what was not done.
func (ch *Changing) Close(ctx context.Context) {
	ch.tells.end(ctx, schema.PhaseRefused, errors.New("it was given up before anything was announced"))
}

// Do makes the change, and returns the epoch that stands. If ctx ends it gives the change up,
// within 4 s.
//
//	*schema.ChangeLostError   somebody else decided who serves the home
//	schema.ErrUnknown         it is not known whether the epoch was written
func (ch *Changing) Do(ctx context.Context) (schema.Epoch, error) {
	if ch.Plan.Already {
		return ch.Plan.Was, nil
	}
	stands, err := ch.do(ctx)
	switch {
	case ch.end != "":
	case err == nil:
		ch.end = schema.PhaseDone
	case errors.Is(err, schema.ErrUnknown):
		ch.end = schema.PhaseUnknown
	default:
		ch.end = schema.PhaseGivenUp
	}
	ch.tells.end(ctx, ch.end, err)
	return stands, err
}

// faults returns what is wrong with a change whatever the regions are.
func (c Changer) faults(o schema.HomeChange) (faults []schema.ChangeFault) {
	if !slices.Contains(c.Homes, o.Home) {
		faults = append(faults, schema.ChangeFault{Field: "home", Unknown: true, Message: fmt.Sprintf("there is no home %s: there are %s", o.Home, strings.Join(c.Homes, ", "))})
	}
	if !slices.Contains(c.Regions, o.To) {
		faults = append(faults, schema.ChangeFault{Field: "to", Unknown: true, Message: fmt.Sprintf("there is no region %s: there are %s", o.To, strings.Join(c.Regions, ", "))})
	}
	return faults
}

// Faults returns what is wrong with a change whatever the regions are: unknown names. It does no
// I/O.
func (c Changer) Faults(o schema.HomeChange) []schema.ChangeFault { return c.faults(o) }

// check finds out whether a change can be made, and what it costs. With tells it notes that it is
// worked on.
func (c Changer) check(ctx context.Context, o schema.HomeChange, tells *telling) (schema.ChangePlan, error) {
	plan := schema.ChangePlan{Change: o}
	if faults := c.faults(o); len(faults) > 0 {
		return plan, &schema.ChangeRefusedError{Faults: faults}
	}
	newest, err := c.Store.Epochs(ctx, []string{o.Home})
	if err != nil {
		return plan, err
	}
	was := newest[0]
	plan.Was = was
	switch {
	case was.Number == 0:
		return plan, &schema.ChangeRefusedError{Faults: []schema.ChangeFault{{Field: "home", Message: fmt.Sprintf("home %s has no epoch: run carillon migrate, which writes the first one", o.Home)}}}
	case was.Region == o.To:
		plan.Already = true
		c.say("region %s serves home %s already (epoch %d)", o.To, o.Home, was.Number)
		return plan, nil
	}
	c.say("region %s serves home %s (epoch %d); listening for signs of life for %v", was.Region, o.Home, was.Number, ListenFor)
	before, after, err := listen(ctx, c.Store, func(beats []schema.Beat) { tells.claim(ctx, beats, was) })
	if err != nil {
		return plan, err
	}
	if by, ok := worked(before, after, o.Home, tells); ok {
		return plan, &schema.ChangeUnderWayError{By: by}
	}
	tells.claim(ctx, nil, was)
	if faults := lifeFaults(o, was, signs(before, after)); len(faults) > 0 {
		return plan, &schema.ChangeRefusedError{Faults: faults}
	}
	if err := c.lag(ctx, &plan, after); err != nil {
		return plan, err
	}
	if to, ok := schema.BeatOf(after, o.To); ok {
		plan.Executors = to.Executors
	}
	plan.Begins = schema.TakeOverWait + schema.HomeLeaseRead // after the epoch
	if !o.Forced {
		plan.Announced, plan.Drained, plan.Begins = schema.TakeOverWait, o.Drain, schema.ShortTakeOverWait+time.Second
	}
	plan.Refused = costFaults(&plan)
	return plan, nil
}

// lifeFaults returns for which signs of life a change makes no sense.
func lifeFaults(o schema.HomeChange, was schema.Epoch, alive map[string]bool) (faults []schema.ChangeFault) {
	fault := func(field, format string, args ...any) {
		faults = append(faults, schema.ChangeFault{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if !alive[o.To] {
		fault("to", "region %s gives no sign of life: it could not serve home %s", o.To, o.Home)
	}
	switch {
	case o.Forced && alive[was.Region]:
		fault("home", "region %s gives signs of life: move the home", was.Region)
	case !o.Forced && !alive[was.Region]:
		fault("home", "region %s gives no sign of life: if it is lost, fail the home over", was.Region)
	}
	return faults
}

// costFaults returns for which costs a change is refused, unless they are accepted.
func costFaults(p *schema.ChangePlan) (faults []schema.ChangeFault) {
	o := &p.Change
	fault := func(format string, args ...any) {
		faults = append(faults, schema.ChangeFault{Field: "to", Message: fmt.Sprintf(format, args...)})
	}
	if p.Executors != nil && *p.Executors == 0 && !o.AcceptNoExecutors {
		fault("region %s has no executor: it would take in, and start nothing; start one there, or accept that (accept-no-executors)", o.To)
	}
	switch {
	case !o.Forced || o.AcceptLag || !p.HasSign:
	case p.LagFault != "":
		fault("%s; accept that (accept-lag), or ask there", p.LagFault)
	case p.Lag > schema.MaxTakeOverLag:
		fault("region %s is behind region %s by %v, more than %v: what that one acknowledged meanwhile would be missing; wait until it has arrived, or accept that (accept-lag)", o.To, p.Was.Region, p.Lag, schema.MaxTakeOverLag)
	}
	return faults
}

// lag finds out how old the last sign of life is of the region that serves the home, and how far
// the one that takes over is behind it.
func (c Changer) lag(ctx context.Context, p *schema.ChangePlan, beats []schema.Beat) error {
	from, to := p.Was.Region, p.Change.To
	last, ok := schema.BeatOf(beats, from)
	if !ok {
		return nil
	}
	p.HasSign, p.LastSign = true, max(time.Since(last.At), 0)
	local, several := c.Store.(schema.LocalBeats)
	if several && c.Region != to {
		p.LagFault = fmt.Sprintf("how far region %s is behind is known there alone: run this with the configuration of a node of region %s", to, to)
		if !p.Change.Forced {
			p.LagFault = fmt.Sprintf("how far region %s is behind is known there alone; a move does not need it, for it compares the rows first", to)
		}
		return nil
	}
	if several { // else there is one copy of all
		here, err := local.BeatsHere(ctx)
		if err != nil {
			return err
		}
		seen, ok := schema.BeatOf(here, from)
		if !ok {
			p.LagFault = fmt.Sprintf("region %s has no sign of life of region %s: perhaps nothing that %s acknowledged is there", to, from, from)
			return nil
		}
		p.Lag = max(last.At.Sub(seen.At), 0)
	}
	if p.Change.Forced { // that, what it wrote since, and what it took in while its lease lasted
		p.LostAtMost = p.Lag + schema.HomeLeaseRead + schema.HomeLeaseLife
	}
	return nil
}

// do does what was found to be possible.
func (ch *Changing) do(ctx context.Context) (schema.Epoch, error) {
	c, o, was := ch.c, ch.Plan.Change, ch.Plan.Was
	if o.Sync {
		ch.tells.phase(schema.PhaseComparing)
		if err := c.sync(ctx, o, ch.tells.compared); err != nil {
			ch.end = schema.PhaseRefused
			return was, fmt.Errorf("home %s is not moved; nothing was announced, and --sync=false leaves this out: %w", o.Home, err)
		}
	}
	if !o.Forced {
		if err := ch.prepare(ctx); err != nil {
			return was, err
		}
	}
	ch.tells.phase(schema.PhaseDeciding)
	stands, err := c.Store.InsertEpoch(ctx, was.Next(o.To, o.By, o.Reason, time.Now()))
	switch {
	case errors.Is(err, schema.ErrConflict):
		return stands, &schema.ChangeLostError{Stands: stands}
	case errors.Is(err, schema.ErrUnknown):
		return was, fmt.Errorf("it is not known whether epoch %d was written: look at carillon region list, and then do it again: %w", was.Number+1, err)
	case err != nil:
		return was, err
	}
	c.say("region %s serves home %s in epoch %d, in some %v", o.To, o.Home, stands.Number, ch.Plan.Begins)
	return stands, nil
}

// Alive returns which regions give a sign of life while it listens, for ListenFor. It compares no
// clocks.
func Alive(ctx context.Context, store schema.EpochStore) (map[string]bool, error) {
	before, after, err := listen(ctx, store, func([]schema.Beat) {})
	if err != nil {
		return nil, err
	}
	return signs(before, after), nil
}

// listen reads the beats twice. It calls first with the first ones.
func listen(ctx context.Context, store schema.EpochStore, first func([]schema.Beat)) (before, after []schema.Beat, err error) {
	if before, err = store.Beats(ctx); err != nil {
		return nil, nil, err
	}
	first(before)
	if err := pause(ctx, ListenFor); err != nil {
		return nil, nil, fmt.Errorf("listen for signs of life: %w", err)
	}
	after, err = store.Beats(ctx)
	return before, after, err
}

// signs returns which rows were written between two reads of the beats.
func signs(before, after []schema.Beat) map[string]bool {
	alive := make(map[string]bool)
	for _, b := range after {
		alive[b.Region] = true
		for _, was := range before {
			if was.Region == b.Region && was.Node == b.Node && was.Count == b.Count {
				alive[b.Region] = false
			}
		}
	}
	return alive
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
