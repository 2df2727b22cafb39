package httpapi

import (
	"net/http"
	"strings"
	"testing"
)

// A job says who made it, and keeps that when others change it; its run says the same. A run that
// was triggered or retried is that of who asked for it.
func TestJobsSayWhoMadeThem(t *testing.T) {
	b, o := newStub(), newAdminStub()
	hs := serve(t, b, o.desk)
	maker, other := o.key("a/operator", "a/admin", "system/admin"), bearer(secret("a/admin"))
	const makes, changes = "operator-key", "admin-key"

	var job Job
	var run Run
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody, header: maker}, 201, &job)
	if job.CreatedBy != makes {
		t.Errorf("a one-off job that is made has created_by %q, want %q", job.CreatedBy, makes)
	}
	path := "/v1/jobs/" + job.ID.String()
	doJSON(t, hs, call{method: "PATCH", path: path, body: `{"schedule":{"at":"2026-11-21T11:00:00Z"}}`, header: other}, 200, &job)
	if job.CreatedBy != makes {
		t.Errorf("a one-off job that another changed has created_by %q, want %q", job.CreatedBy, makes)
	}
	runPath := "/v1/runs/" + job.ID.String()
	if doJSON(t, hs, call{method: "GET", path: runPath, header: other}, 200, &run); run.CreatedBy != makes {
		t.Errorf("the run of a one-off job has created_by %q, want %q", run.CreatedBy, makes)
	}
	doJSON(t, hs, call{method: "DELETE", path: path, header: other}, 200, nil)
	if doJSON(t, hs, call{method: "POST", path: runPath + "/retry", header: other}, 201, &run); run.CreatedBy != changes {
		t.Errorf("a run that another retried has created_by %q, want %q", run.CreatedBy, changes)
	}
	keyed := with(maker, http.Header{keyHeader: {"k"}})
	for _, header := range []http.Header{keyed, with(other, http.Header{keyHeader: {"k"}})} {
		if doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody, header: header}, 201, &job); job.CreatedBy != makes {
			t.Errorf("a job that was asked for with one key has created_by %q, want %q, who asked first", job.CreatedBy, makes)
		}
	}

	recurring := `{"name":"n","schedule":{"every":"1m"},"nats":{"subject":"a"}}`
	doJSON(t, hs, call{method: "PUT", path: "/v1/jobs/n", body: recurring, header: maker}, 201, nil)
	for method, body := range map[string]string{"PUT": strings.Replace(recurring, "1m", "2m", 1), "PATCH": `{"priority":"low"}`, "GET": ""} {
		if doJSON(t, hs, call{method: method, path: "/v1/jobs/n", body: body, header: other}, 200, &job); job.CreatedBy != makes {
			t.Errorf("%s of a recurring job by another answers created_by %q, want %q", method, job.CreatedBy, makes)
		}
	}
	if doJSON(t, hs, call{method: "POST", path: "/v1/jobs/n/trigger", header: other}, 201, &run); run.CreatedBy != changes {
		t.Errorf("a run that another triggered has created_by %q, want %q", run.CreatedBy, changes)
	}
	var workflow Workflow
	if doJSON(t, hs, call{method: "PUT", path: "/v1/workflows/w", body: small, header: maker}, 201, &workflow); workflow.CreatedBy != makes {
		t.Errorf("a workflow has created_by %q, want %q", workflow.CreatedBy, makes)
	}

	lines := strings.Replace(recurring, `"n"`, `"imported"`, 1) + "\n" + `{"nats":{"subject":"imported"}}`
	system := with(bearer(secret("system/admin")), http.Header{tenantHeader: {"a"}, "Content-Type": {ndjson}})
	if status, _, text := do(t, hs, call{method: "POST", path: "/v1/imports", body: lines, header: system}); status != 200 {
		t.Fatalf("POST /v1/imports = %d %s", status, text)
	}
	if doJSON(t, hs, call{method: "GET", path: "/v1/jobs/imported", header: maker}, 200, &job); job.CreatedBy != "system/admin-key" {
		t.Errorf("an imported recurring job has created_by %q, want system/admin-key", job.CreatedBy)
	}
	last := b.runs[b.order[len(b.order)-1]].Entry.Spec
	if last.Work == nil || last.Work.NATS == nil || last.Work.NATS.Subject != "imported" || last.CreatedBy != "system/admin-key" {
		t.Errorf("the imported one-off job is %+v, want one that system/admin-key made", last)
	}
}

// Where no key is asked for, nothing is noted: what is stored is as it was.
func TestNobodyIsNotedWithoutKeys(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	var job Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &job)
	e := b.runs[b.order[0]].Entry
	if job.CreatedBy != "" || strings.Contains(string(e.Text()), "created_by") {
		t.Errorf("without keys a job has created_by %q, and is stored as %s", job.CreatedBy, e.Text())
	}
}
