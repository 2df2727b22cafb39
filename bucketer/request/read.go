package request

import (
	"bytes"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// Bounds of single fields.
const (
	maxDescription = 1024 // bytes
	maxLabels      = 16   // labels of a job
	maxLabelName   = 63   // bytes
	maxLabelValue  = 255  // bytes
	maxSpan        = 10 * 365 * 24 * time.Hour
)

var (
	priorities = []string{string(schema.Critical), string(schema.High), string(schema.Normal), string(schema.Low)}
	policies   = []string{"run_all", "run_latest", "skip"}
)

// members returns the members of object i that are not null.
func (d *fields) members(i int32) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for c := i + 1; c < d.doc.nodes[i].end; c = d.doc.nodes[c].end {
			if d.doc.nodes[c].kind != kindNull && !yield(c) {
				return
			}
		}
	}
}

// allMembers returns the members of object i.
func (d *fields) allMembers(i int32) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for c := i + 1; c < d.doc.nodes[i].end; c = d.doc.nodes[c].end {
			if !yield(c) {
				return
			}
		}
	}
}

func (d *fields) is(i int32, kind nodeKind) bool { return d.doc.nodes[i].kind == kind }

// object returns the members of node i, none if it is no object, which is a fault.
func (d *fields) object(i int32) iter.Seq[int32] {
	if !d.is(i, kindObject) {
		d.fault(i, "must be an object")
		return func(func(int32) bool) {}
	}
	return d.members(i)
}

// string returns the string that node i is, or "".
func (d *fields) string(i int32) string {
	if !d.is(i, kindString) {
		d.fault(i, "must be a string")
		return ""
	}
	return string(d.doc.stringOf(i))
}

// checked returns the string that node i is. Check says what is wrong with it, or "".
func (d *fields) checked(i int32, check func(string) string) string {
	s := d.string(i)
	if d.is(i, kindString) {
		if what := check(s); what != "" {
			d.fault(i, "%s", what)
		}
	}
	return s
}

// named returns the name that node i is.
func (d *fields) named(i int32) string { return d.checked(i, bucketer.NameFault) }

// text returns the string that node i is, at most limit bytes long, without control characters but
// line ends and tabs.
func (d *fields) text(i int32, limit int) string {
	s := d.string(i)
	if len(s) > limit {
		d.fault(i, "must be at most %d bytes long", limit)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
		d.fault(i, "must not hold control characters")
	}
	return s
}

// oneOf returns the string that node i is, which is one of the words.
func (d *fields) oneOf(i int32, words []string) string {
	if !d.is(i, kindString) {
		d.fault(i, "must be a string")
		return ""
	}
	raw := d.doc.stringOf(i)
	if at := slices.IndexFunc(words, func(w string) bool { return string(raw) == w }); at >= 0 {
		return words[at]
	}
	d.fault(i, "must be one of %s", strings.Join(words, ", "))
	return ""
}

// integer returns the integer that node i is, from low to high. 5.0 and 5e0 are 5.
func (d *fields) integer(i int32, low, high int) int {
	v, ok := d.float(i)
	switch {
	case !ok:
	case v != math.Trunc(v) || v < float64(low) || v > float64(high):
		d.fault(i, "must be a whole number from %d to %d", low, high)
	default:
		return int(v)
	}
	return 0
}

func (d *fields) float(i int32) (float64, bool) {
	if !d.is(i, kindNumber) {
		d.fault(i, "must be a number")
		return 0, false
	}
	v, err := strconv.ParseFloat(string(d.doc.raw(i)), 64)
	if err != nil {
		d.fault(i, "is too large a number")
		return 0, false
	}
	return v, true
}

// duration returns the duration that node i is, from low to high.
func (d *fields) duration(i int32, low, high time.Duration) schema.Duration {
	if !d.is(i, kindString) {
		d.fault(i, `must be a string such as "1m30s"`)
		return 0
	}
	v, err := time.ParseDuration(string(d.doc.stringOf(i)))
	switch {
	case err != nil:
		d.fault(i, `must be a duration such as "1m30s" or "250ms"`)
	case v < low || v > high:
		d.fault(i, "must be from %s to %s", low, high)
	default:
		return schema.Duration(v)
	}
	return 0
}

// payload returns a copy of the text of node i.
func (d *fields) payload(i int32) []byte {
	raw := d.doc.raw(i)
	if len(raw) > schema.MaxPayload {
		d.faultQuietly(i, "must be at most %d bytes of JSON, not %d", schema.MaxPayload, len(raw))
		return nil
	}
	return bytes.Clone(raw)
}

func (d *fields) labels(i int32) map[string]string {
	var labels map[string]string
	n := 0
	for c := range d.object(i) {
		if n++; n > maxLabels {
			d.faultQuietly(i, "must be at most %d", maxLabels)
			return nil
		}
		name := string(d.doc.name(c))
		if !isLabelName(name) {
			d.faultQuietly(c, "must have a name of 1 to %d letters, digits, '.', '_', '-' and '/'", maxLabelName)
		}
		value := d.string(c)
		if len(value) > maxLabelValue || strings.ContainsFunc(value, unicode.IsControl) {
			d.fault(c, "must be at most %d bytes, without control characters", maxLabelValue)
		}
		if labels == nil {
			labels = make(map[string]string)
		}
		labels[name] = value
	}
	return labels
}

// requires reads the labels that an executor must have.
func requires(d *fields, i int32) schema.Labels {
	var labels schema.Labels
	n := 0
	for c := range d.object(i) {
		if n++; n > schema.MaxLabels {
			d.faultQuietly(i, "must be at most %d", schema.MaxLabels)
			return nil
		}
		name := string(d.doc.name(c))
		if what := schema.LabelFault(name); what != "" {
			d.faultQuietly(c, "its name %s", what)
		}
		value := d.checked(c, schema.LabelFault)
		if labels == nil {
			labels = make(schema.Labels)
		}
		labels[name] = value
	}
	return labels
}

func isLabelName(name string) bool {
	if name == "" || len(name) > maxLabelName {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-', c == '/':
		default:
			return false
		}
	}
	return true
}

func (d *fields) misfire(i int32) *schema.Misfire {
	m := new(schema.Misfire)
	for c := range d.object(i) {
		switch name := d.doc.name(c); string(name) {
		case "policy":
			m.Policy = d.oneOf(c, policies)
		case "deadline":
			m.Deadline = d.duration(c, time.Second, maxSpan)
		default:
			d.faultQuietly(c, "is not a field of misfire")
		}
	}
	return m
}
