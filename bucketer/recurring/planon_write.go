package recurring

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// write holds what was decided: first the next occurrences, last what became of entries that do not
// start.
func (p *planning) write(ctx context.Context) error {
	ahead, jumps, err := p.ahead(ctx)
	if err != nil {
		return err
	}
	if err := p.b.core.WriteAll(ctx, ahead); err != nil {
		p.b.uncertain.add(ahead)
		return fmt.Errorf("plan on: %w", err)
	}
	if err := p.jump(ctx, jumps); err != nil {
		return err
	}
	if err := p.b.core.PutHistory(ctx, p.lines); err != nil {
		return err
	}
	if err := p.leaveClaimed(ctx); err != nil {
		return err
	}
	if err := p.b.drop(ctx, p.dropped); err != nil {
		return err
	}
	for _, job := range p.finished {
		p.b.changer.ending.add(job)
	}
	return nil
}

// leaveClaimed leaves entries that were to be dropped to an executor that has claimed their runs.
func (p *planning) leaveClaimed(ctx context.Context) error {
	var unclaimed []bucketer.Finished
	for i := range p.dropped {
		d := &p.dropped[i]
		if o := d.Attempt.Record.Outcome; o != schema.Missed && o != schema.Cancelled {
			unclaimed = append(unclaimed, *d)
			continue
		}
		ok, err := p.b.runs.EndUnclaimed(ctx, &d.Entry, d.Attempt)
		if err != nil {
			return fmt.Errorf("give up a run: %w", err)
		}
		if ok {
			unclaimed = append(unclaimed, *d)
			continue
		}
		k := slices.IndexFunc(p.entries, func(e schema.Entry) bool { return e.ID == d.Entry.ID })
		p.verdicts[k] = bucketer.Doubtful
	}
	p.dropped = unclaimed
	return nil
}

// ahead returns the rows of the next occurrences, and the steps that are overdue and to be decided.
// If the sweep of an occurrence may be past, ahead looks for its row first: it may have been held
// and published. If a write of ours failed, the row may have been held too late for its sweep, so
// the late rule applies. A row that another owner left like that is found by the sweep that begins
// with a take-over.
func (p *planning) ahead(ctx context.Context) (rows []schema.Entry, jumps []step, err error) {
	var past []step
	for _, st := range slices.Concat(p.steps, p.begins) {
		if st.s.due(st.nominal).Before(p.now.Add(-bucketer.LateAfter)) {
			past = append(past, st)
			continue
		}
		row, err := p.b.occurrence(st.s, st.nominal, p.now)
		if err != nil {
			return nil, nil, err
		}
		rows = append(rows, row)
		if st.i >= 0 {
			p.misfire(st.i, st.s)
		}
	}
	if len(past)+len(p.changed) == 0 {
		return rows, nil, nil
	}
	found, err := p.b.find(ctx, slices.Concat(past, p.changed))
	if err != nil {
		return nil, nil, err
	}
	p.widen(found)
	var met []schema.Entry
	for _, st := range p.changed {
		if row, there := found[st.s.id(st.nominal)]; there && p.b.uncertain.has(row.ID) {
			met = append(met, row) // the row says what becomes of those after it
		}
	}
	for _, st := range past {
		row, there := found[st.s.id(st.nominal)]
		overdue := st.i >= 0 && p.now.Sub(p.entries[st.i].MisfireFrom()) > schema.Overdue
		switch {
		case there:
			if p.b.uncertain.has(row.ID) {
				met = append(met, row)
			}
			if st.i >= 0 {
				p.misfire(st.i, st.s)
			}
		case overdue && (p.jumps == maxJumps || st.s.Number != st.job.Current.Number):
			// it is of the generation before, and the cut, which is near, decides
			p.verdicts[st.i] = bucketer.Undecided
		case overdue:
			p.jumps++
			jumps = append(jumps, st)
		default:
			if row, err = p.b.occurrence(st.s, st.nominal, p.now); err != nil {
				return nil, nil, err
			}
			rows = append(rows, row)
		}
	}
	if err := p.b.core.CheckLate(ctx, met); err != nil {
		return nil, nil, err
	}
	p.b.uncertain.drop(met)
	return rows, jumps, nil
}

// jump leaves what lies between overdue entries and now to catch-up entries, each decided once for
// every node, and drops the overdue entries.
func (p *planning) jump(ctx context.Context, jumps []step) error {
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(jumpsAtOnce)
	for _, st := range jumps {
		g.Go(func() error {
			e := p.entries[st.i]
			to, ends, err := p.b.jump(ctx, st.s, e.Spec.Nominal, p.now)
			if err != nil {
				return err
			}
			replaced := p.b.runs.NotStarted(e, schema.Record{Outcome: schema.Replaced, To: to}, p.now)
			mu.Lock()
			defer mu.Unlock()
			p.verdicts[st.i] = bucketer.Dropped
			p.dropped = append(p.dropped, bucketer.Finished{Entry: e, Attempt: replaced})
			if ends {
				p.finished = append(p.finished, st.job)
			}
			return nil
		})
	}
	return g.Wait()
}

// widen makes entries that a change dropped stand for the times after them, before the cut, that
// were never planned.
func (p *planning) widen(found map[schema.EntryID]schema.Entry) {
	for _, st := range p.changed {
		if _, there := found[st.s.id(st.nominal)]; there {
			continue
		}
		for k := range p.dropped {
			if d := &p.dropped[k]; d.Entry.ID == p.entries[st.i].ID {
				m := d.Attempt.Record.Missed
				m.To, _ = st.s.last(st.nominal, st.cut.Add(-time.Millisecond))
				m.Count = st.s.count(m.From, m.To)
			}
		}
	}
}

// drop records what became of entries that do not start, after what follows from it.
func (j *Planner) drop(ctx context.Context, dropped []bucketer.Finished) error {
	if len(dropped) == 0 {
		return nil
	}
	var lines []schema.JobRun
	attempts := make([]schema.Attempt, len(dropped))
	for i := range dropped {
		attempts[i] = dropped[i].Attempt
		if line, ok := runs.HistoryLine(&dropped[i].Entry, &dropped[i].Attempt); ok {
			lines = append(lines, line)
		}
	}
	if err := j.core.PutHistory(ctx, lines); err != nil {
		return err
	}
	if err := j.runs.Record(ctx, attempts); err != nil {
		return err
	}
	for i := range dropped {
		j.core.CountMissed(&dropped[i].Entry, attempts[i].Record)
	}
	return nil
}

// find reads the rows of the steps' occurrences.
func (j *Reader) find(ctx context.Context, steps []step) (map[schema.EntryID]schema.Entry, error) {
	ids := make([]schema.EntryID, len(steps))
	for i, st := range steps {
		ids[i] = st.s.id(st.nominal)
	}
	return j.core.Stored(ctx, ids)
}
