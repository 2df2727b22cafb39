package workflow

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// Bounds of an expression. A unit of cost takes about 0.1 µs to 0.3 µs.
const (
	maxExpression  = 2000 // bytes
	maxExprNesting = 32   // levels
	maxLoops       = 8    // all, exists, exists_one, filter and map
	maxLists       = 8    // lists that are written within one another
	maxPattern     = 200  // instructions of a regular expression
	maxExprFaults  = 5    // that are told of one expression
	conditionCost  = 1_000_000
	filterCost     = 100_000 // of an event, which may have ten thousand of them
	// typicalSize is how many elements a list of data is taken to have when the cost of loops is
	// estimated: at 100, two loops within one another pass and three do not.
	typicalSize = 100
)

// stepType is the type of steps.NAME.
const stepType = "carillon.Step"

var (
	// conditionEnv is what an if may use.
	conditionEnv = sync.OnceValue(func() *cel.Env {
		return newEnv(cel.Variable("input", cel.DynType), cel.Variable("steps", cel.MapType(cel.StringType, cel.ObjectType(stepType))))
	})
	// filterEnv is what the filter of an event may use.
	filterEnv = sync.OnceValue(func() *cel.Env {
		return newEnv(cel.Variable("input", cel.DynType), cel.Variable("event", cel.DynType))
	})
)

// newEnv returns CEL's standard library over variables.
func newEnv(variables ...cel.EnvOption) *cel.Env {
	registry, err := types.NewRegistry()
	if err != nil {
		panic(err) // nothing of a request is in it
	}
	options := []cel.EnvOption{
		cel.CustomTypeProvider(&stepProvider{registry}),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(maxExprNesting),
		cel.RegexProgramSizeLimit(maxPattern),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
	}
	e, err := cel.NewEnv(append(options, variables...)...)
	if err != nil {
		panic(err)
	}
	return e
}

// checked is an expression that may be evaluated, at a cost of at most limit.
type checked struct {
	program    cel.Program
	limit      int
	tree       *ast.AST
	readsInput bool
}

// compileExpression returns an expression that is true or false, or what is wrong with it.
func compileExpression(e *cel.Env, text string, limit int) (*checked, []string) {
	if len(text) > maxExpression {
		return nil, []string{fmt.Sprintf("must be at most %d bytes long", maxExpression)}
	}
	parsed, issues := e.Parse(text)
	if issues.Err() != nil {
		return nil, issueFaults(issues)
	}
	shape := shapeOf(parsed.NativeRep())
	if len(shape.faults) > 0 {
		return nil, shape.faults
	}
	tree, issues := e.Check(parsed)
	if issues.Err() != nil {
		return nil, issueFaults(issues)
	}
	if out := tree.OutputType(); !out.IsExactType(types.BoolType) && !out.IsExactType(types.DynType) {
		return nil, []string{fmt.Sprintf("must be true or false, not of type %s", cel.FormatCELType(out))}
	}
	if shape.loops > 0 {
		estimate, err := e.EstimateCost(tree, sizes{})
		switch {
		case err != nil:
			return nil, []string{"cannot be bounded: " + err.Error()}
		case estimate.Max > uint64(limit): // #nosec G115
			return nil, []string{fmt.Sprintf("may cost too much: with lists of %d elements more than %d units", typicalSize, limit)}
		}
	}
	program, err := e.Program(tree,
		cel.CostTracking(meter{}), cel.CostLimit(uint64(limit)),
		cel.OptimizeRegex(interpreter.MatchesRegexOptimization),
		cel.CustomDecoratorV2(boundComparison(limit))) // #nosec G115
	if err != nil {
		return nil, []string{"cannot be planned: " + err.Error()}
	}
	return &checked{program: program, limit: limit, tree: tree.NativeRep(), readsInput: shape.readsInput}, nil
}

// shape is what a parsed expression consists of.
type shape struct {
	loops      int
	readsInput bool
	faults     []string
}

