package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"carillon.dev/carillon/schema"
)

// StatsQuery selects minutes, From ≤ minute < To, at most 24 h. The server has its own window where
// one is zero.
type StatsQuery struct {
	From, To time.Time
	Scope    string // "all" or "tenant"; "": what the key may see
}

func (q StatsQuery) params() map[string]string {
	return map[string]string{"from": timeParameter(q.From), "to": timeParameter(q.To), "scope": q.Scope}
}

// Stats returns what the cluster did, minute by minute.
func (c *Client) Stats(ctx context.Context, q StatsQuery) (StatsList, error) {
	var out StatsList
	_, err := c.call(ctx, ask{method: http.MethodGet, path: statsPath + "?" + stated(q.params()).Encode(), repeatable: true}, &out)
	return out, err
}

// TopQuery selects names of a kind.
type TopQuery struct {
	StatsQuery
	By    schema.StatsKind
	Order string // "activity", "started", "failed", "missed", "retried" or "late"; "": the server's
	Limit int    // the most names; 0: the server's
}

// TopStats returns what became of runs by tenant, task, job or host.
func (c *Client) TopStats(ctx context.Context, q TopQuery) (TopStats, error) {
	params := q.params()
	params["by"], params["order"] = string(q.By), q.Order
	if q.Limit != 0 {
		params["limit"] = strconv.Itoa(q.Limit)
	}
	var out TopStats
	_, err := c.call(ctx, ask{method: http.MethodGet, path: topPath + "?" + stated(params).Encode(), repeatable: true}, &out)
	return out, err
}

// UpcomingRuns returns about how many runs are due in each of so many minutes (0: the server's number)
// from `from` on (zero: now).
func (c *Client) UpcomingRuns(ctx context.Context, from time.Time, minutes int) (UpcomingRuns, error) {
	params := map[string]string{"from": timeParameter(from)}
	if minutes != 0 {
		params["minutes"] = strconv.Itoa(minutes)
	}
	var out UpcomingRuns
	_, err := c.call(ctx, ask{method: http.MethodGet, path: upcomingPath + "?" + stated(params).Encode(), repeatable: true}, &out)
	return out, err
}
