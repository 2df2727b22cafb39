// Package metrics reads what nodes publish in the text format of Prometheus.
package metrics

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/loadtest/api"
)

// mostBytes bounds what is read of one node.
const mostBytes = 8 << 20

// ErrRefused says that a node is up and does not give its metrics.
var ErrRefused = errors.New("no metrics")

// Values are samples by name and labels, as they stand in the text: "name" or
// `name{label="value"}`.
type Values map[string]float64

// Read reads the metrics at a URL, such as a node's "/metrics", within timeout.
func Read(ctx context.Context, client *http.Client, url string, timeout time.Duration) (Values, error) {
	a, err := api.Ask(ctx, client, api.Request{URL: url, Timeout: timeout, Most: mostBytes})
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	if a.Status != http.StatusOK {
		return nil, fmt.Errorf("%w: %s answered %d", ErrRefused, url, a.Status)
	}
	return Parse(bytes.NewReader(a.Body))
}

// Parse reads the text format; comments and time stamps are ignored.
func Parse(r io.Reader) (Values, error) {
	v := Values{}
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		line := strings.TrimSpace(scan.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		end := strings.IndexAny(line, " \t")
		if open := strings.IndexByte(line, '{'); open >= 0 && (end < 0 || open < end) {
			end = endOfLabels(line, open)
		}
		if end <= 0 || end >= len(line) {
			return nil, fmt.Errorf("read metrics: a line without a value: %.100q", line)
		}
		fields := strings.Fields(line[end:])
		if len(fields) == 0 {
			return nil, fmt.Errorf("read metrics: a line without a value: %.100q", line)
		}
		x, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return nil, fmt.Errorf("read metrics: %w", err)
		}
		v[line[:end]] = x
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return v, nil
}

// endOfLabels returns the index after the brace that closes the one at open; 0 if there is none.
// Quoted values may hold braces.
func endOfLabels(line string, open int) int {
	quoted := false
	for i := open; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return i + 1
		}
	}
	return 0
}

// Value returns one sample. A name that is not there is an error.
func (v Values) Value(name string) (float64, error) {
	x, ok := v[name]
	if !ok {
		return 0, fmt.Errorf("its metrics have no %s", name)
	}
	return x, nil
}

// Sum returns the sum of a metric over its labels.
func (v Values) Sum(name string) float64 {
	sum := v[name]
	for key, x := range v {
		if rest, ok := strings.CutPrefix(key, name); ok && strings.HasPrefix(rest, "{") {
			sum += x
		}
	}
	return sum
}

// Less returns v − w; what is only in w is left out.
func (v Values) Less(w Values) Values {
	d := make(Values, len(v))
	for key, x := range v {
		d[key] = x - w[key]
	}
	return d
}

// A Bucket is a step of a cumulative histogram.
type Bucket struct {
	Bound float64 // the highest value that it counts
	Count float64 // observations up to Bound
}

// A Histogram is all buckets, in order of their bounds.
type Histogram []Bucket

// Histogram returns the histogram of a metric without further labels.
func (v Values) Histogram(name string) Histogram {
	var h Histogram
	for key, n := range v {
		le, ok := strings.CutPrefix(key, name+`_bucket{le="`)
		if !ok {
			continue
		}
		bound, err := strconv.ParseFloat(strings.TrimSuffix(le, `"}`), 64) // reads +Inf too
		if err == nil {
			h = append(h, Bucket{bound, n})
		}
	}
	slices.SortFunc(h, func(a, b Bucket) int { return int(math.Copysign(1, a.Bound-b.Bound)) })
	return h
}

// Count returns the number of observations.
func (h Histogram) Count() float64 {
	if len(h) == 0 {
		return 0
	}
	return h[len(h)-1].Count
}

// Quantile returns the upper bound of the bucket in which quantile q (0 to 1) lies: 0 of nothing,
// and the last finite bound if it lies beyond.
func (h Histogram) Quantile(q float64) float64 {
	total := h.Count()
	if total <= 0 {
		return 0
	}
	last := 0.0
	for _, b := range h {
		if !math.IsInf(b.Bound, 1) {
			last = b.Bound
		}
		if b.Count >= q*total {
			break
		}
	}
	return last
}

// Above returns how many observations are above a bound, which must be that of a bucket.
func (h Histogram) Above(bound float64) (int, error) {
	for _, b := range h {
		if b.Bound == bound {
			return int(h.Count() - b.Count), nil
		}
	}
	return 0, fmt.Errorf("a histogram of %d buckets has none with the bound %g", len(h), bound)
}
