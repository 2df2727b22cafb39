package cassandra

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// jobAt makes a job at t in shard s.
func jobAt(t time.Time, s schema.Shard, number int64) schema.Job {
	return schema.Job{
		ID: schema.MakeJobID(t, s, rand.Uint64()),
		Current: schema.Generation{Number: number, State: schema.JobActive, Spec: schema.JobSpec{
			Tenant: "t", Name: unique("job"), Task: "task",
			Schedule: &schema.Schedule{Cron: "*/5 * * * *", Timezone: "Europe/Berlin", Jitter: schema.Duration(10 * time.Second)},
			Payload:  json.RawMessage(`{"to":"somebody","text":"something"}`), Created: t, Updated: t,
		}},
	}
}

// after makes the generation of j that follows.
func after(j schema.Job, number int64) schema.Job {
	before := j.Current
	j.Before, j.Current.Number, j.Cut = &before, number, j.Current.Spec.Created
	return j
}

func createJobs(t testing.TB, s *Store, jobs ...schema.Job) {
	t.Helper()
	for _, j := range jobs {
		if err := s.CreateJob(t.Context(), j); err != nil {
			t.Fatalf("CreateJob: %v", err)
		}
	}
}

// TestUnansweredJobIsDecidedByReading: what is conditional is sent once, and the row tells what
// became of it.
func TestUnansweredJobIsDecidedByReading(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	begin := func() schema.Job { return jobAt(somewhere(), 5, 1) }
	type call struct {
		name, statement string
		do              func(s *Store, j schema.Job) error
		done            func(s *Store, j schema.Job) (bool, error) // whether it shows
	}
	number := func(s *Store, j schema.Job) (int64, error) {
		got, err := s.Job(t.Context(), j.ID)
		if errors.Is(err, schema.ErrNotFound) {
			err = nil
		}
		return got.Current.Number, err
	}
	heldBy := func(s *Store, j schema.Job) (schema.JobID, error) {
		id, _, err := s.JobByName(t.Context(), j.ID.String(), "n")
		if errors.Is(err, schema.ErrNotFound) {
			err = nil
		}
		return id, err
	}
	for _, c := range []call{
		{
			"make on condition", "first_job", func(s *Store, j schema.Job) error { j.ID[15] ^= 1; return s.SwapJob(t.Context(), 0, j) },
			func(s *Store, j schema.Job) (bool, error) { j.ID[15] ^= 1; n, err := number(s, j); return n == 1, err },
		},
		{
			"swap", "swap_job", func(s *Store, j schema.Job) error { return s.SwapJob(t.Context(), 1, after(j, 2)) },
			func(s *Store, j schema.Job) (bool, error) { n, err := number(s, j); return n == 2, err },
		},
		{
			"claim a name", "register_name", func(s *Store, j schema.Job) error {
				_, _, _, err := s.RegisterName(t.Context(), j.ID.String()+"2", "n", j.ID, now)
				return err
			},
			func(s *Store, j schema.Job) (bool, error) {
				_, _, err := s.JobByName(t.Context(), j.ID.String()+"2", "n")
				if errors.Is(err, schema.ErrNotFound) {
					return false, nil
				}
				return err == nil, err
			},
		},
		{
			"pass a name on", "transfer_name", func(s *Store, j schema.Job) error {
				return s.TransferName(t.Context(), j.ID.String(), "n", j.ID, schema.JobID{7: 1}, now)
			},
			func(s *Store, j schema.Job) (bool, error) {
				id, err := heldBy(s, j)
				return id == schema.JobID{7: 1}, err
			},
		},
		{
			"give a name up", "drop_name", func(s *Store, j schema.Job) error {
				return s.TransferName(t.Context(), j.ID.String(), "n", j.ID, schema.JobID{}, now)
			},
			func(s *Store, j schema.Job) (bool, error) { id, err := heldBy(s, j); return id.IsZero(), err },
		},
		{
			"decide", "create_decision", func(s *Store, j schema.Job) error {
				_, err := s.Decide(t.Context(), j.ID.String(), "mine", now.Add(time.Hour))
				return err
			},
			func(s *Store, j schema.Job) (bool, error) {
				decided, err := s.Decide(t.Context(), j.ID.String(), "another", now.Add(time.Hour))
				return decided == "mine", err
			},
		},
		{
			"swap a lease", "swap_lease", func(s *Store, j schema.Job) error {
				_, err := s.SwapLease(t.Context(), schema.Lease{}, schema.Lease{Key: j.ID.String(), Fence: 7}, now.Add(time.Hour))
				return err
			},
			func(s *Store, j schema.Job) (bool, error) {
				l, err := s.Lease(t.Context(), j.ID.String())
				if errors.Is(err, schema.ErrNotFound) {
					err = nil
				}
				return l.Fence == 7, err
			},
		},
	} {
		for _, lost := range []struct {
			name string
			lose func(w *wire)
			want error
			done bool
		}{
			{"answer lost: it stands", func(w *wire) { w.dropAnswers.Store(1) }, nil, true},
			{"request lost: it may yet be done", func(w *wire) { w.dropRequests.Store(1) }, schema.ErrUnknown, false},
		} {
			t.Run(c.name+", "+lost.name, func(t *testing.T) {
				s, w, reg := openWired(t)
				ready := func() schema.Job {
					j := begin()
					untilOK(t, "CreateJob", func() error { return s.CreateJob(t.Context(), j) })
					untilOK(t, "RegisterName", func() error { _, _, _, err := s.RegisterName(t.Context(), j.ID.String(), "n", j.ID, now); return err })
					return j
				}
				warm, j := ready(), ready()
				untilOK(t, c.name+" of another", func() error {
					if err := c.do(s, warm); !errors.Is(err, schema.ErrConflict) {
						return err
					}
					return nil
				})
				before := counted(t, reg)[c.statement]
				lost.lose(w)
				if err := c.do(s, j); !errors.Is(err, lost.want) {
					t.Errorf("got %v, want %v", err, lost.want)
				}
				if n := counted(t, reg)[c.statement] - before; n != 1 || w.lost.Load() != 1 {
					t.Errorf("%d conditional writes, %d frames lost; want 1, 1", n, w.lost.Load())
				}
				untilOK(t, "look", func() error {
					done, err := c.done(s, j)
					if err == nil && done != lost.done {
						t.Errorf("done %v, want %v", done, lost.done)
					}
					return err
				})
			})
		}
	}
}

