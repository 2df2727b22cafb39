package admission

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// The states of a target's circuit.
const (
	CircuitClosed   = "closed"    // runs start
	CircuitOpen     = "open"      // they are deferred
	CircuitHalfOpen = "half_open" // a few start, to see whether the target works again
)

// TargetState is what one executor knows of a target of a tenant: the host of HTTP calls, or the
// subject of NATS requests.
type TargetState struct {
	Target    string    `json:"target"`
	Circuit   string    `json:"circuit"`             // CircuitClosed, CircuitOpen or CircuitHalfOpen
	Since     time.Time `json:"since,omitzero"`      // since when it is not closed
	NextProbe time.Time `json:"next_probe,omitzero"` // of an open one: when an attempt is let through
	Failures  int       `json:"failures,omitempty"`  // attempts that failed: of a closed one in the last 30 s, else since shortly before it opened
	Deferrals int       `json:"deferrals,omitempty"` // how often a start was deferred since it is not closed
	Running   int       `json:"running,omitempty"`   // attempts under way
	// LastError is what the last attempt said that counted as a failure of the target, at most
	// MaxTargetError bytes, and LastFailed when that was. Empty once it works again after it was
	// open.
	LastError  string    `json:"last_error,omitempty"`
	LastFailed time.Time `json:"last_failed,omitzero"`
}

// MaxTargetError bounds what is kept of an error, in bytes.
const MaxTargetError = 500

// isCallee reports whether the key names what has a circuit: the controller counts scripts, tasks
// and tenants too.
func (k targetKey) isCallee() bool {
	return k.name != "" && k.name != ofTenants && !strings.HasPrefix(k.name, "script ") && !strings.HasPrefix(k.name, ofTasks)
}

// TargetStates returns the targets of a tenant that this executor called lately: those whose
// circuit is not closed first, then by name.
func (g *Controller) TargetStates(tenant string, now time.Time) []TargetState {
	var states []TargetState
	g.mu.Lock()
	for k, l := range g.ofTenant[tenant] {
		if !k.isCallee() {
			continue
		}
		s := TargetState{Target: k.name, Circuit: CircuitClosed, Running: l.busy}
		if b := l.breaker; b != nil {
			s.Circuit, s.NextProbe = b.state(now)
			s.Since, s.Deferrals, s.LastError, s.LastFailed = b.since, b.deferred, b.lastError, b.lastFailed
			s.Failures = int(b.failed + b.circuit.Metrics().Failures()) // #nosec G115 -- some hundreds
		}
		states = append(states, s)
	}
	g.mu.Unlock()
	slices.SortFunc(states, func(a, b TargetState) int {
		if broken := a.Circuit != CircuitClosed; broken != (b.Circuit != CircuitClosed) {
			if broken {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Target, b.Target)
	})
	return states
}

// UnderWay returns how many attempts are under way to a target of a tenant, and whether anything is
// known of it.
func (g *Controller) UnderWay(tenant, name string) (n int, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.loads[targetKey{tenant, name}]
	if l == nil {
		return 0, false
	}
	return l.busy, true
}

// ResetTarget closes the circuit of a target, and reports whether it was not closed.
func (g *Controller) ResetTarget(tenant, target string) bool {
	k := targetKey{tenant, target}
	g.mu.Lock()
	l := g.loads[k]
	broken := k.isCallee() && l != nil && l.breaker != nil && !l.breaker.closed()
	if broken {
		l.breaker.reset()
		l.nextTurn = time.Time{}
	}
	g.mu.Unlock()
	if broken {
		g.metrics.open.Dec()
		g.log.Info("the circuit of a target was closed by request", "tenant", k.tenant, "target", k.name)
	}
	return broken
}
