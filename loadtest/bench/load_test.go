package bench

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestSendInPartsSendsEachLineOnce imports over two connections, whole and in parts, to a node that
// refuses one line for now.
func TestSendInPartsSendsEachLineOnce(t *testing.T) {
	for _, row := range []struct {
		part, imports int // with the one of the line that was refused
	}{{0, 3}, {40, 7}, {100, 3}, {101, 3}} {
		t.Run(fmt.Sprintf("parts of %d", row.part), func(t *testing.T) {
			var mu sync.Mutex
			var accepted []string
			var sizes []int
			refused := false
			node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				lines := read(t, r.Body)
				mu.Lock()
				defer mu.Unlock()
				sizes = append(sizes, len(lines))
				for i, l := range lines {
					if strings.HasSuffix(l.HTTP.URL, "/57") && !refused {
						refused = true
						// the test fails if the client does not get it
						_, _ = fmt.Fprintf(w, `{"line":%d,"status":429}`+"\n", i+1)
						continue
					}
					accepted = append(accepted, l.HTTP.URL)
					_, _ = fmt.Fprintf(w, `{"line":%d,"status":201}`+"\n", i+1)
				}
				_, _ = fmt.Fprintln(w, `{"summary":{}}`)
			}))
			defer node.Close()
			j := jobs{n: 200, from: noon, target: httpTarget, url: "http://h:1", source: "s", part: row.part}
			var answered atomic.Int64
			load, err := j.send(t.Context(), node.Client(), []string{node.URL}, 2, &answered)
			if err != nil || load.Resent != 1 || load.Lines != 200 {
				t.Errorf("send = %+v, %v, want 200 lines and one sent again", load, err)
			}
			if slices.Sort(accepted); len(accepted) != 200 || len(slices.Compact(accepted)) != 200 {
				t.Errorf("%d lines came, want 200 that differ", len(accepted))
			}
			most := 100 // of each of two connections
			if row.part > 0 {
				most = min(row.part, most)
			}
			if len(sizes) != row.imports || slices.Max(sizes) != most {
				t.Errorf("imports of %d lines, want %d of %d at most", sizes, row.imports, most)
			}
		})
	}
}