// TestUnknownSwapIsJudgedByWhatStands: what two changes have covered stays unknown; else the row
// tells.
func TestUnknownSwapIsJudgedByWhatStands(t *testing.T) {
	s := openTest(t)
	for _, c := range []struct {
		name   string
		stands []int64 // the generations that follow the first, which is 10
		want   error   // of a swap of 10 for 50
	}{
		{"nothing changed", nil, schema.ErrUnknown},
		{"it", []int64{50}, nil},
		{"it, and one over it", []int64{50, 60}, nil},
		{"another", []int64{60}, schema.ErrConflict},
		{"two others, one of a lower number", []int64{20, 60}, schema.ErrConflict},
		{"two over what it may have been", []int64{50, 60, 70}, schema.ErrUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := jobAt(somewhere(), 5, 10)
			createJobs(t, s, first)
			stands := first
			for _, number := range c.stands {
				next := after(stands, number)
				if err := s.SwapJob(t.Context(), stands.Current.Number, next); err != nil {
					t.Fatalf("SwapJob: %v", err)
				}
				stands = next
			}
			mine := after(first, 50)
			holds := func(j *schema.Job) bool { return j != nil && j.Current.Number == 10 }
			if err := s.settleJob(t.Context(), &mine, holds, schema.ErrUnknown); !errors.Is(err, c.want) {
				t.Errorf("settleJob: got %v, want %v", err, c.want)
			}
		})
	}
	gone := after(jobAt(somewhere(), 5, 10), 50)
	if err := s.settleJob(t.Context(), &gone, func(j *schema.Job) bool { return j != nil }, schema.ErrUnknown); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("settleJob without a row: got %v, want ErrNotFound", err)
	}
}

