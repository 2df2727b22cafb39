package recurring

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

const (
	// catchUpRuns bounds the runs that one step of a catch-up starts; the next step comes
	// catchUpEvery later.
	catchUpRuns  = 10
	catchUpEvery = time.Second
)

// missedRange is what was decided, once for every node, about an overdue occurrence: which nominal
// times count as missed. It is stored as JSON.
type missedRange struct {
	Last time.Time `json:"last"` // the last nominal time that was due at At or before
	At   time.Time `json:"at"`   // when it was decided, ms
}

// jump decides what becomes of the nominal times of s from `from` on. The occurrence of `from` is
// overdue, and nothing after it was planned. A catch-up entry takes over the nominal times that are
// due by now, and the first one after them is planned. jump returns the catch-up entry, and whether
// the schedule names no further time.
//
// If we crash after the decision, the next node that finds the occurrence reads the decision and
// writes the same rows.
func (j *Planner) jump(ctx context.Context, s *series, from, now time.Time) (to schema.EntryID, ends bool, err error) {
	last, ok := s.last(from, now)
	if !ok {
		last = from
	}
	text, err := json.Marshal(missedRange{Last: last, At: now.UTC().Truncate(time.Millisecond)})
	if err != nil {
		return schema.EntryID{}, false, err
	}
	key := "catch-up/" + s.job.String() + "/" + strconv.FormatInt(s.Number, 10) + "/" + strconv.FormatInt(from.UnixMilli(), 10)
	decided, err := j.store.Decide(ctx, key, string(text), j.core.Expiry(now, now))
	if err != nil {
		return schema.EntryID{}, false, fmt.Errorf("decide on what was missed: %w", err)
	}
	var g missedRange
	if err := json.Unmarshal([]byte(decided), &g); err != nil {
		return schema.EntryID{}, false, fmt.Errorf("decision %s: %w", key, err)
	}
	row, err := j.catchUp(s, from, from, g.Last, g.At, now)
	if err != nil {
		return schema.EntryID{}, false, err
	}
	next, more := s.Next(g.Last)
	if more {
		// The next occurrence is held first: no node looks at this one again once the catch-up
		// entry was read.
		row, err := j.occurrence(s, next, now)
		if err == nil {
			err = j.writeAbsent(ctx, []schema.Entry{row})
		}
		if err != nil {
			return schema.EntryID{}, false, err
		}
	}
	return row.ID, !more, j.writeAbsent(ctx, []schema.Entry{row})
}

// writeAbsent writes those of the rows that are not there.
func (j *Planner) writeAbsent(ctx context.Context, rows []schema.Entry) error {
	found, err := j.core.Stored(ctx, bucketer.IDsOf(rows))
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(e schema.Entry) bool {
		_, there := found[e.ID]
		return there && !j.uncertain.has(e.ID)
	})
	if err := j.core.WriteAll(ctx, rows); err != nil {
		j.uncertain.add(rows)
		return err
	}
	j.uncertain.drop(rows)
	return nil
}

// catchUp makes the entry that works off the nominal times of s from `at` to `until`, due at due.
// Its id is a function of the job, the generation, the first missed time, `at` and due.
func (j *Planner) catchUp(s *series, first, at, until, due, now time.Time) (schema.Entry, error) {
	hash := schema.HashOf("catch-up", s.job.String(), strconv.FormatInt(s.Number, 10), strconv.FormatInt(first.UnixMilli(), 10), strconv.FormatInt(at.UnixMilli(), 10))
	id := schema.MakeEntryID(due, s.job.Shard(), hash)
	return schema.NewEntry(id, schema.Spec{
		Tenant: s.Spec.Tenant, Kind: schema.KindCatchUp, Of: s.id(first), Nominal: at, Until: until, Accepted: due.UnixMicro(),
		Job: s.job, JobName: s.Spec.Name, Generation: s.Number, Priority: s.Spec.Priority,
	}, nil, j.core.Expiry(due, now))
}

// CatchUp takes the next step of each of the catch-up entries. By the policy of its job a step
// starts at most catchUpRuns runs, and records the stretches that are given up as missed. CatchUp
// stops after about `most` runs. It returns how many of the entries, from the first on, are done:
// an attempt 0 says so, and what is left is another catch-up entry.
//
// If we crash in between, the step is taken again as of the same instant and writes the same rows.
func (j *Planner) CatchUp(ctx context.Context, entries []schema.Entry, most int, now time.Time) (int, error) {
	ids := make([]schema.JobID, len(entries))
	for i := range entries {
		ids[i] = entries[i].Spec.Job
	}
	jobs, err := j.Jobs(ctx, ids)
	if err != nil {
		return 0, err
	}
	for i := range entries {
		if most <= 0 {
			return i, nil
		}
		n, err := j.catchUpStep(ctx, &entries[i], jobs[entries[i].Spec.Job], now)
		if err != nil {
			return i, err
		}
		most -= max(n, 1)
	}
	return len(entries), nil
}

