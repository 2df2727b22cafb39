package workflow

import (
	"bytes"
	"strconv"

	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// valueOf returns a JSON value as CEL sees it. A number without fraction and exponent that fits 64
// bits is an int, any other a double.
func valueOf(text []byte) ref.Val {
	switch text[0] {
	case '{':
		o := make(map[string]any)
		var names []string
		for quoted, member := range members(text) {
			name := unquote(quoted)
			if _, twice := o[name]; !twice {
				names = append(names, name)
			}
			o[name] = valueOf(member)
		}
		return &object{types.NewStringInterfaceMap(types.DefaultTypeAdapter, o), names}
	case '[':
		var list []ref.Val
		for element := range elements(text) {
			list = append(list, valueOf(element))
		}
		return types.NewRefValList(types.DefaultTypeAdapter, list)
	case '"':
		return types.String(unquote(text))
	case 't', 'f':
		return types.Bool(text[0] == 't')
	case 'n':
		return types.NullValue
	}
	if !bytes.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return types.Int(n)
		}
	}
	f, _ := strconv.ParseFloat(string(text), 64) // beyond its range it is infinite
	return types.Double(f)
}

// object is a map whose members keep the order of their text: a loop over a Go map would give
// another result each time.
type object struct {
	traits.Mapper
	names []string
}

// Iterator returns the names, in the order of the text.
func (o *object) Iterator() traits.Iterator {
	return types.NewStringList(types.DefaultTypeAdapter, o.names).Iterator()
}

// compared is the function under which the meter sees comparisons, with their cost as argument.
const compared = "@compared"

// boundComparison replaces ==, != and in by what costs at most limit units. Those of CEL compare
// whole values before anybody counts what it costs, and [a, a] within [a, a] within … doubles at
// each level.
func boundComparison(limit int) interpreter.InterpretableDecoratorV2 {
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		call, ok := i.(interpreter.InterpretableCall)
		if !ok {
			return i, nil
		}
		switch call.Function() {
		case operators.Equals, operators.NotEquals, operators.In:
			return &comparison{limit: limit, id: i.ID(), function: call.Function(), left: call.Args()[0], right: call.Args()[1]}, nil
		}
		return i, nil
	}
}

// comparison is ==, != or in.
type comparison struct {
	limit       int
	id          int64
	function    string
	left, right interpreter.InterpretableV2
}

func (c *comparison) ID() int64 { return c.id }

func (c *comparison) Eval(a interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(a, c.Exec)
}

func (c *comparison) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	left := c.left.Exec(frame)
	if types.IsUnknownOrError(left) {
		return left
	}
	right := c.right.Exec(frame)
	if types.IsUnknownOrError(right) {
		return right
	}
	b := budget{left: c.limit}
	var result ref.Val
	switch c.function {
	case operators.Equals:
		result = types.Bool(b.equal(left, right))
	case operators.NotEquals:
		result = types.Bool(!b.equal(left, right))
	default:
		result = b.in(left, right)
	}
	if costs := frame.CostTracker(); costs != nil {
		spent := types.Int(1 + c.limit - b.left)
		costs.EvalUnary(frame, c.id, comparisonCost{}, spent, result)
	}
	return result
}

// comparisonCost is how a comparison is told to the meter.
type comparisonCost struct{}

func (comparisonCost) Function() string   { return compared }
func (comparisonCost) OverloadID() string { return compared }

// budget bounds a comparison: each two values that are compared take a unit. When it is used up,
// the result is of no use: the cost is beyond the limit.
type budget struct{ left int }

// equal reports whether two values are equal, as CEL says.
func (b *budget) equal(x, y ref.Val) bool {
	if b.left--; b.left < 0 {
		return false
	}
	switch x := x.(type) {
	case traits.Lister:
		y, ok := y.(traits.Lister)
		return ok && x.Size() == y.Size() && b.equalLists(x, y)
	case traits.Mapper:
		y, ok := y.(traits.Mapper)
		return ok && x.Size() == y.Size() && b.equalMaps(x, y)
	case types.String:
		b.left -= len(x) / 10
	case types.Bytes:
		b.left -= len(x) / 10
	}
	return types.Equal(x, y) == types.True
}

func (b *budget) equalLists(x, y traits.Lister) bool {
	for i, n := types.Int(0), x.Size().(types.Int); i < n; i++ {
		if !b.equal(x.Get(i), y.Get(i)) {
			return false
		}
	}
	return true
}

func (b *budget) equalMaps(x, y traits.Mapper) bool {
	for i := x.Iterator(); i.HasNext() == types.True; {
		name := i.Next()
		other, ok := y.Find(name)
		if !ok || !b.equal(x.Get(name), other) {
			return false
		}
	}
	return true
}

// in reports whether a list has an element, or a map a member of that name.
func (b *budget) in(x, container ref.Val) ref.Val {
	switch c := container.(type) {
	case traits.Lister:
		for i, n := types.Int(0), c.Size().(types.Int); i < n; i++ {
			if b.equal(x, c.Get(i)) {
				return types.True
			}
		}
		return types.False
	case traits.Mapper:
		_, found := c.Find(x)
		return types.Bool(found)
	}
	return types.NewErr("no such overload")
}
