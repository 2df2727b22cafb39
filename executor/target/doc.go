// Package target calls what tasks name: HTTP endpoints, workers behind NATS, scripts, and functions
// of AWS Lambda. It sends messages to streams of NATS JetStream, topics of Kafka and services of
// AWS, and the mails of notifications.
//
// A Target makes one attempt and says how it went. It knows neither rows nor leases nor sessions:
// the caller's context and Call.Abandoned tell it when to stop.
//
//	target.go        Call, Result, Target, and the causes for which an attempt ends
//	health.go        what a result tells of the health of its target
//	budget.go        the memory that outputs share
//	http.go          HTTP: the transport and the calls  http_request.go, http_answer.go  their two ends
//	http_auth.go     who makes them: headers, signatures, tokens, certificates (package auth)
//	email.go         mails, by SMTP
//	lambda.go        functions of AWS Lambda, called as HTTP is
//	aws.go           messages to SQS, SNS, EventBridge and Step Functions, called as HTTP is
//	kafka.go         records for topics of Apache Kafka  kafka_clients.go  who sends them
//	jetstream.go     messages to streams of NATS JetStream
//	guard.go         which addresses may be dialled
//	dial.go          connections that outlast the attempt that began them
//	nats.go          the worker protocol (executor/worker/PROTOCOL.md)
//	script.go        commands of the operator's allow list, and their checks
//	script_linux.go  processes: start, output, time-out, and all that a command leaves behind
//
// # Invariants
//
//  1. An address is checked when it is dialled, after its name was resolved, on every redirect too.
//  2. No text of a result holds a URL, a header, a resolved address, an argument or a payload; and
//     neither text nor output holds a secret that the call was made with.
//  3. No callee decides how much memory it takes: bodies, headers, outputs, logs and waits are
//     bounded.
//  4. A process of a script ends with its attempt. Where that cannot be, Result.Lingering says so.
package target
