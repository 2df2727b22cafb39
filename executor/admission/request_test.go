package admission

import (
	"testing"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// What fails together has one circuit: a host, a subject, a function in a region.
func TestTheTargetOfEachKindOfWork(t *testing.T) {
	for want, c := range map[string]struct {
		work    schema.Work
		breaker bool
	}{
		"https://a.test":               {schema.Work{HTTP: &schema.HTTPTarget{URL: "https://A.test/x"}}, true},
		"url slack":                    {schema.Work{HTTP: &schema.HTTPTarget{URLSecret: "slack"}}, true},
		"work.email":                   {schema.Work{NATS: &schema.NATSTarget{Subject: "work.email"}}, true},
		"script report":                {schema.Work{Script: &schema.ScriptTarget{Command: "report"}}, false},
		"lambda eu-central-1 resize:2": {schema.Work{Lambda: &schema.LambdaTarget{Function: "resize:2", Region: "eu-central-1"}}, true},
		"jetstream orders.due":         {schema.Work{JetStream: &schema.JetStreamTarget{Subject: "orders.due"}}, true},
		"sqs https://x.test/1/jobs":    {schema.Work{SQS: &schema.SQSTarget{QueueURL: "https://x.test/1/jobs"}}, true},
		"sns arn:x":                    {schema.Work{SNS: &schema.SNSTarget{TopicARN: "arn:x"}}, true},
		"eventbridge eu-central-1 default": {
			schema.Work{EventBridge: &schema.EventBridgeTarget{AWSAccess: schema.AWSAccess{Region: "eu-central-1"}}}, true,
		},
		"step_functions arn:x": {schema.Work{StepFunctions: &schema.StepFunctionsTarget{StateMachine: "arn:x"}}, true},
		"kafka a.test:9092,b.test:9092": {
			schema.Work{Kafka: &schema.KafkaTarget{Brokers: []string{"B.test:9092", "a.test:9092"}, Topic: "orders"}}, true,
		},
		"": {schema.Work{}, false},
	} {
		r := NewRequest("acme", &c.work, target.Set{})
		if r.target != (targetKey{tenant: "acme", name: want}) || r.hasBreaker != c.breaker {
			t.Errorf("NewRequest(%+v): got %+v, want the target %s", c.work, r, want)
		}
	}
}

func TestHostOf(t *testing.T) {
	for url, want := range map[string]string{
		"http://a.test/x?y#z": "http://a.test", "https://A.test:8443": "https://a.test:8443", "http://a.test?u=http://b.test": "http://a.test", "http://[::1]:80/": "http://[::1]:80", "x": "x", "": "",
	} {
		if got := hostOf(url); got != want {
			t.Errorf("hostOf(%q): got %q, want %q", url, got, want)
		}
	}
}
