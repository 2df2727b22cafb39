package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// one is a definition of one step with those fields.
func one(fields string) string { return `{"steps":[{"name":"a",` + fields + `}]}` }

// two is a definition of a step a, with a task, and of a step b after it with those fields.
func two(fields string) string {
	return `{"steps":[{"name":"a","task":"t"},{"name":"b","after":["a"],` + fields + `}]}`
}

const uuid = "01a21c72-91fa-8011-ab7c-4d1e90a35f68"

// faulty are definitions and their faults: pointer and part of the message.
var faulty = map[string]struct {
	text string
	want []string
}{
	"no steps":         {`{"steps":[]}`, []string{"/steps must be 1 to 1000, not 0"}},
	"steps absent":     {`{}`, []string{"/steps must be 1 to 1000"}},
	"1001 steps":       {`{"steps":[` + strings.TrimSuffix(strings.Repeat("{},", 1001), ",") + `]}`, []string{"/steps must be 1 to 1000, not 1001"}},
	"a run's deadline": {`{"deadline":"2161h","steps":[{"name":"a","task":"t"}]}`, []string{"/deadline must be more than 0s and at most 2160h0m0s"}},

	"no name":                         {`{"steps":[{"task":"t"}]}`, []string{"/steps/0/name is missing"}},
	"bad names":                       {steps("A", "b/c", strings.Repeat("x", 64), uuid), []string{"/steps/0/name must be 1 to 63", "/steps/1/name must be 1 to 63", "/steps/2/name must be 1 to 63", "/steps/3/name must not be a UUID"}},
	"a name with a control character": {`{"steps":[{"name":"a\u0007","task":"t"}]}`, []string{"/steps/0/name must be 1 to 63"}},
	"the same name":                   {steps("a", "b", "a", "a"), []string{"/steps/2/name is the name of an earlier step, too", "/steps/3/name is the name of an earlier step, too"}},
	"an unknown name":                 {steps("a <- b", "c <- a d"), []string{"/steps/0/after/0 is not the name of a step", "/steps/1/after/1 is not the name of a step"}},
	"a name twice":                    {steps("a", "b <- a a"), []string{"/steps/1/after/1 is there twice"}},
	"when":                            {`{"steps":[{"name":"a","task":"t","when":"all_done"},{"name":"b","task":"t","after":["a"],"when":"never"},{"name":"c","task":"t","when":"x"}]}`, []string{"/steps/0/when goes with after alone", "/steps/1/when must be one of all_succeeded, all_done, any_succeeded, any_failed, always", "/steps/2/when must be one of"}},

	"after itself":     {steps("a <- a"), []string{"/steps/0/after/0 closes a cycle: a → a"}},
	"a cycle of two":   {steps("a <- b", "b <- a"), []string{"/steps/0/after/0 closes a cycle: a → b → a"}},
	"a cycle of three": {steps("x", "c <- b x", "a <- c", "b <- x a"), []string{"/steps/1/after/0 closes a cycle: c → a → b → c"}},
	"two cycles":       {steps("a <- b", "b <- a", "c <- d", "d <- c"), []string{"/steps/0/after/0 closes a cycle: a → b → a", "/steps/2/after/0 closes a cycle: c → d → c"}},
	"linked cycles":    {steps("a <- b", "b <- a d", "c <- b", "d <- c"), []string{"/steps/0/after/0 closes a cycle: a → b → a", "/steps/1/after/1 closes a cycle: b → c → d → b"}},
	"after a cycle":    {steps("a <- b", "b <- a", "c <- b", "d <- c", "e"), []string{"/steps/0/after/0 closes a cycle", "/steps/2/after can never be: it comes after a cycle", "/steps/3/after can never be"}},

	"no work":             {one(`"priority":"high"`), []string{"/steps/0 must have exactly one of task, http, nats, script, lambda, jetstream, sqs, sns, eventbridge, step_functions, kafka, wait and workflow"}},
	"limits alone":        {one(`"timeout":"5s"`), []string{"/steps/0 must have exactly one of"}},
	"two kinds of work":   {one(`"task":"t","workflow":"w"`), []string{"/steps/0 must have exactly one of"}},
	"two targets":         {one(`"http":{"url":"x"},"nats":{"subject":"s"}`), []string{"/steps/0 must have exactly one of"}},
	"a target and a task": {one(`"http":{"url":"x"},"task":"t","timeout":"5s"`), []string{"/steps/0 must have exactly one of"}},
	"limits with a task":  {one(`"task":"t","timeout":"5s","retry":{},"guarantee":"at_most_once"`), []string{"/steps/0/timeout belongs to the task", "/steps/0/retry belongs to the task", "/steps/0/guarantee belongs to the task"}},
	"limits with a wait":  {one(`"wait":{"for":"1s"},"timeout":"5s"`), []string{"/steps/0/timeout goes with http, nats and script alone"}},
	"names of work":       {`{"steps":[{"name":"a","task":"T"},{"name":"b","workflow":"W w"}]}`, []string{"/steps/0/task must be 1 to 63", "/steps/1/workflow must be 1 to 63"}},
	"a priority":          {one(`"task":"t","priority":"urgent"`), []string{"/steps/0/priority must be one of critical, high, normal, low"}},
	"a step's deadline":   {one(`"task":"t","deadline":"-1s"`), []string{"/steps/0/deadline must be more than 0s"}},

	"an empty wait":         {one(`"wait":{}`), []string{"/steps/0/wait must have exactly one of for, until and event"}},
	"two kinds of waits":    {one(`"wait":{"for":"1s","event":"e"}`), []string{"/steps/0/wait must have exactly one of"}},
	"a wait until no time":  {one(`"wait":{"until":"2026-11-21 09:30"}`), []string{"/steps/0/wait/until must be an RFC 3339 time"}},
	"a wait of a century":   {one(`"wait":{"for":"876000h"}`), []string{"/steps/0/wait/for must be more than 0s"}},
	"a wait into the past":  {one(`"wait":{"for":"-1s"}`), []string{"/steps/0/wait/for must be more than 0s"}},
	"an event's name":       {one(`"wait":{"event":"E e"}`), []string{"/steps/0/wait/event must be 1 to 63"}},
	"what goes with events": {one(`"wait":{"for":"1s","filter":"true","deadline":"1s"}`), []string{"/steps/0/wait/filter goes with event alone", "/steps/0/wait/deadline goes with event alone"}},
	"a wait's deadline":     {one(`"wait":{"event":"e","deadline":"2161h"}`), []string{"/steps/0/wait/deadline must be more than 0s"}},
	"a filter":              {one(`"wait":{"event":"e","filter":"event.day == steps.a.output"}`), []string{"/steps/0/wait/filter is not understood at column 14: undeclared reference to 'steps'"}},
	"a wait for each":       {one(`"wait":{"for":"1s"},"for_each":{"items":[1]},"payload":1`), []string{"/steps/0/for_each does not go with wait", "/steps/0/payload does not go with wait"}},

	"for_each of nothing": {two(`"task":"t","for_each":{}`), []string{"/steps/1/for_each must have exactly one of from, input and items"}},
	"for_each of two":     {two(`"task":"t","for_each":{"from":"a","items":[]}`), []string{"/steps/1/for_each must have exactly one of"}},
	"for_each of nobody":  {two(`"task":"t","for_each":{"from":"x"}`), []string{"/steps/1/for_each/from is not the name of a step"}},
	"for_each of itself":  {two(`"task":"t","for_each":{"from":"b"}`), []string{"/steps/1/for_each/from does not run before step \"b\""}},
	"for_each's pointers": {`{"steps":[{"name":"a","task":"t"},{"name":"b","task":"t","after":["a"],"for_each":{"from":"a","pointer":"x"}},{"name":"c","task":"t","for_each":{"input":"/~2"}}]}`, []string{`/steps/1/for_each/pointer must be a JSON pointer`, `/steps/2/for_each/input must have "~0"`}},
	"a pointer alone":     {two(`"task":"t","for_each":{"input":"","pointer":"/x"}`), []string{"/steps/1/for_each/pointer goes with from alone"}},
	"10,001 items":        {one(`"task":"t","for_each":{"items":[` + strings.TrimSuffix(strings.Repeat("1,", 10_001), ",") + `]}`), []string{"/steps/0/for_each/items must be at most 10000, not 10001"}},
	"max_concurrent":      {one(`"task":"t","for_each":{"items":[1],"max_concurrent":-1}`), []string{"/steps/0/for_each/max_concurrent must not be negative"}},

	"an if that is none":       {one(`"task":"t","if":"1 +"`), []string{"/steps/0/if is not understood at column 4"}},
	"an if of a number":        {one(`"task":"t","if":"size(input)"`), []string{"/steps/0/if must be true or false, not of type int"}},
	"an if of the wrong types": {two(`"task":"t","if":"steps.a.state > 1 && steps.a.outptu == 1"`), []string{"/steps/1/if is not understood at column 15: found no matching overload for '_>_'", "/steps/1/if is not understood at column 29: undefined field 'outptu'"}},
	"an if of nobody":          {two(`"task":"t","if":"steps.x.output == 1 && steps[\"y\"].state == \"\""`), []string{`/steps/1/if refers to step "x", which is not the name of a step`, `/steps/1/if refers to step "y", which is not`}},
	"an if of the future":      {two(`"task":"t","if":"steps.b.output == 1"`), []string{`/steps/1/if refers to step "b", which does not run before step "b"`}},
	"the same if too early":    {`{"steps":[{"name":"a","task":"t"},{"name":"b","task":"t","after":["a"],"if":"steps.a.output"},{"name":"c","task":"t","if":"steps.a.output"}]}`, []string{`/steps/2/if refers to step "a", which does not run before step "c"`}},
	"an if of all steps":       {two(`"task":"t","if":"size(steps) > 1"`), []string{"/steps/1/if must use steps as steps.NAME.output"}},
	"an if of a computed step": {two(`"task":"t","if":"steps[input.x].output == 1"`), []string{"/steps/1/if must use steps as"}},
	"an if that has a step":    {two(`"task":"t","if":"has(steps.a)"`), []string{"/steps/1/if must use steps as"}},
	"an if of a whole step":    {two(`"task":"t","if":"steps.a == steps.a"`), []string{"/steps/1/if must use steps as"}},
	"an if of nested lists":    {one(`"task":"t","if":"[[[[[[[[[1]]]]]]]]] == []"`), []string{"/steps/0/if must not nest lists deeper than 8 levels"}},
	"a long if":                {one(`"task":"t","if":"` + strings.Repeat("true||", 400) + `true"`), []string{"/steps/0/if must be at most 2000 bytes long"}},

	"a reference to nobody":       {two(`"task":"t","payload":{"x":[{"$from":"x"}]}`), []string{"/steps/1/payload/x/0/$from is not the name of a step"}},
	"a reference to a later step": {`{"steps":[{"name":"a","task":"t","payload":{"$from":"b"}},{"name":"b","task":"t","after":["a"]}]}`, []string{"/steps/0/payload/$from does not run before step \"a\""}},
	"nothing":                     {steps("a", "b") + " ", nil},
	"a reference's pointer":       {two(`"task":"t","payload":{"a/b":{"$from":"a","pointer":"x"}}`), []string{"/steps/1/payload/a~1b/pointer must be a JSON pointer"}},
	"a reference that is none":    {two(`"task":"t","payload":[{"$from":1},{"$input":{}},{"$from":"a","pointer":1}]`), []string{"/steps/1/payload/0/$from must be a string", "/steps/1/payload/1/$input must be a string", "/steps/1/payload/2/pointer must be a string"}},
	"a reference with more":       {two(`"task":"t","payload":[{"$from":"a","pointer":"","x":1},{"$input":"","pointer":""},{"$run":"/id","$input":""}]`), []string{"/steps/1/payload/0 has $from, which makes it a reference, and must have nothing but pointer", "/steps/1/payload/1 has $input, which makes it a reference, and must have nothing else", "/steps/1/payload/2 has $run, which"}},
	"an item of nothing":          {two(`"task":"t","payload":[{"$item":""},{"$index":true}]`), []string{"/steps/1/payload/0/$item goes with for_each alone", "/steps/1/payload/1/$index goes with for_each alone"}},
	"an index":                    {one(`"task":"t","for_each":{"items":[1]},"payload":{"$index":false}`), []string{"/steps/0/payload/$index must be true"}},
	"a fact of the run":           {one(`"task":"t","payload":[{"$run":"/tenant"},{"$run":""},{"$run":1}]`), []string{`/steps/0/payload/0/$run must be "/id" or "/nominal_at"`, `/steps/0/payload/1/$run must be`, "/steps/0/payload/2/$run must be a string"}},
	"a large payload":             {one(`"task":"t","payload":"` + strings.Repeat("x", schema.MaxPayload) + `"`), []string{"/steps/0/payload must be at most 65536 bytes of JSON, not 65538"}},
	"a payload nested deep":       {one(`"task":"t","payload":` + strings.Repeat("[", 102) + strings.Repeat("]", 102)), []string{"/steps/0/payload" + strings.Repeat("/0", 100) + " is nested deeper than 100 levels"}},

	"faults in the order of the steps": {
		`{"deadline":"-1s","steps":[{"name":"a","task":"t","if":"x"},{"name":"a","after":["z"],"task":"t"}]}`,
		[]string{"/deadline must be", "/steps/0/if is not understood", "/steps/1/name is the name", "/steps/1/after/0 is not"},
	},
}

