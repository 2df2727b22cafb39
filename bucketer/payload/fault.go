package payload

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Bounds of how faults are described.
const (
	maxFaults = 64
	maxWords  = 100 // bytes of a text of the schema that is said back
	maxNames  = 10  // names in one message
)

// Fault is one thing that is wrong with a schema, or with a payload that is held to one.
type Fault struct {
	Pointer string // where, as a JSON pointer (RFC 6901): "/items/3/price"; "" = all of it
	Message string // what is wrong, in words that fit behind it
}

// Faults is everything that is wrong, in the order of places; of more than 64 the first.
type Faults []Fault

// Error returns the faults in one line.
func (f Faults) Error() string {
	var b strings.Builder
	for i, fault := range f {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(strings.TrimSpace(fault.Pointer + " " + fault.Message))
	}
	return b.String()
}

// sorted sorts f, leaves out what is there twice, and cuts it. Of none it returns nil.
func (f Faults) sorted() Faults {
	slices.SortFunc(f, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	if f = slices.Compact(f); len(f) > maxFaults {
		f = f[:maxFaults]
	}
	return f
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// pointer returns the JSON pointer of a path.
func pointer(path []string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteByte('/')
		_, _ = escaper.WriteString(&b, short(name)) // a Builder has no errors
	}
	return b.String()
}

// faultsOf returns what a validation has found.
func faultsOf(e *jsonschema.ValidationError) Faults { return leaves(nil, e).sorted() }

// leaves appends the faults at the ends of e: what only gathers others is left out, and of
// alternatives that all fail there is one fault.
func leaves(to Faults, e *jsonschema.ValidationError) Faults {
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		if len(e.Causes) > 0 {
			for _, cause := range e.Causes {
				to = leaves(to, cause)
			}
			return to
		}
	case *kind.PropertyNames:
		f := Fault{pointer(e.InstanceLocation), words(k)}
		for _, cause := range e.Causes {
			for _, why := range leaves(nil, cause) {
				f.Message += ": it " + why.Message
			}
		}
		return append(to, f)
	case *kind.AnyOf:
		return append(to, alternatives(e, "anyOf"))
	case *kind.OneOf:
		if k.Subschemas == nil {
			return append(to, alternatives(e, "oneOf"))
		}
	}
	return append(to, Fault{pointer(e.InstanceLocation), words(e.ErrorKind)})
}

// alternatives says that none of several fits: why, if each has one reason that concerns the value
// itself.
func alternatives(e *jsonschema.ValidationError, keyword string) Fault {
	at := pointer(e.InstanceLocation)
	var reasons []string
	for _, cause := range e.Causes {
		found := leaves(nil, cause)
		if len(found) != 1 || found[0].Pointer != at {
			return Fault{at, "fits none of the alternatives of " + keyword}
		}
		if !slices.Contains(reasons, found[0].Message) {
			reasons = append(reasons, found[0].Message)
		}
	}
	return Fault{at, strings.Join(reasons, ", or ")}
}

// words says what is wrong, without any value of the payload but the names of members.
func words(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("must be %s, is %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Enum:
		return "must be one of " + texts(k.Want)
	case *kind.Const:
		return "must be " + text(k.Want)
	case *kind.Format: // of a schema: in a payload it is an annotation
		if k.Want == "regex" {
			return "is no pattern: " + reason(k.Err)
		}
		return "is no " + k.Want
	case *kind.FalseSchema:
		return "is not allowed here"
	case *kind.Required:
		return "must have " + names(k.Missing)
	case *kind.Dependency:
		return fmt.Sprintf("has %s and so must have %s", short(strconv.Quote(k.Prop)), names(k.Missing))
	case *kind.DependentRequired:
		return fmt.Sprintf("has %s and so must have %s", short(strconv.Quote(k.Prop)), names(k.Missing))
	case *kind.AdditionalProperties:
		return "has " + names(k.Properties) + ", which the schema does not know"
	case *kind.PropertyNames:
		return "has " + names([]string{k.Property}) + ", which is no name for a member"
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d members, has %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d members, has %d", k.Want, k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d items, has %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d items, has %d", k.Want, k.Got)
	case *kind.UniqueItems:
		return fmt.Sprintf("has the same items at %d and %d", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains:
		return "has no item that fits contains"
	case *kind.MinContains:
		return fmt.Sprintf("must have at least %d items that fit contains, has %d", k.Want, len(k.Got))
	case *kind.MaxContains:
		return fmt.Sprintf("must have at most %d items that fit contains, has %d", k.Want, len(k.Got))
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters, has %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters, has %d", k.Want, k.Got)
	case *kind.Pattern:
		return "does not match the pattern " + short(k.Want)
	case *kind.Minimum:
		return "must be at least " + decimal(k.Want)
	case *kind.Maximum:
		return "must be at most " + decimal(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + decimal(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + decimal(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + decimal(k.Want)
	case *kind.Not:
		return "is what the schema excludes by not"
	case *kind.OneOf:
		return fmt.Sprintf("fits more than one of the alternatives of oneOf: %v", k.Subschemas)
	case *kind.RefCycle:
		return "cannot be checked: the schema refers to itself in a circle"
	}
	return "does not fit the schema"
}

// names lists some names.
func names(all []string) string {
	quoted := make([]string, 0, maxNames)
	for _, name := range slices.Sorted(slices.Values(all)) {
		if len(quoted) == maxNames {
			return strings.Join(quoted, ", ") + fmt.Sprintf(" and %d more", len(all)-maxNames)
		}
		quoted = append(quoted, strconv.Quote(short(name)))
	}
	return strings.Join(quoted, ", ")
}

// texts lists values of the schema.
func texts(all []any) string {
	var shown []string
	for _, v := range all {
		if len(shown) == maxNames {
			return strings.Join(shown, ", ") + fmt.Sprintf(" and %d more", len(all)-maxNames)
		}
		shown = append(shown, text(v))
	}
	return strings.Join(shown, ", ")
}

// text returns a value of the schema as JSON, cut.
func text(v any) string {
	t, err := json.Marshal(v)
	if err != nil {
		return "what the schema says"
	}
	return short(string(t))
}

// decimal returns a number as people write it, to the precision of a float64.
func decimal(r *big.Rat) string {
	if r.IsInt() {
		return short(r.RatString())
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// short cuts a text at a character.
func short(s string) string {
	if len(s) <= maxWords {
		return s
	}
	n := maxWords
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
