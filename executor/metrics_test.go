package executor

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// observed returns how often something was observed, and the sum in seconds.
func observed(t *testing.T, o prometheus.Observer) (times uint64, sum float64) {
	t.Helper()
	var m dto.Metric
	if err := o.(prometheus.Metric).Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()
}

// TestAttemptsAreTimedByKindAndOutcome: a run counts once as started, under its priority, and each
// attempt that has begun once as ended, with the time that it took.
func TestAttemptsAreTimedByKindAndOutcome(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const took = 300 * time.Millisecond
		w.answer(func(_ context.Context, c target.Call) target.Result {
			time.Sleep(took)
			if c.Number == 1 && c.Work.HTTP.URL == "http://ill.test" {
				return target.Result{Outcome: schema.Failed}
			}
			return target.Result{Outcome: schema.Succeeded}
		})
		n := w.begin("a")
		for i, p := range []schema.Priority{"", schema.Normal, schema.Critical, schema.Low} {
			url := "http://well.test"
			if i == 3 {
				url = "http://ill.test"
			}
			w.publish(w.entry(inAWhile(500*time.Millisecond), func(s *schema.Spec) {
				s.Priority = p
				s.Work = &schema.Work{HTTP: &schema.HTTPTarget{URL: url}, Retry: &schema.Retry{MaxAttempts: 1, Jitter: "none"}}
			}), time.Now())
		}
		time.Sleep(3 * time.Second)
		for i, want := range []uint64{1, 0, 2, 1} {
			if got, _ := observed(t, n.metrics.byPriority[i]); got != want {
				t.Errorf("%d runs of priority %s were counted as started, want %d", got, schema.Priorities[i], want)
			}
		}
		for k, kind := range kinds {
			for o, outcome := range ends {
				want := map[string]uint64{"http succeeded": 3, "http failed": 1}[kind+" "+string(outcome)]
				got, sum := observed(t, n.metrics.seconds[k][o])
				if low := float64(want) * took.Seconds(); got != want || sum < low-1e-6 || sum > low+0.5 {
					t.Errorf("%d attempts of kind %s ended as %s and took %g s, want %d and %g s", got, kind, outcome, sum, want, low)
				}
			}
		}
	})
}

// TestWhatARunCountsAllocatesNothing: these lie on the path of each run.
func TestWhatARunCountsAllocatesNothing(t *testing.T) {
	m := newMetrics(prometheus.NewRegistry())
	work, message := &schema.Work{Lambda: &schema.LambdaTarget{}}, &schema.Work{StepFunctions: &schema.StepFunctionsTarget{}}
	if n := testing.AllocsPerRun(1000, func() {
		m.observeStart(schema.Low, time.Millisecond, nil)
		m.observeEnd(work, schema.Lost, time.Second, nil)
		m.observeEnd(message, schema.Succeeded, time.Second, nil)
		m.observeEnd(&schema.Work{}, "unheard of", time.Second, nil)
	}); n != 0 {
		t.Errorf("a run allocates %g times to be counted, want never", n)
	}
	if got, _ := observed(t, m.seconds[3][4]); got != 1001 {
		t.Errorf("lambda attempts that were lost = %d, want 1001", got)
	}
	if got, _ := observed(t, m.seconds[slices.Index(kinds[:], "step_functions")][0]); got != 1001 {
		t.Errorf("executions that were started = %d, want 1001", got)
	}
}
