package gate

import "strings"

// Case is a benchmark of the gate.
type Case struct {
	Package string // folder from the top of the repository
	Bench   string // with the sub-benchmark, as Go prints it
	N       int    // operations of one run: fixed, so that allocations are comparable
	Meet    bool   // goroutines meet in it: its allocations vary
}

// Name names the case in figures and tables.
func (c Case) Name() string { return c.Package + " " + strings.TrimPrefix(c.Bench, "Benchmark") }

// Suite is a test that counts the statements of some operations.
type Suite struct {
	Package string
	Test    string
}

// Cases are the hot paths, in the order of a job's life. One run takes 10 to 300 ms.
var Cases = []Case{
	{Package: "schema", Bench: "BenchmarkEntryID", N: 100_000},
	{Package: "schema", Bench: "BenchmarkNewEntry", N: 10_000},
	{Package: "schema", Bench: "BenchmarkLoadEntry", N: 5_000},
	{Package: "bucketer/httpapi", Bench: "BenchmarkCreateJob", N: 2_000, Meet: true},
	{Package: "bucketer/httpapi", Bench: "BenchmarkImport", N: 20_000, Meet: true},
	{Package: "bucketer/request", Bench: "BenchmarkDecodeLine/task", N: 50_000},
	{Package: "bucketer/request", Bench: "BenchmarkDecodeLine/keyed", N: 20_000},
	{Package: "bucketer/request", Bench: "BenchmarkDecodeLine/http", N: 20_000},
	{Package: "bucketer", Bench: "BenchmarkSubmitBatch/unkeyed", N: 4, Meet: true},
	{Package: "bucketer", Bench: "BenchmarkSubmitBatch/keyed", N: 4, Meet: true},
	{Package: "schema/embedded", Bench: "BenchmarkPutEntries/memory", N: 500},
	{Package: "schema/embedded", Bench: "BenchmarkEntries/whole", N: 10, Meet: true},
	{Package: "schema/embedded", Bench: "BenchmarkEntries/ids", N: 100, Meet: true},
	{Package: "schema/embedded", Bench: "BenchmarkPutAttempts", N: 200, Meet: true},
	{Package: "dispatcher", Bench: "BenchmarkScanToPublish", N: 2, Meet: true},
	{Package: "dispatcher/queue", Bench: "BenchmarkEncode", N: 200_000},
	{Package: "dispatcher/queue", Bench: "BenchmarkParse", N: 5_000},
	{Package: "executor", Bench: "BenchmarkRuns", N: 1, Meet: true},
	{Package: "executor", Bench: "BenchmarkRecord/shards=64", N: 19_200},
}

// Suites count statements.
var Suites = []Suite{
	{Package: "bucketer", Test: "TestStatementsOfIntake"},
	{Package: "executor", Test: "TestStatementsOfRuns"},
	{Package: "cmd/internal/sim", Test: "TestStatementsOfJobs"},
}
