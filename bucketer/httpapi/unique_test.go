package httpapi

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"carillon.dev/carillon/bucketer"
)

// uniqueBody is jobBody of a unique key.
var uniqueBody = strings.Replace(jobBody, `{`, `{"unique":{"by":["payload/a"],"window":"10m"},`, 1)

// TestUniqueJob: the first request creates it (201). The next are answered with it as it stands
// (200), and say so; that is no conflict and no replay.
func TestUniqueJob(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	var made, there, read Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: uniqueBody}, 201, &made)
	if made.Existing || made.Unique == nil || made.Unique.By[0] != "payload/a" || made.Unique.Window.String() != "10m0s" {
		t.Errorf("POST: %+v, want a new job that says what makes it unique", made)
	}
	doJSON(t, hs, call{method: "PATCH", path: "/v1/jobs/" + made.ID.String(), body: `{"priority":"low"}`}, 200, nil)
	header := doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: strings.Replace(uniqueBody, `{`, `{"labels":{"x":"y"},`, 1), header: http.Header{keyHeader: {"k"}}}, 200, &there)
	if there.ID != made.ID || !there.Existing || there.Priority != "low" || there.Labels != nil || there.Unique == nil || header.Get("Location") != "/v1/jobs/"+made.ID.String() || header.Get("Idempotency-Replayed") != "" {
		t.Errorf("POST again: %+v, %v; want the job as it stands, existing", there, header)
	}
	doJSON(t, hs, call{method: "GET", path: "/v1/jobs/" + made.ID.String()}, 200, &read)
	if read.Existing || read.Unique == nil {
		t.Errorf("GET: %+v, want that it is unique, and not that it was there", read)
	}
	var summary *ImportSummary
	_, summary = statuses(t, sendImport(t, hs, "", "", strings.NewReader(uniqueBody+"\n"+strings.Replace(uniqueBody, `"a":1`, `"a":2`, 1)+"\n")))
	if summary == nil || summary.Existing != 1 || summary.Created != 1 {
		t.Errorf("import of it and of another: %+v, want one existing, one created", summary)
	}
}

// TestUniqueJobWhoseRowsHaveLeft is shown as it was created, finished.
func TestUniqueJobWhoseRowsHaveLeft(t *testing.T) {
	b := newStub()
	hs := serve(t, b, func(_ *Config, d *Deps) { d.Jobs = left{d.Jobs, b} })
	var made, there Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: uniqueBody}, 201, &made)
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: uniqueBody}, 200, &there)
	if there.ID != made.ID || !there.Existing || there.State != "finished" || string(there.Payload) != string(made.Payload) {
		t.Errorf("POST again: %+v, want %s as it was, finished", there, made.ID)
	}
}

// left are jobs whose rows leave once they are found to exist.
type left struct {
	Jobs
	b *stub
}

func (l left) Submit(ctx context.Context, job bucketer.Job) (bucketer.Receipt, error) {
	r, err := l.Jobs.Submit(ctx, job)
	if r.Unique {
		l.b.mu.Lock()
		defer l.b.mu.Unlock()
		delete(l.b.runs, r.Run)
	}
	return r, err
}

// TestUniqueJobFaults: all faults at once, 422.
func TestUniqueJobFaults(t *testing.T) {
	hs := serve(t, newStub())
	p := doProblem(t, hs, call{method: "POST", path: "/v1/jobs", body: `{"task":"T","unique":{"by":["args","payload/~"],"window":"0s","for":1}}`}, 422)
	if len(p.Errors) != 5 {
		t.Errorf("POST: %+v, want five faults", p.Errors)
	}
}
