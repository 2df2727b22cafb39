package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/pod-security-admission/policy"
)

// Who refuses an object.
const (
	server   = "server"
	schemas  = "schema"
	security = "security"
	names    = "names"
)

// A finding is why an object is refused.
type finding struct {
	by, object, why string
}

func (f finding) String() string {
	return fmt.Sprintf("%s (%s): %s", f.object, f.by, strings.ReplaceAll(f.why, "\n", " "))
}

// A checker knows how each object is checked.
type checker struct {
	definitions map[schema.GroupVersionKind]definition
	pods        policy.Evaluator
}

func newChecker(paths []string) (*checker, error) {
	c := &checker{definitions: make(map[schema.GroupVersionKind]definition)}
	for _, path := range paths {
		found, err := files(path)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if err := c.define(f); err != nil {
				return nil, fmt.Errorf("%s: %w", f, err)
			}
		}
	}
	var err error
	c.pods, err = policy.NewEvaluator(policy.DefaultChecks(), nil)
	return c, err
}

// check returns why objects are refused. They are all that is in a cluster.
func (c *checker) check(objects []unstructured.Unstructured) []finding {
	var findings []finding
	refuse := func(by string, o *unstructured.Unstructured, err error) {
		if err != nil {
			findings = append(findings, finding{by, o.GetKind() + "/" + o.GetName(), err.Error()})
		}
	}
	levels := levelsOf(objects)
	for i := range objects {
		o := &objects[i]
		if d, ok := c.definitions[o.GroupVersionKind()]; ok {
			refuse(schemas, o, d.check(runtime.DeepCopyJSON(o.Object)))
			continue
		}
		if err := checkAsServer(o); err != nil {
			refuse(server, o, err)
			continue
		}
		refuse(security, o, c.checkPods(o, levels))
	}
	if len(findings) > 0 { // names in objects that cannot be read mean nothing
		return findings
	}
	return checkNames(objects)
}
