package operations

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// backfiller ends the runs of backfills as executors do: each takes so long, and ends with an
// outcome.
type backfiller struct {
	w       *world
	shard   schema.Shard // of the job
	takes   time.Duration
	outcome func(nominal time.Time) schema.Outcome
	started map[schema.RunID]time.Time
	ended   map[schema.RunID]bool
	nominal map[int64]int // runs by nominal time, ms
	most    int           // unfinished at a time
}

func (w *world) backfiller(job schema.JobID, takes time.Duration) *backfiller {
	return &backfiller{
		w: w, shard: job.Shard(), takes: takes, outcome: func(time.Time) schema.Outcome { return schema.Succeeded },
		started: map[schema.RunID]time.Time{}, ended: map[schema.RunID]bool{}, nominal: map[int64]int{},
	}
}

// rows returns the entries of the job's shard that are due about now.
func (x *backfiller) rows(now time.Time) (all []schema.Entry) {
	x.w.T.Helper()
	for b := schema.BucketOf(now.Add(-time.Minute)); b <= schema.BucketOf(now.Add(time.Second)); b++ {
		p := schema.Partition{Bucket: b, Shard: x.shard}
		got, err := x.w.Counts.Entries(context.Background(), p, schema.IDRange{}, 100_000)
		if err != nil {
			x.w.T.Fatalf("entries of %s = %v", p, err)
		}
		all = append(all, got...)
	}
	return all
}

// look starts what is due and was not started, and ends what has taken long enough.
func (x *backfiller) look() {
	x.w.T.Helper()
	now, unfinished := time.Now(), 0
	for _, e := range x.rows(now) {
		if e.Spec.Trigger != schema.TriggerBackfill || e.Spec.Kind != schema.KindRun {
			continue
		}
		began, met := x.started[e.ID]
		if !met {
			began = now
			x.started[e.ID] = now
			x.nominal[e.Spec.Nominal.UnixMilli()]++
			if e.Due().After(now) || e.Spec.Priority != schema.Low || string(e.Payload) == "" {
				x.w.T.Errorf("row of a backfill: %+v due %v with payload %s, want it due now, of low priority, with payload", e.Spec, e.Due(), e.Payload)
			}
		}
		switch {
		case x.ended[e.ID]:
		case now.Sub(began) >= x.takes:
			outcome := x.outcome(e.Spec.Nominal)
			x.w.Recorded(e, 1, schema.Record{Outcome: outcome, Final: outcome == schema.Failed})
			x.ended[e.ID] = true
		default:
			unfinished++
		}
	}
	x.most = max(x.most, unfinished)
}

// until looks until the operation is not running any more, or for so long.
func (x *backfiller) until(o *Operations, id schema.OperationID, most time.Duration) schema.Operation {
	x.w.T.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		x.look()
		op, err := o.store.Operation(context.Background(), "t", id)
		if err == nil && op.State() != schema.OperationRunning || time.Since(began) > most {
			return op
		}
	}
}

// exactly checks that there is one run for each of n nominal times from `from` on, every d.
func (x *backfiller) exactly(n int, from time.Time, d time.Duration) {
	x.w.T.Helper()
	for i := range n {
		at := from.Add(time.Duration(i) * d).UnixMilli()
		if x.nominal[at] != 1 {
			x.w.T.Errorf("nominal time %v has %d runs, want one", time.UnixMilli(at).UTC(), x.nominal[at])
		}
	}
	if len(x.nominal) != n {
		x.w.T.Errorf("%d nominal times have runs, want %d", len(x.nominal), n)
	}
}

// working runs the nodes and returns how to stop them.
func working(nodes ...*Operations) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	for _, o := range nodes {
		go func() { _ = o.Run(ctx) }()
	}
	return func() { cancel(); synctest.Wait() }
}

func (w *world) backfill(o *Operations, id schema.JobID, r Backfill) Begun {
	w.T.Helper()
	begun, err := o.Backfill(w.T.Context(), "t", id, r, "me", "", "")
	if err != nil {
		w.T.Fatalf("Backfill(%+v) = %v", r, err)
	}
	return begun
}

