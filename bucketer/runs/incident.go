package runs

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// Incidents is told what happens to runs of tenants that have rules for notifications.
type Incidents interface {
	// Wants reports whether a rule of the tenant may take the incident.
	Wants(ctx context.Context, n *schema.Incident) bool
	// InARow returns up to how many runs in a row that failed are to be counted before a rule of
	// the tenant can say whether it takes the incident; 0: they need not be counted. An error means
	// that the rules could not be read.
	InARow(ctx context.Context, n *schema.Incident) (most int, err error)
	// Delivered is told the record of a run that is a message, or of one of its attempts. It may be
	// told twice.
	Delivered(spec *schema.Spec, rec *schema.Record)
}

// TellIncidents says who is told of incidents. It must be called before a record is written.
func (r *Runs) TellIncidents(to Incidents) { r.Recorder.watch.incidents = to }

// TellFailures says who is told that a run of a job has failed for good that pauses when runs fail,
// once its line of history is held. It may be told twice. It must be called before a record is
// written.
func (r *Runs) TellFailures(to func(tenant string, job schema.JobID)) { r.Recorder.watch.failures = to }

// watch holds who is told of incidents, and of failures.
type watch struct {
	incidents Incidents
	failures  func(tenant string, job schema.JobID)
}

// failed tells of a run that has failed, whose line of history is held.
func (w *watch) failed(f *bucketer.Finished) {
	if spec := &f.Entry.Spec; w.failures != nil && spec.PauseAfter > 0 && !spec.Job.IsZero() && f.Attempt.Record.Ruined() {
		w.failures(spec.Tenant, spec.Job)
	}
}

const (
	// incidentError bounds what an incident says of an error, bytes.
	incidentError = 512
	// incidentLate is how long after its record an incident is written at the latest into the minute of
	// the record. It is shorter than notifications count a minute again. What is written later lies in
	// the minute in which it is written.
	incidentLate = 5 * time.Minute

	// inARowPage bounds the lines of history read at once, inARowReads how many such reads are made
	// to count runs in a row: a period without runs costs one.
	inARowPage  = 200
	inARowReads = 60
)

// incidentKinds are the events of the system of which tenants can be notified.
var incidentKinds = map[string]schema.NotificationKind{
	schema.EventRunFailed: schema.NotifyFailed, schema.EventDeadLetter: schema.NotifyDead, schema.EventRunMissed: schema.NotifyMissed,
	schema.EventRunLate: schema.NotifyLate,
}

// noteIncidents writes the incidents that records are, where a tenant may have a rule that takes
// them, and returns what went wrong, by index. It looks at finished[i] for each i of which.
func (r *Recorder) noteIncidents(ctx context.Context, finished []bucketer.Finished, which []int) map[int]error {
	failed := make(map[int]error)
	var all []schema.Incident
	var index []int
	known := make(patterns)
	for _, i := range which {
		n, err := r.incidentOf(ctx, &finished[i], known)
		switch {
		case err != nil:
			failed[i] = err
		case n != nil:
			all, index = append(all, *n), append(index, i)
		}
	}
	if all, index = r.wanted(ctx, finished, all, index, failed); len(all) == 0 {
		return failed
	}
	if err := r.store.PutIncidents(ctx, all); err != nil {
		for _, i := range index {
			failed[i] = err
		}
	}
	return failed
}

// wanted returns those of incidents that a rule takes. index says for each of them of which record
// it is, and failed gets what went wrong.
func (r *Recorder) wanted(ctx context.Context, finished []bucketer.Finished, all []schema.Incident, index []int, failed map[int]error) (taken []schema.Incident, of []int) {
	if r.watch.incidents == nil {
		return all, index
	}
	faults := r.countInARow(ctx, finished, all, index)
	for k := range all {
		switch {
		case faults[k] != nil:
			failed[index[k]] = faults[k]
		case r.watch.incidents.Wants(ctx, &all[k]):
			taken, of = append(taken, all[k]), append(of, index[k])
		}
	}
	return taken, of
}

// countInARow notes in incidents how many runs of their jobs in a row have failed, up to as many as
// a rule asks for, and returns what went wrong, by index in all. The lines of history of their own
// runs are held before: of runs that fail at once, who counts last counts all of them.
func (r *Recorder) countInARow(ctx context.Context, finished []bucketer.Finished, all []schema.Incident, index []int) map[int]error {
	faults, asked := make(map[int]error), make(map[int]int)
	var lines []schema.JobRun
	for k := range all {
		f := &finished[index[k]]
		if all[k].Job.IsZero() || !f.Attempt.Record.Ruined() {
			continue
		}
		most, err := r.watch.incidents.InARow(ctx, &all[k])
		if err != nil {
			faults[k] = err
		} else if line, ok := r.lineOf(f); ok && most > 0 {
			asked[k], lines = most, append(lines, line)
		}
	}
	if len(asked) == 0 {
		return faults
	}
	if err := r.core.PutHistory(ctx, lines); err != nil {
		for k := range asked {
			faults[k] = err
		}
		return faults
	}
	var g errgroup.Group
	g.SetLimit(announcesAtOnce)
	var mu sync.Mutex
	for k, most := range asked {
		g.Go(func() error {
			n := &all[k]
			failed, _, err := r.reader.FailedInARow(ctx, n.Job, n.Run, schema.EntryID(n.Job).Time().Add(-schema.HistoryPeriod), most)
			if n.InARow = failed; err != nil {
				mu.Lock()
				defer mu.Unlock()
				faults[k] = err
			}
			return nil
		})
	}
	_ = g.Wait() // each has noted what went wrong
	return faults
}

