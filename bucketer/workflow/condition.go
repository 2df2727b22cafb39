package workflow

import (
	"fmt"
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// condition is the if of a step.
type condition struct {
	*checked
	steps   map[string]int // those that it mentions
	outputs []int          // those whose output it reads
}

// compileCondition returns an if. step finds a step, or says why it cannot be referred to.
func compileCondition(text string, step func(name string) (int, string)) (*condition, []string) {
	e, faults := compileExpression(conditionEnv(), text, conditionCost)
	if len(faults) > 0 {
		return nil, faults
	}
	c := &condition{checked: e, steps: make(map[string]int)}
	for _, use := range usesOfSteps(e.tree) {
		if use.name == "" {
			faults = append(faults, `must use steps as steps.NAME.output and steps.NAME.state, or steps["NAME"].output`)
			break
		}
		i, what := step(use.name)
		if what != "" {
			faults = append(faults, fmt.Sprintf("refers to step %q, which %s", short(use.name), what))
			continue
		}
		c.steps[use.name] = i
		if use.field == "output" && !slices.Contains(c.outputs, i) {
			c.outputs = append(c.outputs, i)
		}
	}
	return c, slices.Compact(faults)
}

// use is a place where an expression mentions steps.
type use struct{ name, field string } // no name: it is no mention of one step

// usesOfSteps returns the places where an expression mentions steps. The steps that it depends on
// must be known before it is evaluated, so only constant names are taken.
func usesOfSteps(tree *ast.AST) []use {
	var uses []use
	ast.PreOrderVisit(ast.NavigateAST(tree), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.IdentKind || e.AsIdent() != "steps" {
			return
		}
		var u use
		if one, ok := e.(ast.NavigableExpr).Parent(); ok {
			switch one.Kind() {
			case ast.SelectKind:
				u.name = one.AsSelect().FieldName()
			case ast.CallKind:
				call := one.AsCall()
				if args := call.Args(); call.FunctionName() == operators.Index && args[0].ID() == e.ID() && args[1].Kind() == ast.LiteralKind {
					name, _ := args[1].AsLiteral().(types.String)
					u.name = string(name)
				}
			}
			if field, ok := one.Parent(); ok && field.Kind() == ast.SelectKind {
				u.field = field.AsSelect().FieldName()
			} else {
				u.name = ""
			}
		}
		uses = append(uses, u)
	}))
	return uses
}

// stepProvider knows the type of steps.NAME, which has output and state.
type stepProvider struct{ *types.Registry }

var stepFields = map[string]*types.FieldType{
	"output": {
		Type: types.DynType,
		IsSet: func(step any) bool {
			v, err := step.(*stepView).output()
			return err == nil && v != types.NullValue
		},
		GetFrom: func(step any) (any, error) { return step.(*stepView).output() },
	},
	"state": {
		Type:    types.StringType,
		IsSet:   func(step any) bool { return step.(*stepView).state() != "" },
		GetFrom: func(step any) (any, error) { return step.(*stepView).state(), nil },
	},
}

func (p *stepProvider) FindStructType(name string) (*types.Type, bool) {
	if name == stepType {
		return types.NewTypeTypeWithParam(types.NewObjectType(stepType)), true
	}
	return p.Registry.FindStructType(name)
}

func (p *stepProvider) FindStructFieldNames(name string) ([]string, bool) {
	if name == stepType {
		return []string{"output", "state"}, true
	}
	return p.Registry.FindStructFieldNames(name)
}

func (p *stepProvider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if name == stepType {
		f, ok := stepFields[field]
		return f, ok
	}
	return p.Registry.FindStructFieldType(name, field)
}

// stepView is a step as an expression sees it.
type stepView struct {
	e    *evaluation
	step int
}

func (v *stepView) output() (any, error) {
	o := v.e.output(v.step)
	if o.err != nil {
		return nil, o.err
	}
	if o.value == nil {
		o.value = valueOf(o.text)
	}
	return o.value, nil
}

func (v *stepView) state() string {
	if v.e.in.State == nil {
		return ""
	}
	return v.e.in.State(v.step)
}

// holds evaluates the if of a step.
func (e *evaluation) holds(c *condition) (bool, error) {
	variables := map[string]any{"input": types.NullValue}
	if c.readsInput {
		text, err := e.input()
		if err != nil {
			return false, within("if", err)
		}
		variables["input"] = valueOf(text)
	}
	if len(c.steps) > 0 {
		steps := make(map[string]any, len(c.steps))
		for name, i := range c.steps {
			steps[name] = &stepView{e, i}
		}
		variables["steps"] = steps
	}
	holds, why := c.evaluate(variables)
	switch {
	case e.broken != nil: // it may have been absorbed: true || broken is true
		return false, e.broken
	case why != "":
		return false, failuref("if: %s", why)
	}
	return holds, nil
}
