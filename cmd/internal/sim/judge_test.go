package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/sealed"
)

// judge reads every run twice and judges them.
func (w *world) judge(ctx context.Context) (Outcome, error) {
	reader, err := w.reader(ctx)
	if err != nil {
		return w.out, err
	}
	first, err := w.read(ctx, reader)
	if err != nil {
		return w.out, err
	}
	time.Sleep(30 * time.Second)
	second, err := w.read(ctx, reader)
	if err != nil {
		return w.out, err
	}
	w.judgePending(second)
	h := check.History{Asked: w.asked, Acks: w.acks, Changes: w.widened(), SeenAll: true, Off: w.off(), Late: w.s.bound(w.c.away), Doubles: w.s.doubles(), StreamLosses: w.streamLosses, Labels: w.executorLabels()}
	for i := range h.Asked { // a job that arrives without a key may be at home there
		if id, ok := w.ids[h.Asked[i].Ref.Line]; ok && w.s.requires(h.Asked[i].Ref.Line) {
			h.Asked[i].Region, _ = w.c.regions.homes.Of(id.Shard())
		}
	}
	var ofJobs, ofLimits, ofRates, ofCrowds, ofPools, ofPreempting, ofKept, ofSteps, ofEvents, ofJoins []check.Sighting
	w.c.mu.Lock()
	h.Kills = slices.Clone(w.c.kills)
	for _, s := range w.c.seen {
		if s.Ref.Source == recurringSource {
			ofJobs = append(ofJobs, s)
			continue
		}
		if s.Ref.Source == limitedSource {
			ofLimits = append(ofLimits, s)
			continue
		}
		if s.Ref.Source == ratedSource {
			ofRates = append(ofRates, s)
			continue
		}
		if s.Ref.Source == concurrentSource {
			ofCrowds = append(ofCrowds, s)
			continue
		}
		if s.Ref.Source == pooledSource {
			ofPools = append(ofPools, s)
			continue
		}
		if s.Ref.Source == lowSource || s.Ref.Source == criticalSource {
			ofPreempting = append(ofPreempting, s)
			continue
		}
		if s.Ref.Source == longSource {
			ofKept = append(ofKept, s)
			continue
		}
		if s.Ref.Source == stepSource || s.Ref.Source == refusedSource {
			ofSteps = append(ofSteps, s)
			continue
		}
		if s.Ref.Source == listenerSource || s.Ref.Source == pausingSource {
			continue
		}
		if s.Ref.Source == eventSource {
			ofEvents = append(ofEvents, s)
			continue
		}
		if s.Ref.Source == joinSource || s.Ref.Source == joinRefused {
			ofJoins = append(ofJoins, s)
			continue
		}
		h.Seen = append(h.Seen, s)
	}
	w.c.mu.Unlock()
	if err := w.judgeWorkflows(ctx, reader, ofSteps); err != nil {
		return w.out, err
	}
	if err := w.judgeEvents(ctx, reader, ofEvents); err != nil {
		return w.out, err
	}
	if err := w.judgeJoins(ctx, reader, ofJoins); err != nil {
		return w.out, err
	}
	if err := w.judgeRated(ctx, reader, ofRates); err != nil {
		return w.out, err
	}
	if err := w.judgeConcurrent(ctx, reader, ofCrowds); err != nil {
		return w.out, err
	}
	w.judgeQuota(slices.Concat(ofCrowds, ofLimits))
	if err := w.judgePooled(ctx, reader, ofPools); err != nil {
		return w.out, err
	}
	if err := w.judgePreempting(ctx, reader, ofPreempting, h.Kills); err != nil {
		return w.out, err
	}
	w.judgeMinutes(ofJobs)
	if err := w.judgeRecurring(ctx, reader, ofJobs, h.Kills); err != nil {
		return w.out, err
	}
	if err := w.judgeLimited(ctx, reader, ofLimits); err != nil {
		return w.out, err
	}
	if err := w.judgePausing(ctx, reader); err != nil {
		return w.out, err
	}
	w.judgeLong(ofKept)
	if err := w.judgeEncrypted(ctx); err != nil {
		return w.out, err
	}
	if err := w.judgeOutputs(ctx, reader); err != nil {
		return w.out, err
	}
	for id, r := range second {
		h.Runs = append(h.Runs, check.Observation{ID: id, First: first[id], Second: r})
	}
	w.out.Report, err = w.judgeOneOff(&h)
	if err != nil {
		return w.out, err
	}
	if w.out.SettledLag, err = w.lag(ctx); err != nil {
		return w.out, err
	}
	metrics, err := w.c.gather()
	if err != nil {
		return w.out, err
	}
	w.out.Counts = make(map[string]float64)
	for _, name := range counted {
		if w.out.Counts[name], err = metrics.sum(name, ""); err != nil {
			return w.out, err
		}
	}
	w.out.Counts[apart] = float64(w.out.BeyondLimit)
	w.out.Counts[sealedRows], w.out.Counts[clearRows] = float64(w.out.SealedRows), float64(w.out.ClearRows)
	w.out.Counts[imported] = float64(w.out.Imported)
	w.out.Counts[preempted] = float64(w.out.Preempted)
	w.out.Counts[unfit] = float64(w.out.WaitedForPool)
	w.out.Counts[existing] = float64(w.out.Report.Existing)
	w.out.Counts[missedByPolicy] = float64(w.out.Report.MissedByPolicy)
	w.c.mu.Lock()
	for name, n := range w.c.crashed {
		w.out.Counts[name] = float64(n)
	}
	w.c.mu.Unlock()
	// By the counter: the outcome of an attempt that goes on takes the place of the record that
	// calls it lost.
	if w.out.Counts["lost"], err = metrics.sum("carillon_executor_attempts_total", string(schema.Lost)); err != nil {
		return w.out, err
	}
	if w.out.Counts[full], err = metrics.sum("carillon_executor_deferred_total", "limit"); err != nil {
		return w.out, err
	}
	if err := w.judgeRegions(ctx); err != nil {
		return w.out, err
	}
	w.judgePromise()
	if w.out.Failed() {
		w.out.Traces = w.traces(ctx)
	}
	return w.out, nil
}

