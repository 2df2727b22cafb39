package httpapi

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer/runs"
)

// Headers of an output.
const (
	attemptHeader   = "Carillon-Attempt"
	outputCutHeader = "Carillon-Output-Cut"
)

type (
	runOutput struct {
		ID      string `path:"id" doc:"The run's id"`
		Attempt int    `query:"attempt" minimum:"1" maximum:"1000000" doc:"Of this attempt; default: of the one that succeeded, or the last that has ended"`
	}
	runLogs struct {
		ID      string `path:"id" doc:"The run's id"`
		Attempt int    `query:"attempt" minimum:"1" maximum:"1000000" doc:"Only lines of this attempt"`
		Limit   int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The most items of one answer"`
		Cursor  string `query:"cursor" maxLength:"1024" doc:"next_cursor of the answer before; opaque, and good only for the same list"`
	}
)

// LogLine is a line that a worker logged while it ran.
type LogLine struct {
	Attempt int    `json:"attempt"`
	At      Time   `json:"at,omitzero" doc:"When its executor heard it"`
	Text    string `json:"text,omitempty"`
	Dropped int    `json:"dropped,omitempty" doc:"No line of its own: so many that came here were not kept"`
}

type logList struct {
	Body struct {
		Items      []LogLine `json:"items"`
		NextCursor string    `json:"next_cursor,omitempty" doc:"Present until the run has ended and all was read: what is logged meanwhile comes after it"`
	}
}

// outputRoutes serves outputs and logs.
type outputRoutes struct{ *Server }

func (s outputRoutes) route() {
	op := s.operation("get-run-output", http.MethodGet, "/v1/runs/{id}/output", "All that was kept of the output of an attempt", 200, 404, 409, 422, 503)
	op.Description = "As it is: text/plain in UTF-8, or application/octet-stream if it is none."
	text := &huma.Schema{Type: huma.TypeString}
	op.Responses["200"].Content = map[string]*huma.MediaType{"text/plain": {Schema: text}, "application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
	op.Responses["200"].Headers = map[string]*huma.Param{
		attemptHeader:   {Description: "Whose output it is; absent: no attempt has ended", Schema: &huma.Schema{Type: huma.TypeInteger}},
		outputCutHeader: {Description: "true, if there was more than was kept", Schema: &huma.Schema{Type: huma.TypeString}},
	}
	huma.Register(s.api, op, s.runOutput)
	huma.Register(s.api, s.operation("list-run-logs", http.MethodGet, "/v1/runs/{id}/logs",
		"Lines that the worker of a run logged, in order, also while it runs. Until the run has ended an answer has next_cursor, also if it has no items", 200, 404, 409, 422, 503), s.listLogs)
}

func (s outputRoutes) runOutput(ctx context.Context, in *runOutput) (*huma.StreamResponse, error) {
	id, err := parseRun(in.ID)
	if err != nil {
		return nil, err
	}
	out, err := s.deps.Runs.Output(ctx, tenantOf(ctx), id, in.Attempt)
	if err != nil {
		return nil, s.fail(ctx, "read output", err)
	}
	// The first part is read before the answer begins: then an error has a status.
	next, stop := iter.Pull2(out.Chunks)
	chunk, err, more := next()
	if err != nil {
		stop()
		return nil, s.fail(ctx, "read output", err)
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer stop()
		hc.SetHeader("Content-Type", "text/plain; charset=utf-8")
		if out.Binary {
			hc.SetHeader("Content-Type", "application/octet-stream")
			hc.SetHeader("Content-Disposition", `attachment; filename="output"`)
		}
		hc.SetHeader("X-Content-Type-Options", "nosniff")
		// The length lets the caller see that an answer broke off.
		hc.SetHeader("Content-Length", strconv.FormatInt(out.Size, 10))
		if out.Attempt > 0 {
			hc.SetHeader(attemptHeader, strconv.Itoa(out.Attempt))
		}
		if out.Cut {
			hc.SetHeader(outputCutHeader, "true")
		}
		hc.SetStatus(http.StatusOK)
		for ; more; chunk, err, more = next() {
			if err != nil {
				// it is logged; the answer ends short of its length
				_ = s.fail(ctx, "read output", err)
				return
			}
			if _, err := hc.BodyWriter().Write(chunk); err != nil {
				return // the caller has gone
			}
		}
	}}, nil
}

func (s outputRoutes) listLogs(ctx context.Context, in *runLogs) (*logList, error) {
	id, err := parseRun(in.ID)
	if err != nil {
		return nil, err
	}
	var pos runs.LogPosition
	question := []any{"logs", tenantOf(ctx), id, in.Attempt}
	if in.Cursor != "" {
		var p *Problem
		if err := s.cursors.read(in.Cursor, question, &pos); errors.As(err, &p) {
			return nil, p
		} else if err != nil {
			return nil, s.fail(ctx, "read log", err)
		}
	}
	lines, next, err := s.deps.Runs.Logs(ctx, tenantOf(ctx), id, in.Attempt, pos, in.Limit)
	if err != nil {
		return nil, s.fail(ctx, "read log", err)
	}
	out := new(logList)
	out.Body.Items = make([]LogLine, len(lines))
	for i, l := range lines {
		out.Body.Items[i] = LogLine{Attempt: l.Attempt, At: Time{l.At}, Text: l.Text, Dropped: l.Dropped}
	}
	if next != nil {
		if out.Body.NextCursor, err = s.cursors.make(question, next); err != nil {
			return nil, s.fail(ctx, "read log", err)
		}
	}
	return out, nil
}
