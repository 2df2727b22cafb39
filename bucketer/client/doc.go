// Package client is what a Go program imports to use Carillon: it speaks HTTP with a node, and has
// builders for jobs and workflows.
//
//	c, err := client.New("https://carillon.example.com", client.WithKey(key))
//	…
//	w := client.NewWorkflow("etl").
//		Schedule(client.Cron("0 2 * * *", "Europe/Berlin")).
//		Deadline(3 * time.Hour)
//	extract := w.Step("extract", client.Task("extract")).
//		Payload(map[string]any{"date": client.Input("/date")})
//	load := w.Step("load", client.HTTP("https://example.com/load").Timeout(time.Minute)).
//		After(extract).
//		ForEach(extract.Output("/files"), client.MaxConcurrent(20)).
//		Payload(map[string]any{"file": client.Item("")})
//	w.Step("alert", client.Task("page-somebody")).After(load).When(client.AnyFailed)
//	_, err = c.Workflows.Put(ctx, w)
//
// # Errors
//
// What a builder cannot send is a Faults, with everything that is wrong: nothing was sent then. An
// answer of the API that is an error is an *Error. If it found the request invalid, it has Faults
// with their locations, too. So errors.As finds a Faults in either. Every other error is one of the
// way there, or of the context.
//
// # What is sent twice
//
// A request that could not be sent, or was refused for now (429, 502, 503, 504), is sent again.
// That does nothing twice: whatever creates something has an idempotency key. A call draws its key
// unless it is given one (WithIdempotencyKey). A program that crashes and begins anew must give
// one, or it may create twice.
//
// # Limits
//
// The package imports the standard library and package schema, whose types it shows under its own
// names. It does not do what operators do (keys, tenants, secrets, operations on many jobs): those
// are in /docs of every node. Jobs.Import takes thousands of jobs; for files of millions there is
// `carillon import`.
//
// # Files
//
//	client.go    a client, and how it asks until it is answered
//	errors.go    faults and errors
//	names.go     the names that schema's types have here
//	answers.go   what the API answers; answers_run.go the same of runs
//	jobs.go, runs.go, workflows.go, events.go, tasks.go
//	             what can be asked for, by noun; logs.go: what runs logged, import.go: many jobs at once
//	job.go, workflow.go, step.go
//	             builders; schedule.go, work.go and values.go are their parts
//	notes.go     what a builder finds wrong
package client
