package target

import (
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

func TestScriptFault(t *testing.T) {
	s, err := NewScript(ScriptConfig{Commands: map[string]ScriptCommand{
		"plain":  {Path: "/bin/true"},
		"report": {Path: "/bin/true", AllowArgs: []string{"--fast", "a|b", `--day=\d+`}, MaxArgs: 2, Tenants: []string{"ops"}},
	}})
	if err != nil {
		t.Fatalf("NewScript: %v", err)
	}
	for name, c := range map[string]struct {
		tenant, command string
		args            []string
		field           string // "" = none
	}{
		"allowed":                    {"ops", "report", []string{"--fast", "--day=3"}, ""},
		"no arguments":               {"ops", "report", nil, ""},
		"an alternative":             {"ops", "report", []string{"b"}, ""},
		"more than a pattern":        {"ops", "report", []string{"--faster"}, "args[0]"},
		"an alternative and more":    {"ops", "report", []string{"a", "bc"}, "args[1]"},
		"a line after the pattern":   {"ops", "report", []string{"--fast\nrm"}, "args[0]"},
		"a line end alone":           {"ops", "report", []string{"--fast\n"}, "args[0]"},
		"NUL":                        {"ops", "report", []string{"--fast\x00"}, "args[0]"},
		"an empty argument":          {"ops", "report", []string{""}, "args[0]"},
		"too many":                   {"ops", "report", []string{"a", "a", "a"}, "args"},
		"another tenant's":           {"acme", "report", nil, "command"},
		"of everybody":               {"acme", "plain", nil, ""},
		"arguments where none are":   {"acme", "plain", []string{"x"}, "args"},
		"unknown":                    {"ops", "rm", nil, "command"},
		"a path":                     {"ops", "/bin/true", nil, "command"},
		"the name in another case":   {"acme", "Plain", nil, "command"},
		"no command":                 {"ops", "", nil, "command"},
		"an argument that is secret": {"ops", "report", []string{"s3cret"}, "args[0]"},
	} {
		field, fault := s.Fault(c.tenant, &schema.ScriptTarget{Command: c.command, Args: c.args})
		if field != c.field || (fault == "") != (c.field == "") || strings.Contains(fault, "s3cret") {
			t.Errorf("%s: Fault(%s, %q %q): got %q %q, want the field %q", name, c.tenant, c.command, c.args, field, fault, c.field)
		}
	}
}

func TestNewScriptNamesEveryFault(t *testing.T) {
	_, err := NewScript(ScriptConfig{Root: false, Commands: map[string]ScriptCommand{
		"a": {Path: "bin/true", Dir: "tmp", AllowArgs: []string{"("}, MaxArgs: 65, MaxRunning: -1, Grace: time.Hour},
		"b": {Path: "/bin/../bin/true", Env: map[string]string{"CARILLON_RUN_ID": "x"}, FinalCodes: []int{0, 256}, User: "nobody"},
		"c": {Path: "/bin/true", Group: "nogroup", Args: []string{"\x00"}},
	}})
	for _, want := range []string{
		`script a: path "bin/true"`, `script a: dir "tmp"`, `script a: allow_args: "("`, "script a: max_args", "script a: max_running", "script a: grace",
		"script b: path", `script b: env: "CARILLON_RUN_ID"`, "script b: final_codes: 0", "script b: final_codes: 256", "script b: user: only a node that runs as root",
		"script c: group", "script c: args",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewScript of faulty commands: got %v, want it to name %q", err, want)
		}
	}
	_, err = NewScript(ScriptConfig{Root: true, Commands: map[string]ScriptCommand{"a": {Path: "/bin/true"}, "b": {Path: "/bin/true", User: "no such user"}}})
	for _, want := range []string{"script a: user: must be named", `script b: user: there is no "no such user"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewScript as root: got %v, want it to name %q", err, want)
		}
	}
}

func TestScriptsAreReplaced(t *testing.T) {
	list := func(names ...string) *Script {
		c := make(map[string]ScriptCommand)
		for _, n := range names {
			c[n] = ScriptCommand{Path: "/bin/true", MaxRunning: len(n)}
		}
		s, err := NewScript(ScriptConfig{Commands: c})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := list("a", "bb")
	fault := s.Fault // as what checks requests has it
	s.Replace(list("bb", "ccc"))
	for name, allowed := range map[string]bool{"a": false, "bb": true, "ccc": true} {
		limit := 0
		if allowed {
			limit = len(name)
		}
		task := &schema.ScriptTarget{Command: name}
		if _, why := fault("t", task); (why == "") != allowed || s.Limit(task) != limit {
			t.Errorf("%s, of the list that replaced another: Fault %q, Limit %d; want allowed %t, %d", name, why, s.Limit(task), allowed, limit)
		}
	}
}
