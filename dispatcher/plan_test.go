package dispatcher

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

// spec returns what a recurring job without jitter says.
func spec(d time.Duration, m *schema.Misfire) schema.JobSpec {
	return schema.JobSpec{
		Tenant: "t", JitterStated: true, Misfire: m, Schedule: &schema.Schedule{Every: schema.Duration(d)},
		Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink"}},
	}
}

// job creates a recurring job.
func (r *rig) job(b *engine.Engine, s schema.JobSpec) schema.Job {
	r.t.Helper()
	job, _, err := b.CreateJob(context.Background(), s, "", "")
	if err != nil {
		r.t.Fatalf("CreateJob = %v", err)
	}
	return job
}

// nominals returns the nominal times of the job's runs that reached the hand, in order, each once.
func (h *hand) nominals(id schema.JobID) []time.Time {
	seen := make(map[time.Time]bool)
	for _, s := range h.all() {
		if s.env.Entry.Spec.Job == id && !s.env.Entry.Spec.Nominal.After(time.Now()) {
			seen[s.env.Entry.Spec.Nominal] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), time.Time.Compare)
}

// times returns the nominal times of the job's schedule after from, up to to.
func (r *rig) times(job schema.Job, from, to time.Time) []time.Time {
	r.t.Helper()
	s, err := schedule.Compile(*job.Current.Spec.Schedule, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	var all []time.Time
	for t := range s.From(from) {
		if t.After(to) {
			break
		}
		all = append(all, t)
	}
	return all
}

// TestARecurringJobRunsForEver: every occurrence is published once, on time, fresh, and by nobody
// but the scan.
func TestARecurringJobRunsForEver(t *testing.T) {
	for name, period := range map[string]time.Duration{"every second": time.Second, "every 7 s": 7 * time.Second, "every minute": time.Minute} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, func(t *testing.T, r *rig) {
				n := r.start("d1")
				h := r.hand(nil)
				time.Sleep(time.Second)
				job := r.job(r.writer(n.conn), spec(period, nil))
				began := job.Current.Spec.Created
				time.Sleep(10*time.Minute + 500*time.Millisecond)
				want := r.times(job, began, time.Now())
				if got := h.nominals(job.ID); !slices.Equal(got, want) {
					t.Errorf("%d runs were published, want %d", len(got), len(want))
				}
				for i, s := range h.all() {
					e := &s.env.Entry
					if s.env.Redispatch || i > 0 && (s.at.After(e.Due()) || s.at.Sub(s.env.CheckedAt) > 1900*time.Millisecond) {
						t.Errorf("run %s was published at %v, redispatch %v, checked %v", e.Spec.Nominal, s.at, s.env.Redispatch, s.env.CheckedAt)
					}
				}
			})
		})
	}
}

// TestNextRunIsHeldBeforeThisOneIsPublished: while the next run cannot be written nothing of the
// job is published, and one-off jobs are all the same.
func TestNextRunIsHeldBeforeThisOneIsPublished(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		n := r.start("d1")
		h := r.hand(nil)
		time.Sleep(time.Second)
		job := r.job(r.writer(n.conn), spec(10*time.Second, nil))
		r.fail("PutEntries", true)
		oneOff := r.run(time.Now().Add(10*time.Second), 0)
		time.Sleep(15 * time.Second)
		if got := h.nominals(job.ID); len(got) != 0 {
			t.Errorf("published %v although the next run could not be held", got)
		}
		h.only(&oneOff)
		r.fail("PutEntries", false)
		time.Sleep(30 * time.Second)
		if got, want := h.nominals(job.ID), r.times(job, job.Current.Spec.Created, time.Now()); !slices.Equal(got, want) {
			t.Errorf("published %v, want %v", got, want)
		}
	})
}

// TestAOneOffJobCostsNothingMore: no job is read for it.
func TestAOneOffJobCostsNothingMore(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		r.start("d1")
		h := r.hand(nil)
		time.Sleep(time.Second)
		e := r.run(time.Now().Add(10*time.Second), 0)
		time.Sleep(time.Minute)
		h.only(&e)
		if tally := r.counts.Tallies()["Jobs"]; tally.Calls != 0 {
			t.Errorf("%d reads of jobs, want none", tally.Calls)
		}
	})
}

