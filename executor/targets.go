package executor

import (
	"time"

	"carillon.dev/carillon/executor/admission"
)

// TargetStates returns what the executor knows of a tenant's targets, those whose circuit is not
// closed first, then by name. Targets that were not called for a while are forgotten.
func (x *Executor) TargetStates(tenant string) []admission.TargetState {
	return x.admission.TargetStates(tenant, time.Now().UTC())
}

// ResetTarget closes the circuit of a tenant's target, and reports whether it was not closed. What
// was deferred stays so until its time.
func (x *Executor) ResetTarget(tenant, target string) bool {
	return x.admission.ResetTarget(tenant, target)
}
