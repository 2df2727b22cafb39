package chaos

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// counter asks a node for the value of one of its counters, by name and labels.
func (r *run) counter(ctx context.Context, api, name string) (int, error) {
	text, err := r.metrics(ctx, api)
	if err != nil {
		return 0, err
	}
	return readCounter(strings.NewReader(text), name)
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
