package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// holds evaluates the if of a step b that comes after a.
func holds(t *testing.T, expression, input, output string) (bool, error) {
	t.Helper()
	text, err := json.Marshal(expression)
	if err != nil {
		t.Fatal(err)
	}
	got, err := prepared(t, `"task":"t","if":`+string(text), input, output)
	return !got.Skip && err == nil, err
}

func TestConditions(t *testing.T) {
	const input = `{"date":"2026-11-21","n":3,"f":2.5,"big":9223372036854775808,"yes":true,"list":[1,2,3],"m":{"b":1,"a":2},"m3":{"b":1,"a":2,"c":3},"many":{"h":1,"b":1,"g":1,"a":1,"f":1,"c":1,"e":1,"d":1},"at":"2026-11-21T09:30:00+02:00"}`
	const output = `{"files":["x","y",{"size":7}],"none":null,"nested":[[1,[2]],{"k":[1.0]}]}`
	for expression, want := range map[string]bool{
		`size(steps.a.output.files) > 2`:                                          true,
		`size(steps["a"].output.files) > 3`:                                       false,
		`steps.a.state == "state-of-a"`:                                           true,
		`has(steps.a.output)`:                                                     true,
		`has(steps.a.output.files)`:                                               true,
		`has(steps.a.output.nothing)`:                                             false,
		`steps.a.output.none == null`:                                             true,
		`steps.a.output.files[2].size == 7`:                                       true,
		`"x" in steps.a.output.files && !("z" in steps.a.output.files)`:           true,
		`"a" in input.m && !("c" in input.m)`:                                     true,
		`input.n == 3 && input.n < 4 && input.n > 2.5 && input.n + 1 == 4`:        true,
		`input.n == 3.0 && input.f == 2.5 && input.f > 2`:                         true,
		`input.big > 9223372036854775807.0 || input.big == 9223372036854775808.0`: true,
		`input.yes`: true,
		`input.date.matches("^[0-9]{4}-[0-9]{2}-[0-9]{2}$")`:                        true,
		`input.date.startsWith("2026") ? input.n == 3 : false`:                      true,
		`input.list.all(x, x > 0) && input.list.exists(x, x == 3)`:                  true,
		`input.list.filter(x, x > 1).map(x, x * 2) == [4, 6]`:                       true,
		`input.list != [1, 2, 3] || input.m != input.m`:                             false,
		`[1, 2] == input.list || input.m == input.m3 || input.m3 == input.m`:        false,
		`size(input.list) > 2.5`:                                                    true,
		`input.many.map(k, k) == ["h", "b", "g", "a", "f", "c", "e", "d"]`:          true, // the order of the text
		`steps.a.output.nested[0] == [1, [2]] && steps.a.output.nested[1].k == [1]`: true,
		`input.list == [1, 2] || input.list == [1, 2, 4] || input.list == "x"`:      false,
		`input.m == steps.a.output || input == steps.a.output`:                      false,
		`timestamp(input.at).getHours() == 7`:                                       true, // in UTC
		`timestamp(input.at) < timestamp("2026-11-21T08:00:00Z")`:                   true,
		`duration("1h") > duration("59m")`:                                          true,
		`(steps.a.output.missing || true) && (true || steps.a.output.missing)`:      true, // as CEL says
		`dyn(input.n) == "3"`:                              false,
		`[input.n, 1].exists(x, [2, 3].exists(y, x == y))`: true,
	} {
		got, err := holds(t, expression, input, output)
		if err != nil || got != want {
			t.Errorf("%s = %v, %v; want %v", expression, got, err, want)
		}
	}
}

