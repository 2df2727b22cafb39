package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// conflicts are the kinds of problems with which an operation may answer 409, and what is full
// where it answers 429, beside what any may: the examples of the document.
var conflicts = map[string][]string{
	"create-job":         {"name-taken", "conflict", "minute-full"},
	"import-jobs":        {"minute-full"},
	"put-job":            {"name-taken", "conflict", "finished", "not-understood"},
	"patch-job":          {"finished", "waits-for-jobs", "conflict", "not-understood", "payload-gone", "minute-full"},
	"cancel-job":         {"finished", "conflict", "not-understood"},
	"pause-job":          {"one-off", "finished", "not-understood", "conflict"},
	"resume-job":         {"one-off", "finished", "not-understood", "conflict"},
	"trigger-job":        {"one-off", "finished", "not-understood", "minute-full"},
	"create-backfill":    {"finished", "not-understood", "too-many-operations"},
	"preview-backfill":   {"finished", "not-understood", "too-many-searches"},
	"put-task":           {"too-many-rates"},
	"cancel-run":         {"finished", "conflict"},
	"retry-run":          {"not-finished", "step", "payload-gone", "minute-full"},
	"skip-step":          {"no-step", "not-begun", "no-workflow", "finished", "conflict"},
	"put-workflow":       {"name-taken", "conflict", "finished", "not-understood"},
	"delete-workflow":    {"finished", "conflict", "not-understood"},
	"pause-workflow":     {"finished", "not-understood", "conflict"},
	"resume-workflow":    {"finished", "not-understood", "conflict"},
	"trigger-workflow":   {"finished", "not-understood", "minute-full"},
	"get-workflow-graph": {"not-understood"},
	"get-run-graph":      {"not-understood"},
	"replay-dead-letter": {"payload-gone", "minute-full"},
	"create-session":     {"auth-off", "needs-tls"},
	"begin-operation":    {"too-many-operations"},
	"get-operation":      {"not-understood"},
	"cancel-operation":   {"finished"},
	"create-api-key":     {"name-taken"},
	"create-signing-key": {"no-secrets-key", "too-many-keys", "name-taken"},
	"rotate-signing-key": {"no-secrets-key", "too-many-keys", "conflict"},
	"put-tenant":         {"no-secrets-key"},
	"get-run-output":     {"sealed"},
	"list-run-logs":      {"sealed"},
	"put-secret":         {"no-secrets-key", "too-many-secrets", "not-understood"},
	"get-secret":         {"not-understood"},
	"delete-secret":      {"not-understood"},
	"move-home":          {"home-not-changed", "change-under-way"},
	"fail-over-home":     {"home-not-changed", "change-under-way", "home-decided"},
	"put-notification":   {"too-many-notifications"},
	"put-calendar":       {"too-many-calendars"},
	"get-calendar":       {"not-understood"},
	"delete-calendar":    {"calendar-in-use"},
	"get-notification":   {"not-understood"},
	"test-notification":  {"not-understood", "minute-full"},
	"search-logs":        {"too-many-searches"},
	"list-runs":          {"too-many-searches"},
	"get-stats-states":   {"too-many-searches"},
	"export-history":     {"too-many-searches"},
	"list-targets":       {"no-executor-answers"},
	"reset-target":       {"no-executor-answers"},
}

