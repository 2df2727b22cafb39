package bucketer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

const (
	// unsureFor is how long a run waits whose generation the job's row does not know: whoever wrote it is about to commit, or never will.
	unsureFor = 30 * time.Second
	// overtakenAfter is how long a later occurrence must have been due before an overdue one is given up for it. It is more than a
	// catch-up takes from choosing the latest occurrence to starting it.
	overtakenAfter = 10 * time.Second
	// maxJumps bounds the decisions (conditional writes) of one call of PlanOn, jumpsAtOnce those under way. What is beyond waits.
	maxJumps    = 64
	jumpsAtOnce = 8
	// jobsAtOnce bounds the reads of jobs under way for one call.
	jobsAtOnce = 8
)

// Verdict says what becomes of an entry whose job was looked at.
type Verdict uint8

// The verdicts.
const (
	// Publish: the entry may start. The job went on before: its next occurrence is held.
	Publish Verdict = iota
	// Doubtful: as Publish, but only before an instant that the executor must learn from the job's row.
	Doubtful
	// Dropped: nothing starts from the entry, and its rows say so.
	Dropped
	// Later: nothing is decided yet; to be asked again.
	Later
)

// PlanOn looks at the jobs of entries that were met before they start, writes what comes next in each job, and says of each entry whether
// it may be published. Entries of one-off jobs, and later starts of runs that have started, are Publish at once.
//
// The next occurrence of a run that may be published is held when PlanOn returns, as schema.EntryWriter's nil means it. An
// error means that nothing is known of any of the entries: what was written is written again by the next call.
//
// If we crash at any point, whoever meets the entries next does the same again, to the same ids.
func (b *Bucketer) PlanOn(ctx context.Context, entries []schema.Entry, now time.Time) ([]Verdict, error) {
	p := planning{b: b, now: now, entries: entries, verdicts: make([]Verdict, len(entries))}
	var err error
	if p.jobs, err = b.jobsOf(ctx, entries); err != nil {
		return nil, err
	}
	for i := range entries {
		if e := &entries[i]; e.FirstOfJob() && e.Fault == nil {
			p.judge(i)
		}
	}
	if err := p.write(ctx); err != nil {
		return nil, err
	}
	return p.verdicts, nil
}

// planning is one PlanOn under way.
type planning struct {
	b        *Bucketer
	now      time.Time
	entries  []schema.Entry
	jobs     map[schema.JobID]*schema.Job
	verdicts []Verdict

	steps    []step     // what comes next after entries that may be published
	begins   []step     // first occurrences of generations in force, of whose generation before an entry was dropped
	changed  []step     // what would have come next, before the cut, after entries that were missed because of it
	dropped  []Finished // what is recorded instead of a start
	lines    []schema.JobRun
	finished []*schema.Job
	jumps    int
}

// step is a nominal time of a series that is to be held.
type step struct {
	i       int // the entry that it follows on; -1: none
	job     *schema.Job
	s       *series
	nominal time.Time
	cut     time.Time // of a series that was replaced: no nominal time due at it or later
}

// judge decides on entry i by the row of its job.
func (p *planning) judge(i int) {
	e := &p.entries[i]
	job, ok := p.jobs[e.Spec.Job]
	right := schema.Right{Unknown: true, Outcome: schema.Cancelled, Reason: "the job does not exist"}
	if ok {
		right = job.Right(e, p.now)
	}
	switch {
	case right.Unknown && p.now.Before(latest(time.UnixMicro(e.Spec.Generation), e.DueSince()).Add(unsureFor)):
		p.verdicts[i] = Later
	case right.Outcome != "":
		p.drop(i, schema.Record{Outcome: right.Outcome, Reason: right.Reason})
		if ok && e.Occurs() {
			p.replaced(i, job, right)
		}
	default:
		if !right.Before.IsZero() {
			p.verdicts[i] = Doubtful
		}
		if e.Occurs() {
			p.goOn(i, job, right)
		}
	}
}

