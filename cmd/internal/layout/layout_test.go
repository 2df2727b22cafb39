package layout

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// top is the way from this package to the top of the repository.
const top = "../../.."

func TestTopLevelEntries(t *testing.T) {
	dir, err := os.ReadDir(top)
	if err != nil {
		t.Fatalf("ReadDir(%s): %v", top, err)
	}
	var entries []string
	for _, e := range dir {
		if !leftOver(e.Name()) {
			entries = append(entries, e.Name())
		}
	}
	for _, fault := range entryFaults(entries) {
		t.Error(fault)
	}
}

// leftOver reports whether name is what builds and profiles leave at the top, as .gitignore has it.
func leftOver(name string) bool {
	return slices.Contains([]string{".test", ".out", ".prof"}, filepath.Ext(name)) ||
		name == "carillon" || name == "carillon-load"
}

func TestPackages(t *testing.T) {
	files := parseAll(t)
	// A walk that finds next to nothing would make this test pass for ever.
	if !slices.ContainsFunc(files, func(f file) bool { return f.folder() == "schema" && !f.test() }) {
		t.Fatalf("parsed %d files, none of them in schema", len(files))
	}
	for _, fault := range fileFaults(files) {
		t.Error(fault)
	}
}

// parseAll returns every Go file of the module, sorted by path. It reads them itself: `go list`
// needs a second or more, leaves out files of other platforms, and fails where a package does not
// build.
func parseAll(t *testing.T) []file {
	t.Helper()
	var files []file
	err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			skip := d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_")
			if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil {
				skip = true // another module
			}
			if p != top && skip {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(p) != ".go" {
			return nil
		}
		f, err := parse(p)
		files = append(files, f)
		return err
	})
	if err != nil {
		t.Fatalf("parse the module: %v", err)
	}
	return files
}

func parse(p string) (file, error) {
	syntax, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return file{}, err
	}
	rel, err := filepath.Rel(top, p)
	if err != nil {
		return file{}, err
	}
	f := file{path: filepath.ToSlash(rel), pkg: syntax.Name.Name, doc: syntax.Doc.Text() != ""}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return file{}, err
		}
		f.imports = append(f.imports, imported)
	}
	return f, nil
}