// catchUpStep takes one step and returns how many runs it started.
func (j *Planner) catchUpStep(ctx context.Context, e *schema.Entry, job *schema.Job, now time.Time) (int, error) {
	s, reason, err := j.caughtUp(e, job)
	if err != nil {
		j.reportFault(err)
		return 0, j.postpone(ctx, e, now)
	}
	if s == nil {
		// How many they are is not known any more.
		lost := schema.Stretch{From: e.Spec.Nominal, To: e.Spec.Until, Reason: reasonChanged}
		rec := schema.Record{Outcome: schema.Missed, Reason: lost.Reason, Missed: &lost}
		return 0, j.drop(ctx, []bucketer.Finished{{Entry: *e, Attempt: j.runs.NotStarted(*e, rec, now)}})
	}
	// What a step does depends on when it is taken, and on whether the job was changed by then.
	// Several nodes may take it, or one again after a crash. So the first one decides.
	if now, reason, err = j.decideStep(ctx, e.ID, reason, now); err != nil {
		return 0, err
	}
	st := s.step(e, reason, now)
	if err := j.giveUp(ctx, s, st.missed, now); err != nil {
		return 0, err
	}
	to, err := j.start(ctx, s, e, st, now)
	if err != nil {
		return 0, err
	}
	handed := j.runs.NotStarted(*e, schema.Record{Outcome: schema.Replaced, To: to}, now)
	return len(st.runs), j.runs.Record(ctx, []schema.Attempt{handed})
}

// notUnderstoodFor is how long a catch-up waits whose schedule cannot be understood.
const notUnderstoodFor = 10 * time.Minute

// postpone replaces a catch-up entry whose schedule is not understood by one that says the same and
// is due later. Its id is a function of the entry's id and its due time.
func (j *Planner) postpone(ctx context.Context, e *schema.Entry, now time.Time) error {
	due := e.Due().Add(max(now.Sub(e.Due()), 0).Truncate(notUnderstoodFor) + notUnderstoodFor)
	spec := e.Spec
	spec.Accepted = due.UnixMicro()
	later, err := schema.NewEntry(schema.MakeEntryID(due, e.ID.Shard(), schema.HashOf("put off", e.ID.String())), spec, nil, j.core.ExpiryOf(&spec, due, now))
	if err != nil {
		return err
	}
	_, err = j.runs.Replace(ctx, []schema.Entry{*e}, []schema.Entry{later})
	return err
}

// reasonChanged is why what was missed is given up when its job was changed.
const reasonChanged = "changed: the job was changed before they were worked off"

// decideStep returns as of when, in whole ms, a step is taken, and why all of it is given up ("" =
// it is not): as of now and for reason, unless another node has decided before. What is stored is
// the instant in ms, after a plus sign if all is given up.
func (j *Planner) decideStep(ctx context.Context, id schema.EntryID, reason string, now time.Time) (time.Time, string, error) {
	key, mine := "catch-up step/"+id.String(), strconv.FormatInt(now.UnixMilli(), 10)
	if reason != "" {
		mine = "+" + mine
	}
	decided, err := j.store.Decide(ctx, key, mine, j.core.Expiry(now, now))
	if err != nil {
		return time.Time{}, "", fmt.Errorf("decide on a step: %w", err)
	}
	ms, err := strconv.ParseInt(decided, 10, 64)
	if err != nil {
		return time.Time{}, "", fmt.Errorf("decision %s: %w", key, err)
	}
	if strings.HasPrefix(decided, "+") {
		reason = cmp.Or(reason, reasonChanged)
	} else {
		reason = ""
	}
	return time.UnixMilli(ms).UTC(), reason, nil
}

// caughtUp returns the series of a catch-up entry, nil if it is not known any more, and the reason
// to give up all of it: "" while its generation is in force.
func (j *Planner) caughtUp(e *schema.Entry, job *schema.Job) (*series, string, error) {
	if job == nil {
		return nil, "", nil
	}
	number := e.Spec.Generation
	g, reason := &job.Current, ""
	switch {
	case number == job.Current.Number && (g.State == schema.JobActive || g.State == schema.JobFinished):
	case job.Before != nil && number == job.Before.Number && g.State == schema.JobFinished:
		g = job.Before
	case job.Before != nil && number == job.Before.Number:
		g, reason = job.Before, "changed: the job was "+string(job.Current.State)+" before they were worked off"
		if job.Current.State == schema.JobActive {
			reason = reasonChanged
		}
	default:
		return nil, "", nil
	}
	s, err := j.series.of(job.ID, g)
	return s, reason, err
}

