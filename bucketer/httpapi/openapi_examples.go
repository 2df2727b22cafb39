package httpapi

import (
	"encoding/json"
	"fmt"

	"github.com/danielgtaylor/huma/v2"
)

// requestExamples are bodies that are taken, by operation and name.
var requestExamples = map[string]map[string]string{
	"create-job": {
		"now":          `{"http":{"url":"https://example.com/hook"},"payload":{"order":7}}`,
		"once":         `{"task":"send-email","schedule":{"at":"2026-11-21T10:00:00Z"},"payload":{"to":"a@example.com"},"priority":"high"}`,
		"unique":       `{"task":"report","payload":{"customer":7},"unique":{"by":["payload/customer"],"window":"10m"}}`,
		"cron":         `{"name":"nightly-report","task":"report","schedule":{"cron":"0 2 * * *","timezone":"Europe/Berlin"},"labels":{"team":"billing"}}`,
		"interval":     `{"name":"poll","nats":{"subject":"work.poll"},"schedule":{"every":"15m"},"jitter":"30s","misfire":{"policy":"skip"}}`,
		"after others": `{"name":"load","task":"report","after":{"jobs":["extract","clean"],"when":"all_succeeded","deadline":"6h"}}`,
		"ten times":    `{"task":"reminder","schedule":{"every":"24h"},"max_runs":10,"concurrency":{"limit":1,"on_limit":"skip"}}`,
	},
	"put-job": {
		"cron": `{"task":"report","schedule":{"cron":"0 2 * * *","timezone":"Europe/Berlin"}}`,
	},
	"patch-job": {
		"another time": `{"schedule":{"cron":"0 3 * * *"}}`,
		"no payload":   `{"payload":null}`,
	},
	"put-task": {
		"http":                    `{"http":{"method":"POST","url":"https://example.com/hook","headers":{"x-team":"billing"}},"timeout":"30s","retry":{"max_attempts":5,"initial":"1s"}}`,
		"nats":                    `{"nats":{"subject":"work.email"},"description":"Sends an e-mail"}`,
		"a rate":                  `{"http":{"url":"https://api.example.com/v2/orders"},"rate":"100/s"}`,
		"at most so many at once": `{"http":{"url":"https://api.example.com/v2/reports"},"timeout":"10m","max_concurrent":5}`,
		"a token of OAuth 2": `{"http":{"url":"https://api.example.com/v2/orders","auth":{"oauth2_client_credentials":{
			"token_url":"https://id.example.com/oauth2/token","client_id":"carillon","secret":"orders-client","scopes":["orders:write"]}}}}`,
		"lambda": `{"lambda":{"function":"resize","region":"eu-central-1","invocation":"async","credentials":"aws-resize"}}`,
		"sqs":    `{"sqs":{"queue_url":"https://sqs.eu-central-1.amazonaws.com/123456789012/jobs.fifo","region":"eu-central-1","credentials":"aws-queues"}}`,
		"payload schema": `{"nats":{"subject":"work.email"},
			"payload_schema":{"type":"object","required":["to"],"properties":{"to":{"type":"string","pattern":"@"}},"additionalProperties":false}}`,
	},
	"put-workflow": {
		"a fan-out": `{"schedule":{"cron":"0 2 * * *","timezone":"Europe/Berlin"},"deadline":"3h","payload":{"date":{"$run":"/nominal_at"}},"labels":{"team":"data"},
			"steps":[
			{"name":"extract","http":{"url":"https://example.com/extract"},"payload":{"date":{"$input":"/date"}}},
			{"name":"transform","after":["extract"],"for_each":{"from":"extract","pointer":"/files","max_concurrent":20},"http":{"url":"https://example.com/transform"},"payload":{"file":{"$item":""}}},
			{"name":"load","after":["transform"],"nats":{"subject":"work.load"},"payload":{"loaded":{"$from":"transform"}}},
			{"name":"alert","after":["load"],"when":"any_failed","http":{"url":"https://example.com/page"}}]}`,
		"a wait": `{"steps":[{"name":"draft","nats":{"subject":"work.draft"}},{"name":"cool-down","after":["draft"],"wait":{"for":"12h"}},
			{"name":"send","after":["cool-down"],"nats":{"subject":"work.send"}}]}`,
		"on an event, with an approval": `{"on":{"event":"file.uploaded","filter":"event.region == 'eu'"},"steps":[{"name":"check","nats":{"subject":"work.check"}},
			{"name":"approve","after":["check"],"wait":{"event":"approved","filter":"event.path == input.path","deadline":"12h"}},
			{"name":"load","after":["approve"],"nats":{"subject":"work.load"}}]}`,
	},
	"trigger-workflow": {"with an input": `{"payload":{"date":"2026-11-21T00:00:00Z"}}`, "with its own": `{}`},
	"publish-event":    {"an upload": `{"region":"eu","path":"incoming/2026-11-21.csv"}`, "nothing to say": `null`},
	"put-secret":       {"a token": `{"value":"ory_at_0mBqE…"}`},
	"put-notification": {
		"a channel, and on call": `{"on":["failed","missed"],"match":{"labels":{"team":"billing"}},"group_by":["job","error"],
			"sinks":[{"slack":{"url_secret":"slack-url"}},{"alertmanager":{"url":"https://alerts.example.com/api/v2/alerts"}}]}`,
		"not at night": `{"on":["dead","recovered"],"match":{"job":"report-*"},"sinks":[{"webhook":{"url":"https://example.com/hook","signing_key":"hooks"}}],
			"group_wait":"1m","repeat_interval":"12h","mute_time_intervals":[{"times":[{"start_time":"22:00","end_time":"24:00"},{"start_time":"00:00","end_time":"06:00"}],"weekdays":["monday:friday"],"location":"Europe/Berlin"}]}`,
	},
	"create-signing-key": {"of all calls": `{"name":"default"}`},
	"rotate-signing-key": {"within an hour": `{"overlap":"1h"}`},
	"preview-schedule": {
		"cron":     `{"schedule":{"cron":"30 2 * * *","timezone":"Europe/Berlin"},"from":"2027-03-27T00:00:00Z","count":3}`,
		"interval": `{"schedule":{"every":"15m"},"jitter":"0s"}`,
	},
	"create-backfill": {
		"a week": `{"from":"2026-11-14T00:00:00Z","to":"2026-11-21T00:00:00Z","max_concurrent":3}`,
	},
	"preview-backfill": {
		"what is missing": `{"from":"2026-11-14T00:00:00Z","to":"2026-11-21T00:00:00Z","missing":true}`,
	},
	"begin-operation": {
		"pause jobs":          `{"action":"pause","filter":{"label":"team=billing"},"dry_run":true}`,
		"retry runs":          `{"action":"retry","filter":{"from":"2026-11-21T08:00:00Z","to":"2026-11-21T09:00:00Z","state":"failed"}}`,
		"replay dead letters": `{"action":"replay","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-22T00:00:00Z","task":"send-email"}}`,
		"cancel runs":         `{"action":"cancel","filter":{"from":"2026-11-21T10:00:00Z","to":"2026-11-21T12:00:00Z","task":"send-email"}}`,
	},
}

