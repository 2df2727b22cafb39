package request

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// faultyBodies are bodies of POST /v1/jobs, and the faults that each has: location and part of the
// message.
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
	"triggered":                  {`{"task":"t","after":{"jobs":["a"]},"on":{"event":"e"},"region":"eu"}`, []string{"body.region belongs to a one-off job that waits for no other", "body must have only one of schedule, on and after"}},
	"after no jobs":              {`{"task":"t","after":{"jobs":[]}}`, []string{"body.after.jobs must name at least one"}},
	"after's faults":             {`{"task":"t","after":{"jobs":["A b",1,null],"when":"always","deadline":"0s","x":1}}`, []string{"body.after.jobs[0] is neither an id nor a name", "body.after.jobs[1] must be", "body.after.jobs[2] must be", "body.after.when must be one of", "body.after.deadline must be from 1s", "body.after.x is not a field"}},
	"after without jobs":         {`{"task":"t","after":{"when":"all_done"}}`, []string{"body.after.jobs is missing"}},
	"after something else":       {`{"task":"t","after":{"jobs":"a"}}`, []string{"body.after.jobs must be a list"}},
	"after, with a time":         {`{"task":"t","after":{"jobs":["a"]},"schedule":{"at":"2030-01-01T00:00:00Z"},"max_runs":3}`, []string{"body must have only one of schedule, on and after", "body.max_runs goes with a schedule"}},
	"after too many":             {`{"task":"t","after":{"jobs":[` + numbered(101, `"j%d"`) + `]}}`, []string{"body.after.jobs must be at most 100 jobs"}},

	"a payload over the limit": {`{"task":"t","payload":"` + strings.Repeat("x", schema.MaxPayload-1) + `"}`, []string{"body.payload must be at most 65536 bytes"}},
	"a region of nothing":      {`{"task":"t","region":""}`, []string{"body.region must be the name of a region"}},
	"a region that is a list":  {`{"task":"t","region":["eu"]}`, []string{"body.region must be the name of a region, or an object"}},
	"a region with too much":   {`{"task":"t","region":{"name":7,"require":"yes","zone":"a"}}`, []string{"body.region.name must be a string", "body.region.require must be true or false", "body.region.zone is not a field of a region"}},
	"an unknown priority":      {`{"task":"t","priority":"urgent"}`, []string{"body.priority must be one of critical, high, normal, low"}},
	"an empty priority":        {`{"task":"t","priority":""}`, []string{"body.priority must be one of"}},
	"labels as an array":       {`{"task":"t","labels":["a"]}`, []string{"body.labels must be an object"}},
	"a label's name":           {`{"task":"t","labels":{"a b":"c"}}`, []string{"body.labels.a b must have a name"}},
	"a label's value":          {`{"task":"t","labels":{"a":1,"b":"\u0000","c":"` + strings.Repeat("x", 256) + `"}}`, []string{"body.labels.a must be a string", "body.labels.b must be at most 255", "body.labels.c must be at most 255"}},
	"too many labels":          {`{"task":"t","labels":{` + numbered(17, `"l%d":""`) + `}}`, []string{"body.labels must be at most 16"}},
	"durability":               {`{"task":"t","durability":"twice"}`, []string{"body.durability must be one of"}},
	"misfire":                  {`{"task":"t","misfire":{"policy":"never","deadline":"-1h","x":1}}`, []string{"body.misfire.policy must be one of", "body.misfire.deadline must be from 1s", "body.misfire.x is not a field"}},

	"no URL":                 {`{"http":{}}`, []string{"body.http.url is missing"}},
	"a URL without scheme":   {`{"http":{"url":"x.test/a"}}`, []string{"body.http.url must be an absolute"}},
	"a URL without host":     {`{"http":{"url":"http:///a"}}`, []string{"body.http.url must be an absolute"}},
	"a URL of a file":        {`{"http":{"url":"file:///etc/passwd"}}`, []string{"body.http.url must be an absolute"}},
	"a URL of gopher":        {`{"http":{"url":"gopher://127.0.0.1:6379/_FLUSHALL"}}`, []string{"body.http.url must be an absolute"}},
	"a URL of ftp":           {`{"http":{"url":"ftp://x.test/a"}}`, []string{"body.http.url must be an absolute"}},
	"a URL of data":          {`{"http":{"url":"data:text/plain,x"}}`, []string{"body.http.url must be an absolute"}},
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
	var faults bucketer.Faults
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
		var faults bucketer.Faults
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
	var faults bucketer.Faults
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
