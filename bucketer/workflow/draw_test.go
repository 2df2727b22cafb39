package workflow

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func stateOfEtl(i int) string {
	return []string{"succeeded", "running 3/10", "waiting", "", ""}[i]
}

func TestMermaid(t *testing.T) {
	g := mustCompile(t, etl)
	want := `flowchart TD
  s0["extract<br/>task<br/>succeeded"]
  s1["transform<br/>http, for each<br/>running 3/10"]
  s2(["approve<br/>wait approved, if<br/>waiting"])
  s3["load<br/>task"]
  s4["alert<br/>task page-somebody"]
  s0 --> s1
  s1 --> s2
  s1 --> s3
  s2 --> s3
  s3 -. any_failed .-> s4
`
	if got := g.Mermaid(stateOfEtl); got != want {
		t.Errorf("Mermaid =\n%s\nwant\n%s", got, want)
	}
}

func TestDOT(t *testing.T) {
	g := mustCompile(t, etl)
	want := `digraph workflow {
  node [shape=box];
  s0 [label="extract\ntask\nsucceeded"];
  s1 [label="transform\nhttp, for each\nrunning 3/10"];
  s2 [label="approve\nwait approved, if\nwaiting", style=rounded];
  s3 [label="load\ntask"];
  s4 [label="alert\ntask page-somebody"];
  s0 -> s1;
  s1 -> s2;
  s1 -> s3;
  s2 -> s3;
  s3 -> s4 [style=dotted, label="any_failed"];
}
`
	if got := g.DOT(stateOfEtl); got != want {
		t.Errorf("DOT =\n%s\nwant\n%s", got, want)
	}
}

func TestDrawnJSON(t *testing.T) {
	g := mustCompile(t, etl)
	got, err := g.JSON(stateOfEtl)
	want := `{"nodes":[{"name":"extract","kind":"task","what":"extract","state":"succeeded"},` +
		`{"name":"transform","kind":"http","when":"all_succeeded","for_each":true,"state":"running 3/10"},` +
		`{"name":"approve","kind":"wait","what":"approved","when":"all_succeeded","if":"size(steps.extract.output.files) \u003e 100","state":"waiting"},` +
		`{"name":"load","kind":"task","what":"load","when":"all_succeeded"},{"name":"alert","kind":"task","what":"page-somebody","when":"any_failed"}],` +
		`"edges":[{"from":"extract","to":"transform"},{"from":"transform","to":"approve"},{"from":"transform","to":"load"},{"from":"approve","to":"load"},{"from":"load","to":"alert"}]}`
	if err != nil || string(got) != want {
		t.Errorf("JSON = %s, %v\nwant %s", got, err, want)
	}
	if got, err := mustCompile(t, steps("a")).JSON(nil); err != nil || string(got) != `{"nodes":[{"name":"a","kind":"task","what":"t"}],"edges":[]}` {
		t.Errorf("JSON of one step = %s, %v", got, err)
	}
}

func TestTree(t *testing.T) {
	for name, row := range map[string]struct {
		text   string
		states func(int) string
		want   string
	}{
		"the example": {etl, stateOfEtl, `
extract               task                                    succeeded
└─ transform          http, for each                          running 3/10
   └─ approve         wait approved, if                       waiting
      └─ load         task, after transform
         └─ alert     task page-somebody, any_failed
`},
		"two roots and a join": {steps("a", "b", "c <- a b, all_done", "d <- b", "e <- d"), nil, `
a             task t
└─ c          task t, all_done, after b
b             task t
└─ d          task t
   └─ e       task t
`},
		"branches": {steps("a", "b <- a", "c <- a", "d <- b c"), nil, `
a             task t
├─ b          task t
│  └─ d       task t, after c
└─ c          task t
`},
	} {
		t.Run(name, func(t *testing.T) {
			got := mustCompile(t, row.text).Tree(row.states)
			if fields(got) != fields(row.want) {
				t.Errorf("Tree =\n%s\nwant\n%s", got, row.want)
			}
		})
	}
}

