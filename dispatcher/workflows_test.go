package dispatcher

import (
	"errors"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/orchestration"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// TestAStepIsOpenUntilItsWorkflowRunWasAdvanced: the entry of a step's run stays open from its end
// until its workflow run was advanced past that. If we crash in between, the next owner finds it.
func TestAStepIsOpenUntilItsWorkflowRunWasAdvanced(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		s := r.shardOf(r.idle(), 0)
		now := time.Now()
		whole := r.entry(now, 0, schema.Spec{Workflow: &schema.WorkflowRun{}})
		e := r.entry(now, 0, schema.Spec{Step: &schema.Step{Workflow: whole.ID, Name: "a"}})
		s.state.Add(&queue.Envelope{Entry: e})

		s.workflows.finished(&schema.Notice{Entry: e.ID, Run: e.ID, Attempt: 1, Succeeded: true})
		run := s.workflows.runs[whole.ID]
		if p := pending(s, e.ID); p == nil || p.Phase != shardstate.Finishing || run == nil || len(run.finished) != 1 {
			t.Fatalf("after its notice the entry is %+v, want it open until the workflow run was advanced", p)
		}
		finished := run.finished
		run.finished = nil

		s.workflows.advanced(t.Context(), &orchestration.Turn{Run: whole.ID, Err: errors.New("the store failed")}, finished, now)
		if pending(s, e.ID) == nil || len(run.finished) != 1 {
			t.Fatal("the entry was closed although its workflow run could not be advanced")
		}
		s.workflows.advanced(t.Context(), &orchestration.Turn{Run: whole.ID, State: new(orchestration.State)}, finished, now)
		if pending(s, e.ID) != nil {
			t.Error("the entry is open although its workflow run was advanced")
		}
	})
}

// TestATurnThatComesMeanwhileStaysOpen: an advance says that a workflow run is over, as it does of
// one that waits for a limit. The entry by which the run got its turn meanwhile stays open: the
// advance did not know of it.
func TestATurnThatComesMeanwhileStaysOpen(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		s := r.shardOf(r.idle(), 0)
		now := time.Now()
		e := r.entry(now, 0, schema.Spec{Workflow: &schema.WorkflowRun{}})
		turn := r.entry(now, 0, schema.Spec{Workflow: &schema.WorkflowRun{}, Of: e.ID, Kind: schema.KindFromWaitList})
		for _, e := range []schema.Entry{e, turn} {
			s.state.Add(&queue.Envelope{Entry: e})
		}
		s.workflows.due(pending(s, e.ID), false)
		s.workflows.start(t.Context(), now) // what it finds out is taken in below: the run is not in the store
		s.workflows.due(pending(s, turn.ID), false)
		(<-s.posts)(now)
		if pending(s, e.ID) != nil {
			t.Error("the entry that waits is open")
		}
		if pending(s, turn.ID) == nil {
			t.Fatal("the entry of the turn was closed by an advance that began before it came")
		}
		s.workflows.start(t.Context(), now)
		(<-s.posts)(now)
		if pending(s, turn.ID) != nil {
			t.Error("the entry of the turn is open although the run is over")
		}
	})
}

// TestBatchesOfWorkflowRuns: a step that fails is followed by smaller ones, until they succeed.
func TestBatchesOfWorkflowRuns(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		s := r.shardOf(r.idle(), 0)
		now := time.Now()
		for range 6 * workflowBatch {
			s.workflows.touch(r.entry(now, 0, schema.Spec{Workflow: &schema.WorkflowRun{}}).ID)
		}
		step := func() {
			s.workflows.start(t.Context(), now)
			(<-s.posts)(now)
		}
		r.fail("EntriesByID", true)
		for _, want := range []int{128, 64, 32, 16, 8, 4, 4} {
			if step(); s.workflows.batch() != want {
				t.Fatalf("after a step that failed the next may advance %d runs, want %d", s.workflows.batch(), want)
			}
		}
		r.fail("EntriesByID", false)
		for _, want := range []int{8, 16, 32, 64, 128, 256, 256} {
			if step(); s.workflows.batch() != want {
				t.Fatalf("after a full step the next may advance %d runs, want %d", s.workflows.batch(), want)
			}
		}
	})
}
