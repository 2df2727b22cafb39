package console

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Tally is what consoles have asked. It is safe for concurrent use, and may be that of several.
type Tally struct {
	mu     sync.Mutex // guards what follows
	took   []time.Duration
	asked  map[string]int
	bytes  int64
	failed int
	fault  string
}

// A Summary is what consoles have asked so far.
type Summary struct {
	Took   []time.Duration // of each answer that is a success
	Asked  map[string]int  // requests, by KeyOf
	Bytes  int64           // of the answers
	Failed int             // requests that were refused, or got no answer
	Fault  string          // why, of the first of them
}

func (t *Tally) note(key string, took time.Duration, bytes int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asked == nil {
		t.asked = map[string]int{}
	}
	t.asked[key]++
	if err != nil {
		if t.failed++; t.fault == "" {
			t.fault = key + ": " + err.Error()
		}
		return
	}
	t.took, t.bytes = append(t.took, took), t.bytes+int64(bytes)
}

// Summary returns what was asked so far.
func (t *Tally) Summary() Summary {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Summary{slices.Clone(t.took), maps.Clone(t.asked), t.bytes, t.failed, t.fault}
}

var anID = regexp.MustCompile(`/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// KeyOf names a request by what it asks for: its method, its path without ids, the names of its
// parameters, and of counts of minutes also how many.
//
//	GET /v1/jobs/{id}/runs limit
//	GET /v1/stats from to 1h0m0s
func KeyOf(method string, u *url.URL) string {
	query := u.Query()
	words := append([]string{method, anID.ReplaceAllString(u.Path, "/{id}")}, slices.Sorted(maps.Keys(query))...)
	if strings.HasSuffix(u.Path, statsPath) {
		from, _ := time.Parse(time.RFC3339, query.Get("from")) // of what is no time the key says a long span
		to, _ := time.Parse(time.RFC3339, query.Get("to"))
		words = append(words, to.Sub(from).String())
	}
	return strings.Join(words, " ")
}
