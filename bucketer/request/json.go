package request

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"carillon.dev/carillon/bucketer"
)

// Bounds of a JSON text, whatever it says.
const (
	maxNesting = 100 // levels of objects and arrays
	// faults reported of one request; what is found beyond them is only said to exist
	maxFaults = 64
)

// nodeKind is what a JSON value is.
type nodeKind byte

const (
	kindNull nodeKind = iota
	kindFalse
	kindTrue
	kindNumber
	kindString
	kindArray
	kindObject
)

// node is one value of a document. The nodes lie in the order of the text, so that the children
// of node i are i+1, nodes[i+1].end, and so on, up to nodes[i].end.
type node struct {
	kind           nodeKind
	escaped        bool  // a string with escapes
	nameEscaped    bool  // a member whose name has escapes
	from, to       int32 // the value's text, a string's without its quotes
	nameOf, nameTo int32 // a member's name, without its quotes
	end            int32 // the node after the last one within this one
}

// document is a JSON text taken apart in one scan: strictly RFC 8259 in valid UTF-8, with bounded
// nesting. The nodes are used again by the next parse.
type document struct {
	text    []byte
	nodes   []node
	open    []int32 // the containers around the scanner
	doubles []int32 // members whose name came before in their object
}

// nestingError says that a text is nested too deep to look at.
type nestingError struct{ node int32 }

func (e *nestingError) Error() string {
	return fmt.Sprintf("is nested deeper than %d levels", maxNesting)
}

// parse takes text apart. It keeps text until the next parse. The error is a *NotJSONError or a
// *nestingError.
func (d *document) parse(text []byte) error {
	d.text, d.nodes, d.open, d.doubles = text, d.nodes[:0], d.open[:0], d.doubles[:0]
	if len(text) > math.MaxInt32 {
		return &NotJSONError{0, "text too large"}
	}
	at := d.space(0)
	at, err := d.value(at, node{})
	if err != nil {
		return err
	}
	if at = d.space(at); at < len(text) {
		return d.broken(at, "something follows the JSON value")
	}
	return nil
}

func (d *document) broken(at int, what string) error {
	if at >= len(d.text) {
		return &NotJSONError{len(d.text), "the text ends in the middle of a JSON value"}
	}
	return &NotJSONError{at, what}
}

func (d *document) space(at int) int {
	for at < len(d.text) {
		switch d.text[at] {
		case ' ', '\t', '\n', '\r':
			at++
		default:
			return at
		}
	}
	return at
}

// value scans the value at `at` into n, which may hold a name, and returns what follows it.
func (d *document) value(at int, n node) (int, error) {
	if at >= len(d.text) {
		return at, d.broken(at, "")
	}
	self := int32(len(d.nodes)) // #nosec G115 -- parse bounds the text
	n.from, n.end = int32(at), self+1
	var err error
	switch c := d.text[at]; {
	case c == '{' || c == '[':
		n.end = math.MaxInt32 // open: see location
		n.kind = kindObject
		if c == '[' {
			n.kind = kindArray
		}
		d.nodes = append(d.nodes, n)
		if len(d.open) == maxNesting {
			return at, &nestingError{self}
		}
		d.open = append(d.open, self)
		if at, err = d.children(at+1, c == '{'); err != nil {
			return at, err
		}
		d.open = d.open[:len(d.open)-1]
		d.nodes[self].to, d.nodes[self].end = int32(at), int32(len(d.nodes)) // #nosec G115
		if c == '{' {
			d.findDoubles(self)
		}
		return at, nil
	case c == '"':
		n.kind, n.from = kindString, n.from+1
		if at, n.escaped, err = d.str(at + 1); err != nil {
			return at, err
		}
		n.to = int32(at - 1) // #nosec G115
		d.nodes = append(d.nodes, n)
		return at, nil
	case c == '-' || c >= '0' && c <= '9':
		n.kind = kindNumber
		at, err = d.number(at)
	case c == 't':
		n.kind = kindTrue
		at, err = d.word(at, "true")
	case c == 'f':
		n.kind = kindFalse
		at, err = d.word(at, "false")
	case c == 'n':
		at, err = d.word(at, "null")
	default:
		return at, d.broken(at, "no JSON value")
	}
	if err != nil {
		return at, err
	}
	n.to = int32(at) // #nosec G115
	d.nodes = append(d.nodes, n)
	return at, nil
}

// children scans what stands in an object or array, after its opening bracket.
func (d *document) children(at int, object bool) (int, error) {
	end, unended := byte(']'), "no comma or closing bracket after an element"
	if object {
		end, unended = '}', "no comma or closing brace after a member"
	}
	at = d.space(at)
	if at < len(d.text) && d.text[at] == end {
		return at + 1, nil
	}
	for {
		var n node
		var err error
		if object {
			if n, at, err = d.memberName(at); err != nil {
				return at, err
			}
		}
		if at, err = d.value(at, n); err != nil {
			return at, err
		}
		at = d.space(at)
		switch {
		case at < len(d.text) && d.text[at] == ',':
			at = d.space(at + 1)
		case at < len(d.text) && d.text[at] == end:
			return at + 1, nil
		default:
			return at, d.broken(at, unended)
		}
	}
}

// memberName scans a name and the colon after it, up to the member's value.
func (d *document) memberName(at int) (n node, next int, err error) {
	if at >= len(d.text) || d.text[at] != '"' {
		return n, at, d.broken(at, "no member name")
	}
	n.nameOf = int32(at + 1) // #nosec G115
	if at, n.nameEscaped, err = d.str(at + 1); err != nil {
		return n, at, err
	}
	n.nameTo = int32(at - 1) // #nosec G115
	if at = d.space(at); at >= len(d.text) || d.text[at] != ':' {
		return n, at, d.broken(at, "no colon after a member name")
	}
	return n, d.space(at + 1), nil
}

