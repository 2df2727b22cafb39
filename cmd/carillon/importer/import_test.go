package importer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
)

// importLines is more than the server answers at once.
const importLines = 5000

// writeImport writes an import whose jobs are due in the minute of due, each with its number as
// payload.
func writeImport(t *testing.T, keyed bool, due time.Time) (path string) {
	t.Helper()
	var b bytes.Buffer
	for i := range importLines {
		key := ""
		if keyed {
			key = fmt.Sprintf(`"key":"k%d",`, i)
		}
		at := due.Add(time.Duration(i) * time.Millisecond).Format(time.RFC3339Nano)
		fmt.Fprintf(&b, `{%s"nats":{"subject":"a"},"schedule":{"at":%q},"payload":%d}`+"\n", key, at, i)
	}
	path = filepath.Join(t.TempDir(), "jobs.ndjson")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// importDue is in a minute that ends before the test may.
func importDue() time.Time { return time.Now().UTC().Add(time.Hour).Truncate(time.Minute) }

// countRuns returns how many runs there are of each line of writeImport.
func countRuns(t *testing.T, api string, due time.Time) map[string]int {
	t.Helper()
	client, err := httpapi.NewClient(httpapi.ClientConfig{URLs: []string{api}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	counts := make(map[string]int)
	for run, err := range client.Runs(t.Context(), httpapi.RunQuery{From: due, To: due.Add(time.Minute)}) {
		if err != nil {
			t.Fatal(err)
		}
		counts[string(run.Payload)]++
	}
	return counts
}

// eachOnce fails the test unless every line has one run.
func eachOnce(t *testing.T, api string, due time.Time) {
	t.Helper()
	counts := countRuns(t, api, due)
	if len(counts) != importLines {
		t.Errorf("%d lines have a run, want %d", len(counts), importLines)
	}
	for payload, n := range counts {
		if n != 1 {
			t.Errorf("line with payload %s has %d runs, want 1", payload, n)
		}
	}
}

// proxy is a proxy of a node that cuts the first connections, each after so many bytes of answers.
type proxy struct {
	target string
	onCut  func() // called before each cut
	wg     sync.WaitGroup

	mu   sync.Mutex
	cuts []int64
}

func startProxy(t *testing.T, api string, onCut func(), cuts ...int64) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{target: strings.TrimPrefix(api, "http://"), onCut: onCut, cuts: cuts}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // ends Accept
		p.wg.Wait()
	})
	return "http://" + l.Addr().String()
}

func (p *proxy) serve(down net.Conn) {
	up, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = down.Close()
		return
	}
	limit := int64(-1)
	p.mu.Lock()
	if len(p.cuts) > 0 {
		limit, p.cuts = p.cuts[0], p.cuts[1:]
	}
	p.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(up, down) // either side may end it
		_ = up.Close()
	})
	if limit < 0 {
		_, _ = io.Copy(down, up)
	} else {
		n, _ := io.Copy(down, io.LimitReader(up, limit)) // either side may end it
		if n == limit && p.onCut != nil {
			p.onCut()
		}
	}
	_ = down.Close()
	_ = up.Close()
	wg.Wait()
}

// cutAfter is about a fifth of the answers of an import.
const cutAfter = importLines * 80 / 5

