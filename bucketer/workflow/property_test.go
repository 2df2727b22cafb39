package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawnRun is a graph, and what becomes of each of its steps if it starts.
type drawnRun struct {
	g     *Graph
	fates []stepFate
}

type stepFate struct {
	ifFalse, unfit bool      // what Prepare says
	items          []Verdict // of its runs
}

func drawRun(t *rapid.T) drawnRun {
	d := &Definition{}
	r := drawnRun{}
	for i := range rapid.IntRange(1, 12).Draw(t, "steps") {
		s := Step{Name: fmt.Sprintf("s%d", i), Task: "t"}
		for j := range i {
			if rapid.IntRange(0, 2).Draw(t, "after") == 0 {
				s.After = append(s.After, fmt.Sprintf("s%d", j))
			}
		}
		if len(s.After) > 0 {
			s.When = rapid.SampledFrom(Whens).Draw(t, "when")
		}
		f := stepFate{ifFalse: rapid.IntRange(0, 7).Draw(t, "if") == 0, unfit: rapid.IntRange(0, 7).Draw(t, "unfit") == 0}
		items := 1
		if rapid.Bool().Draw(t, "for_each") {
			s.ForEach = &ForEach{Items: []json.RawMessage{}, MaxConcurrent: rapid.IntRange(0, 3).Draw(t, "max")}
			items = rapid.SampledFrom([]int{0, 1, 2, 5, 70}).Draw(t, "items")
		}
		usual := rapid.SampledFrom([]Verdict{Succeeded, Failed, Cancelled}).Draw(t, "usual")
		for range items {
			v := usual
			if rapid.IntRange(0, 4).Draw(t, "odd") == 0 {
				v = rapid.SampledFrom([]Verdict{Succeeded, Failed, Cancelled}).Draw(t, "verdict")
			}
			f.items = append(f.items, v)
		}
		d.Steps = append(d.Steps, s)
		r.fates = append(r.fates, f)
	}
	g, faults := Compile(d)
	if len(faults) > 0 {
		t.Fatalf("Compile = %+v", faults)
	}
	r.g = g
	return r
}

// fact is something that was told.
type fact struct {
	what       string
	step, n    int
	verdict    Verdict
	decidesFor int // the step whose fate it decides, or -1
}

func (f fact) tell(p *Progress) {
	switch f.what {
	case "start":
		p.Start(f.step, f.n)
	case "launch":
		p.Launch(f.step, f.n)
	case "end":
		p.End(f.step, f.n, f.verdict)
	case "skip":
		p.Skip(f.step, f.verdict)
	case "fail":
		p.Fail(f.step)
	case "cancel":
		p.Cancel()
	}
}

