package homes

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

// What is acknowledged with schema.DurableEverywhere is written as everything is, at a quorum of
// our data centre, and then read at a quorum of every one (schema.CopyStore), which brings it
// there. Why not write it everywhere at once: half of it are conditional writes, which cannot be
// committed so, and this way all of it goes one way. What is not confirmed is no worse off than
// with home: the row is there, and to ask again confirms it.
//
// All data centres with copies count, also that of a region that is lost: nobody can tell here that
// it does not come back. An operator can, who takes its copies away (regions.out). While one does
// not answer, who asks is refused before anything is written, but for one question every
// confirmAgain.

const (
	// confirmWithin bounds one question to all data centres.
	confirmWithin = 3 * time.Second
	// confirmAgain is how long nobody is asked after a data centre did not answer.
	confirmAgain = time.Second
	// lagMost is how old the newest sign of life of a region that answers may be, as our data
	// centre has it.
	lagMost = 3 * schema.HomeLeaseRead
	// silentAfter is after how long without a sign of life a region counts as one that cannot take
	// a home over: nobody fails a home over to a region that gives none.
	silentAfter = AutomaticAfter
)

// Everywhere has every region hold what was written. Its methods may be called concurrently.
type Everywhere struct {
	keeper *Keeper
	store  schema.CopyStore

	mu    sync.Mutex
	fails bool      // the last question was not answered
	again time.Time // when the next may be asked then
}

// Everywhere returns what has every region hold rows of a store.
func (k *Keeper) Everywhere(store schema.CopyStore) *Everywhere {
	return &Everywhere{keeper: k, store: store}
}

// Ready returns a schema.NotEverywhereError while another region is known not to answer: nothing is
// to be written then. It does no I/O.
func (e *Everywhere) Ready() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fails && e.keeper.cfg.Now().Before(e.again) {
		return &schema.NotEverywhereError{Regions: e.suspects()}
	}
	return nil
}

// Confirm returns nil once every region holds what stands of the rows, or a
// schema.NotEverywhereError that says that they were written.
func (e *Everywhere) Confirm(ctx context.Context, rows schema.Copies) error {
	err := e.ask(ctx, rows)
	if err == nil {
		return nil
	}
	return &schema.NotEverywhereError{Regions: e.suspects(), Written: true, Err: err}
}

// ReadyToClaim is Ready for a claim that ConfirmClaim is to confirm.
func (e *Everywhere) ReadyToClaim() error {
	err := e.Ready()
	if err != nil && e.alone() {
		return nil
	}
	return err
}

// ConfirmClaim has every region know of the claim of a run, by the key of its lease, before the run
// starts: a region that takes the home over then does not start it as if nobody had. It returns nil
// as well if no other region answers and all others have been silent for so long that none can take
// the home over; else runs of this region would wait for as long as another one is lost.
func (e *Everywhere) ConfirmClaim(ctx context.Context, key string) error {
	err := e.Confirm(ctx, schema.Copies{Leases: []string{key}})
	if err != nil && e.alone() {
		return nil
	}
	return err
}

// alone reports whether no other region gives signs of life, as was read while the leases on homes
// that rest on that read last.
func (e *Everywhere) alone() bool {
	k := e.keeper
	s := k.silence.Load()
	if s == nil || pastLife(s.read, k.cfg.Now()) {
		return false
	}
	for _, r := range k.cfg.Regions {
		if r != k.cfg.Region && s.of[r] < silentAfter {
			return false
		}
	}
	return true
}

// pastLife reports whether a lease on a home that rests on a read has ended.
func pastLife(read, now time.Time) bool { return elapsedSince(read, now) >= schema.HomeLeaseLife }

// errResting: a data centre did not answer a moment ago.
var errResting = errors.New("it did not answer a moment ago")

// ask asks every data centre, unless one did not answer a moment ago.
func (e *Everywhere) ask(ctx context.Context, rows schema.Copies) error {
	now := e.keeper.cfg.Now()
	e.mu.Lock()
	if e.fails {
		if now.Before(e.again) {
			e.mu.Unlock()
			return errResting
		}
		e.again = now.Add(confirmWithin + confirmAgain) // others wait for what this one finds
	}
	e.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, confirmWithin)
	defer cancel()
	err := e.store.Confirm(bounded, rows)
	if err != nil && ctx.Err() != nil {
		return err // the caller left: that says nothing of the others
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fails = err != nil; e.fails {
		e.again = e.keeper.cfg.Now().Add(confirmAgain)
	}
	return err
}

// suspects returns the other regions whose signs of life our data centre lacks, or all others if it
// lacks none yet.
func (e *Everywhere) suspects() []string {
	others := slices.DeleteFunc(slices.Clone(e.keeper.cfg.Regions), func(r string) bool { return r == e.keeper.cfg.Region })
	late := slices.DeleteFunc(slices.Clone(others), func(r string) bool {
		lag, ok := e.keeper.Lag(r)
		return ok && lag <= lagMost
	})
	if len(late) > 0 {
		return late
	}
	return others
}
