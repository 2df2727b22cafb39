package request

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

const callX = `"http":{"url":"http://x.test/"}`

func TestDecodeJob(t *testing.T) {
	work := func(w schema.Work) *schema.Work { return &w }
	x := work(schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/"}})
	for name, row := range map[string]struct {
		body string
		want bucketer.Job
	}{
		"now":                       {`{` + callX + `}`, bucketer.Job{Work: x}},
		"by task":                   {`{"task":"send-email"}`, bucketer.Job{Task: "send-email"}},
		"at an instant":             {`{"task":"t","schedule":{"at":"2026-11-21T10:00:00.25+01:00"}}`, bucketer.Job{Task: "t", At: time.Date(2026, 11, 21, 9, 0, 0, 250e6, time.UTC)}},
		"rounded up to the ms":      {`{"task":"t","schedule":{"at":"2026-11-21T10:00:00.000000001Z"}}`, bucketer.Job{Task: "t", At: time.Date(2026, 11, 21, 10, 0, 0, 1e6, time.UTC)}},
		"in the past":               {`{"task":"t","schedule":{"at":"1815-12-10T00:00:00Z"}}`, bucketer.Job{Task: "t", At: time.Date(1815, 12, 10, 0, 0, 0, 0, time.UTC)}},
		"ten years from now":        {`{"task":"t","schedule":{"at":"2036-11-21T09:30:00Z"}}`, bucketer.Job{Task: "t", At: testNow.AddDate(10, 0, 0)}},
		"an empty schedule":         {`{"task":"t","schedule":{}}`, bucketer.Job{Task: "t"}},
		"null is absent":            {`{"task":"t","schedule":null,"http":null,"labels":null,"payload":null,"retry":null,"name":null}`, bucketer.Job{Task: "t"}},
		"payload as it is written":  {`{"task":"t","payload": {"b" : 1.0,"a":[ ]} }`, bucketer.Job{Task: "t", Payload: []byte(`{"b" : 1.0,"a":[ ]}`)}},
		"payload text":              {`{"task":"t","payload":"a\u00e9"}`, bucketer.Job{Task: "t", Payload: []byte(`"a\u00e9"`)}},
		"payload false":             {`{"task":"t","payload":false}`, bucketer.Job{Task: "t", Payload: []byte(`false`)}},
		"the largest payload":       {`{"task":"t","payload":"` + strings.Repeat("x", schema.MaxPayload-2) + `"}`, bucketer.Job{Task: "t", Payload: []byte(`"` + strings.Repeat("x", schema.MaxPayload-2) + `"`)}},
		"priority":                  {`{"task":"t","priority":"critical"}`, bucketer.Job{Task: "t", Priority: schema.Critical}},
		"region":                    {`{"task":"t","region":"eu"}`, bucketer.Job{Task: "t", Region: "eu"}},
		"labels":                    {`{"task":"t","labels":{"team":"billing","a/B":""}}`, bucketer.Job{Task: "t", Labels: map[string]string{"team": "billing", "a/B": ""}}},
		"misfire":                   {`{"task":"t","misfire":{"policy":"skip","deadline":"1h"}}`, bucketer.Job{Task: "t", Misfire: &schema.Misfire{Policy: "skip", Deadline: schema.Duration(time.Hour)}}},
		"a field's escaped name":    {`{"\u0074ask":"t"}`, bucketer.Job{Task: "t"}},
		"nats":                      {`{"nats":{"subject":"work.email"}}`, bucketer.Job{Work: work(schema.Work{NATS: &schema.NATSTarget{Subject: "work.email"}})}},
		"guarantee at_least_once":   {`{` + callX + `,"guarantee":"at_least_once"}`, bucketer.Job{Work: work(schema.Work{HTTP: x.HTTP, Guarantee: schema.AtLeastOnce})}},
		"a URL with all its parts":  {`{"http":{"url":"https://[::1]:8443/a%20b?c=d#e"}}`, bucketer.Job{Work: work(schema.Work{HTTP: &schema.HTTPTarget{URL: "https://[::1]:8443/a%20b?c=d#e"}})}},
		"an HTTP call in full":      {`{"http":{"method":"PUT","url":"http://x.test/","headers":{"X-A":"b","Authorization":"Bearer s"},"body":"none"},"timeout":"1m30s"}`, bucketer.Job{Work: work(schema.Work{HTTP: &schema.HTTPTarget{Method: "PUT", URL: "http://x.test/", Headers: map[string]string{"X-A": "b", "Authorization": "Bearer s"}, Body: "none"}, Timeout: schema.Duration(90 * time.Second)})}},
		"retry in full":             {`{` + callX + `,"retry":{"max_attempts":3.0,"initial":"250ms","factor":1.5,"max":"1h","jitter":"none"}}`, bucketer.Job{Work: work(schema.Work{HTTP: x.HTTP, Retry: &schema.Retry{MaxAttempts: 3, Initial: schema.Duration(250 * time.Millisecond), Factor: 1.5, Max: schema.Duration(time.Hour), Jitter: "none"}})}},
		"space around the document": {" \n{\"task\":\"t\"}\r\n", bucketer.Job{Task: "t"}},
	} {
		t.Run(name, func(t *testing.T) {
			row.want.Tenant = "acme"
			got, _, err := new(Decoder).Job("acme", []byte(row.body), testNow)
			if err != nil {
				t.Fatalf("Job(%.200s) = %v", row.body, err)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("Job(%.200s) (-want +got):\n%s", row.body, diff)
			}
		})
	}
}

func TestDecodeLineKeys(t *testing.T) {
	for name, row := range map[string]struct {
		line, key, fault string
	}{
		"no key":           {`{"task":"t"}`, "", ""},
		"null":             {`{"task":"t","key":null}`, "", ""},
		"a key":            {`{"key":"order 7/é","task":"t"}`, "order 7/é", ""},
		"an empty key":     {`{"key":"","task":"t"}`, "", "body.key must not be empty"},
		"a number":         {`{"key":7,"task":"t"}`, "", "body.key must be a string"},
		"a control":        {`{"key":"a\nb","task":"t"}`, "", "body.key must be UTF-8 without control"},
		"the longest":      {`{"key":"` + strings.Repeat("k", 128) + `","task":"t"}`, strings.Repeat("k", 128), ""},
		"longer than that": {`{"key":"` + strings.Repeat("k", 129) + `","task":"t"}`, "", "body.key must be at most 128"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := new(Decoder).Line("acme", []byte(row.line), testNow)
			if row.fault != "" {
				checkFaults(t, err, []string{row.fault})
				return
			}
			if err != nil || got.Key != row.key || (got.BodyHash != "") != (row.key != "") {
				t.Errorf("Line(%s) = key %q, hash %q, %v; want key %q", row.line, got.Key, got.BodyHash, err, row.key)
			}
		})
	}
}

