package target

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/executor/target/auth"
	"carillon.dev/carillon/schema"
)

// motoDir is where the environment of moto is described.
const motoDir = "../../.ci/moto"

// motoPatience bounds how long moto may take to be installed and to start: both wait for other
// programs.
const motoPatience = 3 * time.Minute

// motoServer is a moto server whose authorisation is on, and what it knows of.
type motoServer struct {
	url              string
	Caller, Stranger keyPair
	Queue            string
	FIFOQueue        string `json:"fifo_queue"`
	Topic            string
	FIFOTopic        string `json:"fifo_topic"`
	StateMachine     string `json:"state_machine"`
	Heard            string // the queue that the topic fills
	HeardFIFO        string `json:"heard_fifo"`
}

type keyPair struct {
	ID     string `json:"access_key_id"`
	Secret string `json:"secret_access_key"`
}

// startMoto starts moto, which stands in for AWS, and checks signatures and policies as that does.
// Where there is no Python the test is left out, and says so; in CI that is a failure.
func startMoto(t *testing.T) *motoServer {
	t.Helper()
	missing := func(why string, args ...any) {
		t.Helper()
		if os.Getenv("CI") == "true" {
			t.Fatalf(why, args...)
		}
		t.Skipf("CALLS OF AWS ARE NOT TESTED: "+why, args...)
	}
	if _, err := exec.LookPath("python3"); err != nil {
		missing("there is no python3")
	}
	ctx, cancel := context.WithTimeout(t.Context(), motoPatience)
	t.Cleanup(cancel)
	var said bytes.Buffer
	install := exec.CommandContext(ctx, "bash", filepath.Join(motoDir, "env"))
	install.Stderr = &said
	env, err := install.Output()
	if err != nil {
		missing("moto cannot be installed: %v\n%s", err, said.Bytes())
	}
	bin := filepath.Join(strings.TrimSpace(string(env)), "bin")
	server := exec.CommandContext(ctx, filepath.Join(bin, "moto_server"), "-H", "127.0.0.1", "-p", "0") // #nosec G204 -- of this test
	// What prepare.py does is done before signatures are checked.
	server.Env = append(os.Environ(), "INITIAL_NO_AUTH_ACTION_COUNT=1000000", "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1")
	out, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1000)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for s := bufio.NewScanner(out); s.Scan(); {
			select {
			case lines <- s.Text():
			default:
			}
		}
	}()
	t.Cleanup(func() {
		_ = server.Process.Kill()
		<-drained
		_ = server.Wait()
	})
	listens := regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
	a := new(motoServer)
	for a.url == "" {
		select {
		case line := <-lines:
			a.url = listens.FindString(line)
		case <-drained:
			t.Fatal("moto ended before it listened")
		case <-ctx.Done():
			t.Fatal("moto does not listen")
		}
	}
	prepare := exec.CommandContext(ctx, filepath.Join(bin, "python"), filepath.Join(motoDir, "prepare.py"), a.url) // #nosec G204 -- of this test
	prepare.Stderr = t.Output()
	text, err := prepare.Output()
	if err != nil || json.Unmarshal(text, a) != nil {
		t.Fatalf("prepare moto: %v, %s", err, text)
	}
	return a
}

