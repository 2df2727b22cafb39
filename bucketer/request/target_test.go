package request

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/schema"
)

const (
	ofAWS   = `"region":"eu-central-1","credentials":"aws"`
	aTopic  = `"topic_arn":"arn:aws:sns:eu-central-1:123456789012:jobs"`
	aState  = `"state_machine":"arn:aws:states:eu-central-1:123456789012:stateMachine:jobs"`
	anEvent = `"source":"billing","detail_type":"due"`
)

func TestDecodeReadsMessages(t *testing.T) {
	access := schema.AWSAccess{Region: "eu-central-1", Credentials: "aws"}
	elsewhere := schema.AWSAccess{Region: "cn-north-1", Credentials: "aws", Endpoint: "https://vpce.test/x"}
	aws := []string{"aws"}
	for body, c := range map[string]struct {
		want    schema.Work
		secrets []string
		to      string
	}{
		`"jetstream":{"subject":"orders.due"}`:                   {schema.Work{JetStream: &schema.JetStreamTarget{Subject: "orders.due"}}, nil, "jetstream orders.due"},
		`"jetstream":{"subject":"orders.due","stream":"ORDERS"}`: {schema.Work{JetStream: &schema.JetStreamTarget{Subject: "orders.due", Stream: "ORDERS"}}, nil, "jetstream orders.due"},
		`"sqs":{"queue_url":"https://sqs.eu-central-1.amazonaws.com/123456789012/jobs",` + ofAWS + `}`: {
			schema.Work{SQS: &schema.SQSTarget{QueueURL: "https://sqs.eu-central-1.amazonaws.com/123456789012/jobs", AWSAccess: access}}, aws, "sqs https://sqs.eu-central-1.amazonaws.com/123456789012/jobs",
		},
		`"sqs":{"queue_url":"http://x.test/jobs.fifo","message_group":"g","region":"cn-north-1","credentials":"aws","endpoint":"https://vpce.test/x"}`: {
			schema.Work{SQS: &schema.SQSTarget{QueueURL: "http://x.test/jobs.fifo", MessageGroup: "g", AWSAccess: elsewhere}}, aws, "sqs http://x.test/jobs.fifo",
		},
		`"sns":{` + aTopic + `,` + ofAWS + `}`: {schema.Work{SNS: &schema.SNSTarget{TopicARN: "arn:aws:sns:eu-central-1:123456789012:jobs", AWSAccess: access}}, aws, "sns arn:aws:sns:eu-central-1:123456789012:jobs"},
		`"sns":{"topic_arn":"arn:aws-cn:sns:cn-north-1:123456789012:jobs.fifo","subject":"It is time!","message_group":"g","region":"cn-north-1","credentials":"aws","endpoint":"https://vpce.test/x"}`: {
			schema.Work{SNS: &schema.SNSTarget{TopicARN: "arn:aws-cn:sns:cn-north-1:123456789012:jobs.fifo", Subject: "It is time!", MessageGroup: "g", AWSAccess: elsewhere}}, aws, "sns arn:aws-cn:sns:cn-north-1:123456789012:jobs.fifo",
		},
		`"eventbridge":{` + anEvent + `,` + ofAWS + `}`: {schema.Work{EventBridge: &schema.EventBridgeTarget{Source: "billing", DetailType: "due", AWSAccess: access}}, aws, "eventbridge default"},
		`"eventbridge":{"bus":"arn:aws:events:eu-central-1:123456789012:event-bus/jobs",` + anEvent + `,` + ofAWS + `}`: {
			schema.Work{EventBridge: &schema.EventBridgeTarget{Bus: "arn:aws:events:eu-central-1:123456789012:event-bus/jobs", Source: "billing", DetailType: "due", AWSAccess: access}},
			aws,
			"eventbridge arn:aws:events:eu-central-1:123456789012:event-bus/jobs",
		},
		`"step_functions":{"state_machine":"arn:aws:states:eu-central-1:123456789012:stateMachine:jobs:live",` + ofAWS + `}`: {
			schema.Work{StepFunctions: &schema.StepFunctionsTarget{StateMachine: "arn:aws:states:eu-central-1:123456789012:stateMachine:jobs:live", AWSAccess: access}},
			aws,
			"step_functions arn:aws:states:eu-central-1:123456789012:stateMachine:jobs:live",
		},
		`"kafka":{"brokers":["a.test:9092"],"topic":"orders.due"}`: {schema.Work{Kafka: &schema.KafkaTarget{Brokers: []string{"a.test:9092"}, Topic: "orders.due"}}, nil, "kafka orders.due"},
		`"kafka":{"brokers":["a.test:9092","[::1]:9093"],"topic":"t","key":"k","headers":{"x-team":"billing"},"tls":{"ca_secret":"ca","certificate_secret":"crt","key_secret":"key"},
			"sasl":{"mechanism":"plain","username":"u","password_secret":"pw"}}`: {
			schema.Work{Kafka: &schema.KafkaTarget{
				Brokers: []string{"a.test:9092", "[::1]:9093"}, Topic: "t", Key: "k", Headers: map[string]string{"x-team": "billing"},
				TLS:  &schema.KafkaTLS{CASecret: "ca", CertificateSecret: "crt", KeySecret: "key"},
				SASL: &schema.KafkaSASL{Mechanism: "plain", Username: "u", PasswordSecret: "pw"},
			}}, []string{"ca", "crt", "key", "pw"}, "kafka t",
		},
		`"kafka":{"brokers":["a.test:9092"],"topic":"t","sasl":{"mechanism":"scram-sha-512","username":"u","password_secret":"pw"}}`: {
			schema.Work{Kafka: &schema.KafkaTarget{Brokers: []string{"a.test:9092"}, Topic: "t", SASL: &schema.KafkaSASL{Mechanism: "scram-sha-512", Username: "u", PasswordSecret: "pw"}}}, []string{"pw"}, "kafka t",
		},
	} {
		task, err := new(Decoder).Task("acme", "t", []byte(`{`+body+`}`))
		if err != nil {
			t.Errorf("Task of %s: %v", body, err)
			continue
		}
		w := task.Work
		kind, to := w.Message()
		if diff := cmp.Diff(c.want, w); diff != "" || !slices.Equal(w.Secrets(), c.secrets) || kind+" "+to != c.to {
			t.Errorf("%s needs %q and goes to %s %s, want %q and %s (-want +got):\n%s", body, w.Secrets(), kind, to, c.secrets, c.to, diff)
		}
		if job, _, err := new(Decoder).Job("acme", []byte(`{`+body+`}`), testNow); err != nil || cmp.Diff(&c.want, job.Work) != "" {
			t.Errorf("Job of %s: %v, %v", body, job.Work, err)
		}
	}
}

