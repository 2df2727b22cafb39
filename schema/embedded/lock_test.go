package embedded

import (
	"hash/maphash"
	"testing"
	"time"
)

// TestLocksOfOneStripe: who holds two keys of one stripe waited for himself.
func TestLocksOfOneStripe(t *testing.T) {
	s := &core{seed: maphash.MakeSeed()}
	var keys [][]byte
	for i := range 2 * stripes { // some share a stripe, whatever the seed
		keys = append(keys, []byte{byte(i), byte(i >> 8)})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.lockAll(keys...)()
		s.lockAll(keys...)() // it let go of all
		s.share(keys...)()
		s.lockAll(keys...)()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("lockAll waits for itself")
	}
}

// TestWritesShareLocks: batches of rows waited for one another until each was on disk.
func TestWritesShareLocks(t *testing.T) {
	s := &core{seed: maphash.MakeSeed()}
	key := []byte("row")
	first := s.share(key)
	second := make(chan func())
	go func() { second <- s.share(key) }()
	select {
	case unlock := <-second:
		unlock()
	case <-time.After(time.Minute):
		t.Fatal("a write without a condition waits for another one")
	}
	if mu := &s.locks[s.stripesOf([][]byte{key})[0]]; mu.TryLock() {
		t.Fatal("a write with a condition does not wait for one without")
	}
	first()
	s.lock(key)()
}
