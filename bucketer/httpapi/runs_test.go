package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

func TestListRuns(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	doJSON(t, hs, call{method: "PUT", path: "/v1/tasks/t", body: `{"nats":{"subject":"x"}}`}, 201, nil)
	var ids []string
	for i := range 7 {
		var j Job
		body := fmt.Sprintf(`{"task":"t","schedule":{"at":%q},"payload":%d}`, testNow.Add(time.Duration(30+10*i)*time.Minute).Format(time.RFC3339), i)
		doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: body}, 201, &j)
		ids = append(ids, j.ID.String())
	}
	doJSON(t, hs, call{method: "DELETE", path: "/v1/jobs/" + ids[2]}, 200, nil)
	list := func(query string) string {
		t.Helper()
		var got []string
		cursor := ""
		for range 20 {
			var page struct {
				Items      []Run  `json:"items"`
				NextCursor string `json:"next_cursor"`
			}
			doJSON(t, hs, call{method: "GET", path: "/v1/runs?" + query + cursor}, 200, &page)
			if page.Items == nil {
				t.Fatalf("GET /v1/runs?%s: items is null, want an array", query)
			}
			for _, r := range page.Items {
				got = append(got, string(r.Payload))
			}
			if page.NextCursor == "" {
				return strings.Join(got, "")
			}
			cursor = "&cursor=" + page.NextCursor
		}
		t.Fatalf("GET /v1/runs?%s never ends", query)
		return ""
	}
	for query, want := range map[string]string{
		"from=2026-11-21T10:00:00Z&to=2026-11-21T11:00:00Z":                                                  "012345",
		"from=2026-11-21T10:10:00Z&to=2026-11-21T10:30:00Z&limit=1":                                          "12",
		"from=2026-11-21T11:10:00%2B01:00&to=2026-11-21T11:30:00%2B01:00":                                    "12",
		"from=2026-11-21T10:00:00Z&to=2026-11-21T11:00:00Z&state=cancelled&limit=2":                          "2",
		"from=2026-11-21T10:00:00Z&to=2026-11-21T11:00:00Z&task=other&limit=3":                               "",
		"from=2026-11-21T10:00:00Z&to=2026-11-21T11:00:00Z&job=" + ids[4]:                                    "4",
		"from=2026-11-21T10:00:00Z&to=2026-11-21T10:40:00Z&job=" + ids[4]:                                    "",
		"from=2026-11-21T10:00:00Z&to=2026-11-21T11:00:00Z&state=cancelled&job=" + ids[4]:                    "",
		"from=2026-11-21T10:00:00Z&to=2026-11-21T11:00:00Z&job=" + schema.EntryID{6: 0x80, 8: 0x80}.String(): "",
	} {
		if got := list(query); got != want {
			t.Errorf("GET /v1/runs?%s = %q, want %q", query, got, want)
		}
	}
}

func TestRunCancelRetryOutput(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	var j Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &j)
	path := "/v1/runs/" + j.ID.String()
	var r Run
	doJSON(t, hs, call{method: "POST", path: path + "/cancel"}, 200, &r)
	doJSON(t, hs, call{method: "POST", path: path + "/cancel", body: `{}`}, 200, &r)
	if r.State != "cancelled" || !r.FinishedAt.Equal(testNow) || b.by != "api" {
		t.Errorf("cancel: state %s, finished %s, by %q; want cancelled now by api", r.State, r.FinishedAt, b.by)
	}
	key := http.Header{keyHeader: {"again"}}
	var again, replayed Run
	header := doJSON(t, hs, call{method: "POST", path: path + "/retry", header: key}, 201, &again)
	if again.Origin != r.ID || again.Trigger != "retry" || again.ID == r.ID || string(again.Payload) != `{"a":1}` || !again.DueAt.Equal(testNow) {
		t.Errorf("retry: %+v, want a new run now of the same payload, whose origin is %s", again, r.ID)
	}
	if header.Get("Location") != "/v1/runs/"+again.ID.String() {
		t.Errorf("retry: Location %s", header.Get("Location"))
	}
	header = doJSON(t, hs, call{method: "POST", path: path + "/retry", header: key}, 201, &replayed)
	if replayed.ID != again.ID || header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("retry with the same key: %s, want %s again", replayed.ID, again.ID)
	}
	status, header, text := do(t, hs, call{method: "GET", path: path + "/output"})
	if status != 200 || string(text) != "<b>done</b>\n" || header.Get("Content-Type") != "text/plain; charset=utf-8" || header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("output = %d %q, %v; want the text as text", status, text, header)
	}
}
