package runs

import (
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

const day = 24 * time.Hour

// TestRowsLeaveAfterTheTenantsRetention: rows of a run leave when its tenant says, those of others
// when the cluster does, and attempts never before their run.
func TestRowsLeaveAfterTheTenantsRetention(t *testing.T) {
	bubble(t, 7*day, func(t *testing.T, w *world) {
		began := time.Now()
		w.Retain("t", 1, w)
		runs := make(map[string]schema.RunID)
		for _, tenant := range []string{"t", "other"} {
			runs[tenant] = w.submit(bucketer.Job{Tenant: tenant, Work: work()})
			row, _ := w.Row(runs[tenant])
			if want := map[string]int{"t": 1}[tenant]; row.Spec.Retention != want {
				t.Errorf("the entry of a run of %s says %d days, want %d", tenant, row.Spec.Retention, want)
			}
			said := w.NotStarted(row, schema.Record{Outcome: schema.Missed}, began)
			if err := w.Record(t.Context(), []schema.Attempt{said}); err != nil {
				t.Fatal(err)
			}
		}
		gone := make(map[string][2]time.Duration) // row, attempts
		for hour := range 9 * 24 {
			for tenant, id := range runs {
				at := gone[tenant]
				_, row := w.Row(id)
				attempts, err := w.Counts.Attempts(t.Context(), id.Partition(), []schema.RunID{id})
				if err != nil {
					t.Fatal(err)
				}
				if row && len(attempts) == 0 {
					t.Fatalf("after %v a run of %s is there without its attempts", time.Since(began), tenant)
				}
				for i, there := range []bool{row, len(attempts) > 0} {
					if !there && at[i] == 0 {
						at[i] = time.Duration(hour) * time.Hour
					}
				}
				gone[tenant] = at
			}
			time.Sleep(time.Hour)
		}
		for tenant, want := range map[string]time.Duration{"t": day, "other": 7 * day} {
			if got := gone[tenant]; got != [2]time.Duration{want, want + bucketer.Outlast} {
				t.Errorf("rows of %s left after %v, want after %v", tenant, got, [2]time.Duration{want, want + bucketer.Outlast})
			}
		}
	})
}

// TestARunKeepsTheRetentionItWasAskedForUnder: a change holds for later runs. Rows of one run never
// go by two retentions: an entry that outlived the attempts of its run would start it again.
func TestARunKeepsTheRetentionItWasAskedForUnder(t *testing.T) {
	for name, row := range map[string]struct{ was, is int }{"shortened": {0, 1}, "made longer": {1, 3}, "taken back": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 7*day, func(t *testing.T, w *world) {
				w.Retain("t", row.was, w)
				before := w.submit(bucketer.Job{Tenant: "t", Work: work()})
				w.Retain("t", row.is, w)
				after := w.submit(bucketer.Job{Tenant: "t", Work: work()})
				for id, want := range map[schema.RunID]int{before: row.was, after: row.is} {
					e, _ := w.Row(id)
					next, err := w.LaterStart(&e, schema.KindRetry, schema.MakeEntryID(time.Now(), 0, 7), 2, time.Now())
					if err != nil {
						t.Fatal(err)
					}
					stays := 7 * day
					if want > 0 {
						stays = time.Duration(want) * day
					}
					if e.Spec.Retention != want || next.Spec.Retention != want || next.Expires.Sub(next.Due()) != stays {
						t.Errorf("the run says %d days, its retry %d and stays %v; want %d, and %v", e.Spec.Retention, next.Spec.Retention, next.Expires.Sub(next.Due()), want, stays)
					}
				}
			})
		})
	}
}

// TestWhatWaitsOutlivesTheTenantsRetention: nothing leaves of a run that is put off for longer than
// its tenant keeps rows, and the rows are kept as seldom as the cluster's would be.
func TestWhatWaitsOutlivesTheTenantsRetention(t *testing.T) {
	bubble(t, 7*day, func(t *testing.T, w *world) {
		w.Retain("t", 1, w)
		payload := []byte(`"` + strings.Repeat("p", schema.InlinePayload+1) + `"`)
		id := w.submit(bucketer.Job{Tenant: "t", Work: work(), Payload: payload})
		e, _ := w.Row(id)
		w.Counts.Reset()
		const days = 4
		for range days * 12 {
			time.Sleep(time.Until(e.Due()))
			to, err := w.Defer(&e, time.Now().Add(2*time.Hour), "", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if replaced, err := w.Replace(t.Context(), []schema.Entry{e}, []schema.Entry{to}); err != nil || len(replaced) != 1 {
				t.Fatalf("Replace = %v, %v", replaced, err)
			}
			e = to
			run := w.wantRun(id, schema.StatePending, "put off")
			if text, err := w.Payload(t.Context(), run); err != nil || string(text) != string(payload) {
				t.Fatalf("after %v: payload of %d bytes, %v", time.Since(id.Time()), len(text), err)
			}
		}
		if n := w.Counts.Tallies()["KeepAttempts"].Calls; n > 2*days {
			t.Errorf("the rows were kept %d times in %d days, want at most twice a day", n, days)
		}
	})
}

// TestARetentionBeyondTheClustersIsTheClusters: nothing stays longer than the cluster keeps it.
func TestARetentionBeyondTheClustersIsTheClusters(t *testing.T) {
	bubble(t, 2*day, func(t *testing.T, w *world) {
		now := time.Now()
		for days, want := range map[int]time.Duration{0: 2 * day, 1: day, 2: 2 * day, 3: 2 * day, 10_000: 2 * day} {
			if got := w.ExpiryOf(&schema.Spec{Retention: days}, now, now).Sub(now); got != want {
				t.Errorf("a row of a run that says %d days stays %v, want %v", days, got, want)
			}
		}
	})
}
