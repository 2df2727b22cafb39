package httpapi

import (
	"fmt"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

// describeWorkflows says in the schemas of workflows what the types of Go do not.
func (s documentWriter) describeWorkflows() error {
	say := func(description string) func(*huma.Schema) {
		return func(f *huma.Schema) { f.Description = description }
	}
	span := func(description string) func(*huma.Schema) {
		return func(f *huma.Schema) {
			duration(f)
			f.Description = description
		}
	}
	name := func(description string) func(*huma.Schema) {
		return func(f *huma.Schema) { f.Pattern, f.Description = namePattern, description }
	}
	schemas := s.api.OpenAPI().Components.Schemas.Map()
	for _, p := range []struct {
		schema, field string
		say           func(*huma.Schema)
	}{
		{"WorkflowRequest", "name", name("If stated, that of the path")},
		{"WorkflowRequest", "steps", func(f *huma.Schema) {
			f.MinItems, f.MaxItems = whole(1), whole(workflow.MaxSteps)
			f.Description = "In any order: after says which come before which"
		}},
		{"WorkflowRequest", "deadline", span("How long after its due time a run may take as a whole; absent: 168h")},
		{"WorkflowRequest", "payload", say(`The input of scheduled runs, and of others that state none: any JSON, at most 64 KiB. {"$run": "/id"} and {"$run": "/nominal_at"} stand for the run's`)},
		{"WorkflowRequest", "schedule", say("By cron or every; absent: it runs when it is asked to")},
		{"WorkflowRequest", "start", say("No scheduled run before it")},
		{"WorkflowRequest", "end", say("No scheduled run from it on")},
		{"WorkflowRequest", "max_runs", func(f *huma.Schema) {
			f.Minimum, f.Maximum, f.Description = number(1), number(100_000), "Paused and missed runs count"
		}},
		{"WorkflowRequest", "jitter", duration},
		{"WorkflowRequest", "concurrency", say("How many runs may be under way at once; runs that are steps of other workflows do not count. Absent: any number")},
		{"WorkflowRequest", "priority", words("critical", "high", "normal", "low")},
		{"WorkflowRequest", "labels", say("At most 16")},
		{"Workflow", "deadline", duration},
		{"Workflow", "jitter", duration},
		{"TriggerRequest", "payload", say("The input of the run: any JSON, at most 64 KiB; absent: the workflow's")},

		{"Step", "name", name("Unique in the workflow")},
		{"Step", "after", say("The steps that come before it; absent: it starts at once")},
		{"Step", "when", func(f *huma.Schema) {
			for _, w := range workflow.Whens {
				f.Enum = append(f.Enum, string(w))
			}
			f.Description = "How those must have ended; default all_succeeded. A step that cannot start any more is skipped: it counts as failed if one of those did, else as succeeded. " +
				"always also starts after a cancel of the run"
		}},
		{"Step", "if", func(f *huma.Schema) {
			f.Description = "A CEL expression over input and steps; false: the step is skipped, and counts as succeeded"
			f.Examples = []any{"size(steps.extract.output.files) > 100"}
		}},
		{"Step", "task", name("The task to run; else exactly one of http, nats, script, lambda, jetstream, sqs, sns, eventbridge, step_functions, kafka, wait and workflow")},
		{"Step", "workflow", name("The workflow to run as a step; at most 8 deep. Its output is an object of the outputs of the steps that none comes after, by their names, at most 64 KiB")},
		{"Step", "payload", say(`Any JSON, at most 64 KiB when the step starts. An object {"$from": "extract", "pointer": "/files"} stands for the output of a step before it, ` +
			`{"$input": "/date"} for the payload of the run, {"$item": ""} for the item of for_each, {"$index": true} for its number from 0, {"$run": "/id"} for the run's id`)},
		{"Step", "priority", words("critical", "high", "normal", "low")},
		{"Step", "deadline", span("How long after its start the step may take, with all its attempts")},
		{"Step", "timeout", duration},
		{"Step", "guarantee", words("at_least_once", "at_most_once", "effectively_once")},
		{"Step", "requires", requires},
		{"Step", "preemptible", preemptible},
		{"ForEach", "from", name("A step before it, whose output is the list, or holds it")},
		{"ForEach", "pointer", say("Where in that output the list is: a JSON pointer (RFC 6901)")},
		{"ForEach", "input", say("Where in the payload of the run the list is: a JSON pointer")},
		{"ForEach", "items", func(f *huma.Schema) {
			f.MaxItems, f.Description = whole(workflow.MaxItems), "The list itself"
		}},
		{"ForEach", "max_concurrent", func(f *huma.Schema) {
			f.Minimum, f.Description = number(0), "The most items that run at once; 0 or absent: all"
		}},
		{"EventTrigger", "event", name("The event's name; run.*, dead_letter.* and workflow.* are those of the system")},
		{"EventTrigger", "filter", func(f *huma.Schema) {
			f.Description = "A CEL expression over event, its body; absent: every one starts a run. One that cannot be evaluated does not"
			f.Examples = []any{"event.region == 'eu'"}
		}},
		{"EventTrigger", "delay", span("From the event to the run's due time; absent: none")},
		{"AfterRequest", "jobs", func(f *huma.Schema) {
			f.MinItems, f.MaxItems, f.Items.Pattern = whole(1), whole(schema.MaxUpstreams), jobPattern
			f.Description = "Their names or ids: either all of jobs that can have many runs, or all of one-off jobs. The job has one run for each run with which their chain begins, which must be one job's"
		}},
		{"AfterRequest", "when", func(f *huma.Schema) {
			words("all_succeeded", "all_done", "any_succeeded", "any_failed")(f)
			f.Description = "How their runs must have ended; default all_succeeded. Once they cannot end so any more, the run is skipped"
		}},
		{"AfterRequest", "deadline", span("From the due time of the run with which the chain began, or from the creation of a one-off job, to when a run that still waits is stuck; absent: 168h")},
		{"JobAfter", "deadline", duration},
		{"Wait", "for", span("So long from when the step starts")},
		{"Wait", "until", func(f *huma.Schema) { f.Format, f.Description = "date-time", "Until this instant" }},
		{"Wait", "event", name("For the event of this name")},
		{"Wait", "filter", say("Of event: a CEL expression over event and input")},
		{"Wait", "deadline", span("Of event: how long; then the step fails")},
	} {
		of := schemas[p.schema]
		if of == nil || of.Properties[p.field] == nil {
			return fmt.Errorf("the OpenAPI document has no %s.%s", p.schema, p.field)
		}
		p.say(of.Properties[p.field])
	}
	return nil
}

func whole(n int) *int { return &n }