// catchUpStep is what one step of a catch-up does.
type catchUpStep struct {
	missed []schema.Stretch // given up, in order
	runs   []time.Time      // nominal times to start
	next   time.Time        // where the next step goes on; zero = nothing is left
}

// step decides on the step of a catch-up entry at now. With a reason, all of it is given up.
func (s *series) step(e *schema.Entry, reason string, now time.Time) (st catchUpStep) {
	at, until := e.Spec.Nominal, e.Spec.Until
	give := func(to time.Time, reason string) {
		st.missed = append(st.missed, schema.Stretch{From: at, To: to, Count: s.count(at, to), Reason: reason})
		next, ok := s.Next(to)
		if at = next; !ok || next.After(until) {
			at = time.Time{}
		}
	}
	m := s.Spec.Misfire
	if reason != "" {
		give(until, reason)
		return st
	}
	if limit, ok := m.Limit(); ok {
		if to, ok := s.last(at, earliest(s.due(until), now.Add(-limit-time.Millisecond))); ok {
			give(to, m.Reason())
		}
	}
	if policyOf(m) == schema.RunLatest && !at.IsZero() && at.Before(until) {
		if to, ok := s.Last(at.Add(-time.Millisecond), until.Add(-time.Millisecond)); ok {
			give(to, reasonLatestOnly)
		}
	}
	for len(st.runs) < catchUpRuns && !at.IsZero() {
		st.runs = append(st.runs, at)
		next, ok := s.Next(at)
		if at = next; !ok || next.After(until) {
			at = time.Time{}
		}
	}
	st.next = at
	return st
}

// giveUp records stretches of nominal times as missed, each under the run of its first time. It
// writes the record, then the row, so that the row never starts.
func (j *Planner) giveUp(ctx context.Context, s *series, missed []schema.Stretch, now time.Time) error {
	for i := range missed {
		m := missed[i]
		row, err := j.occurrence(s, m.From, now)
		if err != nil {
			return err
		}
		rec := schema.Record{Outcome: schema.Missed, Reason: m.Reason, Missed: &m}
		if err := j.drop(ctx, []bucketer.Finished{{Entry: row, Attempt: j.runs.NotStarted(row, rec, now)}}); err != nil {
			return err
		}
		if err := j.store.PutEntries(ctx, []schema.Entry{row}); err != nil {
			return fmt.Errorf("row of a missed stretch: %w", err)
		}
	}
	return nil
}

// start starts the runs of a step, and writes the entry of the next step. It returns the id of that
// entry; zero means that nothing is left.
//
// Each run gets a late entry that starts it, and an attempt 0 that says so before its row is there.
// Otherwise a sweep that finds the row would plan its job on after it, which the catch-up does.
func (j *Planner) start(ctx context.Context, s *series, e *schema.Entry, st catchUpStep, now time.Time) (schema.EntryID, error) {
	var handed []schema.Attempt
	var births, rows []schema.Entry
	for _, nominal := range st.runs {
		birth, err := j.occurrence(s, nominal, now)
		if err != nil {
			return schema.EntryID{}, err
		}
		id := schema.MakeEntryID(e.Due(), e.ID.Shard(), schema.HashOf("caught up", birth.ID.String()))
		late, err := j.core.LaterStart(&birth, schema.KindLate, id, 1, e.Due())
		if err != nil {
			return schema.EntryID{}, err
		}
		spec := late.Spec
		spec.Until = e.Spec.Until
		if late, err = schema.NewEntry(id, spec, late.Payload, late.Expires); err != nil {
			return schema.EntryID{}, err
		}
		handed = append(handed, j.runs.NotStarted(birth, schema.Record{Outcome: schema.Replaced, To: id}, now))
		births, rows = append(births, birth), append(rows, late)
	}
	if err := j.runs.Record(ctx, handed); err != nil {
		return schema.EntryID{}, err
	}
	for _, batch := range bucketer.Batches(births) {
		if err := j.core.PutRows(ctx, bucketer.Pick(births, batch)); err != nil {
			return schema.EntryID{}, fmt.Errorf("runs that are caught up with: %w", err)
		}
		j.core.CountWritten(bucketer.Pick(births, batch))
	}
	var to schema.EntryID
	if !st.next.IsZero() {
		due := e.Due()
		due = due.Add(max(now.Sub(due), 0).Truncate(catchUpEvery) + catchUpEvery)
		row, err := j.catchUp(s, e.Run().Time().Add(-s.Offset()), st.next, e.Spec.Until, due, now)
		if err != nil {
			return schema.EntryID{}, err
		}
		to, rows = row.ID, append(rows, row)
	}
	return to, j.writeAbsent(ctx, rows)
}

// earliest returns the earlier of two instants.
func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
