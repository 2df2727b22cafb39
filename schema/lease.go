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
