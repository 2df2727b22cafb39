package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	sigsyaml "sigs.k8s.io/yaml"
)

// A definition is a version of a CustomResourceDefinition.
type definition struct {
	validator  validation.SchemaValidator
	structural *structuralschema.Structural
}

// define reads the definitions of a file.
func (c *checker) define(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var crd apiextv1.CustomResourceDefinition
		if err := sigsyaml.Unmarshal(document, &crd); err != nil {
			return err
		}
		if crd.Kind != "CustomResourceDefinition" {
			continue
		}
		for _, v := range crd.Spec.Versions {
			gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}
			if c.definitions[gvk], err = newDefinition(v.Schema.OpenAPIV3Schema); err != nil {
				return fmt.Errorf("%s: %w", gvk, err)
			}
		}
	}
}

func newDefinition(s *apiextv1.JSONSchemaProps) (d definition, err error) {
	var internal apiextensions.JSONSchemaProps
	if err := apiextv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(s, &internal, nil); err != nil {
		return d, err
	}
	if d.validator, _, err = validation.NewSchemaValidator(&internal); err != nil {
		return d, err
	}
	d.structural, err = structuralschema.NewStructural(&internal)
	return d, err
}

// check returns why a server with the definition would not create the object, which it may change.
func (d definition) check(object map[string]any) error {
	pruned := runtime.DeepCopyJSON(object)
	unknown := pruning.PruneWithOptions(pruned, d.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	if len(unknown) > 0 {
		return fmt.Errorf("unknown fields: %v", unknown)
	}
	defaulting.Default(object, d.structural)
	faults := validation.ValidateCustomResource(nil, object, d.validator)
	if v := cel.NewValidator(d.structural, true, celconfig.PerCallLimit); v != nil {
		more, _ := v.Validate(context.Background(), nil, d.structural, object, nil, celconfig.RuntimeCELCostBudget)
		faults = append(faults, more...)
	}
	return faults.ToAggregate()
}
