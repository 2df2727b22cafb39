package request

import (
	"net"
	"strconv"
	"strings"

	"carillon.dev/carillon/schema"
)

// TargetRequest is the body of POST /v1/targets/reset.
type TargetRequest struct {
	Target string `json:"target"`
}

// maxTarget is the longest name of a target, in bytes: more than a URL's scheme, host and port, or
// a subject, can have.
const maxTarget = 1024

// Target reads the body of POST /v1/targets/reset.
func (d *Decoder) Target(body []byte) (TargetRequest, error) {
	var r TargetRequest
	if !d.begin(body) {
		return r, d.err()
	}
	named := false
	for c := range d.members(0) {
		switch field := d.doc.name(c); string(field) {
		case "target":
			named = true
			if r.Target = d.string(c); d.is(c, kindString) && (r.Target == "" || len(r.Target) > maxTarget) {
				d.fault(c, "must be 1 to %d bytes long", maxTarget)
			}
		default:
			d.faultQuietly(c, "is not a field of this request")
		}
	}
	d.require(0, named, "target")
	return r, d.err()
}

// Bounds of where messages go.
const (
	maxStream       = 255 // bytes of a stream's name
	maxQueueURL     = 512 // bytes
	maxMessageGroup = 128 // bytes
	maxMailSubject  = 100 // bytes
	maxARN          = 256 // bytes
	maxBus          = 512 // bytes of a bus's name or ARN
	maxEventSource  = 256 // bytes
	maxDetailType   = 128 // bytes
	maxBrokers      = 8
	maxBroker       = 120     // bytes of host:port: the name of all of them is one of a target
	maxTopic        = 249     // bytes
	maxRecordKey    = 1 << 10 // bytes
)

// kindsOfCall are the kinds of work that are stated as a call, as faults name them.
const kindsOfCall = "http, nats, script, lambda, jetstream, sqs, sns, eventbridge, step_functions and kafka"

// messageReader reads messages: work whose callee is a queue, a topic, a stream or a state machine.
type messageReader struct{ *workReader }

// read takes member c of the request if it is a message, and reports whether it is one.
func (w messageReader) read(name string, c int32) bool {
	switch name {
	case "jetstream":
		w.work.JetStream = w.jetStream(c)
	case "sqs":
		w.work.SQS = w.sqs(c)
	case "sns":
		w.work.SNS = w.sns(c)
	case "eventbridge":
		w.work.EventBridge = w.eventBridge(c)
	case "step_functions":
		w.work.StepFunctions = w.stepFunctions(c)
	case "kafka":
		w.work.Kafka = w.kafka(c)
	default:
		return false
	}
	w.targets++
	return true
}

func (w messageReader) jetStream(i int32) *schema.JetStreamTarget {
	t := new(schema.JetStreamTarget)
	w.record(i, "jetstream", []string{"subject"}, map[string]func(int32){
		"subject": func(c int32) { t.Subject = w.quiet(c, subjectFault) },
		"stream":  func(c int32) { t.Stream = w.quiet(c, streamFault) },
	})
	return t
}

// streamFault says what is wrong with the name of a stream of JetStream, or "".
func streamFault(s string) string {
	if s == "" || len(s) > maxStream || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`.*>/\`, r) }) {
		return "must be 1 to " + strconv.Itoa(maxStream) + ` printable ASCII characters without space, '.', '*', '>', '/' and '\'`
	}
	return ""
}

// aws adds to fields those that every call of AWS has.
func (w messageReader) aws(a *schema.AWSAccess, fields map[string]func(int32)) map[string]func(int32) {
	fields["region"] = func(c int32) { a.Region = w.quiet(c, labelFault) }
	fields["credentials"] = func(c int32) { a.Credentials = w.secretRef(c) }
	fields["endpoint"] = func(c int32) { a.Endpoint = w.quiet(c, plainURLFault) }
	return fields
}

// plainURLFault is urlFault of a URL that has no query.
func plainURLFault(s string) string {
	what := urlFault(s)
	if what == "" && strings.ContainsAny(s, "?#") {
		what = "must be a URL without a query"
	}
	return what
}

func (w messageReader) sqs(i int32) *schema.SQSTarget {
	t := new(schema.SQSTarget)
	w.record(i, "sqs", []string{"queue_url", "region", "credentials"}, w.aws(&t.AWSAccess, map[string]func(int32){
		"queue_url":     func(c int32) { t.QueueURL = w.quiet(c, queueFault) },
		"message_group": func(c int32) { t.MessageGroup = w.quiet(c, groupFault) },
	}))
	return t
}

