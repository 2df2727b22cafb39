package client

import (
	"fmt"

	"carillon.dev/carillon/schema"
)

// Ids. All are UUIDs.
type (
	// JobID names a job or a workflow. A one-off job has the id of its run.
	JobID = schema.JobID
	// RunID names a run.
	RunID = schema.RunID
	// EventID names an event.
	EventID = schema.EntryID
)

// ParseRunID reads the id of a run, or of an event.
func ParseRunID(text string) (RunID, error) {
	id, err := schema.ParseEntryID(text)
	if err != nil {
		return id, fmt.Errorf("carillon: %w", err)
	}
	return id, nil
}

// Duration is a time.Duration that is written as Go writes it ("1m30s") in JSON. Its method Std
// returns it as a time.Duration.
type Duration = schema.Duration

// RegionChoice names the home at which work lies, and says whether no other region may run it.
type RegionChoice = schema.RegionChoice

// State is where a run stands. Its method Terminal says whether the run has ended.
type State = schema.State

// The states of runs and steps.
const (
	Pending   = schema.StatePending
	Running   = schema.StateRunning
	Retrying  = schema.StateRetrying
	Succeeded = schema.StateSucceeded
	Failed    = schema.StateFailed
	Cancelled = schema.StateCancelled
	Missed    = schema.StateMissed
	// Skipped is of a step, and of a run that never starts since other jobs did not end as it asks for.
	Skipped = schema.StateSkipped
	// Waiting is of a step that waits, of a workflow run in which nothing else is under way, and of a
	// run that waits for other jobs.
	Waiting State = "waiting"
	// Stuck is of a run that waits for other jobs and whose deadline has passed. It has not ended.
	Stuck State = "stuck"
)

// Outcome is how an attempt ended.
type Outcome = schema.Outcome

// JobState is where a job or a workflow stands: its method Ended says whether no run is to come.
type JobState = schema.JobState

// The states of jobs and workflows.
const (
	JobActive    = schema.JobActive
	JobPaused    = schema.JobPaused
	JobCancelled = schema.JobCancelled
	JobFinished  = schema.JobFinished // its schedule names no more times
)

// Priority orders runs that are due at once.
type Priority = schema.Priority

// The priorities.
const (
	Critical = schema.Critical
	High     = schema.High
	Normal   = schema.Normal // the default
	Low      = schema.Low
)

// Guarantee says what a crash in the middle of an attempt may cost.
type Guarantee = schema.Guarantee

// The guarantees.
const (
	AtLeastOnce     = schema.AtLeastOnce // the default
	AtMostOnce      = schema.AtMostOnce
	EffectivelyOnce = schema.EffectivelyOnce
)

// RetryPolicy says how often and after what delays a failed attempt is repeated. A field that is
// zero has its default: 5 attempts, 1 s, factor 2, 10 min, jitter "full".
type RetryPolicy = schema.Retry

// What a call is, in answers.
type (
	// Target is a call, with its limits: exactly one of its pointers but Retry is set.
	Target = schema.Work
	// HTTPTarget is an HTTP call.
	HTTPTarget = schema.HTTPTarget
	// NATSTarget is a NATS request.
	NATSTarget = schema.NATSTarget
	// ScriptTarget is a command of the operator's allow list.
	ScriptTarget = schema.ScriptTarget
	// LambdaTarget is a function of AWS Lambda.
	LambdaTarget = schema.LambdaTarget
	// KafkaTarget is a record for a topic of Apache Kafka.
	KafkaTarget = schema.KafkaTarget
	// KafkaTLS says how brokers are spoken to, by names of secrets.
	KafkaTLS = schema.KafkaTLS
	// KafkaSASL is a user of a cluster.
	KafkaSASL = schema.KafkaSASL
	// JetStreamTarget is a message to a stream of NATS JetStream.
	JetStreamTarget = schema.JetStreamTarget
	// AWSAccess says in which region a service of AWS is called, and who calls.
	AWSAccess = schema.AWSAccess
	// SQSTarget is a message to a queue of AWS SQS.
	SQSTarget = schema.SQSTarget
	// SNSTarget is a message to a topic of AWS SNS.
	SNSTarget = schema.SNSTarget
	// EventBridgeTarget is an event on a bus of AWS EventBridge.
	EventBridgeTarget = schema.EventBridgeTarget
	// StepFunctionsTarget is an execution of a state machine of AWS Step Functions.
	StepFunctionsTarget = schema.StepFunctionsTarget
)

// How an HTTP call shows who makes it. The fields whose names end in Secret hold the names of
// secrets of the tenant, never their values.
type (
	// HTTPAuth is exactly one of the others.
	HTTPAuth = schema.HTTPAuth
	// BearerAuth is a bearer token.
	BearerAuth = schema.BearerAuth
	// BasicAuth is a user and a password.
	BasicAuth = schema.BasicAuth
	// HeaderAuth is a header whose value is a secret.
	HeaderAuth = schema.HeaderAuth
	// BodyFieldAuth is a member of the body whose value is a secret.
	BodyFieldAuth = schema.BodyFieldAuth
	// OAuth2Auth is a token that an OAuth 2 server gives for a client's secret.
	OAuth2Auth = schema.ClientCredentials
	// SigV4Auth is a signature as AWS asks for it.
	SigV4Auth = schema.SigV4Auth
	// MTLSAuth is a certificate.
	MTLSAuth = schema.MTLSAuth
)

// What jobs and workflows say, in answers.
type (
	// Concurrency bounds the runs of a job that are under way at once.
	Concurrency = schema.Concurrency
	// Misfire says what becomes of runs that could not start when they were due.
	Misfire = schema.Misfire
	// EventTrigger says which events start a run.
	EventTrigger = schema.EventTrigger
)

// OnLimit says what becomes of a run that would start while as many as may are under way.
type OnLimit string

// What becomes of it.
const (
	Queue        OnLimit = schema.OnLimitQueue        // it waits
	SkipRun      OnLimit = schema.OnLimitSkip         // it is given up, and is missed
	CancelOldest OnLimit = schema.OnLimitCancelOldest // the runs that were due first are cancelled
)

// Durability says when a job is acknowledged where there are regions.
type Durability = schema.Durability

// The durabilities.
const (
	DurableHome       = schema.DurableHome       // once the region that serves its home holds it; the default
	DurableEverywhere = schema.DurableEverywhere // once every region does
)

// MisfirePolicy says what becomes of runs that are a minute late or more.
type MisfirePolicy string

// The policies.
const (
	RunAll     MisfirePolicy = schema.RunAll
	RunLatest  MisfirePolicy = schema.RunLatest // of several only the last; the default where there is a schedule
	SkipMissed MisfirePolicy = schema.Skip      // none
)

// Condition says what must have become of the steps before one for it to start, or of the jobs before
// a job.
type Condition string

// The conditions.
const (
	AllSucceeded Condition = "all_succeeded" // the default
	AllDone      Condition = "all_done"      // all have ended, however
	AnySucceeded Condition = "any_succeeded" // one has, and nothing waits for the others
	AnyFailed    Condition = "any_failed"    // one has, and nothing waits for the others
	Always       Condition = "always"        // of steps: all have ended, however; also after a cancel of the run
)
