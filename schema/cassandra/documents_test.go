package cassandra

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/document"
)

// bound notes what puts of documents would send.
type bound struct {
	document.Rows
	now  time.Time
	sent []string
}

func (b *bound) PutDocuments(_ context.Context, docs ...document.Document) error {
	for i := range docs {
		st, args, err := bindDocument(&docs[i], b.now)
		if err != nil {
			return err
		}
		if n := strings.Count(string(st), "?"); n != len(args) {
			return fmt.Errorf("%s binds %d values, want %d", names[st], len(args), n)
		}
		line := names[st]
		for _, a := range args {
			if text, ok := a.([]byte); ok {
				a = string(text)
			}
			line += fmt.Sprintf(" %v", a)
		}
		b.sent = append(b.sent, line)
	}
	return nil
}

// TestWhatPutsOfDocumentsBind: the columns, the timestamp in µs and the expiry in seconds of each
// kind.
func TestWhatPutsOfDocumentsBind(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	id := schema.MakeOperationID(now, 7)
	op := schema.Operation{ID: id, Tenant: "a", Spec: schema.OperationSpec{Action: "cancel"}, Progress: schema.Progress{Updated: now}}
	done := op
	done.Progress.Done = true
	uuid, us, month := gocql.UUID(id).String(), fmt.Sprint(now.UnixMicro()), 30*24*3600
	progress := `"updated":"2030-01-02T03:04:05Z"}`
	for _, c := range []struct {
		name string
		put  func(r document.Roles) error
		want []string
	}{
		{"a tenant", func(r document.Roles) error {
			return r.PutTenant(t.Context(), schema.Tenant{Name: "a", CreatedAt: now, UpdatedAt: now})
		}, []string{`insert_tenant a {"quotas":{},"created_at":"2030-01-02T03:04:05Z","updated_at":"2030-01-02T03:04:05Z"} ` + us}},
		{"a task", func(r document.Roles) error {
			return r.PutTask(t.Context(), schema.Task{Tenant: "a", Name: "t", CreatedAt: now, UpdatedAt: now})
		}, []string{`insert_task a t {"name":"t","work":{},"created_at":"2030-01-02T03:04:05Z","updated_at":"2030-01-02T03:04:05Z"} ` + us}},
		{"a task that is deleted", func(r document.Roles) error { return r.DeleteTask(t.Context(), "a", "t", now) }, []string{"delete_task " + us + " a t"}},
		{"a rate", func(r document.Roles) error {
			return r.PutRated(t.Context(), schema.TaskName{Tenant: "a", Name: "t"}, true, now)
		}, []string{"insert_rated a t " + us}},
		{"no rate", func(r document.Roles) error {
			return r.PutRated(t.Context(), schema.TaskName{Tenant: "a", Name: "t"}, false, now)
		}, []string{"delete_rated " + us + " a t"}},
		{"an operation", func(r document.Roles) error { return r.PutOperation(t.Context(), op) }, []string{
			fmt.Sprintf("insert_open %s a %s %d", uuid, us, month),
			fmt.Sprintf(`insert_operation a %s {"action":"cancel","filter":{}} {%s %s %d`, uuid, progress, us, month),
		}},
		{"an operation that is done", func(r document.Roles) error { return r.PutOperation(t.Context(), done) }, []string{
			fmt.Sprintf(`insert_operation a %s {"action":"cancel","filter":{}} {"done":true,%s %s %d`, uuid, progress, us, month),
			fmt.Sprintf("delete_open %s %s", us, uuid),
		}},
		{"an operation that is cancelled", func(r document.Roles) error {
			return r.CancelOperation(t.Context(), "a", id, schema.Cancel{At: now, By: "me"})
		}, []string{fmt.Sprintf(`cancel_operation a %s {"at":"2030-01-02T03:04:05Z","by":"me"} %s %d`, uuid, us, month+24*3600)}},
	} {
		b := &bound{now: now}
		if err := c.put(document.New(b, nil)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got, want := strings.Join(b.sent, "\n"), strings.Join(c.want, "\n"); got != want {
			t.Errorf("%s is put as\n%s\nwant\n%s", c.name, got, want)
		}
	}
}
