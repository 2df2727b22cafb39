// Package layout checks where packages lie and which way they import. It holds tests only.
package layout

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// modulePath is the path of this module; everything under it is ours.
const modulePath = "carillon.dev/carillon"

// A file is what the rules know of one Go file.
type file struct {
	path    string   // of the file, from the top of the repository, with slashes
	pkg     string   // the name in its package clause
	doc     bool     // it carries a package comment
	imports []string // import paths as written
}

func (f file) folder() string { return path.Dir(f.path) }
func (f file) test() bool     { return strings.HasSuffix(f.path, "_test.go") }

// topLevel are the entries at the top of the repository; names with a leading dot are free.
var topLevel = []string{
	"cmd", "bucketer", "ring", "dispatcher", "executor", "schema", "loadtest", "deploy",
	"Makefile", "go.mod", "go.sum", "README.md", "DESIGN.md", "CHANGELOG.md",
}

// A layer says which of our packages those of a folder and below may import, besides one another.
// "x" is the package x alone, "x/..." also the packages below it.
type layer struct {
	folder  string
	imports []string
	tests   []string // additionally in _test.go files
}

// The fakes that every test above schema may use.
var fakes = []string{"schema/embedded", "schema/schematest", "dispatcher/queue/inproc", "dispatcher/queue/queuetest"}

// The fakes of the tests of bucketer and of what lies below it.
var bucketerFakes = append([]string{"bucketer/bucketertest"}, fakes...)

// What is wired: the parts and their adapters.
var parts = []string{"schema/...", "bucketer/...", "ring/...", "dispatcher/...", "executor/..."}

