package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/engine"
	recurringjobs "carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// Jobs that run after others, and those, call addresses of joinSource. A callee of joinRefused refuses
// for good.
const (
	joinSource  = "join"
	joinRefused = "join-refused"
	// joinLate bounds how late a run starts after the jobs have ended that it waits for: as that of any
	// job, and the planning of their end before.
	joinLate = 4 * time.Minute
)

// joinSet is a graph of jobs that run after one another: one-off jobs, or jobs that can have many runs
// and begin with the first of them.
type joinSet struct {
	name   string
	oneOff bool
	jobs   []*joinJob
	roots  []schema.RunID // acknowledged runs of the first job, if they can have many
	// unsure: a run of the first job was asked for and not acknowledged.
	unsure bool
}

// joinJob is a job of a set.
type joinJob struct {
	name    string
	id      schema.JobID // zero: it was not acknowledged, and nor were those after it
	after   []int        // those before it, by their numbers
	when    string
	refused bool // its callee refuses for good
	// cancels: its cancel was asked for.
	cancels bool
}

// drawJoins draws a graph of jobs. Each is after up to three before it.
func drawJoins(rng *rand.Rand, name string) *joinSet {
	s := &joinSet{name: name, oneOff: rng.IntN(2) == 0}
	first := 1
	if s.oneOff {
		first += rng.IntN(3)
	}
	for i := range first + 1 + rng.IntN(6) {
		j := &joinJob{name: fmt.Sprintf("%s-%d", name, i), refused: rng.IntN(6) == 0}
		for k := 0; i >= first && k < 1+rng.IntN(3); k++ {
			n, known := rng.IntN(i), false
			for _, a := range j.after {
				known = known || a == n
			}
			if !known {
				j.after = append(j.after, n)
			}
		}
		j.when = []string{"", "", "all_succeeded", "all_done", "all_done", "any_succeeded", "any_failed"}[rng.IntN(7)]
		s.jobs = append(s.jobs, j)
	}
	return s
}

// work is what a job does.
func (j *joinJob) work(i int) *schema.Work {
	source := joinSource
	if j.refused {
		source = joinRefused
	}
	return &schema.Work{
		HTTP: &schema.HTTPTarget{URL: fmt.Sprintf("http://sink/%s/%d", source, i+1)}, Timeout: schema.Duration(15 * time.Second),
		Retry: &schema.Retry{MaxAttempts: 3, Initial: schema.Duration(500 * time.Millisecond), Factor: 2, Max: schema.Duration(4 * time.Second)},
	}
}

// askJoins makes sets of jobs, has them run, and cancels some.
func (w *world) askJoins(ctx context.Context, wg *sync.WaitGroup) {
	for i := range w.s.Joins {
		rng := rand.New(rand.NewPCG(w.s.Seed, uint64(500+i))) // #nosec G404 -- drawn from the seed
		s := drawJoins(rng, fmt.Sprintf("join-%d", i))
		w.joins = append(w.joins, s)
		wg.Go(func() { w.askJoinSet(ctx, s, rng) })
	}
}

func (w *world) askJoinSet(ctx context.Context, s *joinSet, rng *rand.Rand) {
	time.Sleep(time.Duration(rng.Float64() * float64(w.s.Span) / 4))
	for i, j := range s.jobs {
		if err := w.askJoinJob(ctx, s, i, time.Duration(rng.Float64()*float64(20*time.Second))); err != nil {
			return // those that come after it are not asked for
		}
		if w.s.Changes && s.oneOff && rng.IntN(6) == 0 {
			j.cancels = true
		}
	}
	for i, j := range s.jobs {
		time.Sleep(time.Duration(rng.Float64() * float64(6*time.Second)))
		if j.cancels {
			run, _ := j.id.OneOff()
			_ = w.retry(func(b *engine.Engine) error {
				_, err := b.Cancel(ctx, "default", run, "sim")
				if errors.Is(err, bucketer.ErrFinished) {
					err = nil
				}
				return err
			})
		}
		if i < 3 && !s.oneOff {
			w.askRoot(ctx, s, i)
		}
	}
}

// askJoinJob makes job i of a set. One that runs after no other is due after a while, or when it is
// triggered.
func (w *world) askJoinJob(ctx context.Context, s *joinSet, i int, ahead time.Duration) error {
	j := s.jobs[i]
	spec := schema.JobSpec{Tenant: "default", Work: j.work(i)}
	if !s.oneOff {
		spec.Name = j.name
	}
	if len(j.after) > 0 {
		spec.After = &schema.After{When: j.when}
		for _, n := range j.after {
			spec.After.Jobs = append(spec.After.Jobs, schema.Upstream{Name: s.jobs[n].id.String()})
		}
	} else {
		spec.Schedule = &schema.Schedule{Every: schema.Duration(30 * 24 * time.Hour)}
	}
	at := time.Now().Add(ahead).Truncate(time.Millisecond)
	return w.retry(func(b *engine.Engine) error {
		one := bucketer.Job{Tenant: "default", Work: spec.Work, At: at, Key: j.name, BodyHash: j.name}
		if len(j.after) > 0 || !s.oneOff {
			job, _, err := b.CreateJob(ctx, spec, j.name, j.name)
			var upstreams *recurringjobs.OneOffUpstreams
			if !errors.As(err, &upstreams) {
				if err == nil {
					j.id = job.ID
				}
				return err
			}
			one.At, one.After = time.Time{}, &upstreams.After
		}
		r, err := b.Submit(ctx, one)
		if err == nil {
			j.id = schema.JobOf(r.Run)
		}
		return err
	})
}

