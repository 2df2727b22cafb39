package target

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/executor/target/auth"
	"carillon.dev/carillon/schema"
)

// TestMessagesOfAWS: what each service is sent. A message says which run it is of, and where the
// service can take one once it is told by what to know it.
func TestMessagesOfAWS(t *testing.T) {
	type request struct {
		header http.Header
		body   string
	}
	got := make(chan request, 1)
	var answer answering
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- request{r.Header, string(body)}
		status, text := answer(takes, body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	})
	access := accessTo(s.URL)
	send := func(t *testing.T, w schema.Work, as answering, change func(*Call)) request {
		t.Helper()
		answer = as
		c := callTo("")
		c.Work, c.Values = w.InForce(), auth.Values{"aws": {[]byte(credentialsText)}}
		c.Job = schema.MakeJobID(time.UnixMilli(1_790_000_000_000), 7, 42)
		if change != nil {
			change(&c)
		}
		if res := NewAWS(newHTTP(t, HTTPConfig{})).Run(t.Context(), c); res.Outcome != schema.Succeeded {
			t.Fatalf("Run: got %+v %s", res, res.Output)
		}
		r := <-got
		if !strings.HasPrefix(r.header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/") || r.header.Get("X-Amz-Security-Token") != "token-s3cret" {
			t.Errorf("who calls is %v", r.header)
		}
		return r
	}
	one := callTo("")
	run, job := one.Run.String(), schema.MakeJobID(time.UnixMilli(1_790_000_000_000), 7, 42).String()
	facts := map[string]string{"carillon-run-id": run, "carillon-job-id": job, "carillon-attempt": "3", "carillon-fence": "1790000000000042", "idempotency-key": run, "carillon-due-at": "2026-11-21T09:00:00.250Z"}

	for queue, want := range map[string][2]string{"jobs": {"", ""}, "jobs.fifo": {job, run}} {
		r := send(t, schema.Work{SQS: &schema.SQSTarget{QueueURL: s.URL + "/1/" + queue, AWSAccess: access}}, asSQS, nil)
		var sent struct {
			QueueURL    string `json:"QueueUrl"`
			MessageBody string
			Group       string                                  `json:"MessageGroupId"`
			ID          string                                  `json:"MessageDeduplicationId"`
			Attributes  map[string]struct{ StringValue string } `json:"MessageAttributes"`
		}
		if err := json.Unmarshal([]byte(r.body), &sent); err != nil || sent.QueueURL != s.URL+"/1/"+queue || sent.MessageBody != `{"a":1}` || sent.Group != want[0] || sent.ID != want[1] {
			t.Errorf("SQS %s was sent %s", queue, r.body)
		}
		for name, value := range facts {
			if sent.Attributes[name].StringValue != value {
				t.Errorf("SQS: %s = %q, want %q", name, sent.Attributes[name].StringValue, value)
			}
		}
		if len(sent.Attributes) > 10 {
			t.Errorf("SQS was sent %d attributes, and takes 10", len(sent.Attributes))
		}
	}
	r := send(t, schema.Work{SQS: &schema.SQSTarget{QueueURL: s.URL + "/1/jobs.fifo", MessageGroup: "g", AWSAccess: access}}, asSQS, func(c *Call) { c.Payload = nil })
	if !strings.Contains(r.body, `"MessageGroupId":"g"`) || !strings.Contains(r.body, `"MessageBody":"null"`) {
		t.Errorf("SQS was sent %s, want the group g and null", r.body)
	}

	for topic, want := range map[string][2]string{"jobs": {"", ""}, "jobs.fifo": {job, run}} {
		r := send(t, schema.Work{SNS: &schema.SNSTarget{TopicARN: "arn:aws:sns:eu-central-1:123456789012:" + topic, Subject: "It is time", AWSAccess: access}}, asSNS, nil)
		form, err := url.ParseQuery(r.body)
		if err != nil || form.Get("Message") != `{"a":1}` || form.Get("Subject") != "It is time" || form.Get("MessageGroupId") != want[0] || form.Get("MessageDeduplicationId") != want[1] ||
			!strings.Contains(r.body, "carillon-run-id") || !strings.Contains(r.body, run) {
			t.Errorf("SNS %s was sent %v, %v", topic, form, err)
		}
	}

	r = send(t, schema.Work{EventBridge: &schema.EventBridgeTarget{Source: "billing", DetailType: "due", AWSAccess: access}}, asEventBridge, func(c *Call) {
		c.Payload = []byte(`{"n":12345678901234567890,"carillon":"mine"}`)
	})
	var sent struct {
		Entries []struct{ Detail, EventBusName, Source, DetailType string }
	}
	if err := json.Unmarshal([]byte(r.body), &sent); err != nil || len(sent.Entries) != 1 || sent.Entries[0].EventBusName != "default" || sent.Entries[0].Source != "billing" || sent.Entries[0].DetailType != "due" {
		t.Fatalf("EventBridge was sent %s", r.body)
	}
	var detail struct {
		N        json.RawMessage
		Carillon map[string]any
	}
	if err := json.Unmarshal([]byte(sent.Entries[0].Detail), &detail); err != nil || string(detail.N) != "12345678901234567890" || detail.Carillon["run_id"] != run || detail.Carillon["attempt"] != 3. {
		t.Errorf("the detail is %s, %v", sent.Entries[0].Detail, err)
	}

	machine := schema.Work{StepFunctions: &schema.StepFunctionsTarget{StateMachine: "arn:aws:states:eu-central-1:123456789012:stateMachine:jobs", AWSAccess: access}}
	for payload, want := range map[string]string{`{"a":1}`: `{"a":1}`, "": "{}"} {
		r := send(t, machine, asStepFunctions, func(c *Call) {
			if c.Payload = nil; payload != "" {
				c.Payload = []byte(payload)
			}
		})
		var sent struct{ Name, Input, StateMachineArn string }
		if err := json.Unmarshal([]byte(r.body), &sent); err != nil || sent.Name != run || sent.Input != want || sent.StateMachineArn != machine.StepFunctions.StateMachine {
			t.Errorf("Step Functions was sent %s, want the run's id as the name, and %s", r.body, want)
		}
	}
}

