package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/notifications"
	"carillon.dev/carillon/bucketer/operations"
	"carillon.dev/carillon/bucketer/orchestration"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// unknownKind is the kind of an answer that leaves open whether something was written.
const unknownKind = "unknown"

// notEverywhereKind is the kind of a refusal because a region does not answer that is to hold a
// copy.
const notEverywhereKind = "not-everywhere"

// notServedKind is the kind of a refusal because another region serves the home, or nobody does.
const notServedKind = "not-served"

// problemType starts the type of every problem that has a kind.
const problemType = "urn:carillon:problem:"

// Problem is an error as the API answers it (RFC 9457).
type Problem struct {
	// "urn:carillon:problem:" and the kind, or "about:blank"
	Type   string           `json:"type"`
	Title  string           `json:"title"`  // the same for every problem of a type
	Status int              `json:"status"` // the HTTP status
	Detail string           `json:"detail,omitempty"`
	Errors []bucketer.Fault `json:"errors,omitempty"` // every fault that was found
	// Where a browser begins to log in at a provider, beside a 401; absent if there is none
	LogIn string `json:"log_in,omitempty"`

	// RetryAfter says when to try again; zero means that it was not said. It travels as a header.
	RetryAfter time.Duration `json:"-"`
	// Challenge is what WWW-Authenticate says with a 401. It travels as that header.
	Challenge string `json:"-"`
}

// Error returns the problem in one line.
func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", p.Status, p.Title)
	if p.Detail != "" {
		fmt.Fprintf(&b, ": %s", p.Detail)
	}
	if len(p.Errors) > 0 {
		fmt.Fprintf(&b, ": %s", bucketer.Faults(p.Errors).Error())
	}
	return b.String()
}

// Kind returns the last part of the type: "invalid", "not-found", "key-reused", and so on.
func (p *Problem) Kind() string { return strings.TrimPrefix(p.Type, problemType) }

// GetStatus returns the HTTP status: huma asks for it.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders returns the headers that go with the problem: huma asks for them.
func (p *Problem) GetHeaders() http.Header {
	h := make(http.Header)
	if p.RetryAfter > 0 {
		h.Set("Retry-After", retrySeconds(p.RetryAfter))
	}
	if p.Challenge != "" {
		h.Set("WWW-Authenticate", p.Challenge)
	}
	return h
}

// ContentType returns the media type of a problem: huma asks for it.
func (p *Problem) ContentType(string) string { return problemJSON }

const problemJSON = "application/problem+json"

// retrySeconds returns d as Retry-After says it: whole seconds, rounded up.
func retrySeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// kind is what an error means to a caller.
type kind struct {
	name       string
	status     int
	title      string
	detail     string
	location   string // of the one fault that the error is, if it is one
	retryAfter time.Duration
}