func TestImportGoesOnByItselfAfterACut(t *testing.T) {
	api := clitest.StartNode(t)
	due := importDue()
	file := writeImport(t, true, due)
	r := clitest.Run(t.Context(), "", "import", "--api", startProxy(t, api, nil, cutAfter, 0, cutAfter), "--parallel", "1", "-o", "json", file)
	if r.Code != 0 {
		t.Fatalf("import exits %d, want 0\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	sum := clitest.Decode[summary](t, r.Stdout)
	if sum.Created+sum.Existing != importLines || sum.Existing == 0 || sum.Unknown+sum.Failed != 0 {
		t.Errorf("import answers %+v, want %d created or existing, some of them existing", sum, importLines)
	}
	eachOnce(t, api, due)
	if _, err := os.Stat(file + stateSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state of a finished import: Stat = %v, want that it is gone", err)
	}
}

func TestImportStoppedInTheMiddleIsResumed(t *testing.T) {
	for name, keyed := range map[string]bool{"with keys": true, "without keys": false} {
		t.Run(name, func(t *testing.T) {
			api := clitest.StartNode(t)
			due := importDue()
			// A first part, as an interrupted import leaves it.
			file := writeImport(t, keyed, due)
			all, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			first := bytes.Join(bytes.SplitAfter(all, []byte("\n"))[:2000], nil)
			r := clitest.Run(t.Context(), string(first), "import", "--api", api, "-")
			if r.Code != 0 {
				t.Fatalf("import of the first part exits %d\n%s", r.Code, r.Stderr)
			}
			src, err := openSource(file, nil)
			if err != nil {
				t.Fatal(err)
			}
			known, err := src.fingerprint()
			if err := errors.Join(err, src.Close()); err != nil {
				t.Fatal(err)
			}
			state, err := openState(file+stateSuffix, stateHead{Version: 1, Fingerprint: known})
			if err != nil {
				t.Fatal(err)
			}
			err = errors.Join(
				state.save(record{Sent: lineSet{{1, 3000}}}),
				state.save(record{Answered: lineSet{{1, 2000}}, tally: tally{Created: 2000}}),
				state.save(record{Unsent: lineSet{{2001, 3000}}}),
				state.close(false),
			)
			if err != nil {
				t.Fatal(err)
			}

			r = clitest.Run(t.Context(), "", "import", "--api", api, "-o", "json", file)
			if r.Code != 0 || !strings.Contains(r.Stderr, "going on after 2000 answered lines") {
				t.Fatalf("import exits %d, want 0\n%s%s", r.Code, r.Stdout, r.Stderr)
			}
			if sum := clitest.Decode[summary](t, r.Stdout); sum.Created != importLines || sum.Existing != 0 {
				t.Errorf("import answers %+v, want %d created, those of the first part included", sum, importLines)
			}
			eachOnce(t, api, due)
		})
	}
}

func TestImportThatIsKilledIsResumed(t *testing.T) {
	api := clitest.StartNode(t)
	due := importDue()
	file := writeImport(t, true, due)
	// The state file at the instant of the cut is what a process leaves that is killed then.
	var killed []byte
	ctx, kill := context.WithCancel(t.Context())
	url := startProxy(t, api, func() {
		killed, _ = os.ReadFile(file + stateSuffix) // empty fails the test
		kill()
	}, cutAfter)
	r := clitest.Run(ctx, "", "import", "--api", url, file)
	if r.Code != 1 || !strings.Contains(r.Stderr, "stopped") || !strings.Contains(r.Stdout, "start the same import again") {
		t.Fatalf("import that is stopped exits %d, want 1\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if !bytes.Contains(killed, []byte(`"sent"`)) {
		t.Fatalf("the state holds %q while lines are sent, want which", killed)
	}
	if err := os.WriteFile(file+stateSuffix, killed, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := clitest.Run(t.Context(), "", "import", "--api", url, file); r.Code != 0 {
		t.Fatalf("import exits %d, want 0\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	eachOnce(t, api, due)
}

func TestUnkeyedLinesThatMayStandAreNotSentAgainSilently(t *testing.T) {
	api := clitest.StartNode(t)
	due := importDue()
	file := writeImport(t, false, due)
	r := clitest.Run(t.Context(), "", "import", "--api", startProxy(t, api, nil, cutAfter), "--parallel", "1", "-o", "json", file)
	cut := clitest.Decode[summary](t, r.Stdout)
	if r.Code != 1 || cut.Unknown == 0 || cut.Created == 0 || cut.Created+cut.Unknown != importLines {
		t.Fatalf("import that was cut exits %d and answers %+v, want 1, some lines unknown, and the others created", r.Code, cut)
	}
	if r := clitest.Run(t.Context(), "", "import", "--api", api, file); r.Code != 1 || !strings.Contains(r.Stdout, fmt.Sprintf("%d unknown", cut.Unknown)) {
		t.Errorf("import again exits %d and prints\n%swant 1 and the same %d unknown lines", r.Code, r.Stdout, cut.Unknown)
	}
	for payload, n := range countRuns(t, api, due) {
		if n != 1 {
			t.Fatalf("line with payload %s has %d runs, want 1", payload, n)
		}
	}
	r = clitest.Run(t.Context(), "", "import", "--api", api, "--resend-unknown", "-o", "json", file)
	if sum := clitest.Decode[summary](t, r.Stdout); r.Code != 0 || sum.Created != importLines || sum.Unknown != 0 {
		t.Errorf("import --resend-unknown exits %d and answers %+v, want 0 and all created", r.Code, sum)
	}
	if n := len(countRuns(t, api, due)); n != importLines {
		t.Errorf("%d lines have a run, want %d", n, importLines)
	}
}

func TestImportLeavesANodeThatIsSilent(t *testing.T) {
	api := clitest.StartNode(t)
	due := importDue()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	f := &importFlags{silenceLimit: 2 * time.Second} // the live node may take that
	cmd := &cobra.Command{}
	f.AddFlags(cmd)
	f.URLs = []string{"http://" + l.Addr().String(), api}
	f.parallel = 1
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SetContext(t.Context())
	if err := f.run(cmd, []string{writeImport(t, true, due)}); err != nil {
		t.Fatalf("import with a node that is silent = %v\n%s", err, &out)
	}
	eachOnce(t, api, due)
}

func TestFailedLinesAreKept(t *testing.T) {
	api := clitest.StartNode(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "jobs.ndjson")
	good := `{"nats":{"subject":"a"},"schedule":{"at":"2030-01-01T00:00:00Z"}}`
	bad := []string{`{"nats":{"subject":"a"},"priority":"urgent","colour":"red"}`, `{"nats"`}
	long := `{"nats":{"subject":"` + strings.Repeat("a", 300<<10) + `"}}`
	// no end of the last line
	text := strings.Join([]string{good, bad[0], "", long, bad[1], good}, "\n")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, validate := range []bool{true, false} {
		args := []string{"import", "--api", api, "-o", "json", file}
		if validate {
			args = append(args, "--validate-only")
		}
		r := clitest.Run(t.Context(), "", args...)
		sum := clitest.Decode[summary](t, r.Stdout)
		if r.Code != 1 || sum.Failed != 3 || sum.Created+sum.Existing != 2 || validate == (sum.Created > 0) || sum.FailedFile != file+".failed.ndjson" {
			t.Errorf("import exits %d and answers %+v, want 1, 3 failed, and 2 valid or created (validate only: %t)", r.Code, sum, validate)
		}
	}
	kept, err := os.ReadFile(file + ".failed.ndjson")
	if got, want := string(kept), strings.Join(bad, "\n")+"\n"; err != nil || !sameLines(got, want) {
		t.Errorf("the failed lines are %q, %v; want %q", got, err, want)
	}
	why, err := os.ReadFile(file + ".failed.ndjson" + errorsSuffix)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[int64]failedLine{}
	for _, text := range strings.Split(strings.TrimSpace(string(why)), "\n") {
		f := clitest.Decode[failedLine](t, text)
		lines[f.Line] = f
	}
	if len(lines) != 3 || len(lines[2].Error.Errors) != 2 || lines[5].Error.Status != 400 || !lines[4].LeftOut {
		t.Errorf("the reasons are\n%swant both faults of line 2, that line 4 is too long, and that line 5 is not JSON", why)
	}
}

// sameLines reports whether two texts have the same lines, in any order.
func sameLines(a, b string) bool {
	count := map[string]int{}
	for _, l := range strings.Split(a, "\n") {
		count[l]++
	}
	for _, l := range strings.Split(b, "\n") {
		count[l]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

func TestImportEndsAtOnceWhereNoTryWillHelp(t *testing.T) {
	api := clitest.StartNode(t)
	r := clitest.Run(t.Context(), `{"task":"a"}`, "import", "--api", api, "--tenant", "A!", "-")
	if r.Code != 1 || !strings.Contains(r.Stderr, "header.Carillon-Tenant: ") || !strings.Contains(r.Stdout, "standard input cannot be resumed") {
		t.Errorf("import for a tenant of a bad name exits %d, want 1 and why\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}