// replaced finds what takes the place of entry i, which is dropped because its generation is not in force.
func (p *planning) replaced(i int, job *schema.Job, right schema.Right) {
	if right.Outcome == schema.Missed {
		s, err := p.b.series.of(job.ID, right.Generation)
		if err != nil {
			p.b.misunderstood(err)
		} else if s != nil {
			if next, ok := s.Next(p.entries[i].Spec.Nominal); ok && s.due(next).Before(right.Cut) {
				p.changed = append(p.changed, step{i, job, s, next, right.Cut})
			}
		}
	}
	if job.Current.State != schema.JobActive {
		return
	}
	if s, nominal, ok, err := p.b.first(job); err != nil {
		p.b.misunderstood(err)
	} else if ok {
		p.begins = append(p.begins, step{i: -1, job: job, s: s, nominal: nominal})
	}
}

// goOn finds what comes after entry i, which may be published.
func (p *planning) goOn(i int, job *schema.Job, right schema.Right) {
	e := &p.entries[i]
	s, err := p.b.series.of(job.ID, right.Generation)
	switch {
	case err != nil:
		p.b.misunderstood(err)
		return
	case s == nil:
		return
	}
	if e.Marks.Cancelled != nil {
		// Cancelled before it was met: no record will ever leave its line.
		rec := schema.Record{Entry: e.ID, Outcome: schema.Cancelled, Finished: e.Marks.Cancelled.At}
		line, _ := lineOf(e, &schema.Attempt{Record: &rec, Expires: p.b.expiry(e.Due(), p.now)})
		p.lines = append(p.lines, line)
	}
	nominal, more := s.Next(e.Spec.Nominal)
	switch {
	case !more && right.Before.IsZero():
		p.finished = append(p.finished, job)
	case !more, !right.Before.IsZero() && !s.due(nominal).Before(right.Before):
		// The generation in force goes on from here; its first occurrence was held before it was.
	default:
		p.steps = append(p.steps, step{i: i, job: job, s: s, nominal: nominal})
		return
	}
	p.misfire(i, s)
}

// misfire gives up entry i if it is too late by its policy.
func (p *planning) misfire(i int, s *series) {
	if rec, missed := misfired(s, &p.entries[i], p.now); missed {
		p.drop(i, rec)
	}
}

// drop has rec recorded instead of a start of entry i.
func (p *planning) drop(i int, rec schema.Record) {
	p.verdicts[i] = Dropped
	e := &p.entries[i]
	p.dropped = append(p.dropped, Finished{Entry: *e, Attempt: p.b.NotStarted(*e, rec, p.now)})
}

// misfired returns what is recorded of an occurrence that is too late at now to be started, by its job's policy: later than its
// limit, or overdue while a later one is due too and only the latest is wanted.
func misfired(s *series, e *schema.Entry, now time.Time) (schema.Record, bool) {
	late := now.Sub(e.DueSince())
	if limit, ok := e.Spec.Misfire.Limit(); ok && late > limit {
		return schema.Record{Outcome: schema.Missed, Reason: e.Spec.Misfire.Reason()}, true
	}
	if s == nil || !e.Occurs() && !waited(e) || late <= schema.Overdue || policyOf(e.Spec.Misfire) != schema.RunLatest {
		return schema.Record{}, false
	}
	if next, ok := s.Next(e.Spec.Nominal); ok && !s.due(next).Add(overtakenAfter).After(now) {
		return schema.Record{Outcome: schema.Missed, Reason: reasonOvertaken}, true
	}
	return schema.Record{}, false
}

// waited reports whether e is an occurrence whose first start a limit held back: of several that waited for long run_latest wants the last.
func waited(e *schema.Entry) bool {
	s := &e.Spec
	return s.Kind == schema.KindTurn && s.AttemptNumber() == 1 && s.Trigger == schema.TriggerSchedule && s.Until.IsZero()
}

// reasonOvertaken says why nominal times are missed of which only the latest is wanted.
const reasonOvertaken = "run_latest: a later run was due"

// policyOf returns the misfire policy of a recurring job.
func policyOf(m *schema.Misfire) string {
	if m == nil || m.Policy == "" {
		return schema.RunLatest
	}
	return m.Policy
}

// Misfired returns what is recorded of an entry of one of the job's runs instead of a first start, if it is too late at now.
func (b *Bucketer) Misfired(job *schema.Job, e *schema.Entry, now time.Time) (schema.Record, bool) {
	g := job.Right(e, now).Generation
	if g == nil {
		g = &job.Current
	}
	s, err := b.series.of(job.ID, g)
	if err != nil {
		b.misunderstood(err)
	}
	return misfired(s, e, now)
}

