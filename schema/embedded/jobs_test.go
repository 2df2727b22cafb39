package embedded_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
)

// job makes a job at that time.
func job(at time.Time, shard schema.Shard, number int64) schema.Job {
	return schema.Job{
		ID: schema.MakeJobID(at, shard, schema.RandomHash()),
		Current: schema.Generation{Number: number, State: schema.JobActive, Spec: schema.JobSpec{
			Tenant: "t", Task: "task", Schedule: &schema.Schedule{Cron: "*/5 * * * *", Timezone: "Europe/Berlin", Jitter: schema.Duration(10 * time.Second)},
			Payload: json.RawMessage(`{"to":"somebody","text":"something"}`), Created: at, Updated: at,
		}},
	}
}

// What is past its expiry gives its space back: with the clock set back, it is not seen again.
func TestExpireRemovesJobsAndHistory(t *testing.T) {
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s, set := backwards(t, begin)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	early, late := begin.Add(time.Hour), begin.Add(48*time.Hour)
	jobs := map[string]schema.Job{}
	for name, expires := range map[string]time.Time{"gone": early, "extended": early, "later": late, "active": {}} {
		j := job(begin, 1, 1)
		j.Expires = expires
		jobs[name] = j
		must(s.SwapJob(ctx, 0, j))
		must(s.ListJob(ctx, "t", j.ID, expires))
		_, err := s.Decide(ctx, name, name, expires)
		must(err)
	}
	again := jobs["extended"]
	again.Current.Number, again.Expires = 2, time.Time{}
	must(s.SwapJob(ctx, 1, again))
	must(s.ListJob(ctx, "t", again.ID, late))
	period := schema.PeriodOf(begin)
	// each period has two lines; the longer-lived one keeps it
	for day, expires := range []time.Time{early, late, {}} {
		due := begin.Add(time.Duration(day) * schema.HistoryPeriod)
		id := jobs["active"].ID
		must(s.PutJobRuns(ctx, []schema.JobRun{
			{Job: id, Run: schema.MakeEntryID(due, 1, 1), State: schema.StateSucceeded, Expires: expires},
			{Job: id, Run: schema.MakeEntryID(due, 1, 2), State: schema.StateSucceeded, Expires: early},
		}))
	}
	for _, step := range []struct {
		after     time.Duration
		jobs      []string // that are still stored
		listed    int
		decisions string // that can be made anew
		lines     [3]int
	}{
		{59 * time.Minute, []string{"active", "extended", "gone", "later"}, 4, "", [3]int{2, 2, 2}},
		{time.Hour + time.Minute, []string{"active", "extended", "later"}, 3, "extended gone ", [3]int{0, 2, 2}},
		{49 * time.Hour, []string{"active", "extended"}, 1, "extended gone later ", [3]int{0, 0, 2}},
	} {
		now := begin.Add(step.after)
		set(now)
		if _, err := s.Expire(ctx, now); err != nil {
			t.Errorf("Expire after %v = %v", step.after, err)
		}
		set(begin)
		var left []string
		for name, j := range jobs {
			if _, err := s.Job(ctx, j.ID); err == nil {
				left = append(left, name)
			} else if !errors.Is(err, schema.ErrNotFound) {
				t.Errorf("Job = %v", err)
			}
		}
		slices.Sort(left)
		if !slices.Equal(left, step.jobs) {
			t.Errorf("after %v the jobs %q are left, want %q", step.after, left, step.jobs)
		}
		ids, err := s.JobIDs(ctx, "t", schema.JobID{}, 10)
		if err != nil || len(ids) != step.listed {
			t.Errorf("after %v JobIDs = %d, %v; want %d", step.after, len(ids), err, step.listed)
		}
		free := ""
		for _, name := range []string{"active", "extended", "gone", "later"} {
			decided, err := s.Decide(ctx, name, "anew", begin.Add(time.Second))
			must(err)
			if decided == "anew" {
				free += name + " "
			}
		}
		if free != step.decisions {
			t.Errorf("after %v the decisions %q are free, want %q", step.after, free, step.decisions)
		}
		for day, want := range step.lines {
			lines, err := s.JobRuns(ctx, jobs["active"].ID, period+day, schema.RunID{}, 10)
			if err != nil || len(lines) != want {
				t.Errorf("after %v JobRuns of day %d = %d, %v; want %d", step.after, day, len(lines), err, want)
			}
		}
	}
}

