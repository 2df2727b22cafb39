package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/schema"
)

// documentWriter writes the OpenAPI document.
type documentWriter struct{ *Server }

// document returns the frame of the OpenAPI document.
func (s documentWriter) document() huma.Config {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	c := huma.DefaultConfig("Carillon", s.config.Version)
	c.OpenAPI = &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Carillon", Version: s.config.Version,
			Description: "A scheduler for very large numbers of jobs. Times are RFC 3339, answered in UTC with milliseconds; " +
				"durations are strings such as \"1m30s\". Unknown fields are refused; a field that is null counts as absent. " +
				"Errors are problem+json (RFC 9457) with every fault that was found. " +
				"Where there are regions, an answer about one thing names its home (Carillon-Home); a change is sent on to the region that serves that home, which the answer names then (Carillon-Region), " +
				"and reads are answered by the region that is asked. What was written elsewhere a moment ago may not be seen there yet. A change of what is not seen there yet, or not as it is now, " +
				"may be answered there (404, 409) and not sent on: ask again, or ask the region of its home.",
		},
		// relative to the document: a proxy may give the node a path below its own
		Servers:    []*huma.Server{{URL: ".", Description: "The node that serves this document"}},
		Components: &huma.Components{Schemas: registry},
	}
	c.CreateHooks = nil // no $schema links in answers
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", ""
	c.RejectUnknownQueryParameters = true
	c.Transformers = []huma.Transformer{asProblem}
	return c
}

// operation describes a request that is answered with success or one of the problems.
func (s *Server) operation(id, method, path, summary string, success int, problems ...int) huma.Operation {
	op := huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary, DefaultStatus: success,
		Metadata: map[string]any{serverOf: s}, // for moreFaults; no part of the document
		Parameters: []*huma.Param{{
			Name: tenantHeader, In: "header", Description: "The tenant that the request is for; default: " + defaultTenant,
			Schema: &huma.Schema{Type: huma.TypeString, Pattern: namePattern},
		}},
		Responses: map[string]*huma.Response{
			strconv.Itoa(success): {Description: http.StatusText(success)},
		},
	}
	// The caller may lack a key or its right, and may name no tenant.
	problems = append(problems, http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusInternalServerError)
	for _, status := range problems {
		op.Responses[strconv.Itoa(status)] = s.problemResponse(status)
	}
	return op
}

func (s *Server) problemResponse(status int) *huma.Response {
	r := &huma.Response{
		Description: http.StatusText(status),
		Content:     map[string]*huma.MediaType{problemJSON: {Schema: s.schema(reflect.TypeFor[Problem]())}},
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		r.Headers = map[string]*huma.Param{"Retry-After": {
			Description: "Seconds until it may be tried again", Schema: &huma.Schema{Type: huma.TypeInteger},
		}}
	}
	return r
}

func (s *Server) schema(t reflect.Type) *huma.Schema {
	return s.api.OpenAPI().Components.Schemas.Schema(t, true, t.Name())
}

// describeBody documents the JSON body of a registered operation. It comes after the registration:
// huma would otherwise read and validate the body itself, less strictly.
func (s *Server) describeBody(path, method string, t reflect.Type, media ...string) {
	body := &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{}}
	for _, m := range media {
		body.Content[m] = &huma.MediaType{Schema: s.schema(t)}
	}
	item := s.api.OpenAPI().Paths[path]
	switch method {
	case http.MethodPost:
		item.Post.RequestBody = body
	case http.MethodPut:
		item.Put.RequestBody = body
	case http.MethodPatch:
		item.Patch.RequestBody = body
	}
}

// alsoAnswers documents that a registered operation may succeed with another status as well, the
// same way.
func (s *Server) alsoAnswers(path, method string, status, like int) {
	item := s.api.OpenAPI().Paths[path]
	for m, op := range map[string]*huma.Operation{http.MethodPost: item.Post, http.MethodPut: item.Put} {
		if m == method {
			as := *op.Responses[strconv.Itoa(like)]
			as.Description = http.StatusText(status)
			op.Responses[strconv.Itoa(status)] = &as
		}
	}
}