// misunderstood tells of a stored job or schedule that this program does not understand (another version may, such as one with other zone
// data). What was planned of it runs; it does not go on until it is understood or changed, and is mended then: what was left out is caught
// up with by its policy. No other job is held up.
func (b *Bucketer) misunderstood(err error) {
	b.metrics.faulty.Inc()
	b.log.Error("what is stored of a job cannot be understood: it does not go on", "err", err)
}

// Misunderstood returns why the job does not go on, nil if it does: what is stored of it cannot be understood.
func (b *Bucketer) Misunderstood(job *schema.Job) error {
	_, err := b.series.of(job.ID, &job.Current)
	return err
}

// write holds what was decided: the next occurrences first, and what became of entries that do not start last.
func (p *planning) write(ctx context.Context) error {
	ahead, jumps, err := p.ahead(ctx)
	if err != nil {
		return err
	}
	if err := p.b.writeAll(ctx, ahead); err != nil {
		p.b.owed.add(ahead)
		return fmt.Errorf("plan on: %w", err)
	}
	if err := p.jump(ctx, jumps); err != nil {
		return err
	}
	if err := p.b.putLines(ctx, p.lines); err != nil {
		return err
	}
	if err := p.b.drop(ctx, p.dropped); err != nil {
		return err
	}
	for _, job := range p.finished {
		p.b.ending.add(job)
	}
	return nil
}

