package payload

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// The work that checking one payload may take, in units of about half a microsecond: workFree, and
// workPerValue and workPerByte for each value and byte in it.
const (
	workFree     = 50_000
	workPerValue = 16
	workPerByte  = 2
)

// What a unit of work is besides a schema that is held against a value.
const (
	bytesAUnit   = 256 // bytes of a string that are counted
	valuesAUnit  = 4   // members or items that are listed
	patternAUnit = 64  // bytes that are matched times instructions
)

// meter counts the work of checking one payload. It is asked by the compiled schema: by its
// patterns, and by a format that each subschema was given, which the library asks before it looks
// into a value any further. What one subschema leads to is taken before that is done, so nothing
// goes uncounted where the library gives up early.
type meter struct {
	patterns map[string]*pattern // by their text …
	program  int                 // … and the instructions of all of them

	left int
	size int // values in the payload
	root int // the weight of the whole schema at its root
}

// begin begins with a payload of so many values and bytes.
func (m *meter) begin(size, bytes int) {
	m.size = size
	m.left = workFree + workPerValue*size + workPerByte*bytes - m.root
}

func (m *meter) spent() bool { return m.left < 0 }

var errSpent = errors.New("too much work")

// take takes n units, and reports whether they were left. From the first refusal on nothing is.
func (m *meter) take(n int) bool {
	if m.left >= 0 {
		m.left -= n
	}
	return m.left >= 0
}

// install has every one of the schemas ask the meter; the first is the root.
func (m *meter) install(all []*jsonschema.Schema) {
	m.root = weight(all[0])
	listing := slices.ContainsFunc(all, func(s *jsonschema.Schema) bool { return s.UnevaluatedItems != nil || s.UnevaluatedProperties != nil })
	for _, s := range all {
		t := tollOf(s)
		t.listing = listing
		s.Format = &jsonschema.Format{Validate: func(v any) error {
			if !m.take(t.of(v, m.size)) {
				return errSpent
			}
			return nil
		}}
		if s.PropertyNames != nil {
			s.Extensions, s.PropertyNames = append(s.Extensions, memberNames{s.PropertyNames}), nil
		}
	}
}

// memberNames does what propertyNames asks for. The library (v6.0.3) does it too, but says of the
// place no more than a slice that it goes on to use for others.
type memberNames struct{ schema *jsonschema.Schema }

// Validate implements jsonschema.SchemaExt.
func (m memberNames) Validate(ctx *jsonschema.ValidatorContext, v any) {
	object, _ := v.(map[string]any)
	for name := range object {
		var found *jsonschema.ValidationError
		if errors.As(m.schema.Validate(name), &found) {
			ctx.AddErrors([]*jsonschema.ValidationError{found}, &kind.PropertyNames{Property: name})
		}
	}
}

// weight is the work of holding one schema against a value, without what that leads to.
func weight(s *jsonschema.Schema) int {
	if s == nil {
		return 0
	}
	n := 1 + len(s.Required)
	for _, names := range s.DependentRequired {
		n += len(names) + 1
	}
	if s.Const != nil {
		n += values(*s.Const)
	}
	if s.Enum != nil {
		n += values(s.Enum.Values)
	}
	return n
}

// values counts the values in v.
func values(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, of := range v {
			n += values(of)
		}
	case []any:
		for _, of := range v {
			n += values(of)
		}
	}
	return n
}

// toll is the work that a schema leads to, by what it is held against.
type toll struct {
	inPlace int // for any value
	// each schema in place lists all members and items: the whole schema asks for what was not
	// evaluated
	listing    bool
	member     int            // for each member of an object …
	properties map[string]int // … and for some besides
	item       int            // for each item of an array …
	prefix     int            // … and for the first ones together
	unique     bool           // all items are compared
}

func tollOf(s *jsonschema.Schema) *toll {
	sum := func(all []*jsonschema.Schema) (n int) {
		for _, of := range all {
			n += weight(of)
		}
		return n
	}
	inPlace, members, items := children(s)
	t := &toll{inPlace: sum(inPlace), member: sum(members), item: sum(items), prefix: sum(s.PrefixItems), unique: s.UniqueItems}
	if len(s.Properties) > 0 {
		t.properties = make(map[string]int, len(s.Properties))
		for name, of := range s.Properties {
			t.properties[name] = weight(of)
		}
	}
	return t
}

// of returns the work that the value v leads to, in a payload of so many values.
func (t *toll) of(v any, size int) int {
	n := t.inPlace
	switch v := v.(type) {
	case string:
		n += len(v) / bytesAUnit
	case []any:
		n += t.listed(len(v)) + len(v)*t.item + t.prefix
		if t.unique {
			n += 2 * size // each is hashed, and compared with those of its hash
		}
	case map[string]any:
		n += t.listed(len(v)) + len(v)*t.member
		if t.properties != nil {
			for name := range v {
				n += t.properties[name]
			}
		}
	}
	return n
}

// listed returns the work of listing so many members or items.
func (t *toll) listed(n int) int {
	if t.listing {
		n *= 1 + t.inPlace
	}
	return n / valuesAUnit
}

// pattern is a regular expression that counts its work. Once there is none left it matches nothing.
type pattern struct {
	*regexp.Regexp
	meter *meter
	steps int // instructions
}

// MatchString implements jsonschema.Regexp.
func (p *pattern) MatchString(s string) bool {
	return p.meter.take(1+len(s)*p.steps/patternAUnit) && p.Regexp.MatchString(s)
}

// compile compiles a pattern of the schema. It is asked twice for each: whether it is one, and for
// use.
func (m *meter) compile(text string) (jsonschema.Regexp, error) {
	if p := m.patterns[text]; p != nil {
		return p, nil
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	n := instructions(tree)
	if m.program+n > maxProgram {
		return nil, fmt.Errorf("the patterns of a schema may have %d instructions together", maxProgram)
	}
	m.program += n
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	p := &pattern{re, m, n}
	m.patterns[text] = p
	return p, nil
}

// instructions returns about how many instructions the program of a regular expression has: without
// making it, for a repeated repetition is a long one.
func instructions(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		n += len(re.Rune)
	case syntax.OpRepeat:
		n *= max(re.Min, re.Max, 1)
	default:
		n++
	}
	return n
}

// reason returns why a pattern is none.
func reason(err error) string {
	var bad *syntax.Error
	if errors.As(err, &bad) {
		return fmt.Sprintf("%s: %s", bad.Code, short(bad.Expr))
	}
	return err.Error()
}