// problemExamples returns a problem of each kind, as the API answers it, by name.
func problemExamples() map[string]*Problem {
	examples := map[string]*Problem{
		"invalid": invalid(
			bucketer.Fault{Location: "body.schedule.cron", Message: "never fires: no day matches it", Value: "0 0 30 2 *"},
			bucketer.Fault{Location: "query.limit", Message: "expected number <= 500", Value: 1000},
		),
		"not-json":        problemOf(&request.NotJSONError{Offset: 17, What: "a comma was expected"}),
		"unauthenticated": unauthenticated("Send it in the header Authorization: Bearer <key>.", noToken),
		"read-only":       readOnly(),
		"auth-off":        authOff(),
		"needs-tls":       needsTLS("carillon.example"),
		"forbidden":       forbidden("This needs the role operator; the key has viewer."),
		"quota":           quotaProblem(&admin.QuotaError{Quota: "runs_per_minute", Limit: 6000, RetryAfter: time.Second}),
		"step":            stepProblem(schema.MakeEntryID(time.Unix(1795253400, 0), 3, 9)),
		"one-off":         oneOffProblem("It can be given another time, or be cancelled."),
		"not-finished":    notFinished(schema.StateRunning),
		"calendar-in-use": calendarInUse(&recurring.CalendarInUseError{Jobs: []string{"nightly-report", "weekly-report"}}),
		"timeout":         plain(http.StatusRequestTimeout, "The body did not come in time."),
		"media-type":      plain(http.StatusUnsupportedMediaType, "The content type must be application/json, in UTF-8."),
		"internal":        internal.problem(""),
		"home-not-changed": problemOf(&schema.ChangeRefusedError{Faults: []schema.ChangeFault{
			{Field: "to", Message: "region us gives no sign of life: it could not serve home eu"},
			{Field: "home", Message: "region eu gives signs of life: move the home"},
		}}),
		"change-under-way": problemOf(&schema.ChangeUnderWayError{By: schema.HomeProgress{
			Home: "eu", To: "us", By: "ann", Reason: "power works", Phase: schema.PhaseDraining, Began: time.Unix(1795253400, 0),
		}}),
		"home-decided": problemOf(&schema.ChangeLostError{Stands: schema.Epoch{Home: "eu", Number: 2, Region: "us", By: "ann", Reason: "eu has no power", At: time.Unix(1795253400, 0)}}),
	}
	examples["too-many-searches"] = tooManySearches()
	for i := range kinds {
		if k := &kinds[i]; examples[k.name] == nil {
			examples[k.name] = problemOf(k.err)
		}
	}
	return examples
}

// examplesOf returns the names of the examples of an operation that is answered with that status.
func examplesOf(op *huma.Operation, status int) []string {
	reads := onlyReads(op.Method, op.Path)
	usual := map[int][]string{
		http.StatusBadRequest:            {"not-json"},
		http.StatusUnauthorized:          {"unauthenticated"},
		http.StatusForbidden:             {"forbidden"},
		http.StatusNotFound:              {"not-found"},
		http.StatusRequestTimeout:        {"timeout"},
		http.StatusPreconditionFailed:    {"stale"},
		http.StatusRequestEntityTooLarge: {"too-large"},
		http.StatusUnsupportedMediaType:  {"media-type"},
		http.StatusUnprocessableEntity:   {"invalid"},
		http.StatusTooManyRequests:       {"overloaded"},
		http.StatusInternalServerError:   {"internal"},
		http.StatusServiceUnavailable:    {"unavailable"},
	}[status]
	switch {
	case status == http.StatusServiceUnavailable && !reads:
		usual = append(usual, "not-ready", "not-served", notEverywhereKind, unknownKind)
	case status == http.StatusForbidden && !reads:
		usual = append(usual, "read-only")
	case status == http.StatusTooManyRequests && op.RequestBody != nil && !reads && (strings.HasPrefix(op.Path, "/v1/jobs") || strings.HasPrefix(op.Path, workflowsPath)):
		usual = append(usual, "quota")
	case status == http.StatusUnprocessableEntity && slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return p.Name == keyHeader }):
		usual = append(usual, "key-reused")
	}
	return usual
}

// addProblems gives each problem that an operation may be answered with its examples. They are the
// same for all, and lie together.
func (s documentWriter) addProblems() error {
	doc := s.api.OpenAPI()
	examples := problemExamples()
	doc.Components.Examples = make(map[string]*huma.Example)
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			for code, response := range op.Responses {
				media := response.Content[problemJSON]
				if media == nil {
					continue
				}
				status, err := strconv.Atoi(code)
				if err != nil {
					return fmt.Errorf("a response of %s to %q: %w", op.OperationID, code, err)
				}
				names := examplesOf(op, status)
				for _, name := range conflicts[op.OperationID] {
					if examples[name].Status == status {
						names = append(names, name)
					}
				}
				if len(names) == 0 {
					return fmt.Errorf("the OpenAPI document has no example of %s answering %d", op.OperationID, status)
				}
				media.Examples = make(map[string]*huma.Example, len(names))
				for _, name := range names {
					media.Examples[name] = &huma.Example{Ref: "#/components/examples/" + name}
					if doc.Components.Examples[name] != nil {
						continue
					}
					value, err := asValue(examples[name])
					if err != nil {
						return fmt.Errorf("example %s: %w", name, err)
					}
					doc.Components.Examples[name] = &huma.Example{Summary: examples[name].Title, Value: value}
				}
			}
		}
	}
	return nil
}

// asValue returns a problem as a reader of its JSON has it.
func asValue(p *Problem) (v any, err error) {
	text, err := json.Marshal(p)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	return v, err
}