// widened returns the changes with the span from request to acknowledgement widened by what clocks
// may be off, because executors record starts by their own clocks.
func (w *world) widened() []check.Change {
	off := w.off()
	changes := slices.Clone(w.changes)
	for i := range changes {
		c := &changes[i]
		c.Requested = c.Requested.Add(-off)
		if !c.Acked.IsZero() {
			c.Acked = c.Acked.Add(off)
		}
	}
	return changes
}

// off returns by how much clocks may be off.
func (w *world) off() time.Duration { return w.s.off() }

// movedWhileCalled returns how many duplicate executions are of runs that were called before the
// answer to a reschedule came: the time before it counts as well as the time after it.
func (w *world) movedWhileCalled() (n int) {
	first := make(map[string]time.Time)
	w.c.mu.Lock()
	for _, s := range w.c.seen {
		if at, ok := first[s.Run]; !ok || s.At.Before(at) {
			first[s.Run] = s.At
		}
	}
	w.c.mu.Unlock()
	for _, f := range w.out.Report.Faults {
		if f.Kind == check.FaultDuplicateExecution && slices.ContainsFunc(w.changes, func(c check.Change) bool {
			return c.Run == f.Run && c.Kind == check.Reschedule && (c.Acked.IsZero() || c.Acked.After(first[f.Run]))
		}) {
			n++
		}
	}
	return n
}

// judgePromise judges what this scenario promises in addition.
func (w *world) judgePromise() {
	p, out := w.s.Promise, &w.out
	w.c.mu.Lock()
	out.Wrong = append(out.Wrong, w.c.wrong...)
	w.c.mu.Unlock()
	wrong := func(format string, args ...any) { out.Wrong = append(out.Wrong, fmt.Sprintf(format, args...)) }
	if n := out.duplicates() - w.movedWhileCalled(); (p.Once || p.CalledOnce) && n > 0 {
		wrong("%d duplicate executions, promised none", n)
	}
	if n := out.Counts[redispatched]; p.Once && n > 0 {
		wrong("%v redispatches, promised none", n)
	}
	if n := out.Counts["lost"]; p.NoneLost && n > 0 {
		wrong("%v attempts were recorded as lost, and nobody died", n)
	}
	for cause, n := range out.Recurring.MissedReasons {
		if p.NoneGivenUp && cause != "changed" {
			wrong("%d nominal times were given up (%s), promised none", n, cause)
		}
	}
	if p.Policies && len(out.Recurring.Policies) != len(misfires) {
		wrong("only %d of %d policies were asked: %v", len(out.Recurring.Policies), len(misfires), out.Recurring.Policies)
	}
	if p.Lag > 0 && out.WorstLag > p.Lag {
		wrong("settled was %d buckets behind, promised %d at most", out.WorstLag, p.Lag)
	}
}

// watchLag records every minute how far settled lies behind, until over.
func (w *world) watchLag(ctx context.Context, over <-chan struct{}) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		// it is read from the store itself, which has no faults
		if lag, err := w.lag(ctx); err == nil {
			w.out.WorstLag = max(w.out.WorstLag, lag)
		}
	}
}

