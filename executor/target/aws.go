package target

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	sfntypes "github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"carillon.dev/carillon/executor/target/auth"
	"carillon.dev/carillon/schema"
)

// AWS is the Target of messages to services of AWS: sqs, sns, eventbridge and step_functions. It
// calls them as Lambda calls functions: through the transport and the guard of HTTP tasks, one
// request an attempt.
//
// # A message that is sent twice
//
// An attempt whose answer was lost is repeated, and so is a run whose executor died. What that does
// is the service's to say:
//
//	SQS, a FIFO queue   taken once within 5 min: MessageDeduplicationId is the id of the run
//	SQS, another queue  there twice, with the same attribute carillon-run-id
//	SNS                 as SQS
//	EventBridge         there twice, with the same carillon.run_id in the detail
//	Step Functions      started once within 90 days: the execution's name is the id of the run
type AWS struct{ http *HTTP }

// NewAWS returns an AWS that calls as h does.
func NewAWS(h *HTTP) *AWS { return &AWS{http: h} }

// sender sends the message of an attempt, and returns what the output says of it. An error is the
// SDK's, a *refusal or an *unsendable.
type sender func(ctx context.Context, c *Call, with aws.Config) (receipt any, err error)

// unsendable says why a message cannot be sent as it is.
type unsendable struct{ text string }

func (u *unsendable) Error() string { return u.text }

// refusal is a message that was refused in an answer that is a success otherwise.
type refusal struct{ code string }

func (r *refusal) Error() string { return r.code }

func senderOf(w *schema.Work) sender {
	switch {
	case w.SQS != nil:
		return sendSQS
	case w.SNS != nil:
		return sendSNS
	case w.EventBridge != nil:
		return sendEvent
	case w.StepFunctions != nil:
		return startExecution
	}
	return nil
}

// Run implements Target. A message succeeds once the service has it. What the service refuses is
// final, unless it says that it has too much to do; the rest counts as in HTTP tasks.
func (a *AWS) Run(ctx context.Context, c Call) Result {
	access, send := c.Work.AWS(), senderOf(&c.Work)
	if send == nil {
		return Result{Outcome: schema.Failed, Error: "not a message to AWS", Final: true}
	}
	hide := auth.NewRedactor(c.Values)
	credentials, err := auth.Credentials(access.Credentials, c.Values)
	if err != nil {
		return Result{Outcome: schema.Failed, Error: "not called: " + err.Error(), Uncalled: true}
	}
	hide.Add(credentials.SecretAccessKey)
	hide.Add(credentials.SessionToken)
	call := &invocation{http: a.http, tenant: c.Tenant}
	with := aws.Config{
		Region: access.Region, HTTPClient: call, Retryer: func() aws.Retryer { return aws.NopRetryer{} },
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return credentials, nil }),
	}
	if access.Endpoint != "" {
		with.BaseEndpoint = aws.String(access.Endpoint)
	}
	receipt, err := send(ctx, &c, with)
	res := call.sent(ctx, &c, err)
	if res.Outcome == schema.Succeeded {
		call.body.memory.Release() // the receipt says it in fewer words
		res.Output, _ = json.Marshal(receipt)
	} else {
		res.Output, res.OutputCut, res.Memory = call.body.kept, call.body.cut, call.body.memory
	}
	res.Output, res.Error = hide.Bytes(res.Output, res.OutputCut), hide.Text(res.Error)
	return res
}

// sent says how a call ended that sends a message.
func (i *invocation) sent(ctx context.Context, c *Call, err error) Result {
	var (
		bad     *unsendable
		refused *refusal
	)
	switch {
	case err == nil && i.status >= http.StatusMultipleChoices: // it was sent by an attempt before
		return Result{Outcome: schema.Succeeded}
	case errors.As(err, &bad):
		return Result{Outcome: schema.Failed, Error: "not called: " + bad.text, Final: true, Uncalled: true}
	case errors.As(err, &refused):
		again := isTransient(refused.code)
		res := Result{Outcome: schema.Failed, Status: i.status, Error: "the message was refused", Final: !again, Ailing: again}
		if isErrorCode(refused.code) {
			res.Error += ": " + refused.code
		}
		return res
	}
	return i.ended(ctx, c, err)
}

// stored is what the output says of a message that a queue or a topic has.
type stored struct {
	ID       string `json:"message_id"`
	Sequence string `json:"sequence_number,omitempty"` // of FIFO queues and topics
}

// bodyOf returns the payload as a text. Where there is none, it is what otherwise says.
func bodyOf(c *Call, otherwise string) *string {
	if c.Payload == nil {
		return &otherwise
	}
	return aws.String(string(c.Payload))
}

// fifo returns what FIFO queues and topics know a message by: its group and its id; nil for others,
// to which only a group may be stated.
func fifo(c *Call, name, group string) (in, id *string) {
	f := factsOf(c)
	switch {
	case schema.IsFIFO(name) && group == "":
		return &f.job, &f.run
	case schema.IsFIFO(name):
		return &group, &f.run
	case group != "":
		return &group, nil
	}
	return nil, nil
}