// shapeOf looks for what is refused before types are checked, which takes time that grows with the
// cube of the nesting.
func shapeOf(tree *ast.AST) shape {
	var s shape
	note := func(fault string) {
		if len(s.faults) < maxExprFaults {
			s.faults = append(s.faults, fault)
		}
	}
	ast.PreOrderVisit(ast.NavigateAST(tree), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ComprehensionKind:
			s.loops++
		case ast.IdentKind:
			s.readsInput = s.readsInput || e.AsIdent() == "input"
		case ast.ListKind:
			if lists := listsAround(e); lists == maxLists {
				note(fmt.Sprintf("must not nest lists deeper than %d levels", maxLists))
			}
		case ast.MapKind, ast.StructKind:
			note("must not write a map or a message: their members have no order")
		case ast.CallKind:
			call := e.AsCall()
			args := call.Args()
			switch name := call.FunctionName(); {
			case len(args) == 0:
			case name == "matches" && args[len(args)-1].Kind() != ast.LiteralKind:
				note("must state the pattern of matches as a string")
			case call.IsMemberFunction() && strings.HasPrefix(name, "get"):
				note("must not name a time zone, whose rules depend on the machine: instants are read in UTC")
			}
		}
	}))
	if s.loops > maxLoops {
		note(fmt.Sprintf("must not have more than %d loops (all, exists, exists_one, filter, map)", maxLoops))
	}
	return s
}

// listsAround returns how many lists are written around an expression.
func listsAround(e ast.Expr) int {
	n := 0
	for at, ok := e.(ast.NavigableExpr).Parent(); ok; at, ok = at.Parent() {
		if at.Kind() == ast.ListKind {
			n++
		}
	}
	return n
}

// issueFaults returns what CEL found wrong, with the place within the expression.
func issueFaults(issues *cel.Issues) []string {
	var faults []string
	for _, e := range issues.Errors() {
		if len(faults) == maxExprFaults {
			break
		}
		message, _, _ := strings.Cut(e.Message, "\n")
		message = strings.ReplaceAll(message, " (in container '')", "")
		switch at := e.Location; {
		case at.Line() < 1:
			faults = append(faults, "is not understood: "+short(message))
		case at.Line() == 1:
			faults = append(faults, fmt.Sprintf("is not understood at column %d: %s", at.Column()+1, short(message)))
		default:
			faults = append(faults, fmt.Sprintf("is not understood at line %d, column %d: %s", at.Line(), at.Column()+1, short(message)))
		}
	}
	return faults
}

// evaluate returns whether an expression holds, or in words why that cannot be said.
func (c *checked) evaluate(variables map[string]any) (holds bool, why string) {
	out, _, err := c.program.Eval(variables)
	var cancelled interpreter.EvalCancelledError
	switch {
	case errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded:
		return false, fmt.Sprintf("costs more than %d units to evaluate", c.limit)
	case err != nil:
		return false, short(err.Error())
	}
	b, ok := out.(types.Bool)
	if !ok {
		return false, fmt.Sprintf("is of type %s, not true or false", out.Type().TypeName())
	}
	return bool(b), ""
}

// sizes are how large data is taken to be when costs are estimated.
type sizes struct{}

func (sizes) EstimateSize(n cost.AstNode) *cost.SizeEstimate {
	if len(n.Path()) == 0 {
		return nil // no data
	}
	return &cost.SizeEstimate{Min: 0, Max: typicalSize}
}

func (sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// meter says what calls cost. CEL has a price of its own only where types are known before the
// evaluation, and those of data are not.
type meter struct{}

func (meter) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	n := uint64(1)
	switch function {
	case compared:
		n = uint64(args[0].(types.Int)) // #nosec G115 -- a count
	case "matches":
		n += 4 * uint64(length(args[0])) // #nosec G115
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.NotStrictlyFalse, operators.Conditional:
	default:
		total := length(result)
		for _, a := range args {
			total += length(a)
		}
		n += uint64(total / 10) // #nosec G115
	}
	return &n
}

// length returns the bytes of a string, 0 for other values.
func length(v ref.Val) int {
	switch v := v.(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	}
	return 0
}