// FailedInARow returns how many runs of a job in a row have failed for good, at most `most`, and
// the line of the last of them: of the streak that a run is in, or of the latest (of is zero). A
// run that succeeded ends a streak. Runs are in the order of their due times. Those that were
// missed, skipped or cancelled do not count, and neither do those under way. Runs that were due
// before since are not looked at.
func (r *Reader) FailedInARow(ctx context.Context, job schema.JobID, of schema.RunID, since time.Time, most int) (failed int, last schema.JobRun, err error) {
	reads, page := 0, min(2*most+8, inARowPage) // most streaks are short, and lie close together
	var before schema.RunID
	for period := schema.PeriodOf(r.now().Add(time.Minute)); period >= schema.PeriodOf(since); period-- {
		for full := true; full; reads++ {
			if reads == inARowReads {
				return min(failed, most), last, nil
			}
			lines, err := r.store.JobRuns(ctx, job, period, before, page)
			if err != nil {
				return 0, last, fmt.Errorf("history of job %s: %w", job, err)
			}
			full, page = len(lines) == page, inARowPage
			for i := range lines {
				line := &lines[i]
				before = line.Run
				later := !of.IsZero() && line.Run.Compare(of) > 0
				switch {
				case line.Run.Time().Before(since), line.State == schema.StateSucceeded && !later:
					return min(failed, most), last, nil
				case line.State == schema.StateSucceeded: // what failed after it is of another streak
					failed = 0
				case line.State == schema.StateFailed:
					if failed++; failed == 1 {
						last = *line
					}
				}
				if failed >= most && !later {
					return most, last, nil
				}
			}
		}
	}
	return min(failed, most), last, nil
}

// incidentOf returns the incident that a record is, whether a rule takes it or not; nil: it is
// none. A run that the limit of its job skips is none: its tenant asks for that. known are patterns
// of errors of records beside it.
func (r *Recorder) incidentOf(ctx context.Context, f *bucketer.Finished, known patterns) (*schema.Incident, error) {
	if notifies, err := r.core.Notifies(ctx, f.Entry.Spec.Tenant); err != nil || !notifies || bucketer.IsSkippedByLimit(f.Attempt.Record) {
		return nil, err
	}
	names, late := eventsOf(f)
	var kinds []schema.NotificationKind
	for _, name := range names {
		if kind, ok := incidentKinds[name]; ok {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return nil, nil
	}
	rec := f.Attempt.Record
	n := newIncident(&f.Entry, kinds)
	n.Error, n.Status = strings.ToValidUTF8(rec.Error[:min(len(rec.Error), incidentError)], ""), rec.Status
	if rec.Outcome == schema.Missed {
		n.Error = rec.Reason
	}
	if late > schema.LateStart {
		n.Late = schema.Duration(late)
	}
	if rec.Ruined() {
		n.Pattern = known.of(rec)
	}
	name(&n, r.now(), rec.Finished, strconv.Itoa(f.Attempt.Number), strconv.FormatInt(int64(f.Attempt.Fence), 10))
	return &n, nil
}

// noteStuck writes the incident that the run of e is stuck.
func (r *Recorder) noteStuck(ctx context.Context, e *schema.Entry) error {
	if notifies, err := r.core.Notifies(ctx, e.Spec.Tenant); err != nil || !notifies {
		return err
	}
	n := newIncident(e, []schema.NotificationKind{schema.NotifyStuck})
	named := r.named(ctx, &n, e.Spec.Join.Until, string(schema.NotifyStuck))
	if named == nil {
		return nil
	}
	return r.store.PutIncidents(ctx, []schema.Incident{*named})
}

// NotePaused writes the incident that a job is about to be paused since its runs fail; last is the
// line of the last of them. It is the same incident when it is written again within incidentLate of
// the end of that run.
func (r *Recorder) NotePaused(ctx context.Context, job *schema.Job, last *schema.JobRun, because string) error {
	spec := &job.Current.Spec
	if notifies, err := r.core.Notifies(ctx, spec.Tenant); err != nil || !notifies {
		return err
	}
	n := schema.Incident{
		Tenant: spec.Tenant, Kinds: []schema.NotificationKind{schema.NotifyPaused}, Run: last.Run, Job: job.ID, JobName: spec.Name, Task: spec.Task, Labels: spec.Labels, Error: because,
	}
	if spec.Workflow != nil {
		n.Workflow = spec.Name
	}
	named := r.named(ctx, &n, last.Finished, string(schema.NotifyPaused))
	if named == nil {
		return nil
	}
	return r.store.PutIncidents(ctx, []schema.Incident{*named})
}

func newIncident(e *schema.Entry, kinds []schema.NotificationKind) schema.Incident {
	spec := &e.Spec
	n := schema.Incident{Tenant: spec.Tenant, Kinds: kinds, Run: e.Run(), Job: spec.Job, JobName: spec.JobName, Task: spec.Task, Labels: spec.Labels}
	if spec.Step != nil {
		n.Step = spec.Step.Name
	}
	if spec.Workflow != nil {
		n.Workflow = spec.JobName
	}
	return n
}

// named is name, now. It returns nil if no rule takes the incident.
func (r *Recorder) named(ctx context.Context, n *schema.Incident, at time.Time, parts ...string) *schema.Incident {
	name(n, r.now(), at, parts...)
	if to := r.watch.incidents; to != nil && !to.Wants(ctx, n) {
		return nil
	}
	return n
}

// name gives an incident of that instant its id; parts tell it from others of its run.
func name(n *schema.Incident, now, at time.Time, parts ...string) {
	if at = bucketer.CeilMilli(at); now.Sub(at) > incidentLate {
		at = now.Truncate(time.Minute)
	}
	hash := schema.HashOf(append([]string{"incident", n.Run.String()}, parts...)...)
	n.ID, n.Expires = schema.MakeEntryID(at, n.Run.Shard(), hash), at.Add(schema.IncidentRetention)
}
