package cassandra

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gocql/gocql"
)

// How a request that fails or lingers is repeated.
const (
	maxRetries       = 5
	minRetryWait     = 50 * time.Millisecond
	maxRetryWait     = time.Second
	speculativeTries = 2 // further nodes asked while the first does not answer …
	speculativeDelay = 100 * time.Millisecond
)

// retryWait returns how long to wait before retry number n (from 0): it doubles, spread by ±50 %.
func retryWait(n int) time.Duration {
	wait := min(minRetryWait<<n, maxRetryWait)
	return wait/2 + rand.N(wait) // #nosec G404 -- a spread, not a secret
}

// speculation asks further nodes when one lingers: never more than there are besides the first.
//
// The driver's own policy has a fixed number. Asked for a node that does not exist, the driver ends
// the whole request with "no hosts available" while the first node still works on it.
type speculation struct {
	gocql.HostSelectionPolicy

	mu sync.Mutex
	up map[string]struct{} // ids of hosts
}

func newSpeculation(policy gocql.HostSelectionPolicy) *speculation {
	return &speculation{HostSelectionPolicy: policy, up: make(map[string]struct{})}
}

// Attempts returns how many further nodes may be asked.
func (s *speculation) Attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, min(speculativeTries, len(s.up)-1))
}

// Delay returns how long each node has before the next is asked.
func (s *speculation) Delay() time.Duration { return speculativeDelay }

// AddHost, HostUp, RemoveHost and HostDown count the nodes on their way to the policy that chooses among them.
func (s *speculation) AddHost(h *gocql.HostInfo) { s.set(h, true); s.HostSelectionPolicy.AddHost(h) }

// HostUp is described at AddHost.
func (s *speculation) HostUp(h *gocql.HostInfo) { s.set(h, true); s.HostSelectionPolicy.HostUp(h) }

// RemoveHost is described at AddHost.
func (s *speculation) RemoveHost(h *gocql.HostInfo) {
	s.set(h, false)
	s.HostSelectionPolicy.RemoveHost(h)
}

// HostDown is described at AddHost.
func (s *speculation) HostDown(h *gocql.HostInfo) {
	s.set(h, false)
	s.HostSelectionPolicy.HostDown(h)
}

func (s *speculation) set(h *gocql.HostInfo, up bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if up {
		s.up[h.HostID()] = struct{}{}
		return
	}
	delete(s.up, h.HostID())
}
