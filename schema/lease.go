package schema

import (
	"bytes"
	"context"
	"errors"
	"time"
)

// Lease is a register that is changed by compare-and-set: who holds what its key stands for, under
// which fence, or with what it ended. It has no clock: a holder holds it while its session stands,
// and any process may take it once that session is dead.
type Lease struct {
	Key   string
	Fence Fence // 0: there is no row
	// Holder is under whose session it is held; nil: nobody holds it. Its times are UTC.
	Holder *SessionRef
	// Record is what its user wrote down, text in UTF-8; nil (or empty): nothing.
	Record []byte
}

// LeaseStore holds leases, by conditional writes only.
type LeaseStore interface {
	// SwapLease replaces was (as read, all of it; zero fence: no row) by is, until expires (zero:
	// for ever), and returns what stands then. The key is that of is.
	//
	// If is stands already, nothing is done and there is no error: so to swap again is harmless. A
	// writer that must tell its lease from another's therefore puts its session or its own fence
	// into it.
	//
	//	ErrConflict   comes with the lease that stands. It may have followed ours
	//	ErrUnknown    read again: the swap may still happen as long as was stands
	//	ErrTooLarge   nothing was changed; so it is if is may not follow was (see Follows)
	SwapLease(ctx context.Context, was, is Lease, expires time.Time) (Lease, error)
	// Lease reads it such that every conditional write begun before is decided (SERIAL).
	// ErrNotFound: no row.
	Lease(ctx context.Context, key string) (Lease, error)
}

// errFence: the new lease has no fence, or a lower one.
var errFence = errors.New("the fence of a lease only grows")

// Follows returns an error if l may not replace was: its fence must be above 0, and not lower.
func (l Lease) Follows(was Lease) error {
	if l.Fence <= 0 || l.Fence < was.Fence {
		return errFence
	}
	return nil
}

// Same reports whether two leases say the same, whatever their keys. A swap compares by it.
func (l Lease) Same(other Lease) bool {
	if l.Fence != other.Fence || (l.Holder == nil) != (other.Holder == nil) || !bytes.Equal(l.Record, other.Record) {
		return false
	}
	if l.Holder == nil {
		return true
	}
	a, b := *l.Holder, *other.Holder
	return a.Executor == b.Executor && a.ID == b.ID && a.Entry == b.Entry && a.Guarded == b.Guarded && a.Started.Equal(b.Started)
}

// NextFence returns the fence for who takes the lease at now: higher than the one that stands,
// whatever the clock says.
func (l Lease) NextFence(now time.Time) Fence { return max(l.Fence+1, MakeFence(now)) }

// Claim is what the lease of a guarded run (at_most_once, effectively_once) says of its attempts.
// The lease decides. The rows of attempts are its log, and may lag behind it.
//
//	no row, or no holder and no record   the run is free: an attempt may claim it
//	a holder                             attempt Number is under way while that session stands
//	no holder, and a record              attempt Number ended so; the next may claim, unless Over
//
// An attempt claims before it starts. When it ends, it writes its record into the lease before it
// tells anybody. It does both by compare-and-set of what it has read.
//
// A process that finds a record in the lease that the log lacks writes it there and repeats its
// follow-ups, before anything else. So the next claim overwrites nothing that is not in the log.
type Claim struct {
	// Number is that of the attempt; 0: the record says why there was none.
	Number int `json:"attempt"`
	// Fence is that of the attempt: the lease's at the claim. The lease's own is higher if somebody
	// else ended the attempt.
	Fence Fence `json:"fence"`
	// Guarantee is the one under which the attempt claimed the run, whatever its task says by now.
	// It is "" where there was no task, and in rows of older versions.
	Guarantee Guarantee `json:"guarantee,omitempty"`
	// Record is how it ended, nil while it is under way. Written is its write timestamp, µs.
	Record  *Record `json:"record,omitempty"`
	Written int64   `json:"written,omitempty"`
}

// RunLease returns the key of a run's lease.
func RunLease(run RunID) string { return "run/" + run.String() }

// Guarded reports whether attempts under this guarantee claim their run.
func (g Guarantee) Guarded() bool { return g == AtMostOnce || g == EffectivelyOnce }

// Claim returns what the lease of a run says, or ErrNotUnderstood. It is zero if the run is free
// and nothing was recorded.
func (l Lease) Claim() (Claim, error) {
	var c Claim
	if len(l.Record) == 0 {
		return c, nil
	}
	return Decode[Claim](l.Record, "claim")
}

// Over reports whether the run has ended with this claim: no attempt follows.
func (c Claim) Over() bool {
	if c.Record == nil {
		return false
	}
	switch c.Record.Outcome {
	case Failed, TimedOut, Lost:
		return c.Record.Final
	}
	return true
}

// Attempt returns the row of the log that belongs to the claim's record.
func (c Claim) Attempt(run RunID) Attempt {
	return Attempt{Run: run, Number: c.Number, Fence: c.Fence, Record: c.Record, Written: c.Written}
}

// Claimed returns the lease as attempt number n takes it at now, under the guarantee g and the
// holder's session. Its fence is higher, whatever the clock says.
func (l Lease) Claimed(n int, g Guarantee, holder SessionRef, now time.Time) (Lease, error) {
	fence := l.NextFence(now)
	return l.with(fence, &holder, &Claim{Number: n, Fence: fence, Guarantee: g})
}

// Ended returns the lease as the attempt's own holder leaves it: with its record, under its fence.
func (l Lease) Ended(a Attempt) (Lease, error) {
	return l.with(l.Fence, nil, &Claim{Number: a.Number, Fence: a.Fence, Record: a.Record, Written: a.Written})
}

// EndedByOther returns the lease as somebody else ends attempt a at now. Number 0 ends the run
// before an attempt started. The fence is higher, so the former holder can change nothing any more.
func (l Lease) EndedByOther(a Attempt, now time.Time) (Lease, error) {
	return l.with(l.NextFence(now), nil, &Claim{Number: a.Number, Fence: a.Fence, Record: a.Record, Written: a.Written})
}

// Released returns the lease as a holder leaves it that started nothing.
func (l Lease) Released() Lease { return Lease{Key: l.Key, Fence: l.Fence} }

func (l Lease) with(fence Fence, holder *SessionRef, c *Claim) (Lease, error) {
	text, err := encodeCell(c, "claim")
	if err != nil {
		return Lease{}, err
	}
	if holder != nil {
		h := *holder
		h.Started = h.Started.UTC().Round(0) // as it is read again
		holder = &h
	}
	return Lease{Key: l.Key, Fence: fence, Holder: holder, Record: text}, nil
}
