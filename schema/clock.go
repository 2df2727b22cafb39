package schema

import "time"

// What is assumed of clocks. Every other constant that allows for clocks is computed from these, or is held against
// them by a test.
const (
	// MaxClockOffset is how far the clock of a node may be off against a majority of hosts (package clockcheck).
	// Beyond, the node neither dispatches nor writes.
	MaxClockOffset = time.Second
	// MaxClockSlip is by how much a clock may be moved after a comparison without being noticed: by being set,
	// or by being slewed until the next one.
	MaxClockSlip = 500 * time.Millisecond
	// MaxClockError is how far a clock that counts as right may be off.
	MaxClockError = MaxClockOffset + MaxClockSlip
	// MaxClockDifference is by how much two clocks may differ that both count as right.
	MaxClockDifference = 2 * MaxClockError
)