// queueFault says what is wrong with the URL of a queue, or "".
func queueFault(s string) string {
	if what := plainURLFault(s); what != "" {
		return what
	}
	if len(s) > maxQueueURL {
		return "must be at most " + strconv.Itoa(maxQueueURL) + " bytes long"
	}
	if name := strings.TrimSuffix(s[strings.LastIndexByte(s, '/')+1:], schema.FIFOSuffix); !isName(name, 80) {
		return "must end in the name of a queue, such as https://sqs.eu-central-1.amazonaws.com/123456789012/jobs"
	}
	return ""
}

// isName reports whether s is 1 to so many characters of which names of AWS are made.
func isName(s string, most int) bool {
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// groupFault says what is wrong with a group of messages, or "".
func groupFault(s string) string {
	if s == "" || len(s) > maxMessageGroup || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "must be 1 to " + strconv.Itoa(maxMessageGroup) + " printable ASCII characters without space"
	}
	return ""
}

func (w messageReader) sns(i int32) *schema.SNSTarget {
	t, arn := new(schema.SNSTarget), int32(0)
	w.record(i, "sns", []string{"topic_arn", "region", "credentials"}, w.aws(&t.AWSAccess, map[string]func(int32){
		"topic_arn": func(c int32) {
			arn, t.TopicARN = c, w.quiet(c, func(s string) string {
				return arnFault(s, "sns", "", "must be the ARN of a topic, such as arn:aws:sns:eu-central-1:123456789012:jobs")
			})
		},
		"subject": func(c int32) {
			t.Subject = w.quiet(c, func(s string) string {
				if s == "" || len(s) > maxMailSubject || s[0] == ' ' || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
					return "must be 1 to " + strconv.Itoa(maxMailSubject) + " printable ASCII characters, of which the first is no space"
				}
				return ""
			})
		},
		"message_group": func(c int32) { t.MessageGroup = w.quiet(c, groupFault) },
	}))
	w.checkRegion(arn, t.TopicARN, t.Region)
	return t
}

// checkRegion checks that an ARN, which node i is if it is above 0, is of a region.
func (w messageReader) checkRegion(i int32, arn, region string) {
	if parts := strings.Split(arn, ":"); i > 0 && len(parts) > 3 && region != "" && parts[3] != region && labelFault(region) == "" {
		w.d.faultQuietly(i, "is not of the region that is stated")
	}
}

// arnFault says what is wrong with an ARN of a service, whose last part begins with kind and is a
// name, or "".
func arnFault(s, service, kind, form string) string {
	parts := strings.SplitN(s, ":", 6)
	if len(s) > maxARN || len(parts) != 6 || parts[0] != "arn" || !strings.HasPrefix(parts[1], "aws") || labelFault(parts[1]) != "" || parts[2] != service ||
		labelFault(parts[3]) != "" || len(parts[4]) != 12 || strings.Trim(parts[4], "0123456789") != "" {
		return form
	}
	name, ok := strings.CutPrefix(parts[5], kind)
	if kind != "" { // it may have a version or an alias
		var qualifier string
		var qualified bool
		name, qualifier, qualified = strings.Cut(name, ":")
		ok = ok && (!qualified || isName(qualifier, 80))
	}
	if !ok || !isName(strings.TrimSuffix(name, schema.FIFOSuffix), 256) {
		return form
	}
	return ""
}

func (w messageReader) eventBridge(i int32) *schema.EventBridgeTarget {
	t, bus := new(schema.EventBridgeTarget), int32(0)
	w.record(i, "eventbridge", []string{"source", "detail_type", "region", "credentials"}, w.aws(&t.AWSAccess, map[string]func(int32){
		"bus": func(c int32) { bus, t.Bus = c, w.quiet(c, busFault) },
		"source": func(c int32) {
			t.Source = w.quiet(c, func(s string) string {
				if strings.HasPrefix(s, "aws.") {
					return `must not start with "aws.": that is reserved`
				}
				return eventTextFault(s, maxEventSource)
			})
		},
		"detail_type": func(c int32) {
			t.DetailType = w.quiet(c, func(s string) string { return eventTextFault(s, maxDetailType) })
		},
	}))
	w.checkRegion(bus, t.Bus, t.Region)
	return t
}

// busFault says what is wrong with the name or ARN of an event bus, or "".
func busFault(s string) string {
	name := s
	if strings.HasPrefix(s, "arn:") {
		parts := strings.SplitN(s, ":", 6)
		if len(parts) != 6 || !strings.HasPrefix(parts[1], "aws") || parts[2] != "events" || labelFault(parts[3]) != "" {
			name = ""
		} else {
			name, _ = strings.CutPrefix(parts[5], "event-bus/")
		}
	}
	if name == "" || len(s) > maxBus || strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/.-_", r)
	}) {
		return "must be the name of an event bus, or its ARN, of at most " + strconv.Itoa(maxBus) + " bytes"
	}
	return ""
}

