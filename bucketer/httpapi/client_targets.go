package httpapi

import (
	"context"
	"iter"
	"net/http"

	"carillon.dev/carillon/bucketer"
)

// Targets returns the targets that executors have called lately, by name; only those of a state unless that is "". It ends with the first error.
func (c *Client) Targets(ctx context.Context, state string) iter.Seq2[TargetOfTenant, error] {
	return func(yield func(TargetOfTenant, error) bool) {
		eachItem(ctx, c, targetsPath, stated(map[string]string{"state": state}), 0, yield)
	}
}

// ResetTarget closes the circuit breaker of a target on every executor, and returns how the target stands then.
func (c *Client) ResetTarget(ctx context.Context, target string) (TargetOfTenant, error) {
	var out TargetOfTenant
	_, err := c.call(ctx, request{method: http.MethodPost, path: resetPath, body: bucketer.TargetRequest{Target: target}, repeatable: true}, &out)
	return out, err
}