func TestBodyHash(t *testing.T) {
	hash := func(line string) string {
		t.Helper()
		var d Decoder
		if _, _, err := d.Line("acme", []byte(line), testNow); err != nil {
			t.Fatalf("Line(%s) = %v", line, err)
		}
		return d.BodyHash()
	}
	base := hash(`{"task":"t","payload":{"a":1,"b":"x"}}`)
	for name, line := range map[string]string{
		"space":            " {\"task\" : \"t\", \"payload\":{ \"a\":1,\"b\":\"x\"}}\n",
		"order of members": `{"payload":{"b":"x","a":1},"task":"t"}`,
		"escapes":          `{"task":"\u0074","payload":{"a":1,"b":"\u0078"}}`,
		"a key":            `{"key":"k","task":"t","payload":{"a":1,"b":"x"}}`,
	} {
		if got := hash(line); got != base {
			t.Errorf("%s: the hash of %s is %s, want %s as without", name, line, got, base)
		}
	}
	for name, line := range map[string]string{
		"another value":       `{"task":"t","payload":{"a":2,"b":"x"}}`,
		"another type":        `{"task":"t","payload":{"a":"1","b":"x"}}`,
		"a key within":        `{"task":"t","payload":{"a":1,"b":"x","key":"k"}}`,
		"more":                `{"task":"t","payload":{"a":1,"b":"x"},"priority":"low"}`,
		"order of an array's": `{"task":"t","payload":["b","a"]}`,
	} {
		if got := hash(line); got == base {
			t.Errorf("%s: the hash of %s is that of another body", name, line)
		}
	}
}

