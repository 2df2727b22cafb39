package trace

import (
	"net/url"
	"strconv"
	"time"

	"carillon.dev/carillon/schema"
)

// Kind says which side of a call a span is. The zero value is neither.
type Kind int

// The kinds.
const (
	Internal Kind = iota
	Server
	Client
)

// Span is a span that has ended.
type Span struct {
	Trace      [16]byte
	ID         SpanID
	Parent     SpanID // zero: it is the first of its trace
	Name       string
	Kind       Kind
	Start, End time.Time // End is not before Start
	Attrs      []Attr
	Links      []Link
	Failed     bool
	Error      string // why it failed
}

// Attr is an attribute of a span: a text, or a number where that is empty.
type Attr struct {
	Key    string
	Text   string
	Number int64
}

// Link names a span of another trace.
type Link struct {
	Trace [16]byte
	Span  SpanID
}

// LinkTo returns the link to the span of a run.
func LinkTo(run schema.RunID) Link { return Link{run, RunSpan(run)} }

// Sink takes spans to send. It does not block, and may drop them.
type Sink interface {
	Send(spans ...Span)
}

// Tracer is what an executor needs to trace its runs. The zero Tracer samples and sends nothing.
type Tracer struct {
	Sampler Sampler
	Sink    Sink   // nil: nothing is sent, and callees are told what Sampler says
	Storm   *Storm // bounds what is sent of runs that are not sampled; nil: no bound
}

// On reports whether spans are sent.
func (t *Tracer) On() bool { return t.Sink != nil }

// Foresees reports, at the start of an attempt, whether its spans will be sent however it ends.
// late is how late the first attempt of the run started; of a later attempt it says nothing.
func (t *Tracer) Foresees(e *schema.Entry, number int, late time.Duration) bool {
	return t.Sampler.SamplesRun(e) || t.Sink != nil && t.Sampler.on && isOdd(number, late) && t.Storm.sends(e)
}

// Sends reports whether the spans of an attempt, or of a run that ended by it, are sent. About late
// see Foresees.
func (t *Tracer) Sends(e *schema.Entry, number int, late time.Duration, outcome schema.Outcome) bool {
	return t.Sink != nil && (t.Sampler.SamplesRun(e) || t.Sampler.on && (isOdd(number, late) || isFailure(outcome)) && t.Storm.sends(e))
}

// EndOfWorkflow sends the span of a run of a workflow, which nobody executes, once it has ended.
func (t *Tracer) EndOfWorkflow(e *schema.Entry, rec *schema.Record) {
	if t.Sends(e, 1, rec.Started.Sub(e.LatenessFrom()), rec.Outcome) {
		t.Sink.Send((&Run{Entry: e, Number: 1, Record: rec}).Span())
	}
}

// isOdd reports whether a run is sent for how it began: late, or more than once.
func isOdd(number int, late time.Duration) bool {
	return number > 1 || number == 1 && late > schema.LateStart
}

// isFailure reports whether a run is sent for its outcome, or that of one of its attempts.
func isFailure(o schema.Outcome) bool {
	switch o {
	case schema.Failed, schema.TimedOut, schema.Lost, schema.Missed:
		return true
	}
	return false
}

// Attempt is an attempt that has ended.
type Attempt struct {
	Entry    *schema.Entry // that started it
	Number   int
	Fence    schema.Fence
	Work     *schema.Work // nil: not known
	Record   *schema.Record
	Received time.Time // when its executor got the message; zero: not known, and how it waited neither
}

// Spans returns the spans of the attempt.
func (a *Attempt) Spans() []Span {
	run, rec := a.Entry.Run(), a.Record
	span := Span{
		Trace: run, ID: AttemptSpan(run, a.Number, a.Fence), Parent: RunSpan(run), Name: "attempt " + strconv.Itoa(a.Number), Kind: Client,
		Start: rec.Started, End: latest(rec.Finished, rec.Started),
	}
	span.Attrs = append(make([]Attr, 0, 10),
		Attr{Key: "carillon.attempt", Number: int64(a.Number)}, Attr{Key: "carillon.outcome", Text: string(rec.Outcome)},
		Attr{Key: "carillon.executor", Text: rec.Executor})
	if rec.Region != "" {
		span.Attrs = append(span.Attrs, Attr{Key: "carillon.region", Text: rec.Region})
	}
	if late := rec.Started.Sub(a.due()).Milliseconds(); a.Number == 1 && late > 0 {
		span.Attrs = append(span.Attrs, Attr{Key: "carillon.lateness_ms", Number: late})
	}
	span.Attrs = appendCall(span.Attrs, a.Work, rec)
	span.fail(rec)
	if a.Received.IsZero() {
		return []Span{span}
	}
	spans := make([]Span, 0, 3)
	due, number := a.due(), span.Attrs[:1:1]
	if a.Received.After(due) && !rec.Started.Before(a.Received) {
		spans = append(spans, Span{Trace: run, ID: span.ID.part(1), Parent: span.Parent, Name: "dispatch", Start: due, End: a.Received, Attrs: number})
		due = a.Received
	}
	if !rec.Started.Before(due) {
		spans = append(spans, Span{Trace: run, ID: span.ID.part(2), Parent: span.Parent, Name: "wait", Start: due, End: rec.Started, Attrs: number})
	}
	return append(spans, span)
}

// due returns the instant from which the attempt could have started.
func (a *Attempt) due() time.Time {
	if a.Number == 1 {
		return a.Entry.LatenessFrom()
	}
	return a.Entry.RequestedAt()
}

