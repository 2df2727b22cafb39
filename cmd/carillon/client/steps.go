package client

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

const (
	// maxReason is how many characters of a step's reason are shown.
	maxReason = 200
	// maxIndent is how deep a tree is indented.
	maxIndent = 20
)

// stepLine is a line of the tree of a run's steps.
type stepLine struct {
	name string // with its branch
	step *httpapi.RunStep
}

// stepTree returns a run's steps as a tree: each once, below the one before it that has the longest
// way behind it.
func stepTree(steps []httpapi.RunStep) []stepLine {
	place := make(map[string]int, len(steps))
	for i := range steps {
		place[steps[i].Name] = i
	}
	parents := parentsOf(steps, place)
	children := make([][]int, len(steps)+1) // those of the last are the roots
	for i, p := range parents {
		children[p] = append(children[p], i)
	}
	lines := make([]stepLine, 0, len(steps))
	var add func(of, level int, indent string)
	add = func(of, level int, indent string) {
		for k, i := range children[of] {
			branch, below := "├─ ", "│  "
			if k == len(children[of])-1 {
				branch, below = "└─ ", "   "
			}
			if level == 0 || level > maxIndent {
				branch, below = "", ""
			}
			lines = append(lines, stepLine{indent + branch + cli.Clean(steps[i].Name), &steps[i]})
			add(i, level+1, indent+below)
		}
	}
	add(len(steps), 0, "")
	return lines
}

// parentsOf returns below which step each is drawn; len(steps): below none.
func parentsOf(steps []httpapi.RunStep, place map[string]int) []int {
	depth := make([]int, len(steps)) // from 1; 0: not known yet
	parents := make([]int, len(steps))
	var look func(i int) int
	look = func(i int) int {
		if depth[i] > 0 {
			return depth[i]
		}
		depth[i] = 1 // what comes back to it, against all rules, ends here
		parents[i] = len(steps)
		deepest := 0
		for _, name := range steps[i].After {
			if j, ok := place[name]; ok && j != i && look(j) > deepest && parents[j] != i {
				deepest, parents[i] = look(j), j
			}
		}
		depth[i] = deepest + 1
		return depth[i]
	}
	for i := range steps {
		look(i)
	}
	return parents
}

// writeSteps shows the steps of a run as a tree.
func writeSteps(w io.Writer, steps []httpapi.RunStep, now time.Time) error {
	for _, line := range stepLines(stepTree(steps), now) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}

// stepLines returns lines of a tree with how each step stands, in columns.
func stepLines(tree []stepLine, now time.Time) []string {
	rows := make([][3]string, len(tree))
	var widths [3]int
	for i, line := range tree {
		rows[i] = [3]string{line.name, standing(line.step), took(line.step, now)}
		for k, cell := range rows[i] {
			widths[k] = max(widths[k], utf8.RuneCountInString(cell))
		}
	}
	lines := make([]string, len(tree))
	for i, row := range rows {
		var b strings.Builder
		for k, cell := range row {
			b.WriteString(cell + strings.Repeat(" ", widths[k]-utf8.RuneCountInString(cell)+2))
		}
		b.WriteString(notes(tree[i].step))
		lines[i] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// standing says how a step stands, and how many of its items have ended.
func standing(s *httpapi.RunStep) string {
	text := string(s.State)
	if s.Items != nil {
		ended := 0
		for state, n := range s.Items.States {
			if state.Terminal() {
				ended += n
			}
		}
		text += fmt.Sprintf(" %d/%d", ended, s.Items.Total)
	}
	return cli.Clean(text)
}

// took shows how long a step took, or has taken up to now.
func took(s *httpapi.RunStep, now time.Time) string {
	switch {
	case s.StartedAt.IsZero():
		return ""
	case !s.FinishedAt.IsZero():
		return showTook(s.StartedAt, s.FinishedAt)
	case s.State.Terminal() || now.Before(s.StartedAt.Time):
		return ""
	}
	return now.Sub(s.StartedAt.Time).Round(100 * time.Millisecond).String()
}

// notes says what else is to be said of a step.
func notes(s *httpapi.RunStep) string {
	var parts []string
	if s.Items == nil && s.Attempts > 1 {
		parts = append(parts, fmt.Sprintf("%d attempts", s.Attempts))
	}
	if s.Items != nil {
		if n := s.Items.States[schema.StateFailed]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d failed", n))
		}
	}
	if s.Reason != "" {
		parts = append(parts, cli.Clean(cli.Head(s.Reason, maxReason)))
	}
	return strings.Join(parts, ", ")
}

// liveTree draws the steps of a run in a terminal, over what it drew before.
type liveTree struct {
	out           io.Writer
	columns, rows int // rows 0: not known
	drawn         int // lines
}

func (t *liveTree) show(run *httpapi.Run, now time.Time) error {
	tree, more := stepTree(run.Steps), 0
	if room := t.rows - 3; t.rows > 0 && !run.State.Terminal() && len(tree) > room {
		tree, more = urgent(tree, max(room, 1))
	}
	lines := append([]string{headOf(run, now)}, stepLines(tree, now)...)
	if more > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", more))
	}
	var b strings.Builder
	if t.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", t.drawn)
	}
	for _, line := range lines {
		b.WriteString("\r\x1b[2K" + cli.Fit([]string{line}, t.columns) + "\n")
	}
	b.WriteString("\x1b[J")
	t.drawn = len(lines)
	if _, err := io.WriteString(t.out, b.String()); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// headOf says how the run as a whole stands.