func TestBackfill(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		now := time.Now().UTC()
		spec := every(10 * time.Minute)
		spec.Schedule.Anchor = now.Truncate(24 * time.Hour)
		job := w.job(spec)
		if _, err := w.PauseJob(t.Context(), "t", job.ID, 0); err != nil {
			// a paused job may be backfilled
			t.Fatal(err)
		}
		o := w.operations("n")
		defer working(o)()
		x := w.backfiller(job.ID, 300*time.Millisecond)
		from := now.Truncate(24 * time.Hour).Add(-10 * time.Hour)
		x.outcome = func(nominal time.Time) schema.Outcome {
			if nominal.Equal(from) {
				return schema.Failed
			}
			return schema.Succeeded
		}
		begun := w.backfill(o, job.ID, Backfill{From: from, To: from.Add(9 * time.Hour), MaxConcurrent: 4})
		if begun.Matched != 54 || !begun.All || begun.Operation.Spec.By != "me" {
			t.Errorf("Backfill = %+v, want 54 times, asked for by me", begun)
		}
		op := x.until(o, begun.Operation.ID, 10*time.Minute)
		wantCounts(t, "backfill", op.Progress, schema.Progress{Matched: 54, Changed: 54, Failed: 1})
		if op.State() != schema.OperationDone || len(op.Progress.Unfinished) != 0 || len(op.Progress.Faults) != 1 {
			t.Errorf("after it: %s, %d unfinished, faults %q; want it done, and one told of", op.State(), len(op.Progress.Unfinished), op.Progress.Faults)
		}
		x.exactly(54, from, 10*time.Minute)
		if x.most != 4 {
			t.Errorf("at most %d runs were unfinished at a time, want 4", x.most)
		}
	})
}

// Whatever fails, and whoever goes on: each nominal time has one run.
func TestBackfillSurvivesItsNode(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				rng := rand.New(rand.NewPCG(seed, 7))
				job := w.job(every(time.Minute))
				const n, most = 60, 7
				to := job.Current.Spec.Schedule.Anchor
				from := to.Add(-n * time.Minute)
				first := w.operations("first")
				begun := w.backfill(first, job.ID, Backfill{From: from, To: to, MaxConcurrent: most})
				var draws atomic.Uint64
				w.Befall(func(_ context.Context, op string) schematest.Fault {
					draw := rand.New(rand.NewPCG(seed, 100+draws.Add(1)))
					switch {
					case op == "Operation" || draw.IntN(20) > 0:
						return schematest.Fault{}
					case draw.IntN(2) == 0:
						return schematest.Fault{Fail: true}
					}
					return schematest.Fault{Lose: true}
				})
				x := w.backfiller(job.ID, 700*time.Millisecond)
				var op schema.Operation
				for life := 0; life < 400 && op.State() == schema.OperationRunning; life++ {
					o, other := w.operations(fmt.Sprint("a", life)), w.operations(fmt.Sprint("b", life))
					stop := working(o, other)
					op = x.until(o, begun.Operation.ID, time.Duration(rng.IntN(45_000))*time.Millisecond)
					stop()
				}
				w.Befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
				wantCounts(t, "backfill", op.Progress, schema.Progress{Matched: n, Changed: n})
				x.exactly(n, from, time.Minute)
				if x.most > most {
					t.Errorf("%d runs were unfinished at a time, want at most %d", x.most, most)
				}
			})
		})
	}
}

// A node that goes on from old progress reads what was decided since, and asks for nothing
// twice.
func TestBackfillFromOvertakenProgress(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(time.Minute))
		to := job.Current.Spec.Schedule.Anchor
		from := to.Add(-20 * time.Minute)
		o := w.operations("n")
		x := w.backfiller(job.ID, 0)
		op := w.backfill(o, job.ID, Backfill{From: from, To: to, MaxConcurrent: 3}).Operation
		old := op
		for range 6 {
			x.look()
			if _, err := o.step(t.Context(), &op); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if _, err := w.ChangeJob(t.Context(), "t", job.ID, 0, func(spec *schema.JobSpec) error {
			spec.Payload, spec.Schedule = []byte(`{"n":2}`), &schema.Schedule{Every: schema.Duration(time.Hour)}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for !old.Progress.Done {
			x.look()
			if _, err := o.step(t.Context(), &old); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		wantCounts(t, "backfill", old.Progress, schema.Progress{Matched: 20, Changed: 20})
		x.exactly(20, from, time.Minute)
		changed := 0
		for _, e := range w.Entries(5 * time.Minute) {
			if e.Spec.Trigger == schema.TriggerBackfill && string(e.Payload) == `{"n":2}` {
				changed++
			}
		}
		if changed == 0 || changed == 20 {
			t.Errorf("%d of 20 runs have the payload after the change, want those that were asked for after it", changed)
		}
	})
}

func TestBackfillYields(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(time.Minute))
		to := job.Current.Spec.Schedule.Anchor
		o := w.operations("n")
		defer working(o)()
		begun := w.backfill(o, job.ID, Backfill{From: to.Add(-50 * time.Minute), To: to, MaxConcurrent: 5})
		time.Sleep(5 * time.Second)
		// Four have ended, and nobody has begun the fifth: executors have other work.
		open := w.progress(o, begun.Operation.ID).Unfinished
		for _, id := range open[:4] {
			e, _ := w.Row(id)
			w.Recorded(e, 1, schema.Record{Outcome: schema.Succeeded})
		}
		time.Sleep(10 * time.Second)
		if p := w.progress(o, begun.Operation.ID); p.Matched != 5 || len(p.Unfinished) != 1 {
			t.Errorf("while a run waits for its start: %+v, want no more asked for", p)
		}
		e, _ := w.Row(open[4])
		w.Running(e, 1)
		time.Sleep(2 * time.Second)
		if p := w.progress(o, begun.Operation.ID); p.Matched != 9 || len(p.Unfinished) != 5 {
			t.Errorf("once it has begun: %+v, want four more asked for", p)
		}
	})
}

