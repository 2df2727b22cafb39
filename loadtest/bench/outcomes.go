package bench

import (
	"context"
	"fmt"
	"time"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
)

// asked are the protocols after which the API is asked for outcomes.
var asked = []string{"A", "B", "C", "D", "E", "F", "H", "R", consolesProtocol, regionsProtocol}

// outcomes is what the API says of the runs of a batch at the end. Of a run that is listed twice
// the first reading counts.
type outcomes struct {
	runs    map[string]bool
	started int
	ended   int
	failed  int // ended otherwise than well
	twice   int // ended twice, differently
	first   string
}

func (t *outcomes) visit(r *check.Run) {
	if t.runs[r.ID] {
		return
	}
	t.runs[r.ID] = true
	if !r.StartedAt.IsZero() {
		t.started++
	}
	if r.State.Terminal() {
		t.ended++
		if r.State != check.Succeeded {
			t.failed++
		}
	}
	if why := check.Contradiction(r, nil); why != "" {
		if t.twice++; t.first == "" {
			t.first = r.ID + ": " + why
		}
	}
}

// fill notes how many of n runs have no end and how many ended twice. Where nothing was called it
// also notes how many never began, or failed.
func (t *outcomes) fill(r *Result, n int, called bool) {
	r.Unended = max(0, n-t.ended)
	r.DuplicateOutcomes = t.twice
	if t.first != "" {
		r.Notes = append(r.Notes, "ended twice: "+t.first)
	}
	if more := len(t.runs) - n; more > 0 {
		r.Unexpected += more
		r.Notes = append(r.Notes, fmt.Sprintf("the API lists %d runs more than were asked for", more))
	}
	if !called {
		r.Missed = max(0, n-t.started) + t.failed // what failed did nothing, however fast
	}
}

// outcomes reads all runs of a tenant ("" = the default one) due between two instants. A job that
// came later was due when it came.
func (b *bench) outcomes(ctx context.Context, sys system, tenant string, from, to time.Time, load *Load) (*outcomes, error) {
	if load.Ended.After(to) {
		to = load.Ended
	}
	t := &outcomes{runs: make(map[string]bool)}
	c := &api.Client{URLs: sys.intake(), Tenant: tenant, HTTP: b.client, Log: b.cfg.Log}
	began := time.Now()
	w := api.Window{From: from, To: to.Add(time.Millisecond)}
	if err := c.List(ctx, w, func(r *api.Run) { t.visit(&r.Run) }); err != nil {
		return nil, fmt.Errorf("ask what became of the runs: %w", err)
	}
	b.cfg.Log.Info("asked what became of the runs", "runs", len(t.runs), "took", time.Since(began).Round(time.Millisecond))
	return t, nil
}
