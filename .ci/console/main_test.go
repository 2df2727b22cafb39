package console

import (
	"fmt"
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

// openView returns a page that is at a place.
func openView(t *testing.T, base, place string, options ...PageOption) *Page {
	t.Helper()
	p := open(t, base, options...)
	p.Open(place)
	return p
}

// serve starts a server.
func serve(t *testing.T, env ...string) *Server {
	t.Helper()
	need(t)
	return StartServer(t, env...)
}

// serveSecured starts a node that asks for keys.
func serveSecured(t *testing.T) *Secured {
	t.Helper()
	need(t)
	return StartSecured(t)
}