func TestCompileReportsEveryFault(t *testing.T) {
	for name, row := range faulty {
		t.Run(name, func(t *testing.T) {
			g, faults := Compile(mustDecode(t, row.text))
			if (g == nil) != (len(row.want) > 0) {
				t.Errorf("Compile returned a graph: %v", g != nil)
			}
			var got []string
			for _, f := range faults {
				got = append(got, f.Pointer+" "+f.Message)
			}
			if len(got) != len(row.want) {
				t.Fatalf("Compile(%.300s) = %d faults %q, want %q", row.text, len(got), got, row.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], row.want[i]) {
					t.Errorf("fault %d is %q, want %q", i, got[i], row.want[i])
				}
			}
		})
	}
}

// TestEachPointerIsThere: a fault's pointer leads to what it speaks of, or to where it is missing.
func TestEachPointerIsThere(t *testing.T) {
	for name, row := range faulty {
		_, faults := Compile(mustDecode(t, row.text))
		for _, f := range faults {
			p, what := parsePointer(f.Pointer)
			if what != "" {
				t.Fatalf("%s: pointer %q %s", name, f.Pointer, what)
			}
			if strings.HasSuffix(f.Message, "is missing") {
				p = p[:len(p)-1]
			}
			if _, missing := find([]byte(row.text), p); missing != "" && row.text != `{}` {
				t.Errorf("%s: %s: the definition %s", name, f.Pointer, missing)
			}
		}
	}
}

