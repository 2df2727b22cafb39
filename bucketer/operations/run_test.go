package operations

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// A change of a job waits for half a second, so what one operation does, and what several do, must
// overlap.
func TestOperationsActSideBySide(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const n = 3 * operationPage
		for i := range n {
			spec := every(1000 * time.Hour)
			spec.Labels = map[string]string{"team": []string{"a", "b", "c"}[i%3]}
			w.job(spec)
		}
		o := w.operations("n")
		var begun []Begun
		for _, team := range []string{"a", "b", "c"} {
			begun = append(begun, w.begin(o, asked(ActionPause, schema.OperationFilter{Label: "team=" + team})))
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer synctest.Wait()
		defer cancel()
		began := time.Now()
		go func() { _ = o.Run(ctx) }()
		for _, b := range begun {
			for range 60 {
				if w.progress(o, b.Operation.ID).Done {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			wantCounts(t, "pause", w.progress(o, b.Operation.ID), schema.Progress{Matched: n / 3, Changed: n / 3})
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("three operations paused %d jobs in %v, want at most 6 s: %d at once, each for half a second", n, took, operationActs)
		}
	})
}

func TestOperationIsCancelled(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const n = 3 * operationPage
		for range n {
			w.job(every(1000 * time.Hour))
		}
		o := w.operations("n")
		begun := w.begin(o, asked(ActionTrigger, schema.OperationFilter{}))
		id, op := begun.Operation.ID, begun.Operation
		if _, err := o.step(t.Context(), &op); err != nil {
			t.Fatalf("step = %v", err)
		}
		if _, err := o.Cancel(t.Context(), "u", id, "me"); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("Cancel by another tenant = %v, want %v", err, schema.ErrNotFound)
		}
		w.BefallFirst(1, "CancelOperation", schematest.Fault{Fail: true})
		if _, err := o.Cancel(t.Context(), "t", id, "me"); !errors.Is(err, schema.ErrUnavailable) {
			t.Errorf("Cancel while the store is away = %v, want %v", err, schema.ErrUnavailable)
		}
		first, err := o.Cancel(t.Context(), "t", id, "me")
		if err != nil || first.State() != schema.OperationCancelled || first.Cancelled.By != "me" {
			t.Errorf("Cancel = %s by %+v, %v; want it cancelled by me", first.State(), first.Cancelled, err)
		}
		// Whoever has not seen the mark writes how far it has come, and the mark stays.
		if _, err := o.step(t.Context(), &op); err != nil {
			t.Fatalf("step = %v", err)
		}
		again, err := o.Cancel(t.Context(), "t", id, "another")
		if err != nil || again.Cancelled == nil || *again.Cancelled != *first.Cancelled {
			t.Errorf("Cancel again = %+v, %v; want %+v", again.Cancelled, err, first.Cancelled)
		}
		wantCounts(t, "a cancelled trigger", w.works(id, o), schema.Progress{Matched: 2 * operationPage, Changed: 2 * operationPage})
		if open, err := w.Counts.OpenOperations(t.Context(), 10); err != nil || len(open) != 0 {
			t.Errorf("after its end %d operations are open, %v; want none", len(open), err)
		}
		done := w.begin(o, asked(ActionPause, schema.OperationFilter{NamePrefix: "none"}))
		w.works(done.Operation.ID, o)
		if _, err := o.Cancel(t.Context(), "t", done.Operation.ID, "me"); !errors.Is(err, bucketer.ErrFinished) {
			t.Errorf("Cancel of what is done = %v, want %v", err, bucketer.ErrFinished)
		}
	})
}

// tenantsOf returns Tenants over the world's store, of which one node keeps the quotas.
func (w *world) tenantsOf() *admin.Tenants {
	return admin.NewTenants(w.Counts, w, time.Now, func() int { return 1 })
}

