package layout

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"testing"
)

// Bounds of what one reads at once. Tests are not counted.
const (
	maxFiles   = 25  // of a package
	maxMethods = 25  // of a type
	maxLines   = 500 // of a file
)

// larger are packages and types that go beyond, with the reason.
var larger = map[string]string{
	"bucketer/httpapi":             "one file for each group of routes, in the server and in the client",
	"bucketer/httpapi.Client":      "one method for each route",
	"cmd/carillon/client":          "one file for each noun of the API",
	"deploy/local/cluster.Cluster": "one method for each thing that is done with a member of a cluster",
	"dispatcher/queue/inproc.Conn": "the methods of queue.Queue, and faults for tests",
	"loadtest/bench":               "one file for each benchmark of the table",
	"loadtest/chaos":               "one file for each family of scenarios",
	"loadtest/chaos.run":           "what every course of scenarios uses",
	"loadtest/check.judge":         "one method for each rule",
	"schema":                       "one file for each noun",
	"schema/schematest.around":     "it passes on every method of schema.Store",
	"schema/schematest.bench":      "every role has helpers for its rules, beside them",
}

// TestSizes: packages, types and files are small enough to be read at once.
func TestSizes(t *testing.T) {
	files, methods := map[string]int{}, map[string]int{}
	for _, f := range parseAll(t) {
		if f.test() {
			continue
		}
		files[f.folder()]++
		text, err := os.ReadFile(filepath.Join(top, f.path)) // #nosec G304 -- of this module
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > maxLines && larger[f.path] == "" {
			t.Errorf("%s has %d lines, more than %d", f.path, n, maxLines)
		}
		tree, err := parser.ParseFile(token.NewFileSet(), f.path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				methods[f.folder()+"."+receiverOf(fn.Recv.List[0].Type)]++
			}
		}
	}
	for name, n := range files {
		if n > maxFiles && larger[name] == "" {
			t.Errorf("package %s has %d files, more than %d", name, n, maxFiles)
		}
	}
	for name, n := range methods {
		if n > maxMethods && larger[name] == "" {
			t.Errorf("type %s has %d methods, more than %d", name, n, maxMethods)
		}
	}
	for name := range larger {
		if files[name] <= maxFiles && methods[name] <= maxMethods && filepath.Ext(name) != ".go" {
			t.Errorf("%s is no larger than others: it needs no exception", name)
		}
	}
}

// receiverOf returns the name of a receiver's type.
func receiverOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverOf(e.X)
	case *ast.IndexExpr:
		return receiverOf(e.X)
	case *ast.Ident:
		return e.Name
	default:
		return fmt.Sprint(e)
	}
}