// TestWhatIsBuiltIsChecked: a definition that no JSON says.
func TestWhatIsBuiltIsChecked(t *testing.T) {
	_, faults := Compile(&Definition{Steps: []Step{
		{Name: "a", Task: "t", Payload: json.RawMessage(`{`)},
		{Name: "b", Task: "t", Payload: json.RawMessage("\"\xff\"")},
		{Name: "c", Task: "t", ForEach: &ForEach{Items: []json.RawMessage{json.RawMessage(`1`), json.RawMessage(`x`), nil}}},
		{Name: "d", Work: &schema.Work{}},
	}})
	var got []string
	for _, f := range faults {
		got = append(got, f.Pointer+" "+f.Message)
	}
	want := []string{
		"/steps/0/payload is not JSON", "/steps/1/payload is not JSON: it is not UTF-8", "/steps/2/for_each/items/1 is not JSON", "/steps/2/for_each/items/2 is not JSON",
		"/steps/3 must have exactly one of task, http, nats, script, lambda, jetstream, sqs, sns, eventbridge, step_functions, kafka, wait and workflow",
	}
	if !slices.Equal(got, want) {
		t.Errorf("Compile = %q, want %q", got, want)
	}
}

func TestFaultsAreBounded(t *testing.T) {
	d := &Definition{}
	for i := range MaxSteps {
		d.Steps = append(d.Steps, Step{Name: fmt.Sprintf("s%d", i)})
	}
	_, faults := Compile(d)
	if len(faults) != maxFaults+1 || faults[maxFaults].Message != "has more faults than are listed here" {
		t.Errorf("Compile of 1,000 faults: %d faults, the last is %+v; want %d and a word on the rest", len(faults), faults[len(faults)-1], maxFaults)
	}
	_, faults = Compile(&Definition{Steps: []Step{{Name: strings.Repeat("é", 5000), Task: "t"}}})
	if v := faults[0].Value.(string); len(v) > maxEcho+3 || !strings.HasSuffix(v, "é…") {
		t.Errorf("the fault of a long name says %d bytes of it", len(v))
	}
}

