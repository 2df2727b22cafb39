package ring

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// publisher holds the newest snapshot, and signals the next one.
type publisher struct {
	mu      sync.Mutex // serialises publish
	current atomic.Pointer[version]
}

// version is a snapshot together with the channel that is closed when it is no longer the newest.
type version struct {
	snapshot   *Snapshot
	superseded chan struct{}
}

func (b *publisher) init() {
	b.current.Store(&version{snapshot: &Snapshot{}, superseded: make(chan struct{})})
}

// Snapshot returns the newest view. Of a [Ring] it is empty before the first join and once told to
// stop.
func (b *publisher) Snapshot() *Snapshot { return b.current.Load().snapshot }

// Changed returns a channel that is closed when a snapshot newer than the present one can be read.
// Ask for it before reading the snapshot, then nothing is missed; several changes in a row count as
// one:
//
//	for {
//		changed := r.Changed()
//		use(r.Snapshot())
//		select { case <-ctx.Done(): return nil; case <-changed: }
//	}
func (b *publisher) Changed() <-chan struct{} { return b.current.Load().superseded }

// publish builds a snapshot of these members, and publishes it if it differs. It reports whether it
// did.
func (b *publisher) publish(now time.Time, members []Member, gone map[string]Status, shards int) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.current.Load()
	s, err := build(old.snapshot, members, gone, shards)
	if err != nil || old.snapshot.equal(s) {
		return false, err
	}
	s.version, s.madeAt = old.snapshot.version+1, now
	b.current.Store(&version{snapshot: s, superseded: make(chan struct{})})
	close(old.superseded)
	return true, nil
}

// Fixed is a ring without a network: Set sets its members.
type Fixed struct{ publisher }

// Static returns a ring of exactly these members, for a process that is the whole system, and for
// simulations. It fails as [Assign] does.
func Static(members []Member, shards int) (*Fixed, error) {
	f := &Fixed{}
	f.init()
	if err := f.Set(members, nil, shards); err != nil {
		return nil, err
	}
	return f, nil
}

// Set replaces the members and the number of shards. gone has the status of members that left or
// died; it may be nil.
func (f *Fixed) Set(members []Member, gone map[string]Status, shards int) error {
	_, err := f.publish(time.Now().UTC(), members, gone, shards)
	return err
}

// Ready is always nil.
func (f *Fixed) Ready() error { return nil }

// Refresh is always nil.
func (f *Fixed) Refresh(context.Context) error { return nil }

// SuspendDispatch does nothing: no other member takes over.
func (f *Fixed) SuspendDispatch(bool) error { return nil }

// ReportHealth does nothing.
func (f *Fixed) ReportHealth(bool) error { return nil }