func TestBackfillEndsBeforeItsEnd(t *testing.T) {
	for _, row := range []struct {
		name  string
		ends  func(w *world, o *Operations, job schema.JobID, id schema.OperationID) error
		state string
		fault string
	}{
		{"the job is cancelled", func(w *world, _ *Operations, job schema.JobID, _ schema.OperationID) error {
			_, err := w.CancelJob(w.T.Context(), "t", job, 0)
			return err
		}, schema.OperationDone, "the job was cancelled: no run was asked for from"},
		{"the operation is cancelled", func(w *world, o *Operations, _ schema.JobID, id schema.OperationID) error {
			_, err := o.Cancel(w.T.Context(), "t", id, "me")
			return err
		}, schema.OperationCancelled, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				job := w.job(every(time.Minute))
				to := job.Current.Spec.Schedule.Anchor
				o := w.operations("n")
				defer working(o)()
				x := w.backfiller(job.ID, 3*time.Second)
				id := w.backfill(o, job.ID, Backfill{From: to.Add(-50 * time.Minute), To: to, MaxConcurrent: 5}).Operation.ID
				x.until(o, id, 8*time.Second)
				if err := row.ends(w, o, job.ID, id); err != nil {
					t.Fatal(err)
				}
				asked := len(x.nominal)
				op := x.until(o, id, time.Minute)
				if got := strings.Join(op.Progress.Faults, "; "); op.State() != row.state || !strings.HasPrefix(got, row.fault) || (got == "") != (row.fault == "") {
					t.Errorf("after it the operation is %s, faults %q; want %s, %q", op.State(), got, row.state, row.fault)
				}
				for range 100 {
					x.look()
					time.Sleep(100 * time.Millisecond)
				}
				if len(x.nominal) > asked+5 || len(x.nominal) == 50 {
					t.Errorf("%d runs were asked for, %d of them before the end", len(x.nominal), asked)
				}
				if open, err := w.Counts.OpenOperations(t.Context(), 10); err != nil || len(open) != 0 {
					t.Errorf("after its end %d operations are open, %v; want none", len(open), err)
				}
			})
		})
	}
}

func TestBackfillIsHeldToTheQuota(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tenants := w.tenantsOf()
		if _, _, err := tenants.PutTenant(t.Context(), schema.Tenant{Name: "t", Quotas: schema.Quotas{RunsPerMinute: 30}}); err != nil {
			t.Fatal(err)
		}
		job := w.job(every(time.Minute))
		to := job.Current.Spec.Schedule.Anchor
		o := w.operationsOf("n", tenants)
		defer working(o)()
		x := w.backfiller(job.ID, 0)
		began := time.Now()
		begun := w.backfill(o, job.ID, Backfill{From: to.Add(-60 * time.Minute), To: to, MaxConcurrent: 50})
		op := x.until(o, begun.Operation.ID, 10*time.Minute)
		wantCounts(t, "backfill", op.Progress, schema.Progress{Matched: 60, Changed: 60})
		if took := time.Since(began); took < 55*time.Second || took > 2*time.Minute {
			t.Errorf("60 runs took %v with a quota of 30 a minute, want about a minute", took)
		}
		x.exactly(60, to.Add(-60*time.Minute), time.Minute)
	})
}