// fields joins the columns of a table by one blank.
func fields(text string) string {
	var lines []string
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		lines = append(lines, line[:indent]+strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

// TestDeepTreesStayNarrow: a chain of 1,000 steps would be 3,000 columns wide.
func TestDeepTreesStayNarrow(t *testing.T) {
	lines := []string{"s0"}
	for i := 1; i < MaxSteps; i++ {
		lines = append(lines, fmt.Sprintf("s%d <- s%d", i, i-1))
	}
	tree := mustCompile(t, steps(lines...)).Tree(nil)
	n := 0
	for line := range strings.Lines(tree) {
		if n++; len([]rune(line)) > 3*maxIndent+30 {
			t.Fatalf("line %d is %d columns wide", n, len([]rune(line)))
		}
	}
	if n != MaxSteps {
		t.Errorf("the tree has %d lines, want one a step", n)
	}
}

// TestStatesAreEscaped: what a caller says of a state cannot end its label, nor be code or a second
// line.
func TestStatesAreEscaped(t *testing.T) {
	nasty := "\"];\nclick s0 \"javascript:x\"<b>#\\\u2028\x1b[31m" + strings.Repeat("é", 200)
	g := mustCompile(t, steps("a"))
	state := func(int) string { return nasty }
	for name, got := range map[string]string{"Mermaid": g.Mermaid(state), "DOT": g.DOT(state), "Tree": g.Tree(state)} {
		if strings.ContainsAny(got, "\x1b\u2028") || !strings.Contains(got, "…") && !strings.Contains(got, "#8230;") {
			t.Errorf("%s = %q", name, got)
		}
		if n := strings.Count(got, "\n"); n != map[string]int{"Mermaid": 2, "DOT": 4, "Tree": 1}[name] {
			t.Errorf("%s has %d lines: %q", name, n, got)
		}
	}
	if got := g.Mermaid(state); strings.Count(got, `"`) != 2 || strings.ContainsAny(got, `<;\`) && strings.Contains(got, "<b>") {
		t.Errorf("Mermaid = %q", got)
	}
	if got := g.DOT(state); !strings.Contains(got, `\"];`) || !strings.Contains(got, `#\\`) {
		t.Errorf("DOT = %q", got)
	}
	var d Drawing
	text, err := g.JSON(state)
	if err != nil || json.Unmarshal(text, &d) != nil || !strings.HasPrefix(d.Nodes[0].State, `"]; click`) {
		t.Errorf("JSON = %s, %v", text, err)
	}
}

// TestDrawingsTellNoSecrets: a URL, headers and arguments may hold them.
func TestDrawingsTellNoSecrets(t *testing.T) {
	g := mustCompile(t, `{"steps":[{"name":"a","http":{"url":"https://x.test/?key=secret","headers":{"x":"secret"}},"payload":"secret"},{"name":"b","script":{"command":"c","args":["secret"]}},{"name":"w","wait":{"for":"1h"}},{"name":"u","wait":{"until":"2026-11-21T09:30:00Z"}},{"name":"n","nats":{"subject":"s.x"}},{"name":"f","workflow":"child"},{"name":"l","lambda":{"function":"fn-x","region":"eu-central-1","credentials":"secret"}}]}`)
	text, err := g.JSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{"Mermaid": g.Mermaid(nil), "DOT": g.DOT(nil), "Tree": g.Tree(nil), "JSON": string(text)} {
		if strings.Contains(got, "secret") {
			t.Errorf("%s = %s", name, got)
		}
		for _, what := range []string{"1h0m0s", "until 2026", "s.x", "child", "fn-x"} {
			if !strings.Contains(got, what) {
				t.Errorf("%s does not say %q: %s", name, what, got)
			}
		}
	}
}
