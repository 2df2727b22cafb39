package client_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/client"
	"carillon.dev/carillon/bucketer/httpapi"
)

// TestAnswersAreComplete: the package knows every field that the API answers.
func TestAnswersAreComplete(t *testing.T) {
	for _, row := range []struct{ api, client reflect.Type }{
		{reflect.TypeFor[httpapi.Job](), reflect.TypeFor[client.JobInfo]()},
		{reflect.TypeFor[httpapi.Run](), reflect.TypeFor[client.Run]()},
		{reflect.TypeFor[httpapi.Workflow](), reflect.TypeFor[client.WorkflowInfo]()},
		{reflect.TypeFor[httpapi.Task](), reflect.TypeFor[client.TaskInfo]()},
		{reflect.TypeFor[httpapi.Event](), reflect.TypeFor[client.Event]()},
		{reflect.TypeFor[httpapi.Notification](), reflect.TypeFor[client.NotificationInfo]()},
		{reflect.TypeFor[httpapi.FoundLine](), reflect.TypeFor[client.FoundLine]()},
		{reflect.TypeFor[httpapi.LookedAt](), reflect.TypeFor[client.LookedAt]()},
		{reflect.TypeFor[httpapi.Searched](), reflect.TypeFor[client.Searched]()},
		{reflect.TypeFor[httpapi.RunStates](), reflect.TypeFor[client.RunStates]()},
		{reflect.TypeFor[httpapi.Calendar](), reflect.TypeFor[client.CalendarInfo]()},
	} {
		api, ours := fields(row.api, ""), fields(row.client, "")
		for _, name := range slices.Sorted(maps.Keys(api)) {
			// steps are passed on as they are
			if !ours[name] && !strings.HasPrefix(name, ".steps.") {
				t.Errorf("%s has no %s, which the API answers", row.client, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(ours)) {
			if !api[name] {
				t.Errorf("%s has %s, which the API does not answer", row.client, name)
			}
		}
	}
}

// fields returns the names of the JSON members of a type, with those of the types in it.
func fields(t reflect.Type, prefix string) map[string]bool {
	out := make(map[string]bool)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[httpapi.Time]() {
		return out
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := prefix + "." + name
		switch {
		case f.Anonymous:
			at = prefix
		case name == "" || name == "-":
			continue
		default:
			out[at] = true
		}
		maps.Copy(out, fields(f.Type, at))
	}
	return out
}
