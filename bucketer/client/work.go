package client

import (
	"time"
)

// Work is what a run of a job does: what Task returns, and HTTP and the other functions that return
// a Call.
type Work interface {
	StepWork
	runsAsJob()
}

// StepWork is what a step of a workflow does: Work, what WaitFor, WaitUntil and WaitForEvent
// return, or ChildWorkflow.
type StepWork interface {
	fill(w *workBody, n *notes)
}

// workBody is work in a request.
type workBody struct {
	Task string `json:"task,omitempty"`
	Target
	Wait     *waitBody `json:"wait,omitempty"`
	Workflow string    `json:"workflow,omitempty"`
}

type waitBody struct {
	For      Duration `json:"for,omitempty"`
	Until    string   `json:"until,omitempty"`
	Event    string   `json:"event,omitempty"`
	Filter   string   `json:"filter,omitempty"`
	Deadline Duration `json:"deadline,omitempty"`
}

// fillWork fills in work, which may be nil.
func fillWork(w *workBody, work StepWork, n *notes) {
	if work == nil {
		n.fault("task", "must be stated, or a call: the work is nil")
		return
	}
	work.fill(w, n)
}

type task string

// Task returns the work of a task, which knows its own time-out, retries and guarantee.
func Task(name string) Work { return task(name) }

func (t task) fill(w *workBody, n *notes) { w.Task = n.text("task", string(t)) }
func (t task) runsAsJob()                 {}

// Call is a call that a job, a step or a task makes. HTTP, NATS, Script, Lambda, JetStream,
// SQS, SNS, EventBridge, StepFunctions and Kafka make one.
type Call struct {
	notes
	work Target
}

func (c *Call) fill(w *workBody, n *notes) {
	if c == nil {
		n.fault("http", "must be stated, or another call: it is nil")
		return
	}
	w.Target = c.work
	n.take("", &c.notes)
}

func (c *Call) runsAsJob() {}

// HTTPOption says more about an HTTP call.
type HTTPOption func(*HTTPTarget)

// Method states the method; the default is POST.
func Method(name string) HTTPOption { return func(h *HTTPTarget) { h.Method = name } }

// Header adds a header. Its value is no place for a secret: see Auth.
func Header(name, value string) HTTPOption {
	return func(h *HTTPTarget) {
		if h.Headers == nil {
			h.Headers = make(map[string]string)
		}
		h.Headers[name] = value
	}
}

// NoBody has the payload not sent.
func NoBody() HTTPOption { return func(h *HTTPTarget) { h.Body = "none" } }

// Auth says how the call shows who makes it, by names of secrets.
func Auth(a HTTPAuth) HTTPOption { return func(h *HTTPTarget) { h.Auth = &a } }

// SigningKey names the key by which the call is signed; the default is the tenant's, if it has one.
func SigningKey(name string) HTTPOption { return func(h *HTTPTarget) { h.SigningKey = name } }

// HTTP returns an HTTP call, whose body is the payload. It succeeds with a 2xx answer.
func HTTP(url string, options ...HTTPOption) *Call {
	c, h := new(Call), new(HTTPTarget)
	h.URL = c.text("http.url", url)
	for _, o := range options {
		o(h)
	}
	c.work.HTTP = h
	return c
}

// NATS returns a request on a NATS subject, which a worker answers.
func NATS(subject string) *Call {
	c := new(Call)
	c.work.NATS = &NATSTarget{Subject: c.text("nats.subject", subject)}
	return c
}

// Script returns a command of the operator's allow list.
func Script(command string, args ...string) *Call {
	c := new(Call)
	c.work.Script = &ScriptTarget{Command: c.text("script.command", command), Args: args}
	return c
}

// Lambda returns a call of a function of AWS Lambda. credentials names a secret.
func Lambda(function, region, credentials string) *Call {
	c := new(Call)
	c.work.Lambda = &LambdaTarget{
		Function: c.text("lambda.function", function), Region: c.text("lambda.region", region), Credentials: c.text("lambda.credentials", credentials),
	}
	return c
}

// JetStream returns a message to a stream of NATS JetStream.
func JetStream(t JetStreamTarget) *Call {
	c := new(Call)
	c.text("jetstream.subject", t.Subject)
	c.work.JetStream = &t
	return c
}

