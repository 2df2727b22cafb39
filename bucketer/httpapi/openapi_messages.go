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