func TestConditionsThatFailSayWhy(t *testing.T) {
	for expression, want := range map[string]string{
		`steps.a.output.nothing == 1`:          "if: no such key: nothing",
		`input.date.x == 1`:                    "if: no such key: x",
		`input.n`:                              "if: is of type int, not true or false",
		`input.n + "x" == "x"`:                 "if: no such overload",
		`1 in input.date`:                      "if: no such overload",
		`input.list[7] == 1`:                   "if: index out of bounds: 7",
		`1 / (input.n - 3) == 1`:               "if: division by zero",
		`timestamp(input.date) < timestamp(0)`: "if: ",
	} {
		_, err := holds(t, expression, `{"date":"x","n":3,"list":[]}`, `{}`)
		if err == nil {
			t.Errorf("%s holds, want a failure", expression)
		} else if got := failure(t, err); !strings.HasPrefix(got, want) {
			t.Errorf("%s fails with %q, want %q", expression, got, want)
		}
	}
	if _, err := holds(t, `steps.a.output.x`, `{}`, `not JSON`); !strings.Contains(failure(t, err), `the output of step "a" is not JSON`) {
		t.Errorf("an output that is not JSON: %v", err)
	}
	if _, err := holds(t, `input.x`, `{`, `{}`); failure(t, err) != `if: the payload of the run is not JSON` {
		t.Errorf("a payload that is not JSON: %v", err)
	}
	if got, err := holds(t, `!has(steps.a.output) && steps.a.output == null && input == null`, ``, ``); !got {
		t.Errorf("no output and no payload: %v, %v; want null both", got, err)
	}
}

// TestUnreadOutputsDecideNothing: a store that does not answer is no reason to fail, nor to go on,
// whatever CEL makes of an error.
func TestUnreadOutputsDecideNothing(t *testing.T) {
	away := errors.New("the store is away")
	for _, fields := range []string{
		`"if":"steps.a.output.x == 1"`, `"if":"true || steps.a.output.x"`, `"if":"steps.a.output.x || true"`, `"if":"!has(steps.a.output)"`,
		`"for_each":{"from":"a"}`, `"payload":{"$from":"a"}`,
	} {
		g := mustCompile(t, two(`"task":"t",`+fields))
		in := outputs(g, `{}`, nil)
		calls := 0
		in.Output = func(int) (json.RawMessage, error) { calls++; return nil, away }
		got, err := g.Prepare(1, in)
		var f *Failure
		if calls > 0 && (!errors.Is(err, away) || errors.As(err, &f)) || calls == 0 && (err != nil || got.Skip) {
			t.Errorf("Prepare with %s = %+v, %v after %d reads; want the error of the store", fields, got, err, calls)
		}
		if calls > 1 {
			t.Errorf("Prepare with %s reads the output %d times", fields, calls)
		}
	}
}

// TestEachOutputIsReadOnce: whatever refers to it.
func TestEachOutputIsReadOnce(t *testing.T) {
	g := mustCompile(t, two(`"task":"t","if":"steps.a.output.x != [] && size(steps.a.output) > 0","for_each":{"from":"a","pointer":"/x"},"payload":[{"$from":"a"},{"$from":"a","pointer":"/x"}]`))
	calls := 0
	got, err := g.Prepare(1, Input{Output: func(int) (json.RawMessage, error) { calls++; return json.RawMessage(`{"x":[1]}`), nil }})
	if err != nil || string(got.Items[0]) != `[{"x":[1]},[1]]` || calls != 1 {
		t.Errorf("Prepare = %s, %v after %d reads; want one", got.Items, err, calls)
	}
}

// TestGraphsAreShared: runs of one definition are prepared at once.
func TestGraphsAreShared(t *testing.T) {
	g := mustCompile(t, two(`"task":"t","if":"input.s.matches('^x+$') && input.list.exists(x, x in steps.a.output.list)","for_each":{"from":"a","pointer":"/list"},"payload":[{"$item":""},{"$input":"/s"}]`))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				got, err := g.Prepare(1, outputs(g, `{"s":"xxx","list":[1,2]}`, map[string]string{"a": `{"list":[2,3]}`}))
				if err != nil || len(got.Items) != 2 || string(got.Items[1]) != `[3,"xxx"]` {
					t.Errorf("Prepare = %s, %v", got.Items, err)
				}
			}
		})
	}
	all.Wait()
}

// TestStatesMayBeUnknown: who gives no State has none.
func TestStatesMayBeUnknown(t *testing.T) {
	g := mustCompile(t, two(`"task":"t","if":"steps.a.state == '' && !has(steps.a.state)"`))
	if got, err := g.Prepare(1, Input{}); err != nil || got.Skip {
		t.Errorf("Prepare = %+v, %v; want that it holds", got, err)
	}
}