// Run is a run that has ended.
type Run struct {
	Entry  *schema.Entry // by which it ended
	Number int           // of its last attempt; 0: Record says why none was made
	Record *schema.Record
}

// Span returns the span of the run. It begins when the run was due. A run that was retried, after
// it was moved to a later time, begins when it was due first: nothing else is known then.
func (r *Run) Span() Span {
	e, rec := r.Entry, r.Record
	run, spec := e.Run(), &e.Spec
	s := Span{Trace: run, ID: RunSpan(run), Name: "run", Start: r.start(), End: rec.Finished}
	s.End = latest(s.End, s.Start)
	s.Attrs = append(make([]Attr, 0, 10),
		Attr{Key: "carillon.run", Text: run.String()}, Attr{Key: "carillon.tenant", Text: spec.Tenant}, Attr{Key: "carillon.outcome", Text: string(rec.Outcome)},
		Attr{Key: "carillon.priority", Text: string(spec.Priority.Or())}, Attr{Key: "carillon.attempts", Number: int64(r.Number)})
	if !spec.Job.IsZero() {
		s.Attrs = append(s.Attrs, Attr{Key: "carillon.job", Text: spec.Job.String()})
	}
	for _, a := range [...]Attr{{Key: "carillon.job_name", Text: spec.JobName}, {Key: "carillon.task", Text: spec.Task}, {Key: "carillon.reason", Text: rec.Reason}} {
		if a.Text != "" {
			s.Attrs = append(s.Attrs, a)
		}
	}
	if step := spec.Step; step != nil {
		s.Attrs = append(s.Attrs, Attr{Key: "carillon.step", Text: step.Name})
		s.Links = []Link{LinkTo(step.Workflow)}
	}
	s.fail(rec)
	return s
}

func (r *Run) start() time.Time {
	e := r.Entry
	if r.Number <= 1 && e.Spec.AttemptNumber() == 1 {
		return e.LatenessFrom()
	}
	due := e.Run().Time()
	if e.Run().IsStep() {
		due = e.RequestedAt()
		if step := e.Spec.Step; step != nil && !step.Due.IsZero() {
			due = step.Due
		}
	}
	if began := time.UnixMicro(e.Spec.Began).UTC(); e.Spec.Began != 0 && began.Before(due) {
		return began // it was moved to an earlier time
	}
	return due
}

// fail notes that the span failed, if its record says so.
func (s *Span) fail(rec *schema.Record) {
	if isFailure(rec.Outcome) {
		s.Failed, s.Error = true, rec.Error
	}
}

// appendCall adds what was called, in the words of OpenTelemetry's conventions. Of a URL only host
// and port are told: path and query may hold secrets, as those of web hooks do.
func appendCall(attrs []Attr, work *schema.Work, rec *schema.Record) []Attr {
	switch {
	case work == nil:
	case work.HTTP != nil:
		method := work.HTTP.Method
		if method == "" {
			method = "POST"
		}
		attrs = append(attrs, Attr{Key: "http.request.method", Text: method})
		if u, err := url.Parse(work.HTTP.URL); err == nil && u.Hostname() != "" {
			attrs = append(attrs, Attr{Key: "server.address", Text: u.Hostname()}, Attr{Key: "url.scheme", Text: u.Scheme})
			if port, err := strconv.Atoi(u.Port()); err == nil {
				attrs = append(attrs, Attr{Key: "server.port", Number: int64(port)})
			}
		}
		if rec.Status != 0 {
			attrs = append(attrs, Attr{Key: "http.response.status_code", Number: int64(rec.Status)})
		}
	case work.NATS != nil:
		attrs = append(attrs, Attr{Key: "messaging.system", Text: "nats"}, Attr{Key: "messaging.destination.name", Text: work.NATS.Subject})
	case work.Script != nil:
		attrs = append(attrs, Attr{Key: "process.executable.name", Text: work.Script.Command})
		if rec.Status != 0 {
			attrs = append(attrs, Attr{Key: "process.exit.code", Number: int64(rec.Status)})
		}
	case work.Lambda != nil:
		attrs = append(attrs, Attr{Key: "faas.invoked_provider", Text: "aws"}, Attr{Key: "faas.invoked_name", Text: work.Lambda.Function})
	case work.Email != nil && work.Email.Server != nil:
		s := work.Email.Server.InForce()
		attrs = append(attrs, Attr{Key: "server.address", Text: s.Host}, Attr{Key: "server.port", Number: int64(s.Port)})
	default:
		attrs = appendMessage(attrs, work)
	}
	if isFailure(rec.Outcome) {
		kind := string(rec.Outcome)
		if work != nil && work.HTTP != nil && rec.Status >= 400 {
			kind = strconv.Itoa(rec.Status)
		}
		attrs = append(attrs, Attr{Key: "error.type", Text: kind})
	}
	return attrs
}

// messaging are the names that OpenTelemetry has for what takes messages, by the kind of work.
var messaging = map[string]string{
	"jetstream": "nats", "sqs": "aws_sqs", "sns": "aws.sns", "eventbridge": "aws.eventbridge", "step_functions": "aws.step_functions", "kafka": "kafka",
}

// appendMessage adds where a message went.
func appendMessage(attrs []Attr, work *schema.Work) []Attr {
	kind, to := work.Message()
	if kind == "" {
		return attrs
	}
	return append(attrs, Attr{Key: "messaging.system", Text: messaging[kind]}, Attr{Key: "messaging.destination.name", Text: to})
}

// latest returns the later of two instants.
func latest(t, other time.Time) time.Time {
	if other.After(t) {
		return other
	}
	return t
}
