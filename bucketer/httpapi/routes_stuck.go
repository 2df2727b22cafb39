package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/schema"
)

const stuckPath = "/v1/stuck"

type stuckFilter struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The most items of one answer"`
	Cursor string `query:"cursor" maxLength:"1024" doc:"next_cursor of the answer before; opaque, and good only for the same list"`
}

// stuckRoutes serves runs that wait for other jobs for too long.
type stuckRoutes struct{ *Server }

func (s stuckRoutes) route() {
	list := s.operation("list-stuck", http.MethodGet, stuckPath, "Runs that wait for other jobs beyond their deadline", 200, 422, 503)
	list.Description = "In the order in which their chains began. Such a run still starts if the jobs end that it runs after; a cancel ends it. An answer may hold fewer items than limit, even none, and still have next_cursor."
	huma.Register(s.api, list, s.list)
}

func (s stuckRoutes) list(ctx context.Context, in *stuckFilter) (*runList, error) {
	var after schema.RunID
	question := []any{"stuck", tenantOf(ctx)}
	if in.Cursor != "" {
		var p *Problem
		if err := s.cursors.read(in.Cursor, question, &after); errors.As(err, &p) {
			return nil, invalid(p.Errors...)
		}
	}
	found, next, err := s.deps.Joins.Stuck(ctx, tenantOf(ctx), after, in.Limit)
	if err != nil {
		return nil, s.fail(ctx, "list stuck runs", err)
	}
	out := new(runList)
	out.Body.Items = []Run{}
	for i := range found {
		out.Body.Items = append(out.Body.Items, runOf(&found[i], standing(&found[i]).Payload, s.config.Now()))
	}
	if !next.IsZero() {
		if out.Body.NextCursor, err = s.cursors.make(question, next); err != nil {
			return nil, s.fail(ctx, "list stuck runs", err)
		}
	}
	return out, nil
}
