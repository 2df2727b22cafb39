package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Duration is a time.Duration that is written as Go writes it ("1m30s") in JSON.
type Duration time.Duration

// Std returns d as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns d as Go writes it.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText returns String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses a Go duration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%.40q is not a duration such as \"1m30s\"", text)
	}
	*d = Duration(v)
	return nil
}

// Priority orders runs that are due at once. The zero value is normal.
type Priority string

// The priorities, most urgent first in Priorities.
const (
	Critical Priority = "critical"
	High     Priority = "high"
	Normal   Priority = "normal"
	Low      Priority = "low"
)

// Priorities are all priorities, most urgent first. Do not modify.
var Priorities = []Priority{Critical, High, Normal, Low}

// Or returns p, or normal for the zero value.
func (p Priority) Or() Priority {
	if p == "" {
		return Normal
	}
	return p
}

// Rank returns the place of p in Priorities, from 0; that of normal for an unknown one.
func (p Priority) Rank() int {
	if i := slices.Index(Priorities, p); i >= 0 {
		return i
	}
	return 2
}

// Guarantee says what a crash in the middle of an attempt may cost. The zero value is
// at_least_once.
type Guarantee string

// The guarantees; DESIGN 7 says how each is kept.
const (
	AtLeastOnce     Guarantee = "at_least_once"
	AtMostOnce      Guarantee = "at_most_once"
	EffectivelyOnce Guarantee = "effectively_once"
)

// Or returns g, or at_least_once for the zero value.
func (g Guarantee) Or() Guarantee {
	if g == "" {
		return AtLeastOnce
	}
	return g
}

// HTTPTarget is an HTTP call. Success is a 2xx answer.
type HTTPTarget struct {
	Method  string            `json:"method,omitempty"` // default POST
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"` // "payload" (default) or "none"
	// SigningKey names the tenant's key that signs the call; "": DefaultSigningKey, if there is
	// one.
	SigningKey string    `json:"signing_key,omitempty"`
	Auth       *HTTPAuth `json:"auth,omitempty"` // nil: none but what Headers hold
	// URLSecret names the tenant's secret that holds the URL, where whoever knows that may call.
	// URL is "" then. Only sinks of notifications have it.
	URLSecret string `json:"url_secret,omitempty"`
}

// HTTPAuth says how an HTTP call shows who makes it: exactly one field is set. Here and in what it
// holds, a field named secret, or whose name ends in _secret, is the name of a secret of the
// tenant: no value of one stands here.
type HTTPAuth struct {
	Bearer *BearerAuth        `json:"bearer,omitempty"`
	Basic  *BasicAuth         `json:"basic,omitempty"`
	Header *HeaderAuth        `json:"header,omitempty"`
	OAuth2 *ClientCredentials `json:"oauth2_client_credentials,omitempty"`
	SigV4  *SigV4Auth         `json:"aws_sigv4,omitempty"`
	MTLS   *MTLSAuth          `json:"mtls,omitempty"`
	Field  *BodyFieldAuth     `json:"body_field,omitempty"`
}

// BearerAuth is a bearer token (RFC 6750).
type BearerAuth struct {
	Secret string `json:"secret"`
}

// BasicAuth is a user and a password (RFC 7617).
type BasicAuth struct {
	Username string `json:"username"`
	Secret   string `json:"secret"` // the password
}

// HeaderAuth is a header whose value is a secret.
type HeaderAuth struct {
	Name   string `json:"name"`
	Secret string `json:"secret"`
}

// BodyFieldAuth is a member of the JSON object that is the call's body. Its value is a secret.
type BodyFieldAuth struct {
	Name   string `json:"name"`
	Secret string `json:"secret"`
}

// ClientCredentials is a token that an authorisation server gives for a client's secret (RFC 6749,
// section 4.4).
type ClientCredentials struct {
	TokenURL string            `json:"token_url"`
	ClientID string            `json:"client_id"`
	Secret   string            `json:"secret"` // of the client
	Scopes   []string          `json:"scopes,omitempty"`
	Params   map[string]string `json:"params,omitempty"` // of the request for a token, besides those of the RFC
}

// SigV4Auth is a signature as AWS asks for it (Signature Version 4).
type SigV4Auth struct {
	Region             string `json:"region"`
	Service            string `json:"service"`
	AccessKeyID        string `json:"access_key_id"`
	Secret             string `json:"secret"` // the secret access key
	SessionTokenSecret string `json:"session_token_secret,omitempty"`
}

// MTLSAuth is a certificate that is shown in the TLS handshake.
type MTLSAuth struct {
	CertificateSecret string `json:"certificate_secret"`  // PEM: the certificate, and those that lead from it to a root
	KeySecret         string `json:"key_secret"`          // PEM: its private key
	CASecret          string `json:"ca_secret,omitempty"` // PEM: who the callee's certificate is to come from; "": those of the system
}

