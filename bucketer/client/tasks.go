package client

import (
	"context"
	"errors"
	"iter"
	"net/http"
)

// Tasks are what can be asked for about tasks: calls with a name, which jobs and steps refer to.
type Tasks struct{ node *node }

// Put creates the task of a name, or replaces it.
func (t Tasks) Put(ctx context.Context, name string, call *Call, settings TaskSettings) (TaskInfo, error) {
	var n notes
	var body struct {
		workBody
		TaskSettings
	}
	call.fill(&body.workBody, &n)
	body.TaskSettings = settings
	if err := n.err(); err != nil {
		return TaskInfo{}, err
	}
	return ask[TaskInfo](ctx, t.node, question{method: http.MethodPut, path: []string{"tasks", name}, body: body})
}

// Get returns a task.
func (t Tasks) Get(ctx context.Context, name string) (TaskInfo, error) {
	return ask[TaskInfo](ctx, t.node, question{method: http.MethodGet, path: []string{"tasks", name}})
}

// List returns the tasks, by name. It ends with the first error.
func (t Tasks) List(ctx context.Context) iter.Seq2[TaskInfo, error] {
	return list[TaskInfo](ctx, t.node, nil, "tasks")
}

// Delete deletes a task: runs to come that name it fail. One that does not exist is deleted already.
func (t Tasks) Delete(ctx context.Context, name string) error {
	_, err := t.node.send(ctx, &question{method: http.MethodDelete, path: []string{"tasks", name}})
	var e *Error
	if errors.As(err, &e) && e.Kind == "not-found" { // as an earlier try may have done
		return nil
	}
	return err
}
