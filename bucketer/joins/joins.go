package joins

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

const (
	// page bounds the subscribers that are read at once, atOnce those that are told at once.
	page   = 500
	atOnce = 16
)

// Config wires Joins.
type Config struct {
	Bucketer *bucketer.Bucketer
	Runs     *runs.Runs
	Jobs     *recurring.Jobs
	// Store is the store of the Bucketer.
	Store      bucketer.Store
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Joins starts runs of jobs that run after others. Its methods may be called from any goroutine.
type Joins struct {
	core  *bucketer.Bucketer
	runs  *runs.Runs
	jobs  *recurring.Jobs
	store bucketer.Store
	log   *slog.Logger
	// places are the subscribers to which ends were told that have many.
	places bucketer.Places
	count  *prometheus.CounterVec // by what became of a join
}

// What became of a join.
const (
	fired   = "fired"
	skipped = "skipped"
	stuck   = "stuck"
	deep    = "too_deep"
)

// New returns Joins.
func New(c Config) *Joins {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	count := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "carillon_joins_total", Help: "Runs that wait for other jobs, by what became of them.",
	}, []string{"what"})
	for _, what := range []string{fired, skipped, stuck, deep} {
		count.WithLabelValues(what)
	}
	c.Registerer.MustRegister(count)
	return &Joins{core: c.Bucketer, runs: c.Runs, jobs: c.Jobs, store: c.Store, log: c.Logger, count: count}
}

// PlanEnd tells everybody who runs after a run that it may have ended: e is the event that says so. If
// we crash in it, the next call does the same. If the time of a call is too short for all of them, the
// next one goes on after the last page.
func (j *Joins) PlanEnd(ctx context.Context, e *schema.Entry) error {
	payload, err := j.runs.EntryPayload(ctx, e)
	if err != nil {
		return err
	}
	ended, err := schema.Decode[runs.EndedRun](payload, "end of a run")
	if err != nil {
		j.log.Error("an event cannot be understood: it starts nothing", "event", e.Run(), "err", err)
		return nil
	}
	up, err := j.runs.Run(ctx, e.Spec.Tenant, ended.Run)
	switch {
	case errors.Is(err, schema.ErrNotFound):
		return nil
	case err != nil:
		return err
	case !up.State.Terminal():
		return nil // its end will say so
	}
	for after := j.places.Of(e.ID); ; {
		all, err := j.store.Subscribers(ctx, e.Spec.Tenant, e.Spec.Event.Name, after, page)
		if err != nil {
			return err
		}
		var g errgroup.Group
		g.SetLimit(atOnce)
		for _, s := range all {
			g.Go(func() error { return j.tell(ctx, schema.JobID(s), &up) })
		}
		if err := g.Wait(); err != nil {
			return fmt.Errorf("what follows on run %s: %w", up.ID, err)
		}
		if len(all) < page {
			j.places.Forget(e.ID)
			return nil
		}
		after = all[page-1]
		j.places.Set(e.ID, after)
	}
}

// tell tells a job that runs after others that a run of one of them has ended.
func (j *Joins) tell(ctx context.Context, id schema.JobID, up *runs.Run) error {
	if run, oneOff := id.OneOff(); oneOff {
		r, err := j.runs.Run(ctx, up.Entry.Spec.Tenant, run)
		if errors.Is(err, schema.ErrNotFound) {
			return nil // it is being made: its own entry looks
		}
		if err != nil {
			return err
		}
		return j.look(ctx, &r, up, false)
	}
	r, err := j.runOf(ctx, id, up)
	if err != nil || r == nil {
		return err
	}
	return j.look(ctx, r, up, false)
}

