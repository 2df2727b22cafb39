package workflow

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// Bounds of a drawing.
const (
	maxState  = 200 // bytes of what is said of the state of a step
	maxIndent = 20  // levels of a tree that are indented
)

// kind says in a word or two what a step does. It names nothing that may be a secret.
func (g *Graph) kind(i int) (kind, what string) {
	switch s := &g.steps[i]; {
	case s.Task != "":
		return "task", s.Task
	case s.Workflow != "":
		return "workflow", s.Workflow
	case s.Wait != nil && s.Wait.Event != "":
		return "wait", s.Wait.Event
	case s.Wait != nil && s.Wait.Until != "":
		return "wait", "until " + s.Wait.Until
	case s.Wait != nil:
		return "wait", s.Wait.For.String()
	case s.HTTP != nil:
		return "http", ""
	case s.NATS != nil:
		return "nats", s.NATS.Subject
	case s.Lambda != nil:
		return "lambda", s.Lambda.Function
	case s.Script != nil:
		return "script", s.Script.Command
	default:
		return s.Message()
	}
}

// stateOf returns what states says of a step, in one line; nothing if states is nil.
func stateOf(states func(i int) string, i int) string {
	if states == nil {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, limit(states(i), maxState))
}

// Drawing is a graph as JSON has it.
type Drawing struct {
	Nodes []DrawnNode `json:"nodes"` // in the order of the steps
	Edges []DrawnEdge `json:"edges"`
}

// DrawnNode is a step of a drawing.
type DrawnNode struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"` // task, wait, workflow, or as the field of the work
	What    string `json:"what,omitempty"`
	When    When   `json:"when,omitempty"` // of a step with others before it
	If      string `json:"if,omitempty"`
	ForEach bool   `json:"for_each,omitempty"`
	State   string `json:"state,omitempty"`
}

// DrawnEdge says that To is after From.
type DrawnEdge struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Drawing returns the graph. states says how each step stands, and may be nil.
func (g *Graph) Drawing(states func(i int) string) Drawing {
	d := Drawing{Nodes: make([]DrawnNode, len(g.steps)), Edges: []DrawnEdge{}}
	for i := range g.steps {
		s := &g.steps[i]
		n := DrawnNode{Name: s.Name, If: s.If, ForEach: s.ForEach != nil, State: stateOf(states, i)}
		if n.Kind, n.What = g.kind(i); len(s.After) > 0 {
			n.When = s.When.Or()
		}
		d.Nodes[i] = n
		for _, j := range g.after[i] {
			d.Edges = append(d.Edges, DrawnEdge{From: g.steps[j].Name, To: s.Name})
		}
	}
	return d
}

// JSON returns the drawing of the graph as text.
func (g *Graph) JSON(states func(i int) string) ([]byte, error) {
	text, err := json.Marshal(g.Drawing(states))
	if err != nil {
		return nil, fmt.Errorf("draw workflow: %w", err)
	}
	return text, nil
}

// label returns the lines of a node.
func (g *Graph) label(i int, states func(i int) string) []string {
	s := &g.steps[i]
	kind, what := g.kind(i)
	lines := []string{s.Name}
	if what != "" && what != s.Name {
		kind += " " + what
	}
	if s.ForEach != nil {
		kind += ", for each"
	}
	if s.If != "" {
		kind += ", if"
	}
	lines = append(lines, kind)
	if state := stateOf(states, i); state != "" {
		lines = append(lines, state)
	}
	return lines
}

// Mermaid returns the graph as a flowchart of Mermaid. An edge is dotted where its step is not for
// success alone, and says when it starts.
func (g *Graph) Mermaid(states func(i int) string) string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for i := range g.steps {
		lines := g.label(i, states)
		for k := range lines {
			lines[k] = mermaidText(lines[k])
		}
		left, right := "[", "]"
		switch {
		case g.steps[i].Wait != nil:
			left, right = "([", "])"
		case g.steps[i].Workflow != "":
			left, right = "[[", "]]"
		}
		fmt.Fprintf(&b, "  s%d%s\"%s\"%s\n", i, left, strings.Join(lines, "<br/>"), right)
	}
	for i := range g.steps {
		arrow := "-->"
		if when := g.steps[i].When.Or(); when != AllSucceeded {
			arrow = fmt.Sprintf("-. %s .->", when)
		}
		for _, j := range g.after[i] {
			fmt.Fprintf(&b, "  s%d %s s%d\n", j, arrow, i)
		}
	}
	return b.String()
}