// TestALongCycleIsCut: 1,000 names would be 64 KB of message.
func TestALongCycleIsCut(t *testing.T) {
	lines := []string{"s0 <- s999"}
	for i := 1; i < MaxSteps; i++ {
		lines = append(lines, fmt.Sprintf("s%d <- s%d", i, i-1))
	}
	_, faults := Compile(mustDecode(t, steps(lines...)))
	want := "closes a cycle: s0 → s1 → s2 → s3 → s4 → s5 → s6 → s7 → s8 → s9 → … → s990 → s991 → s992 → s993 → s994 → s995 → s996 → s997 → s998 → s999 → s0"
	if len(faults) != 1 || faults[0].Message != want {
		t.Errorf("Compile = %+v, want %s", faults, want)
	}
}

// TestCompileIsBounded: the largest and the worst definitions take no more than moments.
func TestCompileIsBounded(t *testing.T) {
	dense := func(cycle bool) *Definition {
		d := &Definition{}
		for i := range 500 {
			s := Step{Name: fmt.Sprintf("s%d", i), Task: "t"}
			for j := range 500 {
				if cycle && i != j || j < i {
					s.After = append(s.After, fmt.Sprintf("s%d", j))
				}
			}
			d.Steps = append(d.Steps, s)
		}
		return d
	}
	deep := &Definition{}
	for i := range MaxSteps {
		text := fmt.Sprintf("%s%d%s == []", strings.Repeat("[", maxLists), i, strings.Repeat("]", maxLists))
		deep.Steps = append(deep.Steps, Step{Name: fmt.Sprintf("s%d", i), Task: "t", If: text})
	}
	for name, d := range map[string]*Definition{"dense": dense(false), "dense cycles": dense(true), "deep expressions": deep} {
		start := time.Now()
		_, faults := Compile(d)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s: Compile took %s and found %d faults", name, took, len(faults))
		} else {
			t.Logf("%s: %s, %d faults", name, took, len(faults))
		}
	}
}

