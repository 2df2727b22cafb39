package executor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/executor/trace"
	"carillon.dev/carillon/schema"
)

// spans sends the spans of runs. Where nothing is traced, each of its methods costs a comparison.
type spans struct{ trace.Tracer }

// exemplar returns what names the trace of a run in a histogram; nil: it is not sent.
func (s spans) exemplar(e *schema.Entry, sent bool) prometheus.Labels {
	if !sent || !s.On() {
		return nil
	}
	return prometheus.Labels{"trace_id": trace.ID(e.Run())}
}

// attempt sends the spans of an attempt that ended as row says, if they are to be sent, and reports
// whether they are.
func (s spans) attempt(a *attempt, row *schema.Attempt) bool {
	if !s.On() || !a.traced && !s.Sends(a.entry, row.Number, 0, row.Record.Outcome) {
		return false
	}
	s.Sink.Send((&trace.Attempt{
		Entry: a.entry, Number: row.Number, Fence: row.Fence, Work: &a.work.Work, Record: row.Record, Received: a.receivedAt,
	}).Spans()...)
	return true
}

// stopped sends the spans of an attempt that the stop of the executor cut short at now, if its callee
// was told that it will. It does not count: what follows is not known, so neither is whether there
// will be a span of the run for any other.
func (s spans) stopped(a *attempt, now time.Time) {
	if !s.On() || !a.traced {
		return
	}
	rec := schema.Record{
		Executor: a.x.name, Region: a.x.region, Started: a.started, Finished: now.UTC(), Outcome: schema.Lost, Error: target.ErrStopped.Error(),
	}
	s.attempt(a, &schema.Attempt{Number: a.number, Fence: a.fence, Record: &rec})
}

// lost sends the spans of attempts of dead executors, as they were recorded: they are what their
// callees were told of. The span of the run follows, if one of the rows ends it.
func (s spans) lost(e *schema.Entry, work *schema.Work, rows []schema.Attempt) {
	if !s.On() {
		return
	}
	for i := range rows {
		s.lostClaim(e, work, &rows[i])
	}
	for i := range rows {
		if s.endOf(e, &rows[i]) {
			return
		}
	}
}

// lostClaim is lost for an attempt whose row another write says.
func (s spans) lostClaim(e *schema.Entry, work *schema.Work, row *schema.Attempt) {
	if s.On() && s.Sends(e, row.Number, 0, row.Record.Outcome) {
		s.Sink.Send((&trace.Attempt{Entry: e, Number: row.Number, Fence: row.Fence, Work: work, Record: row.Record}).Spans()...)
	}
}

// ended sends the spans of the runs that the rows end, now that the store has them.
func (s spans) ended(done []pendingWrite) {
	if !s.On() {
		return
	}
	for i := range done {
		if w := &done[i]; w.ends {
			s.endOf(w.entry, &w.attempt)
		}
	}
}

// endOf sends the span of a run if the row ends it, and reports whether it does.
func (s spans) endOf(e *schema.Entry, row *schema.Attempt) bool {
	rec := row.Record
	if rec == nil || !rec.Next.IsZero() || rec.Unstarted || rec.Outcome == schema.Lost && !rec.Final || rec.Outcome == schema.Replaced {
		return false
	}
	number, late := row.Number, time.Duration(0)
	switch {
	case number == 1:
		late = rec.Started.Sub(e.LatenessFrom())
	case number == 0:
		number = e.Spec.AttemptNumber() - 1 // the last that was made
	}
	if s.Sends(e, max(number, e.Spec.AttemptNumber()), late, rec.Outcome) {
		s.Sink.Send((&trace.Run{Entry: e, Number: number, Record: rec}).Span())
	}
	return true
}
