package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/schema"
)

// AuditEntry is a change in the audit log, as the API answers it.
type AuditEntry struct {
	ID     schema.AuditID  `json:"id"`
	At     Time            `json:"at"`
	Actor  string          `json:"actor" doc:"Name of the key; anonymous, where none is asked for" example:"deploy"`
	Action string          `json:"action" example:"update"`
	Object string          `json:"object" doc:"Kind and name" example:"task/send-email"`
	Before json.RawMessage `json:"before,omitempty" doc:"The object before, secrets hidden; a text if it was too long to be kept whole"`
	After  json.RawMessage `json:"after,omitempty" doc:"The object after, as before"`
	Note   string          `json:"note,omitempty"`
}

type (
	auditFilter struct {
		Limit  int       `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The most items of one answer"`
		Cursor string    `query:"cursor" maxLength:"1024" doc:"next_cursor of the answer before; opaque, and good only for the same list"`
		From   time.Time `query:"from" doc:"First instant; default: a week before to"`
		To     time.Time `query:"to" doc:"Instants before this one; default: now. At most 400 days after from"`
		Actor  string    `query:"actor" maxLength:"255" doc:"Only what they changed"`
		Object string    `query:"object" maxLength:"255" doc:"Only changes of it; with / at its end all of the kind" example:"task/"`
	}
	auditList struct {
		Body struct {
			Items      []AuditEntry `json:"items"`
			NextCursor string       `json:"next_cursor,omitempty"`
		}
	}
)

// auditCursor is where an audit list goes on. It holds its window, since the ends of that may be
// left to the first answer.
type auditCursor struct {
	From time.Time           `json:"from"`
	To   time.Time           `json:"to"`
	At   admin.AuditPosition `json:"at"`
}

// auditRoutes serves the audit log.
type auditRoutes struct{ *Server }

func (s auditRoutes) route() {
	op := s.operation("list-audit", http.MethodGet, "/v1/audit", "Who changed what in the tenant, newest first", 200, 422, 503)
	op.Description = "Kept for 400 days. Entries are written just after the answer to a change, together with others: one shows within about half a second, and later while the store is in trouble. Tasks, jobs that can have many runs, keys, tenants and operations are told of, " +
		"runs that are cancelled, changed or repeated, dead letters that are replayed or discarded, jobs that an operation cancels, pauses or resumes, events that are published through the API, and each import as one; a one-off job that is made is told of if the tenant asks for that (audit.creations). An answer may hold fewer items than limit, even none, and still have next_cursor."
	huma.Register(s.api, op, s.listAudit)
}

func (s auditRoutes) listAudit(ctx context.Context, in *auditFilter) (*auditList, error) {
	if s.deps.Audit == nil {
		return nil, notFound("This node keeps no audit log.")
	}
	question := []string{"audit", tenantOf(ctx), in.From.String(), in.To.String(), in.Actor, in.Object}
	c := auditCursor{From: in.From.UTC(), To: in.To.UTC()}
	if in.To.IsZero() {
		c.To = s.config.Now().UTC()
	}
	if in.From.IsZero() {
		c.From = c.To.AddDate(0, 0, -7)
	}
	var pos *admin.AuditPosition
	var faults bucketer.Faults
	if in.Cursor != "" && in.Cursor != onlyFaults {
		var p *Problem
		if err := s.cursors.read(in.Cursor, question, &c); errors.As(err, &p) {
			faults = append(faults, p.Errors...)
		}
		pos = &c.At
	}
	switch {
	case !c.To.After(c.From):
		faults = append(faults, bucketer.Fault{Location: "query.to", Message: "must be after from"})
	case c.To.Sub(c.From) > schema.AuditRetention:
		faults = append(faults, bucketer.Fault{Location: "query.to", Message: "must be at most 400 days after from"})
	case c.From.Year() < 0 || c.To.Year() > 9999: // has no form in JSON
		faults = append(faults, bucketer.Fault{Location: "query.from", Message: "must lie in the years 0 to 9999 of UTC, as to"})
	}
	if len(faults) > 0 || in.Cursor == onlyFaults {
		return nil, invalid(faults...)
	}
	q := admin.AuditQuery{Tenant: tenantOf(ctx), From: c.From, To: c.To, Actor: in.Actor, Object: in.Object}
	entries, next, err := s.deps.Audit.Entries(ctx, q, pos, in.Limit)
	if err != nil {
		return nil, s.fail(ctx, "list audit", err)
	}
	out := new(auditList)
	out.Body.Items = make([]AuditEntry, len(entries))
	for i, e := range entries {
		out.Body.Items[i] = AuditEntry{
			ID: e.ID, At: Time{e.At}, Actor: e.Actor, Action: e.Action, Object: e.Object, Before: e.Before, After: e.After, Note: e.Note,
		}
	}
	if next != nil {
		c.At = *next
		if out.Body.NextCursor, err = s.cursors.make(question, c); err != nil {
			return nil, s.fail(ctx, "list audit", err)
		}
	}
	return out, nil
}