// kinds is the one table from errors to answers. The first that matches decides.
var kinds = []struct {
	err error
	kind
}{
	{bucketer.ErrNoTask, kind{name: "no-task", status: 422, title: "The request is not valid", location: "body.task"}},
	{bucketer.ErrKeyReused, kind{name: "key-reused", status: 422, title: "The idempotency key was used before", location: "header.Idempotency-Key"}},
	{recurring.ErrNameTaken, kind{name: "name-taken", status: 409, title: "The name is taken", detail: "Another job or workflow of the tenant has it."}},
	{recurring.ErrWorkflowHasName, kind{name: "name-taken", status: 409, title: "The name is taken", detail: "A workflow of the tenant has it."}},
	{recurring.ErrJobHasName, kind{name: "name-taken", status: 409, title: "The name is taken", detail: "A job of the tenant has it that is no workflow."}},
	{admin.ErrKeyName, kind{name: "name-taken", status: 409, title: "The name is taken", detail: "The tenant has a key of this name: choose another one, or revoke that key first."}},
	{orchestration.ErrNoStep, kind{name: "no-step", status: 404, title: "The workflow run has no such step", detail: "The steps of a run are those of its workflow when the run began."}},
	{orchestration.ErrNotBegun, kind{name: "not-begun", status: 409, title: "The workflow run has not begun", detail: "Skip the step once it has, or cancel the run."}},
	{orchestration.ErrNoWorkflow, kind{name: "no-workflow", status: 409, title: "The run is not one of a workflow"}},
	{recurring.ErrStale, kind{name: "stale", status: 412, title: "It is not as it was", detail: "Somebody else changed it. Read it again, and decide again."}},
	{bucketer.ErrStale, kind{name: "stale", status: 412, title: "It is not as it was", detail: "Somebody else changed it. Read it again, and decide again."}},
	{bucketer.ErrFinished, kind{name: "finished", status: 409, title: "It cannot be changed any more", detail: "It has started, ended, or been cancelled."}},
	{runs.ErrWaitsForJobs, kind{name: "waits-for-jobs", status: 409, title: "It cannot be changed while it waits", detail: "It runs after other jobs. Cancel it, and create another one."}},
	{runs.ErrPayloadGone, kind{name: "payload-gone", status: 409, title: "The payload does not exist any more", detail: "It had left before the run failed: without it the run cannot be repeated."}},
	{bucketer.ErrPartitionFull, kind{name: "minute-full", status: 429, title: "The minute is full", detail: "Too many bytes are due in this minute. Ask for another instant, or later.", retryAfter: 30 * time.Second}},
	{bucketer.ErrOverloaded, kind{name: "overloaded", status: 429, title: "Too much is under way", detail: "Nothing was written.", retryAfter: time.Second}},
	{operations.ErrManyOperations, kind{
		name: "too-many-operations", status: 429, title: "Too many operations are open", retryAfter: 30 * time.Second,
		detail: fmt.Sprintf("Nothing was begun. A tenant may have %d operations that have not ended: wait for one, or cancel one.", operations.MaxOpenOperations),
	}},
	{bucketer.ErrNotReady, kind{name: "not-ready", status: 503, title: "This node cannot write now", detail: "Nothing was written. Another node may be able to.", retryAfter: 2 * time.Second}},
	{admin.ErrNoSeal, kind{name: "no-secrets-key", status: 409, title: "This cluster cannot keep secrets", detail: "Its operator has configured no key to encrypt them, or payloads, with: secrets.keys of the configuration, or CARILLON_SECRETS_KEYS. Each is a name, a colon, and 32 random bytes in base64."}},
	{admin.ErrManyKeys, kind{name: "too-many-keys", status: 409, title: "There are as many as there may be", detail: "Revoke a signing key, or wait until a secret that was replaced is not valid any more."}},
	{admin.ErrManySecrets, kind{
		name: "too-many-secrets", status: 409, title: "There are as many as there may be",
		detail: fmt.Sprintf("A tenant may have %d secrets: delete one that is not used.", schema.MaxSecrets),
	}},
	{notifications.ErrManyNotifications, kind{
		name: "too-many-notifications", status: 409, title: "There are as many as there may be",
		detail: fmt.Sprintf("A tenant may have %d rules for notifications: delete one, or let one rule match more.", schema.MaxNotifications),
	}},
	{recurring.ErrManyCalendars, kind{
		name: "too-many-calendars", status: 409, title: "There are as many as there may be",
		detail: fmt.Sprintf("A tenant may have %d calendars: delete one that is not used.", schema.MaxCalendars),
	}},
	{schema.ErrSealed, kind{
		name: "sealed", status: 409, title: "It is encrypted and cannot be opened here",
		detail: "The key of the operator that it was encrypted with is not configured on this node (secrets.keys), or what is stored of it is damaged.",
	}},
	{schema.ErrNotUnderstood, kind{
		name: "not-understood", status: 409, title: "What is stored of it is not understood",
		detail: "Nothing was changed. The job's fault says why. If a newer version wrote it, ask a node of that version, or upgrade this one; if its time zone is not known here, " +
			"state another one; if it is damaged, create the job again under another name.",
	}},
	{bucketer.ErrManyRates, kind{name: "too-many-rates", status: 409, title: "There are as many as there may be", detail: "So many tasks of this cluster have a rate, or require labels, that no more can."}},
	{schema.ErrNotFound, kind{name: "not-found", status: 404, title: "There is no such thing"}},
	{schema.ErrConflict, kind{name: "conflict", status: 409, title: "Somebody else changed it at the same time", detail: "Read it again, and decide again."}},
	{schema.ErrTooLarge, kind{name: "too-large", status: 413, title: "The request is too large"}},
	{schema.ErrNotEverywhere, kind{
		name: notEverywhereKind, status: 503, title: "Another region does not answer, which is to hold it too", retryAfter: 3 * time.Second,
		detail: "Nothing was taken in. It is asked for with durability everywhere: send it again, or ask for durability home.",
	}},
	{schema.ErrUnknown, kind{name: unknownKind, status: 503, title: "It is not known whether this was written", detail: "Send it again with the same idempotency key.", retryAfter: time.Second}},
	{schema.ErrNotServed, kind{name: notServedKind, status: 503, title: "This region does not serve its home", detail: "Nothing was taken in or changed. Ask the region that serves it: GET /v1/regions tells which.", retryAfter: schema.HomeLeaseLife}},
	{ErrNoExecutor, kind{
		name: "no-executor-answers", status: 503, title: "No executor answers", retryAfter: time.Second,
		detail: "Executors are asked over NATS: either this node does not reach it, or they do not. This says nothing of the store. GET /readyz and carillon cluster say what this node reaches.",
	}},
	{schema.ErrUnavailable, kind{name: "unavailable", status: 503, title: "The store cannot be reached", retryAfter: time.Second}},
	{context.DeadlineExceeded, kind{name: unknownKind, status: 503, title: "This took too long", detail: "It is not known whether anything was written. Send it again with the same idempotency key.", retryAfter: time.Second}},
	{context.Canceled, kind{name: unknownKind, status: 503, title: "The request was given up", detail: "It is not known whether anything was written.", retryAfter: time.Second}},
}