// TestMessagesThatAWSHasOrRefuses: answers that only one service gives.
func TestMessagesThatAWSHasOrRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		work    func(schema.AWSAccess) schema.Work
		payload string
		status  int
		answer  string
		want    Result
	}{
		"an execution that has started before": {
			func(a schema.AWSAccess) schema.Work {
				return schema.Work{StepFunctions: &schema.StepFunctionsTarget{StateMachine: "arn:aws:states:eu-central-1:123456789012:stateMachine:jobs", AWSAccess: a}}
			}, `{}`, 400, `{"__type":"com.amazonaws.swf.service.v2.model#ExecutionAlreadyExists","message":"x"}`,
			Result{Outcome: schema.Succeeded, Output: []byte(`"already_started":true}`)},
		},
		"a state machine that is not there": {
			func(a schema.AWSAccess) schema.Work {
				return schema.Work{StepFunctions: &schema.StepFunctionsTarget{StateMachine: "arn:aws:states:eu-central-1:123456789012:stateMachine:jobs", AWSAccess: a}}
			}, `{}`, 400, `{"__type":"com.amazonaws.swf.service.v2.model#StateMachineDoesNotExist","message":"x"}`,
			Result{Outcome: schema.Failed, Status: 400, Final: true, Error: "answered 400 Bad Request: StateMachineDoesNotExist"},
		},
		"a queue that is not there": {
			func(a schema.AWSAccess) schema.Work {
				return schema.Work{SQS: &schema.SQSTarget{QueueURL: a.Endpoint + "/1/jobs", AWSAccess: a}}
			}, `{}`, 400, `{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"x"}`,
			Result{Outcome: schema.Failed, Status: 400, Final: true, Error: "answered 400 Bad Request: QueueDoesNotExist"},
		},
		"a detail that is no object": {
			func(a schema.AWSAccess) schema.Work {
				return schema.Work{EventBridge: &schema.EventBridgeTarget{Source: "s", DetailType: "d", AWSAccess: a}}
			}, `[1]`, 200, ``,
			Result{Outcome: schema.Failed, Final: true, Uncalled: true, Error: "not called: the payload is no JSON object, which the detail of an event must be"},
		},
		"an event that is throttled": {
			func(a schema.AWSAccess) schema.Work {
				return schema.Work{EventBridge: &schema.EventBridgeTarget{Source: "s", DetailType: "d", AWSAccess: a}}
			}, `{}`, 200, `{"FailedEntryCount":1,"Entries":[{"ErrorCode":"ThrottlingException","ErrorMessage":"x"}]}`,
			Result{Outcome: schema.Failed, Status: 200, Ailing: true, Error: "the message was refused: ThrottlingException"},
		},
		"a bus that answers of no event": {
			func(a schema.AWSAccess) schema.Work {
				return schema.Work{EventBridge: &schema.EventBridgeTarget{Source: "s", DetailType: "d", AWSAccess: a}}
			}, `{}`, 200, `{"FailedEntryCount":0,"Entries":[]}`,
			Result{Outcome: schema.Failed, Status: 200, Final: true, Error: "the message was refused"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, asLambda(c.status, nil, c.answer))
			call := callTo("")
			call.Work, call.Values, call.Payload = c.work(accessTo(s.URL)).InForce(), auth.Values{"aws": {[]byte(credentialsText)}}, []byte(c.payload)
			res := NewAWS(newHTTP(t, HTTPConfig{})).Run(t.Context(), call)
			if res.Outcome != c.want.Outcome || res.Status != c.want.Status || res.Error != c.want.Error || res.Final != c.want.Final || res.Ailing != c.want.Ailing || res.Uncalled != c.want.Uncalled ||
				!strings.HasSuffix(string(res.Output), string(c.want.Output)) {
				t.Errorf("Run: got %+v %s\nwant %+v %s", res, res.Output, c.want, c.want.Output)
			}
		})
	}
}