// eventTextFault says what is wrong with a source or a type of events, or "".
func eventTextFault(s string, most int) string {
	if s == "" || len(s) > most || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "must be 1 to " + strconv.Itoa(most) + " bytes long, without control characters"
	}
	return ""
}

func (w messageReader) stepFunctions(i int32) *schema.StepFunctionsTarget {
	t, arn := new(schema.StepFunctionsTarget), int32(0)
	w.record(i, "step_functions", []string{"state_machine", "region", "credentials"}, w.aws(&t.AWSAccess, map[string]func(int32){
		"state_machine": func(c int32) {
			arn, t.StateMachine = c, w.quiet(c, func(s string) string {
				return arnFault(s, "states", "stateMachine:", "must be the ARN of a state machine, such as arn:aws:states:eu-central-1:123456789012:stateMachine:jobs")
			})
		},
	}))
	w.checkRegion(arn, t.StateMachine, t.Region)
	return t
}

func (w messageReader) kafka(i int32) *schema.KafkaTarget {
	t, mechanism := new(schema.KafkaTarget), int32(0)
	w.record(i, "kafka", []string{"brokers", "topic"}, map[string]func(int32){
		"brokers": func(c int32) { t.Brokers = w.brokers(c) },
		"topic":   func(c int32) { t.Topic = w.quiet(c, topicFault) },
		"key": func(c int32) {
			t.Key = w.quiet(c, func(s string) string {
				if s == "" || len(s) > maxRecordKey {
					return "must be 1 to " + strconv.Itoa(maxRecordKey) + " bytes long"
				}
				return ""
			})
		},
		"headers": func(c int32) { t.Headers = w.headers(c) },
		"tls":     func(c int32) { t.TLS = w.kafkaTLS(c) },
		"sasl":    func(c int32) { mechanism, t.SASL = c, w.kafkaSASL(c) },
	})
	if t.SASL != nil && t.SASL.Mechanism == schema.SASLPlain && t.TLS == nil {
		w.d.faultQuietly(mechanism, "sends a password for everybody to read: state tls, or another mechanism")
	}
	return t
}

// brokers reads the addresses of brokers.
func (w messageReader) brokers(i int32) []string {
	d := w.d
	if !d.is(i, kindArray) {
		d.faultQuietly(i, "must be an array of addresses, such as kafka.example.com:9092")
		return nil
	}
	var brokers []string
	for c := range d.allMembers(i) {
		if len(brokers) == maxBrokers {
			d.faultQuietly(i, "must be at most %d", maxBrokers)
			return nil
		}
		brokers = append(brokers, w.quiet(c, brokerFault))
	}
	if len(brokers) == 0 {
		d.faultQuietly(i, "must not be empty")
	}
	return brokers
}

// brokerFault says what is wrong with the address of a broker, or "".
func brokerFault(s string) string {
	host, port, err := net.SplitHostPort(s)
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || n == 0 || len(s) > maxBroker || hostFault(host) != "" {
		return "must be a host and a port, such as kafka.example.com:9092, of at most " + strconv.Itoa(maxBroker) + " bytes"
	}
	return ""
}

// topicFault says what is wrong with the name of a topic of Kafka, or "".
func topicFault(s string) string {
	if s == "." || s == ".." || !isName(strings.ReplaceAll(s, ".", "_"), maxTopic) {
		return "must be 1 to " + strconv.Itoa(maxTopic) + " characters of a-z, A-Z, 0-9, '.', '_' and '-'"
	}
	if strings.HasPrefix(s, "__") {
		return `must not start with "__": those are Kafka's own`
	}
	return ""
}

func (w messageReader) kafkaTLS(i int32) *schema.KafkaTLS {
	t := new(schema.KafkaTLS)
	w.record(i, "tls", nil, map[string]func(int32){
		"ca_secret":          func(c int32) { t.CASecret = w.secretRef(c) },
		"certificate_secret": func(c int32) { t.CertificateSecret = w.secretRef(c) },
		"key_secret":         func(c int32) { t.KeySecret = w.secretRef(c) },
	})
	if (t.CertificateSecret == "") != (t.KeySecret == "") && w.d.is(i, kindObject) {
		w.d.faultQuietly(i, "must have both or none of certificate_secret and key_secret")
	}
	return t
}

func (w messageReader) kafkaSASL(i int32) *schema.KafkaSASL {
	s := new(schema.KafkaSASL)
	w.record(i, "sasl", []string{"mechanism", "username", "password_secret"}, map[string]func(int32){
		"mechanism":       func(c int32) { s.Mechanism = w.d.oneOf(c, schema.SASLMechanisms) },
		"username":        func(c int32) { s.Username = w.quiet(c, userFault) },
		"password_secret": func(c int32) { s.PasswordSecret = w.secretRef(c) },
	})
	return s
}
