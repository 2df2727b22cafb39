package logs

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// lastKey sorts after every report.
var lastKey = schema.PartKey{Attempt: math.MaxInt, Fence: math.MaxInt64}

// leaf reads a run from at on, and moves at. It reports whether it read all that there is now. The
// run was read before its log, so if it has ended nothing comes any more.
func (a *answer) leaf(ctx context.Context, run *runs.Run, at *Reading) (all bool, err error) {
	if *at == (Reading{}) {
		a.page.Looked.Runs++
	}
	if a.q.Kind != ErrorKind && mayHaveLines(run, at.Log.Report) {
		for more := true; more; {
			if a.spent() {
				return false, nil
			}
			a.page.Looked.Logs++
			after := at.Log.Report
			after.Number = max(after.Number-1, 0)
			var reports []runs.LogReport
			if reports, more, err = a.runs.Reports(ctx, run.ID, after); err != nil {
				return false, fmt.Errorf("search logs: %w", err)
			}
			a.moved = true
			for i := range reports {
				if !a.errors(run, reports[i].PartKey, at) || !a.lines(run, &reports[i], at) {
					return false, nil
				}
			}
		}
	}
	a.moved = true
	return a.errors(run, lastKey, at), nil
}

// lines takes the lines of a report, and reports whether it took all of them.
func (a *answer) lines(run *runs.Run, r *runs.LogReport, at *Reading) bool {
	if r.PartKey != at.Log.Report {
		at.Log = runs.LogPosition{Report: r.PartKey}
	}
	if r.Fault != nil {
		a.page.Looked.Damaged++
	}
	all := len(r.Lines)
	if r.Dropped > 0 {
		all++
	}
	for ; at.Log.Line < all; at.Log.Line++ {
		if a.full() {
			return false
		}
		item := Item{Run: run, Kind: LineKind, Attempt: r.Attempt, key: fmt.Sprintf("%d-%d-%d-%d", r.Attempt, r.Fence, r.Number, at.Log.Line)}
		if n := at.Log.Line; n < len(r.Lines) {
			item.At, item.Text = r.Lines[n].At, r.Lines[n].Text
		} else {
			item.Dropped = r.Dropped
		}
		a.take(item)
	}
	at.Log.Report.Number, at.Log.Line = at.Log.Report.Number+1, 0
	return true
}

// errors takes the errors of executions before that of key which were not told yet, and reports
// whether it took all of them.
func (a *answer) errors(run *runs.Run, key schema.PartKey, at *Reading) bool {
	for i := range run.Attempts {
		t := &run.Attempts[i]
		this := schema.PartKey{Attempt: t.Number, Fence: t.Fence}
		rec := t.Record
		if rec == nil || rec.Unstarted || compareExecutions(this, at.Told) <= 0 || compareExecutions(this, key) >= 0 {
			continue
		}
		text := rec.Error
		if a.q.Says != nil {
			text = a.q.Says(rec)
		}
		if text == "" || rec.Outcome == schema.Succeeded {
			continue
		}
		if a.full() {
			return false
		}
		a.take(Item{Run: run, Kind: ErrorKind, Attempt: t.Number, At: rec.Finished, Text: text, key: fmt.Sprintf("%d-%d-error", t.Number, t.Fence)})
		at.Told = this
	}
	return true
}

// compareExecutions compares by attempt, then by fence.
func compareExecutions(x, y schema.PartKey) int {
	return cmp.Or(cmp.Compare(x.Attempt, y.Attempt), cmp.Compare(x.Fence, y.Fence))
}

// mayHaveLines reports whether an execution of the run from that report on may have logged lines.
func mayHaveLines(run *runs.Run, from schema.PartKey) bool {
	for i := range run.Attempts {
		t := &run.Attempts[i]
		if t.Number == 0 || compareExecutions(schema.PartKey{Attempt: t.Number, Fence: t.Fence}, from) < 0 {
			continue
		}
		rec := t.Record
		switch {
		case rec == nil, rec.Outcome == schema.Lost && !rec.Unstarted, rec.Lines > 0, rec.LinesDropped > 0, rec.Outlived:
			return true
		}
	}
	return false
}
