package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testNow = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

// etl is the definition of the page.
const etl = `{"steps":[
 {"name":"extract","task":"extract","payload":{"date":{"$input":"/date"}}},
 {"name":"transform","after":["extract"],"http":{"url":"https://x.test/"},"timeout":"5s","for_each":{"from":"extract","pointer":"/files","max_concurrent":20},"payload":{"file":{"$item":""}}},
 {"name":"approve","after":["transform"],"if":"size(steps.extract.output.files) > 100","wait":{"event":"approved","filter":"event.day == input.date","deadline":"12h0m0s"}},
 {"name":"load","after":["transform","approve"],"task":"load"},
 {"name":"alert","after":["load"],"when":"any_failed","task":"page-somebody"}],
 "deadline":"3h0m0s"}`

// steps writes a definition of these steps, which have a task where they state no other work:
// "b <- a c" comes after a and c, "b <- a, any_failed" with that condition.
func steps(lines ...string) string {
	var out []string
	for _, line := range lines {
		head, when, _ := strings.Cut(line, ", ")
		name, after, _ := strings.Cut(head, " <- ")
		step := fmt.Sprintf(`{"name":%q,"task":"t"`, name)
		if after != "" {
			list, _ := json.Marshal(strings.Fields(after))
			step += `,"after":` + string(list)
		}
		if when != "" {
			step += fmt.Sprintf(`,"when":%q`, when)
		}
		out = append(out, step+"}")
	}
	return `{"steps":[` + strings.Join(out, ",") + `]}`
}

func mustDecode(t testing.TB, text string) *Definition {
	t.Helper()
	d, err := Decode([]byte(text))
	if err != nil {
		t.Fatalf("Decode(%s) = %v", text, err)
	}
	return d
}

func mustCompile(t testing.TB, text string) *Graph {
	t.Helper()
	g, faults := Compile(mustDecode(t, text))
	if len(faults) > 0 {
		t.Fatalf("Compile(%.500s) = %+v", text, faults)
	}
	return g
}

// index returns the step of that name.
func index(t testing.TB, g *Graph, name string) int {
	t.Helper()
	i, ok := g.Index(name)
	if !ok {
		t.Fatalf("there is no step %q", name)
	}
	return i
}

// outputs is an Input whose outputs are those texts, by name of the step.
func outputs(g *Graph, payload string, texts map[string]string) Input {
	return Input{
		Payload: json.RawMessage(payload), RunID: "01a21c72-91fa-8011-ab7c-4d1e90a35f68", Nominal: testNow,
		Output: func(i int) (json.RawMessage, error) {
			text, ok := texts[g.Step(i).Name]
			if !ok {
				return nil, fmt.Errorf("nobody wanted the output of %q to be read", g.Step(i).Name)
			}
			return json.RawMessage(text), nil
		},
		State: func(i int) string { return "state-of-" + g.Step(i).Name },
	}
}

// failure returns the reason for which a step fails.
func failure(t testing.TB, err error) string {
	t.Helper()
	var f *Failure
	if !errors.As(err, &f) {
		t.Fatalf("got error %v, want a *Failure", err)
	}
	return f.Reason
}
