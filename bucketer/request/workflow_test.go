package request

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

// etlBody is the body of the page.
const etlBody = `{"schedule": {"cron": "0 2 * * *", "timezone": "Europe/Berlin"}, "deadline": "3h", "payload": {"date": {"$run": "/nominal_at"}}, "labels": {"team": "data"},
 "steps": [
  {"name": "extract", "task": "extract", "payload": {"date": {"$input": "/date"}}},
  {"name": "transform", "after": ["extract"], "for_each": {"from": "extract", "pointer": "/files", "max_concurrent": 20}, "http": {"url": "https://x.test/"}, "timeout": "5s", "payload": {"file": {"$item": ""}}},
  {"name": "approve", "after": ["transform"], "if": "size(steps.extract.output.files) > 100", "wait": {"event": "approved", "filter": "event.day == input.date", "deadline": "12h"}},
  {"name": "load", "after": ["transform", "approve"], "task": "load", "priority": "high", "deadline": "1h"},
  {"name": "alert", "after": ["load"], "when": "any_failed", "task": "page-somebody"}]}`

func TestDecodeWorkflow(t *testing.T) {
	var d Decoder
	got, err := d.Workflow("acme", "etl", []byte(etlBody), testNow)
	if err != nil {
		t.Fatalf("Workflow = %v", err)
	}
	hours := func(n int) schema.Duration { return schema.Duration(time.Duration(n) * time.Hour) }
	want := Workflow{
		JobSpec: schema.JobSpec{
			Tenant: "acme", Name: "etl", Labels: map[string]string{"team": "data"}, Payload: json.RawMessage(`{"date": {"$run": "/nominal_at"}}`),
			Schedule: &schema.Schedule{Cron: "0 2 * * *", Timezone: "Europe/Berlin"},
		},
		Definition: workflow.Definition{Deadline: hours(3), Steps: []workflow.Step{
			{Name: "extract", Task: "extract", Payload: json.RawMessage(`{"date": {"$input": "/date"}}`)},
			{
				Name: "transform", After: []string{"extract"}, ForEach: &workflow.ForEach{From: "extract", Pointer: "/files", MaxConcurrent: 20},
				Work:    &schema.Work{HTTP: &schema.HTTPTarget{URL: "https://x.test/"}, Timeout: schema.Duration(5 * time.Second)},
				Payload: json.RawMessage(`{"file": {"$item": ""}}`),
			},
			{Name: "approve", After: []string{"transform"}, If: "size(steps.extract.output.files) > 100", Wait: &workflow.Wait{Event: "approved", Filter: "event.day == input.date", Deadline: hours(12)}},
			{Name: "load", After: []string{"transform", "approve"}, Task: "load", Priority: schema.High, Deadline: hours(1)},
			{Name: "alert", After: []string{"load"}, When: workflow.AnyFailed, Task: "page-somebody"},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Workflow (-want +got):\n%s", diff)
	}
	if _, faults := workflow.Compile(&got.Definition); len(faults) > 0 {
		t.Errorf("Compile of what was read = %+v", faults)
	}
}

// TestWorkflowsArePlannedAsJobsAre: what a workflow says of its schedule, and of all that goes with
// it, comes back as that of a job does.
func TestWorkflowsArePlannedAsJobsAre(t *testing.T) {
	for name, text := range map[string]string{
		"cron in full": `"schedule":{"cron":"0 30 2 * * MON-FRI","timezone":"Europe/Berlin","gap":"skip","overlap_hour":"both"}`,
		"every":        `"schedule":{"every":"15m"},"jitter":"0s"`,
		"with anchor":  `"schedule":{"every":"1s","anchor":"2026-11-21T11:00:00.0001+01:00"}`,
		"policies": `"name":"n","schedule":{"cron":"* * * * *"},"start":"2026-11-21T10:00:00Z","end":"2999-11-21T12:00:00Z","max_runs":7,"jitter":"30s",` +
			`"misfire":{"policy":"skip","deadline":"5m"},"concurrency":{"limit":1,"on_limit":"skip"},"priority":"low","labels":{"a":"b"},"payload":{"x":[1]}`,
	} {
		t.Run(name, func(t *testing.T) {
			var d Decoder
			job, err := d.PutJob("acme", "n", []byte(`{"task":"t",`+text+`}`), testNow)
			if err != nil {
				t.Fatalf("PutJob = %v", err)
			}
			w, err := d.Workflow("acme", "n", []byte(`{"steps":[{"name":"a","task":"t"}],`+text+`}`), testNow)
			if err != nil {
				t.Fatalf("Workflow = %v", err)
			}
			job.Task = ""
			if diff := cmp.Diff(job, w.JobSpec); diff != "" {
				t.Errorf("a workflow is not planned as a job is (-job +workflow):\n%s", diff)
			}
		})
	}
}

func TestWorkflowsAreSaidAgain(t *testing.T) {
	for name, body := range map[string]string{
		"the example":     etlBody,
		"a function":      `{"steps":[{"name":"a","lambda":{"function":"f","region":"eu-central-1","credentials":"aws"}}]}`,
		"by an event":     `{"on":{"event":"file.uploaded","filter":"event.region == 'eu'","delay":"5s"},"concurrency":{"limit":3},"misfire":{"deadline":"1h"},"steps":[{"name":"a","nats":{"subject":"x"},"retry":{"max_attempts":2},"guarantee":"effectively_once"}]}`,
		"by hand":         `{"name":"etl","steps":[{"name":"a","workflow":"child","for_each":{"items":[1,"<",null,{"x":[]}]}},{"name":"b","wait":{"for":"250ms"}},{"name":"c","wait":{"until":"2026-11-21T09:30:00+01:00"}},{"name":"d","task":"t","for_each":{"input":""}},{"name":"e","task":"t","for_each":{"items":[]}}]}`,
		"with all of it":  `{"schedule":{"every":"1m","anchor":"2026-11-21T10:00:00Z"},"start":"2026-11-21T10:00:00Z","end":"2027-11-21T10:00:00Z","max_runs":5,"jitter":"1s","payload":[1],"priority":"critical","steps":[{"name":"a","task":"t","payload":null,"if":null,"when":null,"after":null}],"on":null,"deadline":null}`,
		"inline with all": `{"steps":[{"name":"a","http":{"method":"GET","url":"https://x.test/","headers":{"a":"b"},"body":"none"},"timeout":"1s","retry":{"max_attempts":3,"initial":"1s","factor":2,"max":"1m","jitter":"none"},"guarantee":"at_least_once","priority":"normal"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			var d Decoder
			w, err := d.Workflow("acme", "etl", []byte(body), testNow)
			if err != nil {
				t.Fatalf("Workflow = %v", err)
			}
			said, err := json.Marshal(OfWorkflow(&w))
			if err != nil {
				t.Fatal(err)
			}
			again, err := d.Workflow("acme", "etl", said, testNow)
			if err != nil {
				t.Fatalf("a workflow said again as %s = %v", said, err)
			}
			first, err := json.Marshal(w)
			if err != nil {
				t.Fatal(err)
			}
			if second, err := json.Marshal(again); err != nil || string(first) != string(second) {
				t.Errorf("a workflow said again as %s is %s, was %s (%v)", said, second, first, err)
			}
		})
	}
}

// aStep is a workflow of one step with those fields.
func aStep(fields string) string { return `{"steps":[{"name":"a",` + fields + `}]}` }

// faultyWorkflows are bodies of PUT /v1/workflows/{name}, and the faults that each has.
var faultyWorkflows = map[string]struct {
	body string
	want []string
}{
	"no object":           {`[]`, []string{"body must be an object"}},
	"nothing":             {`{}`, []string{"body.steps must be 1 to 1000, not 0"}},
	"steps of no array":   {`{"steps":{}}`, []string{"body.steps must be an array of steps"}},
	"steps of no objects": {`{"steps":[1,null,{"name":"a","task":"t"}]}`, []string{"body.steps[0] must be an object", "body.steps[1] must be an object"}},
	"unknown fields": {
		`{"task":"t","region":"eu","after":[],"steps":[{"name":"a","task":"t","retries":1,"for_each":{"items":[1],"x":1},"labels":{}},{"name":"b","wait":{"for":"1s","name":"x"}}],"on":{"event":"e","x":1}}`,
		[]string{"body.task is not a field of a workflow", "body.region is not a field", "body.after is not a field", "body.steps[0].retries is not a field of a step", "body.steps[0].for_each.x is not a field of for_each", "body.steps[0].labels is not a field of a step", "body.steps[1].wait.name is not a field of wait", "body.on.x is not a field of on"},
	},
	"a doubled name": {`{"steps":[{"name":"a","task":"t","task":"u"}]}`, []string{"body.steps[0].task is there twice"}},
	"another name":   {`{"name":"other","steps":[{"name":"a","task":"t"}]}`, []string{"body.name must be the name in the path, or absent"}},
	"1,001 steps":    {`{"steps":[` + numbered(1001, `{"name":"s%d","task":"t"}`) + `]}`, []string{"body.steps must be 1 to 1000, not 1001"}},
	"deadlines":      {`{"deadline":"91d","steps":[{"name":"a","task":"t","deadline":"0s"},{"name":"b","wait":{"event":"e","deadline":"2161h"}}]}`, []string{"body.deadline must be a duration", "body.steps[0].deadline must be from 1s to 2160h0m0s", "body.steps[1].wait.deadline must be from 1s"}},

	"a schedule once":         {`{"schedule":{"at":"2026-11-21T10:00:00Z"},"steps":[{"name":"a","task":"t"}]}`, []string{"body.schedule must have cron or every: a workflow is run once by a trigger"}},
	"an empty schedule":       {`{"schedule":{},"steps":[{"name":"a","task":"t"}]}`, []string{"body.schedule must have cron or every"}},
	"a schedule of no object": {`{"schedule":"daily","steps":[{"name":"a","task":"t"}]}`, []string{"body.schedule must be an object"}},
	"a schedule's faults":     {`{"schedule":{"cron":"60 * * * *","timezone":"Mars"},"end":"x","steps":[{"name":"a","task":"t"}]}`, []string{"body.end must be an RFC 3339", "body.schedule.cron ", "body.schedule.timezone "}},
	"policies alone":          {`{"start":"2026-11-21T10:00:00Z","max_runs":1,"jitter":"1s","end":"2026-11-21T10:00:00Z","concurrency":{"limit":1},"name":"etl","steps":[{"name":"a","task":"t"}]}`, []string{"body.start goes with a schedule alone", "body.max_runs goes with", "body.jitter goes with", "body.end goes with"}},
	"a schedule and events":   {`{"schedule":{"every":"1m"},"on":{"event":"e"},"steps":[{"name":"a","task":"t"}]}`, []string{"body must have only one of schedule and on"}},
	"on":                      {`{"on":{"filter":"event.x +","delay":"-1s"},"steps":[{"name":"a","task":"t"}]}`, []string{"body.on.filter is not understood at column 10", "body.on.delay must be from 0s", "body.on.event is missing"}},
	"on by name":              {`{"on":{"event":"E e","filter":""},"steps":[{"name":"a","task":"t"}]}`, []string{"body.on.event must be 1 to 63", "body.on.filter must not be empty"}},
	"priority and the like":   {`{"priority":"x","labels":{"a b":"c"},"misfire":{"policy":"x"},"concurrency":{},"steps":[{"name":"a","task":"t","priority":"y"}]}`, []string{"body.priority must be one of", "body.labels.a b must have a name", "body.misfire.policy must be one of", "body.concurrency.limit is missing", "body.steps[0].priority must be one of"}},
	"a payload's references":  {`{"payload":{"a.b":[{"$run":"/x"},{"$from":"a"}],"c/d":{"$item":""}},"steps":[{"name":"a","task":"t"}]}`, []string{`body.payload.a.b[0].$run must be "/id" or "/nominal_at"`, "body.payload.a.b[1].$from cannot be used here", "body.payload.c/d.$item cannot be used here"}},
	"a large payload":         {`{"payload":"` + strings.Repeat("x", schema.MaxPayload) + `","steps":[{"name":"a","task":"t"}]}`, []string{"body.payload must be at most 65536 bytes"}},

	"a step without a name": {`{"steps":[{"task":"t"},{"name":null,"task":"t"},{"name":5,"task":"t"},{"name":"A","task":"t"}]}`, []string{"body.steps[2].name must be a string", "body.steps[0].name is missing", "body.steps[1].name is missing", "body.steps[3].name must be 1 to 63"}},
	"a cycle":               {`{"steps":[{"name":"a","task":"t","after":["c"]},{"name":"b","task":"t","after":["a"]},{"name":"c","task":"t","after":["b"]}]}`, []string{"body.steps[0].after[0] closes a cycle: a → b → c → a"}},
	"after":                 {`{"steps":[{"name":"a","task":"t","after":"b"},{"name":"b","task":"t","after":["x",null,5,"a","a"]}]}`, []string{"body.steps[0].after must be an array", "body.steps[1].after[1] must be a string", "body.steps[1].after[2] must be a string", "body.steps[1].after[0] is not the name of a step", "body.steps[1].after[4] is there twice"}},
	"when":                  {`{"steps":[{"name":"a","task":"t"},{"name":"b","task":"t","after":["a"],"when":"sometimes"},{"name":"c","task":"t","when":"always"},{"name":"d","task":"t","after":["a"],"when":""}]}`, []string{"body.steps[3].when must not be empty", "body.steps[1].when must be one of", "body.steps[2].when goes with after alone"}},
	"no work":               {aStep(`"priority":"low"`), []string{"body.steps[0] must have exactly one of task, http, nats, script, lambda, jetstream, sqs, sns, eventbridge, step_functions, kafka, wait and workflow"}},
	"two kinds of work":     {aStep(`"nats":{"subject":"x"},"http":{"url":"https://x.test/"}`), []string{"body.steps[0] must have exactly one of task"}},
	"work of the wrong type": {`{"steps":[{"name":"a","task":5},{"name":"b","http":5},{"name":"c","wait":5},{"name":"d","workflow":5},{"name":"e","task":""},{"name":"f","task":"T"},{"name":"g","workflow":"W"}]}`, []string{
		"body.steps[0].task must be a string", "body.steps[1].http must be an object", "body.steps[2].wait must be an object", "body.steps[3].workflow must be a string", "body.steps[4].task must not be empty", "body.steps[5].task must be 1 to 63", "body.steps[6].workflow must be 1 to 63",
	}},
	"inline work":          {aStep(`"http":{"url":"ftp://x.test/","headers":{"host":"x"},"uri":1},"timeout":"0s","retry":{"max_attempts":0},"guarantee":"once"`), []string{"body.steps[0].http.url must be an absolute", "body.steps[0].http.headers.host is set by Carillon", "body.steps[0].http.uri is not a field of http", "body.steps[0].timeout must be from", "body.steps[0].retry.max_attempts must be", "body.steps[0].guarantee must be one of"}},
	"a subject of ours":    {aStep(`"nats":{"subject":"carillon.x"}`), []string{"body.steps[0].nats.subject must not start with"}},
	"a script":             {aStep(`"script":{"command":"x"}`), []string{"body.steps[0].script cannot be used"}},
	"attempts too many":    {aStep(`"nats":{"subject":"x"},"guarantee":"at_most_once","retry":{"max_attempts":2}`), []string{"body.steps[0].retry.max_attempts must be 1 for at_most_once"}},
	"limits beside a task": {aStep(`"task":"t","timeout":"1s","guarantee":"at_most_once"`), []string{"body.steps[0].timeout belongs to the task", "body.steps[0].guarantee belongs to the task"}},
	"limits beside a wait": {aStep(`"wait":{"for":"1s"},"retry":{}`), []string{"body.steps[0].retry goes with http, nats and script alone"}},
	"a wait's faults":      {`{"steps":[{"name":"a","wait":{"for":"soon"}},{"name":"b","wait":{"until":"today"}},{"name":"c","wait":{"event":5,"filter":"","deadline":"1h"}},{"name":"d","wait":{"for":"1s","until":"2026-11-21T09:30:00Z"}},{"name":"e","wait":{"event":"e","filter":"event.x == 1 &&"}}]}`, []string{"body.steps[0].wait.for must be a duration", "body.steps[1].wait.until must be an RFC 3339", "body.steps[2].wait.event must be a string", "body.steps[2].wait.filter must not be empty", "body.steps[3].wait must have exactly one of", "body.steps[4].wait.filter is not understood"}},
	"for_each's faults":    {`{"steps":[{"name":"a","task":"t","for_each":[]},{"name":"b","task":"t","for_each":{"from":5,"pointer":"x"}},{"name":"c","task":"t","for_each":{"items":{},"max_concurrent":-1}},{"name":"d","task":"t","for_each":{"input":5}},{"name":"e","task":"t","for_each":{}},{"name":"f","task":"t","for_each":{"from":"a"}}]}`, []string{"body.steps[0].for_each must be an object", "body.steps[1].for_each.from must be a string", "body.steps[2].for_each.items must be an array", "body.steps[2].for_each.max_concurrent must be a whole number", "body.steps[3].for_each.input must be a string", "body.steps[1].for_each.pointer must be a JSON pointer", "body.steps[4].for_each must have exactly one of", "body.steps[5].for_each.from does not run before step \"f\""}},
	"a step's references":  {`{"steps":[{"name":"a","task":"t","payload":{"x.y":[{"$from":"b"},{"$item":""}]}},{"name":"b","task":"t","if":"steps.c.state == ''"}]}`, []string{"body.steps[0].payload.x.y[0].$from does not run before", "body.steps[0].payload.x.y[1].$item goes with for_each alone", `body.steps[1].if refers to step "c", which is not the name of a step`}},
	"an if":                {`{"steps":[{"name":"a","task":"t","if":5},{"name":"b","task":"t","if":""},{"name":"c","task":"t","if":"size(input)"}]}`, []string{"body.steps[0].if must be a string", "body.steps[1].if must not be empty", "body.steps[2].if must be true or false"}},
}

func TestDecodeWorkflowReportsEveryFault(t *testing.T) {
	for name, row := range faultyWorkflows {
		t.Run(name, func(t *testing.T) {
			_, err := new(Decoder).Workflow("acme", "etl", []byte(row.body), testNow)
			checkFaults(t, err, row.want)
		})
	}
}

func TestWorkflowOfABadName(t *testing.T) {
	_, err := new(Decoder).Workflow("acme", "E T L", []byte(`{"steps":[{"name":"a"}]}`), testNow)
	checkFaults(t, err, []string{"path.name must be 1 to 63", "body.steps[0] must have exactly one of"})
	var notJSON *NotJSONError
	if _, err := new(Decoder).Workflow("acme", "etl", []byte(`{"steps":[`), testNow); !errors.As(err, &notJSON) {
		t.Errorf("Workflow of a cut body = %v, want a NotJSONError", err)
	}
}

func TestWorkflowFaultsAreBounded(t *testing.T) {
	_, err := new(Decoder).Workflow("acme", "etl", []byte(`{"steps":[`+numbered(1000, `{"name":"s%d","x":1}`)+`]}`), testNow)
	var faults bucketer.Faults
	if !errors.As(err, &faults) || len(faults) != maxFaults+1 {
		t.Errorf("Workflow of 2,000 faults: %d, want %d and a word on the rest", len(faults), maxFaults)
	}
	body := []byte(`{"steps":[` + strings.TrimSuffix(strings.Repeat(`{},`, MaxBody/3-10), ",") + `]}`)
	start := time.Now()
	if _, err := new(Decoder).Workflow("acme", "etl", body, testNow); !errors.As(err, &faults) {
		t.Errorf("Workflow of %d steps = %v", MaxBody/3-10, err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("Workflow of a body full of steps took %s", took)
	}
}

// TestTheLargestWorkflowCanBeStored: what is accepted fits a row.
func TestTheLargestWorkflowCanBeStored(t *testing.T) {
	body := func(size int) []byte {
		text := []byte(`{"steps":[`)
		for i := range 10 {
			text = fmt.Appendf(text, `%s{"name":"s%d","task":"t","payload":"%s"}`, []string{"", ","}[min(i, 1)], i, strings.Repeat("x", size/10))
		}
		return append(text, `]}`...)
	}
	fixed := len(body(0))
	room := (workflow.MaxStored - fixed) / 10 * 10
	if _, err := new(Decoder).Workflow("acme", "etl", body(room), testNow); err != nil {
		t.Errorf("Workflow of %d bytes = %v", fixed+room, err)
	}
	_, err := new(Decoder).Workflow("acme", "etl", body(room+10), testNow)
	checkFaults(t, err, []string{"body.steps must be at most 262144 bytes together, as compact JSON, not 26215"})
}

// TestWorkflowFaultsDoNotRepeatSecrets: nor what a payload holds.
func TestWorkflowFaultsDoNotRepeatSecrets(t *testing.T) {
	for _, body := range []string{
		aStep(`"http":{"url":"http://u:secret@x.test/"}`),
		aStep(`"http":{"url":"http://x.test/","headers":{"Host":"secret"}}`),
		aStep(`"task":"t","payload":{"$from":"b","x":"secret"}`),
		aStep(`"task":"t","payload":[{"$index":"secret"},{"$item":"secret"}]`),
		`{"payload":{"$item":"secret"},"steps":[{"name":"a","task":"t"}]}`,
	} {
		_, err := new(Decoder).Workflow("acme", "etl", []byte(body), testNow)
		var faults bucketer.Faults
		if !errors.As(err, &faults) {
			t.Fatalf("Workflow(%s) = %v, want faults", body, err)
		}
		for _, f := range faults {
			if strings.Contains(fmt.Sprint(f.Message, f.Value), "secret") {
				t.Errorf("Workflow(%s): the fault %+v holds the secret", body, f)
			}
		}
	}
}

// TestNamesOfStepsAreNames: package workflow has the rule of bucketer.NameFault, which it cannot
// import.
func TestNamesOfStepsAreNames(t *testing.T) {
	for _, name := range []string{
		"a", "0", "a.b-c_d", "A", "a b", "-a", ".", "a/b", "é", "a\x00", strings.Repeat("a", 63), strings.Repeat("a", 64),
		"01a21c72-91fa-8011-ab7c-4d1e90a35f68", "01A21C72-91FA-8011-AB7C-4D1E90A35F68", "01a21c72-91fa-8011-ab7c-4d1e90a35f6g",
	} {
		_, faults := workflow.Compile(&workflow.Definition{Steps: []workflow.Step{{Name: name, Task: "t"}}})
		got := ""
		if len(faults) > 0 {
			got = faults[0].Message
		}
		if want := bucketer.NameFault(name); got != want {
			t.Errorf("a step named %q: %q, want %q", name, got, want)
		}
	}
}
