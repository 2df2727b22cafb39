package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"carillon.dev/carillon/schema"
)

// maxNesting is how deep a payload may be nested.
const maxNesting = 100

// refKind is what a reference in a payload stands for.
type refKind byte

const (
	refFrom  refKind = iota + 1 // a part of the output of a step
	refInput                    // a part of the payload of the run
	refItem                     // a part of the item of for_each
	refIndex                    // the number of the item, from 0
	refRun                      // a fact of the run
)

// The members by which an object is a reference.
var refNames = map[string]refKind{"$from": refFrom, "$input": refInput, "$item": refItem, "$index": refIndex, "$run": refRun}

// What $run may name.
var runFacts = []string{"/id", "/nominal_at"}

// reference is an object of a template that is replaced.
type reference struct {
	kind refKind
	step int // of refFrom
	at   pointer
}

// perItem reports whether the reference stands for another value for each item.
func (r *reference) perItem() bool { return r.kind == refItem || r.kind == refIndex }

// template is a payload, cut at its references.
type template struct {
	parts []part
	tail  []byte // what follows the last part
}

// part is a reference, after the text before it.
type part struct {
	before []byte
	ref    reference
}

func (t *template) perItem() bool {
	return slices.ContainsFunc(t.parts, func(p part) bool { return p.ref.perItem() })
}

// templateReader cuts a payload at its references.
type templateReader struct {
	allowed []refKind                           // the kinds that may be used here
	step    func(name string) (int, string)     // finds a step, or says why it cannot be referred to
	fault   func(at, message string, value any) // notes what is wrong

	out  template
	text []byte // since the last reference
}

// read returns the template that a payload is, nil if it is absent or null. at is its pointer. What
// it returns is of use only if nothing was wrong.
func (r *templateReader) read(payload json.RawMessage, at string) *template {
	if what := jsonFault(payload); len(payload) > 0 && what != "" {
		r.fault(at, what, nil)
		return nil
	}
	value := trim(payload)
	if len(value) == 0 || string(value) == "null" {
		return nil
	}
	r.value(value, at, 0)
	if n := len(r.text); n > schema.MaxPayload {
		r.fault(at, fmt.Sprintf("must be at most %d bytes of JSON, not %d", schema.MaxPayload, n), nil)
	}
	r.out.tail = r.text
	return &r.out
}

func (r *templateReader) value(value []byte, at string, depth int) {
	switch {
	case value[0] != '{' && value[0] != '[':
		r.text = append(r.text, value...)
	case depth == maxNesting:
		r.fault(at, fmt.Sprintf("is nested deeper than %d levels", maxNesting), nil)
	case value[0] == '[':
		open := byte('[')
		n := 0
		for element := range elements(value) {
			r.text = append(r.text, open)
			r.value(element, at+"/"+strconv.Itoa(n), depth+1)
			open = ','
			n++
		}
		if n == 0 {
			r.text = append(r.text, '[')
		}
		r.text = append(r.text, ']')
	case !r.reference(value, at):
		open := byte('{')
		for name, member := range members(value) {
			r.text = append(append(append(r.text, open), name...), ':')
			r.value(member, at+"/"+escapePointer.Replace(unquote(name)), depth+1)
			open = ','
		}
		if open == '{' {
			r.text = append(r.text, open)
		}
		r.text = append(r.text, '}')
	}
}

