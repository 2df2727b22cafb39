package console

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"carillon.dev/carillon/deploy/local/cluster"
)

// shared is the browser of all tests; nil on a machine without one.
var shared *Browser

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	path := FindBrowser()
	if path != "" {
		var err error
		if shared, err = StartBrowser(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	code := cluster.Main(m).Run()
	if shared != nil {
		if err := shared.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

// open returns a page of the shared browser. Without a browser the test is left out.
func open(t *testing.T, base string, options ...PageOption) *Page {
	t.Helper()
	need(t)
	return shared.Page(t, base, options...)
}

// need leaves the test out on a machine without a browser.
func need(t *testing.T) {
	t.Helper()
	if shared == nil {
		leaveOut(t, "tests in a browser: there is no Chromium (apt-get install chromium)")
	}
}

// serve starts a server, and leaves the test out if it serves no page.
func serve(t *testing.T, env ...string) *Server {
	t.Helper()
	need(t)
	s := StartServer(t, env...)
	if !s.HasConsole() {
		unbuilt(t, "the page at /console/")
	}
	return s
}

// world returns a world, and leaves the test out if its server serves no page.
func world(t *testing.T) *World {
	t.Helper()
	need(t)
	w := NewWorld(t)
	if !w.Server.HasConsole() {
		unbuilt(t, "the page at /console/")
	}
	return w
}

// serveSecured starts a node that asks for keys, and leaves the test out if it serves no page.
func serveSecured(t *testing.T) *Secured {
	t.Helper()
	need(t)
	s := StartSecured(t)
	resp, err := http.Get(s.Console())
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		unbuilt(t, "the page at /console/")
	}
	return s
}

// shotsFolder is where pictures go, "" if none are asked for.
func shotsFolder() string { return os.Getenv("CONSOLE_SHOTS") }