// play runs a run to its end, in an order that is drawn, and returns all facts. each sees the
// progress before each fact.
func (r drawnRun) play(t *rapid.T, cancelAt int, each func(p *Progress, told []fact)) (*Progress, []fact) {
	p := NewProgress(r.g)
	var told []fact
	under := make(map[[2]int]bool) // runs under way
	tell := func(f fact) {
		f.tell(p)
		told = append(told, f)
	}
	for step := 0; ; step++ {
		if each != nil {
			each(p, told)
		}
		if step == cancelAt {
			tell(fact{what: "cancel", decidesFor: -1})
			continue
		}
		moves := p.Next()
		if len(moves) == 1 && moves[0].Kind == EndRun {
			return p, told
		}
		running := make([][2]int, 0, len(under))
		for k := range under {
			running = append(running, k)
		}
		slices.SortFunc(running, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
		if len(moves)+len(running) == 0 {
			t.Fatalf("nothing is possible, and the run has not ended: %+v", told)
		}
		at := rapid.IntRange(0, len(moves)+len(running)-1).Draw(t, "move")
		if at >= len(moves) {
			k := running[at-len(moves)]
			delete(under, k)
			tell(fact{what: "end", step: k[0], n: k[1], verdict: r.fates[k[0]].items[k[1]], decidesFor: -1})
			continue
		}
		a := moves[at]
		f := r.fates[a.Step]
		switch {
		case a.Kind == PrepareStep && f.ifFalse:
			tell(fact{what: "skip", step: a.Step, verdict: Succeeded, decidesFor: a.Step})
		case a.Kind == PrepareStep && f.unfit:
			tell(fact{what: "fail", step: a.Step, decidesFor: a.Step})
		case a.Kind == PrepareStep:
			tell(fact{what: "start", step: a.Step, n: len(f.items), decidesFor: a.Step})
		case a.Kind == LaunchItems:
			for i := a.From; i < a.To; i++ {
				under[[2]int{a.Step, i}] = true
			}
			if m := r.g.Step(a.Step).ForEach; m != nil && m.MaxConcurrent > 0 {
				n := 0
				for k := range under {
					if k[0] == a.Step {
						n++
					}
				}
				if n > m.MaxConcurrent {
					t.Fatalf("%d runs of step %d are under way, at most %d may be", n, a.Step, m.MaxConcurrent)
				}
			}
			tell(fact{what: "launch", step: a.Step, n: a.To, decidesFor: -1})
		case a.Kind == SkipStep:
			tell(fact{what: "skip", step: a.Step, verdict: a.Verdict, decidesFor: a.Step})
		}
	}
}

// oracle says what becomes of each step, from the words of the issue: with all known, and without
// regard to order.
func (r drawnRun) oracle() []Verdict {
	out := make([]Verdict, len(r.fates))
	for i := range r.fates { // each is after lower ones alone
		s := r.g.Step(i)
		has := make(map[Verdict]int)
		for _, name := range s.After {
			j, _ := r.g.Index(name)
			has[out[j]]++
		}
		met := len(s.After) == 0
		switch s.When.Or() {
		case AllSucceeded:
			met = has[Succeeded] == len(s.After)
		case AllDone, Always:
			met = true
		case AnySucceeded:
			met = has[Succeeded] > 0
		case AnyFailed:
			met = has[Failed] > 0
		}
		if met {
			out[i] = r.fates[i].verdict()
			continue
		}
		switch {
		case has[Failed] > 0:
			out[i] = Failed
		case has[Cancelled] > 0:
			out[i] = Cancelled
		default:
			out[i] = Succeeded
		}
	}
	return out
}

func (f stepFate) verdict() Verdict {
	switch {
	case f.ifFalse:
		return Succeeded
	case f.unfit, slices.Contains(f.items, Failed):
		return Failed
	case slices.Contains(f.items, Cancelled):
		return Cancelled
	}
	return Succeeded
}

// TestOrderDoesNotMatter: in whatever order runs end and actions are done, each step comes to what
// the definition says, and so does the run.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRun(t)
		want := r.oracle()
		p, told := r.play(t, -1, nil)
		for i, v := range want {
			if p.Verdict(i) != v {
				t.Fatalf("step %d is %q, want %q after %+v", i, p.Verdict(i), v, told)
			}
		}
		run := Succeeded
		switch {
		case slices.Contains(want, Failed):
			run = Failed
		case slices.Contains(want, Cancelled):
			run = Cancelled
		}
		if p.Outcome() != run || (run == Succeeded) != (p.Next()[0].Reason == "") {
			t.Fatalf("the run is %q (%+v), want %q", p.Outcome(), p.Next(), run)
		}
		// All facts at once, in another order, come to the same.
		again := NewProgress(r.g)
		for _, f := range rapid.Permutation(told).Draw(t, "order") {
			f.tell(again)
			f.tell(again)
		}
		if again.Outcome() != run || said(again) != said(p) {
			t.Fatalf("the same facts in another order: %q, want %q", said(again), said(p))
		}
	})
}

// TestLessKnowledgeDecidesNothingElse: a node that knows some of the facts says of a step what one
// that knows more says, or nothing yet.
func TestLessKnowledgeDecidesNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRun(t)
		r.play(t, -1, func(p *Progress, told []fact) {
			if len(told) == 0 || rapid.IntRange(0, 3).Draw(t, "compare") > 0 {
				return
			}
			decided := make([]bool, r.g.Len())
			for _, f := range told {
				if f.decidesFor >= 0 {
					decided[f.decidesFor] = true
				}
			}
			less := NewProgress(r.g)
			for _, f := range rapid.Permutation(told).Draw(t, "order") {
				if rapid.IntRange(0, 2).Draw(t, "unknown") > 0 {
					f.tell(less)
				}
			}
			more := make(map[int]Action)
			for _, a := range p.Next() {
				more[a.Step] = a
			}
			for _, a := range less.Next() {
				switch full := more[a.Step]; {
				case a.Kind == LaunchItems && full.Kind == LaunchItems && a.To > full.To:
					t.Fatalf("with less knowledge %+v, with more %+v", a, full)
				case a.Kind != LaunchItems && (a.Kind == EndRun || !decided[a.Step]) && full != a:
					t.Fatalf("with less knowledge %+v, with more %+v", a, full)
				}
			}
		})
	})
}