func TestOperationsWaitForTheQuota(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const n, quota = 150, 60
		for range n {
			w.job(every(1000 * time.Hour))
		}
		tenants := w.tenantsOf()
		if _, _, err := tenants.PutTenant(t.Context(), schema.Tenant{Name: "t", Quotas: schema.Quotas{RunsPerMinute: quota}}); err != nil {
			t.Fatal(err)
		}
		o := w.operationsOf("n", tenants)
		pause := w.begin(o, asked(ActionPause, schema.OperationFilter{}))
		began := time.Now()
		wantCounts(t, "pause, which starts nothing", w.works(pause.Operation.ID, o), schema.Progress{Matched: n, Changed: n})
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("a pause took %v: it waited for a quota of runs", took)
		}
		trigger := w.begin(o, asked(ActionTrigger, schema.OperationFilter{}))
		began = time.Now()
		wantCounts(t, "trigger", w.works(trigger.Operation.ID, o), schema.Progress{Matched: n, Changed: n})
		// The first minute's quota at once, and then one a second.
		if took := time.Since(began).Round(time.Second); took < (n-quota)*time.Second-2*time.Second || took > (n-quota)*time.Second+2*operationTurn {
			t.Errorf("%d runs took %v with a quota of %d a minute, want about %d s", n, took, quota, n-quota)
		}
		var err error
		for range 3 { // a second has passed since, or two
			err = tenants.AdmitRun(t.Context(), "t", 0)
		}
		if !errors.Is(err, admin.ErrQuota) {
			t.Errorf("AdmitRun after an operation has used the quota up = %v, want %v", err, admin.ErrQuota)
		}
	})
}

// An operation that waits keeps nobody else from being worked off.
func TestMoreOperationsThanPlaces(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.job(every(1000 * time.Hour))
		tenants := w.tenantsOf()
		if _, _, err := tenants.PutTenant(t.Context(), schema.Tenant{Name: "t", Quotas: schema.Quotas{RunsPerMinute: 1}}); err != nil {
			t.Fatal(err)
		}
		if err := tenants.AdmitRun(context.Background(), "t", 0); err != nil {
			t.Fatal(err)
		}
		o := w.operationsOf("n", tenants)
		var waiting []Begun
		for range 2 * operationsAtOnce {
			waiting = append(waiting, w.begin(o, asked(ActionTrigger, schema.OperationFilter{})))
		}
		last := w.begin(o, asked(ActionPause, schema.OperationFilter{}))
		began := time.Now()
		wantCounts(t, "pause behind triggers that wait", w.works(last.Operation.ID, o), schema.Progress{Matched: 1, Changed: 1})
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("a pause behind triggers that wait took %v", took)
		}
		if p := w.progress(o, waiting[0].Operation.ID); p.Done {
			t.Errorf("a trigger without quota is done: %+v", p)
		}
	})
}

// A tenant that has as many operations open as it may have begins no more, until one has ended. A
// key that was known stays known.
func TestATenantHasSoManyOperations(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		o := w.operations("n")
		spec := asked(ActionPause, schema.OperationFilter{})
		first, err := o.Begin(t.Context(), "t", spec, "key", "hash")
		if err != nil {
			t.Fatal(err)
		}
		for range MaxOpenOperations - 1 {
			w.begin(o, spec)
		}
		if _, err := o.Begin(t.Context(), "t", spec, "another", "hash"); !errors.Is(err, ErrManyOperations) {
			t.Errorf("Begin beside %d = %v, want ErrManyOperations", MaxOpenOperations, err)
		}
		job := w.job(every(time.Hour))
		stretch := Backfill{From: job.Current.Spec.Created, To: time.Now().Add(2 * time.Hour), MaxConcurrent: 1}
		if _, err := o.Backfill(t.Context(), "t", job.ID, stretch, "", "", ""); !errors.Is(err, ErrManyOperations) {
			t.Errorf("Backfill beside %d = %v, want ErrManyOperations", MaxOpenOperations, err)
		}
		if again, err := o.Begin(t.Context(), "t", spec, "key", "hash"); err != nil || again.Operation.ID != first.Operation.ID {
			t.Errorf("Begin by a key that is known = %s, %v, want %s", again.Operation.ID, err, first.Operation.ID)
		}
		if _, err := o.Begin(t.Context(), "u", spec, "", ""); err != nil {
			t.Errorf("Begin by another tenant = %v", err)
		}
		if open, err := w.Counts.OpenOperations(t.Context(), 2*MaxOpenOperations); err != nil || len(open) != MaxOpenOperations+1 {
			t.Errorf("%d operations are open, %v; want %d and that of another tenant", len(open), err, MaxOpenOperations)
		}
		w.works(first.Operation.ID, o)
		if begun, err := o.Begin(t.Context(), "t", spec, "another", "hash"); err != nil || begun.Existing {
			t.Errorf("Begin after some have ended, by the key that was refused = existing %t, %v, want a new one", begun.Existing, err)
		}
	})
}