// layers has one row for every folder that may hold packages. The longest folder that matches
// counts; a row does not inherit from its parent folder.
var layers = []layer{
	{folder: "schema", tests: []string{"schema/schematest"}},
	{folder: "schema/damage"},
	{folder: "schema/congestion"},
	{folder: "schema/document", imports: []string{"schema", "schema/damage"}},
	{folder: "schema/deadletters", imports: []string{"schema", "schema/damage"}, tests: []string{"schema/embedded", "schema/schematest"}},
	{folder: "schema/cassandra", imports: []string{"schema", "schema/congestion", "schema/damage", "schema/deadletters", "schema/document"}, tests: []string{"schema/schematest", "deploy/local/cluster"}},
	{folder: "schema/embedded", imports: []string{"schema", "schema/damage", "schema/document"}, tests: []string{"schema/schematest"}},
	{folder: "schema/lease", imports: []string{"schema"}, tests: []string{"schema/embedded", "schema/schematest"}},
	{folder: "schema/homes", imports: []string{"schema"}, tests: []string{"schema/embedded"}},
	{folder: "schema/sealed", imports: []string{"schema"}, tests: []string{"schema/embedded", "schema/schematest"}},
	{folder: "schema/schematest", imports: []string{"schema"}, tests: []string{"schema/embedded"}},

	{folder: "bucketer", imports: []string{"schema", "bucketer/schedule", "bucketer/payload"}, tests: bucketerFakes},
	{folder: "bucketer/schedule", imports: []string{"schema"}},
	{folder: "bucketer/payload"},
	{folder: "bucketer/tally", imports: []string{"schema"}},
	{folder: "bucketer/workflow", imports: []string{"schema"}},
	{folder: "bucketer/bucketertest", imports: []string{"schema", "schema/embedded", "schema/schematest"}},
	{folder: "bucketer/admin", imports: []string{"schema", "schema/lease", "bucketer", "bucketer/tally"}, tests: bucketerFakes},
	{folder: "bucketer/tasks", imports: []string{"schema", "schema/lease", "bucketer"}, tests: bucketerFakes},
	{folder: "bucketer/runs", imports: []string{"schema", "schema/lease", "bucketer", "bucketer/tally"}, tests: bucketerFakes},
	{folder: "bucketer/recurring", imports: []string{"schema", "bucketer", "bucketer/runs", "bucketer/schedule"}, tests: bucketerFakes},
	{folder: "bucketer/concurrency", imports: []string{"schema", "schema/lease", "bucketer", "bucketer/runs", "bucketer/recurring"}, tests: bucketerFakes},
	{folder: "bucketer/orchestration", imports: []string{"schema", "bucketer", "bucketer/runs", "bucketer/recurring", "bucketer/concurrency", "bucketer/workflow"}, tests: bucketerFakes},
	{
		folder:  "bucketer/joins",
		imports: []string{"schema", "bucketer", "bucketer/runs", "bucketer/recurring", "bucketer/workflow"},
		tests:   append([]string{"bucketer/engine", "bucketer/orchestration"}, bucketerFakes...),
	},
	{
		folder:  "bucketer/events",
		imports: []string{"schema", "bucketer", "bucketer/runs", "bucketer/recurring", "bucketer/workflow"},
		tests:   append([]string{"bucketer/engine", "bucketer/orchestration"}, bucketerFakes...),
	},
	{folder: "bucketer/notifications", imports: []string{"schema", "bucketer"}, tests: append([]string{"bucketer/engine"}, bucketerFakes...)},
	{folder: "bucketer/deadletters", imports: []string{"schema", "bucketer"}, tests: append([]string{"bucketer/engine"}, bucketerFakes...)},
	{folder: "bucketer/logs", imports: []string{"schema", "bucketer", "bucketer/runs", "bucketer/recurring"}, tests: append([]string{"bucketer/engine", "bucketer/orchestration", "bucketer/workflow"}, bucketerFakes...)},
	{folder: "bucketer/search", imports: []string{"schema", "bucketer/runs"}, tests: append([]string{"bucketer", "bucketer/engine"}, bucketerFakes...)},
	{folder: "bucketer/engine", imports: []string{"schema", "bucketer", "bucketer/logs", "bucketer/search", "bucketer/notifications", "bucketer/tasks", "bucketer/runs", "bucketer/recurring", "bucketer/concurrency", "bucketer/orchestration", "bucketer/events", "bucketer/joins"}, tests: bucketerFakes},
	{
		folder:  "bucketer/operations",
		imports: []string{"schema", "bucketer", "bucketer/runs", "bucketer/recurring", "bucketer/schedule"},
		tests:   append([]string{"bucketer/admin", "bucketer/engine"}, bucketerFakes...),
	},
	{
		folder:  "bucketer/request",
		imports: []string{"schema", "bucketer", "bucketer/admin", "bucketer/runs", "bucketer/recurring", "bucketer/operations", "bucketer/notifications", "bucketer/schedule", "bucketer/payload", "bucketer/workflow"},
		tests:   append([]string{"bucketer/engine"}, bucketerFakes...),
	},
	{folder: "bucketer/httpapi", imports: []string{"schema", "bucketer/..."}, tests: fakes},
	// What users' programs link.
	{folder: "bucketer/client", imports: []string{"schema"}, tests: append([]string{"bucketer", "bucketer/engine", "bucketer/httpapi"}, fakes...)},
	{folder: "ring", imports: []string{"schema"}},
	{folder: "dispatcher/queue", imports: []string{"schema"}, tests: []string{"deploy/local/cluster"}},

	{folder: "dispatcher", imports: []string{"schema", "schema/lease", "bucketer", "bucketer/orchestration", "bucketer/tally", "ring", "dispatcher/queue", "dispatcher/queue/fair"}, tests: append([]string{"bucketer/schedule", "bucketer/engine", "bucketer/runs", "bucketer/recurring"}, fakes...)},
	{folder: "executor", imports: []string{"schema", "schema/congestion", "schema/lease", "bucketer", "bucketer/tally", "dispatcher/queue", "executor/admission", "executor/target", "executor/target/auth", "executor/trace"}, tests: append([]string{"executor/trace/otlp/...", "executor/webhook", "bucketer/engine", "bucketer/admin"}, fakes...)},
	{folder: "executor/admission", imports: []string{"schema", "schema/lease", "bucketer", "dispatcher/queue", "dispatcher/queue/fair", "executor/target"}, tests: fakes},
	{folder: "executor/target", imports: []string{"schema", "dispatcher/queue", "executor/trace", "executor/webhook", "executor/target/auth"}, tests: append([]string{"deploy/local/cluster"}, fakes...)},
	{folder: "executor/target/auth", imports: []string{"schema"}},
	{folder: "executor/trace", imports: []string{"schema"}},
	{folder: "executor/trace/otlp", imports: []string{"schema", "executor/trace"}},
	{folder: "executor/webhook"},
	// What users' programs link: nothing of ours.
	{folder: "executor/worker", tests: []string{"executor/target", "dispatcher/queue/...", "schema"}},

	{folder: "cmd/carillon", imports: append([]string{"cmd/internal/...", "cmd/carillon/...", "deploy/examples"}, parts...), tests: []string{"deploy/local/cluster", "loadtest/..."}},
	{folder: "cmd/carillon/cli", imports: []string{"schema", "schema/cassandra", "bucketer/...", "cmd/internal/config", "cmd/internal/logging", "cmd/internal/node"}},
	{
		folder: "cmd/carillon/client", imports: []string{"schema", "bucketer/...", "cmd/carillon/cli", "cmd/carillon/crontab"},
		tests: append([]string{"cmd/carillon/clitest", "cmd/internal/config", "deploy/examples"}, parts...),
	},
	{
		folder: "cmd/carillon/importer", imports: []string{"schema", "bucketer/...", "cmd/carillon/cli"},
		tests: append([]string{"cmd/carillon/clitest"}, parts...),
	},
	{folder: "cmd/carillon/clitest", imports: []string{"cmd/carillon/cli", "cmd/internal/config", "cmd/internal/node"}},
	{folder: "cmd/carillon/crontab"},
	{folder: "cmd/carillon/capacity", imports: []string{"schema", "bucketer/..."}, tests: append([]string{"loadtest/..."}, parts...)},
	{folder: "cmd/carillon/planner", imports: []string{"schema", "dispatcher/queue/fair", "executor", "executor/admission"}, tests: []string{"bucketer", "executor/target"}},
	{folder: "cmd/internal/clockcheck", imports: []string{"schema"}},
	{folder: "cmd/internal/certs", imports: []string{"schema", "bucketer/admin"}},
	{folder: "cmd/internal/tokens", imports: []string{"schema", "bucketer/admin"}},
	{folder: "cmd/internal/logging", tests: []string{"schema"}},
	{folder: "cmd/internal/node", imports: append([]string{"cmd/internal/config", "cmd/internal/certs", "cmd/internal/clockcheck", "cmd/internal/tokens"}, parts...), tests: []string{"deploy/local/cluster", "deploy/examples", "loadtest/..."}},
	// for their Config types
	{folder: "cmd/internal/config", imports: append([]string{"cmd/internal/tokens"}, parts...)},
	// wires the fakes, judged by the checker
	{folder: "cmd/internal/sim", imports: append([]string{"loadtest/...", "cmd/internal/clockcheck"}, parts...)},
	{folder: "cmd/internal/layout"},

	{folder: "loadtest", imports: []string{"schema", "bucketer/httpapi", "bucketer/schedule", "deploy/local/cluster"}},
	{folder: "deploy", imports: nil},
}