func TestImportFaults(t *testing.T) {
	const our = modulePath + "/"
	tests := []struct {
		name, path, imported string
		fault                bool
	}{
		{"schema imports the standard library", "schema/id.go", "crypto/sha256", false},
		{"schema imports a library", "schema/id.go", "github.com/google/uuid", true},
		{"a test of schema imports a library", "schema/id_test.go", "pgregory.net/rapid", false},
		{"the client of users imports a library", "bucketer/client/client.go", "github.com/google/uuid", true},
		{"the client of users imports schema", "bucketer/client/client.go", our + "schema", false},
		{"the client of users imports the server", "bucketer/client/client.go", our + "bucketer/httpapi", true},
		{"a test of it imports the server", "bucketer/client/client_test.go", our + "bucketer/httpapi", false},
		{"schema imports ours", "schema/id.go", our + "bucketer", true},
		{"schema imports its adapter", "schema/id.go", our + "schema/embedded", true},
		{"schema imports the module's root", "schema/id.go", modulePath, true},

		{"an adapter imports schema", "schema/cassandra/a.go", our + "schema", false},
		{"an adapter imports its own folder", "schema/cassandra/a.go", our + "schema/cassandra/migrations", false},
		{"an adapter imports another", "schema/cassandra/a.go", our + "schema/embedded", true},
		{"an adapter imports the suite", "schema/cassandra/a.go", our + "schema/schematest", true},
		{"a test of an adapter imports the suite", "schema/cassandra/a_test.go", our + "schema/schematest", false},
		{"a test of an adapter starts a real server", "schema/cassandra/a_test.go", our + "deploy/local/cluster", false},
		{"an adapter starts a real server", "schema/cassandra/a.go", our + "deploy/local/cluster", true},
		{"the suite imports an adapter", "schema/schematest/a.go", our + "schema/cassandra", true},

		{"bucketer imports schema", "bucketer/a.go", our + "schema", false},
		{"bucketer imports ring", "bucketer/a.go", our + "ring", true},
		{"bucketer imports queue", "bucketer/a.go", our + "dispatcher/queue", true},
		{"bucketer imports a store", "bucketer/a.go", our + "schema/embedded", true},
		{"a test of bucketer imports the fake", "bucketer/a_test.go", our + "schema/embedded", false},
		{"a test of bucketer imports Cassandra", "bucketer/a_test.go", our + "schema/cassandra", true},
		{"bucketer imports what writes through it", "bucketer/a.go", our + "bucketer/operations", true},
		{"bucketer imports the decoder", "bucketer/a.go", our + "bucketer/request", true},
		{"operations imports bucketer", "bucketer/operations/a.go", our + "bucketer", false},
		{"operations imports the decoder", "bucketer/operations/a.go", our + "bucketer/request", true},
		{"operations imports its world", "bucketer/operations/a.go", our + "bucketer/bucketertest", true},
		{"a test of operations imports its world", "bucketer/operations/a_test.go", our + "bucketer/bucketertest", false},
		{"a world imports bucketer", "bucketer/bucketertest/a.go", our + "bucketer", true},
		{"recurring imports bucketer", "bucketer/recurring/a.go", our + "bucketer", false},
		{"bucketer imports runs", "bucketer/a.go", our + "bucketer/runs", true},
		{"runs imports recurring", "bucketer/runs/a.go", our + "bucketer/recurring", true},
		{"runs imports tasks", "bucketer/runs/a.go", our + "bucketer/tasks", true},
		{"recurring imports runs", "bucketer/recurring/a.go", our + "bucketer/runs", false},
		{"recurring imports concurrency", "bucketer/recurring/a.go", our + "bucketer/concurrency", true},
		{"concurrency imports recurring", "bucketer/concurrency/a.go", our + "bucketer/recurring", false},
		{"concurrency imports operations", "bucketer/concurrency/a.go", our + "bucketer/operations", true},
		{"a test of executor wires the bucketer", "executor/a_test.go", our + "bucketer/engine", false},
		{"executor wires the bucketer", "executor/a.go", our + "bucketer/engine", true},
		{"the decoder imports the API", "bucketer/request/a.go", our + "bucketer/httpapi", true},
		{"httpapi imports the decoder", "bucketer/httpapi/a.go", our + "bucketer/request", false},
		{"httpapi imports bucketer", "bucketer/httpapi/a.go", our + "bucketer", false},
		{"httpapi imports ring", "bucketer/httpapi/a.go", our + "ring", true},
		{"ring imports schema", "ring/a.go", our + "schema", false},
		{"ring imports bucketer", "ring/a.go", our + "bucketer", true},
		{"queue imports schema", "dispatcher/queue/a.go", our + "schema", false},
		{"queue imports dispatcher", "dispatcher/queue/a.go", our + "dispatcher", true},
		{"a queue adapter imports queue", "dispatcher/queue/jetstream/a.go", our + "dispatcher/queue", false},
		{"a queue adapter imports bucketer", "dispatcher/queue/jetstream/a.go", our + "bucketer", true},

		{"dispatcher imports ring", "dispatcher/a.go", our + "ring", false},
		{"dispatcher imports executor", "dispatcher/a.go", our + "executor", true},
		{"dispatcher imports httpapi", "dispatcher/a.go", our + "bucketer/httpapi", true},
		{"dispatcher imports a queue adapter", "dispatcher/a.go", our + "dispatcher/queue/jetstream", true},
		{"a test of dispatcher imports the queue in memory", "dispatcher/a_test.go", our + "dispatcher/queue/inproc", false},
		{"executor imports queue", "executor/a.go", our + "dispatcher/queue", false},
		{"executor imports dispatcher", "executor/a.go", our + "dispatcher", true},
		{"executor imports ring", "executor/a.go", our + "ring", true},
		{"a package below executor imports dispatcher", "executor/script/a.go", our + "dispatcher", true},
		{"executor imports its targets", "executor/a.go", our + "executor/target", false},
		{"executor imports admission", "executor/a.go", our + "executor/admission", false},
		{"admission imports the targets", "executor/admission/a.go", our + "executor/target", false},
		{"admission imports executor", "executor/admission/a.go", our + "executor", true},
		{"a target imports admission", "executor/target/a.go", our + "executor/admission", true},
		{"executor imports the SDK", "executor/a.go", our + "executor/worker", true},
		{"a target imports executor", "executor/target/a.go", our + "executor", true},
		{"a target imports bucketer", "executor/target/a.go", our + "bucketer", true},
		{"a target signs", "executor/target/a.go", our + "executor/webhook", false},
		{"webhook imports schema", "executor/webhook/a.go", our + "schema", true},

		{"node wires an adapter", "cmd/internal/node/a.go", our + "schema/cassandra", false},
		{"node imports config", "cmd/internal/node/a.go", our + "cmd/internal/config", false},
		{"node imports a load test", "cmd/internal/node/a.go", our + "loadtest/check", true},
		{"a test of node uses the checker", "cmd/internal/node/a_test.go", our + "loadtest/check", false},
		{"carillon imports node", "cmd/carillon/a.go", our + "cmd/internal/node", false},
		{"config knows an adapter's settings", "cmd/internal/config/a.go", our + "schema/cassandra", false},
		{"config imports node", "cmd/internal/config/a.go", our + "cmd/internal/node", true},
		{"loadtest imports the client", "loadtest/cmd/carillon-load/a.go", our + "bucketer/httpapi", false},
		{"loadtest imports dispatcher", "loadtest/a.go", our + "dispatcher", true},
		{"deploy imports a part", "deploy/local/a.go", our + "bucketer", true},
		{"a folder without a place", "scheduler/a.go", "fmt", true},
		{"a program without a place", "cmd/other/a.go", "fmt", true},

		{"httpapi imports gin", "bucketer/httpapi/a.go", "github.com/gin-gonic/gin", false},
		{"bucketer imports gin", "bucketer/a.go", "github.com/gin-gonic/gin", true},
		{"a test imports gin", "cmd/internal/node/a_test.go", "github.com/gin-gonic/gin", true},
		{"executor imports gin through its adapter", "executor/a.go", "github.com/danielgtaylor/huma/v2/adapters/humagin", true},
		{"bucketer imports jsonschema", "bucketer/a.go", "github.com/santhosh-tekuri/jsonschema/v6", true},
		{"bucketer imports cel", "bucketer/a.go", "cel.dev/cel-go/cel", true},
		{"workflow imports cel", "bucketer/workflow/a.go", "cel.dev/cel-go/cel", false},
		{"workflow imports bucketer", "bucketer/workflow/a.go", our + "bucketer", true},
		{"a test of httpapi imports jsonschema", "bucketer/httpapi/a_test.go", "github.com/santhosh-tekuri/jsonschema/v6", false},
		{"cassandra imports gocql", "schema/cassandra/a.go", "github.com/gocql/gocql", false},
		{"embedded imports gocql", "schema/embedded/a.go", "github.com/gocql/gocql", true},
		{"jetstream imports nats.go", "dispatcher/queue/jetstream/a.go", "github.com/nats-io/nats.go/jetstream", false},
		{"executor imports nats.go", "executor/a.go", "github.com/nats-io/nats.go", true},
		{"the SDK imports nats.go", "executor/worker/a.go", "github.com/nats-io/nats.go", false},
		{"the SDK imports what it is the other side of", "executor/worker/a.go", our + "executor", true},
		{"the SDK imports the queue", "executor/worker/a.go", our + "dispatcher/queue/jetstream", true},
		{"a test of the SDK runs an executor's target", "executor/worker/a_test.go", our + "executor/target", false},
		{"cluster imports nats.go", "deploy/local/cluster/a.go", "github.com/nats-io/nats.go", true},
		{"a test of cluster imports nats.go", "deploy/local/cluster/a_test.go", "github.com/nats-io/nats.go", false},
		{"node runs a NATS server", "cmd/internal/node/a.go", "github.com/nats-io/nats-server/v2/server", false},
		{"dispatcher runs a NATS server", "dispatcher/a.go", "github.com/nats-io/nats-server/v2/server", true},
		{"ring imports memberlist", "ring/a.go", "github.com/hashicorp/memberlist", false},
		{"node imports memberlist", "cmd/internal/node/a.go", "github.com/hashicorp/memberlist", true},
		{"a longer name is another library", "executor/a.go", "github.com/hashicorp/memberlistx", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := file{path: tt.path, imports: []string{tt.imported}}
			if got := importFaults(f); (len(got) > 0) != tt.fault {
				t.Errorf("importFaults(%s importing %s) = %q, want a fault: %t", tt.path, tt.imported, got, tt.fault)
			}
		})
	}
}

