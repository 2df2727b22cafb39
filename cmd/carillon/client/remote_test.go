package client

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"carillon.dev/carillon/cmd/carillon/clitest"
)

// closedPort returns an address at which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestNobodyAtTheURLIsSaidInAWord(t *testing.T) {
	api := "http://" + closedPort(t)
	want := fmt.Sprintf("carillon: no API at %s: connection refused; is `carillon dev` running?\n", api)
	for _, args := range []string{"run list", "job get 0199aa00-0000-8000-8000-000000000001"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel() // a client tries for a while
			r := clitest.Run(t.Context(), "", append(strings.Fields(args), "--api", api)...)
			if r.Code != 1 || r.Stderr != want {
				t.Errorf("carillon %s exits %d with %q, want 1 and %q", args, r.Code, r.Stderr, want)
			}
		})
	}
}

func TestOtherTroubleOfTheConnectionKeepsItsCause(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer s.Close()
	r := clitest.Run(t.Context(), "", "job", "create", "--task", "a", "--api", s.URL, "--idempotency-key", "k")
	if r.Code != 1 || !strings.Contains(r.Stderr, "create job: ") || !strings.Contains(r.Stderr, "EOF") {
		t.Errorf("job create at a node that hangs up exits %d with %q, want 1 and the cause", r.Code, r.Stderr)
	}
}