// reference reads an object as a reference, if it has a member that makes it one, and reports
// whether it has. What has such a member and is no reference is a mistake: it is not passed on.
func (r *templateReader) reference(object []byte, at string) bool {
	var ref reference
	var key, pointerText string
	var value, pointerValue []byte
	others := 0
	for quoted, member := range members(object) {
		name := unquote(quoted)
		switch kind, ok := refNames[name]; {
		case ok && ref.kind == 0:
			ref.kind, key, value = kind, name, member
		case name == "pointer" && pointerValue == nil:
			pointerValue = member
		default:
			others++
		}
	}
	switch {
	case ref.kind == 0:
		return false
	case others > 0, ref.kind != refFrom && pointerValue != nil:
		beside := "nothing else"
		if ref.kind == refFrom {
			beside = "nothing but pointer besides"
		}
		r.fault(at, fmt.Sprintf("has %s, which makes it a reference, and must have %s", key, beside), nil)
		return true
	case !slices.Contains(r.allowed, ref.kind):
		r.fault(at+"/"+key, notAllowed(ref.kind, r.allowed), nil)
		return true
	}
	if pointerValue != nil {
		if pointerText = r.string(pointerValue, at+"/pointer"); pointerText != "" {
			ref.at = r.pointer(pointerText, at+"/pointer")
		}
	}
	r.readKey(&ref, value, at+"/"+key)
	r.out.parts = append(r.out.parts, part{before: slices.Clone(r.text), ref: ref})
	r.text = r.text[:0]
	return true
}

// readKey reads the value of the member that makes an object a reference.
func (r *templateReader) readKey(ref *reference, value []byte, at string) {
	switch ref.kind {
	case refIndex:
		if string(value) != "true" {
			r.fault(at, "must be true", nil)
		}
	case refRun:
		if name := r.string(value, at); name != "" || string(value) == `""` {
			if ref.at, _ = parsePointer(name); !slices.Contains(runFacts, name) {
				r.fault(at, `must be "/id" or "/nominal_at"`, short(name))
			}
		}
	case refFrom:
		if name := r.string(value, at); name != "" || string(value) == `""` {
			step, what := r.step(name)
			if what != "" {
				r.fault(at, what, short(name))
			}
			ref.step = step
		}
	default:
		ref.at = r.pointer(r.string(value, at), at)
	}
}

func (r *templateReader) string(value []byte, at string) string {
	if value[0] != '"' {
		r.fault(at, "must be a string", nil)
		return ""
	}
	return unquote(value)
}

func (r *templateReader) pointer(text, at string) pointer {
	p, what := parsePointer(text)
	if what != "" {
		r.fault(at, what, short(text))
	}
	return p
}

// notAllowed says why a reference of that kind cannot be used where only those are allowed.
func notAllowed(kind refKind, allowed []refKind) string {
	if len(allowed) > 1 && (kind == refItem || kind == refIndex) {
		return "goes with for_each alone"
	}
	return "cannot be used here: the payload of a run may refer to $run alone"
}

// filler replaces the references of a template.
type filler struct {
	template  *template
	constants [][]byte // the values of references that are the same for each item
	perItem   bool
}

// fillerOf looks up what is the same for each item.
func fillerOf(t *template, value func(*reference) ([]byte, error)) (*filler, error) {
	f := &filler{template: t, constants: make([][]byte, len(t.parts)), perItem: t.perItem()}
	for i := range t.parts {
		ref := &t.parts[i].ref
		if ref.perItem() {
			continue
		}
		v, err := value(ref)
		if err != nil {
			return nil, err
		}
		f.constants[i] = appendCompact(nil, v)
	}
	return f, nil
}

// fill returns the payload of an item. Its error says what is wrong with it.
func (f *filler) fill(item []byte, index int) (json.RawMessage, error) {
	size := len(f.template.tail)
	for i := range f.template.parts {
		size += len(f.template.parts[i].before) + len(f.constants[i])
	}
	if size > schema.MaxPayload {
		return nil, tooLarge(size)
	}
	to := make([]byte, 0, size+min(len(item), 256)+8)
	for i := range f.template.parts {
		p := &f.template.parts[i]
		to = append(to, p.before...)
		switch p.ref.kind {
		case refItem:
			v, missing := find(item, p.ref.at)
			if missing != "" {
				return nil, failuref("payload: item %d %s", index, missing)
			}
			to = appendCompact(to, v)
		case refIndex:
			to = strconv.AppendInt(to, int64(index), 10)
		default:
			to = append(to, f.constants[i]...)
		}
	}
	if to = append(to, f.template.tail...); len(to) > schema.MaxPayload {
		return nil, tooLarge(len(to))
	}
	return to, nil
}

func tooLarge(n int) error {
	return failuref("payload: is %d bytes of JSON, and may be at most %d", n, schema.MaxPayload)
}