// describeSystem documents what is not part of /v1.
func (s documentWriter) describeSystem() {
	for _, r := range []struct {
		id, path, summary, media string
		statuses                 []int
	}{
		{"healthz", "/healthz", "Whether the process is alive", "text/plain", []int{200}},
		{"readyz", "/readyz", "Whether the node can do its work: a line for each dependency", "text/plain", []int{200, 503}},
		{"metrics", "/metrics", "Metrics in the text format of Prometheus", "text/plain", []int{200}},
		{"openapi", "/openapi.json", "This document", "application/openapi+json", []int{200}},
		{"docs", "/docs", "This document as a page", "text/html", []int{200}},
	} {
		op := &huma.Operation{OperationID: r.id, Method: http.MethodGet, Path: r.path, Summary: r.summary, Responses: map[string]*huma.Response{}}
		for _, status := range r.statuses {
			op.Responses[strconv.Itoa(status)] = &huma.Response{
				Description: http.StatusText(status), Content: map[string]*huma.MediaType{r.media: {Schema: &huma.Schema{}}},
			}
		}
		if r.path == "/metrics" { // where they are protected
			for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
				op.Responses[strconv.Itoa(status)] = s.problemResponse(status)
			}
		}
		s.api.OpenAPI().AddOperation(op)
	}
}

const (
	namePattern     = `^[a-z0-9][a-z0-9._-]{0,62}$`
	durationPattern = `^[+-]?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`
)

