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
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("lockAll waits for itself")
	}
}
