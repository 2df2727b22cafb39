package schema

import (
	"bytes"
	"context"
	"errors"
	"time"
)

// Lease is a register: who holds what its key stands for, under which fence, or what it ended with. It has no clock of its own: a holder
// holds it for as long as its session stands, and who finds that session dead may take it.
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
	// SwapLease replaces was (as read, all of it; zero fence: no row) by is, until expires (zero: for ever), and returns what stands then.
	// The key is that of is. Where is stands already there is nothing to do and no error, so to swap again is harmless, and whoever must be told
	// from others says so in what it writes: by its session, or by a fence of its own. ErrConflict comes with the lease as it is, which may have
	// come after ours if somebody took it meanwhile. ErrUnknown: read again; the swap may still happen as long as was stands. ErrTooLarge and
	// an is that may not follow was (see Follows) change nothing.
	SwapLease(ctx context.Context, was, is Lease, expires time.Time) (Lease, error)
	// Lease reads it so that every conditional write begun before is decided (SERIAL). ErrNotFound: no row.
	Lease(ctx context.Context, key string) (Lease, error)
}

// errFence: a lease was to be swapped by one whose fence is no fence, or lower.
var errFence = errors.New("the fence of a lease only grows")

// Follows reports whether l may take the place of was: its fence is not lower, and is one.
func (l Lease) Follows(was Lease) error {
	if l.Fence <= 0 || l.Fence < was.Fence {
		return errFence
	}
	return nil
}

// Same reports whether two leases say the same, whatever their keys. It is what a swap compares.
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

// NextFence returns the fence of who takes the lease at now: higher than the one that stands, whatever the clock.
func (l Lease) NextFence(now time.Time) Fence { return max(l.Fence+1, MakeFence(now)) }