func TestBackfillIsRefusedOrClipped(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		now := time.Now().UTC().Truncate(time.Millisecond)
		bounded := every(time.Minute)
		bounded.Schedule.Start, bounded.EndStated = now.Add(-3*time.Hour), now.Add(time.Hour)
		bounded.Schedule.Anchor = now
		job := w.job(bounded)
		second := w.job(every(time.Second))
		ended := w.job(every(time.Minute))
		if _, err := w.CancelJob(t.Context(), "t", ended.ID, 0); err != nil {
			t.Fatal(err)
		}
		o := w.operations("n")
		begun, err := o.Backfill(t.Context(), "t", job.ID, Backfill{From: now.Add(-24 * time.Hour), To: now, MaxConcurrent: 1}, "me", "k", "backfill hash")
		if err != nil || begun.Matched != 180 || len(begun.Operation.Spec.Backfill.Notes) != 1 {
			t.Errorf("Backfill from before the start = %d times, notes %q, %v; want 180 and a note", begun.Matched, begun.Operation.Spec.Backfill.Notes, err)
		}
		again, err := o.Backfill(t.Context(), "t", job.ID, Backfill{}, "me", "k", "backfill hash")
		if err != nil || !again.Existing || again.Operation.ID != begun.Operation.ID || again.Matched != 180 {
			t.Errorf("Backfill with the same key = %+v, %v; want the same", again, err)
		}
		for name, row := range map[string]struct {
			tenant string
			job    schema.JobID
			span   time.Duration
			want   error
			says   string
		}{
			"another tenant's job":   {"u", job.ID, time.Hour, schema.ErrNotFound, ""},
			"a cancelled job":        {"t", ended.ID, time.Hour, bucketer.ErrFinished, ""},
			"no time in it":          {"t", second.ID, time.Millisecond, nil, "names no time"},
			"one more than may be":   {"t", second.ID, (MaxBackfill + 1) * time.Second, nil, "names 100001 times"},
			"as many as may be":      {"t", second.ID, MaxBackfill * time.Second, nil, ""},
			"many more than may be":  {"t", second.ID, 946684800 * time.Second, nil, "names 946684800 times"},
			"before the start alone": {"t", job.ID, 0, nil, "names no time"},
		} {
			to := second.Current.Spec.Schedule.Anchor
			r := Backfill{From: to.Add(-row.span), To: to, MaxConcurrent: 1}
			if name == "before the start alone" {
				r.From, r.To = now.Add(-5*time.Hour), now.Add(-4*time.Hour)
			}
			if name == "no time in it" {
				r.From, r.To = to.Add(1), to.Add(time.Millisecond)
			}
			_, err := o.Backfill(t.Context(), row.tenant, row.job, r, "me", "", "")
			var faults bucketer.Faults
			switch {
			case row.want != nil && !errors.Is(err, row.want):
				t.Errorf("%s: Backfill = %v, want %v", name, err, row.want)
			case row.says != "" && (!errors.As(err, &faults) || !strings.Contains(faults.Error(), row.says)):
				t.Errorf("%s: Backfill = %v, want a fault that says %q", name, err, row.says)
			case row.want == nil && row.says == "" && err != nil:
				t.Errorf("%s: Backfill = %v, want it taken", name, err)
			}
		}
	})
}

// TestABackfillWaitsUntilItsJobIsUnderstood: it asks for nothing that it does not know, and goes on
// then.
func TestABackfillWaitsUntilItsJobIsUnderstood(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		time.Sleep(time.Hour)
		job := w.job(every(10 * time.Second))
		time.Sleep(time.Hour)
		o := w.operationsOf("x", nil)
		from := time.Now().Add(-10 * time.Minute)
		begun, err := o.Backfill(t.Context(), "t", job.ID, Backfill{From: from, To: from.Add(time.Minute), MaxConcurrent: 10}, "", "", "")
		if err != nil {
			t.Fatal(err)
		}
		clear := o.jobs
		o.jobs = w.unclear(job.ID)
		op := begun.Operation
		if _, err := o.step(t.Context(), &op); !errors.Is(err, schema.ErrNotUnderstood) || op.Progress.Matched != 0 {
			t.Errorf("step = %v with %d runs, want ErrNotUnderstood and none", err, op.Progress.Matched)
		}
		o.jobs = clear
		if _, err := o.step(t.Context(), &op); err != nil || op.Progress.Matched != 6 {
			t.Errorf("step = %v with %d runs, want 6 once it is understood", err, op.Progress.Matched)
		}
	})
}

// TestABackfillOfAJobThatIsNotUnderstoodIsRefused: nothing is written, and who is not its tenant
// learns nothing.
func TestABackfillOfAJobThatIsNotUnderstoodIsRefused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(10 * time.Second))
		o := w.operationsOf("x", nil)
		o.jobs = w.unclear(job.ID)
		stretch := Backfill{From: time.Now().Add(-time.Hour), To: time.Now(), MaxConcurrent: 1}
		for tenant, want := range map[string]error{"t": schema.ErrNotUnderstood, "another": schema.ErrNotFound} {
			if _, err := o.Backfill(t.Context(), tenant, job.ID, stretch, "", "", ""); !errors.Is(err, want) {
				t.Errorf("Backfill of tenant %s = %v, want %v", tenant, err, want)
			}
		}
		if n := w.Counts.Tally("PutOperation").Calls; n != 0 {
			t.Errorf("%d operations were written, want none", n)
		}
	})
}