// A directory keeps jobs, names, lists and history.
func TestDirectoryKeepsJobs(t *testing.T) {
	cfg := embedded.Config{Dir: t.TempDir()}
	now := time.Now().UTC().Truncate(time.Millisecond)
	j := job(now, 3, 7)
	line := schema.JobRun{Job: j.ID, Run: schema.MakeEntryID(now, 3, 1), State: schema.StateFailed, Nominal: now, Written: 1}
	t.Run("written", func(t *testing.T) {
		s := open(t, cfg)
		if err := errors.Join(s.CreateJob(t.Context(), j), s.ListJob(t.Context(), "t", j.ID, time.Time{}), s.PutJobRuns(t.Context(), []schema.JobRun{line})); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := s.RegisterName(t.Context(), "t", "n", j.ID, now); err != nil {
			t.Fatal(err)
		}
	})
	s := open(t, cfg)
	if got, err := s.Job(t.Context(), j.ID); err != nil || got.Current.Number != 7 {
		t.Errorf("Job = %+v, %v; want generation 7", got, err)
	}
	if ids, err := s.JobIDs(t.Context(), "t", schema.JobID{}, 2); err != nil || !slices.Equal(ids, []schema.JobID{j.ID}) {
		t.Errorf("JobIDs = %v, %v; want the job", ids, err)
	}
	if id, since, err := s.JobByName(t.Context(), "t", "n"); err != nil || id != j.ID || !since.Equal(now) {
		t.Errorf("JobByName = %s, %v, %v; want the job since %v", id, since, err, now)
	}
	if got, err := s.JobRuns(t.Context(), j.ID, line.Period(), schema.RunID{}, 2); err != nil || len(got) != 1 || got[0] != line {
		t.Errorf("JobRuns = %+v, %v; want %+v", got, err, line)
	}
}

// Conditional writes are over so soon here that the contract's few rounds seldom meet two at once:
// this makes many.
func TestOneOfManyDecides(t *testing.T) {
	s := open(t, embedded.Config{})
	ctx := t.Context()
	const rounds, racers = 3_000, 4
	now := time.Now()
	told := make([][2]string, racers) // the name's holder and the decision, as each is told
	for round := range rounds {
		key := strconv.Itoa(round)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range racers {
			wg.Go(func() {
				<-start
				holder, _, _, err := s.RegisterName(ctx, "t", key, schema.MakeJobID(now, 1, uint64(i)), now)
				if err != nil {
					t.Errorf("ClaimName = %v", err)
				}
				decided, err := s.Decide(ctx, key, strconv.Itoa(i), now.Add(time.Hour))
				if err != nil {
					t.Errorf("Decide = %v", err)
				}
				told[i] = [2]string{holder.String(), decided}
			})
		}
		close(start)
		wg.Wait()
		for i := range told {
			if told[i] != told[0] {
				t.Fatalf("round %d: holder and decision are %q for %d, %q for 0", round, told[i], i, told[0])
			}
		}
	}
}

// BenchmarkJobs reads a hundred jobs of a shard that has ten thousand, as a dispatcher does each
// second.
func BenchmarkJobs(b *testing.B) {
	s := open(b, embedded.Config{})
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var ids []schema.JobID
	for i := range 10_000 {
		j := job(begin.Add(time.Duration(i)*time.Second), 1, 1)
		if err := s.CreateJob(b.Context(), j); err != nil {
			b.Fatalf("CreateJob = %v", err)
		}
		if i%100 == 0 {
			ids = append(ids, j.ID)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if got, err := s.Jobs(b.Context(), 1, ids); err != nil || len(got) != len(ids) {
			b.Fatalf("Jobs = %d, %v; want %d", len(got), err, len(ids))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/job")
}

// BenchmarkPutJobRuns writes the lines of a hundred jobs at once.
func BenchmarkPutJobRuns(b *testing.B) {
	s := open(b, embedded.Config{})
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	lines := make([]schema.JobRun, 100)
	for i := range lines {
		lines[i] = schema.JobRun{Job: schema.MakeJobID(begin, 1, uint64(i)), State: schema.StateSucceeded, Nominal: begin, Started: begin, Finished: begin, Expires: begin}
	}
	n := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		n++
		for i := range lines {
			lines[i].Run = schema.MakeEntryID(begin, 1, n)
		}
		if err := s.PutJobRuns(b.Context(), lines); err != nil {
			b.Fatalf("PutJobRuns = %v", err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(lines)), "ns/line")
}