// TestTakeOverGoesOnWithJobs: the dispatcher dies, and another takes over after a while that is no
// misfire.
func TestTakeOverGoesOnWithJobs(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		n := r.start("d1")
		h := r.hand(nil)
		time.Sleep(time.Second)
		b := r.writer(r.conn)
		var jobs []schema.Job
		for _, d := range []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, time.Minute} {
			jobs = append(jobs, r.job(b, spec(d, nil)))
		}
		time.Sleep(2*time.Minute + 123*time.Millisecond)
		n.stop()
		time.Sleep(40 * time.Second)
		r.start("d1")
		time.Sleep(3 * time.Minute)
		for _, job := range jobs {
			if got, want := h.nominals(job.ID), r.times(job, job.Current.Spec.Created, time.Now()); !slices.Equal(got, want) {
				t.Errorf("every %v: runs: %s", job.Current.Spec.Schedule.Every, differ(got, want))
			}
		}
	})
}

// TestAJobChangesUnderWay: the old generation runs up to the cut, the new one from the cut on.
func TestAJobChangesUnderWay(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		n := r.start("d1")
		h := r.hand(nil)
		time.Sleep(time.Second)
		b := r.writer(n.conn)
		job := r.job(b, spec(time.Second, nil))
		time.Sleep(20*time.Second + 300*time.Millisecond)
		changed, err := b.ChangeJob(t.Context(), "t", job.ID, 0, func(s *schema.JobSpec) error {
			s.Schedule = &schema.Schedule{Every: schema.Duration(3 * time.Second)}
			return nil
		})
		if err != nil {
			t.Fatalf("ChangeJob = %v", err)
		}
		time.Sleep(time.Minute)
		cut := changed.Cut
		want := append(r.times(job, job.Current.Spec.Created, cut.Add(-time.Millisecond)), r.times(changed, cut.Add(-time.Millisecond), time.Now())...)
		if got := h.nominals(job.ID); !slices.Equal(got, want) {
			t.Errorf("runs: %s", differ(got, want))
		}
		paused, err := b.PauseJob(t.Context(), "t", job.ID, changed.Current.Number)
		if err != nil {
			t.Fatalf("PauseJob = %v", err)
		}
		time.Sleep(5 * time.Minute)
		want = append(want, r.times(changed, want[len(want)-1], paused.Cut.Add(-time.Millisecond))...)
		if got := h.nominals(job.ID); !slices.Equal(got, want) {
			t.Errorf("with a pause at %v: runs: %s", paused.Cut, differ(got, want))
		}
		resumed, err := b.ResumeJob(t.Context(), "t", job.ID, 0)
		if err != nil {
			t.Fatalf("ResumeJob = %v", err)
		}
		time.Sleep(time.Minute)
		want = append(want, r.times(changed, resumed.Cut.Add(-time.Millisecond), time.Now())...)
		if got := h.nominals(job.ID); !slices.Equal(got, want) {
			t.Errorf("with a resume at %v: runs: %s", resumed.Cut, differ(got, want))
		}
		cancelled, err := b.CancelJob(t.Context(), "t", job.ID, 0)
		if err != nil {
			t.Fatalf("CancelJob = %v", err)
		}
		time.Sleep(time.Minute)
		want = append(want, r.times(changed, want[len(want)-1], cancelled.Cut.Add(-time.Millisecond))...)
		if got := h.nominals(job.ID); !slices.Equal(got, want) {
			t.Errorf("with a cancel at %v: runs: %s", cancelled.Cut, differ(got, want))
		}
		if lag := r.lag(0); lag > 4 {
			t.Errorf("settled is %d buckets behind: something of an old generation stays open", lag)
		}
	})
}

// TestAJobFinishes: after its last run, and no run is lost by it.
func TestAJobFinishes(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		n := r.start("d1")
		h := r.hand(nil)
		time.Sleep(time.Second)
		s := spec(2*time.Second, nil)
		s.MaxRuns = 5
		job := r.job(r.writer(n.conn), s)
		time.Sleep(time.Minute)
		if got := h.nominals(job.ID); len(got) != 5 {
			t.Errorf("%d runs, want 5", len(got))
		}
		if got, err := r.inner.Job(t.Context(), job.ID); err != nil || got.Current.State != schema.JobFinished {
			t.Errorf("the job is %s, %v, want finished", got.Current.State, err)
		}
	})
}