// askRoot has the first job of a set run.
func (w *world) askRoot(ctx context.Context, s *joinSet, n int) {
	key := fmt.Sprintf("%s-root-%d", s.name, n)
	var root schema.RunID
	if err := w.retry(func(b *engine.Engine) error {
		r, err := b.TriggerJob(ctx, "default", s.jobs[0].id, nil, key, key)
		root = r.Run
		return err
	}); err != nil {
		s.unsure = true
		return
	}
	s.roots = append(s.roots, root)
}

// isOfJoins reports whether a one-off job is one of a set.
func isOfJoins(r *runs.Run) bool {
	work := r.Entry.Spec.Work
	return work != nil && work.HTTP != nil && strings.HasPrefix(work.HTTP.URL, "http://sink/"+joinSource)
}

// joinCalls are the calls of one run.
type joinCalls struct {
	first, last time.Time // arrivals
	succeeded   time.Time // when the first success was answered; zero: none was
	ended       time.Time // when the first call of all was answered
}

// judgeJoins judges the sets: of each chain that was acknowledged, each job has one run that starts, or
// is skipped, as those before it ended; none started before they had. seen are the calls.
func (w *world) judgeJoins(ctx context.Context, b *engine.Engine, seen []check.Sighting) error {
	by := make(map[string]*joinCalls)
	for i := range seen {
		s := &seen[i]
		c := by[s.Run]
		if c == nil {
			c = &joinCalls{first: s.At}
			by[s.Run] = c
		}
		if s.At.Before(c.first) {
			c.first = s.At
		}
		if s.At.After(c.last) {
			c.last = s.At
		}
		end := s.End
		if !s.Gone.IsZero() && s.Gone.Before(end) {
			end = s.Gone // its caller died: others may count it as lost
		}
		if s.Succeeded() && (c.succeeded.IsZero() || s.End.Before(c.succeeded)) {
			c.succeeded = s.End
		}
		if c.ended.IsZero() || end.Before(c.ended) {
			c.ended = end
		}
	}
	known := make(map[string]bool)
	unsure := false
	for _, s := range w.joins {
		unsure = unsure || s.unsure
		for _, j := range s.jobs {
			unsure = unsure || j.id.IsZero()
		}
		if s.oneOff {
			set := make(map[int]runs.Run)
			for i, j := range s.jobs {
				if run, ok := j.id.OneOff(); ok && !j.id.IsZero() {
					r, err := b.Run(ctx, "default", run)
					if err != nil {
						return fmt.Errorf("run of %s: %w", j.name, err)
					}
					set[i] = r
				}
			}
			w.judgeChain(s, set, by, known)
			continue
		}
		chains, err := w.readChains(ctx, b, s)
		if err != nil {
			return err
		}
		for _, root := range s.roots {
			w.judgeChain(s, chains[root], by, known)
			delete(chains, root)
		}
		if len(chains) > 0 && !s.unsure {
			w.c.fault("%s has %d chains that were not asked for", s.name, len(chains))
		}
	}
	for run := range by {
		if !known[run] && !unsure {
			w.c.fault("run %s was called, and is of no job that runs after others or before", run)
		}
	}
	return nil
}

// readChains reads the runs of a set by the runs with which their chains began.
func (w *world) readChains(ctx context.Context, b *engine.Engine, s *joinSet) (map[schema.RunID]map[int]runs.Run, error) {
	chains := make(map[schema.RunID]map[int]runs.Run)
	for i, j := range s.jobs {
		if j.id.IsZero() {
			continue
		}
		list, _, err := b.JobRuns(ctx, "default", j.id, recurringjobs.JobRunFilter{To: time.Now()}, runs.Position{}, 100)
		if err != nil {
			return nil, fmt.Errorf("runs of %s: %w", j.name, err)
		}
		for _, r := range list {
			root := r.Entry.RootOf()
			if chains[root] == nil {
				chains[root] = make(map[int]runs.Run)
			}
			if twice, ok := chains[root][i]; ok {
				w.c.fault("%s has two runs of the chain %s: %s and %s", j.name, root, twice.ID, r.ID)
			}
			chains[root][i] = r
		}
	}
	return chains, nil
}