// TestEndedJobLeavesNoBareRow: the row's cells leave, and nothing stays behind for every walk of
// the shard to pass over.
func TestEndedJobLeavesNoBareRow(t *testing.T) {
	s := openTest(t)
	j := jobAt(somewhere(), 5, 1)
	createJobs(t, s, j)
	ended := after(j, 2)
	ended.Current.State, ended.Expires = schema.JobFinished, time.Now().Add(time.Second)
	if err := s.SwapJob(t.Context(), 1, ended); err != nil {
		t.Fatalf("SwapJob: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := s.Job(ctx, j.ID)
		if errors.Is(err, schema.ErrNotFound) {
			break
		}
		if err != nil {
			t.Fatalf("the job has not left: %v", err)
		}
		<-tick.C
	}
	var rows int
	err := s.session.Query(`SELECT count(*) FROM jobs WHERE shard = ? AND slice = ? AND job_id = ?`,
		int(j.ID.Shard()), onlySlice, [16]byte(j.ID)).WithContext(ctx).Scan(&rows)
	if err != nil || rows != 0 {
		t.Errorf("rows of a job that has left: got %d, %v, want none", rows, err)
	}
}

// TestAJobThatCannotBeUnderstoodFailsNoOther: it is read with its fault, number, state and cut;
// alone it is an error.
func TestAJobThatCannotBeUnderstoodFailsNoOther(t *testing.T) {
	s, _ := openCounted(t)
	ctx := t.Context()
	at := time.Now().Truncate(time.Millisecond)
	var ids []schema.JobID
	for i := range 3 {
		j := schema.Job{
			ID:      schema.MakeJobID(at.Add(time.Duration(i)*time.Millisecond), 3, schema.RandomHash()),
			Current: schema.Generation{Number: 7, State: schema.JobActive, Spec: schema.JobSpec{Tenant: "t", Created: at, Updated: at}},
		}
		ids = append(ids, j.ID)
		if err := s.CreateJob(ctx, j); err != nil {
			t.Fatal(err)
		}
	}
	err := s.session.Query(`UPDATE jobs SET spec = ? WHERE shard = ? AND slice = ? AND job_id = ? IF EXISTS`,
		`{"tenant":8}`, 3, onlySlice, [16]byte(ids[1])).WithContext(ctx).Exec()
	if err != nil {
		t.Fatal(err)
	}
	byID, err := s.Jobs(ctx, 3, ids)
	if err != nil {
		t.Fatalf("Jobs = %v", err)
	}
	walked, err := s.JobsOf(ctx, 3, ids[0], 2)
	if err != nil {
		t.Fatalf("JobsOf = %v", err)
	}
	for i, j := range byID {
		if (j.Fault() != nil) != (i == 1) || j.ID != ids[i] || j.Current.Number != 7 || j.Current.State != schema.JobActive {
			t.Errorf("Jobs: job %d = %+v, fault %v, want generation 7, active, and a fault of the second alone", i, j, j.Fault())
		}
	}
	if len(byID) != 3 || len(walked) != 2 || walked[0].Fault() == nil || walked[1].Fault() != nil {
		t.Errorf("Jobs = %d jobs, JobsOf = %+v, want three, and the last two with a fault of the first of them", len(byID), walked)
	}
	if _, err := s.Job(ctx, ids[1]); !errors.Is(err, schema.ErrNotUnderstood) {
		t.Errorf("Job of one that cannot be understood = %v, want ErrNotUnderstood", err)
	}
	if err := s.SwapJob(ctx, 7, after(byID[2], 8)); err != nil {
		t.Fatal(err)
	}
	err = s.session.Query(`UPDATE jobs SET before_spec = ? WHERE shard = ? AND slice = ? AND job_id = ? IF EXISTS`,
		`{"tenant":8}`, 3, onlySlice, [16]byte(ids[2])).WithContext(ctx).Exec()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Job(ctx, ids[2]); err != nil || got.Before == nil || !errors.Is(got.Before.Fault, schema.ErrNotUnderstood) {
		t.Errorf("Job of one whose past cannot be understood = %+v, %v, want it, and a fault of the generation before", got, err)
	}
}

// TestBatchesOfHistory: lines of one partition share batches, and single ones those of others.
func TestBatchesOfHistory(t *testing.T) {
	s, reg := openCounted(t)
	start := somewhere()
	for _, c := range []struct {
		name  string
		lines []int // of each job
		want  int   // batches
	}{
		{"nothing", nil, 0},
		{"a hundred jobs", slices.Repeat([]int{1}, 100), 2},
		{"a job of a hundred", []int{100}, 1},
		{"a job of twenty, and others", []int{1, 20, 1, 19}, 2},
		{"a job of a hundred and one", []int{101, 1}, 3},
	} {
		var runs []schema.JobRun
		for _, n := range c.lines {
			j := jobAt(start, 3, 1)
			for i := range n {
				due := start.Truncate(schema.HistoryPeriod).Add(time.Duration(i) * time.Second)
				runs = append(runs, schema.JobRun{Job: j.ID, Run: schema.MakeEntryID(due, 3, 1), State: schema.StateSucceeded, Written: 1, Expires: start})
			}
		}
		before := counted(t, reg)["insert_job_run"]
		if err := s.PutJobRuns(t.Context(), runs); err != nil {
			t.Fatalf("%s: PutJobRuns: %v", c.name, err)
		}
		if got := counted(t, reg)["insert_job_run"] - before; got != c.want {
			t.Errorf("%s: got %d batches, want %d", c.name, got, c.want)
		}
	}
}

// TestStatementsOfJobs: a hundred jobs are one statement, however large.
func TestStatementsOfJobs(t *testing.T) {
	s, reg := openCounted(t)
	start := somewhere()
	var ids []schema.JobID
	for i := range 100 {
		j := jobAt(start.Add(time.Duration(i)*time.Second), 9, 1)
		createJobs(t, s, j)
		ids = append(ids, j.ID)
	}
	if _, err := s.Jobs(t.Context(), 9, ids); err != nil { // learns how large rows are
		t.Fatalf("Jobs: %v", err)
	}
	before := counted(t, reg)
	if got, err := s.Jobs(t.Context(), 9, ids); err != nil || len(got) != 100 {
		t.Fatalf("Jobs: got %d, %v, want 100", len(got), err)
	}
	for name, n := range counted(t, reg) {
		if want := map[string]int{"select_jobs": 1}[name]; n-before[name] != want {
			t.Errorf("%s: got %d, want %d", name, n-before[name], want)
		}
	}
}

// BenchmarkJobs reads a hundred jobs of a shard that has five thousand, as a dispatcher does for
// the runs it is about to publish.
func BenchmarkJobs(b *testing.B) {
	s := openTest(b)
	shard := schema.Shard(rand.IntN(schema.MaxShards)) // #nosec G115 -- small
	start := somewhere()
	var ids []schema.JobID
	for i := range 5_000 {
		j := jobAt(start.Add(time.Duration(i)*time.Second), shard, 1)
		createJobs(b, s, j)
		if i%50 == 0 {
			ids = append(ids, j.ID)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if got, err := s.Jobs(b.Context(), shard, ids); err != nil || len(got) != len(ids) {
			b.Fatalf("Jobs: got %d, %v, want %d", len(got), err, len(ids))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/job")
}

// BenchmarkPutJobRuns writes the lines of runs that have ended, at once.
func BenchmarkPutJobRuns(b *testing.B) {
	for _, c := range []struct {
		name string
		jobs int // over which a hundred lines are spread
	}{{"of 1 job", 1}, {"of 10 jobs", 10}, {"of 100 jobs", 100}} {
		b.Run(c.name, func(b *testing.B) {
			s := openTest(b)
			due := time.Now().UTC().Truncate(schema.HistoryPeriod)
			lines := make([]schema.JobRun, 100)
			var jobs []schema.Job
			for range c.jobs {
				jobs = append(jobs, jobAt(due, 1, 1))
			}
			n := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				for i := range lines {
					n++
					lines[i] = schema.JobRun{
						Job: jobs[i%c.jobs].ID, Run: schema.MakeEntryID(due.Add(time.Duration(n)*time.Millisecond), 1, n), State: schema.StateSucceeded,
						Nominal: due, Started: due, Finished: due, Written: due.UnixMicro(), Expires: due.Add(24 * time.Hour),
					}
				}
				if err := s.PutJobRuns(b.Context(), lines); err != nil {
					b.Fatalf("PutJobRuns: %v", err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(lines)), "ns/line")
		})
	}
}
