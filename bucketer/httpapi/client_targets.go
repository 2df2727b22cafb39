package httpapi

import (
	"context"
	"iter"
	"net/http"

	"carillon.dev/carillon/bucketer/request"
)

// Targets returns the targets that executors have called lately, by name; only those of a state
// unless that is "". It ends with the first error. missing hears of the executors that did not
// answer, before the targets of each page: what those know is not in it.
func (c *Client) Targets(ctx context.Context, state string, missing func(nodes []string)) iter.Seq2[TargetOfTenant, error] {
	return func(yield func(TargetOfTenant, error) bool) {
		eachOf(ctx, c, targetsPath, stated(map[string]string{"state": state}), 0, missing, yield)
	}
}

// ResetTarget closes the circuit breaker of a target on every executor, and returns how the target
// stands then, and the executors that did not answer: whether they heard of it is not known.
func (c *Client) ResetTarget(ctx context.Context, target string) (is TargetOfTenant, missing []string, err error) {
	var out struct {
		TargetOfTenant
		MissingNodes []string `json:"missing_nodes"`
	}
	_, err = c.call(ctx, ask{method: http.MethodPost, path: resetPath, body: request.TargetRequest{Target: target}, repeatable: true}, &out)
	return out.TargetOfTenant, out.MissingNodes, err
}
