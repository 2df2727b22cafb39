package request

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

// anyScript has every script accepted.
var anyScript = Rules{Script: func(string, *schema.ScriptTarget) (field, fault string) { return "", "" }}

// argsOf returns args of a script whose JSON, as a row holds it, has n bytes. Each char takes so
// many of them.
func argsOf(n int, char string, bytes int) string {
	full := (n - 4) / (maxArg*bytes + 3)
	rest := n - 4 - full*(maxArg*bytes+3)
	args := slices.Repeat([]string{strings.Repeat(char, maxArg)}, full)
	args = append(args, strings.Repeat(char, rest/bytes)+strings.Repeat("x", rest%bytes))
	text, err := json.Marshal(args)
	if err != nil || len(text) != n {
		panic(fmt.Sprintf("%d args have %d bytes (%v), want %d", len(args), len(text), err, n))
	}
	return string(text)
}

// largestWork are requests for work that cannot be asked for any larger, of each kind.
func largestWork() map[string]string {
	const limits = `,"timeout":"23h59m59.999999999s","guarantee":"effectively_once",` +
		`"retry":{"max_attempts":100,"initial":"23h59m59.999999998s","factor":99.999999999999,"max":"23h59m59.999999999s","jitter":"full"}`
	name := strings.Repeat("n", bucketer.MaxName)
	headers := numbered(maxHeaders, `"h%02d":"`+strings.Repeat("<", maxHeaderBytes/maxHeaders-3)+`"`)
	return map[string]string{
		"script <":       `"script":{"command":"` + name + `","args":` + argsOf(maxArgsText, "<", 6) + `}` + limits,
		"script control": `"script":{"command":"` + name + `","args":` + argsOf(maxArgsText, "\x01", 6) + `}` + limits,
		"script plain":   `"script":{"command":"` + name + `","args":` + argsOf(maxArgsText, "x", 1) + `}` + limits,
		"http": `"http":{"method":"OPTIONS","body":"payload","signing_key":"` + name + `","url":"http://x/?` + strings.Repeat("&", maxURL-len("http://x/?")) +
			`","headers":{` + headers + `}}` + limits,
		"http with auth": `"http":{"method":"OPTIONS","url":"https://x/?` + strings.Repeat("&", maxURL-len("https://x/?")) + `","headers":{` + headers + `},"auth":{"oauth2_client_credentials":{` +
			`"token_url":"https://x/?` + strings.Repeat("&", maxURL-len("https://x/?")) + `","client_id":"` + strings.Repeat("<", maxUser) + `","secret":"` + name + `",` +
			`"scopes":["` + strings.Repeat(strings.Repeat("<", maxScope)+`","`, maxScopes-1) + `s"],"params":{"p":"` + strings.Repeat("<", maxParamBytes-1) + `"}}}}` + limits,
		"lambda": `"lambda":{"function":"` + strings.Repeat("f", maxFunction) + `","region":"` + strings.Repeat("r", 63) + `","invocation":"async","credentials":"` + name + `",` +
			`"endpoint":"https://x/` + strings.Repeat("&", maxURL-len("https://x/")) + `"}` + limits,
		"sqs": `"sqs":{"queue_url":"https://x/` + strings.Repeat("&", maxQueueURL-len("https://x/")-2) + `/q","message_group":"` + strings.Repeat("<", maxMessageGroup) + `","region":"` + strings.Repeat("r", 63) +
			`","credentials":"` + name + `","endpoint":"https://x/` + strings.Repeat("&", maxURL-len("https://x/")) + `"}` + limits,
		"eventbridge": `"eventbridge":{"bus":"` + strings.Repeat("b", maxBus) + `","source":"` + strings.Repeat("<", maxEventSource) + `","detail_type":"` + strings.Repeat("<", maxDetailType) + `","region":"` +
			strings.Repeat("r", 63) + `","credentials":"` + name + `","endpoint":"https://x/` + strings.Repeat("&", maxURL-len("https://x/")) + `"}` + limits,
		"kafka": `"kafka":{"brokers":["` + strings.Repeat(strings.Repeat("b", maxBroker-6)+`:65535","`, maxBrokers-1) + `b:1"],"topic":"` + strings.Repeat("t", maxTopic) + `","key":"` + strings.Repeat("<", maxRecordKey) +
			`","headers":{` + headers + `},"tls":{"ca_secret":"` + name + `","certificate_secret":"` + name + `","key_secret":"` + name + `"},` +
			`"sasl":{"mechanism":"scram-sha-256","username":"` + strings.Repeat("<", maxUser) + `","password_secret":"` + name + `"}}` + limits,
		"nats": `"nats":{"subject":"` + strings.Repeat("s", maxSubject) + `"}` + limits,
	}
}