// The ways to invoke a Lambda function.
const (
	LambdaSync  = "sync"  // the run ends when the function has
	LambdaAsync = "async" // the run has succeeded once the invocation is accepted
)

// LambdaTarget is a function of AWS Lambda. Success is an answer without a function error.
type LambdaTarget struct {
	Function    string `json:"function"` // name, or ARN; with a version or alias after a colon
	Region      string `json:"region"`
	Invocation  string `json:"invocation,omitempty"` // LambdaSync (default) or LambdaAsync
	Credentials string `json:"credentials"`          // a secret: JSON of access_key_id, secret_access_key and session_token
	Endpoint    string `json:"endpoint,omitempty"`   // "": AWS's of the region
}

// NATSTarget is a NATS request; success is a reply without the header Carillon-Error.
type NATSTarget struct {
	Subject string `json:"subject"`
}

// ScriptTarget is a command of the operator's allow list.
type ScriptTarget struct {
	Command string   `json:"command"`
	Args    []string `json:"args,omitempty"`
}

// Retry says how often and after what delays a failed attempt is repeated. Zero fields have the
// defaults of DefaultRetry.
type Retry struct {
	MaxAttempts int      `json:"max_attempts,omitempty"`
	Initial     Duration `json:"initial,omitempty"`
	Factor      float64  `json:"factor,omitempty"`
	Max         Duration `json:"max,omitempty"`
	Jitter      string   `json:"jitter,omitempty"` // "full" or "none"
}

// DefaultTimeout bounds one attempt of work that states no time-out.
const DefaultTimeout = Duration(30 * time.Second)

// DefaultRetry is the retry policy of work that states none.
var DefaultRetry = Retry{MaxAttempts: 5, Initial: Duration(time.Second), Factor: 2, Max: Duration(10 * time.Minute), Jitter: "full"}

// Work is how a run is executed: exactly one target, and its limits. Zero fields mean the defaults,
// so a row holds only what was stated; InForce fills them in.
type Work struct {
	HTTP   *HTTPTarget   `json:"http,omitempty"`
	NATS   *NATSTarget   `json:"nats,omitempty"`
	Script *ScriptTarget `json:"script,omitempty"`
	Lambda *LambdaTarget `json:"lambda,omitempty"`
	Email  *EmailTarget  `json:"email,omitempty"`

	JetStream     *JetStreamTarget     `json:"jetstream,omitempty"`
	SQS           *SQSTarget           `json:"sqs,omitempty"`
	SNS           *SNSTarget           `json:"sns,omitempty"`
	EventBridge   *EventBridgeTarget   `json:"eventbridge,omitempty"`
	StepFunctions *StepFunctionsTarget `json:"step_functions,omitempty"`
	Kafka         *KafkaTarget         `json:"kafka,omitempty"`

	Timeout   Duration  `json:"timeout,omitempty"`
	Retry     *Retry    `json:"retry,omitempty"`
	Guarantee Guarantee `json:"guarantee,omitempty"`
	// Requires are the labels that its executor has; nil: any executor runs it.
	Requires Labels `json:"requires,omitempty"`
	// Preemptible: while a run with low priority is under way, a critical run may take its slot, at
	// most MaxPreemptions times. It starts again then, and has used no attempt. Only at_least_once
	// work is stopped.
	Preemptible bool `json:"preemptible,omitempty"`
}

// MaxPreemptions is how often a run is stopped for critical ones at most.
const MaxPreemptions = 3

// InForce returns w with every default filled in. It shares nothing that it changed with w.
func (w Work) InForce() Work {
	if w.HTTP != nil {
		h := *w.HTTP
		h.Method = or(h.Method, "POST")
		h.Body = or(h.Body, "payload")
		w.HTTP = &h
	}
	if w.Lambda != nil {
		l := *w.Lambda
		l.Invocation = or(l.Invocation, LambdaSync)
		w.Lambda = &l
	}
	if w.EventBridge != nil {
		e := *w.EventBridge
		e.Bus = or(e.Bus, DefaultBus)
		w.EventBridge = &e
	}
	w.Timeout = or(w.Timeout, DefaultTimeout)
	w.Guarantee = w.Guarantee.Or()
	r := DefaultRetry
	if w.Retry != nil {
		r = *w.Retry
		r.MaxAttempts = or(r.MaxAttempts, DefaultRetry.MaxAttempts)
		r.Initial = or(r.Initial, DefaultRetry.Initial)
		r.Factor = or(r.Factor, DefaultRetry.Factor)
		r.Max = or(r.Max, DefaultRetry.Max)
		r.Jitter = or(r.Jitter, DefaultRetry.Jitter)
	}
	if w.Guarantee == AtMostOnce {
		r.MaxAttempts = 1
	}
	w.Retry = &r
	return w
}