// SQS returns a message to a queue of AWS SQS.
func SQS(t SQSTarget) *Call {
	c := new(Call)
	c.text("sqs.queue_url", t.QueueURL)
	c.access("sqs", t.AWSAccess)
	c.work.SQS = &t
	return c
}

// SNS returns a message to a topic of AWS SNS.
func SNS(t SNSTarget) *Call {
	c := new(Call)
	c.text("sns.topic_arn", t.TopicARN)
	c.access("sns", t.AWSAccess)
	c.work.SNS = &t
	return c
}

// EventBridge returns an event on a bus of AWS EventBridge.
func EventBridge(t EventBridgeTarget) *Call {
	c := new(Call)
	c.text("eventbridge.source", t.Source)
	c.text("eventbridge.detail_type", t.DetailType)
	c.access("eventbridge", t.AWSAccess)
	c.work.EventBridge = &t
	return c
}

// StepFunctions returns an execution of a state machine of AWS Step Functions.
func StepFunctions(t StepFunctionsTarget) *Call {
	c := new(Call)
	c.text("step_functions.state_machine", t.StateMachine)
	c.access("step_functions", t.AWSAccess)
	c.work.StepFunctions = &t
	return c
}

// Kafka returns a record for a topic of Apache Kafka.
func Kafka(t KafkaTarget) *Call {
	c := new(Call)
	if len(t.Brokers) == 0 {
		c.fault("kafka.brokers", "must not be empty")
	}
	c.text("kafka.topic", t.Topic)
	c.work.Kafka = &t
	return c
}

// access checks who calls a service of AWS.
func (c *Call) access(kind string, a AWSAccess) {
	c.text(kind+".region", a.Region)
	c.text(kind+".credentials", a.Credentials)
}

// Timeout bounds one attempt; the default is 30 s.
func (c *Call) Timeout(d time.Duration) *Call {
	c.work.Timeout = c.span("timeout", d)
	return c
}

// Retry says how often and after what delays a failed attempt is repeated.
func (c *Call) Retry(p RetryPolicy) *Call {
	c.work.Retry = &p
	return c
}

// Guarantee says what a crash in the middle of an attempt may cost; the default is AtLeastOnce.
func (c *Call) Guarantee(g Guarantee) *Call {
	c.work.Guarantee = Guarantee(c.text("guarantee", string(g)))
	return c
}

// Preemptible lets a critical run take the slot of a run of low priority. That one is stopped, uses
// no attempt, and starts again.
func (c *Call) Preemptible() *Call {
	c.work.Preemptible = true
	return c
}

// Requires names a label that the executor must have which runs it, such as gpu, true; it may be
// called for several. While there is no such executor, runs wait.
func (c *Call) Requires(name, value string) *Call {
	if c.work.Requires == nil {
		c.work.Requires = make(map[string]string)
	}
	c.work.Requires[c.text("requires", name)] = c.text("requires."+name, value)
	return c
}

// Wait is a step that calls nothing, and holds up what comes after it.
type Wait struct {
	notes
	says waitBody
}

func (w *Wait) fill(body *workBody, n *notes) {
	body.Wait = &w.says
	n.take("", &w.notes)
}

// WaitFor returns the work of a step that waits for a time.
func WaitFor(d time.Duration) *Wait {
	w := new(Wait)
	w.says.For = w.span("wait.for", d)
	return w
}

// WaitUntil returns the work of a step that waits until an instant.
func WaitUntil(t time.Time) *Wait {
	w := new(Wait)
	w.says.Until = instant(w.instant("wait.until", t))
	return w
}

// WaitForEvent returns the work of a step that waits for an event, whose body is its output.
func WaitForEvent(name string, options ...WaitOption) *Wait {
	w := new(Wait)
	w.says.Event = w.text("wait.event", name)
	for _, o := range options {
		o.ofWait(&w.says, &w.notes)
	}
	return w
}

type child string

// ChildWorkflow returns the work of a step that runs another workflow. Its output is an object of
// the outputs of the last steps of that one.
func ChildWorkflow(name string) StepWork { return child(name) }

func (c child) fill(w *workBody, n *notes) { w.Workflow = n.text("workflow", string(c)) }