// runOf returns the run of a job that joins the chain of up, and makes it if it is not there. nil: the
// job does not follow on that chain, or is paused.
func (j *Joins) runOf(ctx context.Context, id schema.JobID, up *runs.Run) (*runs.Run, error) {
	jobs, err := j.jobs.Jobs(ctx, []schema.JobID{id})
	if err != nil {
		return nil, err
	}
	job, root := jobs[id], up.Entry.RootOf()
	if job == nil || job.Current.Fault != nil || job.Current.State.Ended() {
		return nil, nil
	}
	spec, run := &job.Current.Spec, schema.JoinID(id, root)
	r, err := j.runs.Run(ctx, spec.Tenant, run)
	if err == nil || !errors.Is(err, schema.ErrNotFound) {
		return &r, err
	}
	// The job may have been made on a node whose clock is ahead.
	madeLater := spec.Created.After(root.Time().Add(schema.MaxClockDifference))
	if job.Current.State != schema.JobActive || !spec.After.Has(up.Entry.Spec.Job) || madeLater {
		return nil, nil
	}
	if len(spec.After.Jobs) > 1 {
		if whole, err := j.isWhole(ctx, job, root); err != nil || !whole {
			return nil, err
		}
	}
	depth := 1
	if before := up.Entry.Spec.Join; before != nil {
		depth = before.Depth + 1
	}
	if depth > schema.MaxChain {
		j.count.WithLabelValues(deep).Inc()
		j.log.Warn("jobs run after one another without end: the next one is dropped", "tenant", spec.Tenant, "job", id, "run", up.ID)
		return nil, nil
	}
	row, err := j.row(job, run, root, depth)
	if err != nil {
		return nil, err
	}
	if err := j.core.PutRows(ctx, []schema.Entry{row}); err != nil {
		return nil, fmt.Errorf("run %s of job %s: %w", run, id, err)
	}
	// Another owner may have written it, and gone on.
	r, err = j.runs.Run(ctx, spec.Tenant, run)
	return &r, err
}

// isWhole reports whether the chain that began with the run root began with the job with which that of
// the job begins. If it began in between, by hand, not all of the jobs before this one are in it.
func (j *Joins) isWhole(ctx context.Context, job *schema.Job, root schema.RunID) (bool, error) {
	found, err := j.core.Stored(ctx, []schema.EntryID{root})
	if err != nil {
		return false, err
	}
	first, err := j.jobs.RootJob(ctx, job)
	if err != nil && !errors.Is(err, schema.ErrNotFound) {
		return false, err
	}
	e, ok := found[root]
	return !ok || err != nil || e.Spec.Job == first, nil
}

// row makes the row of a run that waits. Owners may make it of different generations of the job: that
// of the later one stands, as a whole.
func (j *Joins) row(job *schema.Job, run, root schema.RunID, depth int) (schema.Entry, error) {
	spec, now := &job.Current.Spec, j.core.Now()
	until := root.Time().Add(spec.After.Deadline.Std()).UTC()
	days := j.core.RetentionOf(spec.Tenant)
	says := schema.Spec{
		Tenant: spec.Tenant, Kind: schema.KindJoin, Of: run, Nominal: run.Time(), Accepted: j.core.StampOf(job.Current.Number, days), Job: job.ID, JobName: spec.Name,
		Generation: job.Current.Number, Trigger: schema.TriggerDependency, Priority: spec.Priority, Task: spec.Task, Work: spec.Work, Labels: spec.Labels,
		Concurrency: spec.Concurrency, Join: &schema.Join{After: *spec.After, Root: root, Depth: depth, Until: until}, Everywhere: spec.Durability == schema.DurableEverywhere,
		CreatedBy: spec.CreatedBy, Retention: days,
	}
	return schema.NewEntry(run, says, spec.Payload, j.core.ExpiryOf(&says, until, now))
}

