package payload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of a schema.
const (
	MaxSchema  = 16 << 10 // bytes of its text
	maxNodes   = 1000     // values in it: every member and element counts
	maxDepth   = 32       // levels of objects and arrays
	maxProgram = 2000     // instructions of its patterns together
)

// dialect is what $schema may say, and dialectYear what the library calls it.
const (
	dialect     = "https://json-schema.org/draft/2020-12/schema"
	dialectYear = 2020
)

// base is the address under which a schema is known to itself, unless it states an $id. Nothing is
// read from it.
const base = "carillon://task/payload_schema"

// Schema is a compiled JSON Schema. It is safe for concurrent use; payloads are held to one and the
// same Schema one after the other.
type Schema struct {
	nodes int

	mu       sync.Mutex
	compiled *jsonschema.Schema
	meter    *meter
}

// Compile compiles a schema, which must be valid JSON without doubled names. The error is Faults,
// located in the schema.
func Compile(text []byte) (s *Schema, err error) {
	defer func() {
		if v := recover(); v != nil { // the library's
			s, err = nil, Faults{{Message: "cannot be understood"}}
		}
	}()
	if len(text) > MaxSchema {
		return nil, Faults{{Message: fmt.Sprintf("has %d bytes, may have %d", len(text), MaxSchema)}}
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, Faults{{Message: "is not JSON"}}
	}
	root, ok := doc.(map[string]any)
	if !ok {
		return nil, Faults{{Message: "must be an object"}}
	}
	nodes, faults := survey(doc, maxDepth)
	if nodes > maxNodes {
		faults = append(faults, Fault{Message: fmt.Sprintf("has %d values, may have %d", nodes, maxNodes)})
	}
	if stated, ok := root["$schema"]; ok && stated != dialect && stated != dialect+"#" {
		faults = append(faults, Fault{"/$schema", "must be " + dialect + ": other dialects are not known here"})
	}
	if len(faults) > 0 {
		return nil, faults
	}

	m := &meter{patterns: make(map[string]*pattern)}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(refusal{})
	c.UseRegexpEngine(m.compile)
	if err := c.AddResource(base, doc); err != nil {
		return nil, Faults{{Message: "cannot be understood"}}
	}
	compiled, err := c.Compile(base)
	if err != nil {
		return nil, compileFaults(err)
	}
	all := reachable(compiled)
	if faults := foreign(all); len(faults) > 0 {
		return nil, faults
	}
	m.install(all)
	return &Schema{nodes: nodes, compiled: compiled, meter: m}, nil
}

// refusal loads nothing.
type refusal struct{}

var errOutside = errors.New("outside of the schema")

// Load implements jsonschema.URLLoader.
func (refusal) Load(string) (any, error) { return nil, errOutside }

// compileFaults says what a compiler's error means.
func compileFaults(err error) Faults {
	var (
		invalid *jsonschema.SchemaValidationError
		found   *jsonschema.ValidationError
		outside *jsonschema.LoadURLError
		missing *jsonschema.JSONPointerNotFoundError
		anchor  *jsonschema.AnchorNotFoundError
	)
	switch {
	case errors.As(err, &invalid) && errors.As(invalid.Err, &found):
		return faultsOf(found)
	case errors.As(err, &outside):
		return Faults{{Message: fmt.Sprintf("refers to %s, which lies outside of it: nothing is fetched", short(outside.URL))}}
	case errors.As(err, &missing):
		return Faults{{Message: fmt.Sprintf("refers to #%s, which it does not have", short(fragment(missing.URL)))}}
	case errors.As(err, &anchor):
		return Faults{{Message: fmt.Sprintf("refers to #%s, which it does not have", short(fragment(anchor.Reference)))}}
	}
	return Faults{{Message: "cannot be understood: " + short(strings.ReplaceAll(err.Error(), base, ""))}}
}

// fragment returns what stands behind the # of an address.
func fragment(address string) string {
	_, after, _ := strings.Cut(address, "#")
	if plain, err := url.PathUnescape(after); err == nil {
		return plain
	}
	return after
}

// reachable returns a schema and every one that it may apply, each once.
func reachable(from *jsonschema.Schema) (all []*jsonschema.Schema) {
	known := make(map[*jsonschema.Schema]bool)
	open := []*jsonschema.Schema{from}
	for len(open) > 0 {
		s := open[len(open)-1]
		open = open[:len(open)-1]
		if s == nil || known[s] {
			continue
		}
		known[s] = true
		all = append(all, s)
		inPlace, members, items := children(s)
		open = slices.Concat(open, inPlace, members, items, s.PrefixItems)
		for _, of := range s.Properties {
			open = append(open, of)
		}
		open = append(open, s.ContentSchema)
		if s.DynamicRef != nil {
			open = append(open, s.DynamicRef.Ref)
		}
	}
	return all
}

