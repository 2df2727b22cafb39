package spine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// counter asks a node for the value of one of its counters, by name and labels.
func (r *run) counter(ctx context.Context, api, name string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, api+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("its metrics: answered %d", resp.StatusCode)
	}
	return readCounter(io.LimitReader(resp.Body, mostMetrics), name)
}

// readCounter finds a counter in the text format of Prometheus.
func readCounter(text io.Reader, name string) (int, error) {
	for lines := bufio.NewScanner(text); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			return int(n), err
		}
	}
	return 0, fmt.Errorf("its metrics have no %s", name)
}