// TestAfterACancelNothingStarts but what is always to start; and each run ends.
func TestAfterACancelNothingStarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRun(t)
		at := rapid.IntRange(0, 60).Draw(t, "cancel")
		p, _ := r.play(t, at, func(p *Progress, told []fact) {
			if len(told) <= at {
				return
			}
			for _, a := range p.Next() {
				if a.Step >= 0 && r.g.Step(a.Step).When != Always && (a.Kind == PrepareStep || a.Kind == LaunchItems) {
					t.Fatalf("after the cancel: %+v", a)
				}
			}
		})
		if cancelled := p.cancelled; cancelled != (p.Next()[0].Reason == "the run was cancelled") || cancelled && p.Outcome() != Cancelled {
			t.Fatalf("cancelled %v, and ended with %+v", cancelled, p.Next())
		}
	})
}

// TestSortedGraphs: each step comes after those before it, the ancestors are those on a path, and
// each cycle is one.
func TestSortedGraphs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 80).Draw(t, "n")
		after := make([][]int32, n)
		edge := make(map[[2]int32]bool)
		for range rapid.IntRange(0, 3*n).Draw(t, "edges") {
			i, j := int32(rapid.IntRange(0, n-1).Draw(t, "i")), int32(rapid.IntRange(0, n-1).Draw(t, "j"))
			if !edge[[2]int32{i, j}] && (rapid.IntRange(0, 9).Draw(t, "back") == 0 || j < i) {
				edge[[2]int32{i, j}] = true
				after[i] = append(after[i], j)
			}
		}
		o := sortSteps(after)
		reach := reachability(n, after)
		inCycle := 0
		for i := range n {
			if reach[i][i] {
				inCycle++
			}
		}
		if (inCycle == 0) != (len(o.cycles) == 0) || inCycle == 0 && len(o.sorted) != n {
			t.Fatalf("%d nodes lie in cycles; found %v, sorted %d of %d", inCycle, o.cycles, len(o.sorted), n)
		}
		place := make(map[int32]int)
		for at, i := range o.sorted {
			place[i] = at
			for _, j := range after[i] {
				if before, ok := place[j]; !ok || before >= at {
					t.Fatalf("%d comes before %d, which is before it", i, j)
				}
			}
			for j := range n {
				if o.runsBefore(j, int(i)) != reach[i][j] {
					t.Fatalf("runsBefore(%d, %d) = %v, want %v", j, i, !reach[i][j], reach[i][j])
				}
			}
		}
		named := make(map[int32]bool)
		for _, path := range o.cycles {
			for k, i := range path {
				named[i] = true
				if next := path[(k+1)%len(path)]; !edge[[2]int32{next, i}] {
					t.Fatalf("cycle %v: %d is not after %d", path, next, i)
				}
			}
			if path[0] != slices.Min(path) {
				t.Fatalf("cycle %v does not begin with its lowest", path)
			}
		}
		for i := range int32(n) {
			_, sorted := place[i]
			lost := slices.Contains(o.unreachable, i)
			if len(o.cycles) < maxCycles && named[i] != reach[i][i] || lost != (!sorted && !reach[i][i]) {
				t.Fatalf("node %d: sorted %v, in a cycle %v, named %v, unreachable %v", i, sorted, reach[i][i], named[i], lost)
			}
		}
	})
}

// reachability says which nodes run before which, by Warshall's algorithm.
func reachability(n int, after [][]int32) [][]bool {
	reach := make([][]bool, n)
	for i := range reach {
		reach[i] = make([]bool, n)
		for _, j := range after[i] {
			reach[i][j] = true
		}
	}
	for k := range n {
		for i := range n {
			for j := range n {
				reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
			}
		}
	}
	return reach
}