// schemaExamples are values of what is answered, by schema.
var schemaExamples = map[string][]string{
	"Job": {`{
		"id":"01932e5a-7c00-7003-8d2f-5a1b9c3e7f60","tenant":"default","name":"nightly-report","task":"report",
		"schedule":{"cron":"0 2 * * *","timezone":"Europe/Berlin","gap":"run","overlap_hour":"first"},"jitter":"10s","priority":"normal",
		"labels":{"team":"billing"},"misfire":{"policy":"run_latest"},"state":"active","generation":1795253400123456,
		"next_run":{"id":"01932f1e-5d80-8003-8d2f-5a1b9c3e7f60","nominal_at":"2026-11-22T01:00:00.000Z","due_at":"2026-11-22T01:00:04.096Z"},
		"created_at":"2026-11-21T09:30:00.000Z","updated_at":"2026-11-21T09:30:00.000Z"}`, `{
		"id":"01932e5a-7c00-7003-8d2f-5a1b9c3e7f61","tenant":"default","name":"load","task":"report","schedule":{},
		"after":{"jobs":["extract","clean"],"when":"all_succeeded","deadline":"6h0m0s"},"priority":"normal","misfire":{"policy":"run_latest"},
		"state":"active","generation":1795253400123456,"created_at":"2026-11-21T09:30:00.000Z","updated_at":"2026-11-21T09:30:00.000Z"}`},
	"Run": {`{
		"id":"01932f1e-5d80-8003-8d2f-5a1b9c3e7f60","job_id":"01932e5a-7c00-7003-8d2f-5a1b9c3e7f60","job_name":"load","tenant":"default","task":"report",
		"state":"stuck","priority":"normal","nominal_at":"2026-11-22T01:00:00.000Z","due_at":"2026-11-22T01:00:00.000Z","trigger":"dependency",
		"waiting":{"since":"2026-11-22T01:00:00.000Z","reason":"jobs: it runs after jobs that have not ended: clean"},
		"deadline_at":"2026-11-22T07:00:00.000Z","attempts":[]}`, `{
		"id":"01932f1e-5d80-8003-8d2f-5a1b9c3e7f60","job_id":"01932e5a-7c00-7003-8d2f-5a1b9c3e7f60","job_name":"nightly-report","tenant":"default","task":"report",
		"state":"succeeded","priority":"normal","nominal_at":"2026-11-22T01:00:00.000Z","due_at":"2026-11-22T01:00:04.096Z",
		"started_at":"2026-11-22T01:00:04.101Z","finished_at":"2026-11-22T01:00:05.320Z","lateness_ms":5,"trigger":"schedule",
		"attempts":[{"number":1,"executor":"node-1","started_at":"2026-11-22T01:00:04.101Z","finished_at":"2026-11-22T01:00:05.320Z","outcome":"succeeded","status_code":200}]}`, `{
		"id":"01932f1e-5d80-8003-8d2f-5a1b9c3e7f60","job_id":"01932e5a-7c00-7003-8d2f-5a1b9c3e7f60","job_name":"nightly-report","tenant":"default","task":"report",
		"state":"pending","priority":"normal","nominal_at":"2026-11-22T01:00:00.000Z","due_at":"2026-11-22T01:00:04.096Z","trigger":"schedule",
		"waiting":{"since":"2026-11-22T01:00:04.112Z","reason":"concurrency: a run of the job was under way"},"attempts":[]}`, `{
		"id":"01932f1e-5d80-8003-8d2f-5a1b9c3e7f60","job_id":"01932e5a-7c00-7003-8d2f-5a1b9c3e7f60","job_name":"etl","tenant":"default","workflow":"etl",
		"state":"running","priority":"normal","nominal_at":"2026-11-22T01:00:00.000Z","due_at":"2026-11-22T01:00:04.096Z","started_at":"2026-11-22T01:00:04.101Z",
		"lateness_ms":5,"trigger":"schedule","deadline_at":"2026-11-22T04:00:04.096Z","attempts":[{"number":1,"started_at":"2026-11-22T01:00:04.101Z"}],
		"steps":[
		{"name":"extract","run_id":"81932f1e-5d80-8003-8d2f-5a1b9c000000","state":"succeeded","attempts":1,"started_at":"2026-11-22T01:00:04.110Z","finished_at":"2026-11-22T01:00:05.320Z"},
		{"name":"transform","after":["extract"],"state":"running","attempts":12,"started_at":"2026-11-22T01:00:05.331Z","items":{"total":30,"states":{"running":2,"succeeded":10}}},
		{"name":"load","after":["transform"],"state":"pending","reason":"it waits for steps before it"},
		{"name":"alert","after":["load"],"state":"pending","reason":"it waits for steps before it"}]}`},
	"Workflow": {`{
		"id":"01932e5a-7c00-7003-8d2f-5a1b9c3e7f60","tenant":"default","name":"etl","schedule":{"cron":"0 2 * * *","timezone":"Europe/Berlin","gap":"run","overlap_hour":"first"},
		"jitter":"10s","misfire":{"policy":"run_latest"},"deadline":"3h0m0s","priority":"normal","labels":{"team":"data"},
		"steps":[
		{"name":"extract","task":"extract","payload":{"date":{"$input":"/date"}}},
		{"name":"transform","after":["extract"],"when":"all_succeeded","task":"transform","for_each":{"from":"extract","pointer":"/files","max_concurrent":20},"payload":{"file":{"$item":""}}}],
		"state":"active","generation":1795253400123456,"created_at":"2026-11-21T09:30:00.000Z","updated_at":"2026-11-21T09:30:00.000Z"}`},
	"DeadLetter": {`{
		"id":"01932f1e-5d80-8003-8d2f-5a1b9c3e7f60","job_id":"01932f1e-5d80-8003-8d2f-5a1b9c3e7f60","tenant":"default","task":"send-email","state":"waiting",
		"priority":"normal","nominal_at":"2026-11-22T01:00:00.000Z","due_at":"2026-11-22T01:00:00.000Z","started_at":"2026-11-22T01:00:00.002Z",
		"failed_at":"2026-11-22T01:00:17.320Z","expires_at":"2026-12-22T01:00:17.320Z","attempt_count":5,"outcome":"failed","error":"answered 500 Internal Server Error: no mail server",
		"error_pattern":"answered 500 Internal Server Error",
		"status_code":500}`},
	"Task": {`{
		"name":"send-email","nats":{"subject":"work.email"},"timeout":"30s","retry":{"max_attempts":5,"initial":"1s","factor":2,"max":"10m0s","jitter":"full"},
		"guarantee":"at_least_once","created_at":"2026-11-21T09:30:00.000Z","updated_at":"2026-11-21T09:30:00.000Z"}`},
	"NextRun": {`{"id":"01932f1e-5d80-8003-8d2f-5a1b9c3e7f60","nominal_at":"2026-11-22T01:00:00.000Z","due_at":"2026-11-22T01:00:04.096Z"}`},
	"Preview": {`{
		"description":"at 02:30 every day, Europe/Berlin time","times":["2027-03-27T01:30:00.000Z","2027-03-28T01:00:00.000Z"],
		"notes":["the 02:30 run of 2027-03-28 moves to 03:00"],"zones":"2026a"}`},
	"Whoami": {`{
		"tenant":"billing","tenants_all":false,"role":"operator","actor":"deploy","session":true,"auth":true,"read_only":false,
		"node":"node-1","version":"1.4.0","time":"2026-11-21T09:30:00.000Z"}`},
	"StatsList": {`{
		"scope":"all","items":[
		{"minute":"2026-11-21T09:29:00.000Z","due":120012,"started":120009,"succeeded":119800,"failed":209,"missed":0,"retried":201,"late":3,
		"lateness":{"p50_ms":1.83,"p99_ms":14.65,"max_ms":1250.2,"classes":[{"up_to_ms":1,"count":20411},{"up_to_ms":2,"count":61120},
		{"up_to_ms":5,"count":34470},{"up_to_ms":10,"count":2390},{"up_to_ms":20,"count":1615},{"up_to_ms":2000,"count":3}]}},
		{"minute":"2026-11-21T09:30:00.000Z","due":24012,"started":24001,"succeeded":23990,"failed":11,"missed":0,"retried":11,"late":0,
		"lateness":{"p50_ms":1.83,"p99_ms":10.36,"max_ms":31.2,"classes":[{"up_to_ms":2,"count":24000},{"up_to_ms":50,"count":1}]},"running":true}],
		"missing_nodes":[]}`, `{
		"scope":"tenant","tenant":"shop","items":[
		{"minute":"2026-11-21T09:29:00.000Z","due":4,"started":4,"succeeded":4,"failed":0,"missed":0,"retried":0,"late":1,
		"lateness":{"p50_ms":2,"p99_ms":301250,"max_ms":301250,"classes":[{"up_to_ms":2,"count":3},{"count":1}]}}],"missing_nodes":["node-3"]}`},
	"TopStats": {`{
		"by":"job","scope":"all","items":[
		{"name":"nightly-report","tenant":"default","job_id":"01932e5a-7c00-7003-8d2f-5a1b9c3e7f60","due":60,"started":60,"succeeded":12,"failed":48,"missed":0,
		"retried":40,"late":2,"lateness":{"p50_ms":5,"p99_ms":2000,"max_ms":1250.2}}],
		"others":{"due":7200,"started":7200,"succeeded":7200,"failed":0,"missed":0,"retried":0,"late":0,"lateness":{"p50_ms":2,"p99_ms":20,"max_ms":31.2}},
		"kept":50,"complete":false,"missing_nodes":[]}`, `{
		"by":"host","scope":"tenant","tenant":"shop","items":[
		{"name":"api.example.com","tenant":"shop","started":60,"succeeded":60,"failed":0,"missed":0,"retried":0,"late":0,"lateness":{"p50_ms":2,"p99_ms":5,"max_ms":3.4}}],
		"kept":50,"complete":true,"missing_nodes":[]}`},
	"UpcomingRuns": {`{
		"items":[{"minute":"2026-11-21T09:30:00.000Z","runs":1200,"estimated":true},{"minute":"2026-11-21T09:31:00.000Z","estimated":false}],
		"sampled_shards":2,"shards":64,"as_of":"2026-11-21T09:29:47.120Z"}`},
	"OperationBegun": {`{"id":"01932e5a-7c00-7003-8d2f-5a1b9c3e7f60","matched":1200,"all":true}`},
	"Operation": {`{
		"id":"01932e5a-7c00-7003-8d2f-5a1b9c3e7f60","tenant":"default","action":"pause","filter":{"label":"team=billing"},"state":"running","matched":400,
		"changed":398,"unchanged":2,"failed":0,"created_at":"2026-11-21T09:30:00.000Z","created_by":"deploy","updated_at":"2026-11-21T09:30:12.345Z"}`},
	"BackfillPreview": {`{
		"matched":3,"times":7,"first":"2026-11-15T01:00:00.000Z","last":"2026-11-18T01:00:00.000Z",
		"from":"2026-11-14T00:00:00.000Z","to":"2026-11-21T00:00:00.000Z"}`},
	"BackfillScope": {`{
		"job_id":"01932e5a-7c00-7003-8d2f-5a1b9c3e7f60","job_name":"nightly-report","from":"2026-11-14T00:00:00.000Z","to":"2026-11-21T00:00:00.000Z",
		"max_concurrent":3}`},
	"Cluster": {`{
		"node":"node-1","version":"v1.4.0","as_of":"2026-11-22T01:00:00.000Z",
		"members":[
		{"name":"node-1","address":"10.0.0.1:7946","api":"http://10.0.0.1:8080","roles":["bucketer","dispatcher","executor"],"version":"v1.4.0","ready":true,
		"checks":[{"name":"store","ok":true},{"name":"queue","ok":true},{"name":"ring","ok":true},{"name":"clock","ok":true,"message":"unchecked: no other host has a clock to compare with"},
		{"name":"process","ok":true},{"name":"settings","ok":true}],"slots":{"total":1000,"used":212,"waiting":0},"started_at":"2026-11-20T08:12:44.120Z"},
		{"name":"node-2","address":"10.0.0.2:7946","api":"http://10.0.0.2:8080","roles":["bucketer","dispatcher","executor"],"version":"v1.4.0","ready":false,
		"checks":[{"name":"answer","ok":false,"message":"no answer within 1s: it is frozen, cut off from NATS, busy, or of a version that does not know the question"}]}],
		"shards":[{"shard":0,"owner":"node-1","epoch":0,"dispatched":"2026-11-22T01:00:00.000Z","settled":"2026-11-22T00:59:00.000Z","behind_seconds":0}],
		"shards_as_of":"2026-11-22T01:00:00.000Z","regions":[],
		"store":{"ok":true,"hosts":[{"name":"10.0.0.11","up":true},{"name":"10.0.0.12","up":true},{"name":"10.0.0.13","up":false,"message":"no answer within 1s"}]},
		"queue":{"ok":true,"hosts":[{"name":"10.0.0.21","up":true}],"waiting":120,"held":212}}`},
	"Problem": {`{
		"type":"urn:carillon:problem:invalid","title":"The request is not valid","status":422,
		"errors":[{"location":"body.schedule.cron","message":"never fires: no day matches it","value":"0 0 30 2 *"}]}`},
}

// addExamples adds the examples to the document.
func (s documentWriter) addExamples() error {
	for _, item := range s.api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Post, item.Put, item.Patch} {
			if op == nil || op.RequestBody == nil {
				continue
			}
			for _, media := range op.RequestBody.Content {
				for name, text := range requestExamples[op.OperationID] {
					var v any
					if err := json.Unmarshal([]byte(text), &v); err != nil {
						return fmt.Errorf("example %q of %s: %w", name, op.OperationID, err)
					}
					if media.Examples == nil {
						media.Examples = make(map[string]*huma.Example)
					}
					media.Examples[name] = &huma.Example{Value: v}
				}
			}
		}
	}
	schemas := s.api.OpenAPI().Components.Schemas.Map()
	for name, texts := range schemaExamples {
		if schemas[name] == nil {
			return fmt.Errorf("the OpenAPI document has no %s", name)
		}
		for _, text := range texts {
			var v any
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				return fmt.Errorf("example of %s: %w", name, err)
			}
			schemas[name].Examples = append(schemas[name].Examples, v)
		}
	}
	return nil
}
