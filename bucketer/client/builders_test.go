package client_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer/client"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// TestBodies: builders say what the API reads.
func TestBodies(t *testing.T) {
	once := client.NewJob(client.NATS("work.email")).At(noon).Payload(map[string]string{"to": "<a@example.com>"}).
		Priority(client.High).Misfire(client.RunAll, time.Hour)
	often := client.NewJob(client.Script("report", "--fast").Guarantee(client.AtMostOnce).Retry(client.RetryPolicy{MaxAttempts: 1})).
		Name("report").Label("team", "billing").Concurrency(1, client.SkipRun).
		Schedule(client.Every(15 * time.Minute).Anchor(noon).Start(noon).End(noon.AddDate(1, 0, 0)).MaxRuns(100).Jitter(0))
	auth := client.HTTPAuth{Bearer: &client.BearerAuth{Secret: "orders-token"}}
	onEvent := client.NewJob(client.HTTP("https://x.test/", client.Method("PUT"), client.Header("x-a", "b"), client.NoBody(), client.SigningKey("k"), client.Auth(auth)).Timeout(time.Minute)).
		On("file.uploaded", client.Filter("event.region == 'eu'"), client.Delay(5*time.Second))
	follows := client.NewJob(client.Task("load")).Name("load").After("extract", "clean").After("prices").When(client.AllDone).AfterDeadline(6 * time.Hour)
	w := client.NewWorkflow("w").Payload(map[string]any{"day": client.NominalTime()}).Priority(client.Low).Label("team", "data").
		ConcurrencyBy("/day").Concurrency(2, client.Queue).Misfire(client.SkipMissed, 0).Deadline(time.Hour).
		Schedule(client.Cron("30 2 * * *", "Europe/Berlin").SkipGap().Overlap(client.BothOfTwo))
	first := w.Step("first", client.Lambda("f", "eu-central-1", "aws")).
		Payload([]any{client.Input("/day"), client.CurrentRun()}).Priority(client.Critical).Deadline(time.Minute)
	each := w.Step("each", client.Task("t")).After(first).ForEach(client.Items("a", "b"), client.MaxConcurrent(1)).
		Payload(map[string]any{"item": client.Item("/x"), "number": client.Index(), "of": first.Output("/list")})
	w.Step("inputs", client.ChildWorkflow("other")).ForEach(client.Input("/list")).If("size(input.list) > 0")
	w.Step("outputs", client.Task("t")).After(first, each).When(client.AllDone).ForEach(first.Output("/list"))
	w.Step("pause", client.WaitFor(time.Second))
	w.Step("until", client.WaitUntil(noon))
	w.Step("event", client.WaitForEvent("approved", client.Filter("event.ok"), client.WaitDeadline(time.Hour)))
	access := client.AWSAccess{Region: "eu-central-1", Credentials: "aws"}
	rows := []struct {
		name  string
		built any
		want  string
	}{
		{"a one-off job", once, `{"schedule": {"at": "2026-11-21T12:00:00Z"}, "nats": {"subject": "work.email"}, "payload": {"to": "<a@example.com>"},
			"priority": "high", "misfire": {"policy": "run_all", "deadline": "1h0m0s"}}`},
		{"a recurring job", often, `{"name": "report", "schedule": {"every": "15m0s", "anchor": "2026-11-21T12:00:00Z"}, "start": "2026-11-21T12:00:00Z",
			"end": "2027-11-21T12:00:00Z", "max_runs": 100, "jitter": "0s", "concurrency": {"limit": 1, "on_limit": "skip"}, "labels": {"team": "billing"},
			"script": {"command": "report", "args": ["--fast"]}, "guarantee": "at_most_once", "retry": {"max_attempts": 1}}`},
		{
			"a job of several schedules",
			client.NewJob(client.Task("t")).Schedule(client.AnyOf(client.Cron("0 9 * * *", "Europe/Berlin").Exclude("2026-12-25"), client.Every(time.Hour)).MaxRuns(5)),
			`{"schedules": [{"cron": "0 9 * * *", "timezone": "Europe/Berlin", "exclude": ["2026-12-25"]}, {"every": "1h0m0s"}], "max_runs": 5, "task": "t"}`,
		},
		{
			"a job that is not due on dates", client.NewJob(client.Task("t")).Schedule(client.Every(time.Hour).Timezone("Asia/Tokyo").Exclude("2026-12-25", "2026-12-26")),
			`{"schedule": {"every": "1h0m0s", "timezone": "Asia/Tokyo", "exclude": ["2026-12-25", "2026-12-26"]}, "task": "t"}`,
		},
		{"a job on events", onEvent, `{"on": {"event": "file.uploaded", "filter": "event.region == 'eu'", "delay": "5s"}, "timeout": "1m0s",
			"http": {"method": "PUT", "url": "https://x.test/", "headers": {"x-a": "b"}, "body": "none", "signing_key": "k", "auth": {"bearer": {"secret": "orders-token"}}}}`},
		{"a job after others", follows, `{"name": "load", "after": {"jobs": ["extract", "clean", "prices"], "when": "all_done", "deadline": "6h0m0s"}, "task": "load"}`},
		{"a unique job", client.NewJob(client.Task("t")).Unique(time.Minute, "payload/a", "labels"), `{"task": "t", "unique": {"by": ["payload/a", "labels"], "window": "1m0s"}}`},
		{"a unique job by its payload", client.NewJob(client.Task("t")).Unique(time.Minute), `{"task": "t", "unique": {"window": "1m0s"}}`},
		{"a job after another", client.NewJob(client.Task("t")).After("extract"), `{"after": {"jobs": ["extract"]}, "task": "t"}`},
		{"a job after none", client.NewJob(client.Task("t")).After([]string{}...), `{"after": {}, "task": "t"}`}, // which the API refuses
		{"a message to a stream", client.NewJob(client.JetStream(client.JetStreamTarget{Subject: "orders.due", Stream: "ORDERS"})), `{"jetstream": {"subject": "orders.due", "stream": "ORDERS"}}`},
		{"a record", client.NewJob(client.Kafka(client.KafkaTarget{Brokers: []string{"a:1"}, Topic: "t", TLS: &client.KafkaTLS{}})), `{"kafka": {"brokers": ["a:1"], "topic": "t", "tls": {}}}`},
		{"a message to a queue", client.NewJob(client.SQS(client.SQSTarget{QueueURL: "https://x.test/q", AWSAccess: access})), `{"sqs": {"queue_url": "https://x.test/q", "region": "eu-central-1", "credentials": "aws"}}`},
		{"a message to a topic", client.NewJob(client.SNS(client.SNSTarget{TopicARN: "arn:x", Subject: "s", AWSAccess: access})), `{"sns": {"topic_arn": "arn:x", "subject": "s", "region": "eu-central-1", "credentials": "aws"}}`},
		{"an event of EventBridge", client.NewJob(client.EventBridge(client.EventBridgeTarget{Source: "s", DetailType: "d", AWSAccess: access})), `{"eventbridge": {"source": "s", "detail_type": "d", "region": "eu-central-1", "credentials": "aws"}}`},
		{"an execution", client.NewJob(client.StepFunctions(client.StepFunctionsTarget{StateMachine: "arn:x", AWSAccess: access})), `{"step_functions": {"state_machine": "arn:x", "region": "eu-central-1", "credentials": "aws"}}`},
		{"a workflow", w, `{"name": "w", "payload": {"day": {"$run": "/nominal_at"}}, "priority": "low", "labels": {"team": "data"}, "deadline": "1h0m0s",
			"concurrency": {"limit": 2, "on_limit": "queue", "key": "/day"}, "misfire": {"policy": "skip"},
			"schedule": {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "gap": "skip", "overlap_hour": "both"},
			"steps": [
				{"name": "first", "lambda": {"function": "f", "region": "eu-central-1", "credentials": "aws"}, "payload": [{"$input": "/day"}, {"$run": "/id"}], "priority": "critical", "deadline": "1m0s"},
				{"name": "each", "after": ["first"], "task": "t", "for_each": {"items": ["a", "b"], "max_concurrent": 1},
					"payload": {"item": {"$item": "/x"}, "number": {"$index": true}, "of": {"$from": "first", "pointer": "/list"}}},
				{"name": "inputs", "workflow": "other", "for_each": {"input": "/list"}, "if": "size(input.list) > 0"},
				{"name": "outputs", "after": ["first", "each"], "when": "all_done", "task": "t", "for_each": {"from": "first", "pointer": "/list"}},
				{"name": "pause", "wait": {"for": "1s"}},
				{"name": "until", "wait": {"until": "2026-11-21T12:00:00Z"}},
				{"name": "event", "wait": {"event": "approved", "filter": "event.ok", "deadline": "1h0m0s"}}]}`},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			text, err := json.Marshal(row.built)
			if err != nil {
				t.Fatalf("Marshal = %v", err)
			}
			var got, want any
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(row.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFaultsOfBuilders: what would not reach the API as it was said is a fault, and all are told.
func TestFaultsOfBuilders(t *testing.T) {
	w := client.NewWorkflow("other")
	elsewhere := w.Step("elsewhere", client.Task("t"))
	workflow := func(change func(w *client.Workflow)) *client.Workflow {
		w := client.NewWorkflow("w")
		change(w)
		return w
	}
	step := func(change func(s *client.Step)) *client.Workflow {
		return workflow(func(w *client.Workflow) { change(w.Step("s", client.Task("t"))) })
	}
	does := func(work client.StepWork) *client.Workflow {
		return workflow(func(w *client.Workflow) { w.Step("s", work) })
	}
	job := func() *client.Job { return client.NewJob(client.Task("t")) }
	const positive, stated = "must be more than 0s", "must not be empty"
	rows := []struct {
		name  string
		built json.Marshaler
		want  []string // location, message, location, message …
	}{
		{"nothing is wrong", job(), nil},
		{"a job of no work", client.NewJob(nil), []string{"body.task", "must be stated, or a call: the work is nil"}},
		{"a job of no call", client.NewJob((*client.Call)(nil)), []string{"body.http", "must be stated, or another call: it is nil"}},
		{"unique by nothing, for no time", job().Unique(0, "task", ""), []string{"body.unique.window", positive, "body.unique.by", stated}},
		{"a task without a name", client.NewJob(client.Task("")), []string{"body.task", stated}},
		{"a call of nothing", client.NewJob(client.HTTP("").Timeout(0)), []string{"body.http.url", stated, "body.timeout", positive}},
		{"a request to nobody", client.NewJob(client.NATS("")), []string{"body.nats.subject", stated}},
		{"no command", client.NewJob(client.Script("").Guarantee("")), []string{"body.script.command", stated, "body.guarantee", stated}},
		{"no function", client.NewJob(client.Lambda("", "", "")), []string{"body.lambda.function", stated, "body.lambda.region", stated, "body.lambda.credentials", stated}},
		{"no stream", client.NewJob(client.JetStream(client.JetStreamTarget{})), []string{"body.jetstream.subject", stated}},
		{"no topic of Kafka", client.NewJob(client.Kafka(client.KafkaTarget{})), []string{"body.kafka.brokers", stated, "body.kafka.topic", stated}},
		{"no queue", client.NewJob(client.SQS(client.SQSTarget{})), []string{"body.sqs.queue_url", stated, "body.sqs.region", stated, "body.sqs.credentials", stated}},
		{"no topic", client.NewJob(client.SNS(client.SNSTarget{})), []string{"body.sns.topic_arn", stated, "body.sns.region", stated, "body.sns.credentials", stated}},
		{"an event that says nothing", client.NewJob(client.EventBridge(client.EventBridgeTarget{})), []string{
			"body.eventbridge.source", stated, "body.eventbridge.detail_type", stated, "body.eventbridge.region", stated, "body.eventbridge.credentials", stated,
		}},
		{"no state machine", client.NewJob(client.StepFunctions(client.StepFunctionsTarget{})), []string{
			"body.step_functions.state_machine", stated, "body.step_functions.region", stated, "body.step_functions.credentials", stated,
		}},
		{"no instant", job().At(time.Time{}), []string{"body.schedule.at", "must not be the zero time"}},
		{"two schedules", job().At(noon).Schedule(client.Every(time.Hour)), []string{"body.schedule", "is stated twice"}},
		{"several that are none", job().Schedule(client.AnyOf(nil, client.AnyOf(), client.Every(0))), []string{
			"body.schedules[0]", "must be a schedule of Cron or Every", "body.schedules[1]", "must be a schedule of Cron or Every", "body.schedule.every", positive,
		}},
		{"no schedule", job().Schedule(nil), []string{"body.schedule", "must not be nil"}},
		{"no event", job().On(""), []string{"body.on.event", stated}},
		{"two events", job().On("a").On("b"), []string{"body.on", "is stated twice"}},
		{"no filter", job().On("a", client.Filter("")), []string{"body.on.filter", stated}},
		{"jobs before it that end somehow", job().After("a").When("").AfterDeadline(0), []string{"body.after.when", stated, "body.after.deadline", positive}},
		{
			"a schedule that says nothing", job().Schedule(client.Cron("", "").Overlap("").Start(time.Time{}).End(time.Time{}).MaxRuns(0)),
			[]string{
				"body.schedule.cron", stated, "body.schedule.overlap_hour", stated, "body.start", "must not be the zero time", "body.end", "must not be the zero time",
				"body.max_runs", "must be more than 0",
			},
		},
		{"an interval of nothing", job().Schedule(client.Every(-time.Second).Anchor(time.Time{})), []string{"body.schedule.every", positive, "body.schedule.anchor", "must not be the zero time"}},
		{
			"a job that says nothing", job().Name("").Priority("").Concurrency(0, "").ConcurrencyBy("").Misfire("", 0),
			[]string{"body.name", stated, "body.priority", stated, "body.concurrency.limit", "must be more than 0", "body.concurrency.on_limit", stated, "body.concurrency.key", stated, "body.misfire.policy", stated},
		},
		{"a payload that is no JSON", job().Payload(func() {}), []string{"body.payload", "cannot be encoded as JSON: json: unsupported type: func()"}},

		{"a workflow without a name", client.NewWorkflow("").Deadline(0), []string{"body.name", stated, "body.deadline", positive}},
		{"a step without a name", workflow(func(w *client.Workflow) { w.Step("", nil) }), []string{"body.steps[0].name", stated, "body.steps[0].task", "must be stated, or a call: the work is nil"}},
		{
			"a step that says nothing", step(func(s *client.Step) { s.When("").If("").Priority("").Deadline(0).ForEach(nil) }),
			[]string{
				"body.steps[0].when", stated, "body.steps[0].if", stated, "body.steps[0].priority", stated, "body.steps[0].deadline", positive, "body.steps[0].for_each", "must not be nil",
			},
		},
		{"a step after another workflow's", step(func(s *client.Step) { s.After(elsewhere, nil) }), []string{"body.steps[0].after[0]", "must be a step of this workflow", "body.steps[0].after[1]", "must be a step of this workflow"}},
		{"a step after itself", step(func(s *client.Step) { s.After(s) }), []string{"body.steps[0].after[0]", "is the step itself"}},
		{
			"a list of another workflow's step", step(func(s *client.Step) { s.ForEach(elsewhere.Output(""), client.MaxConcurrent(0)) }),
			[]string{"body.steps[0].for_each.from", "must be a step of this workflow", "body.steps[0].for_each.max_concurrent", "must be more than 0"},
		},
		{
			"an item that is no JSON", step(func(s *client.Step) { s.ForEach(client.Items[any](1, func() {})) }),
			[]string{"body.steps[0].for_each.items[1]", "cannot be encoded as JSON: json: unsupported type: func()"},
		},
		{"a wait for nothing", does(client.WaitFor(0)), []string{"body.steps[0].wait.for", positive}},
		{"a wait until never", does(client.WaitUntil(time.Time{})), []string{"body.steps[0].wait.until", "must not be the zero time"}},
		{
			"a wait for no event", does(client.WaitForEvent("", client.Filter(""), client.WaitDeadline(0))),
			[]string{"body.steps[0].wait.event", stated, "body.steps[0].wait.filter", stated, "body.steps[0].wait.deadline", positive},
		},
		{"no child", does(client.ChildWorkflow("")), []string{"body.steps[0].workflow", stated}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			_, err := row.built.MarshalJSON()
			var faults client.Faults
			if errors.As(err, &faults); err != nil && faults == nil {
				t.Fatalf("MarshalJSON = %v, want Faults", err)
			}
			var got []string
			for _, f := range faults {
				got = append(got, f.Location, f.Message)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}