// refused are expressions that Compile does not take, since they may cost too much, or give another
// result elsewhere.
var refused = map[string]string{
	`input.all(a, input.all(b, input.all(c, true)))`:                       "may cost too much",
	`input.all(a, a.all(b, b.all(c, c.all(d, true))))`:                     "may cost too much",
	`[1]` + strings.Repeat(`.map(a, a + 1)`, 9) + ` == [1]`:                "must not have more than 8 loops",
	`["x"]` + strings.Repeat(`.map(a,a+a+a+a+a+a+a+a)`, 8) + `.size() > 0`: "may cost too much",
	`input.x.matches(input.y)`:                                             "must state the pattern of matches",
	`input.x.matches("(a{1000}){1000}")`:                                   "is not understood",
	`input.x.matches("a{200}b{200}")`:                                      "is not understood",
	`input.x.matches("(")`:                                                 "is not understood",
	`matches(input.x, input.y)`:                                            "must state the pattern of matches",
	`{"a": 1}.map(k, k) == []`:                                             "must not write a map",
	`carillon.Step{output: 1}.output == 1`:                                 "must not write a map or a message",
	`timestamp("today") == timestamp(0)`:                                   "is not understood at column 11",
	`timestamp(input.x).getHours("Europe/Berlin") == 1`:                    "must not name a time zone",
	`timestamp(input.x).getHours("Local") == 1`:                            "must not name a time zone",
	`now() == timestamp(0)`:                                                "is not understood at column 4: undeclared reference to 'now'",
	`uuid() == "x"`:                                                        "is not understood at column 5: undeclared reference",
	strings.Repeat("(", 1000):                                              "is not understood",
	strings.Repeat("!", 1000) + "(":                                        "is not understood",
	strings.Repeat("input.x[", 200):                                        "is not understood",
	strings.Repeat("1+", 900) + "1 > 0":                                    "is not understood",
	"true\n&&\n x":                                                         "is not understood at line 3, column 2",
	"\x00":                                                                 "is not understood",
	"\xff":                                                                 "is not understood",
	`"`:                                                                    "is not understood",
	strings.Repeat("@", 1000):                                              "is not understood",
	`event.x == 1`:                                                         "is not understood at column 1: undeclared reference to 'event'",
}

func TestRefusedExpressions(t *testing.T) {
	for text, want := range refused {
		start := time.Now()
		_, faults := compileCondition(text, func(string) (int, string) { return 0, "" })
		if len(faults) == 0 || len(faults) > maxExprFaults || !strings.HasPrefix(faults[0], want) {
			t.Errorf("%.60q: %q, want %q", text, faults, want)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%.60q took %s", text, took)
		}
		for _, f := range faults {
			if len(f) > 300 || strings.Contains(f, "\n") {
				t.Errorf("%.60q: the fault is %q", text, f)
			}
		}
	}
}