// judgeChain judges the runs of one chain of a set.
func (w *world) judgeChain(s *joinSet, set map[int]runs.Run, by map[string]*joinCalls, known map[string]bool) {
	verdicts := make(map[int]string)
	for i, j := range s.jobs {
		r, ok := set[i]
		if j.id.IsZero() {
			return
		}
		if !ok {
			w.c.fault("%s has no run of a chain that was acknowledged", j.name)
			return
		}
		known[r.ID.String()] = true
		c := by[r.ID.String()]
		verdicts[i] = verdictIn(&r, j.after, verdicts)
		if !r.State.Terminal() {
			w.c.fault("run %s of %s, %s after %v: %v, is %s in the end, moved to %s", r.ID, j.name, j.when, j.after, verdictsOf(j.after, verdicts), r.State, r.Entry.Marks.MovedTo)
			return
		}
		if len(j.after) == 0 || r.State == schema.StateCancelled {
			continue
		}
		starts, may := expected(j.when, j.after, verdicts)
		switch {
		case starts && r.State == schema.StateSkipped && !may, starts && c == nil && !may && !attempted(&r):
			w.c.fault("run %s of %s, %s after %v, is %s and was not called, want it to start", r.ID, j.name, j.when, verdictsOf(j.after, verdicts), r.State)
		case !starts && c != nil && !may:
			w.c.fault("run %s of %s, %s after %v, was called, want it skipped", r.ID, j.name, j.when, verdictsOf(j.after, verdicts))
		case c != nil:
			w.judgeOrder(s, i, set, by)
		}
	}
}

// attempted reports whether an executor took a run, and maybe died before it called.
func attempted(r *runs.Run) bool {
	return slices.ContainsFunc(r.Attempts, func(a schema.Attempt) bool { return a.Number > 0 })
}

// judgeOrder judges when a run was called, by the calls of those before it.
func (w *world) judgeOrder(s *joinSet, i int, set map[int]runs.Run, by map[string]*joinCalls) {
	j, mine := s.jobs[i], by[set[i].ID.String()]
	early, one := false, false
	var last time.Time
	for _, n := range j.after {
		c := by[set[n].ID.String()]
		if c == nil {
			one = true // it was skipped, or cancelled before it started
			continue
		}
		if c.last.After(last) {
			last = c.last
		}
		ended := !c.ended.After(mine.first)
		if j.when == "" || j.when == "all_succeeded" {
			ended = !c.succeeded.IsZero() && !c.succeeded.After(mine.first)
		}
		one, early = one || ended, early || !ended
	}
	if j.when == "any_succeeded" || j.when == "any_failed" {
		early = !one
	}
	if early {
		w.c.fault("run %s of %s, %s after %v, was called at %v, before those that it runs after had ended", set[i].ID, j.name, j.when, j.after, mine.first)
	}
	if late := mine.first.Sub(last); !last.IsZero() && late > joinLate {
		w.c.fault("run %s of %s was called %v after the last call of those that it runs after", set[i].ID, j.name, late)
	}
}

func verdictsOf(after []int, verdicts map[int]string) []string {
	list := make([]string, len(after))
	for i, n := range after {
		list[i] = verdicts[n]
	}
	return list
}

// verdictIn says how a run ended, for those after it: "succeeded", "failed", "cancelled", or "mixed" if
// its rows say more than one thing, which came one after the other.
func verdictIn(r *runs.Run, after []int, verdicts map[int]string) string {
	ends := make(map[string]bool)
	for i := range r.Attempts {
		rec := r.Attempts[i].Record
		switch {
		case rec == nil || rec.Unstarted:
		case rec.Outcome == schema.Succeeded:
			ends["succeeded"] = true
		case rec.Outcome == schema.Cancelled:
			ends["cancelled"] = true
		case rec.Outcome == schema.Missed, rec.Final:
			ends["failed"] = true
		case rec.Outcome == schema.Skipped:
			ends[skippedAs(after, verdicts)] = true
		}
	}
	if r.Entry.Marks.Cancelled != nil {
		ends["cancelled"] = true
	}
	if len(ends) > 1 {
		return "mixed"
	}
	for end := range ends {
		return end
	}
	return "mixed"
}

// skippedAs is the verdict of a run that is skipped.
func skippedAs(after []int, verdicts map[int]string) string {
	as := "succeeded"
	for _, n := range after {
		switch v := verdicts[n]; {
		case v == "mixed":
			return v
		case v == "failed", v == "cancelled" && as == "succeeded":
			as = v
		}
	}
	return as
}

// expected says whether a run starts whose jobs before it ended so. may: it may also not, since one of
// them ended in two ways.
func expected(when string, after []int, verdicts map[int]string) (starts, may bool) {
	count := make(map[string]int)
	for _, n := range after {
		count[verdicts[n]]++
	}
	may = count["mixed"] > 0
	switch when {
	case "all_done":
		return true, false
	case "any_succeeded":
		return count["succeeded"] > 0, may
	case "any_failed":
		return count["failed"] > 0, may
	}
	return count["succeeded"] == len(after), may
}
