package schema

import "time"

// What is assumed of clocks. Every other constant that allows for clocks is computed from these, or
// is compared with them by a test.
const (
	// MaxClockOffset is how far a node's clock may be off the majority of hosts (package
	// clockcheck). Beyond it the node neither dispatches nor writes.
	MaxClockOffset = time.Second
	// MaxClockSlip is how far a clock may move unnoticed after a comparison: because it is set, or
	// because it drifts until the next comparison.
	MaxClockSlip = 500 * time.Millisecond
	// MaxClockError is how far a clock that counts as right may be off.
	MaxClockError = MaxClockOffset + MaxClockSlip
	// MaxClockDifference is how far two clocks may differ that both count as right.
	MaxClockDifference = 2 * MaxClockError
)
