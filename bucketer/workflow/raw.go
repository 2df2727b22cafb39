package workflow

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxPointer is the longest JSON pointer, in bytes.
const maxPointer = 1024

// pointer is a JSON pointer (RFC 6901), taken apart and without its escapes.
type pointer []string

// parsePointer takes a pointer apart, or says what is wrong with it.
func parsePointer(text string) (p pointer, fault string) {
	switch {
	case text == "":
		return nil, ""
	case len(text) > maxPointer:
		return nil, "must be at most " + strconv.Itoa(maxPointer) + " bytes long"
	case text[0] != '/':
		return nil, `must be a JSON pointer: "", or "/" before each name, such as "/files/0"`
	case !utf8.ValidString(text):
		return nil, "must be UTF-8"
	}
	for token := range strings.SplitSeq(text[1:], "/") {
		for rest := token; ; {
			_, after, found := strings.Cut(rest, "~")
			if !found {
				break
			}
			if after == "" || after[0] != '0' && after[0] != '1' {
				return nil, `must have "~0" for "~" and "~1" for "/" in a name`
			}
			rest = after[1:]
		}
		p = append(p, unescapePointer.Replace(token))
	}
	return p, ""
}

// PointerFault says what is wrong with a JSON pointer; "": nothing.
func PointerFault(text string) string {
	_, fault := parsePointer(text)
	return fault
}

var (
	unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")
	escapePointer   = strings.NewReplacer("~", "~0", "/", "~1")
)

// String returns p as RFC 6901 writes it.
func (p pointer) String() string {
	var b strings.Builder
	for _, token := range p {
		b.WriteByte('/')
		b.WriteString(escapePointer.Replace(token))
	}
	return b.String()
}

// find returns the part of a JSON text to which p points, or why there is none, in words that fit
// behind what the text is. Of members with one name the last counts, as in encoding/json.
func find(text []byte, p pointer) (part []byte, missing string) {
	part = trim(text)
	for i, token := range p {
		var next []byte
		switch part[0] {
		case '{':
			for name, value := range members(part) {
				if nameIs(name, token) {
					next = value
				}
			}
			if next == nil {
				return nil, "has no " + short(p[:i+1].String())
			}
		case '[':
			next = element(part, token)
			if next == nil {
				return nil, "has no " + short(p[:i+1].String()) + ": " + nameOf(p[:i]) + " is " + kindOf(part)
			}
		default:
			return nil, "has no " + short(p[:i+1].String()) + ": " + nameOf(p[:i]) + " is " + kindOf(part)
		}
		part = next
	}
	return part, ""
}

func nameOf(p pointer) string {
	if len(p) == 0 {
		return "it"
	}
	return short(p.String())
}

// element returns the element of an array that a token of a pointer names, or nil.
func element(array []byte, token string) []byte {
	n, err := strconv.ParseUint(token, 10, 31)
	if err != nil || token != strconv.FormatUint(n, 10) { // no signs, no leading zeros
		return nil
	}
	for value := range elements(array) {
		if n == 0 {
			return value
		}
		n--
	}
	return nil
}

// kindOf names the kind of a JSON value.
func kindOf(value []byte) string {
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		n := 0
		for range elements(value) {
			n++
		}
		return "an array of " + strconv.Itoa(n)
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// jsonFault says why a text is not JSON that may be passed on, or "".
func jsonFault(text []byte) string {
	switch {
	case !utf8.Valid(text):
		return "is not JSON: it is not UTF-8"
	case !json.Valid(text):
		return "is not JSON"
	}
	return ""
}

// What follows walks over text that jsonFault has nothing against, and allocates nothing.

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func trim(text []byte) []byte {
	return bytes.Trim(text, " \t\n\r")
}

func space(t []byte, at int) int {
	for at < len(t) && isSpace(t[at]) {
		at++
	}
	return at
}

// skip returns where the value that begins at `at` ends.
func skip(t []byte, at int) int {
	switch t[at] {
	case '"':
		return skipString(t, at)
	case '{', '[':
		for depth := 0; ; {
			switch t[at] {
			case '"':
				at = skipString(t, at)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return at + 1
				}
			}
			at++
		}
	}
	for at < len(t) && !isSpace(t[at]) && t[at] != ',' && t[at] != ']' && t[at] != '}' {
		at++
	}
	return at
}

func skipString(t []byte, at int) int {
	for at++; t[at] != '"'; at++ {
		if t[at] == '\\' {
			at++
		}
	}
	return at + 1
}

// members yields the names, with quotes and escapes, and the values of an object.
func members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		at := space(object, 1)
		for object[at] != '}' {
			end := skipString(object, at)
			name := object[at:end]
			at = space(object, space(object, end)+1) // over the colon
			end = skip(object, at)
			if !yield(name, object[at:end]) {
				return
			}
			if at = space(object, end); object[at] == ',' {
				at = space(object, at+1)
			}
		}
	}
}

// elements yields the elements of an array.
func elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		at := space(array, 1)
		for array[at] != ']' {
			end := skip(array, at)
			if !yield(array[at:end]) {
				return
			}
			if at = space(array, end); array[at] == ',' {
				at = space(array, at+1)
			}
		}
	}
}

// nameIs reports whether the name of a member, with quotes and escapes, is want.
func nameIs(quoted []byte, want string) bool {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1:len(quoted)-1]) == want
	}
	return unquote(quoted) == want
}

// unquote returns the string that a JSON string is.
func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // it is a valid string
	return s
}

// appendCompact appends a JSON value without its white space.
func appendCompact(to, value []byte) []byte {
	from := 0
	for at := 0; at < len(value); {
		switch c := value[at]; {
		case c == '"':
			at = skipString(value, at)
		case isSpace(c):
			to = append(to, value[from:at]...)
			at = space(value, at)
			from = at
		default:
			at++
		}
	}
	return append(to, value[from:]...)
}

// maxEcho is how many bytes of a wrong value a fault says back.
const maxEcho = 100

// short returns s as a fault says it back.
func short(s string) string { return limit(s, maxEcho) }

// limit returns s cut to n bytes, at the start of a character.
func limit(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