// mermaidText writes a text between quotes. All that means something to Mermaid or to HTML is
// written as a number.
func mermaidText(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == ' ', r == '.', r == '_', r == '-', r == ',', r == ':', r == '/', r == '(', r == ')',
			unicode.IsLetter(r), unicode.IsDigit(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}

// DOT returns the graph as Graphviz has it, drawn as Mermaid does.
func (g *Graph) DOT(states func(i int) string) string {
	var b strings.Builder
	b.WriteString("digraph workflow {\n  node [shape=box];\n")
	for i := range g.steps {
		lines := g.label(i, states)
		for k := range lines {
			lines[k] = dotText(lines[k])
		}
		shape := ""
		switch {
		case g.steps[i].Wait != nil:
			shape = ", style=rounded"
		case g.steps[i].Workflow != "":
			shape = ", peripheries=2"
		}
		fmt.Fprintf(&b, "  s%d [label=\"%s\"%s];\n", i, strings.Join(lines, `\n`), shape)
	}
	for i := range g.steps {
		style := ""
		if when := g.steps[i].When.Or(); when != AllSucceeded {
			style = fmt.Sprintf(" [style=dotted, label=\"%s\"]", when)
		}
		for _, j := range g.after[i] {
			fmt.Fprintf(&b, "  s%d -> s%d%s;\n", j, i, style)
		}
	}
	b.WriteString("}\n")
	return b.String()
}

func dotText(text string) string { return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) }

// Tree returns the graph for a terminal, a line a step. Each stands once, below the one before it
// that has the longest way behind it; the others before it are named.
func (g *Graph) Tree(states func(i int) string) string {
	depth := make([]int, len(g.steps))
	parent := make([]int, len(g.steps))
	children := make([][]int, len(g.steps)+1) // the last are the roots
	roots := len(g.steps)
	for _, i := range g.sorted {
		parent[i] = roots
		for _, j := range g.after[i] {
			if depth[j] >= depth[i] {
				depth[i], parent[i] = depth[j]+1, int(j)
			}
		}
	}
	for i := range g.steps {
		children[parent[i]] = append(children[parent[i]], i)
	}
	var rows []treeRow
	var draw func(of int, indent string, level int)
	draw = func(of int, indent string, level int) {
		for k, i := range children[of] {
			branch, below := "├─ ", "│  "
			if k == len(children[of])-1 {
				branch, below = "└─ ", "   "
			}
			if of == roots {
				branch, below = "", ""
			} else if level > maxIndent {
				branch, below = "", "" // as deep as its parent
			}
			rows = append(rows, treeRow{indent + branch + g.steps[i].Name, g.treeNotes(i, parent[i]), stateOf(states, i)})
			draw(i, indent+below, level+1)
		}
	}
	draw(roots, "", 0)
	return writeRows(rows)
}

// treeRow is a line of a tree.
type treeRow struct{ name, notes, state string }

// treeNotes says what a line of a tree does not show.
func (g *Graph) treeNotes(i, parent int) string {
	s := &g.steps[i]
	notes, what := g.kind(i)
	if what != "" && what != s.Name {
		notes += " " + what
	}
	if s.ForEach != nil {
		notes += ", for each"
	}
	if s.If != "" {
		notes += ", if"
	}
	if s.When.Or() != AllSucceeded {
		notes += ", " + string(s.When)
	}
	var others []string
	for _, j := range g.after[i] {
		if int(j) != parent {
			others = append(others, g.steps[j].Name)
		}
	}
	if len(others) > 0 {
		notes += ", after " + limit(strings.Join(others, " "), maxState)
	}
	return notes
}

func writeRows(rows []treeRow) string {
	names, notes := 0, 0
	for _, r := range rows {
		names = max(names, len([]rune(r.name)))
		notes = max(notes, len([]rune(r.notes)))
	}
	var b strings.Builder
	for _, r := range rows {
		line := fmt.Sprintf("%-*s  %-*s  %s", names, r.name, notes, r.notes, r.state)
		b.WriteString(strings.TrimRight(line, " "))
		b.WriteByte('\n')
	}
	return b.String()
}
