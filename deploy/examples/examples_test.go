package examples

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWorkflowsCallWhereTheyAreTold(t *testing.T) {
	for _, name := range []string{"etl", "approval", "saga"} {
		text, err := Workflow(name, "http://127.0.0.1:1")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, "\nname: "+name+"\n") || !strings.Contains(text, "{url: http://127.0.0.1:1/") || strings.Contains(text, Origin) {
			t.Errorf("Workflow(%q) = %s\nwant the workflow of that name, all of whose steps call there", name, text)
		}
	}
	if text, err := Workflow("compose", Origin); err == nil {
		t.Errorf("Workflow of no example = %q, want an error", text)
	}
}

// ask posts a body to s, and returns the answer.
func ask(t *testing.T, s *Services, path, body string) (status int, answer any) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Idempotency-Key", "run of "+path)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil && w.Code != http.StatusBadRequest {
		t.Fatalf("POST %s answers %d with %q: %v", path, w.Code, w.Body, err)
	}
	return w.Code, answer
}

// questions are calls as the workflows make them.
var questions = []struct{ Path, Body string }{
	{"/extract", `{"date":"2026-11-21"}`},
	{"/extract", ""},
	{"/transform", `{"file":"part-3.csv","number":3}`},
	{"/check", ""},
	{"/load", `{"date":"2026-11-21","parts":[{"file":"part-0.csv","rows":100},{"file":"part-1.csv","rows":200}]}`},
	{"/load", `{"parts":[]}`},
	{"/alert", `{"run":"0192e5a0"}`},
	{"/draft", `{"version":"1.4.0"}`},
	{"/publish", `{"draft":{"done":"/draft"},"approval":null}`},
	{"/flight/book", `{"trip":{"trip":7}}`},
	{"/flight/book", `{"trip":{"trip":8,"fail":"car"}}`},
	{"/car/book", `{"trip":{"trip":8,"fail":"car"}}`},
	{"/car/book", `{"trip":null}`},
	{"/hotel/undo", `{"booking":{"booked":"hotel","trip":8}}`},
}

// The services in Go and in Python answer alike.
func TestServicesAnswerAsInPython(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no python3")
		}
		t.Skip("LEFT OUT: services.py is not compared, there is no python3")
	}
	const program = `
import json, sys
sys.dont_write_bytecode = True
import services
print(json.dumps([services.answer(q["Path"], json.loads(q["Body"]) if q["Body"] else {}) for q in json.load(sys.stdin)]))
`
	asked, err := json.Marshal(questions)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "python3", "-c", program)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(asked), &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("python3: %v\n%s", err, said.String())
	}
	var want [][2]any
	if err := json.Unmarshal(out, &want); err != nil || len(want) != len(questions) {
		t.Fatalf("python3 answers %q, %v", out, err)
	}
	for i, q := range questions {
		status, answer := ask(t, new(Services), q.Path, q.Body)
		if diff := cmp.Diff(want[i], [2]any{float64(status), answer}); diff != "" {
			t.Errorf("%s %s (-Python +Go):\n%s", q.Path, q.Body, diff)
		}
	}
}

func TestServicesKeepWhatTheyWereAsked(t *testing.T) {
	s := new(Services)
	if status, _ := ask(t, s, "/draft", "no JSON"); status != http.StatusBadRequest {
		t.Errorf("a body that is no JSON is answered with %d, want 400", status)
	}
	ask(t, s, "/check", "")
	want := []Call{{Path: "/draft", Body: "no JSON", Run: "run of /draft"}, {Path: "/check", Run: "run of /check"}}
	if diff := cmp.Diff(want, s.Calls()); diff != "" {
		t.Errorf("Calls (-want +got):\n%s", diff)
	}
}
