//go:build !linux

package target

import (
	"context"

	"carillon.dev/carillon/schema"
)

// Run implements Target: elsewhere than on Linux there is no way to end all that a command has
// started.
func (s *Script) Run(context.Context, Call) Result {
	return Result{Outcome: schema.Failed, Error: "scripts are run on Linux only", Final: true}
}