// str scans the rest of a string, after its opening quote.
func (d *document) str(at int) (end int, escaped bool, err error) {
	for at < len(d.text) {
		switch c := d.text[at]; {
		case c == '"':
			return at + 1, escaped, nil
		case c == '\\':
			escaped = true
			_, next := unescape(d.text[at:])
			if next == 0 {
				if len(d.text)-at < 12 && bytes.IndexByte(d.text[at+1:], '"') < 0 {
					return at, false, d.broken(len(d.text), "")
				}
				return at, false, d.broken(at, "bad escape in a string")
			}
			at += next
		case c < ' ':
			return at, false, d.broken(at, "control character in a string")
		case c < utf8.RuneSelf:
			at++
		default:
			r, size := utf8.DecodeRune(d.text[at:])
			if r == utf8.RuneError && size == 1 {
				return at, false, d.broken(at, "invalid UTF-8")
			}
			at += size
		}
	}
	return at, false, d.broken(at, "")
}

// unescape returns the character that the escape sequence at the start of s stands for, and the
// sequence's length; 0 means that it stands for none. Surrogates must come in pairs.
func unescape(s []byte) (rune, int) {
	if len(s) < 2 {
		return 0, 0
	}
	switch s[1] {
	case '"', '\\', '/':
		return rune(s[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r, ok := hex4(s[2:])
		switch {
		case !ok:
			return 0, 0
		case !utf16.IsSurrogate(r):
			return r, 6
		case len(s) < 12 || s[6] != '\\' || s[7] != 'u':
			return 0, 0
		}
		low, ok := hex4(s[8:])
		if r = utf16.DecodeRune(r, low); ok && r != utf8.RuneError {
			return r, 12
		}
	}
	return 0, 0
}

func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	v, err := strconv.ParseUint(string(s[:4]), 16, 16)
	return rune(v), err == nil // #nosec G115 -- 16 bits
}

func (d *document) number(at int) (int, error) {
	if d.text[at] == '-' {
		at++
	}
	var err error
	if at < len(d.text) && d.text[at] == '0' {
		at++
	} else if at, err = d.digits(at); err != nil {
		return at, err
	}
	if at < len(d.text) && d.text[at] == '.' {
		if at, err = d.digits(at + 1); err != nil {
			return at, err
		}
	}
	if at < len(d.text) && d.text[at]|0x20 == 'e' {
		at++
		if at < len(d.text) && (d.text[at] == '+' || d.text[at] == '-') {
			at++
		}
		return d.digits(at)
	}
	return at, nil
}

// digits scans one digit or more.
func (d *document) digits(at int) (int, error) {
	from := at
	for at < len(d.text) && d.text[at] >= '0' && d.text[at] <= '9' {
		at++
	}
	if at == from {
		return at, d.broken(at, "bad number")
	}
	return at, nil
}

func (d *document) word(at int, w string) (int, error) {
	if rest := d.text[at:]; len(rest) < len(w) || string(rest[:len(w)]) != w {
		return at, d.broken(at, "no JSON value")
	}
	return at + len(w), nil
}

// fewMembers is up to how many members an object's names are compared each with each.
const fewMembers = 12

// findDoubles notes the members of object i whose name came before.
func (d *document) findDoubles(i int32) {
	n := 0
	for c := i + 1; c < d.nodes[i].end; c = d.nodes[c].end {
		n++
	}
	if n > fewMembers {
		seen := make(map[string]struct{}, n)
		for c := i + 1; c < d.nodes[i].end; c = d.nodes[c].end {
			name := string(d.name(c))
			if _, ok := seen[name]; ok {
				d.double(c)
			}
			seen[name] = struct{}{}
		}
		return
	}
	for c := i + 1; c < d.nodes[i].end; c = d.nodes[c].end {
		name := d.name(c)
		for b := i + 1; b < c; b = d.nodes[b].end {
			if bytes.Equal(name, d.name(b)) {
				d.double(c)
				break
			}
		}
	}
}

func (d *document) double(i int32) {
	if len(d.doubles) <= maxFaults {
		d.doubles = append(d.doubles, i)
	}
}

// name returns the name of member i.
func (d *document) name(i int32) []byte {
	n := &d.nodes[i]
	raw := d.text[n.nameOf:n.nameTo]
	if n.nameEscaped {
		return unescapeAll(raw)
	}
	return raw
}

// stringOf returns the string that node i is.
func (d *document) stringOf(i int32) []byte {
	n := &d.nodes[i]
	raw := d.text[n.from:n.to]
	if n.escaped {
		return unescapeAll(raw)
	}
	return raw
}

// raw returns the text of node i, a string's with its quotes.
func (d *document) raw(i int32) []byte {
	n := &d.nodes[i]
	if n.kind == kindString {
		return d.text[n.from-1 : n.to+1]
	}
	return d.text[n.from:n.to]
}

// unescapeAll returns a string's text with its escapes resolved; they have been checked.
func unescapeAll(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		r, n := unescape(raw[i:])
		out = utf8.AppendRune(out, r)
		i += n
	}
	return out
}

// location names node i from the root on: "body.http.headers", "body.payload[3].x".
func (d *document) location(i int32) string {
	path := []byte("body")
	for at := int32(0); at != i; {
		index := 0
		child := at + 1
		for d.nodes[child].end <= i {
			child = d.nodes[child].end
			index++
		}
		if d.nodes[at].kind == kindArray {
			path = append(append(append(path, '['), strconv.Itoa(index)...), ']')
		} else {
			path = append(append(path, '.'), bucketer.Shorten(d.name(child), 63)...)
		}
		at = child
	}
	return string(path)
}
