package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"carillon.dev/carillon/bucketer/request"
)

// RegionsStand returns how all regions and homes stand, as the node knows.
func (c *Client) RegionsStand(ctx context.Context) (RegionsStand, error) {
	var out RegionsStand
	_, err := c.call(ctx, ask{method: http.MethodGet, path: regionsPath, repeatable: true}, &out)
	return out, err
}

// MoveHome has another region serve a home, while both are well, or plans that. It goes on after
// the answer: RegionsStand tells how far it is.
func (c *Client) MoveHome(ctx context.Context, home string, r request.HomeChangeRequest) (HomeChangeAnswer, error) {
	return c.changeHome(ctx, home, "/move", r)
}

// FailOverHome has another region serve a home whose region is lost, or plans that. Ask a node of
// the region that is to serve it.
func (c *Client) FailOverHome(ctx context.Context, home string, r request.HomeChangeRequest) (HomeChangeAnswer, error) {
	return c.changeHome(ctx, home, "/failover", r)
}

func (c *Client) changeHome(ctx context.Context, home, act string, r request.HomeChangeRequest) (HomeChangeAnswer, error) {
	var out HomeChangeAnswer
	_, err := c.call(ctx, ask{method: http.MethodPost, path: regionsPath + "/" + url.PathEscape(home) + act, body: r, repeatable: r.Plan}, &out)
	return out, err
}