var internal = kind{name: "internal", status: 500, title: "Something went wrong here", detail: "The log of the node says what."}

func (k kind) problem(detail string) *Problem {
	if detail == "" {
		detail = k.detail
	}
	return &Problem{Type: problemType + k.name, Title: k.title, Status: k.status, Detail: detail, RetryAfter: k.retryAfter}
}

// problemOf returns the problem that err is to a caller. For errors of the store, and of ours, it
// has only their kind: the words of drivers go to the log.
func problemOf(err error) *Problem {
	var (
		problem *Problem
		faults  bucketer.Faults
		syntax  *request.NotJSONError
		quota   *admin.QuotaError
		attempt *runs.NoAttemptError
		oneOff  *recurring.OneOffUpstreams
		used    *recurring.CalendarInUseError
	)
	switch {
	case errors.As(err, &used):
		return calendarInUse(used)
	case errors.As(err, &quota):
		return quotaProblem(quota)
	case errors.As(err, &oneOff):
		return invalid(bucketer.Fault{Location: "body.after.jobs", Message: "must be jobs that can have many runs, as this one can"})
	case errors.As(err, &attempt):
		return noAttempt(attempt)
	case errors.As(err, &problem):
		return problem
	case changeProblem(err) != nil:
		return changeProblem(err)
	case errors.As(err, &faults):
		return invalid(faults...)
	case errors.As(err, &syntax):
		return &Problem{Type: problemType + "not-json", Title: "The body is not JSON", Status: http.StatusBadRequest, Detail: syntax.Error()}
	}
	// what is wrong with it is no fault of the request
	stored := errors.Is(err, schema.ErrNotUnderstood)
	if faults := request.ScheduleFaults(err); len(faults) > 0 && !stored {
		return invalid(faults...)
	}
	for i := range kinds {
		if k := &kinds[i]; errors.Is(err, k.err) {
			p := k.problem("")
			if k.location != "" {
				p.Errors = []bucketer.Fault{{Location: k.location, Message: k.err.Error()}}
			}
			return p.ofHome(err).ofCopies(err)
		}
	}
	return internal.problem("")
}

// calendarInUse is the problem of deleting a calendar that jobs use.
func calendarInUse(used *recurring.CalendarInUseError) *Problem {
	detail := "These jobs use it: " + strings.Join(used.Jobs, ", ")
	if used.More {
		detail += ", and others"
	}
	return &Problem{Type: problemType + "calendar-in-use", Title: "The calendar is in use", Status: http.StatusConflict, Detail: detail + "."}
}

// ofHome returns p with what err says of the home that this region does not serve.
func (p *Problem) ofHome(err error) *Problem {
	var home *schema.NotServedError
	switch {
	case !errors.As(err, &home):
	case p.Kind() == unknownKind: // it was when the work on it began
		p.Detail = "This region lost its lease on home " + home.Home + " meanwhile. " + p.Detail
	default:
		p.Detail = "Nothing was taken in or changed: " + home.Error() + "."
		if again := home.RetryAfter(); again > 0 { // else another region is to be asked, and this one once the home may have failed over
			p.RetryAfter = again
		}
	}
	return p
}

// ofCopies returns p with what err says of the regions that are to hold a copy.
func (p *Problem) ofCopies(err error) *Problem {
	var missing *schema.NotEverywhereError
	if !errors.As(err, &missing) {
		return p
	}
	regions := strings.Join(missing.Regions, " or ")
	if !missing.Written {
		p.Detail = "Nothing was taken in: region " + regions + " does not answer, and what is asked for with durability everywhere is to be held there too. Send it again, or ask for durability home."
		return p
	}
	again := problemOf(schema.ErrUnknown)
	again.Detail = "Nothing is lost: this region has written it and acts by it. But region " + regions + " does not answer, which is to hold it too (durability everywhere). " +
		"Send it again, with the same idempotency key if it has one: that asks for the copies again."
	again.RetryAfter = p.RetryAfter
	return again
}