// A library is a dependency that one package speaks to, so that it can be changed for another in
// one place.
type library struct {
	name     string
	prefixes []string // import paths, and what lies below them
	owner    string   // the folder that may import it, and what lies below
	also     []string // further folders, with the reason beside each
	alsoTest []string // further folders whose _test.go files may
}

var libraries = []library{
	{
		name:     "gin",
		prefixes: []string{"github.com/gin-gonic", "github.com/danielgtaylor/huma/v2/adapters"},
		owner:    "bucketer/httpapi",
	},
	{
		name:     "go-cron",
		prefixes: []string{"github.com/netresearch/go-cron"},
		owner:    "bucketer/schedule",
	},
	{
		name:     "jsonschema",
		prefixes: []string{"github.com/santhosh-tekuri/jsonschema"},
		owner:    "bucketer/payload",
		alsoTest: []string{"bucketer/httpapi"}, // holds answers to the OpenAPI document
	},
	{
		name:     "cel",
		prefixes: []string{"cel.dev/cel-go"},
		owner:    "bucketer/workflow",
	},
	{
		name:     "gocql",
		prefixes: []string{"github.com/gocql/gocql"},
		owner:    "schema/cassandra",
	},
	{
		name:     "nats.go",
		prefixes: []string{"github.com/nats-io/nats.go"},
		owner:    "dispatcher/queue/jetstream",
		// the SDK speaks to NATS for programs that are not ours
		also: []string{"executor/worker"},
		alsoTest: []string{
			"deploy/local/cluster", // asks the servers it started for a stream
			// runs a worker beside its nodes, as a program that is not ours does
			"cmd/internal/node",
		},
	},
	{
		name:     "nats-server",
		prefixes: []string{"github.com/nats-io/nats-server"},
		owner:    "dispatcher/queue/jetstream",
		also: []string{
			"cmd/internal/node",    // runs the server inside `carillon dev`
			"deploy/local/cluster", // keeps the server's program in go.mod and builds it
		},
	},
	{
		name:     "aws-sdk-go-v2",
		prefixes: []string{"github.com/aws"},
		owner:    "executor/target",
	},
	{
		name:     "franz-go",
		prefixes: []string{"github.com/twmb"},
		owner:    "executor/target",
	},
	{
		name:     "oauth2",
		prefixes: []string{"golang.org/x/oauth2"},
		owner:    "executor/target/auth",
		also:     []string{"cmd/internal/tokens"}, // log-ins of browsers
	},
	{
		name:     "go-oidc",
		prefixes: []string{"github.com/coreos/go-oidc", "github.com/go-jose"},
		owner:    "cmd/internal/tokens",
	},
	{
		name:     "opentelemetry",
		prefixes: []string{"go.opentelemetry.io"},
		owner:    "executor/trace/otlp",
	},
	{
		name:     "memberlist",
		prefixes: []string{"github.com/hashicorp/memberlist"},
		owner:    "ring",
	},
}