func TestPackageFaults(t *testing.T) {
	tests := []struct {
		name  string
		files []file
		want  int // faults
	}{
		{"documented", []file{{path: "ring/doc.go", pkg: "ring", doc: true}, {path: "ring/a.go", pkg: "ring"}}, 0},
		{"no comment", []file{{path: "ring/a.go", pkg: "ring"}}, 1},
		{"a comment in a test only", []file{{path: "ring/a.go", pkg: "ring"}, {path: "ring/a_test.go", pkg: "ring", doc: true}}, 1},
		{"tests only, documented", []file{{path: "cmd/internal/layout/a_test.go", pkg: "layout", doc: true}}, 0},
		{"tests only, no comment", []file{{path: "cmd/internal/layout/a_test.go", pkg: "layout"}}, 1},
		{"a command", []file{{path: "cmd/carillon/main.go", pkg: "main", doc: true}}, 0},
		{"folder util", []file{{path: "ring/util/a.go", pkg: "util", doc: true}}, 1},
		{"folder internal outside cmd", []file{{path: "ring/internal/hash/a.go", pkg: "hash", doc: true}}, 1},
		{"folder common below another", []file{{path: "executor/common/http/a.go", pkg: "http", doc: true}}, 1},
		{"package helpers in a folder of another name", []file{{path: "ring/hash/a.go", pkg: "helpers", doc: true}}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := packageFaults(tt.files); len(got) != tt.want {
				t.Errorf("packageFaults(%+v) = %q, want %d faults", tt.files, got, tt.want)
			}
		})
	}
}

func TestEntryFaults(t *testing.T) {
	tests := []struct {
		name    string
		entries []string
		want    int // faults
	}{
		{"exactly those", topLevel, 0},
		{"and dot files", append([]string{".git", ".gitignore"}, topLevel...), 0},
		{"one too many", append([]string{"scripts"}, topLevel...), 1},
		{"one missing", topLevel[1:], 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := entryFaults(tt.entries); len(got) != tt.want {
				t.Errorf("entryFaults(%q) = %q, want %d faults", tt.entries, got, tt.want)
			}
		})
	}
}
