package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"

	"carillon.dev/carillon/bucketer/httpapi"
)

// changeTries bounds how often a change is made up again because another one was faster.
const changeTries = 5

// changeJob changes a job by the merge patch that patchOf makes of what the job says, unless it
// says so already, and reports whether it was changed. patchOf may change what it is given.
func changeJob(ctx context.Context, client *httpapi.Client, id string, patchOf func(is map[string]any) (map[string]any, error)) (httpapi.Job, bool, error) {
	sent := false
	for try := 1; ; try++ {
		job, tag, err := client.JobTagged(ctx, id)
		if err != nil {
			return job, false, err
		}
		shown, err := encoded(job)
		if err != nil {
			return job, false, err
		}
		is, _ := shown.(map[string]any)
		patch, err := patchOf(maps.Clone(is))
		if err != nil || says(is, patch) {
			return job, sent && err == nil, err
		}
		sent = true
		changed, err := client.PatchJobIf(ctx, id, tag, patch)
		var p *httpapi.Problem
		if errors.As(err, &p) && p.Kind() == "stale" && try < changeTries {
			continue
		}
		return changed, err == nil, err
	}
}

// encoded returns v as its JSON decodes: objects are maps, numbers as they are written.
func encoded(v any) (out any, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		return nil, fmt.Errorf("decode %T: %w", v, err)
	}
	return out, nil
}

// says reports whether a document stays as it is by a merge patch (RFC 7396). Both are as encoded
// returns them.
func says(is, patch any) bool {
	p, isObject := patch.(map[string]any)
	if !isObject {
		return reflect.DeepEqual(is, patch)
	}
	members, ok := is.(map[string]any)
	if !ok {
		return false
	}
	for name, value := range p {
		is, there := members[name]
		if value == nil && there || value != nil && !says(is, value) {
			return false
		}
	}
	return true
}

// replacement returns the merge patch that makes a document of another one, and whether there is
// one: no patch gives a member null. Both are as encoded returns them.
func replacement(was, now any) (patch any, ok bool) {
	n, isObject := now.(map[string]any)
	if !isObject {
		return now, true
	}
	w, _ := was.(map[string]any)
	out := map[string]any{}
	for name := range w {
		if _, stays := n[name]; !stays {
			out[name] = nil
		}
	}
	for name, value := range n {
		before, there := w[name]
		switch {
		case there && reflect.DeepEqual(before, value):
			continue
		case value == nil:
			return nil, false
		}
		if out[name], ok = replacement(before, value); !ok {
			return nil, false
		}
	}
	return out, true
}
