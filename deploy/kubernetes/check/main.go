// Command check says whether Kubernetes would take what lies in overlays, without a cluster.
//
//	check --crds DIR OVERLAY…    builds each overlay and checks every object
//	check --plant OVERLAY …      plants one fault after the other, and says which are refused
//
// An object is refused by the checker that knows it best:
//
//	server    what an API server does on create: strict decoding, defaults, the rules of the registry
//	schema    custom resources: the schema and the rules of their definition
//	security  pods: the Pod Security level that their namespace enforces
//	names     what a server takes and nothing can work with: names that lead nowhere, selectors that
//	          select nothing
//
// It is a module of its own, so that nothing of Kubernetes is a dependency of the product's. It links
// no more of it than it needs: most registries would bring the whole API server along.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	var definitions []string
	flag.Func("crds", "folder or file of definitions of custom resources; may be repeated", func(path string) error {
		definitions = append(definitions, path)
		return nil
	})
	var plant []string
	flag.Func("plant", "overlay to plant the faults in; may be repeated: they are planted in all of them together", func(path string) error {
		plant = append(plant, path)
		return nil
	})
	flag.Parse()
	if err := run(definitions, plant, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

func run(definitions, plant, overlays []string) error {
	c, err := newChecker(definitions)
	if err != nil {
		return err
	}
	refused, objects := 0, 0
	for _, overlay := range overlays {
		built, err := build(overlay)
		if err != nil {
			return fmt.Errorf("%s: %w", overlay, err)
		}
		findings := c.check(built)
		fmt.Printf("%-45s %2d objects, %d refused\n", overlay, len(built), len(findings))
		for _, f := range findings {
			fmt.Printf("  REFUSED %s\n", f)
		}
		refused, objects = refused+len(findings), objects+len(built)
	}
	if refused > 0 {
		return fmt.Errorf("%d of %d objects are refused", refused, objects)
	}
	var all []unstructured.Unstructured
	for _, overlay := range plant {
		built, err := build(overlay)
		if err != nil {
			return fmt.Errorf("%s: %w", overlay, err)
		}
		all = append(all, built...)
	}
	if len(all) == 0 {
		return nil
	}
	return plantAll(c, all)
}

// build returns the objects of an overlay, as `kubectl kustomize` prints them.
func build(overlay string) ([]unstructured.Unstructured, error) {
	m, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), overlay)
	if err != nil {
		return nil, err
	}
	var objects []unstructured.Unstructured
	for _, r := range m.Resources() {
		text, err := r.MarshalJSON()
		if err != nil {
			return nil, err
		}
		var o unstructured.Unstructured
		if err := o.UnmarshalJSON(text); err != nil { // whole numbers as int64, as the server has them
			return nil, err
		}
		objects = append(objects, o)
	}
	if len(objects) == 0 {
		return nil, errors.New("there are no objects")
	}
	return objects, nil
}

// files returns the YAML files at a path: itself, or those in it.
func files(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	found, err := filepath.Glob(filepath.Join(path, "*.yaml"))
	slices.Sort(found)
	return found, err
}