// largestRest is what else may be said of every job, and cannot be any larger.
var largestRest = `,"payload":{"p":"` + strings.Repeat("p", schema.MaxPayload-len(`{"p":""}`)) + `"},"priority":"critical","misfire":{"policy":"run_latest","deadline":"87599h59m59.999999999s"},"labels":{` +
	numbered(maxLabels, `"%02d`+strings.Repeat("l", maxLabelName-2)+`":"`+strings.Repeat("<", maxLabelValue)+`"`) + `}`

// largestSchedule is one of several schedules, without its end.
var largestSchedule = `{"cron":"` + strings.Repeat("0,", 120) + `0 * * * *","timezone":"America/Argentina/ComodRivadavia","gap":"skip","overlap_hour":"second",` +
	`"calendar":{"name":"` + strings.Repeat("n", bucketer.MaxName) + `","on":"previous_day"}`

// TestWhatFollowsFromTheLargestRunFits: a run was accepted whose row was as large as rows may be,
// and its retry was larger.
func TestWhatFollowsFromTheLargestRunFits(t *testing.T) {
	fits := func(t *testing.T, what string, size, most int) {
		t.Helper()
		if size > most {
			t.Errorf("%s has %d bytes, want at most %d", what, size, most)
		}
	}
	number := time.Now().UnixMicro()
	for name, work := range largestWork() {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				d := Decoder{Rules: anyScript}
				key := strings.Repeat("<", bucketer.MaxKey)
				one, _, err := d.Line("t", []byte(`{`+work+largestRest+`,"key":"`+key+`","schedule":{"at":"2036-11-20T00:00:00.001Z"}}`), testNow)
				if err != nil {
					t.Fatalf("Line = %v", err)
				}
				one.Trigger, one.Origin = schema.TriggerDependency, schema.MakeEntryID(testNow, 1, 1)
				_, many, err := d.Job("t", []byte(`{`+work+largestRest+`,"name":"`+strings.Repeat("n", bucketer.MaxName)+`","concurrency":{"limit":1000,"on_limit":"cancel_oldest"},"jitter":"23h59m59s",`+
					`"max_runs":100000,"start":"2027-01-01T00:00:00.001Z","end":"2036-01-01T00:00:00.001Z","pause_on_failure":{"after":100},"schedules":[`+strings.Repeat(largestSchedule+`},`, schedule.MaxAny-1)+largestSchedule+
					`,"exclude":[`+strings.Repeat(`"2399-12-31",`, schedule.MaxDates-1)+`"2399-12-31"]}]}`), testNow)
				if err != nil {
					t.Fatalf("Job = %v", err)
				}
				for range 100 { // as many dates of calendars as there may be besides
					one := &many.Schedule.Any[0]
					one.Calendar.Dates = append(one.Calendar.Dates, "2399-12-31")
				}
				for range recurring.MaxPast {
					many.Past = append(many.Past, schema.PastGeneration{Number: number, Schedule: many.Schedule, Cut: testNow})
				}
				text, err := schema.EncodeJobSpec(many)
				if err != nil {
					t.Fatal(err)
				}
				fits(t, "the job", len(text), schema.MaxRow/2)

				id := schema.MakeEntryID(testNow, 1, 1)
				run, err := w.EntryOf(&one, id, testNow)
				if err != nil {
					t.Fatal(err)
				}
				job := schema.Job{ID: schema.JobID(id), Current: schema.Generation{Number: number, Spec: *many}}
				asked, err := w.RunOf(&job, schema.TriggerDependency, testNow, testNow)
				if err != nil {
					t.Fatal(err)
				}
				asked.Spec.Misfire = many.Misfire // of an occurrence
				for _, e := range []schema.Entry{run, asked} {
					fits(t, "the run", e.Size(), schema.MaxRow/2)
					if _, err := w.handedDown(e, func(what string, next *schema.Entry) {
						fits(t, what, next.Size()+len(e.Payload), schema.MaxRow/2)
						next.Payload = e.Payload
						letter := schema.DeadLetter{Entry: *next, Last: schema.Record{
							Error: strings.Repeat("<", 1<<10), Output: strings.Repeat("<", 2<<10), Progress: &schema.RunProgress{Text: strings.Repeat("<", 512)},
						}}
						last, err := letter.EncodeLast()
						if err != nil {
							t.Fatal(err)
						}
						fits(t, "the letter of "+what, next.Size()+len(last), schema.MaxRow)
					}); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// handedDown makes what may follow from e, and from that, of every kind, and shows each to see.
func (w *world) handedDown(e schema.Entry, see func(what string, next *schema.Entry)) (schema.Entry, error) {
	for range 2 {
		for _, kind := range []schema.Kind{
			schema.KindLate, schema.KindReschedule, schema.KindRetry, schema.KindDeferral, schema.KindFromWaitList, schema.KindWatch, schema.KindCatchUp,
		} {
			e.Spec.Began, e.Spec.Deferrals, e.Spec.Until = testNow.UnixMicro(), math.MaxInt32, testNow
			next, err := w.LaterStart(&e, kind, schema.MakeEntryID(testNow, 1, schema.RandomHash()), maxAttempts, testNow)
			if err != nil {
				return e, fmt.Errorf("%s: %w", kind, err)
			}
			see(string(kind), &next)
			put, err := w.Defer(&next, testNow, "1000000/h", testNow)
			if err != nil {
				return e, fmt.Errorf("defer %s: %w", kind, err)
			}
			see(string(kind)+", put off", &put)
			e = put
		}
	}
	return e, nil
}

// TestArgumentsAreBoundedTogether: by what they take in a row, and wherever they are stated.
func TestArgumentsAreBoundedTogether(t *testing.T) {
	large := `{"script":{"command":"x","args":` + argsOf(maxArgsText+1, "<", 6) + `}}`
	small := schema.Work{Script: &schema.ScriptTarget{Command: "x"}}
	spec := schema.JobSpec{Tenant: "t", Work: &small, Schedule: &schema.Schedule{Every: schema.Duration(time.Minute), Anchor: testNow}}
	every := strings.TrimSuffix(large, "}") + `,"schedule":{"every":"1m"}}`
	for name, read := range map[string]func(d *Decoder) error{
		"job":           func(d *Decoder) error { _, _, err := d.Job("t", []byte(large), testNow); return err },
		"recurring job": func(d *Decoder) error { _, _, err := d.Job("t", []byte(every), testNow); return err },
		"line":          func(d *Decoder) error { _, _, err := d.Line("t", []byte(large), testNow); return err },
		"job by name":   func(d *Decoder) error { _, err := d.PutJob("t", "n", []byte(every), testNow); return err },
		"change": func(d *Decoder) error {
			_, err := d.Patch(bucketer.Job{Tenant: "t", Work: &small}, []byte(large), testNow)
			return err
		},
		"job's change": func(d *Decoder) error { _, err := d.PatchJob(spec, []byte(large), testNow); return err },
		"task":         func(d *Decoder) error { _, err := d.Task("t", "n", []byte(large)); return err },
	} {
		t.Run(name, func(t *testing.T) {
			err := read(&Decoder{Rules: anyScript})
			var faults bucketer.Faults
			if !errors.As(err, &faults) || len(faults) != 1 {
				t.Fatalf("reading one byte too much = %.200v, want one fault", err)
			}
			checkFaults(t, err, []string{"body.script.args must be at most 131072 bytes together"})
		})
	}
}
