package cassandra

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryStatementHasAName: by it a statement is counted, and prepared by the tests.
func TestEveryStatementHasAName(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found, used := 0, make(map[string]statement)
	for st, name := range names {
		if other, ok := used[name]; ok {
			t.Errorf("%q is the name of two statements: %q and %q", name, st, other)
		}
		used[name] = st
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if of, ok := spec.Type.(*ast.Ident); !ok || of.Name != "statement" {
				return true
			}
			found += len(spec.Names)
			return true
		})
	}
	if found == 0 || found != len(names) {
		t.Errorf("the package has %d statements, and names for %d", found, len(names))
	}
}
