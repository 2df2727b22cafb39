package httpapi

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

type (
	taskByName struct {
		Name string `path:"name" doc:"1 to 63 characters of a-z, 0-9, '.', '_' and '-', not a UUID" example:"send-email"`
	}
	taskPut struct {
		Name    string `path:"name" doc:"1 to 63 characters of a-z, 0-9, '.', '_' and '-', not a UUID" example:"send-email"`
		IfMatch string `header:"If-Match" doc:"Replace it only if this is its ETag; else 412"`
		body
	}
	taskDelete struct {
		Name    string `path:"name" doc:"1 to 63 characters of a-z, 0-9, '.', '_' and '-', not a UUID" example:"send-email"`
		IfMatch string `header:"If-Match" doc:"Delete it only if this is its ETag; else 412"`
	}
)

type taskAnswer struct {
	Status int
	ETag   string `header:"ETag"`
	Body   Task
}

// timeTag names the state of what was put at an instant, which is later for each change.
func timeTag(put time.Time) string {
	if put.IsZero() {
		return `"0"`
	}
	return `"` + strconv.FormatInt(put.UnixMicro(), 36) + `"`
}

// matchTag checks the header If-Match of a request that would change what has that tag.
func matchTag(header, tag string) error {
	if header == "" {
		return nil
	}
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimSpace(one); one == "*" || one == tag {
			return nil
		}
	}
	p := problemOf(bucketer.ErrStale)
	p.Detail = "Its ETag is " + tag + "."
	return p
}

// seen checks the header If-Match of a request to change a task, and returns when that was put;
// zero: the request does not say.
func (s taskRoutes) seen(ctx context.Context, name, header string) (time.Time, error) {
	if header == "" {
		return time.Time{}, nil
	}
	t, err := s.deps.Tasks.Task(ctx, tenantOf(ctx), name)
	switch {
	case errors.Is(err, schema.ErrNotFound):
		p := problemOf(bucketer.ErrStale)
		p.Detail = "There is no task of this name."
		return time.Time{}, p
	case err != nil && !errors.Is(err, schema.ErrNotUnderstood):
		return time.Time{}, err
	}
	return t.UpdatedAt, matchTag(header, timeTag(t.UpdatedAt))
}

type taskList struct {
	Body struct {
		Items      []Task `json:"items"`
		NextCursor string `json:"next_cursor,omitempty"`
	}
}

// taskRoutes serves tasks.
type taskRoutes struct{ *Server }

func (s taskRoutes) route() {
	huma.Register(s.api, s.operation("put-task", http.MethodPut, "/v1/tasks/{name}", "Create or replace a task", 200, 400, 408, 409, 412, 413, 415, 422, 429, 503), s.putTask)
	s.alsoAnswers("/v1/tasks/{name}", http.MethodPut, http.StatusCreated, http.StatusOK)
	s.describeBody("/v1/tasks/{name}", http.MethodPut, reflect.TypeFor[request.TaskRequest](), "application/json")
	huma.Register(s.api, s.operation("get-task", http.MethodGet, "/v1/tasks/{name}", "A task", 200, 404, 422, 503), s.getTask)
	huma.Register(s.api, s.operation("list-tasks", http.MethodGet, "/v1/tasks", "The tasks of the tenant, by name", 200, 422, 503), s.listTasks)
	huma.Register(s.api, s.operation("delete-task", http.MethodDelete, "/v1/tasks/{name}", "Delete a task; its runs to come will fail", 204, 404, 412, 422, 503), s.deleteTask)
}

func (s taskRoutes) putTask(ctx context.Context, in *taskPut) (*taskAnswer, error) {
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	task, err := d.Task(tenantOf(ctx), in.Name, text)
	if err != nil {
		return nil, s.fail(ctx, "put task", err)
	}
	seen, err := s.seen(ctx, in.Name, in.IfMatch)
	if err != nil {
		return nil, s.fail(ctx, "put task", err)
	}
	stored, created, err := s.deps.Tasks.PutTaskIf(ctx, task, seen)
	if err != nil {
		return nil, s.fail(ctx, "put task", err)
	}
	out := &taskAnswer{Status: http.StatusOK, ETag: timeTag(stored.UpdatedAt), Body: taskOf(stored)}
	if created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

func (s taskRoutes) getTask(ctx context.Context, in *taskByName) (*taskAnswer, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	task, err := s.deps.Tasks.Task(ctx, tenantOf(ctx), in.Name)
	if err != nil {
		return nil, s.fail(ctx, "read task", err)
	}
	return &taskAnswer{Status: http.StatusOK, ETag: timeTag(task.UpdatedAt), Body: taskOf(task)}, nil
}

func (s taskRoutes) listTasks(ctx context.Context, in *page) (*taskList, error) {
	out := new(taskList)
	var err error
	out.Body.Items, out.Body.NextCursor, err = listed(s.cursors, []string{"tasks", tenantOf(ctx)}, in.Cursor, in.Limit,
		func(after string, limit int) ([]schema.Task, error) {
			return s.deps.Tasks.Tasks(ctx, tenantOf(ctx), after, limit)
		},
		func(t *schema.Task) string { return t.Name }, taskOf)
	if err != nil {
		return nil, s.fail(ctx, "list tasks", err)
	}
	return out, nil
}

func (s taskRoutes) deleteTask(ctx context.Context, in *taskDelete) (*struct{}, error) {
	if err := (&taskByName{in.Name}).check(); err != nil {
		return nil, err
	}
	seen, err := s.seen(ctx, in.Name, in.IfMatch)
	if err == nil {
		err = s.deps.Tasks.DeleteTaskIf(ctx, tenantOf(ctx), in.Name, seen)
	}
	if err != nil {
		return nil, s.fail(ctx, "delete task", err)
	}
	return nil, nil //nolint:nilnil // huma's way to say 204
}

func (n *taskByName) check() error {
	if what := bucketer.NameFault(n.Name); what != "" {
		return invalid(bucketer.Fault{Location: "path.name", Message: what})
	}
	return nil
}