// TestExpressionsEnd: whatever they are given, they end soon, with a result or a clear reason.
func TestExpressionsEnd(t *testing.T) {
	const tooMuch = "if: costs more than 1000000 units to evaluate"
	list := `[` + strings.TrimSuffix(strings.Repeat(`{"k":[1,2,3]},`, 20_000), ",") + `]`
	input := `{"s":"` + strings.Repeat("a", 50_000) + `","list":` + list + `,"same":` + list + `}`
	for expression, want := range map[string]string{
		`input.list.all(a, input.list.all(b, true))`:                                       tooMuch,
		`input.list.all(a, input.list == input.same)`:                                      tooMuch,
		`input.list.all(a, !("x" in input.list))`:                                          tooMuch,
		`input.list.all(a, !input.s.matches("(a|a)*b"))`:                                   tooMuch,
		`input.list.all(a, input.s + "x" != input.s)`:                                      tooMuch,
		`input.list.all(a, input.s < input.s + "x")`:                                       tooMuch,
		`input.list.all(a, input.s.contains("b"))`:                                         "",
		`input.list.all(a, size(input.s) > 0)`:                                             tooMuch,
		`[input.s]` + strings.Repeat(`.map(a, a + a + a + a)`, 4) + `.size() == 1`:         tooMuch,
		`[input.s]` + strings.Repeat(`.map(a, a + a + a + a)`, 2) + `.size() == 1`:         "",
		`[[1]]` + strings.Repeat(`.map(a, a+a+a+a+a+a+a+a+a+a)`, 4) + `.exists(a, a == a)`: "",
		`[[1]]` + strings.Repeat(`.map(a, [a,a,a,a,a,a,a,a])`, 7) + `.exists(a, a == a)`:   tooMuch,
		`[[1]]` + strings.Repeat(`.map(a, [a,a,a,a,a,a,a,a])`, 7) + `.exists(a, a in [a])`: tooMuch,
		`[input.list].map(a, a.map(x, a)).exists(b, b == b)`:                               tooMuch,
		`[input.list.map(x, input.list)].map(q, q.map(x, q)).exists(c, c != c)`:            tooMuch,
	} {
		t.Run(fmt.Sprintf("%.60s", expression), func(t *testing.T) {
			start := time.Now()
			_, err := holds(t, expression, input, `{}`)
			took := time.Since(start)
			t.Logf("%s: %v", took, err)
			if took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
			switch {
			case want == "" && err != nil:
				t.Errorf("it fails: %v", err)
			case want != "" && (err == nil || failure(t, err) != want):
				t.Errorf("it gives %v, want %s", err, want)
			}
		})
	}
}

func TestFilters(t *testing.T) {
	for name, row := range map[string]struct {
		text, event, input string
		want               bool
		err                string
	}{
		"taken":           {`event.region == "eu" && event.n > 1`, `{"region":"eu","n":2}`, ``, true, ""},
		"not taken":       {`event.region == "eu"`, `{"region":"us"}`, ``, false, ""},
		"by input":        {`event.day == input.date`, `{"day":"x"}`, `{"date":"x"}`, true, ""},
		"no input":        {`input == null`, `{}`, ``, true, ""},
		"a missing field": {`event.region == "eu"`, `{}`, ``, false, "no such key: region"},
		"no event":        {`event == null`, ``, ``, true, ""},
		"no boolean":      {`event.x`, `{"x":"y"}`, ``, false, "is of type string, not true or false"},
		"too much":        {`event.all(a, event.all(b, true))`, `[` + strings.TrimSuffix(strings.Repeat("1,", 1000), ",") + `]`, ``, false, "costs more than 100000 units to evaluate"},
	} {
		t.Run(name, func(t *testing.T) {
			f, faults := CompileFilter(row.text)
			if len(faults) > 0 {
				t.Fatalf("CompileFilter(%s) = %+v", row.text, faults)
			}
			event, err := ParseValue(json.RawMessage(row.event))
			if err != nil {
				t.Fatal(err)
			}
			input, err := ParseValue(json.RawMessage(row.input))
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.Match(event, input)
			if got != row.want || (err == nil) != (row.err == "") || err != nil && err.Error() != row.err {
				t.Errorf("Match = %v, %v; want %v, %s", got, err, row.want, row.err)
			}
		})
	}
	for text, want := range map[string]string{`steps.a.output`: "is not understood at column 1: undeclared", `event.x +`: "is not understood", `"x"`: "must be true or false, not of type string", ``: "is not understood"} {
		if _, faults := CompileFilter(text); len(faults) == 0 || !strings.HasPrefix(faults[0].Message, want) {
			t.Errorf("CompileFilter(%s) = %+v, want %s", text, faults, want)
		}
	}
	for _, text := range []string{`{`, "\"\xff\"", `{} {}`} {
		if v, err := ParseValue(json.RawMessage(text)); err == nil {
			t.Errorf("ParseValue(%s) = %v, want an error", text, v)
		}
	}
	if g := mustCompile(t, etl); g.Filter(index(t, g, "approve")) == nil || g.Filter(0) != nil {
		t.Error("the graph does not keep its filters")
	}
}
