package httpapi

import (
	"context"
	"net/http"
	"reflect"

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
		Name string `path:"name" doc:"1 to 63 characters of a-z, 0-9, '.', '_' and '-', not a UUID" example:"send-email"`
		body
	}
)

type taskAnswer struct {
	Status int
	Body   Task
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
	huma.Register(s.api, s.operation("put-task", http.MethodPut, "/v1/tasks/{name}", "Create or replace a task", 200, 400, 408, 409, 413, 415, 422, 429, 503), s.putTask)
	s.alsoAnswers("/v1/tasks/{name}", http.MethodPut, http.StatusCreated, http.StatusOK)
	s.describeBody("/v1/tasks/{name}", http.MethodPut, reflect.TypeFor[request.TaskRequest](), "application/json")
	huma.Register(s.api, s.operation("get-task", http.MethodGet, "/v1/tasks/{name}", "A task", 200, 404, 422, 503), s.getTask)
	huma.Register(s.api, s.operation("list-tasks", http.MethodGet, "/v1/tasks", "The tasks of the tenant, by name", 200, 422, 503), s.listTasks)
	huma.Register(s.api, s.operation("delete-task", http.MethodDelete, "/v1/tasks/{name}", "Delete a task; its runs to come will fail", 204, 404, 422, 503), s.deleteTask)
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
	stored, created, err := s.deps.Tasks.PutTask(ctx, task)
	if err != nil {
		return nil, s.fail(ctx, "put task", err)
	}
	out := &taskAnswer{Status: http.StatusOK, Body: taskOf(stored)}
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
	return &taskAnswer{Status: http.StatusOK, Body: taskOf(task)}, nil
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

func (s taskRoutes) deleteTask(ctx context.Context, in *taskByName) (*struct{}, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	if err := s.deps.Tasks.DeleteTask(ctx, tenantOf(ctx), in.Name); err != nil {
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