func TestDecodedSharesNothing(t *testing.T) {
	const body = `{"http":{"url":"http://x.test/","headers":{"a":"b"}},"payload":{"k":"v"},"labels":{"l":"m"}}`
	var d Decoder
	text := []byte(body)
	got, _, err := d.Job("acme", text, testNow)
	if err != nil {
		t.Fatal(err)
	}
	want, _, _ := new(Decoder).Job("acme", []byte(body), testNow)
	for i := range text {
		text[i] = 'x'
	}
	_, _, _ = d.Job("acme", []byte(`{"task":"another"}`), testNow)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a job changed when its text did (-want +got):\n%s", diff)
	}
}

func TestDecodeTask(t *testing.T) {
	var d Decoder
	got, err := d.Task("acme", "send", []byte(`{"nats":{"subject":"a"},"timeout":"5s","description":"says\nhello"}`))
	want := schema.Task{Tenant: "acme", Name: "send", Description: "says\nhello", Work: schema.Work{NATS: &schema.NATSTarget{Subject: "a"}, Timeout: schema.Duration(5 * time.Second)}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Task = %v (-want +got):\n%s", err, diff)
	}
	got, err = d.Task("acme", "send", []byte(`{"nats":{"subject":"a"},"payload_schema": { "const" : null },"rate":"10/m","max_concurrent":1000000}`))
	if err != nil || string(got.PayloadSchema) != `{"const":null}` || got.Rate != "10/m" {
		t.Errorf("Task with a schema and a rate = %s, %q, %v, want both, the schema compact", got.PayloadSchema, got.Rate, err)
	} else if got.MaxConcurrent != schema.MaxTaskConcurrent {
		t.Errorf("Task of a million at once = %d", got.MaxConcurrent)
	}
	d.Rules.Script = func(tenant string, s *schema.ScriptTarget) (field, fault string) {
		if tenant != "acme" || s.Command != "report" {
			return "command", "is not a command that may be run"
		}
		if len(s.Args) > 0 {
			return "args[0]", "is not an argument that this command takes"
		}
		return "", ""
	}
	if got, err = d.Task("acme", "send", []byte(`{"script":{"command":"report"}}`)); err != nil || got.Work.Script == nil {
		t.Errorf("Task of an enabled script = %+v, %v; want it", got, err)
	}
	_, err = d.Task("acme", "send", []byte(`{"script":{"command":"rm"}}`))
	checkFaults(t, err, []string{"body.script.command is not a command that may be run"})
	_, err = d.Task("umbrella", "send", []byte(`{"script":{"command":"report"}}`))
	checkFaults(t, err, []string{"body.script.command is not a command that may be run"})
	_, _, err = d.Job("acme", []byte(`{"script":{"command":"report","args":["s3cret"]}}`), testNow)
	checkFaults(t, err, []string{"body.script.args[0] is not an argument that this command takes"})
	d.Rules.Script = nil
	for name, row := range map[string]struct {
		task, body string
		want       []string
	}{
		"a bad name":          {"Send", `{` + callX + `}`, []string{"path.name must be 1 to 63"}},
		"an id as name":       {"0192e5a0-0000-8000-8000-000000000000", `{` + callX + `}`, []string{"path.name must not be a UUID"}},
		"nothing to do":       {"send", `{}`, []string{"body must have exactly one of http, nats, script, lambda, jetstream, sqs, sns, eventbridge, step_functions and kafka"}},
		"fields of jobs":      {"send", `{` + callX + `,"payload":{},"task":"x"}`, []string{"body.payload is not a field of a task", "body.task is not a field"}},
		"none at once":        {"send", `{` + callX + `,"max_concurrent":0}`, []string{"body.max_concurrent must be a whole number from 1 to 1000000"}},
		"fewer than none":     {"send", `{` + callX + `,"max_concurrent":-1}`, []string{"body.max_concurrent must be a whole number from 1 to 1000000"}},
		"far too many":        {"send", `{` + callX + `,"max_concurrent":1e300}`, []string{"body.max_concurrent must be a whole number from 1 to 1000000"}},
		"half a run":          {"send", `{` + callX + `,"max_concurrent":1.5}`, []string{"body.max_concurrent must be a whole number from 1 to 1000000"}},
		"a number as text":    {"send", `{` + callX + `,"max_concurrent":"5"}`, []string{"body.max_concurrent must be a number"}},
		"a bad rate":          {"send", `{` + callX + `,"rate":"100 a second"}`, []string{"body.rate must be a number of starts"}},
		"too high a rate":     {"send", `{` + callX + `,"rate":"100001/s"}`, []string{"body.rate must be at most 100000 a second"}},
		"a rate without unit": {"send", `{` + callX + `,"rate":100}`, []string{"body.rate must be a string"}},
		"labels in a list":    {"send", `{` + callX + `,"requires":["gpu"]}`, []string{"body.requires must be an object"}},
		"odd labels": {"send", `{` + callX + `,"requires":{"a b":"x","gpu":"","zone":5}}`, []string{
			"body.requires.a b its name must be 1 to 32", "body.requires.gpu must be 1 to 32 characters", "body.requires.zone must be a string",
		}},
		"too many labels":  {"send", `{` + callX + `,"requires":{"a":"1","b":"1","c":"1","d":"1","e":"1","f":"1","g":"1","h":"1","i":"1"}}`, []string{"body.requires must be at most 8"}},
		"half preemptible": {"send", `{` + callX + `,"preemptible":"yes"}`, []string{"body.preemptible must be true or false"}},
		"preemptible and guarded": {"send", `{` + callX + `,"preemptible":true,"guarantee":"effectively_once","rate":5}`, []string{
			"body.rate must be a string", "body.preemptible must be false for effectively_once",
		}},
		"no schema": {"send", `{` + callX + `,"payload_schema":true}`, []string{"body.payload_schema must be an object"}},
		"a bad schema": {"send", `{` + callX + `,"payload_schema":{"required":"a","properties":{"b":{"type":"text"}}}}`, []string{
			"body.payload_schema/properties/b/type must be one of", "body.payload_schema/required must be array, is string",
		}},
		"a schema that says a thing twice": {"send", `{` + callX + `,"payload_schema":{"type":"null","type":"string"}}`, []string{"body.payload_schema.type is there twice"}},
		"a description":                    {"send", `{` + callX + `,"description":"` + strings.Repeat("x", 1025) + `"}`, []string{"body.description must be at most 1024"}},
		"a control in it":                  {"send", `{` + callX + `,"description":"\u0007"}`, []string{"body.description must not hold control"}},
		"name and body bad":                {"", `{"nats":{"subject":">"}}`, []string{"path.name must be", "body.nats.subject must be"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := new(Decoder).Task("acme", row.task, []byte(row.body))
			checkFaults(t, err, row.want)
		})
	}
}