// lag returns how far the slowest shard's settled cursor lies behind, in buckets.
func (w *world) lag(ctx context.Context) (lag int, err error) {
	cursors, err := w.c.store.Cursors(ctx)
	for _, c := range cursors {
		lag = max(lag, int(schema.BucketOf(time.Now())-c.Settled))
	}
	return lag, err
}

func (w *world) reader(ctx context.Context) (*engine.Engine, error) {
	b, err := engine.New(bucketer.Config{Store: sealed.New(w.c.store, keyring, nil), Hints: noSignals{}, Signals: noSignals{}})
	if err != nil {
		return nil, err
	}
	if err := b.Refresh(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// read reads every run that lies in the store.
func (w *world) read(ctx context.Context, b *engine.Engine) (map[string]check.Reading, error) {
	found := make(map[string]check.Reading)
	now := time.Now()
	tenants := []string{tenant}
	if w.s.Regions != nil {
		tenants = append(tenants, otherTenant)
	}
	for from := now.Add(-w.s.Span - w.s.settling() - w.s.Outage - time.Hour); from.Before(now.Add(time.Hour)); from = from.Add(time.Hour) {
		for _, of := range tenants {
			win := runs.Window{Tenant: of, From: from, To: from.Add(time.Hour)}
			for pos := (&runs.Position{}); pos != nil; {
				page, next, err := b.Runs(ctx, win, *pos, 500)
				if err != nil {
					return nil, err
				}
				for _, r := range page {
					if !r.Entry.Spec.Job.IsZero() || r.Entry.Spec.Task == ratedTask || r.Entry.Spec.Task == concurrentTask || w.isLong(r.ID) || isOfJoins(&r) || isPooled(&r) || isPreempting(&r) {
						continue // judged by others
					}
					found[r.ID.String()] = check.Reading{Status: check.Found, At: time.Now(), Run: view(r)}
				}
				pos = next
			}
		}
	}
	for line, id := range w.ids {
		if _, ok := found[id.String()]; ok {
			continue
		}
		r, err := b.Run(ctx, w.tenantOf(line), id)
		switch {
		case errors.Is(err, schema.ErrNotFound):
			found[id.String()] = check.Reading{Status: check.Absent, At: time.Now()}
		case err != nil:
			return nil, err
		default:
			found[id.String()] = check.Reading{Status: check.Found, At: time.Now(), Run: view(r)}
		}
	}
	for _, of := range tenants {
		if err := w.noteDeadLetters(ctx, b, of, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// noteDeadLetters records which of the runs have a dead letter of the tenant that waits.
func (w *world) noteDeadLetters(ctx context.Context, b *engine.Engine, of string, found map[string]check.Reading) error {
	ids := make([]schema.RunID, 0, len(found))
	for id, r := range found {
		if r.Status != check.Found {
			continue
		}
		run, err := schema.ParseEntryID(id)
		if err != nil {
			return err
		}
		ids = append(ids, run)
	}
	resolutions, err := b.Resolutions(ctx, of, ids)
	if err != nil {
		return err
	}
	for id, resolution := range resolutions {
		r := found[id.String()]
		r.Run.DeadLetter = r.Run.DeadLetter || resolution == nil
		found[id.String()] = r
	}
	return nil
}

// view is the run as the API shows it.
func view(r runs.Run) check.Run {
	v := check.Run{ID: r.ID.String(), State: check.State(r.State), DueAt: r.Current.Due(), Preempted: schema.CountPreempted(r.Attempts)}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Number == 0 || a.Unstarted() {
			continue
		}
		out := check.Attempt{Number: a.Number}
		if a.Record != nil {
			out.StartedAt, out.FinishedAt, out.Outcome = a.Record.Started, a.Record.Finished, check.Outcome(a.Record.Outcome)
			out.StatusCode, out.Executor, out.Region, out.Redispatched = a.Record.Status, a.Record.Executor, a.Record.Region, a.Record.Redispatched
		} else if a.Session != nil {
			out.StartedAt = a.Session.Started
		}
		if schema.IsSuperseded(r.Attempts, i) {
			out.Outcome = check.OutcomeSuperseded
		}
		if v.StartedAt.IsZero() || out.StartedAt.Before(v.StartedAt) {
			v.StartedAt = out.StartedAt
		}
		v.Attempts = append(v.Attempts, out)
	}
	if v.Preempted > 0 { // such a start is not among the attempts
		v.StartedAt = r.Started()
	}
	if !v.StartedAt.IsZero() {
		late := float64(v.StartedAt.Sub(r.Current.Spec.Start(r.Current.ID)).Milliseconds())
		v.LatenessMS = &late
	}
	return v
}

// noSignals drops hints and signals.
type noSignals struct{}

func (noSignals) Near(schema.Shard, []schema.Entry) {}
func (noSignals) Signal(string, []byte)             {}
