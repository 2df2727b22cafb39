package httpapi

import (
	"fmt"

	"github.com/danielgtaylor/huma/v2"
)

// describeMessages says in the schemas of messages what the types of Go do not.
func (s documentWriter) describeMessages() error {
	const labelPattern = `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`
	text := func(pattern, description string, example any) func(*huma.Schema) {
		return func(f *huma.Schema) { f.Pattern, f.Description, f.Examples = pattern, description, []any{example} }
	}
	group := text(`^[!-~]{1,128}$`, "Within which a FIFO queue or topic keeps the order; absent: of one that is FIFO the job", "billing")
	type say struct {
		schema, field string
		say           func(*huma.Schema)
	}
	rows := []say{
		{"JetStreamTarget", "subject", func(f *huma.Schema) {
			f.Description = "Of a stream on the NATS servers that Carillon uses. The message has the header Nats-Msg-Id, which is the run's id"
		}},
		{"JetStreamTarget", "stream", text(`^[^\s.*>/\\]{1,255}$`, "The stream that must take the message; absent: whichever has the subject", "ORDERS")},
		{"SQSTarget", "queue_url", func(f *huma.Schema) {
			f.Format, f.Examples = "uri", []any{"https://sqs.eu-central-1.amazonaws.com/123456789012/jobs"}
			f.Description = "At most 512 bytes. A FIFO queue (.fifo) takes a run's message once within 5 min: MessageDeduplicationId is the run's id"
		}},
		{"SQSTarget", "message_group", group},
		{"SNSTarget", "topic_arn", text(`^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?$`, "", "arn:aws:sns:eu-central-1:123456789012:jobs")},
		{"SNSTarget", "subject", text(`^[!-~][ -~]{0,99}$`, "Of the mails to those who subscribed by e-mail", "A job has run")},
		{"SNSTarget", "message_group", group},
		{"EventBridgeTarget", "bus", func(f *huma.Schema) {
			f.Default, f.Description = "default", "Name or ARN of the event bus, at most 512 bytes"
		}},
		{"EventBridgeTarget", "source", text(`^[^\x00-\x1f\x7f]{1,256}$`, "Not one that begins with aws.", "billing")},
		{"EventBridgeTarget", "detail_type", text(`^[^\x00-\x1f\x7f]{1,128}$`, "The detail is the payload, which must be an object, with a member carillon: run_id, attempt and others", "invoice-due")},
		{"StepFunctionsTarget", "state_machine", text(
			`^arn:aws[a-z-]*:states:[a-z0-9-]+:[0-9]{12}:stateMachine:[A-Za-z0-9_-]{1,256}(:[A-Za-z0-9_-]{1,80})?$`,
			"Its ARN, with a version or alias after a colon. The input is the payload, and the execution's name is the run's id: it is started once",
			"arn:aws:states:eu-central-1:123456789012:stateMachine:jobs",
		)},
		{"KafkaTarget", "brokers", func(f *huma.Schema) {
			f.Examples = []any{[]string{"kafka-1.example.com:9092"}}
			f.Description = "host:port of 1 to 8 brokers, each at most 120 bytes, by which the others are found. Every address of a broker goes through the guard of addresses, also those that the cluster names"
		}},
		{"KafkaTarget", "topic", text(`^[A-Za-z0-9._-]{1,249}$`, "", "orders.due")},
		{"KafkaTarget", "key", func(f *huma.Schema) {
			f.Description = "Records of one key keep their order; absent: any partition. At most 1 KiB"
		}},
		{"KafkaTarget", "headers", func(f *huma.Schema) {
			f.Description = "At most 32, 8 KiB together, and nothing secret. Others tell the run (carillon-run-id), the attempt and the trace"
		}},
		{"KafkaTarget", "tls", func(f *huma.Schema) { f.Description = "Absent: the brokers are spoken to without TLS" }},
		{"KafkaTarget", "sasl", func(f *huma.Schema) { f.Description = "Absent: the brokers ask for no user" }},
		{"KafkaTLS", "ca_secret", text(namePattern, "Name of the secret that holds the certificates that those of the brokers are to come from, as PEM; absent: those of the system", "kafka-ca")},
		{"KafkaTLS", "certificate_secret", text(namePattern, "Name of the secret that holds the certificate that is shown, as PEM", "kafka-cert")},
		{"KafkaTLS", "key_secret", text(namePattern, "Name of the secret that holds its private key, as PEM", "kafka-key")},
		{"KafkaSASL", "mechanism", words("plain", "scram-sha-256", "scram-sha-512")},
		{"KafkaSASL", "username", func(f *huma.Schema) { f.Description = "At most 255 bytes" }},
		{"KafkaSASL", "password_secret", text(namePattern, "Name of the secret that holds the password", "kafka-password")},
	}
	for _, of := range []string{"SQSTarget", "SNSTarget", "EventBridgeTarget", "StepFunctionsTarget"} {
		rows = append(rows,
			say{of, "region", text(labelPattern, "", "eu-central-1")},
			say{of, "credentials", func(f *huma.Schema) {
				f.Pattern = namePattern
				f.Description = `Name of the secret that holds {"access_key_id": "…", "secret_access_key": "…", "session_token": "…"} (the last is optional)`
			}},
			say{of, "endpoint", func(f *huma.Schema) {
				f.Format, f.Description = "uri", "Instead of AWS's of the region; without a query"
			}},
		)
	}
	schemas := s.api.OpenAPI().Components.Schemas.Map()
	for _, p := range rows {
		of := schemas[p.schema]
		if of == nil || of.Properties[p.field] == nil {
			return fmt.Errorf("the OpenAPI document has no %s.%s", p.schema, p.field)
		}
		p.say(of.Properties[p.field])
	}
	return nil
}