// bare are the folders whose packages use no library of others: the nouns, and what users' programs
// link.
var bare = []string{"schema", "bucketer/client"}

// badNames say nothing about what a package holds.
var badNames = []string{"util", "utils", "common", "type", "types", "helper", "helpers", "base", "internal", "pkg", "misc", "shared"}

// entryFaults returns what is wrong with the entries at the top of the repository.
func entryFaults(entries []string) []string {
	var faults []string
	for _, e := range entries {
		if !strings.HasPrefix(e, ".") && !slices.Contains(topLevel, e) {
			faults = append(faults, fmt.Sprintf("%s: not an entry of the top level; those are %v", e, topLevel))
		}
	}
	for _, e := range topLevel {
		if !slices.Contains(entries, e) {
			faults = append(faults, fmt.Sprintf("%s: missing at the top level", e))
		}
	}
	return faults
}

// fileFaults returns what is wrong with the Go files of the module, in the order of files.
func fileFaults(files []file) []string {
	var faults []string
	for _, f := range files {
		faults = append(faults, importFaults(f)...)
	}
	return append(faults, packageFaults(files)...)
}

// importFaults returns the imports of f that point the wrong way or belong to another package.
func importFaults(f file) []string {
	l, ok := layerOf(f.folder())
	if !ok {
		return []string{fmt.Sprintf("%s: no layer is stated for packages in %s", f.path, f.folder())}
	}
	var faults []string
	for _, imported := range f.imports {
		if our, ok := ours(imported); ok {
			if !l.allows(our, f.test()) {
				faults = append(faults, fmt.Sprintf("%s: imports %s; packages in %s may not", f.path, our, l.folder))
			}
			continue
		}
		for _, lib := range libraries {
			if lib.claims(imported) && !lib.allows(f) {
				faults = append(faults, fmt.Sprintf("%s: imports %s; only %s may import %s", f.path, imported, lib.owner, lib.name))
			}
		}
		if slices.Contains(bare, f.folder()) && !f.test() && !standard(imported) {
			faults = append(faults, fmt.Sprintf("%s: imports %s; %s uses the standard library only", f.path, imported, f.folder()))
		}
	}
	return faults
}

