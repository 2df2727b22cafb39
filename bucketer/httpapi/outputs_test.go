package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// outputOf submits a job to a server and asks for the output of its run.
func outputOf(t *testing.T, b *stub) (int, http.Header, []byte) {
	t.Helper()
	hs := serve(t, b)
	var j Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &j)
	return do(t, hs, call{method: "GET", path: "/v1/runs/" + j.ID.String() + "/output"})
}

func TestOutputIsAnsweredAsWhatItIs(t *testing.T) {
	chunks := func(all ...string) func(func([]byte, error) bool) {
		return func(yield func([]byte, error) bool) {
			for _, c := range all {
				if !yield([]byte(c), nil) {
					return
				}
			}
		}
	}
	for name, c := range map[string]struct {
		output      runs.Output
		kind, body  string
		attempt     string
		disposition string
		cut         string
	}{
		"text":              {runs.Output{Attempt: 2, Size: 13, Chunks: chunks("<script>", "grün")}, "text/plain; charset=utf-8", "<script>grün", "2", "", ""},
		"none yet":          {runs.Output{Chunks: chunks()}, "text/plain; charset=utf-8", "", "", "", ""},
		"binary":            {runs.Output{Attempt: 1, Size: 3, Binary: true, Chunks: chunks("a\xff", "b")}, "application/octet-stream", "a\xffb", "1", `attachment; filename="output"`, ""},
		"more than is kept": {runs.Output{Attempt: 1, Size: 1, Cut: true, Chunks: chunks("a")}, "text/plain; charset=utf-8", "a", "1", "", "true"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newStub()
			b.output = c.output
			status, header, body := outputOf(t, b)
			got := fmt.Sprintf("%d %s %s %s %s %s", status, header.Get("Content-Type"), body, header.Get("Carillon-Attempt"), header.Get("Content-Disposition"), header.Get("Carillon-Output-Cut"))
			want := fmt.Sprintf("200 %s %s %s %s %s", c.kind, c.body, c.attempt, c.disposition, c.cut)
			if got != want || header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("output = %q, nosniff %q; want %q", got, header.Get("X-Content-Type-Options"), want)
			}
		})
	}
}

func TestOutputThatFailsToBeRead(t *testing.T) {
	fails := fmt.Errorf("parts: %w", schema.ErrUnavailable)
	b := newStub()
	b.output = runs.Output{Attempt: 1, Size: 9, Chunks: func(yield func([]byte, error) bool) { yield(nil, fails) }}
	if status, header, body := outputOf(t, b); status != 503 || header.Get("Retry-After") == "" {
		t.Errorf("output that cannot be read = %d %s, want 503", status, body)
	}
	b.output = runs.Output{Attempt: 1, Size: 9, Chunks: func(yield func([]byte, error) bool) { _ = yield([]byte("half "), nil) && yield(nil, fails) }}
	hs := serve(t, b)
	var j Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &j)
	resp, err := hs.Client().Get(hs.URL + "/v1/runs/" + j.ID.String() + "/output")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if text, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("output that breaks off = %q, %v; want the caller to see that it did", text, err)
	}
}

func TestOutputOfAnAttempt(t *testing.T) {
	hs := serve(t, newStub())
	var j Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &j)
	path := "/v1/runs/" + j.ID.String() + "/output?attempt="
	for attempt, want := range map[string]int{"1": 200, "2": 404, "0": 422, "-1": 422, "x": 422, "9999999999999999999": 422} {
		if status, _, text := do(t, hs, call{method: "GET", path: path + attempt}); status != want {
			t.Errorf("output of attempt %s = %d %s, want %d", attempt, status, text, want)
		}
	}
}