func headOf(run *httpapi.Run, now time.Time) string {
	head := fmt.Sprintf("%s  %s  %s", cli.Clean(run.Workflow), run.ID, run.State)
	if span := took(&httpapi.RunStep{State: run.State, StartedAt: run.StartedAt, FinishedAt: run.FinishedAt}, now); span != "" {
		head += "  " + span
	}
	return head
}

// urgent returns at most n lines of a tree: steps that are under way or went wrong before all others.
// more is how many it leaves out.
func urgent(tree []stepLine, n int) (some []stepLine, more int) {
	first := slices.DeleteFunc(slices.Clone(tree), func(l stepLine) bool {
		s := l.step.State
		return s == schema.StatePending || s == schema.StateSucceeded || s == schema.StateSkipped
	})
	if len(first) < n { // there is room for others
		first = tree
	}
	some = first[:min(n, len(first))]
	return some, len(tree) - len(some)
}

// stepLog writes a line for each change of a run's steps.
type stepLog struct {
	out  io.Writer
	said map[string]string // by step: its state when it was last told of
}

func (l *stepLog) show(run *httpapi.Run, now time.Time) error {
	if l.said[""] == "" {
		if _, err := fmt.Fprintf(l.out, "%s run %s\n", cli.Clean(run.Workflow), run.ID); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	for i := range run.Steps {
		s := &run.Steps[i]
		if was := l.said[s.Name]; was == string(s.State) || was == "" && s.State == schema.StatePending {
			continue
		}
		l.said[s.Name] = string(s.State)
		if err := l.line(now, s.Name, standing(s), spanIf(s.State.Terminal(), took(s, now)), notes(s)); err != nil {
			return err
		}
	}
	if was := l.said[""]; was != string(run.State) {
		l.said[""] = string(run.State)
		if was == "" && run.State == schema.StatePending {
			return nil
		}
		whole := httpapi.RunStep{State: run.State, StartedAt: run.StartedAt, FinishedAt: run.FinishedAt}
		return l.line(now, "run", string(run.State), spanIf(run.State.Terminal(), took(&whole, now)))
	}
	return nil
}

func spanIf(ended bool, span string) string {
	if ended {
		return span
	}
	return ""
}

func (l *stepLog) line(now time.Time, words ...string) error {
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	if _, err := fmt.Fprintf(l.out, "%s  %s\n", now.UTC().Format("15:04:05.000"), cli.Clean(strings.Join(words, "  "))); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
