package node

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// Jobs and workflows run on events from HTTP and from NATS, and a step goes on that waits for one.
func (r *running) showEvents(g ground) {
	t, c := r.t, r.client()
	var mu sync.Mutex
	var bodies []string
	url := sink(t, func(_ http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, string(body))
	})
	work := schema.Work{HTTP: &schema.HTTPTarget{URL: url}}
	if _, _, err := c.PutJob(t.Context(), "index", request.JobRequest{Work: work, On: &schema.EventTrigger{Event: "file.uploaded", Filter: "event.size > 10"}}); err != nil {
		t.Fatalf("PutJob = %v", err)
	}
	flow := request.WorkflowRequest{On: &schema.EventTrigger{Event: "file.uploaded"}, Definition: workflow.Definition{Steps: []workflow.Step{
		{Name: "approve", Wait: &workflow.Wait{Event: "approved", Filter: "event.path == input.path"}},
		{Name: "load", After: []string{"approve"}, Work: &work, Payload: json.RawMessage(`{"by":{"$from":"approve","pointer":"/by"}}`)},
	}}}
	if _, _, err := c.PutWorkflow(t.Context(), "load", flow); err != nil {
		t.Fatalf("PutWorkflow = %v", err)
	}
	// One by HTTP: the job's filter refuses it, the workflow begins and waits.
	small, err := c.PublishEvent(t.Context(), "file.uploaded", json.RawMessage(`{"path":"a","size":1}`), "")
	if err != nil {
		t.Fatalf("PublishEvent = %v", err)
	}
	var waits httpapi.Run
	await(t, "the workflow waits", func() bool {
		for run, err := range c.RunsOfEvent(t.Context(), small, 0) {
			if err != nil {
				t.Fatalf("RunsOfEvent = %v", err)
			}
			if run.Workflow != "load" {
				t.Fatalf("run of %s, whose filter refuses the event", run.JobName)
			}
			if waits, err = c.Run(t.Context(), run.ID); err != nil {
				t.Fatalf("Run = %v", err)
			}
		}
		return waits.State == "waiting"
	})
	// One by NATS: both run.
	nc, err := nats.Connect("", nats.InProcessServer(g.server))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // of one id: one event
		if _, err := js.Publish(t.Context(), queue.DefaultNames.Event(r.tenant, "file.uploaded"), []byte(`{"path":"b","size":11}`), jetstream.WithMsgID(r.tenant)); err != nil {
			t.Fatalf("Publish on NATS = %v", err)
		}
	}
	await(t, "the job was called with the event", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(bodies) == 1 && bodies[0] == `{"path":"b","size":11}`
	})
	if _, err := c.PublishEvent(t.Context(), "approved", json.RawMessage(`{"path":"a","by":"me"}`), ""); err != nil {
		t.Fatalf("PublishEvent = %v", err)
	}
	await(t, "the workflow that waited has ended", func() bool {
		run, err := c.Run(t.Context(), waits.ID)
		if err != nil {
			t.Fatalf("Run = %v", err)
		}
		return run.State == schema.StateSucceeded
	})
	mu.Lock()
	defer mu.Unlock()
	if len(bodies) != 2 || bodies[1] != `{"by":"me"}` {
		t.Errorf("calls = %q, want one of the job and one of the step, with what the event said", bodies)
	}
}