// ahead returns the rows of the occurrences that come next, and the steps that are overdue and to be decided. Of one whose own sweep may
// be past the row is looked for first: it may have been held, met and done. Only if we tried to write it, and cannot say since when it
// was held, it may have missed its sweep; a row that another owner left so is met by the sweep that begins with a take-over, since the one
// before it is still open.
func (p *planning) ahead(ctx context.Context) (rows []schema.Entry, jumps []step, err error) {
	var past []step
	for _, st := range slices.Concat(p.steps, p.begins) {
		if st.s.due(st.nominal).Before(p.now.Add(-lateAfter)) {
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
	for _, st := range past {
		row, there := found[st.s.id(st.nominal)]
		overdue := st.i >= 0 && p.now.Sub(p.entries[st.i].DueSince()) > schema.Overdue
		switch {
		case there:
			if p.b.owed.has(row.ID) {
				met = append(met, row)
			}
			if st.i >= 0 {
				p.misfire(st.i, st.s)
			}
		case overdue && (p.jumps == maxJumps || st.s.Number != st.job.Current.Number):
			p.verdicts[st.i] = Later // of the generation before: its cut is at hand, and says what becomes of it
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
	if err := p.b.meetAll(ctx, met); err != nil {
		return nil, nil, err
	}
	p.b.owed.drop(met)
	return rows, jumps, nil
}

// jump skips what lies between overdue entries and now, each once for everybody, and drops the entries: catch-up entries stand for them.
func (p *planning) jump(ctx context.Context, jumps []step) error {
	var mu sync.Mutex
	var first error
	var wg sync.WaitGroup
	tokens := make(chan struct{}, jumpsAtOnce)
	for _, st := range jumps {
		tokens <- struct{}{}
		wg.Go(func() {
			defer func() { <-tokens }()
			e := p.entries[st.i]
			to, ends, err := p.b.jump(ctx, st.s, e.Spec.Nominal, p.now)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				first = err
			default:
				p.verdicts[st.i] = Dropped
				p.dropped = append(p.dropped, Finished{Entry: e, Attempt: p.b.NotStarted(e, schema.Record{Outcome: schema.HandedOn, To: to}, p.now)})
				if ends {
					p.finished = append(p.finished, st.job)
				}
			}
		})
	}
	wg.Wait()
	return first
}

// widen has entries that were missed because of a change stand for what would have come after them before the cut, where that was never
// planned.
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

// maxOwed bounds the ids kept of rows whose writing failed; beyond it the oldest knowledge goes, and mending takes its place.
const maxOwed = 10_000

// owed are the ids of rows that may be held since too late for their sweep.
type owed struct {
	mu  sync.Mutex
	ids map[schema.EntryID]struct{}
}

func (o *owed) add(rows []schema.Entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids == nil || len(o.ids) > maxOwed {
		o.ids = make(map[schema.EntryID]struct{})
	}
	for i := range rows {
		o.ids[rows[i].ID] = struct{}{}
	}
}

func (o *owed) has(id schema.EntryID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.ids[id]
	return ok
}

func (o *owed) drop(rows []schema.Entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range rows {
		delete(o.ids, rows[i].ID)
	}
}

// drop records what became of entries that do not start, after what follows from it.
func (b *Bucketer) drop(ctx context.Context, dropped []Finished) error {
	if len(dropped) == 0 {
		return nil
	}
	var lines []schema.JobRun
	attempts := make([]schema.Attempt, len(dropped))
	for i := range dropped {
		attempts[i] = dropped[i].Attempt
		if line, ok := lineOf(&dropped[i].Entry, &dropped[i].Attempt); ok {
			lines = append(lines, line)
		}
		if m := attempts[i].Record.Missed; m != nil {
			cause, _, _ := strings.Cut(m.Reason, ":")
			b.metrics.missed.WithLabelValues(cause).Add(float64(max(m.Count, 1)))
		}
	}
	if err := b.putLines(ctx, lines); err != nil {
		return err
	}
	return b.Record(ctx, attempts)
}

// find reads the rows of the steps' occurrences.
func (b *Bucketer) find(ctx context.Context, steps []step) (map[schema.EntryID]schema.Entry, error) {
	ids := make(map[schema.Partition][]schema.EntryID)
	for _, st := range steps {
		id := st.s.id(st.nominal)
		ids[id.Partition()] = append(ids[id.Partition()], id)
	}
	found, failed := b.rows(ctx, ids)
	for p, err := range failed {
		return nil, fmt.Errorf("entries in %s: %w", p, err)
	}
	return found, nil
}

// writeAll writes entries as write does, and returns what went wrong with any of them.
func (b *Bucketer) writeAll(ctx context.Context, entries []schema.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	return b.all(func(done func(int, error)) { b.write(ctx, entries, done) })
}

// meetAll applies the late rule to rows that were found, and returns what went wrong with any of them.
func (b *Bucketer) meetAll(ctx context.Context, rows []schema.Entry) error {
	if len(rows) == 0 {
		return nil
	}
	return b.all(func(done func(int, error)) { b.meet(ctx, rows, done) })
}

// all runs f and joins what it reports, the same only once.
func (b *Bucketer) all(f func(done func(int, error))) error {
	var mu sync.Mutex
	var first error
	f(func(_ int, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil && (first == nil || !errors.Is(first, err)) {
			first = err
		}
	})
	return first
}

// jobsOf reads the jobs of those entries that are to make the first start of a run of one.
func (b *Bucketer) jobsOf(ctx context.Context, entries []schema.Entry) (map[schema.JobID]*schema.Job, error) {
	var ids []schema.JobID
	for i := range entries {
		if e := &entries[i]; e.FirstOfJob() && e.Fault == nil {
			ids = append(ids, e.Spec.Job)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return b.Jobs(ctx, ids)
}

// Jobs reads any number of jobs. Those that do not exist are absent.
func (b *Bucketer) Jobs(ctx context.Context, ids []schema.JobID) (map[schema.JobID]*schema.Job, error) {
	slices.SortFunc(ids, func(x, y schema.JobID) int {
		if d := int(x.Shard()) - int(y.Shard()); d != 0 {
			return d
		}
		return slices.Compare(x[:], y[:])
	})
	ids = slices.Compact(ids)
	found := make(map[schema.JobID]*schema.Job, len(ids))
	var mu sync.Mutex
	var first error
	var wg sync.WaitGroup
	tokens := make(chan struct{}, jobsAtOnce)
	for len(ids) > 0 {
		shard := ids[0].Shard()
		n := 1
		for n < len(ids) && n < readIDs && ids[n].Shard() == shard {
			n++
		}
		part := ids[:n]
		ids = ids[n:]
		tokens <- struct{}{}
		wg.Go(func() {
			defer func() { <-tokens }()
			jobs, err := b.store.Jobs(ctx, shard, part)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				first = fmt.Errorf("jobs of shard %d: %w", shard, err)
			}
			for i := range jobs {
				found[jobs[i].ID] = &jobs[i]
			}
		})
	}
	wg.Wait()
	return found, first
}