func TestDecodePatch(t *testing.T) {
	at := testNow.Add(time.Hour)
	inline := bucketer.Job{
		Tenant: "acme", At: at, Payload: []byte(`{"a":1,"b":{"c":2}}`), Priority: schema.Low, Labels: map[string]string{"x": "1", "y": "2"},
		Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/", Headers: map[string]string{"h": "v"}}, Timeout: schema.Duration(time.Second)},
	}
	byTask := bucketer.Job{Tenant: "acme", Task: "send"}
	waits := bucketer.Job{Tenant: "acme", Task: "send", After: &schema.After{Jobs: []schema.Upstream{{Name: "a"}}}}
	late := bucketer.Job{Tenant: "acme", Task: "send", Misfire: &schema.Misfire{Policy: schema.Skip}}
	lots := bucketer.Job{Tenant: "acme", Task: "send", Payload: []byte(`"` + strings.Repeat("<", schema.MaxPayload-2) + `"`)}
	later, soon := at.Add(time.Hour), time.Time{}
	ref := func(v []byte) *[]byte { return &v }
	high, none, email := schema.High, schema.Priority(""), "email"
	for name, row := range map[string]struct {
		job   bucketer.Job
		patch string
		want  runs.Change
		fault string
	}{
		"nothing":               {inline, `{}`, runs.Change{}, ""},
		"another instant":       {inline, `{"schedule":{"at":"2026-11-21T11:30:00Z"}}`, runs.Change{At: &later}, ""},
		"now":                   {inline, `{"schedule":null}`, runs.Change{At: &soon}, ""},
		"payload merged":        {inline, `{"payload":{"b":{"c":null,"d":3},"e":[null]}}`, runs.Change{Payload: ref([]byte(`{"a":1,"b":{"d":3},"e":[null]}`))}, ""},
		"payload replaced":      {inline, `{"payload":[1]}`, runs.Change{Payload: ref([]byte(`[1]`))}, ""},
		"payload removed":       {inline, `{"payload":null}`, runs.Change{Payload: ref(nil)}, ""},
		"priority":              {inline, `{"priority":"high"}`, runs.Change{Priority: &high}, ""},
		"priority back":         {inline, `{"priority":null}`, runs.Change{Priority: &none}, ""},
		"durability as it is":   {inline, `{"durability":"home"}`, runs.Change{}, ""},
		"durability":            {inline, `{"durability":"everywhere"}`, runs.Change{}, "body.durability cannot be changed"},
		"region":                {inline, `{"region":"us"}`, runs.Change{}, "body.region cannot be changed: a job keeps its home"},
		"labels merged":         {inline, `{"labels":{"x":null,"z":"3"}}`, runs.Change{Labels: &map[string]string{"y": "2", "z": "3"}}, ""},
		"a URL, headers stay":   {inline, `{"http":{"url":"http://y.test/"}}`, runs.Change{Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://y.test/", Headers: map[string]string{"h": "v"}}, Timeout: schema.Duration(time.Second)}}, ""},
		"a time-out back":       {inline, `{"timeout":null}`, runs.Change{Work: &schema.Work{HTTP: inline.Work.HTTP}}, ""},
		"from inline to task":   {inline, `{"http":null,"timeout":null,"task":"email"}`, runs.Change{Task: &email}, ""},
		"from task to inline":   {byTask, `{"task":null,"nats":{"subject":"a"}}`, runs.Change{Work: &schema.Work{NATS: &schema.NATSTarget{Subject: "a"}}}, ""},
		"another task":          {byTask, `{"task":"email"}`, runs.Change{Task: &email}, ""},
		"two targets":           {inline, `{"nats":{"subject":"a"}}`, runs.Change{}, "body must have only one of"},
		"no target":             {inline, `{"http":null}`, runs.Change{}, "body must have exactly one of"},
		"an unknown field":      {inline, `{"stat":"x"}`, runs.Change{}, "body.stat is not a field"},
		"a fault within":        {inline, `{"schedule":{"at":"soon"}}`, runs.Change{}, "body.schedule.at must be"},
		"cron":                  {inline, `{"schedule":{"cron":"* * * * *"}}`, runs.Change{}, "body.schedule must have only one of at, cron and every"},
		"recurring":             {inline, `{"schedule":{"at":null,"cron":"* * * * *"}}`, runs.Change{}, "body.schedule cannot make a one-off job a recurring one"},
		"a name":                {inline, `{"name":"n"}`, runs.Change{}, "body.name belongs to a recurring job"},
		"a doubled name":        {inline, `{"task":"a","task":"b"}`, runs.Change{}, "body.task is there twice"},
		"no object":             {inline, `5`, runs.Change{}, "body must be an object"},
		"beside a payload of <": {lots, `{"schedule":{"at":"2026-11-21T11:30:00Z"}}`, runs.Change{At: &later}, ""},
		"after, added":          {inline, `{"schedule":null,"after":{"jobs":["a"]}}`, runs.Change{}, "body.after cannot be changed"},
		"after, in part":        {waits, `{"after":{"deadline":"1h"}}`, runs.Change{}, "body.after cannot be changed"},
		"after, removed":        {waits, `{"after":null,"schedule":{"at":"2026-11-21T11:30:00Z"}}`, runs.Change{}, "body.after cannot be changed"},
		"beside after":          {waits, `{"priority":"high"}`, runs.Change{Priority: &high}, ""},
		"misfire":               {inline, `{"misfire":{"policy":"skip"}}`, runs.Change{Misfire: &schema.Misfire{Policy: schema.Skip}}, ""},
		"a deadline":            {late, `{"misfire":{"deadline":"1h"}}`, runs.Change{Misfire: &schema.Misfire{Policy: schema.Skip, Deadline: schema.Duration(time.Hour)}}, ""},
		"no misfire any more":   {late, `{"misfire":null}`, runs.Change{Misfire: new(schema.Misfire)}, ""},
		"a fault of misfire":    {late, `{"misfire":{"policy":"never"}}`, runs.Change{}, "body.misfire.policy must be one of"},
		"nested too deep":       {inline, strings.Repeat(`{"payload":`, 101) + `1` + strings.Repeat(`}`, 101), runs.Change{}, "body.payload.payload"},
		"payload grown too big": {inline, `{"payload":{"z":"` + strings.Repeat("x", schema.MaxPayload) + `"}}`, runs.Change{}, "body.payload must be at most"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := new(Decoder).Patch(row.job, []byte(row.patch), testNow)
			if row.fault != "" {
				checkFaults(t, err, []string{row.fault})
				return
			}
			if diff := cmp.Diff(row.want, got); err != nil || diff != "" {
				t.Errorf("Patch(%s) = %v (-want +got):\n%s", row.patch, err, diff)
			}
		})
	}
	var syntax *NotJSONError
	if _, err := new(Decoder).Patch(inline, []byte(`{`), testNow); !errors.As(err, &syntax) {
		t.Errorf("Patch({) = %v, want it not to be JSON", err)
	}
}

func TestEmptyBody(t *testing.T) {
	for _, body := range []string{"", "{}", " { } ", `{"a":null}`} {
		if err := new(Decoder).EmptyBody([]byte(body)); err != nil {
			t.Errorf("EmptyBody(%q) = %v, want nil", body, err)
		}
	}
	for _, body := range []string{"x", "[]", `{"a":1}`, " "} {
		if err := new(Decoder).EmptyBody([]byte(body)); err == nil {
			t.Errorf("EmptyBody(%q) = nil, want an error", body)
		}
	}
}

// What the nouns say, the decoder takes, and the other way round.
func TestNounsAndDecoderAgree(t *testing.T) {
	full := JobRequest{
		Key: "k", Schedule: &Schedule{At: testNow}, Payload: json.RawMessage(`{"a":1}`), Priority: schema.High, Region: schema.RegionChoice{Name: "eu", Require: true},
		Labels: map[string]string{"a": "b"}, Misfire: &schema.Misfire{Policy: "skip", Deadline: schema.Duration(time.Hour)},
		Work: schema.Work{
			HTTP:      &schema.HTTPTarget{Method: "PUT", URL: "http://x.test/", Headers: map[string]string{"a": "b"}, Body: "none"},
			Timeout:   schema.Duration(time.Second),
			Retry:     &schema.Retry{MaxAttempts: 2, Initial: schema.Duration(time.Second), Factor: 3, Max: schema.Duration(time.Minute), Jitter: "none"},
			Guarantee: schema.AtLeastOnce,
			Requires:  schema.Labels{"gpu": "true", "zone": "a"}, Preemptible: true,
		},
	}
	line, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	j, _, err := new(Decoder).Line("acme", line, testNow)
	if err != nil {
		t.Fatalf("Line(%s) = %v", line, err)
	}
	again := OfOneOff(&j)
	again.Key = j.Key
	if diff := cmp.Diff(full, again); diff != "" {
		t.Errorf("a job that went through the decoder (-want +got):\n%s", diff)
	}

	var fields []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[JobRequest]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			fields = append(fields, name)
		}
	}
	for _, name := range fields {
		_, _, err := new(Decoder).Line("acme", []byte(`{"`+name+`":[]}`), testNow)
		var faults bucketer.Faults
		if errors.As(err, &faults) && slices.ContainsFunc(faults, func(f bucketer.Fault) bool { return strings.Contains(f.Message, "not a field") }) {
			t.Errorf("the decoder does not know the field %q of a job", name)
		}
	}
}