// finish says in the schemas what the types of Go do not, and makes the document.
func (s documentWriter) finish() error {
	schemas := s.api.OpenAPI().Components.Schemas.Map()
	for _, p := range []struct {
		schema, field string
		say           func(*huma.Schema)
	}{
		{"JobRequest", "key", func(f *huma.Schema) {
			f.Description = "Idempotency key of a line of an import; not of a single request"
		}},
		{"JobRequest", "name", func(f *huma.Schema) {
			f.Pattern, f.Description = namePattern, "Of a job that can have many runs; unique in the tenant. One that has a name, and neither schedule nor on nor after, runs only when it is triggered"
		}},
		{"JobRequest", "start", func(f *huma.Schema) { f.Description = "Of a recurring job: no run before it" }},
		{"JobRequest", "end", func(f *huma.Schema) { f.Description = "Of a recurring job: no run from it on" }},
		{"JobRequest", "max_runs", func(f *huma.Schema) {
			f.Minimum, f.Maximum, f.Description = number(1), number(100_000), "Of a recurring job: paused and missed runs count"
		}},
		{"JobRequest", "jitter", duration},
		{"JobRequest", "task", func(f *huma.Schema) {
			f.Pattern, f.Description = namePattern, "The task to run; else exactly one of http, nats, script, lambda, jetstream, sqs, sns, eventbridge, step_functions and kafka"
		}},
		{"JobRequest", "payload", func(f *huma.Schema) { f.Description = "Any JSON, at most 64 KiB" }},
		{"JobRequest", "priority", words("critical", "high", "normal", "low")},
		{"JobRequest", "region", regionChoice("Of a one-off job: the home at which it lies, named after a region. One that has a key, waits for other jobs, or is of a task with a rate or a limit lies where its tenant is at home. " +
			"Absent: there; other jobs lie where their task says, or a route of the operator has the host of their URL, or their tenant's home is stated, or else where the request arrives. " +
			"503 not-served: another region serves that home")},
		{"TaskRequest", "region", taskRegion},
		{"Task", "region", taskRegion},
		{"JobRequest", "durability", durability("this job, and its changes, are acknowledged")},
		{"WorkflowRequest", "durability", durability("this workflow, and its changes, are acknowledged")},
		{"TenantRequest", "durability", durability("jobs and imports that state none are acknowledged")},
		{"JobRequest", "unique", func(f *huma.Schema) {
			f.Description = "Of a one-off job that waits for no other: it is created only if no job of the same key was created within that one's window. Otherwise nothing is created, and the answer is 200 with that job and existing. " +
				"The key is what by names, as the request states it (the order of members does not matter), and always the tenant and the task, or the call. A job that has ended or was cancelled counts until its window ends"
		}},
		{"UniqueRequest", "by", func(f *huma.Schema) {
			f.Description, f.MaxItems, f.Examples = "What makes two jobs the same, besides the tenant and what they run: task (nothing else), payload, payload/… (a JSON pointer into the payload: payload/customer/id), labels or labels/NAME. A part that is absent counts as one. Default: task, payload", whole(16), []any{[]string{"payload/customer/id"}}
		}},
		{"UniqueRequest", "window", func(f *huma.Schema) {
			duration(f)
			f.Description = "From the creation of the first job on, from 1s to 744h; it may last up to 5s longer"
		}},
		{"JobUnique", "window", duration},
		{"JobRequest", "labels", func(f *huma.Schema) { f.Description = "At most 16" }},
		{"TaskRequest", "rate", rate},
		{"Task", "rate", rate},
		{"TaskRequest", "max_concurrent", maxConcurrent},
		{"Task", "max_concurrent", maxConcurrent},
		{"TaskRequest", "payload_schema", payloadSchema},
		{"Task", "payload_schema", payloadSchema},
		{"TaskRequest", "description", func(f *huma.Schema) { f.Description = "At most 1024 bytes" }},
		{"Schedule", "at", func(f *huma.Schema) {
			f.Description = "When it is due, to the ms; absent or past: now; at most ten years ahead"
		}},
		{"Schedule", "cron", func(f *huma.Schema) {
			f.Description, f.Examples = "Five fields, or six with the second first; not beside at or every", []any{"0 9 * * MON-FRI"}
		}},
		{"Schedule", "timezone", func(f *huma.Schema) {
			f.Description, f.Examples = "Of cron: an IANA name; default UTC", []any{"Europe/Berlin"}
		}},
		{"Schedule", "gap", words("run", "skip")},
		{"Schedule", "overlap_hour", words("first", "second", "both")},
		{"Schedule", "every", duration},
		{"Schedule", "anchor", func(f *huma.Schema) {
			f.Description = "Of every: an instant from which the others are counted; default: creation"
		}},
		{"Schedule", "exclude", func(f *huma.Schema) {
			f.Description, f.Examples = "Dates of the time zone on which it is not due; at most 500 of all schedules of a job. Beside every, timezone says whose dates they are", []any{[]string{"2026-12-25"}}
		}},
		{"Schedule", "calendar", func(f *huma.Schema) {
			f.Description = "What it does on the dates of a calendar of the tenant (PUT /v1/calendars/{name})"
		}},
		{"ScheduleCalendar", "name", func(f *huma.Schema) { f.Pattern, f.Description = namePattern, "Of a calendar of the tenant" }},
		{"ScheduleCalendar", "on", func(f *huma.Schema) {
			words("skip", "next_day", "previous_day")(f)
			f.Description = "skip (default): it is not due then; next_day, previous_day, of cron alone: it is due at its time of day on the next day, or on the day before, that is none of the dates"
		}},
		{"CalendarRequest", "dates", func(f *huma.Schema) {
			f.Description, f.MaxItems, f.Examples = "At most 500; or else icalendar", whole(schema.MaxCalendarDates), []any{[]string{"2026-12-25", "2026-12-26"}}
		}},
		{"CalendarRequest", "icalendar", func(f *huma.Schema) {
			f.Description = "The text of an iCalendar (RFC 5545): the dates of its all-day events. Those that repeat each year (RRULE with FREQ=YEARLY) are written out from last year to five years from now, with RDATE, EXDATE and RECURRENCE-ID. Events that repeat otherwise, or have a time of day, are refused"
		}},
		{"CalendarRequest", "description", func(f *huma.Schema) { f.Description = "At most 1024 bytes" }},
		{"JobRequest", "schedules", func(f *huma.Schema) {
			f.Description, f.MaxItems = "Instead of schedule, of a recurring job: it is due when any of them is, once at each instant. Each has cron or every, and a time zone of its own; start, end, max_runs and jitter are of all", whole(8)
		}},
		{"JobSchedule", "every", duration},
		{"OperationRequest", "action", words("cancel", "pause", "resume", "trigger", "retry", "replay", "discard")},
		{"OperationFilter", "state", func(f *huma.Schema) { f.Description = "Of jobs, or of runs" }},
		{"OperationFilter", "states", func(f *huma.Schema) { f.Description = "Of runs: in one of these; not beside state" }},
		{"OperationFilter", "label", func(f *huma.Schema) { f.Description = "Of jobs, or of runs: name=value" }},
		{"OperationFilter", "labels", func(f *huma.Schema) {
			f.Description, f.MaxItems = "Of runs: they have all of these, each name=value", whole(16)
		}},
		{"OperationFilter", "name_prefix", func(f *huma.Schema) { f.Description = "Of jobs" }},
		{"OperationFilter", "from", func(f *huma.Schema) { f.Description = "Of runs and dead letters: the first due time" }},
		{"OperationFilter", "to", func(f *huma.Schema) { f.Description = "Due times before this one; at most 31 days after from" }},
		{"OperationFilter", "task", func(f *huma.Schema) { f.Description = "Of runs and dead letters" }},
		{"OperationFilter", "error_pattern", func(f *huma.Schema) { f.Description = "Of dead letters: as lists of them show it" }},
		{"OperationFilter", "error", func(f *huma.Schema) {
			f.Description = "Of dead letters: their error has this in it, in capitals or not. No pattern: it is taken as it is"
		}},
		{"OperationFilter", "job", func(f *huma.Schema) {
			f.Description = "Of runs and dead letters: the id or name of the job. Of one that can have many, runs that repeat one of them are left out; their dead letters are not"
		}},
		{"OperationFilter", "host", func(f *huma.Schema) {
			f.Description = "Of runs: their HTTP call goes there; with a port where the URL states one"
		}},
		{"OperationFilter", "late", func(f *huma.Schema) {
			f.Description, f.Examples = "Of runs: those that started later than this span after they were due, that could have started for longer and have not, and those that were missed", []any{"5s"}
		}},
		{"OperationFilter", "key", func(f *huma.Schema) { f.Description = "Of runs: made with this idempotency key" }},
		{"BackfillRequest", "from", func(f *huma.Schema) { f.Description = "The first nominal time that may be run again" }},
		{"BackfillRequest", "to", func(f *huma.Schema) { f.Description = "Nominal times before this one; default, and at most: now" }},
		{"BackfillRequest", "max_concurrent", func(f *huma.Schema) {
			f.Minimum, f.Maximum, f.Description = number(1), number(100), "The most runs that are unfinished at a time; default 5"
		}},
		{"BackfillRequest", "missing", func(f *huma.Schema) {
			f.Description = "Only times that have no run when it is asked for. A run that was missed counts as none, and so does one that never started because its job was paused or changed; one that somebody cancelled counts as a run. from must lie within the retention of the history, and the job may have at most 20,000 runs from then on. " +
				"Runs from before a retention was raised, the tenant's or the cluster's, leave after the shorter one as ever: older ones look missing, and would run again. " +
				"So after a raise let from lie after it, or within the shorter retention"
		}},
		{"PreviewRequest", "from", func(f *huma.Schema) { f.Description = "The times come after it; default: now" }},
		{"PreviewRequest", "count", func(f *huma.Schema) {
			f.Minimum, f.Maximum, f.Description = number(1), number(100), "The most times; default 10"
		}},
		{"PreviewRequest", "jitter", duration},
		{"Job", "jitter", duration},
		{"JobMisfire", "deadline", misfireDeadline},
		{"Concurrency", "limit", func(f *huma.Schema) {
			f.Minimum, f.Maximum, f.Description = number(1), number(1000), "The most runs under way at once. A job's run that waits for its next attempt is not under way"
		}},
		{"Concurrency", "on_limit", words("queue", "skip", "cancel_oldest")},
		{"Concurrency", "key", func(f *huma.Schema) {
			f.MaxLength, f.Description = new(schema.MaxConcurrencyKey), `A JSON pointer into the payload, such as "/customer/id": at most limit runs at once for each value there. `+
				"A value is a string, a number as it is written, or true or false; all runs whose payload has none there share one limit. A change counts for runs that are made after it"
		}},
		{"HTTPTarget", "method", words("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")},
		{"HTTPTarget", "url", func(f *huma.Schema) {
			f.Format, f.Description = "uri", "Absolute, http or https, without user and password"
		}},
		{"HTTPTarget", "headers", func(f *huma.Schema) { f.Description = "At most 32, 8 KiB together" }},
		{"HTTPTarget", "body", words("payload", "none")},
		{"HTTPTarget", "signing_key", func(f *huma.Schema) {
			f.Pattern, f.Description = namePattern, "The key by which the call is signed; absent: the one called default, if there is one"
		}},
		{"HTTPTarget", "auth", func(f *huma.Schema) {
			f.Description = "How the call shows who makes it. It goes to the URL's own origin alone, not where that redirects to"
		}},
		{"NATSTarget", "subject", func(f *huma.Schema) { f.Description = "Without wildcards; not under $, _ or carillon" }},
		{"ScriptTarget", "command", func(f *huma.Schema) { f.Description = "A name in the operator's allow list" }},
		{"Retry", "max_attempts", func(f *huma.Schema) { f.Minimum, f.Maximum = number(1), number(100) }},
		{"Retry", "factor", func(f *huma.Schema) { f.Minimum, f.Maximum = number(1), number(100) }},
		{"Retry", "jitter", func(f *huma.Schema) {
			words("full", "none")(f)
			f.Description = "full: a wait is drawn from 0 up to initial, times factor for each attempt after that, at most max; none: it is that long"
		}},
		{"Retry", "initial", duration},
		{"Retry", "max", duration},
		{"JobRequest", "timeout", duration},
		{"TaskRequest", "timeout", duration},
		{"Job", "timeout", duration},
		{"Task", "timeout", duration},
		{"Misfire", "policy", func(f *huma.Schema) {
			words("run_all", "run_latest", "skip")(f)
			f.Description = "What becomes of runs that are more than a minute late, such as after a pause or an outage: run_all starts each; run_latest only the last of a recurring job, which has it by default, and the others are missed; skip starts none"
		}},
		{"Misfire", "deadline", misfireDeadline},
		{"JobRequest", "guarantee", words("at_least_once", "at_most_once", "effectively_once")},
		{"TaskRequest", "guarantee", words("at_least_once", "at_most_once", "effectively_once")},
		{"JobRequest", "preemptible", preemptible},
		{"TaskRequest", "preemptible", preemptible},
		{"Job", "preemptible", preemptible},
		{"Task", "preemptible", preemptible},
		{"JobRequest", "requires", requires},
		{"TaskRequest", "requires", requires},
		{"Job", "requires", requires},
		{"Task", "requires", requires},
	} {
		of := schemas[p.schema]
		if of == nil || of.Properties[p.field] == nil {
			return fmt.Errorf("the OpenAPI document has no %s.%s", p.schema, p.field)
		}
		p.say(of.Properties[p.field])
	}
	if err := s.describeAuth(); err != nil {
		return err
	}
	if err := s.describeMessages(); err != nil {
		return err
	}
	if err := s.addExamples(); err != nil {
		return err
	}
	if err := s.addProblems(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(s.api.OpenAPI(), "", "  ")
	if err != nil {
		return fmt.Errorf("make the OpenAPI document: %w", err)
	}
	s.openapi = append(text, '\n')
	return nil
}

func words(ws ...string) func(*huma.Schema) {
	return func(f *huma.Schema) {
		for _, w := range ws {
			f.Enum = append(f.Enum, w)
		}
	}
}

// durability describes when things of a kind are acknowledged, where there are regions.
func durability(what string) func(*huma.Schema) {
	return func(f *huma.Schema) {
		words(schema.Durabilities...)(f)
		f.Description = "When " + what + ", where there are regions. home: once the region that serves the home holds it; one that is lost for good loses what it wrote in its last moments. " +
			"everywhere: once every region holds it, and 503 while one of them does not answer; guarded runs are then not started unless every region knows. " +
			"Of a job it counts before that of its import, and that before its tenant's. 422: everywhere, and the cluster has no regions"
	}
}

func duration(f *huma.Schema) {
	f.Pattern, f.Examples = durationPattern, []any{schema.Duration(90e9).String()}
}

func misfireDeadline(f *huma.Schema) {
	duration(f)
	f.Description = "With any policy: a run that is later than this does not start, and is missed; with skip a minute at most. Absent: no bound but that of skip"
}

func rate(f *huma.Schema) {
	f.Pattern, f.Examples = `^[1-9][0-9]*/[smh]$`, []any{"100/s", "10/m", "1000/h"}
	f.Description = "How many runs of the task may start in a second, a minute or an hour, in the whole cluster: at most 100000 a second. Attempts after the first count. Runs beyond wait: " +
		"their due time stays what it was, and deferred_until says when they will be tried. A change is in force after a few seconds, at most a minute"
}

// regionChoice describes a schema.RegionChoice, which has two forms.
func regionChoice(text string) func(*huma.Schema) {
	long := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Properties: map[string]*huma.Schema{
		"name":    {Type: huma.TypeString},
		"require": {Type: huma.TypeBoolean, Description: "No other region runs it: while another one serves its home, its runs wait, and say so (waiting.reason region)"},
	}}
	return func(f *huma.Schema) {
		*f = huma.Schema{Description: text, OneOf: []*huma.Schema{{Type: huma.TypeString}, long}}
	}
}