// children returns the schemas that s applies to the value itself, to each member of an object, and
// to each item of an array; but for s.Properties and s.PrefixItems. Some may be nil.
func children(s *jsonschema.Schema) (inPlace, members, items []*jsonschema.Schema) {
	inPlace = slices.Concat([]*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}, s.AllOf, s.AnyOf, s.OneOf)
	for _, of := range s.DependentSchemas {
		inPlace = append(inPlace, of)
	}
	for _, of := range s.Dependencies { // a keyword of older drafts, which 2020-12 still reads
		if of, ok := of.(*jsonschema.Schema); ok {
			inPlace = append(inPlace, of)
		}
	}
	members = append(members, s.PropertyNames, s.UnevaluatedProperties)
	for _, of := range s.PatternProperties {
		members = append(members, of)
	}
	if of, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		members = append(members, of)
	}
	return inPlace, members, append(items, s.Items2020, s.Contains, s.UnevaluatedItems)
}

// foreign finds fault with what is not of the dialect, or does not belong to the schema.
func foreign(all []*jsonschema.Schema) (faults Faults) {
	for _, s := range all {
		switch at := fragment(s.Location); {
		case !strings.HasPrefix(s.Location, base+"#"):
			return Faults{{Message: fmt.Sprintf("refers to %s, which lies outside of it", short(s.Location))}}
		case s.DraftVersion != dialectYear:
			faults = append(faults, Fault{at, "must be of the dialect " + dialect})
		case s.DynamicRef != nil || s.RecursiveRef != nil:
			faults = append(faults, Fault{at, "must not use $dynamicRef"})
		}
	}
	return faults.sorted()
}

// Check holds a payload, which must be valid JSON, to the schema; none counts as null. The error is
// Faults, located in the payload.
func (s *Schema) Check(payload []byte) (err error) {
	if payload == nil {
		payload = []byte("null")
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(payload))
	if err != nil {
		return Faults{{Message: "is not JSON"}}
	}
	size, faults := survey(v, noDepth)
	if len(faults) > 0 {
		return faults
	}
	defer func() {
		if v := recover(); v != nil { // the library's
			err = Faults{{Message: "cannot be checked"}}
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meter.begin(size, len(payload))
	found := s.compiled.Validate(v)
	if s.meter.spent() {
		return Faults{{Message: "takes too much work to check: the schema looks at too much of it too often"}}
	}
	var invalid *jsonschema.ValidationError
	if errors.As(found, &invalid) {
		return faultsOf(invalid)
	}
	return found
}

// Bounds of numbers, in a schema or in a payload that is held to one.
const (
	maxDigits   = 400 // characters
	maxExponent = 400
)

// noDepth is the bound of the nesting of what was bounded before.
const noDepth = 1000

// survey counts the values in v, itself among them, and finds fault with what is nested deeper than
// depth and with numbers that are too large to calculate with.
func survey(v any, depth int) (nodes int, faults Faults) {
	var path []string
	var walk func(v any)
	walk = func(v any) {
		nodes++
		if len(path) > depth {
			faults = append(faults, Fault{pointer(path), fmt.Sprintf("is nested deeper than %d levels", depth)})
			return
		}
		if len(faults) >= maxFaults {
			return
		}
		at := len(path)
		switch v := v.(type) {
		case map[string]any:
			for name, of := range v {
				path = append(path[:at], name)
				walk(of)
			}
		case []any:
			for i, of := range v {
				path = append(path[:at], fmt.Sprint(i))
				walk(of)
			}
		case json.Number:
			if !calculable(string(v)) {
				faults = append(faults, Fault{pointer(path), fmt.Sprintf("is a number of more than %d characters, or with an exponent beyond %d", maxDigits, maxExponent)})
			}
		}
		path = path[:at]
	}
	walk(v)
	return nodes, faults.sorted()
}

// calculable reports whether a JSON number is one of those that are calculated with.
func calculable(number string) bool {
	if len(number) > maxDigits {
		return false
	}
	at := strings.IndexAny(number, "eE")
	if at < 0 {
		return true
	}
	exponent := 0
	for _, c := range strings.TrimLeft(number[at+1:], "+-") {
		if exponent = exponent*10 + int(c-'0'); exponent > maxExponent {
			return false
		}
	}
	return true
}
