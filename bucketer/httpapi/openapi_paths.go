package httpapi

import (
	"fmt"
	"strings"

	"github.com/danielgtaylor/huma/v2"
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
	"tasks": namePattern, "tenants": namePattern, "api-keys": namePattern, "signing-keys": namePattern, "secrets": namePattern, "events": namePattern,
	"jobs": jobPattern, "workflows": jobPattern, "runs": runPattern, "dead-letters": runPattern, "operations": operationPattern,
}

// describePaths gives every path parameter its pattern. The patterns are only documented: the
// handlers check, and their message says more than that a pattern does not match.
func (s documentWriter) describePaths() error {
	for path, item := range s.api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			for _, p := range op.Parameters {
				if p.In != "path" {
					continue
				}
				noun, _, _ := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/")
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