// PlanJoin looks after a run that waits: e is its own entry, or that of its deadline, which is due. If
// we crash in it, the next call does the same.
func (j *Joins) PlanJoin(ctx context.Context, e *schema.Entry) error {
	r, err := j.runs.Run(ctx, e.Spec.Tenant, e.Run())
	switch {
	case errors.Is(err, schema.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	join := r.Entry.Spec.Join
	return j.look(ctx, &r, nil, join != nil && e.ID == schema.JoinDeadlineID(r.ID, join.Until))
}

// look finds out whether a run that waits may start. up is a run that has ended for which it may wait;
// nil: whichever have. due: its deadline is being planned, which a dispatcher does a little early.
func (j *Joins) look(ctx context.Context, r *runs.Run, up *runs.Run, due bool) error {
	join := r.Entry.Spec.Join
	switch {
	case join == nil:
		return nil
	case r.State == schema.StateSkipped:
		return j.followUpSkip(ctx, r) // whoever found that out may have crashed
	case r.State.Terminal() || !r.Entry.Marks.MovedTo.IsZero():
		return nil
	}
	verdicts := verdictsOf(r)
	var err error
	switch {
	case up != nil:
		err = j.learn(ctx, r, jobOf(up), up, verdicts)
	case join.Root.IsZero():
		err = j.learnAll(ctx, r, verdicts)
	}
	if err == nil && len(join.Jobs) > 1 {
		// Ends that are found at once are written first and read then: one of those who do sees all.
		err = j.readAgain(ctx, r, verdicts)
	}
	if err != nil {
		return err
	}
	list := make([]workflow.Verdict, len(join.Jobs))
	for i, u := range join.Jobs {
		list[i] = verdicts[u.Job]
	}
	start, without, reason := workflow.Join(workflow.When(join.When), list)
	switch {
	case start:
		return j.fire(ctx, r)
	case without != "":
		return j.skip(ctx, r, without, reason)
	}
	return j.wait(ctx, r, due)
}

// jobOf returns the job that a run is of.
func jobOf(r *runs.Run) schema.JobID {
	if id := r.Entry.Spec.Job; !id.IsZero() {
		return id
	}
	return schema.JobOf(r.ID)
}

// verdictsOf returns how the jobs ended for which a run waits, as its rows say. A success stands,
// whatever else was found.
func verdictsOf(r *runs.Run) map[schema.JobID]workflow.Verdict {
	found := make(map[schema.JobID]workflow.Verdict)
	for i := range r.Attempts {
		if rec := r.Attempts[i].Record; rec != nil && rec.Outcome == schema.UpstreamEnded && rec.Before != nil && found[rec.Before.Job] != workflow.Succeeded {
			found[rec.Before.Job] = workflow.Verdict(rec.Before.Verdict)
		}
	}
	return found
}

// verdict says what the end of a run is for what follows on it.
func verdict(r *runs.Run) workflow.Verdict {
	switch r.State {
	case schema.StateSucceeded:
		return workflow.Succeeded
	case schema.StateCancelled:
		return workflow.Cancelled
	case schema.StateSkipped:
		if rec := skipOf(r); rec != nil && rec.Before != nil {
			return workflow.Verdict(rec.Before.Verdict)
		}
	}
	return workflow.Failed
}

// skipOf returns the record that a run never starts; nil: there is none.
func skipOf(r *runs.Run) *schema.Record {
	for i := range r.Attempts {
		if rec := r.Attempts[i].Record; rec != nil && rec.Outcome == schema.Skipped {
			return rec
		}
	}
	return nil
}

// learn notes how a job ended, and records it where the run waits for others too.
func (j *Joins) learn(ctx context.Context, r *runs.Run, job schema.JobID, up *runs.Run, verdicts map[schema.JobID]workflow.Verdict) error {
	join := r.Entry.Spec.Join
	v := verdict(up)
	if !join.Has(job) || verdicts[job] == v || verdicts[job] == workflow.Succeeded {
		return nil
	}
	verdicts[job] = v
	if len(join.Jobs) == 1 {
		return nil
	}
	now := j.core.Now()
	return j.runs.Record(ctx, []schema.Attempt{{
		Run: r.ID, Fence: schema.Fence(schema.HashOf("upstream", job.String(), string(v))), // #nosec G115 -- 62 bits
		Record:  &schema.Record{Entry: up.ID, Outcome: schema.UpstreamEnded, Before: &schema.JobEnd{Job: job, Verdict: string(v)}, Finished: now.UTC()},
		Written: now.UnixMicro(), Expires: j.core.ExpiryOf(&r.Entry.Spec, join.Until, now),
	}})
}

// readAgain adds what others have recorded of how jobs ended.
func (j *Joins) readAgain(ctx context.Context, r *runs.Run, verdicts map[schema.JobID]workflow.Verdict) error {
	attempts, err := j.core.AttemptsOf(ctx, []schema.RunID{r.ID})
	if err != nil {
		return err
	}
	is := *r
	is.Attempts = attempts[r.ID]
	for job, v := range verdictsOf(&is) {
		if verdicts[job] != workflow.Succeeded {
			verdicts[job] = v
		}
	}
	return nil
}

// learnAll reads what became of the one-off jobs for which a run waits.
func (j *Joins) learnAll(ctx context.Context, r *runs.Run, verdicts map[schema.JobID]workflow.Verdict) error {
	for _, u := range r.Entry.Spec.Join.Jobs {
		id, oneOff := u.Job.OneOff()
		if !oneOff || verdicts[u.Job] == workflow.Succeeded {
			continue
		}
		up, err := j.runs.Run(ctx, r.Entry.Spec.Tenant, id)
		switch {
		case errors.Is(err, schema.ErrNotFound):
			continue
		case err != nil:
			return err
		case !up.State.Terminal():
			continue
		}
		if err := j.learn(ctx, r, u.Job, &up, verdicts); err != nil {
			return err
		}
	}
	return nil
}

// fire starts a run that waits.
func (j *Joins) fire(ctx context.Context, r *runs.Run) error {
	var now time.Time
	_, err := j.runs.Reschedule(ctx, r.Entry.Spec.Tenant, r.ID, runs.Change{Of: r.ID, Fires: true, At: &now})
	switch {
	case err == nil:
		j.count.WithLabelValues(fired).Inc()
	case errors.Is(err, schema.ErrConflict), errors.Is(err, bucketer.ErrFinished), errors.Is(err, schema.ErrNotFound):
		return nil // another owner was first, or it was cancelled
	}
	return err
}

// skip records that a run never starts.
func (j *Joins) skip(ctx context.Context, r *runs.Run, v workflow.Verdict, reason string) error {
	row := j.runs.NotStarted(r.Entry, schema.Record{Outcome: schema.Skipped, Reason: reason, Before: &schema.JobEnd{Verdict: string(v)}}, j.core.Now())
	if err := j.runs.Record(ctx, []schema.Attempt{row}); err != nil {
		return err
	}
	j.count.WithLabelValues(skipped).Inc()
	r.Attempts = append(r.Attempts, row)
	return j.followUpSkip(ctx, r)
}

// followUpSkip does what follows from the record that a run never starts.
func (j *Joins) followUpSkip(ctx context.Context, r *runs.Run) error {
	err := schema.ErrUnavailable
	for i := range r.Attempts {
		if rec := r.Attempts[i].Record; rec != nil && rec.Outcome == schema.Skipped {
			j.runs.FollowUp(ctx, []bucketer.Finished{{Entry: r.Entry, Attempt: r.Attempts[i]}}, func(_ int, e error) { err = e })
			return err
		}
	}
	return nil
}

// wait has a run looked after again at its deadline. Once that has passed, or is due, it is stuck: its
// entry is over after that, so nobody would look again.
func (j *Joins) wait(ctx context.Context, r *runs.Run, due bool) error {
	e, now := &r.Entry, j.core.Now()
	until := e.Spec.Join.Until
	at, err := j.core.LaterStart(e, schema.KindJoin, schema.JoinDeadlineID(r.ID, until), 1, time.UnixMicro(e.Spec.Accepted))
	switch {
	case err != nil:
		return err
	case schema.IsStuck(e, e.Marks, r.Attempts):
		return nil
	case !due && now.Before(until):
		return j.core.WriteAll(ctx, []schema.Entry{at})
	}
	expires := j.core.ExpiryOf(&e.Spec, until, now)
	if err := j.store.PutSubscription(ctx, schema.Subscription{
		Tenant: e.Spec.Tenant, Event: schema.StuckRuns, Subscriber: r.ID, Written: until, Expires: expires,
	}); err != nil {
		return err
	}
	if err := j.runs.AnnounceStuck(ctx, e); err != nil {
		return err
	}
	if err := j.runs.Record(ctx, []schema.Attempt{j.runs.NotStarted(at, schema.Record{Outcome: schema.Replaced}, now)}); err != nil {
		return err
	}
	j.count.WithLabelValues(stuck).Inc()
	j.log.Warn("a run waits for other jobs beyond its deadline: it is stuck", "tenant", e.Spec.Tenant, "job", e.Spec.JobName, "run", r.ID, "deadline", until)
	return nil
}

// Stuck returns runs of a tenant that wait for other jobs beyond their deadline, by their ids, after
// that one, at most limit, and after which to go on; zero: there are no more.
func (j *Joins) Stuck(ctx context.Context, tenant string, after schema.RunID, limit int) (list []runs.Run, next schema.RunID, err error) {
	ids, err := j.store.Subscribers(ctx, tenant, schema.StuckRuns, after, limit)
	if err != nil {
		return nil, schema.RunID{}, err
	}
	if len(ids) == limit {
		next = ids[limit-1]
	}
	found, err := j.core.Stored(ctx, ids)
	if err != nil {
		return nil, schema.RunID{}, err
	}
	var rows []schema.Entry
	for _, id := range ids {
		if row, ok := found[id]; ok {
			rows = append(rows, row)
		}
	}
	all, err := j.runs.Fold(ctx, rows)
	if err != nil {
		return nil, schema.RunID{}, err
	}
	for _, r := range all {
		if r.State == schema.StatePending && r.Entry.Marks.MovedTo.IsZero() {
			list = append(list, r)
			continue
		}
		// It goes on: it leaves the list.
		gone := schema.Subscription{Tenant: tenant, Event: schema.StuckRuns, Subscriber: r.ID, Written: r.Entry.Spec.Join.Until.Add(time.Millisecond)}
		if err := j.store.DeleteSubscription(ctx, gone); err != nil {
			j.log.Debug("a run stays in the list of what is stuck", "run", r.ID, "err", err)
		}
	}
	return list, next, nil
}