// Secrets returns the names of the secrets that an attempt of w needs, each once.
func (w *Work) Secrets() []string {
	if w.Lambda != nil {
		return []string{w.Lambda.Credentials}
	}
	if access := w.AWS(); access != nil {
		return []string{access.Credentials}
	}
	if w.Kafka != nil {
		return w.Kafka.secrets()
	}
	if w.Email != nil && w.Email.Server != nil {
		return distinct(w.Email.Server.PasswordSecret, w.Email.Server.CASecret)
	}
	if w.HTTP == nil || w.HTTP.Auth == nil && w.HTTP.URLSecret == "" {
		return nil
	}
	return distinct(append(w.HTTP.Auth.secrets(), w.HTTP.URLSecret)...)
}

// secrets returns the names of the secrets that a needs; "" is none.
func (a *HTTPAuth) secrets() []string {
	switch {
	case a == nil:
	case a.Bearer != nil:
		return []string{a.Bearer.Secret}
	case a.Basic != nil:
		return []string{a.Basic.Secret}
	case a.Header != nil:
		return []string{a.Header.Secret}
	case a.Field != nil:
		return []string{a.Field.Secret}
	case a.OAuth2 != nil:
		return []string{a.OAuth2.Secret}
	case a.SigV4 != nil:
		return []string{a.SigV4.Secret, a.SigV4.SessionTokenSecret}
	case a.MTLS != nil:
		return []string{a.MTLS.CertificateSecret, a.MTLS.KeySecret, a.MTLS.CASecret}
	}
	return nil
}

// distinct returns the names, each once; "" is none.
func distinct(names ...string) (each []string) {
	seen := map[string]bool{"": true}
	for _, name := range names {
		if !seen[name] {
			seen[name] = true
			each = append(each, name)
		}
	}
	return each
}

// Task is a named, reusable unit of work of a tenant.
type Task struct {
	Tenant        string          `json:"-"`
	Name          string          `json:"name"`
	Work          Work            `json:"work"`
	PayloadSchema json.RawMessage `json:"payload_schema,omitempty"`
	Rate          string          `json:"rate,omitempty"`
	MaxConcurrent int             `json:"max_concurrent,omitempty"`
	Description   string          `json:"description,omitempty"`
	Region        RegionChoice    `json:"region,omitzero"`
	CreatedAt     time.Time       `json:"created_at"`
	UpdatedAt     time.Time       `json:"updated_at"`

	// Fault is set where the stored text cannot be understood (ErrNotUnderstood). Then UpdatedAt is
	// the write timestamp, and all but the names is unknown.
	Fault error `json:"-"`
}

// Overdue is how late a run is overdue: what a misfire policy acts on.
const Overdue = time.Minute

// The misfire policies: what becomes of runs that are overdue. A recurring job that states none has
// run_latest, everything else run_all.
const (
	RunAll    = "run_all"
	RunLatest = "run_latest" // of several only the last
	Skip      = "skip"       // none: it is a deadline of Overdue
)

// Misfire says what becomes of a run that could not start when it was due.
type Misfire struct {
	Policy string `json:"policy,omitempty"` // "" = by kind of job
	// Deadline: later than due + deadline it is missed; 0 = never.
	Deadline Duration `json:"deadline,omitempty"`
}

// Limit returns how late a run may start at most; false: there is no bound. m may be nil.
func (m *Misfire) Limit() (time.Duration, bool) {
	switch {
	case m == nil:
		return 0, false
	case m.Policy == Skip && m.Deadline == 0:
		return Overdue, true
	case m.Policy == Skip:
		return min(m.Deadline.Std(), Overdue), true
	}
	return m.Deadline.Std(), m.Deadline > 0
}

// Reason says why a run that is later than Limit is missed.
func (m *Misfire) Reason() string {
	if m.Policy == Skip && (m.Deadline == 0 || m.Deadline.Std() > Overdue) {
		return "skip: it could not start within " + Duration(Overdue).String()
	}
	return "deadline: it could not start within " + m.Deadline.String()
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// TaskStore holds the tasks of tenants.
type TaskStore interface {
	// PutTask creates or replaces a task.
	PutTask(ctx context.Context, t Task) error
	// Task returns a task, or ErrNotFound. With ErrNotUnderstood comes a task that has its names, a
	// Fault, and the write timestamp as UpdatedAt: it can be put again, or deleted.
	Task(ctx context.Context, tenant, name string) (Task, error)
	// Tasks returns at most limit tasks of a tenant with a name after `after`, in name order.
	Tasks(ctx context.Context, tenant, after string, limit int) ([]Task, error)
	// DeleteTask removes a task; one that does not exist is removed already.
	DeleteTask(ctx context.Context, tenant, name string, at time.Time) error
}
