package executor

import (
	"context"

	"carillon.dev/carillon/schema"
)

// Noop is a Target of any kind that calls nobody: every attempt succeeds at once. It is for measurements, which it leaves
// with what Carillon itself costs, as a handler within the process would.
type Noop struct{}

// Run implements Target.
func (Noop) Run(context.Context, Call) Result { return Result{Outcome: schema.Succeeded} }
