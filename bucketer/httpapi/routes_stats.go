package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/schema"
)

// Stats keeps counts of minutes (admin.Stats).
type Stats interface {
	// Minutes returns the counts of all nodes together, From ≤ minute < To, by minute; minutes in
	// which nothing was counted are left out.
	Minutes(ctx context.Context, from, to time.Time) ([]admin.Minute, error)
}

// MinuteStats is what the cluster did in a minute.
type MinuteStats struct {
	Minute    Time          `json:"minute" doc:"Its begin"`
	Due       int64         `json:"due" doc:"Runs and later starts of them that were handed to executors for the first time"`
	Started   int64         `json:"started" doc:"Runs that were started for the first time"`
	Succeeded int64         `json:"succeeded" doc:"Attempts that succeeded"`
	Failed    int64         `json:"failed" doc:"Attempts that failed, timed out or were lost"`
	Missed    int64         `json:"missed" doc:"Runs that were recorded as missed"`
	Retried   int64         `json:"retried" doc:"Retries that were planned"`
	Lateness  *LatenessRank `json:"lateness,omitempty" doc:"Of first starts; absent if there were none"`
}

// LatenessRank is how late first starts were, in ms, to about a tenth.
type LatenessRank struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

// maxStatsWindow is the longest stretch of one answer.
const maxStatsWindow = 24 * time.Hour

type (
	statsFilter struct {
		From time.Time `query:"from" doc:"First minute; default: an hour before to"`
		To   time.Time `query:"to" doc:"Minutes before this instant; default: now. At most 24 h after from"`
	}
	statsAnswer struct {
		Body struct {
			Items []MinuteStats `json:"items"`
		}
	}
)

// statsRoutes serves counts of minutes.
type statsRoutes struct{ *Server }

func (s statsRoutes) route() {
	op := s.operation("get-stats", http.MethodGet, "/v1/stats", "What the cluster did, minute by minute", 200, 422, 503)
	op.Description = "Of all tenants together. Each node writes its counts when a minute has ended, so the last one may be missing or incomplete. Kept for 14 days."
	huma.Register(s.api, op, s.getStats)
}

func (s statsRoutes) getStats(ctx context.Context, in *statsFilter) (*statsAnswer, error) {
	if s.deps.Stats == nil {
		return nil, notFound("This node keeps no counts.")
	}
	to, from := in.To.UTC(), in.From.UTC()
	if in.To.IsZero() {
		to = s.config.Now().UTC()
	}
	if in.From.IsZero() {
		from = to.Add(-time.Hour)
	}
	switch {
	case !to.After(from):
		return nil, invalid(bucketer.Fault{Location: "query.to", Message: "must be after from"})
	case to.Sub(from) > maxStatsWindow:
		return nil, invalid(bucketer.Fault{Location: "query.to", Message: "must be at most 24 hours after from"})
	}
	minutes, err := s.deps.Stats.Minutes(ctx, from, to)
	if err != nil {
		return nil, s.fail(ctx, "read stats", err)
	}
	out := new(statsAnswer)
	out.Body.Items = make([]MinuteStats, len(minutes))
	for i, m := range minutes {
		out.Body.Items[i] = MinuteStats{
			Minute: Time{m.Minute}, Due: m.Due, Started: m.Started, Succeeded: m.Succeeded, Failed: m.Failed, Missed: m.Missed, Retried: m.Retried,
		}
		if n := m.Lateness; n.Count() > 0 {
			out.Body.Items[i].Lateness = &LatenessRank{P50: inMS(n.Rank(.5)), P99: inMS(n.Rank(.99)), Max: inMS(n.Rank(1))}
		}
	}
	return out, nil
}

func inMS(d schema.Duration) float64 { return float64(d.Std().Microseconds()) / 1000 }