// packageFaults returns the packages without a comment or with a name that says nothing.
func packageFaults(files []file) []string {
	type state struct{ documented, hasCode bool }
	packages := map[string]*state{}
	names := map[string]bool{}
	var faults []string
	for _, f := range files {
		p := packages[f.folder()]
		if p == nil {
			p = &state{}
			packages[f.folder()] = p
		}
		if f.test() {
			continue
		}
		p.hasCode = true
		p.documented = p.documented || f.doc
		names[f.folder()+"\x00"+f.pkg] = true
	}
	for _, f := range files {
		if p := packages[f.folder()]; !p.hasCode { // a folder of tests is documented by one of them
			p.documented = p.documented || f.doc
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(packages)) {
		if !packages[folder].documented {
			faults = append(faults, fmt.Sprintf("%s: no package comment", folder))
		}
		for element := range strings.SplitSeq(strings.TrimPrefix(folder, "cmd/internal/"), "/") {
			if slices.Contains(badNames, element) {
				faults = append(faults, fmt.Sprintf("%s: %q does not say what is in it", folder, element))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(names)) {
		folder, name, _ := strings.Cut(key, "\x00")
		if name != path.Base(folder) && slices.Contains(badNames, name) {
			faults = append(faults, fmt.Sprintf("%s: package %s does not say what is in it", folder, name))
		}
	}
	return faults
}

// layerOf returns the row of the longest folder that holds folder.
func layerOf(folder string) (layer, bool) {
	best, found := layer{}, false
	for _, l := range layers {
		if within(folder, l.folder) && (!found || len(l.folder) > len(best.folder)) {
			best, found = l, true
		}
	}
	return best, found
}

// allows reports whether a package of l, or a test of it, may import our package.
func (l layer) allows(our string, test bool) bool {
	if own, ok := layerOf(our); ok && own.folder == l.folder {
		return true
	}
	patterns := l.imports
	if test {
		patterns = slices.Concat(patterns, l.tests)
	}
	for _, p := range patterns {
		if below, ok := strings.CutSuffix(p, "/..."); p == our || ok && within(our, below) {
			return true
		}
	}
	return false
}

func (lib library) claims(imported string) bool {
	return slices.ContainsFunc(lib.prefixes, func(p string) bool { return within(imported, p) })
}

func (lib library) allows(f file) bool {
	folders := append([]string{lib.owner}, lib.also...)
	if f.test() {
		folders = append(folders, lib.alsoTest...)
	}
	return slices.ContainsFunc(folders, func(p string) bool { return within(f.folder(), p) })
}

// within reports whether p is folder or lies below it.
func within(p, folder string) bool { return p == folder || strings.HasPrefix(p, folder+"/") }

// ours returns the folder of an import path of this module.
func ours(imported string) (string, bool) {
	if imported == modulePath {
		return ".", true
	}
	return strings.CutPrefix(imported, modulePath+"/")
}

// standard reports whether an import path is one of the standard library: its first element has no
// dot.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}
