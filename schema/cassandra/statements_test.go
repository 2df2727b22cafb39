package cassandra

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gocql/gocql"
)

// TestATableHasOneSerialLevel: every statement with a condition has the serial level of its table,
// which is stated here once more: to change it would let two writers win that do not see each other.
func TestATableHasOneSerialLevel(t *testing.T) {
	want := map[gocql.SerialConsistency][]string{
		gocql.LocalSerial: {"api_key_names", "job_names", "jobs", "keys", "leases", "notification_groups", "runs", "secrets", "sessions", "signing_keys"},
		gocql.Serial:      {"epochs", "migration_lock", "migrations", "settings"},
	}
	got := make(map[gocql.SerialConsistency][]string)
	for st, name := range names {
		table := st.table()
		if table == "" {
			t.Errorf("%s: no table is found in %q", name, st)
		}
		level, leveled := serialOf[st]
		if conditional := strings.Contains(string(st), " IF "); conditional && !leveled {
			t.Errorf("%s is conditional, and its table %s has no serial level", name, table)
		} else if conditional && !slices.Contains(got[level], table) {
			got[level] = append(got[level], table)
		}
		if level != serialLevels[table] {
			t.Errorf("%s has level %v, its table %s %v", name, level, table, serialLevels[table])
		}
	}
	for level, tables := range want {
		if slices.Sort(got[level]); !slices.Equal(got[level], tables) {
			t.Errorf("conditional writes at %v are of %v, want %v", level, got[level], tables)
		}
	}
	if n := len(want[gocql.LocalSerial]) + len(want[gocql.Serial]); len(serialLevels) != n {
		t.Errorf("%d tables have a level, want %d: those with conditional writes", len(serialLevels), n)
	}
}

// TestStatementsThatDecideHaveALevel: what is given to swap, oneSerial and serial has a level.
func TestStatementsThatDecideHaveALevel(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	leveled := make(map[string]bool) // constants, by name
	var deciding []string
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec: // name statement = `…`
				for i, v := range n.Values {
					if text, ok := v.(*ast.BasicLit); ok && text.Kind == token.STRING {
						_, ok := serialOf[statement(strings.Trim(text.Value, "`"))]
						leveled[n.Names[i].Name] = ok
					}
				}
			case *ast.CallExpr:
				called, ok := n.Fun.(*ast.SelectorExpr)
				if !ok || len(n.Args) < 2 || !slices.Contains([]string{"swap", "oneSerial", "serial"}, called.Sel.Name) {
					break
				}
				// st is chosen before; the other test covers every conditional statement
				if given, ok := n.Args[1].(*ast.Ident); ok && given.Name != "st" {
					deciding = append(deciding, given.Name)
				}
			}
			return true
		})
	}
	for _, name := range deciding {
		if !leveled[name] {
			t.Errorf("%s is to decide something, and its table has no serial level", name)
		}
	}
	if len(deciding) < 20 {
		t.Errorf("%d calls that decide were found, want at least 20", len(deciding))
	}
}

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
