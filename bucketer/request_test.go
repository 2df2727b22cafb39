package bucketer

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/schema"
)

var testNow = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

const callX = `"http":{"url":"http://x.test/"}`

func TestDecodeJob(t *testing.T) {
	work := func(w schema.Work) *schema.Work { return &w }
	x := work(schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/"}})
	for name, row := range map[string]struct {
		body string
		want Job
	}{
		"now":                       {`{` + callX + `}`, Job{Work: x}},
		"by task":                   {`{"task":"send-email"}`, Job{Task: "send-email"}},
		"at an instant":             {`{"task":"t","schedule":{"at":"2026-11-21T10:00:00.25+01:00"}}`, Job{Task: "t", At: time.Date(2026, 11, 21, 9, 0, 0, 250e6, time.UTC)}},
		"rounded up to the ms":      {`{"task":"t","schedule":{"at":"2026-11-21T10:00:00.000000001Z"}}`, Job{Task: "t", At: time.Date(2026, 11, 21, 10, 0, 0, 1e6, time.UTC)}},
		"in the past":               {`{"task":"t","schedule":{"at":"1815-12-10T00:00:00Z"}}`, Job{Task: "t", At: time.Date(1815, 12, 10, 0, 0, 0, 0, time.UTC)}},
		"ten years from now":        {`{"task":"t","schedule":{"at":"2036-11-21T09:30:00Z"}}`, Job{Task: "t", At: testNow.AddDate(10, 0, 0)}},
		"an empty schedule":         {`{"task":"t","schedule":{}}`, Job{Task: "t"}},
		"null is absent":            {`{"task":"t","schedule":null,"http":null,"labels":null,"payload":null,"retry":null,"name":null}`, Job{Task: "t"}},
		"payload as it is written":  {`{"task":"t","payload": {"b" : 1.0,"a":[ ]} }`, Job{Task: "t", Payload: []byte(`{"b" : 1.0,"a":[ ]}`)}},
		"payload text":              {`{"task":"t","payload":"a\u00e9"}`, Job{Task: "t", Payload: []byte(`"a\u00e9"`)}},
		"payload false":             {`{"task":"t","payload":false}`, Job{Task: "t", Payload: []byte(`false`)}},
		"the largest payload":       {`{"task":"t","payload":"` + strings.Repeat("x", schema.MaxPayload-2) + `"}`, Job{Task: "t", Payload: []byte(`"` + strings.Repeat("x", schema.MaxPayload-2) + `"`)}},
		"priority":                  {`{"task":"t","priority":"critical"}`, Job{Task: "t", Priority: schema.Critical}},
		"labels":                    {`{"task":"t","labels":{"team":"billing","a/B":""}}`, Job{Task: "t", Labels: map[string]string{"team": "billing", "a/B": ""}}},
		"misfire":                   {`{"task":"t","misfire":{"policy":"skip","deadline":"1h"}}`, Job{Task: "t", Misfire: &schema.Misfire{Policy: "skip", Deadline: schema.Duration(time.Hour)}}},
		"a field's escaped name":    {`{"\u0074ask":"t"}`, Job{Task: "t"}},
		"nats":                      {`{"nats":{"subject":"work.email"}}`, Job{Work: work(schema.Work{NATS: &schema.NATSTarget{Subject: "work.email"}})}},
		"guarantee at_least_once":   {`{` + callX + `,"guarantee":"at_least_once"}`, Job{Work: work(schema.Work{HTTP: x.HTTP, Guarantee: schema.AtLeastOnce})}},
		"a URL with all its parts":  {`{"http":{"url":"https://[::1]:8443/a%20b?c=d#e"}}`, Job{Work: work(schema.Work{HTTP: &schema.HTTPTarget{URL: "https://[::1]:8443/a%20b?c=d#e"}})}},
		"an HTTP call in full":      {`{"http":{"method":"PUT","url":"http://x.test/","headers":{"X-A":"b","Authorization":"Bearer s"},"body":"none"},"timeout":"1m30s"}`, Job{Work: work(schema.Work{HTTP: &schema.HTTPTarget{Method: "PUT", URL: "http://x.test/", Headers: map[string]string{"X-A": "b", "Authorization": "Bearer s"}, Body: "none"}, Timeout: schema.Duration(90 * time.Second)})}},
		"retry in full":             {`{` + callX + `,"retry":{"max_attempts":3.0,"initial":"250ms","factor":1.5,"max":"1h","jitter":"none"}}`, Job{Work: work(schema.Work{HTTP: x.HTTP, Retry: &schema.Retry{MaxAttempts: 3, Initial: schema.Duration(250 * time.Millisecond), Factor: 1.5, Max: schema.Duration(time.Hour), Jitter: "none"}})}},
		"space around the document": {" \n{\"task\":\"t\"}\r\n", Job{Task: "t"}},
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

// faultyBodies are bodies of POST /v1/jobs, and the faults that each has: location and part of the message.
var faultyBodies = map[string]struct {
	body string
	want []string
}{
	"no object":                   {`[]`, []string{"body must be an object"}},
	"nothing to run":              {`{}`, []string{"body must have exactly one of"}},
	"task and http":               {`{"task":"t",` + callX + `}`, []string{"body must have exactly one of"}},
	"http and nats":               {`{` + callX + `,"nats":{"subject":"a"}}`, []string{"body must have only one of"}},
	"an unknown field":            {`{"task":"t","shedule":{}}`, []string{"body.shedule is not a field"}},
	"an unknown field in another": {`{"task":"t","schedule":{"in":"5m"}}`, []string{"body.schedule.in is not a field"}},
	"the wrong case":              {`{"Task":"t"}`, []string{"body.Task is not a field", "body must have"}},
	"a doubled name":              {`{"task":"t","task":"t"}`, []string{"body.task is there twice"}},
	"a doubled name in payload":   {`{"task":"t","payload":[{"a":1,"a":2}]}`, []string{"body.payload[0].a is there twice"}},
	"a key":                       {`{"task":"t","key":"k"}`, []string{"body.key belongs to the lines of an import"}},
	"a task that is no string":    {`{"task":7}`, []string{"body.task must be a string"}},
	"a task's name":               {`{"task":"Send Email"}`, []string{"body.task must be 1 to 63"}},
	"an empty task":               {`{"task":""}`, []string{"body.task must be 1 to 63"}},
	"a long task":                 {`{"task":"` + strings.Repeat("a", 64) + `"}`, []string{"body.task must be 1 to 63"}},
	"a UUID as task":              {`{"task":"0192e5a0-0000-8000-8000-000000000000"}`, []string{"body.task must not be a UUID"}},
	"limits beside a task":        {`{"task":"t","timeout":"1s","retry":{}}`, []string{"body.timeout belongs to the task", "body.retry belongs to the task"}},

	"at without offset":          {`{"task":"t","schedule":{"at":"2026-11-21T10:00:00"}}`, []string{"body.schedule.at must be an RFC 3339"}},
	"at with a space":            {`{"task":"t","schedule":{"at":"2026-11-21 10:00:00Z"}}`, []string{"body.schedule.at must be an RFC 3339"}},
	"at on a day that is none":   {`{"task":"t","schedule":{"at":"2026-02-29T10:00:00Z"}}`, []string{"body.schedule.at must be an RFC 3339"}},
	"at with an offset of a day": {`{"task":"t","schedule":{"at":"2026-11-21T10:00:00+24:00"}}`, []string{"body.schedule.at must be an RFC 3339"}},
	"at with a comma":            {`{"task":"t","schedule":{"at":"2026-11-21T10:00:00,5Z"}}`, []string{"body.schedule.at must be an RFC 3339"}},
	"at with an hour of a digit": {`{"task":"t","schedule":{"at":"2026-11-21T9:00:00Z"}}`, []string{"body.schedule.at must be an RFC 3339"}},
	"at before the year 0":       {`{"task":"t","schedule":{"at":"0000-01-01T00:00:00+23:59"}}`, []string{"body.schedule.at must be an RFC 3339"}},
	"at as a number":             {`{"task":"t","schedule":{"at":1795253400}}`, []string{"body.schedule.at must be a string"}},
	"more than ten years ahead":  {`{"task":"t","schedule":{"at":"2036-11-21T09:30:00.001Z"}}`, []string{"body.schedule.at must not be more than 10 years"}},
	"a schedule as text":         {`{"task":"t","schedule":"now"}`, []string{"body.schedule must be an object"}},
	"triggered":                  {`{"task":"t","after":{"jobs":["a"]},"on":{"event":"e"},"region":"eu"}`, []string{"body.after is not supported yet", "body.on is not supported yet", "body.region is not supported yet"}},

	"a payload over the limit": {`{"task":"t","payload":"` + strings.Repeat("x", schema.MaxPayload-1) + `"}`, []string{"body.payload must be at most 65536 bytes"}},
	"an unknown priority":      {`{"task":"t","priority":"urgent"}`, []string{"body.priority must be one of critical, high, normal, low"}},
	"an empty priority":        {`{"task":"t","priority":""}`, []string{"body.priority must be one of"}},
	"labels as an array":       {`{"task":"t","labels":["a"]}`, []string{"body.labels must be an object"}},
	"a label's name":           {`{"task":"t","labels":{"a b":"c"}}`, []string{"body.labels.a b must have a name"}},
	"a label's value":          {`{"task":"t","labels":{"a":1,"b":"\u0000","c":"` + strings.Repeat("x", 256) + `"}}`, []string{"body.labels.a must be a string", "body.labels.b must be at most 255", "body.labels.c must be at most 255"}},
	"too many labels":          {`{"task":"t","labels":{` + numbered(17, `"l%d":""`) + `}}`, []string{"body.labels must be at most 16"}},
	"misfire":                  {`{"task":"t","misfire":{"policy":"never","deadline":"-1h","x":1}}`, []string{"body.misfire.policy must be one of", "body.misfire.deadline must be from 1s", "body.misfire.x is not a field"}},

	"no URL":                 {`{"http":{}}`, []string{"body.http.url is missing"}},
	"a URL without scheme":   {`{"http":{"url":"x.test/a"}}`, []string{"body.http.url must be an absolute"}},
	"a URL without host":     {`{"http":{"url":"http:///a"}}`, []string{"body.http.url must be an absolute"}},
	"a URL of a file":        {`{"http":{"url":"file:///etc/passwd"}}`, []string{"body.http.url must be an absolute"}},
	"an opaque URL":          {`{"http":{"url":"http:x.test"}}`, []string{"body.http.url must be an absolute"}},
	"a URL with a line end":  {`{"http":{"url":"http://x.test/\r\nx: y"}}`, []string{"body.http.url must be an absolute"}},
	"a URL with a bad port":  {`{"http":{"url":"http://x.test:99999/"}}`, []string{"body.http.url must be an absolute"}},
	"a URL with no port":     {`{"http":{"url":"http://x.test:/"}}`, []string{"body.http.url must be an absolute"}},
	"a URL with a password":  {`{"http":{"url":"http://u:secret@x.test/"}}`, []string{"body.http.url must not hold a user"}},
	"a long URL":             {`{"http":{"url":"http://x.test/` + strings.Repeat("a", 2048) + `"}}`, []string{"body.http.url must be at most 2048"}},
	"an unknown method":      {`{"http":{"method":"post","url":"http://x.test/"}}`, []string{"body.http.method must be one of"}},
	"an unknown body":        {`{"http":{"body":"x","url":"http://x.test/"}}`, []string{"body.http.body must be one of"}},
	"an unknown part":        {`{"http":{"uri":"x","url":"http://x.test/"}}`, []string{"body.http.uri is not a field"}},
	"header names":           {`{"http":{"url":"http://x.test/","headers":{"a b":"c","":"d"}}}`, []string{"body.http.headers.a b does not have a valid", "body.http.headers. does not have a valid"}},
	"header values":          {`{"http":{"url":"http://x.test/","headers":{"a":"b\r\nc: d","e":5,"f":" g"}}}`, []string{"body.http.headers.a must not hold control", "body.http.headers.e must be a string", "body.http.headers.f must not hold control"}},
	"headers that are ours":  {`{"http":{"url":"http://x.test/","headers":{"HOST":"x","Carillon-Run-Id":"x","Webhook-Id":"x"}}}`, []string{"body.http.headers.HOST is set by", "body.http.headers.Carillon-Run-Id is set by", "body.http.headers.Webhook-Id is set by"}},
	"a header in two cases":  {`{"http":{"url":"http://x.test/","headers":{"a":"b","A":"c"}}}`, []string{"body.http.headers.A is there twice"}},
	"too many headers":       {`{"http":{"url":"http://x.test/","headers":{` + numbered(40, `"h%d":"x"`) + `}}}`, []string{"body.http.headers must be at most 32"}},
	"headers too large":      {`{"http":{"url":"http://x.test/","headers":{"h":"` + strings.Repeat("x", 8192) + `"}}}`, []string{"body.http.headers must be at most 8192"}},
	"no subject":             {`{"nats":{}}`, []string{"body.nats.subject is missing"}},
	"an empty subject":       {`{"nats":{"subject":""}}`, []string{"body.nats.subject must be 1 to 255"}},
	"a subject's empty part": {`{"nats":{"subject":"a..b"}}`, []string{"body.nats.subject must not have an empty"}},
	"a wildcard":             {`{"nats":{"subject":"a.*"}}`, []string{"body.nats.subject must be printable"}},
	"a space in a subject":   {`{"nats":{"subject":"a b"}}`, []string{"body.nats.subject must be printable"}},
	"a subject of NATS":      {`{"nats":{"subject":"$JS.API.STREAM.DELETE.x"}}`, []string{"body.nats.subject must not start"}},
	"a subject of ours":      {`{"nats":{"subject":"carillon.run.0.high"}}`, []string{"body.nats.subject must not start"}},
	"a script":               {`{"script":{"command":"report","args":["--fast"]}}`, []string{"body.script cannot be used: script tasks are not enabled"}},
	"a script's faults":      {`{"script":{"command":"../x","args":["a",null,"\u0000"]}}`, []string{"body.script.command must be 1 to 63", "body.script.args[1] must be a string", "body.script.args[2] must be at most", "body.script cannot be used"}},

	"timeouts":                   {`{` + callX + `,"timeout":"0s"}`, []string{"body.timeout must be from 1ms to 24h"}},
	"a timeout in days":          {`{` + callX + `,"timeout":"1d"}`, []string{"body.timeout must be a duration"}},
	"a timeout as a number":      {`{` + callX + `,"timeout":30}`, []string{"body.timeout must be a string such as"}},
	"retry":                      {`{` + callX + `,"retry":{"max_attempts":0,"initial":"-1s","factor":0.5,"max":"48h","jitter":"some","x":1}}`, []string{"body.retry.max_attempts must be a whole number from 1 to 100", "body.retry.initial must be from", "body.retry.factor must be from 1", "body.retry.max must be from", "body.retry.jitter must be one of", "body.retry.x is not a field"}},
	"a part of an attempt":       {`{` + callX + `,"retry":{"max_attempts":1.5}}`, []string{"body.retry.max_attempts must be a whole number"}},
	"a number too large":         {`{` + callX + `,"retry":{"max_attempts":1e999}}`, []string{"body.retry.max_attempts is too large"}},
	"a max below initial":        {`{` + callX + `,"retry":{"initial":"1m","max":"30s"}}`, []string{"body.retry.max must not be less than initial (1m0s)"}},
	"an initial above the max":   {`{` + callX + `,"retry":{"initial":"20m"}}`, []string{"body.retry.initial must not be more than max (10m0s)"}},
	"an unknown guarantee":       {`{` + callX + `,"guarantee":"exactly_once"}`, []string{"body.guarantee must be one of"}},
	"at_most_once with attempts": {`{` + callX + `,"guarantee":"at_most_once","retry":{"max_attempts":2}}`, []string{"body.retry.max_attempts must be 1"}},

	"every fault at once": {
		`{"task":5,"schedule":{"at":"soon"},"priority":"p","labels":{"a":1},"x":1,"misfire":[],"payload":{"a":1,"a":1}}`,
		[]string{"body.payload.a is there twice", "body.task must be", "body.schedule.at must be", "body.priority must be", "body.labels.a must be", "body.x is not", "body.misfire must be"},
	},
	"nested too deep": {`{"payload":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`, []string{"body.payload[0]"}},
}

func numbered(n int, format string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(parts, ",")
}

func TestDecodeReportsEveryFault(t *testing.T) {
	for name, row := range faultyBodies {
		t.Run(name, func(t *testing.T) {
			_, _, err := new(Decoder).Job("acme", []byte(row.body), testNow)
			checkFaults(t, err, row.want)
		})
	}
}

// checkFaults checks that the faults of err are those wanted, in order.
func checkFaults(t *testing.T, err error, want []string) {
	t.Helper()
	var faults Faults
	if !errors.As(err, &faults) || len(faults) != len(want) {
		t.Fatalf("got %v, want faults %q", err, want)
	}
	for i, f := range faults {
		if got := f.Location + " " + f.Message; !strings.HasPrefix(got, want[i]) {
			t.Errorf("fault %d is %q, want %q", i, got, want[i])
		}
	}
}

func TestFaultsDoNotRepeatSecrets(t *testing.T) {
	for _, body := range []string{
		`{"http":{"url":"http://u:secret@x.test/"}}`,
		`{"http":{"url":"http://x.test/","headers":{"Authorization":"Bearer secret\n"}}}`,
		`{"http":{"url":"http://x.test/","headers":{"Host":"secret"}}}`,
		`{"http":{"url":"http://x.test/","secret_key":"secret"}}`,
		`{"http":{"url":"postgres://secret"}}`,
	} {
		_, _, err := new(Decoder).Job("acme", []byte(body), testNow)
		var faults Faults
		if !errors.As(err, &faults) {
			t.Fatalf("Job(%s) = %v, want faults", body, err)
		}
		for _, f := range faults {
			if strings.Contains(fmt.Sprint(f.Message, f.Value), "secret") {
				t.Errorf("Job(%s): the fault %+v holds the secret", body, f)
			}
		}
	}
}

func TestFaultsAreBounded(t *testing.T) {
	_, _, err := new(Decoder).Job("acme", []byte(`{`+numbered(10_000, `"x%d":0`)+`}`), testNow)
	var faults Faults
	if !errors.As(err, &faults) || len(faults) != maxFaults+1 || !strings.Contains(faults[maxFaults].Message, "more faults") {
		t.Fatalf("Job of 10,000 unknown fields: %d faults, want %d and a word on the rest", len(faults), maxFaults)
	}
	long := strings.Repeat("é", 5000)
	_, _, err = new(Decoder).Job("acme", []byte(`{"task":"t","`+long+`":1,"priority":"`+long+`"}`), testNow)
	if !errors.As(err, &faults) || len(err.Error()) > 500 {
		t.Fatalf("faults of long names and values: %d bytes, want at most 500", len(err.Error()))
	}
	if v := faults[1].Value.(string); len(v) > maxEcho+3 {
		t.Errorf("a fault repeats %d bytes of a value, want at most %d", len(v), maxEcho+3)
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
		"nothing to do":       {"send", `{}`, []string{"body must have exactly one of http, nats and script"}},
		"fields of jobs":      {"send", `{` + callX + `,"payload":{},"task":"x"}`, []string{"body.payload is not a field of a task", "body.task is not a field"}},
		"none at once":        {"send", `{` + callX + `,"max_concurrent":0}`, []string{"body.max_concurrent must be a whole number from 1 to 1000000"}},
		"fewer than none":     {"send", `{` + callX + `,"max_concurrent":-1}`, []string{"body.max_concurrent must be a whole number from 1 to 1000000"}},
		"far too many":        {"send", `{` + callX + `,"max_concurrent":1e300}`, []string{"body.max_concurrent must be a whole number from 1 to 1000000"}},
		"half a run":          {"send", `{` + callX + `,"max_concurrent":1.5}`, []string{"body.max_concurrent must be a whole number from 1 to 1000000"}},
		"a number as text":    {"send", `{` + callX + `,"max_concurrent":"5"}`, []string{"body.max_concurrent must be a number"}},
		"a bad rate":          {"send", `{` + callX + `,"rate":"100 a second"}`, []string{"body.rate must be a number of starts"}},
		"too high a rate":     {"send", `{` + callX + `,"rate":"100001/s"}`, []string{"body.rate must be at most 100000 a second"}},
		"a rate without unit": {"send", `{` + callX + `,"rate":100}`, []string{"body.rate must be a string"}},
		"no schema":           {"send", `{` + callX + `,"payload_schema":true}`, []string{"body.payload_schema must be an object"}},
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
	inline := Job{
		Tenant: "acme", At: at, Payload: []byte(`{"a":1,"b":{"c":2}}`), Priority: schema.Low, Labels: map[string]string{"x": "1", "y": "2"},
		Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/", Headers: map[string]string{"h": "v"}}, Timeout: schema.Duration(time.Second)},
	}
	byTask := Job{Tenant: "acme", Task: "send"}
	lots := Job{Tenant: "acme", Task: "send", Payload: []byte(`"` + strings.Repeat("<", schema.MaxPayload-2) + `"`)}
	later, soon := at.Add(time.Hour), time.Time{}
	ref := func(v []byte) *[]byte { return &v }
	high, none, email := schema.High, schema.Priority(""), "email"
	for name, row := range map[string]struct {
		job   Job
		patch string
		want  Change
		fault string
	}{
		"nothing":               {inline, `{}`, Change{}, ""},
		"another instant":       {inline, `{"schedule":{"at":"2026-11-21T11:30:00Z"}}`, Change{At: &later}, ""},
		"now":                   {inline, `{"schedule":null}`, Change{At: &soon}, ""},
		"payload merged":        {inline, `{"payload":{"b":{"c":null,"d":3},"e":[null]}}`, Change{Payload: ref([]byte(`{"a":1,"b":{"d":3},"e":[null]}`))}, ""},
		"payload replaced":      {inline, `{"payload":[1]}`, Change{Payload: ref([]byte(`[1]`))}, ""},
		"payload removed":       {inline, `{"payload":null}`, Change{Payload: ref(nil)}, ""},
		"priority":              {inline, `{"priority":"high"}`, Change{Priority: &high}, ""},
		"priority back":         {inline, `{"priority":null}`, Change{Priority: &none}, ""},
		"labels merged":         {inline, `{"labels":{"x":null,"z":"3"}}`, Change{Labels: &map[string]string{"y": "2", "z": "3"}}, ""},
		"a URL, headers stay":   {inline, `{"http":{"url":"http://y.test/"}}`, Change{Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://y.test/", Headers: map[string]string{"h": "v"}}, Timeout: schema.Duration(time.Second)}}, ""},
		"a time-out back":       {inline, `{"timeout":null}`, Change{Work: &schema.Work{HTTP: inline.Work.HTTP}}, ""},
		"from inline to task":   {inline, `{"http":null,"timeout":null,"task":"email"}`, Change{Task: &email}, ""},
		"from task to inline":   {byTask, `{"task":null,"nats":{"subject":"a"}}`, Change{Work: &schema.Work{NATS: &schema.NATSTarget{Subject: "a"}}}, ""},
		"another task":          {byTask, `{"task":"email"}`, Change{Task: &email}, ""},
		"two targets":           {inline, `{"nats":{"subject":"a"}}`, Change{}, "body must have only one of"},
		"no target":             {inline, `{"http":null}`, Change{}, "body must have exactly one of"},
		"an unknown field":      {inline, `{"stat":"x"}`, Change{}, "body.stat is not a field"},
		"a fault within":        {inline, `{"schedule":{"at":"soon"}}`, Change{}, "body.schedule.at must be"},
		"cron":                  {inline, `{"schedule":{"cron":"* * * * *"}}`, Change{}, "body.schedule must have only one of at, cron and every"},
		"recurring":             {inline, `{"schedule":{"at":null,"cron":"* * * * *"}}`, Change{}, "body.schedule cannot make a one-off job a recurring one"},
		"a name":                {inline, `{"name":"n"}`, Change{}, "body.name belongs to a recurring job"},
		"a doubled name":        {inline, `{"task":"a","task":"b"}`, Change{}, "body.task is there twice"},
		"no object":             {inline, `5`, Change{}, "body must be an object"},
		"beside a payload of <": {lots, `{"schedule":{"at":"2026-11-21T11:30:00Z"}}`, Change{At: &later}, ""},
		"misfire":               {inline, `{"misfire":{"policy":"skip"}}`, Change{}, "body.misfire cannot be changed yet"},
		"nested too deep":       {inline, strings.Repeat(`{"payload":`, 101) + `1` + strings.Repeat(`}`, 101), Change{}, "body.payload.payload"},
		"payload grown too big": {inline, `{"payload":{"z":"` + strings.Repeat("x", schema.MaxPayload) + `"}}`, Change{}, "body.payload must be at most"},
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
		Key: "k", Schedule: &Schedule{At: testNow}, Payload: json.RawMessage(`{"a":1}`), Priority: schema.High,
		Labels: map[string]string{"a": "b"}, Misfire: &schema.Misfire{Policy: "skip", Deadline: schema.Duration(time.Hour)},
		Work: schema.Work{
			HTTP:      &schema.HTTPTarget{Method: "PUT", URL: "http://x.test/", Headers: map[string]string{"a": "b"}, Body: "none"},
			Timeout:   schema.Duration(time.Second),
			Retry:     &schema.Retry{MaxAttempts: 2, Initial: schema.Duration(time.Second), Factor: 3, Max: schema.Duration(time.Minute), Jitter: "none"},
			Guarantee: schema.AtLeastOnce,
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
	again := j.Request()
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
		var faults Faults
		if errors.As(err, &faults) && slices.ContainsFunc(faults, func(f Fault) bool { return strings.Contains(f.Message, "not a field") }) {
			t.Errorf("the decoder does not know the field %q of a job", name)
		}
	}
}

// FuzzDecode: whatever the text, the decoder does not panic, and answers either a job or faults, never both or neither;
// and a job that it takes, said again as a request, is the same job.
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
		var faults Faults
		switch {
		case err == nil:
		case errors.As(err, &syntax) || errors.As(err, &faults) && len(faults) > 0:
			if !reflect.DeepEqual(j, Job{}) {
				t.Fatalf("Line(%q) = %+v and %v", text, j, err)
			}
			if _, err := d.Patch(Job{Task: "t"}, text, testNow); err == nil && syntax != nil {
				t.Fatalf("Patch(%q) takes what is not JSON", text)
			}
			return
		default:
			t.Fatalf("Line(%q) = %v, which is neither faults nor a syntax error", text, err)
		}
		if spec != nil {
			if diff := cmp.Diff(Job{Tenant: "acme", Key: j.Key, BodyHash: j.BodyHash}, j); diff != "" {
				t.Fatalf("Line(%q) is a job that can have many runs, and a one-off one (-want +got):\n%s", text, diff)
			}
			checkSaidAgain(t, &d, spec)
			return
		}
		if (j.Task == "") == (j.Work == nil) {
			t.Fatalf("Line(%q) = %+v, which has not exactly one of task and work", text, j)
		}
		request := j.Request()
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