func sendSQS(ctx context.Context, c *Call, with aws.Config) (any, error) {
	t := c.Work.SQS
	in := &sqs.SendMessageInput{QueueUrl: &t.QueueURL, MessageBody: bodyOf(c, "null"), MessageAttributes: make(map[string]sqstypes.MessageAttributeValue)}
	for name, value := range statedFacts(c) {
		in.MessageAttributes[name] = sqstypes.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String(value)}
	}
	in.MessageGroupId, in.MessageDeduplicationId = fifo(c, t.QueueURL, t.MessageGroup)
	out, err := sqs.NewFromConfig(with).SendMessage(ctx, in)
	if err != nil {
		return nil, err //nolint:wrapcheck // ended reads it
	}
	return stored{aws.ToString(out.MessageId), aws.ToString(out.SequenceNumber)}, nil
}

func sendSNS(ctx context.Context, c *Call, with aws.Config) (any, error) {
	t := c.Work.SNS
	in := &sns.PublishInput{TopicArn: &t.TopicARN, Message: bodyOf(c, "null"), MessageAttributes: make(map[string]snstypes.MessageAttributeValue)}
	if t.Subject != "" {
		in.Subject = &t.Subject
	}
	for name, value := range statedFacts(c) {
		in.MessageAttributes[name] = snstypes.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String(value)}
	}
	in.MessageGroupId, in.MessageDeduplicationId = fifo(c, t.TopicARN, t.MessageGroup)
	out, err := sns.NewFromConfig(with).Publish(ctx, in)
	if err != nil {
		return nil, err //nolint:wrapcheck // ended reads it
	}
	return stored{aws.ToString(out.MessageId), aws.ToString(out.SequenceNumber)}, nil
}

func sendEvent(ctx context.Context, c *Call, with aws.Config) (any, error) {
	t := c.Work.EventBridge
	detail, err := detailOf(c)
	if err != nil {
		return nil, err
	}
	bus := t.Bus
	if bus == "" {
		bus = schema.DefaultBus
	}
	at := c.Nominal
	if at.IsZero() {
		at = c.Due
	}
	at = at.UTC().Truncate(time.Second) // as precise as events of EventBridge are
	out, err := eventbridge.NewFromConfig(with).PutEvents(ctx, &eventbridge.PutEventsInput{Entries: []eventtypes.PutEventsRequestEntry{{
		EventBusName: &bus, Source: &t.Source, DetailType: &t.DetailType, Detail: &detail, Time: &at,
	}}})
	switch {
	case err != nil:
		return nil, err //nolint:wrapcheck // ended reads it
	case len(out.Entries) != 1:
		return nil, &refusal{}
	case out.FailedEntryCount > 0 || out.Entries[0].ErrorCode != nil:
		return nil, &refusal{aws.ToString(out.Entries[0].ErrorCode)}
	}
	return struct {
		ID string `json:"event_id"`
	}{aws.ToString(out.Entries[0].EventId)}, nil
}

// detailOf returns the detail of an event: the payload, with the facts of the attempt as its member
// carillon.
func detailOf(c *Call) (string, error) {
	members := make(map[string]json.RawMessage)
	if c.Payload != nil {
		if err := json.Unmarshal(c.Payload, &members); err != nil || members == nil {
			return "", &unsendable{"the payload is no JSON object, which the detail of an event must be"}
		}
	}
	f := factsOf(c)
	members["carillon"], _ = json.Marshal(struct { // strings always can
		Run     string `json:"run_id"`
		Job     string `json:"job_id"`
		Attempt int    `json:"attempt"`
		Fence   string `json:"fence"`
		Due     string `json:"due_at"`
		Nominal string `json:"nominal_at,omitempty"`
		Trace   string `json:"traceparent"`
	}{f.run, f.job, c.Number, f.fence, f.due, f.nominal, f.trace})
	text, err := json.Marshal(members)
	if err != nil {
		return "", &unsendable{"the payload cannot be the detail of an event"}
	}
	return string(text), nil
}

// startExecution starts an execution. Its input is the payload alone: were the number of the
// attempt in it, a second attempt would ask for another execution of the same name.
func startExecution(ctx context.Context, c *Call, with aws.Config) (any, error) {
	run := c.Run.String()
	out, err := sfn.NewFromConfig(with).StartExecution(ctx, &sfn.StartExecutionInput{
		StateMachineArn: &c.Work.StepFunctions.StateMachine, Name: &run, Input: bodyOf(c, "{}"),
	})
	type started struct {
		ARN     string `json:"execution_arn,omitempty"`
		Name    string `json:"name"`
		Already bool   `json:"already_started,omitempty"` // by an attempt before
	}
	var exists *sfntypes.ExecutionAlreadyExists
	switch {
	case errors.As(err, &exists):
		return started{Name: run, Already: true}, nil
	case err != nil:
		return nil, err //nolint:wrapcheck // ended reads it
	}
	return started{ARN: aws.ToString(out.ExecutionArn), Name: run}, nil
}