// TestExpressionsAreBoundedTogether: those that are the same count once.
func TestExpressionsAreBoundedTogether(t *testing.T) {
	d := &Definition{}
	for i := range 200 {
		text := strings.Repeat(" ", 1000) + fmt.Sprintf("input.x == %d", i%100)
		d.Steps = append(d.Steps, Step{Name: fmt.Sprintf("s%d", i), Task: "t", If: text})
	}
	if _, faults := Compile(d); len(faults) > 0 {
		t.Errorf("Compile of 100 KiB of expressions, twice = %+v", faults)
	}
	for i := range d.Steps {
		d.Steps[i].If += fmt.Sprint(i)
	}
	_, faults := Compile(d)
	if len(faults) == 0 || faults[0].Pointer != "/steps/129/if" || !strings.HasPrefix(faults[0].Message, "is too much: all expressions together must be at most 131072 bytes") {
		t.Errorf("Compile of 200 KiB of expressions = %d faults, the first %+v", len(faults), faults[:min(1, len(faults))])
	}
}

func TestNeeds(t *testing.T) {
	g := mustCompile(t, `{"steps":[
	 {"name":"a","task":"t"},{"name":"b","task":"t"},{"name":"c","task":"t","after":["a","b"]},
	 {"name":"d","task":"t","after":["c"],"if":"steps.c.state == 'succeeded' && steps[\"b\"].output.ok","for_each":{"from":"a"},"payload":[{"$from":"c"},{"$from":"a"},{"$input":""}]},
	 {"name":"e","task":"t","after":["d"],"if":"steps.d.state == 'failed'","for_each":{"from":"b"}}]}`)
	for name, want := range map[string][]int{"a": nil, "c": nil, "d": {0, 1, 2}, "e": {1}} {
		if got := g.Needs(index(t, g, name)); !slices.Equal(got, want) {
			t.Errorf("Needs(%s) = %v, want %v", name, got, want)
		}
	}
	d := index(t, g, "d")
	if g.Len() != 5 || !slices.Equal(g.After(d), []int32{2}) || !slices.Equal(g.Before(2), []int32{3}) || g.Step(d).Name != "d" {
		t.Errorf("the graph has %d steps, d is after %v, c before %v", g.Len(), g.After(d), g.Before(2))
	}
}
