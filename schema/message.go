package schema

import "strings"

// Messages are work whose callee is a queue, a topic, a stream or a state machine: an attempt has
// succeeded once the message is stored there. Each carries the id of its run, by which the callee,
// or who reads from it, knows a message that was sent twice.

// JetStreamTarget is a message to a stream of NATS JetStream, on the servers that Carillon uses
// itself. Success is the stream's acknowledgement.
type JetStreamTarget struct {
	Subject string `json:"subject"`
	Stream  string `json:"stream,omitempty"` // the stream that must take it; "": whichever has the subject
}

// AWSAccess says in which region a service of AWS is called, and who calls.
type AWSAccess struct {
	Region      string `json:"region"`
	Credentials string `json:"credentials"`        // a secret: JSON of access_key_id, secret_access_key and session_token
	Endpoint    string `json:"endpoint,omitempty"` // "": AWS's of the region
}

// SQSTarget is a message to a queue of AWS SQS. Success is that the queue has it.
type SQSTarget struct {
	QueueURL string `json:"queue_url"` // one that ends in FIFOSuffix is a FIFO queue
	// MessageGroup is the group within which a FIFO queue keeps the order; "": the job.
	MessageGroup string `json:"message_group,omitempty"`
	AWSAccess
}

// SNSTarget is a message to a topic of AWS SNS. Success is that the topic has it.
type SNSTarget struct {
	TopicARN     string `json:"topic_arn"`               // one that ends in FIFOSuffix is a FIFO topic
	Subject      string `json:"subject,omitempty"`       // of the mails to those who subscribed by e-mail
	MessageGroup string `json:"message_group,omitempty"` // as of an SQSTarget
	AWSAccess
}

// EventBridgeTarget is an event on a bus of AWS EventBridge. Success is that the bus has it.
type EventBridgeTarget struct {
	Bus        string `json:"bus,omitempty"` // name or ARN; default DefaultBus
	Source     string `json:"source"`
	DetailType string `json:"detail_type"`
	AWSAccess
}

// StepFunctionsTarget is an execution of a state machine of AWS Step Functions. Success is that it
// has started, now or by an attempt before.
type StepFunctionsTarget struct {
	StateMachine string `json:"state_machine"` // ARN
	AWSAccess
}

// KafkaTarget is a record for a topic of Apache Kafka. Success is that all in-sync replicas of its
// partition have it.
type KafkaTarget struct {
	Brokers []string          `json:"brokers"` // host:port of some, by which the others are found
	Topic   string            `json:"topic"`
	Key     string            `json:"key,omitempty"`     // records of one key keep their order; "": none
	Headers map[string]string `json:"headers,omitempty"` // no place for secrets
	TLS     *KafkaTLS         `json:"tls,omitempty"`     // nil: without
	SASL    *KafkaSASL        `json:"sasl,omitempty"`    // nil: without a user
}

// KafkaTLS says how brokers are spoken to. Its fields are names of secrets.
type KafkaTLS struct {
	CASecret          string `json:"ca_secret,omitempty"`          // PEM: who the brokers' certificates are to come from; "": those of the system
	CertificateSecret string `json:"certificate_secret,omitempty"` // PEM: shown to the brokers; "": none
	KeySecret         string `json:"key_secret,omitempty"`         // PEM: its private key
}

// KafkaSASL is a user of a cluster, and a password.
type KafkaSASL struct {
	Mechanism      string `json:"mechanism"` // one of SASLMechanisms
	Username       string `json:"username"`
	PasswordSecret string `json:"password_secret"`
}

// How a user shows to brokers who it is.
const (
	SASLPlain   = "plain" // the password is sent
	SCRAMSHA256 = "scram-sha-256"
	SCRAMSHA512 = "scram-sha-512"
)

// SASLMechanisms are all of them. Do not modify.
var SASLMechanisms = []string{SASLPlain, SCRAMSHA256, SCRAMSHA512}

// secrets returns the names of the secrets that a record needs.
func (t *KafkaTarget) secrets() []string {
	var names []string
	if t.TLS != nil {
		names = append(names, t.TLS.CASecret, t.TLS.CertificateSecret, t.TLS.KeySecret)
	}
	if t.SASL != nil {
		names = append(names, t.SASL.PasswordSecret)
	}
	return distinct(names...)
}

const (
	// DefaultBus is the event bus that each account of AWS has.
	DefaultBus = "default"
	// FIFOSuffix ends the names of queues and topics that keep the order, and take each message
	// once.
	FIFOSuffix = ".fifo"
)

// Message returns the kind of a message that w sends, as the field of w is called in JSON, and
// where it goes; "" if w is other work.
func (w *Work) Message() (kind, to string) {
	switch {
	case w.JetStream != nil:
		return "jetstream", w.JetStream.Subject
	case w.SQS != nil:
		return "sqs", w.SQS.QueueURL
	case w.SNS != nil:
		return "sns", w.SNS.TopicARN
	case w.EventBridge != nil:
		return "eventbridge", or(w.EventBridge.Bus, DefaultBus)
	case w.StepFunctions != nil:
		return "step_functions", w.StepFunctions.StateMachine
	case w.Kafka != nil:
		return "kafka", w.Kafka.Topic
	}
	return "", ""
}

// AWS returns who sends the message of w to a service of AWS; nil if w is other work.
func (w *Work) AWS() *AWSAccess {
	switch {
	case w.SQS != nil:
		return &w.SQS.AWSAccess
	case w.SNS != nil:
		return &w.SNS.AWSAccess
	case w.EventBridge != nil:
		return &w.EventBridge.AWSAccess
	case w.StepFunctions != nil:
		return &w.StepFunctions.AWSAccess
	}
	return nil
}

// IsFIFO reports whether a queue or a topic of AWS keeps the order.
func IsFIFO(name string) bool { return strings.HasSuffix(name, FIFOSuffix) }
