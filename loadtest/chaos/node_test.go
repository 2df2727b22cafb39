package chaos

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// node answers requests in turn, and shows the same to all; an answer of 0 hangs up after the
// request has been read.
type node struct {
	mu      sync.Mutex
	answers []int
	shows   string
	asked   []string // method, path, body and idempotency key, as far as there are such
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what came is what is compared
	n.mu.Lock()
	n.asked = append(n.asked, strings.TrimSpace(fmt.Sprint(r.Method, " ", r.URL.Path, " ", string(body), " ", r.Header.Get("Idempotency-Key"))))
	status := n.answers[min(len(n.asked), len(n.answers))-1]
	n.mu.Unlock()
	if status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, n.shows)
}

// nobody returns the URL of an address at which nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	return "http://" + gone.Addr().String()
}