// Operations are counted: what is open, and what became of steps and of what they met.
func TestOperationsAreCounted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for range 3 {
			w.job(every(1000 * time.Hour))
		}
		ended := w.job(every(1000 * time.Hour))
		if _, err := w.CancelJob(t.Context(), "t", ended.ID, 0); err != nil {
			t.Fatal(err)
		}
		tenants := w.tenantsOf()
		if _, _, err := tenants.PutTenant(t.Context(), schema.Tenant{Name: "t", Quotas: schema.Quotas{RunsPerMinute: 1}}); err != nil {
			t.Fatal(err)
		}
		o := w.operationsOf("n", tenants)
		pause, trigger := w.begin(o, asked(ActionPause, schema.OperationFilter{})), w.begin(o, asked(ActionTrigger, schema.OperationFilter{}))
		w.BefallFirst(1, "SwapJob", schematest.Fault{Fail: true})
		ctx, cancel := context.WithCancel(context.Background())
		defer synctest.Wait()
		defer cancel()
		go func() { _ = o.Run(ctx) }()
		time.Sleep(20 * time.Second)
		if !w.progress(o, pause.Operation.ID).Done || w.progress(o, trigger.Operation.ID).Done {
			t.Fatal("after 20 s the pause is not done, or the trigger is, which waits for its quota")
		}
		m := o.metrics
		for range 120 {
			// which of both began is not said, and a run that may start in a minute is a long wait
			if bucketertest.Value(t, m.acts.WithLabelValues(ActionTrigger, "changed")) > 0 {
				break
			}
			time.Sleep(time.Second)
		}
		for _, c := range []struct {
			name string
			got  float64
			want float64
		}{
			{"open pauses", bucketertest.Value(t, m.open.WithLabelValues(ActionPause)), 0},
			{"open triggers", bucketertest.Value(t, m.open.WithLabelValues(ActionTrigger)), 1},
			{"steps of pauses", bucketertest.Value(t, m.steps.WithLabelValues(ActionPause, "done")), 1},
			{"failed steps of pauses", bucketertest.Value(t, m.steps.WithLabelValues(ActionPause, "failed")), 1},
			{"paused", bucketertest.Value(t, m.acts.WithLabelValues(ActionPause, "changed")), 1},
			{"not paused", bucketertest.Value(t, m.acts.WithLabelValues(ActionPause, "unchanged")), 3},
			{"triggered", bucketertest.Value(t, m.acts.WithLabelValues(ActionTrigger, "changed")), 1},
			{"failed", bucketertest.Value(t, m.acts.WithLabelValues(ActionPause, "failed")), 0},
		} {
			if c.got != c.want {
				t.Errorf("%s = %v, want %v", c.name, c.got, c.want)
			}
		}
	})
}

// Each job that an operation changed is told of once, by who asked; one that was as asked is not.
func TestChangedJobsAreNoted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		paused := w.job(every(time.Hour))
		if _, err := w.PauseJob(t.Context(), "t", paused.ID, 0); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		noted := make(map[schema.JobID]string)
		o := New(Config{
			Bucketer: w.Bucketer, Runs: w.RunParts(), Jobs: w.Recurring(), Store: w.Faulty, Node: "n1",
			Note: func(op *schema.Operation, job *schema.Job) {
				mu.Lock()
				defer mu.Unlock()
				noted[job.ID] += op.Spec.Action + " by " + op.Spec.By + ";"
			},
		})
		want := make(map[schema.JobID]string)
		for range 3 {
			want[w.job(every(time.Hour)).ID] = "pause by me;"
		}
		w.works(w.begin(o, asked(ActionPause, schema.OperationFilter{})).Operation.ID, o)
		if !maps.Equal(noted, want) {
			t.Errorf("noted was %v, want %v", noted, want)
		}
		want[paused.ID] = ""
		for id := range want {
			want[id] += "resume by me;"
		}
		w.works(w.begin(o, asked(ActionTrigger, schema.OperationFilter{})).Operation.ID, o)
		w.works(w.begin(o, asked(ActionResume, schema.OperationFilter{})).Operation.ID, o)
		if !maps.Equal(noted, want) {
			t.Errorf("noted was %v after all were run and resumed, want %v", noted, want)
		}
		synctest.Wait()
	})
}
