package target

import (
	"context"

	"carillon.dev/carillon/schema"
)

// Noop is a Target of any kind that calls nobody: every attempt succeeds at once. It is for
// measurements, which it leaves with what Carillon itself costs, as a handler within the process
// would. Its output tells who reads the record that nothing was called.
type Noop struct{}

// noopOutput is shared by all results; nobody writes to it.
var noopOutput = []byte("noop")

// Run implements Target.
func (Noop) Run(context.Context, Call) Result {
	return Result{Outcome: schema.Succeeded, Output: noopOutput}
}
