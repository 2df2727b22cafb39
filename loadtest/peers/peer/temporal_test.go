package peer

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"carillon.dev/carillon/loadtest/peers/measure"
)

// TestAChainCallsItsStepsInOrder: one job after the other, and none after one that fails for good.
func TestAChainCallsItsStepsInOrder(t *testing.T) {
	for _, row := range []struct {
		name  string
		fails int // the job whose first call fails; -1 = none
		want  []int
	}{
		{"all are well", -1, []int{35, 36, 37, 38, 39}},
		{"one is tried again", 36, []int{35, 36, 36, 37, 38, 39}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			var called []int
			failed := false
			env.RegisterActivityWithOptions(func(_ context.Context, job measure.Job) error {
				called = append(called, job.I)
				if job.Wave != 2 {
					t.Errorf("job %d is of wave %d, want 2", job.I, job.Wave)
				}
				if job.I == row.fails && !failed {
					failed = true
					return errors.New("not yet")
				}
				return nil
			}, activity.RegisterOptions{Name: temporalStep})
			env.ExecuteWorkflow(chain, 2, 35)
			if err := env.GetWorkflowError(); err != nil || !slices.Equal(called, row.want) {
				t.Errorf("chain = %v after calls of %v, want nil after %v", err, called, row.want)
			}
		})
	}
}

func TestWorkflowsAreForSystemsThatRunThem(t *testing.T) {
	if got, want := NamesOf(measure.Workflows), []string{"temporal", "temporal-default", "temporal-relaxed"}; !slices.Equal(got, want) {
		t.Errorf("NamesOf(W) = %q, want %q", got, want)
	}
	others := NamesOf(measure.Stream)
	if !slices.Contains(others, "river") || slices.Contains(others, "temporal") {
		t.Errorf("NamesOf(C) = %q, want those that run jobs", others)
	}
	for name, protocol := range map[string]string{"temporal": measure.Stream, "river": measure.Workflows} {
		p, err := New(name, Means{})
		if err != nil {
			t.Fatal(err)
		}
		if err := measure.Fits(p, protocol, measure.HTTP); err == nil {
			t.Errorf("Fits(%s, %s) = nil, want why not", name, protocol)
		}
	}
}