// FuzzDecode: whatever the text, the decoder does not panic, and answers either a job or faults,
// never both or neither; and a job that it takes, said again as a request, is the same job.
func FuzzDecode(f *testing.F) {
	for _, row := range faultyBodies {
		f.Add([]byte(row.body))
	}
	f.Add([]byte(`{"key":"k","task":"t","schedule":{"at":"2026-11-21T10:00:00Z"},"payload":{"a":[1,2]},"labels":{"a":"b"}}`))
	f.Add([]byte(`{"http":{"url":"http://x.test/","headers":{"a":"b"}},"retry":{"max":"1h"},"misfire":{"policy":"skip"}}`))
	var d Decoder
	f.Fuzz(func(t *testing.T, text []byte) {
		j, spec, err := d.Line("acme", text, testNow)
		var syntax *NotJSONError
		var faults bucketer.Faults
		switch {
		case err == nil:
		case errors.As(err, &syntax) || errors.As(err, &faults) && len(faults) > 0:
			if !reflect.DeepEqual(j, bucketer.Job{}) {
				t.Fatalf("Line(%q) = %+v and %v", text, j, err)
			}
			if _, err := d.Patch(bucketer.Job{Task: "t"}, text, testNow); err == nil && syntax != nil {
				t.Fatalf("Patch(%q) takes what is not JSON", text)
			}
			return
		default:
			t.Fatalf("Line(%q) = %v, which is neither faults nor a syntax error", text, err)
		}
		if spec != nil {
			if diff := cmp.Diff(bucketer.Job{Tenant: "acme", Key: j.Key, BodyHash: j.BodyHash}, j); diff != "" {
				t.Fatalf("Line(%q) is a job that can have many runs, and a one-off one (-want +got):\n%s", text, diff)
			}
			checkSaidAgain(t, &d, spec)
			return
		}
		if (j.Task == "") == (j.Work == nil) {
			t.Fatalf("Line(%q) = %+v, which has not exactly one of task and work", text, j)
		}
		request := OfOneOff(&j)
		request.Key = j.Key
		said, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := d.Line("acme", said, testNow)
		if err != nil {
			t.Fatalf("Line(%q) is fine, said again as %q it is %v", text, said, err)
		}
		j.BodyHash, again.BodyHash = "", ""
		j.Payload, again.Payload = nil, nil // Marshal compacts it
		if diff := cmp.Diff(j, again); diff != "" {
			t.Fatalf("Line(%q) said again as %q differs (-want +got):\n%s", text, said, diff)
		}
	})
}

var benchLines = map[string]string{
	"task":  `{"task":"send-email","schedule":{"at":"2026-11-21T10:00:00Z"},"payload":{"to":"someone@example.com","template":"welcome","n":12345}}`,
	"keyed": `{"key":"order-000012345","task":"send-email","schedule":{"at":"2026-11-21T10:00:00Z"},"payload":{"to":"someone@example.com","template":"welcome","n":12345}}`,
	"http":  `{"http":{"url":"http://127.0.0.1:9000/hook","headers":{"x-a":"b"}},"schedule":{"at":"2026-11-21T10:00:00Z"},"priority":"high","labels":{"team":"billing"},"payload":{"to":"someone@example.com"}}`,
}

func BenchmarkDecodeLine(b *testing.B) {
	for name, line := range benchLines {
		b.Run(name, func(b *testing.B) {
			var d Decoder
			text := []byte(line)
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, _, err := d.Line("acme", text, testNow); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}

func TestDecodeAllocations(t *testing.T) {
	var d Decoder
	text := []byte(benchLines["task"])
	if got := testing.AllocsPerRun(100, func() { _, _, _ = d.Line("acme", text, testNow) }); got > 8 {
		t.Errorf("Line allocates %v times, want at most 8", got)
	}
}