// TestCallsThatAWSWouldTake calls services of AWS as moto has them: what is signed is let in, and
// what is signed by another key, or by somebody who may not, is refused.
func TestCallsThatAWSWouldTake(t *testing.T) {
	a := startMoto(t)
	h := newHTTP(t, HTTPConfig{})
	l, messages := NewLambda(h), NewAWS(h)
	wrong := keyPair{a.Caller.ID, strings.Repeat("x", 40)}
	unknown := keyPair{"AKIAIOSFODNN7EXAMPLE", a.Caller.Secret}
	who := map[string]keyPair{"the caller": a.Caller, "a wrong key": wrong, "an unknown key": unknown, "a stranger": a.Stranger}

	call := func(method, service, url string, headers map[string]string, payload string, k keyPair) Call {
		c := callTo(url)
		c.Work.HTTP.Method, c.Work.HTTP.Headers, c.Payload = method, headers, []byte(payload)
		c.Work.HTTP.Auth = &schema.HTTPAuth{SigV4: &schema.SigV4Auth{Region: "eu-central-1", Service: service, AccessKeyID: k.ID, Secret: "key"}}
		c.Values = auth.Values{"key": {[]byte(k.Secret)}}
		if payload == "" {
			c.Payload = nil
		}
		return c
	}
	send := map[string]string{"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "AmazonSQS.SendMessage"}
	message := fmt.Sprintf(`{"QueueUrl":%q,"MessageBody":"it is time"}`, a.Queue)
	object := a.url + "/jobs/runs%202026/a+b%C3%BC~%2Fc.json"
	function := func(name, invocation string) func(k keyPair) Call {
		return func(k keyPair) Call {
			c := invoke(a.url, invocation)
			text, err := json.Marshal(k)
			if err != nil {
				t.Fatal(err)
			}
			c.Work.Lambda.Function, c.Values = name, auth.Values{"aws": {text}}
			return c
		}
	}
	to := func(w schema.Work) func(k keyPair) Call {
		return func(k keyPair) Call {
			text, err := json.Marshal(k)
			if err != nil {
				t.Fatal(err)
			}
			c := callTo("")
			c.Work, c.Values = w.InForce(), auth.Values{"aws": {text}}
			return c
		}
	}
	access := schema.AWSAccess{Region: "eu-central-1", Credentials: "aws", Endpoint: a.url}
	queueOf := func(url string) schema.Work {
		return schema.Work{SQS: &schema.SQSTarget{QueueURL: url, AWSAccess: access}}
	}
	topic := func(arn string) schema.Work {
		return schema.Work{SNS: &schema.SNSTarget{TopicARN: arn, AWSAccess: access}}
	}
	event := schema.Work{EventBridge: &schema.EventBridgeTarget{Bus: "jobs", Source: "billing", DetailType: "invoice-due", AWSAccess: access}}
	execution := schema.Work{StepFunctions: &schema.StepFunctionsTarget{StateMachine: a.StateMachine, AWSAccess: access}}
	for _, c := range []struct {
		name string
		call func(k keyPair) Call
		want string // in the output of the caller's call
	}{
		{"send a message", func(k keyPair) Call { return call("POST", "sqs", a.url+"/", send, message, k) }, `"MessageId"`},
		{"put an object", func(k keyPair) Call { return call("PUT", "s3", object, nil, `{"state":"done"}`, k) }, ""},
		{"get an object", func(k keyPair) Call { return call("GET", "s3", object+"?b=2&a=1%201&x", nil, "", k) }, `{"state":"done"}`},
		{"invoke a function", function("resize", "sync"), `{"a":1}`}, // moto runs none: it says back what it is sent
		{"invoke it and do not wait", function("resize", "async"), ""},
		{"a message to a queue", to(queueOf(a.Queue)), `{"message_id":"`},
		{"a message to a FIFO queue", to(queueOf(a.FIFOQueue)), `"sequence_number":"`},
		{"a message to a FIFO queue again", to(queueOf(a.FIFOQueue)), `{"message_id":"`},
		{"a message to a topic", to(topic(a.Topic)), `{"message_id":"`},
		{"a message to a FIFO topic", to(topic(a.FIFOTopic)), `{"message_id":"`},
		{"a message to a FIFO topic again", to(topic(a.FIFOTopic)), `{"message_id":"`},
		{"an event", to(event), `{"event_id":"`},
		{"an execution", to(execution), `{"execution_arn":"arn:aws:states:eu-central-1:`},
		{"an execution again", to(execution), `"name":"`},
	} {
		for name, k := range who {
			t.Run(c.name+" as "+name, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), motoPatience, ErrTimeout)
				defer cancel()
				attempt := c.call(k)
				var res Result
				switch {
				case attempt.Work.Lambda != nil:
					res = l.Run(ctx, attempt)
				case attempt.Work.AWS() != nil:
					res = messages.Run(ctx, attempt)
				default:
					res = h.Run(ctx, attempt)
				}
				if strings.Contains(res.Error+string(res.Output), k.Secret) {
					t.Errorf("Run: got %+v %s, which holds the key", res, res.Output)
				}
				switch {
				case name == "the caller" && (res.Outcome != schema.Succeeded || !strings.Contains(string(res.Output), c.want)):
					t.Errorf("Run: got %+v %s, want a success with %q", res, res.Output, c.want)
				case name != "the caller" && (res.Outcome != schema.Failed || res.Status != 403 || !res.Final):
					t.Errorf("Run: got %+v %s, want that it is refused", res, res.Output)
				}
			})
		}
	}
	// Whatever takes a message once has it once, and others twice: the caller sent each so often.
	for queue, want := range map[string]int{a.FIFOQueue: 1, a.Heard: 1, a.HeardFIFO: 1} {
		ask := map[string]string{"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "AmazonSQS.GetQueueAttributes"}
		of := fmt.Sprintf(`{"QueueUrl":%q,"AttributeNames":["ApproximateNumberOfMessages"]}`, queue)
		res := h.Run(t.Context(), call("POST", "sqs", a.url+"/", ask, of, a.Caller))
		if !strings.Contains(string(res.Output), fmt.Sprintf(`"ApproximateNumberOfMessages":"%d"`, want)) && !strings.Contains(string(res.Output), fmt.Sprintf(`"ApproximateNumberOfMessages": "%d"`, want)) {
			t.Errorf("the queue %s has %s %s, want %d messages", queue, res.Error, res.Output, want)
		}
	}
}
