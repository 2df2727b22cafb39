package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/loadtest/api/apitest"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/sink"
)

// asProgram in the environment makes the test binary carillon-load itself, for tests that start it
// as a process.
const asProgram = "CARILLON_LOAD_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// load runs the command and returns its output.
func load(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(t.Output())
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func mustLoad(t *testing.T, args ...string) string {
	t.Helper()
	out, err := load(t, args...)
	if err != nil {
		t.Fatalf("carillon-load %v: %v\n%s", args, err, out)
	}
	return out
}

// startSink starts a sink that writes to path, and returns its URL and what stops it.
func startSink(t *testing.T, path string) (url string, stop func()) {
	t.Helper()
	f, err := appendTo(path)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serveSink(ctx, sink.New(f), []net.Listener{ln}, t.Output()) }()
	stopped := false
	stop = func() {
		t.Helper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := errors.Join(<-done, f.Close()); err != nil {
			t.Errorf("serveSink = %v, want nil", err)
		}
	}
	t.Cleanup(stop)
	return "http://" + ln.Addr().String(), stop
}

// The four commands together against a Carillon in memory: an import that is cut, a sink that fails
// the first attempt of each run.
func TestFromJobsToVerdict(t *testing.T) {
	dir := t.TempDir()
	jobs, acks, seen, out := filepath.Join(dir, "jobs"), filepath.Join(dir, "acks"), filepath.Join(dir, "seen"), filepath.Join(dir, "report")
	cluster := apitest.New(t)
	cluster.Bare = true
	cluster.Import = func(n int) apitest.Fault {
		if n == 1 {
			return apitest.Fault{Cut: true, After: 100, Swallow: 20}
		}
		return apitest.Fault{}
	}
	nodes := cluster.Serve(t) + "," + cluster.Serve(t)
	target, stopSink := startSink(t, seen)

	mustLoad(t, "gen", "--n", "300", "--immediate", "20", "--from", "+500ms", "--spread", "1s", "--target", target+"/fail-1/hook",
		"--keyed", "--out", jobs)
	if got := mustLoad(t, "import", "--api", nodes, "--acks", acks, jobs); !strings.Contains(got, "lines 300, created 280, existing 20,") {
		t.Errorf("import says %q, want 300 lines, 280 created, 20 existing", got)
	}
	judge := []string{"check", "--asked", jobs, "--acks", acks, "--sink", seen, "--api", nodes, "--apart", "10ms", "--out", out}
	text := mustLoad(t, judge...)
	if !strings.Contains(text, "ok") {
		t.Errorf("check says:\n%s\nwant ok", text)
	}
	rep := readReport(t, out)
	if rep.Asked != 300 || rep.Done != 300 || rep.Sightings < 300 || rep.Reported.Count != 300 || rep.Seen.Count != 300 {
		t.Errorf("report = %+v, want 300 asked, done and measured", rep)
	}

	t.Run("a run that vanished is found", func(t *testing.T) {
		stopSink()
		cluster.Forget(cluster.Runs()[7])
		text, err := load(t, judge...)
		if !errors.Is(err, errVerdict) {
			t.Errorf("check = %v, want errVerdict:\n%s", err, text)
		}
		if rep := readReport(t, out); rep.Missed != 1 || !rep.SeenAll {
			t.Errorf("report = %+v, want one missed, by a complete record", rep)
		}
	})
	t.Run("a run that nobody asked for is found", func(t *testing.T) {
		cluster.Put("stray", "pending", time.Now())
		if text, err := load(t, append(judge, "--wait", "0s")...); !errors.Is(err, errVerdict) {
			t.Errorf("check = %v, want errVerdict:\n%s", err, text)
		}
		if rep := readReport(t, out); rep.Unexpected != 1 {
			t.Errorf("report = %+v, want one unexpected", rep)
		}
	})
	t.Run("answers are not overwritten", func(t *testing.T) {
		if _, err := load(t, "import", "--api", nodes, "--acks", acks, jobs); !errors.Is(err, os.ErrExist) {
			t.Errorf("import = %v, want os.ErrExist", err)
		}
	})
}

func readReport(t *testing.T, path string) check.Report {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var rep check.Report
	if err := json.Unmarshal(b, &rep); err != nil {
		t.Fatal(err)
	}
	return rep
}

func TestImportWithoutKeysTellsWhatIsUnknown(t *testing.T) {
	dir := t.TempDir()
	jobs, acks := filepath.Join(dir, "jobs"), filepath.Join(dir, "acks")
	cluster := apitest.New(t)
	cluster.Idle = true
	cluster.Import = func(int) apitest.Fault { return apitest.Fault{Cut: true, After: 3} }
	mustLoad(t, "gen", "--n", "10", "--from", "+1h", "--at-once", "--target", "http://127.0.0.1:9", "--out", jobs)
	out, err := load(t, "import", "--api", cluster.Serve(t), "--acks", acks, jobs)
	if !errors.Is(err, errVerdict) || !strings.Contains(out, "created 3, existing 0, refused 0, unknown 7") {
		t.Errorf("import = %v, %q, want errVerdict, 3 created and 7 unknown", err, out)
	}
}

func TestASinkThatWasKilledGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seen")
	if err := os.WriteFile(path, []byte(`{"start":1}`+"\n"+`{"n":1,"run":"r`), 0o600); err != nil {
		t.Fatal(err)
	}
	url, stop := startSink(t, path)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/s1/1", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	stop()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	got, all, err := journal.ReadSeen(f)
	if err != nil || len(got) != 1 || all {
		t.Errorf("ReadSeen = %d arrivals, %t, %v, want 1, not complete", len(got), all, err)
	}
}

func TestGenRefusesBadFlags(t *testing.T) {
	rows := []struct {
		name string
		args []string
		want string
	}{
		{"no target", nil, "target"},
		{"a time that is none", []string{"--target", "http://h", "--from", "soon"}, "--from"},
		{"a span that is none", []string{"--target", "http://h", "--from", "+soon"}, "--from"},
		{"at once and spread", []string{"--target", "http://h", "--at-once", "--spread", "1s"}, "exclude"},
		{"a payload that is too small", []string{"--target", "http://h", "--payload", "5"}, "payload"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			_, err := load(t, append([]string{"gen"}, row.args...)...)
			if err == nil || errors.Is(err, errVerdict) || !strings.Contains(err.Error(), row.want) {
				t.Errorf("gen %v = %v, want an error about %q", row.args, err, row.want)
			}
		})
	}
}

func TestATokenIsNotShown(t *testing.T) {
	t.Setenv("CARILLON_TOKEN", "very-secret")
	out, err := load(t, "import", "--help")
	if err != nil || strings.Contains(out, "very-secret") {
		t.Errorf("import --help = %v and shows the token, want it hidden:\n%s", err, out)
	}
}

// A client may open a connection and never ask anything on it, since another became free meanwhile.
func TestASinkStopsBeforeConnectionsThatAreNotUsed(t *testing.T) {
	url, stop := startSink(t, filepath.Join(t.TempDir(), "seen.ndjson"))
	unused, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unused.Close() }() // closed by the sink
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	resp, err := client.Get(url + "/stats") // it was accepted after the other one
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	stop() // fails the test unless all is in order
	if n, err := unused.Read(make([]byte, 1)); err == nil {
		t.Errorf("Read on the connection = %d bytes, want that it is closed", n)
	}
}