// ofRead returns p for a request that wrote nothing, so no write can be left open.
func (p *Problem) ofRead() *Problem {
	if p.Kind() != unknownKind {
		return p
	}
	read := problemOf(schema.ErrUnavailable)
	read.Detail = "No answer came in time. Nothing was changed: ask again."
	return read
}

// invalid is the problem of a request with faults.
func invalid(faults ...bucketer.Fault) *Problem {
	return &Problem{Type: problemType + "invalid", Title: "The request is not valid", Status: http.StatusUnprocessableEntity, Errors: faults}
}

// plain is a problem that its status says all about.
func plain(status int, detail string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}

// notFound is the problem of an address at which nothing is.
func notFound(detail string) *Problem {
	p := problemOf(schema.ErrNotFound)
	p.Detail = detail
	return p
}

// noAttempt is the problem of a request for an attempt that never began. It says which did.
func noAttempt(e *runs.NoAttemptError) *Problem {
	has := "No attempt of it has begun."
	if n := len(e.Begun); n > 0 {
		has = "It has attempt " + strconv.Itoa(e.Begun[0])
		for i, number := range e.Begun[1:] {
			has += map[bool]string{true: " and ", false: ", "}[i == n-2] + strconv.Itoa(number)
		}
		has += "."
	}
	p := notFound(fmt.Sprintf("The run has no attempt %d. %s", e.Number, has))
	p.Errors = []bucketer.Fault{{Location: "query.attempt", Message: "is no attempt of the run", Value: e.Number}}
	return p
}

// asProblem makes a Problem of an error model of huma, which speaks of parameters.
func asProblem(ctx huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := plain(m.Status, m.Detail)
	if m.Status == http.StatusUnprocessableEntity {
		p = invalid()
	}
	for _, e := range withOthers(ctx, m.Errors) {
		if e == nil {
			continue
		}
		at := e.Location
		if strings.HasPrefix(at, "query.") { // its value says which of several it is
			at, _, _ = strings.Cut(at, "[")
		}
		p.Errors = append(p.Errors, bucketer.Fault{Location: at, Message: e.Message, Value: e.Value})
	}
	return p, nil
}

// unknownParameter is what huma says of a query parameter that an operation does not have. Where there
// is one it looks at no other.
const unknownParameter = "unknown query parameter"

// withOthers adds to faults that name unknown query parameters what is wrong with the known ones, so
// that an answer has every fault.
func withOthers(ctx huma.Context, faults []*huma.ErrorDetail) []*huma.ErrorDetail {
	unknown := func(e *huma.ErrorDetail) bool { return e != nil && e.Message == unknownParameter }
	if ctx == nil || ctx.Operation() == nil || !slices.ContainsFunc(faults, unknown) {
		return faults
	}
	faults = slices.Clone(faults)
	slices.SortStableFunc(faults, func(a, b *huma.ErrorDetail) int { return cmp.Compare(a.Location, b.Location) }) // they come in any order
	url := ctx.URL()
	stated := url.Query()
	found := new(huma.ValidateResult)
	for _, p := range ctx.Operation().Parameters {
		if p.In == "query" && p.Schema != nil {
			checkParameter(p, stated[p.Name], found)
		}
	}
	for _, err := range found.Errors {
		var e *huma.ErrorDetail
		if errors.As(err, &e) {
			faults = append(faults, e)
		}
	}
	return faults
}

// checkParameter finds fault with the values of a query parameter, as huma does.
func checkParameter(p *huma.Param, values []string, found *huma.ValidateResult) {
	at := huma.NewPathBuffer(make([]byte, 0, 64), 0)
	at.Push("query")
	at.Push(p.Name)
	if len(values) == 0 || values[0] == "" {
		if p.Required {
			found.Add(at, "", "required query parameter is missing")
		}
		return
	}
	var value any = values[0]
	var err error
	switch p.Schema.Type {
	case huma.TypeInteger:
		if value, err = strconv.ParseInt(values[0], 10, 64); err != nil {
			found.Add(at, values[0], "invalid integer")
			return
		}
	case huma.TypeBoolean:
		if value, err = strconv.ParseBool(values[0]); err != nil {
			found.Add(at, values[0], "invalid boolean")
			return
		}
	case huma.TypeArray:
		list := make([]any, len(values))
		for i := range values {
			list[i] = values[i]
		}
		value = list
	}
	huma.Validate(nil, p.Schema, at, huma.ModeWriteToServer, value, found)
}
