package logging

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// logged are the folders whose packages a node is made of.
var logged = []string{"bucketer", "cmd/carillon", "cmd/internal", "dispatcher", "executor", "ring", "schema"}

// keysOf adds the keys of the log lines of a file to found, with the place of one of each.
func keysOf(t *testing.T, path string, found map[string]string) (lines int) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		keys := func(first int) {
			for i := first; i < len(call.Args); i += 2 {
				if key := textOf(call.Args[i]); key != "" {
					found[key] = set.Position(call.Pos()).String()
				}
			}
		}
		// append(about, key, value …): what a line is about is put together before it
		if is, ok := call.Fun.(*ast.Ident); ok && is.Name == "append" && len(call.Args) > 0 {
			if to, ok := call.Args[0].(*ast.Ident); ok && to.Name == "about" {
				keys(1)
			}
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !isLogger(method.X) {
			return true
		}
		first := 1
		switch method.Sel.Name {
		case "With":
			first = 0
		case "Debug", "Info", "Warn", "Error":
			message := textOf(call.Args[0])
			if message != "" && unicode.IsUpper([]rune(message)[0]) && !strings.HasPrefix(message, "NATS") {
				t.Errorf("%s: the message %q does not begin with a small letter", set.Position(call.Pos()), message)
			}
			lines++
		default:
			return true
		}
		keys(first)
		return true
	})
	return lines
}

// isLogger reports whether an expression is a logger, by its name.
func isLogger(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return strings.EqualFold(x.Name, "log") || strings.EqualFold(x.Name, "logger")
	case *ast.SelectorExpr:
		return strings.EqualFold(x.Sel.Name, "log") || strings.EqualFold(x.Sel.Name, "logger")
	}
	return false
}

// textOf returns the text of a literal, "" of anything else.
func textOf(x ast.Expr) string {
	lit, ok := x.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, _ := strconv.Unquote(lit.Value) // the parser has read it
	return text
}

// synonyms are what a key is not called, and what it is called instead.
var synonyms = map[string]string{
	"error": "err", "cause": "err", "run_id": "run", "runid": "run", "id": "run, job, entry …", "job_id": "job", "job_name": "job", "tenant_id": "tenant",
	"task_name": "task", "attempt_number": "attempt", "number": "attempt", "node": "member", "duration": "took", "elapsed": "took", "component": "part",
	"region_name": "region", "shard_id": "shard", "entry_id": "entry",
	"time": "at", "level": "another name", "msg": "another name", "source": "another name", TraceKey: "nothing: run brings it",
}

var keyForm = regexp.MustCompile(`^[a-z][a-z_]*$`)

// TestOneSchemaOfKeys: a thing has one key in all lines, and the keys of the table in
// deploy/monitoring/LOGS.md are those that lines have.
func TestOneSchemaOfKeys(t *testing.T) {
	top := filepath.Join("..", "..", "..")
	found, lines := make(map[string]string), 0
	for _, folder := range logged {
		err := filepath.WalkDir(filepath.Join(top, filepath.FromSlash(folder)), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			lines += keysOf(t, path, found)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if instead := synonyms[key]; instead != "" {
			t.Errorf("%s: the key %s is called %s", found[key], key, instead)
		}
		if !keyForm.MatchString(key) {
			t.Errorf("%s: the key %q is not of small letters and underscores", found[key], key)
		}
	}
	if lines < 200 {
		t.Errorf("%d lines were found, want at least 200: the code was not understood", lines)
	}
	for _, key := range []string{"time", "level", "msg", TraceKey, "like", "count"} {
		found[key] = "package logging"
	}
	page, err := os.ReadFile(filepath.Join(top, "deploy", "monitoring", "LOGS.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := 0
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|").FindAllStringSubmatch(string(page), -1) {
		for _, key := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[1], -1) {
			known++
			if found[key[1]] == "" {
				t.Errorf("deploy/monitoring/LOGS.md has the key %s, which no line has", key[1])
			}
		}
	}
	if known < 15 {
		t.Errorf("deploy/monitoring/LOGS.md has %d keys: it was not understood", known)
	}
}

// TestLokiAsksForKeysThatLinesHave: what loki.alloy takes out of lines is in the table of LOGS.md, and
// no label has many values.
func TestLokiAsksForKeysThatLinesHave(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "deploy", "monitoring")
	alloy, err := os.ReadFile(filepath.Join(folder, "loki.alloy"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(folder, "LOGS.md"))
	if err != nil {
		t.Fatal(err)
	}
	asked := regexp.MustCompile(`([a-z_]+) *= ""`).FindAllStringSubmatch(string(alloy), -1)
	if len(asked) < 15 {
		t.Errorf("loki.alloy asks for %d keys: it was not understood", len(asked))
	}
	for _, key := range asked {
		if !strings.Contains(string(page), "`"+key[1]+"`") {
			t.Errorf("loki.alloy asks for the key %s, which is not in LOGS.md", key[1])
		}
	}
	if _, labels, ok := strings.Cut(string(alloy), "stage.labels"); !ok || !strings.Contains(labels, `values = {level = "", part = ""}`) {
		t.Error("loki.alloy has other labels than level and part: each set of their values is a stream")
	}
}