// TestADoubtfulRunThatIsLateIsPublished: a run that an executor must inspect anyway was read again
// and again once it was late, and never published.
func TestADoubtfulRunThatIsLateIsPublished(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		n := r.start("d1")
		h := r.hand(nil)
		time.Sleep(time.Second)
		b := r.writer(n.conn)
		s := spec(5*time.Second, nil)
		s.MaxRuns = 1
		job := r.job(b, s)
		r.fail("Entries", true)
		next, ok := b.NextRun(job, time.Now())
		if !ok {
			t.Fatal("NextRun = false, want the only run")
		}
		rows, err := r.inner.EntriesByID(t.Context(), next.ID.Partition(), []schema.EntryID{next.ID})
		if err != nil || len(rows) != 1 {
			t.Fatalf("EntriesByID = %d rows, %v, want the only run", len(rows), err)
		}
		if _, err := b.PlanOn(t.Context(), rows, time.Now()); err != nil { // by somebody else: the job is finished
			t.Fatalf("PlanOn = %v", err)
		}
		time.Sleep(time.Until(next.Due.Add(time.Second)))
		r.fail("Entries", false)
		time.Sleep(8 * time.Second) // before its sweep
		if got := h.nominals(job.ID); len(got) != 1 {
			t.Errorf("%d runs, want 1", len(got))
		}
	})
}

// TestRunsFoundBeforeTheirJob: a first run that is found before the row of its job waits for that
// row, and no longer.
func TestRunsFoundBeforeTheirJob(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		n := r.start("d1")
		h := r.hand(nil)
		time.Sleep(time.Second)
		release := make(chan struct{})
		b, err := engine.New(bucketer.Config{Store: slowCreation{r.store, release}, Hints: n.conn, Signals: n.conn})
		if err == nil {
			err = b.Refresh(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		made := make(chan schema.Job)
		go func() { made <- r.job(b, spec(time.Second, nil)) }()
		time.Sleep(6 * time.Second)
		if got := h.all(); len(got) != 0 {
			t.Errorf("%d messages before the job was made", len(got))
		}
		at := time.Now()
		close(release)
		job := <-made
		time.Sleep(200 * time.Millisecond)
		if got := h.nominals(job.ID); len(got) == 0 {
			t.Errorf("no run within %v of the job's creation", time.Since(at))
		}
		time.Sleep(time.Minute)
		if got, want := h.nominals(job.ID), r.times(job, job.Current.Spec.Created, time.Now()); !slices.Equal(got, want) {
			t.Errorf("runs: %s", differ(got, want))
		}
	})
}

// slowCreation is a store that creates jobs only once it is released.
type slowCreation struct {
	*tapped
	release chan struct{}
}

func (s slowCreation) CreateJob(ctx context.Context, j schema.Job) error {
	<-s.release
	return s.tapped.CreateJob(ctx, j)
}

// TestRunsOfAJobThatWasNeverMade are cancelled after a while.
func TestRunsOfAJobThatWasNeverMade(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		r.start("d1")
		h := r.hand(nil)
		now := time.Now().Add(time.Second)
		e := r.entry(now.Add(5*time.Second), 0, schema.Spec{Job: schema.MakeJobID(now, 0, 1), Generation: now.UnixMicro(), Nominal: now.Add(5 * time.Second)})
		r.put(e)
		time.Sleep(2 * time.Minute)
		if got := h.all(); len(got) != 0 {
			t.Errorf("%d messages, want none", len(got))
		}
		rows, err := r.inner.Attempts(t.Context(), e.ID.Partition(), []schema.RunID{e.ID})
		if err != nil || len(rows) != 1 || rows[0].Number != 0 || rows[0].Record.Outcome != schema.Cancelled {
			t.Errorf("attempts = %+v, %v, want an attempt 0: cancelled", rows, err)
		}
	})
}