func TestLogsAreListed(t *testing.T) {
	b := newStub()
	for i := range 5 {
		b.lines = append(b.lines, runs.LogLine{Attempt: 1, Line: schema.Line{At: testNow, Text: fmt.Sprint("line ", i)}})
	}
	b.lines = append(b.lines, runs.LogLine{Attempt: 1, Dropped: 3})
	hs := serve(t, b)
	var j, other Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &j)
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &other)
	type page struct {
		Items      []LogLine `json:"items"`
		NextCursor string    `json:"next_cursor"`
	}
	path := "/v1/runs/" + j.ID.String() + "/logs"
	var first, second, third page
	doJSON(t, hs, call{method: "GET", path: path + "?limit=4"}, 200, &first)
	if len(first.Items) != 4 || first.NextCursor == "" || first.Items[3].Text != "line 3" || !first.Items[3].At.Equal(testNow) {
		t.Fatalf("logs = %+v, want four lines and a cursor", first)
	}
	next := "&cursor=" + url.QueryEscape(first.NextCursor)
	doJSON(t, hs, call{method: "GET", path: path + "?limit=4" + next}, 200, &second)
	if len(second.Items) != 2 || second.Items[1].Dropped != 3 || second.NextCursor == "" {
		t.Errorf("logs at the end of what there is = %+v, want two items and a cursor", second)
	}
	b.ended = true
	doJSON(t, hs, call{method: "GET", path: path + "?limit=4&cursor=" + url.QueryEscape(second.NextCursor)}, 200, &third)
	if third.Items == nil || len(third.Items) != 0 || third.NextCursor != "" {
		t.Errorf("logs of a run that has ended, from their end = %+v, want no items and no cursor", third)
	}
	for name, path := range map[string]string{
		"a forged cursor":             path + "?cursor=AAAA",
		"a cursor of another run":     "/v1/runs/" + other.ID.String() + "/logs?limit=4" + next,
		"a cursor of another attempt": path + "?attempt=1" + next,
		"no id":                       "/v1/runs/12/logs",
		"a limit of none":             path + "?limit=0",
	} {
		if p := doProblem(t, hs, call{method: "GET", path: path}, 422); len(p.Errors) == 0 {
			t.Errorf("%s: %+v, want the fault named", name, p)
		}
	}
	doProblem(t, hs, call{method: "GET", path: path + "?attempt=2"}, 404)
}

func TestClientFollowsALog(t *testing.T) {
	b := newStub()
	b.lines = []runs.LogLine{{Attempt: 1, Line: schema.Line{Text: "a"}}}
	hs := serve(t, b)
	c := newClient(t, hs.URL)
	job, err := c.CreateJob(t.Context(), request.JobRequest{Work: schema.Work{NATS: &schema.NATSTarget{Subject: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	read := func(follow bool) string {
		var got []string
		for line, err := range c.Logs(t.Context(), schema.RunID(job.ID), 0, follow, time.Millisecond) {
			if err != nil {
				t.Fatalf("Logs: %v", err)
			}
			got = append(got, line.Text)
			if line.Text == "a" && follow {
				b.lines, b.ended = append(b.lines, runs.LogLine{Attempt: 1, Line: schema.Line{Text: "b"}}), true
			}
		}
		return strings.Join(got, " ")
	}
	if got := read(false); got != "a" {
		t.Errorf("Logs of a run under way, not followed = %q, want a", got)
	}
	if got := read(true); got != "a b" {
		t.Errorf("Logs followed = %q, want a b", got)
	}
}

func TestAnAttemptThatNeverBeganIsNamed(t *testing.T) {
	for _, test := range []struct {
		begun  []int
		detail string
	}{
		{nil, "The run has no attempt 7. No attempt of it has begun."},
		{[]int{1}, "The run has no attempt 7. It has attempt 1."},
		{[]int{1, 2}, "The run has no attempt 7. It has attempt 1 and 2."},
		{[]int{1, 2, 4}, "The run has no attempt 7. It has attempt 1, 2 and 4."},
	} {
		p := problemOf(fmt.Errorf("read output: %w", &runs.NoAttemptError{Number: 7, Begun: test.begun}))
		if p.Status != 404 || p.Kind() != "not-found" || p.Detail != test.detail {
			t.Errorf("attempt 7 beside %d = %d %s %q, want 404 not-found %q", test.begun, p.Status, p.Kind(), p.Detail, test.detail)
		}
	}
	hs := serve(t, newStub())
	var j Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &j)
	p := doProblem(t, hs, call{method: "GET", path: "/v1/runs/" + j.ID.String() + "/output?attempt=7"}, 404)
	if len(p.Errors) != 1 || p.Errors[0].Location != "query.attempt" || fmt.Sprint(p.Errors[0].Value) != "7" {
		t.Errorf("output of attempt 7 = %+v, want the fault of query.attempt, with its value", p)
	}
}
