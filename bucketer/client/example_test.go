package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/bucketer/client"
)

// A program puts a workflow, runs it, and publishes an event.
func Example() {
	ctx := context.Background()
	url, stop, err := serveAPI() // stands for a node
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	c, err := client.New(url, client.WithTenant("shop"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	call := client.HTTP("https://example.com/page", client.Header("x-team", "data")).Timeout(5 * time.Second)
	if _, err := c.Tasks.Put(ctx, "page-somebody", call, client.TaskSettings{Rate: "10/m"}); err != nil {
		fmt.Println(err)
		return
	}

	w := client.NewWorkflow("etl").
		Schedule(client.Cron("0 2 * * *", "Europe/Berlin").Jitter(30 * time.Second)).
		Deadline(3 * time.Hour).
		Payload(map[string]any{"date": client.NominalTime()})
	extract := w.Step("extract", client.HTTP("https://example.com/extract")).
		Payload(map[string]any{"date": client.Input("/date")})
	transform := w.Step("transform", client.HTTP("https://example.com/transform")).
		After(extract).
		ForEach(extract.Output("/files"), client.MaxConcurrent(20)).
		Payload(map[string]any{"file": client.Item("")})
	load := w.Step("load", client.HTTP("https://example.com/load")).
		After(transform).
		Payload(map[string]any{"parts": transform.Output("")})
	w.Step("alert", client.Task("page-somebody")).After(load).When(client.AnyFailed)

	info, err := c.Workflows.Put(ctx, w)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(info.Name, info.State, "with", len(info.Steps), "steps")

	run, err := c.Workflows.Trigger(ctx, "etl", map[string]any{"date": "2026-11-21"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("a run of", run.Workflow, "is", run.State)

	if _, err := c.Events.Publish(ctx, "file.uploaded", map[string]any{"region": "eu"}); err != nil {
		fmt.Println(err)
		return
	}

	w.Step("alert", client.Task("nobody")).If("1 +")
	var faults client.Faults
	if _, err := c.Workflows.Put(ctx, w); errors.As(err, &faults) {
		for _, f := range faults {
			fmt.Println(f.Location)
		}
	}
	// Output:
	// etl active with 4 steps
	// a run of etl is pending
	// body.steps[4].name
	// body.steps[4].if
}