func TestDecodeRefusesMessages(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want []string
	}{
		"two":                      {`{"jetstream":{"subject":"a"},"sqs":{"queue_url":"https://x.test/q",` + ofAWS + `}}`, []string{"body must have only one of http, nats"}},
		"beside a task":            {`{"task":"t","jetstream":{"subject":"a"}}`, []string{"body must have exactly one of task, http"}},
		"jetstream as text":        {`{"jetstream":"a"}`, []string{"body.jetstream must be an object"}},
		"jetstream of nothing":     {`{"jetstream":{}}`, []string{"body.jetstream.subject is missing"}},
		"a subject of Carillon":    {`{"jetstream":{"subject":"carillon.run"}}`, []string{"body.jetstream.subject must not start with"}},
		"a subject of JetStream":   {`{"jetstream":{"subject":"$JS.API.STREAM.DELETE.X"}}`, []string{"body.jetstream.subject must not start with"}},
		"a stream with a wildcard": {`{"jetstream":{"subject":"a","stream":"a.*"}}`, []string{"body.jetstream.stream must be 1 to 255"}},
		"a field of none":          {`{"jetstream":{"subject":"a","ack":true}}`, []string{"body.jetstream.ack is not a field of jetstream"}},
		"sqs of nothing":           {`{"sqs":{}}`, []string{"body.sqs.queue_url is missing", "body.sqs.region is missing", "body.sqs.credentials is missing"}},
		"a queue's name":           {`{"sqs":{"queue_url":"jobs",` + ofAWS + `}}`, []string{"body.sqs.queue_url must be an absolute http or https URL"}},
		"a queue's URL, signed":    {`{"sqs":{"queue_url":"https://x.test/q?X-Amz-Signature=s3cret",` + ofAWS + `}}`, []string{"body.sqs.queue_url must be a URL without a query"}},
		"a host":                   {`{"sqs":{"queue_url":"https://x.test/",` + ofAWS + `}}`, []string{"body.sqs.queue_url must end in the name of a queue"}},
		"a long URL":               {`{"sqs":{"queue_url":"https://x.test/` + strings.Repeat("x/", 250) + `q",` + ofAWS + `}}`, []string{"body.sqs.queue_url must be at most 512 bytes"}},
		"a group with a space":     {`{"sqs":{"queue_url":"https://x.test/q","message_group":"a b",` + ofAWS + `}}`, []string{"body.sqs.message_group must be 1 to 128"}},
		"credentials inline":       {`{"sqs":{"queue_url":"https://x.test/q","region":"eu-central-1","credentials":{"secret_access_key":"s3cret"}}}`, []string{"body.sqs.credentials must be a string"}},
		"an endpoint":              {`{"sqs":{"queue_url":"https://x.test/q",` + ofAWS + `,"endpoint":"ftp://x"}}`, []string{"body.sqs.endpoint must be an absolute"}},
		"sns of nothing":           {`{"sns":{}}`, []string{"body.sns.topic_arn is missing", "body.sns.region is missing", "body.sns.credentials is missing"}},
		"a topic's name":           {`{"sns":{"topic_arn":"jobs",` + ofAWS + `}}`, []string{"body.sns.topic_arn must be the ARN of a topic"}},
		"a queue as a topic":       {`{"sns":{"topic_arn":"arn:aws:sqs:eu-central-1:123456789012:jobs",` + ofAWS + `}}`, []string{"body.sns.topic_arn must be the ARN of a topic"}},
		"a subscription":           {`{"sns":{"topic_arn":"arn:aws:sns:eu-central-1:123456789012:jobs:0d1e",` + ofAWS + `}}`, []string{"body.sns.topic_arn must be the ARN of a topic"}},
		"a topic of another place": {`{"sns":{` + aTopic + `,"region":"us-east-1","credentials":"aws"}}`, []string{"body.sns.topic_arn is not of the region that is stated"}},
		"two lines":                {`{"sns":{` + aTopic + `,"subject":"a\nb",` + ofAWS + `}}`, []string{"body.sns.subject must be 1 to 100"}},
		"eventbridge of nothing":   {`{"eventbridge":{}}`, []string{"body.eventbridge.source is missing", "body.eventbridge.detail_type is missing", "body.eventbridge.region is missing", "body.eventbridge.credentials is missing"}},
		"an event of AWS":          {`{"eventbridge":{"source":"aws.ec2","detail_type":"d",` + ofAWS + `}}`, []string{`body.eventbridge.source must not start with "aws."`}},
		"no object for an event":   {`{"eventbridge":{` + anEvent + `,` + ofAWS + `},"payload":[1]}`, []string{"body.payload must be an object"}},
		"a bus":                    {`{"eventbridge":{"bus":"a b",` + anEvent + `,` + ofAWS + `}}`, []string{"body.eventbridge.bus must be the name of an event bus"}},
		"a bus of another service": {`{"eventbridge":{"bus":"arn:aws:sns:eu-central-1:123456789012:jobs",` + anEvent + `,` + ofAWS + `}}`, []string{"body.eventbridge.bus must be the name of an event bus"}},
		"a bus of another place":   {`{"eventbridge":{"bus":"arn:aws:events:us-east-1:123456789012:event-bus/jobs",` + anEvent + `,` + ofAWS + `}}`, []string{"body.eventbridge.bus is not of the region"}},
		"a long detail type":       {`{"eventbridge":{"source":"s","detail_type":"` + strings.Repeat("d", 129) + `",` + ofAWS + `}}`, []string{"body.eventbridge.detail_type must be 1 to 128"}},
		"step_functions, nothing":  {`{"step_functions":{}}`, []string{"body.step_functions.state_machine is missing", "body.step_functions.region is missing", "body.step_functions.credentials is missing"}},
		"an execution":             {`{"step_functions":{"state_machine":"arn:aws:states:eu-central-1:123456789012:execution:jobs:x",` + ofAWS + `}}`, []string{"body.step_functions.state_machine must be the ARN of a state machine"}},
		"a machine, elsewhere":     {`{"step_functions":{` + aState + `,"region":"us-east-1","credentials":"aws"}}`, []string{"body.step_functions.state_machine is not of the region"}},
		"kafka of nothing":         {`{"kafka":{}}`, []string{"body.kafka.brokers is missing", "body.kafka.topic is missing"}},
		"no broker":                {`{"kafka":{"brokers":[],"topic":"t"}}`, []string{"body.kafka.brokers must not be empty"}},
		"a broker as text":         {`{"kafka":{"brokers":"a:9092","topic":"t"}}`, []string{"body.kafka.brokers must be an array"}},
		"brokers of no form":       {`{"kafka":{"brokers":["a","a:0","http://a:1","u:p@a:1"],"topic":"t"}}`, []string{"body.kafka.brokers[0] must be a host and a port", "body.kafka.brokers[1] must be", "body.kafka.brokers[2] must be", "body.kafka.brokers[3] must be"}},
		"many brokers":             {`{"kafka":{"brokers":[` + strings.Repeat(`"a:1",`, 8) + `"a:1"],"topic":"t"}}`, []string{"body.kafka.brokers must be at most 8"}},
		"a topic with blanks":      {`{"kafka":{"brokers":["a:1"],"topic":"a b"}}`, []string{"body.kafka.topic must be 1 to 249"}},
		"a topic of Kafka":         {`{"kafka":{"brokers":["a:1"],"topic":"__consumer_offsets"}}`, []string{"body.kafka.topic must not start with"}},
		"headers of ours":          {`{"kafka":{"brokers":["a:1"],"topic":"t","headers":{"carillon-run-id":"s3cret"}}}`, []string{"body.kafka.headers.carillon-run-id is set by Carillon"}},
		"half a certificate":       {`{"kafka":{"brokers":["a:1"],"topic":"t","tls":{"key_secret":"k"}}}`, []string{"body.kafka.tls must have both or none"}},
		"a password, plainly":      {`{"kafka":{"brokers":["a:1"],"topic":"t","sasl":{"mechanism":"plain","username":"u","password_secret":"pw"}}}`, []string{"body.kafka.sasl sends a password for everybody to read"}},
		"a password inline":        {`{"kafka":{"brokers":["a:1"],"topic":"t","sasl":{"mechanism":"gssapi","username":"","password":"s3cret"}}}`, []string{"body.kafka.sasl.mechanism must be one of", "body.kafka.sasl.username must be", "body.kafka.sasl.password is not a field of sasl", "body.kafka.sasl.password_secret is missing"}},
		"everything at once": {
			`{"sns":{"topic_arn":5,"subject":"","message_group":"","region":"EU","credentials":"A B","endpoint":"x","delay":5}}`,
			[]string{
				"body.sns.topic_arn must be a string", "body.sns.subject must be", "body.sns.message_group must be", "body.sns.region must be 1 to 63", "body.sns.credentials must be the name of a secret",
				"body.sns.endpoint must be an absolute", "body.sns.delay is not a field of sns",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := new(Decoder).Job("acme", []byte(c.body), testNow)
			checkFaults(t, err, c.want)
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the faults say a secret: %v", err)
			}
		})
	}
}
