package target

import (
	"context"

	"carillon.dev/carillon/schema"
)

// Noop is a Target of any kind that calls nothing: every attempt succeeds at once. Measurements
// with it see what Carillon itself costs. Its output says so in the record.
type Noop struct{}

// noopOutput is shared by all results, and read only.
var noopOutput = []byte("noop")

// Run implements Target.
func (Noop) Run(context.Context, Call) Result {
	return Result{Outcome: schema.Succeeded, Output: noopOutput}
}
