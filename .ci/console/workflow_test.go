package console

import (
	"testing"

	"carillon.dev/carillon/bucketer/client"
)

// A workflow run says why each of its steps has not started: those before it, a time, a rate.
func TestWorkflowRunSaysWhyStepsWait(t *testing.T) {
	t.Parallel()
	s, sink := serve(t), StartSink(t)
	api := Ask(t, s.URL, "", "")
	_, err := api.Tasks.Put(t.Context(), "ask-partner", client.HTTP(sink.URL+"/ok/partner"), client.TaskSettings{Rate: "1/h"})
	must(t, true, err)
	type object = map[string]any
	api.Do("PUT", "/v1/workflows/partners", object{"steps": []object{
		{"name": "first", "task": "ask-partner"},
		{"name": "second", "task": "ask-partner", "after": []string{"first"}},
		{"name": "pause", "wait": object{"for": "6h"}},
		{"name": "report", "task": "ask-partner", "after": []string{"second", "pause"}},
	}}, nil)
	run, err := api.Workflows.Trigger(t.Context(), "partners", nil)
	id := must(t, run, err).ID

	p := openView(t, s.Console(), "#/workflow-runs/"+id.String())
	p.See("second: The rate of its task is used up.")
	p.See("It waits until")
	p.Open("#/workflow-runs/" + id.String() + "?step=report")
	p.See("It waits for second (pending), pause (waiting).")
	p.Axe("a workflow run with steps that wait")
	p.Fits("a workflow run with steps that wait")
}

// A workflow is edited whole: saving it as it is changes nothing.
func TestWorkflowIsEditedWhole(t *testing.T) {
	t.Parallel()
	s := serve(t)
	api := Ask(t, s.URL, "", "")
	type object = map[string]any
	api.Do("PUT", "/v1/workflows/child", object{"steps": []object{{"name": "a", "wait": object{"for": "1s"}}}}, nil)
	stated := object{
		"concurrency": object{"limit": 2, "on_limit": "skip"},
		"steps": []object{
			{"name": "call", "lambda": object{"function": "resize", "region": "eu-central-1", "credentials": "aws"}},
			{"name": "nested", "workflow": "child", "after": []string{"call"}},
		},
	}
	api.Do("PUT", "/v1/workflows/parent", stated, nil)
	type shown struct {
		Generation  int
		Concurrency struct {
			Limit   int
			OnLimit string `json:"on_limit"`
		}
		Steps []struct {
			Workflow string
			Lambda   *struct{ Function string }
		}
	}

	p := openView(t, s.Console(), "#/workflows/parent")
	p.See("at most 2 runs; further runs are skipped")
	p.Click("button", "Show as a table")
	p.In("table", "Steps").See("Lambda resize")
	p.Open("#/workflows/parent/edit")
	p.See("The node would take it.")
	p.Click("button", "Change the workflow")
	p.AwaitAt("#/workflows/parent")
	var is shown
	api.Do("GET", "/v1/workflows/parent", nil, &is)
	if c := is.Concurrency; c.Limit != 2 || c.OnLimit != "skip" {
		t.Errorf("after it was saved its limit is %+v, want 2 and skip", c)
	}
	if len(is.Steps) != 2 || is.Steps[0].Lambda == nil || is.Steps[1].Workflow != "child" {
		t.Errorf("after it was saved its steps are %+v", is.Steps)
	}
}

// The cluster is not called well by what a node said before it hung.
func TestClusterOfANodeThatHangs(t *testing.T) {
	t.Parallel()
	s := serve(t)
	proxy := StartProxy(t, s.URL, "")
	p := openView(t, proxy.Console(), "#/cluster")
	p.See("The cluster is well")
	proxy.Have(Hangs)
	p.See("How the cluster stands now is not known")
	proxy.Have(NoFault)
	p.See("The cluster is well")
}
