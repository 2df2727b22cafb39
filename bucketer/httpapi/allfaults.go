package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// A list whose limit is out of range, or whose parameter has no value that it may have, is refused
// by the rules of the document, before its handler has looked at it. So that one answer names every
// fault, the handler is asked for those that only it finds.

// onlyFaults is the cursor with which a list is asked only for what is wrong with the request: it
// answers an invalid problem, if one without faults. No client can send it: it is too long.
var onlyFaults = strings.Repeat("?", 10_000)

// serverOf is the key of the Server in the metadata of an operation.
const serverOf = "server"

// moreFaults returns what is wrong with a list besides what the document's rules say, if they find
// fault with it; else nothing, as the handler says all itself. ask is the handler, asked with the
// cursor onlyFaults. What follows from a value that could not be read is left out.
func moreFaults(ctx huma.Context, ask func(ctx context.Context, s *Server) error) []error {
	s, ok := ctx.Operation().Metadata[serverOf].(*Server)
	if !ok {
		return nil
	}
	known := new(huma.ValidateResult)
	url := ctx.URL()
	stated := url.Query()
	for _, p := range ctx.Operation().Parameters {
		if p.In == "query" && p.Schema != nil {
			checkParameter(p, stated[p.Name], known)
		}
	}
	if len(known.Errors) == 0 {
		return nil
	}
	told := map[string]bool{"query.cursor": true}
	for _, err := range known.Errors {
		var e *huma.ErrorDetail
		if errors.As(err, &e) {
			at, _, _ := strings.Cut(e.Location, "[")
			told[at] = true
		}
	}
	if told["query.from"] || told["query.to"] { // a window has two ends
		told["query.from"], told["query.to"] = true, true
	}
	var p *Problem
	if err := ask(ctx.Context(), s); !errors.As(err, &p) || p.Status != http.StatusUnprocessableEntity {
		return nil
	}
	var more []error
	for _, f := range p.Errors {
		if !told[f.Location] {
			more = append(more, &huma.ErrorDetail{Location: f.Location, Message: f.Message, Value: f.Value})
		}
	}
	return more
}

// Resolve implements huma.Resolver.
func (in *runFilter) Resolve(ctx huma.Context) []error {
	return moreFaults(ctx, func(ctx context.Context, s *Server) error {
		asked := *in
		asked.Cursor = onlyFaults
		_, err := runRoutes{s}.listRuns(ctx, &asked)
		return err
	})
}

// Resolve implements huma.Resolver.
func (in *logFilter) Resolve(ctx huma.Context) []error {
	return moreFaults(ctx, func(ctx context.Context, s *Server) error {
		asked := *in
		asked.Cursor = onlyFaults
		_, err := logRoutes{s}.searchLogs(ctx, &asked)
		return err
	})
}

// Resolve implements huma.Resolver.
func (in *eventFilter) Resolve(ctx huma.Context) []error {
	return moreFaults(ctx, func(ctx context.Context, s *Server) error {
		asked := *in
		asked.Cursor = onlyFaults
		_, err := eventRoutes{s}.list(ctx, &asked)
		return err
	})
}

// Resolve implements huma.Resolver.
func (in *letterFilter) Resolve(ctx huma.Context) []error {
	return moreFaults(ctx, func(ctx context.Context, s *Server) error {
		asked := *in
		asked.Cursor = onlyFaults
		_, err := deadLetterRoutes{s}.listLetters(ctx, &asked)
		return err
	})
}

// Resolve implements huma.Resolver.
func (in *auditFilter) Resolve(ctx huma.Context) []error {
	return moreFaults(ctx, func(ctx context.Context, s *Server) error {
		asked := *in
		asked.Cursor = onlyFaults
		_, err := auditRoutes{s}.listAudit(ctx, &asked)
		return err
	})
}

// Resolve implements huma.Resolver.
func (in *jobRunsPage) Resolve(ctx huma.Context) []error {
	return moreFaults(ctx, func(ctx context.Context, s *Server) error {
		asked := *in
		asked.Cursor = onlyFaults
		_, err := recurringRoutes{s}.readHistoryPage(ctx, &asked)
		return err
	})
}