var taskRegion = regionChoice("The home at which one-off jobs of the task lie that name none, have no key and wait for no other, unless the task has a rate or a limit. With require, all runs of the task wait until that region serves them; " +
	"jobs whose home is another one are refused")

func maxConcurrent(f *huma.Schema) {
	f.Minimum, f.Maximum = number(1), number(schema.MaxTaskConcurrent)
	f.Description = "How many runs of the task may be under way at once, in the whole cluster; absent: any number. Runs beyond wait, about in the order in which they are due: deferred_until says when they will be tried next. " +
		"A change is in force within seconds; runs that were begun before are not stopped"
}

func preemptible(f *huma.Schema) {
	f.Description = "While a run with low priority is under way, a critical run that lacks a slot may take its slot: the call is stopped, uses no attempt, and starts again " +
		"(preempted of a run counts it). That happens to a run three times at most, and never to work other than at_least_once"
}

func requires(f *huma.Schema) {
	f.Description = "Labels that the executor has which runs it, as the operator states them (executor.labels): at most 8. While no executor has all of them its runs wait, " +
		"and say so (waiting.reason pool); they are tried within minutes after one has come. Absent: any executor"
	f.Examples = []any{schema.Labels{"gpu": "true"}}
}

func payloadSchema(f *huma.Schema) {
	f.Type, f.AdditionalProperties = huma.TypeObject, true
	f.Description = "What payloads must fit when jobs are written: a JSON Schema 2020-12 of at most 16 KiB. format is an annotation, patterns are Go's (RE2), " +
		"references stay within it. No payload counts as null. A changed schema leaves jobs that were written before alone"
}

func number(v float64) *float64 { return &v }
