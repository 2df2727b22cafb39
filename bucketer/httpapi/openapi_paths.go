package httpapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer/request"
)

// The patterns of what stands in paths. Ids are taken in upper case too, and answered in lower
// case.
const (
	uuidPattern      = `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[78][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}`
	runPattern       = `^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-8[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$`
	operationPattern = `^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$`
	jobPattern       = `^(` + uuidPattern + `|[a-z0-9][a-z0-9._-]{0,62})$`
)

// pathPatterns are the patterns of path parameters, by the noun after /v1.
var pathPatterns = map[string]string{
	"tasks": namePattern, "tenants": namePattern, "api-keys": namePattern, "signing-keys": namePattern, "secrets": namePattern, "notifications": namePattern, "calendars": namePattern, "events": namePattern,
	"jobs": jobPattern, "workflows": jobPattern, "runs": runPattern, "dead-letters": runPattern, "operations": operationPattern,
	"regions": request.HomePattern,
}

// headerPatterns are the patterns of header parameters; the tenant's stands where that is described.
var headerPatterns = map[string]string{
	keyHeader:  `^("[^\x00-\x1f\x7f-\x9f]+"|[^"\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*)$`,
	"If-Match": `^(\*|"[^"]+"( *, *"[^"]+")*)$`,
}

// tags are the groups of operations in the document, in its order. An operation is in that of the
// noun after /v1, or in the last one.
var tags = []*huma.Tag{
	{Name: "jobs", Description: "Recurring, one-off and triggered jobs, and jobs after jobs"},
	{Name: "runs", Description: "What jobs and workflows start, attempt by attempt"},
	{Name: "history", Description: "The runs of a day, to keep elsewhere"},
	{Name: "logs", Description: "What runs logged, across runs"},
	{Name: "workflows", Description: "Graphs of steps"},
	{Name: "tasks", Description: "Named work that jobs and steps call"},
	{Name: "schedules", Description: "Rules in words and times"},
	{Name: "calendars", Description: "Dates, such as holidays, that schedules leave out or move from"},
	{Name: "events", Description: "What starts jobs, and what steps wait for"},
	{Name: "imports", Description: "Many jobs at once"},
	{Name: "operations", Description: "One thing done to everything that matches"},
	{Name: "dead-letters", Description: "Runs that failed for good"},
	{Name: "stuck", Description: "Runs that have waited for other jobs beyond their deadline"},
	{Name: "targets", Description: "What is called, and its circuit breakers"},
	{Name: "secrets", Description: "Values that calls are made with"},
	{Name: "signing-keys", Description: "Keys by which calls are signed"},
	{Name: "notifications", Description: "Rules by which a tenant is told what happens to its runs"},
	{Name: "tenants", Description: "Weights and quotas"},
	{Name: "api-keys", Description: "Who may ask"},
	{Name: "session", Description: "A key as the cookie of a browser"},
	{Name: "whoami", Description: "Who asks"},
	{Name: "audit", Description: "Who changed what"},
	{Name: "stats", Description: "What was done, minute by minute"},
	{Name: "cluster", Description: "Members and shards"},
	{Name: "regions", Description: "Who serves which shards, and who is to"},
	{Name: "node", Description: "The node that answers"},
}

// nounOf returns the noun of which a path is.
func nounOf(path string) string {
	noun, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(path, "/v1/"), "admin/"), "/")
	return noun
}

// describeTags puts every operation into a group.
func (s documentWriter) describeTags() {
	s.api.OpenAPI().Tags = tags
	for path, item := range s.api.OpenAPI().Paths {
		noun := nounOf(path)
		if !slices.ContainsFunc(tags, func(t *huma.Tag) bool { return t.Name == noun }) {
			noun = tags[len(tags)-1].Name
		}
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete} {
			if op != nil {
				op.Tags = []string{noun}
			}
		}
	}
}

// describeParameters gives every parameter in paths and headers its pattern. The patterns are only
// documented: the handlers check, and their message says more than that a pattern does not match.
func (s documentWriter) describeParameters() error {
	for path, item := range s.api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			for _, p := range op.Parameters {
				if pattern := headerPatterns[p.Name]; p.In == "header" && pattern != "" {
					p.Schema.Pattern = pattern
				}
				if p.In != "path" {
					continue
				}
				noun := nounOf(path)
				pattern, ok := pathPatterns[noun]
				if !ok {
					return fmt.Errorf("the OpenAPI document has no pattern of %s in %s", p.Name, path)
				}
				if op.OperationID == "put-job" || op.OperationID == "put-workflow" || p.Name == "step" { // by its name alone
					pattern = namePattern
				}
				p.Schema.Pattern = pattern
			}
		}
	}
	return nil
}
