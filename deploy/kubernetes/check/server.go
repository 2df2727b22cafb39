package main

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podapi "k8s.io/kubernetes/pkg/api/pod"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	batchvalidation "k8s.io/kubernetes/pkg/apis/batch/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
)

// served are the versions that a server of today serves; the scheme has older ones, too.
var served = []string{"v1", "apps/v1", "batch/v1", "networking.k8s.io/v1", "policy/v1"}

// uid is that of every object: a server gives each one before it validates it.
const uid = types.UID("00000000-0000-4000-8000-000000000000")

// strategies are the registry's own, where they link little.
var strategies = map[string]rest.RESTCreateStrategy{
	"StatefulSet": statefulset.Strategy, "Deployment": deployment.Strategy,
	"NetworkPolicy": networkpolicy.Strategy, "PodDisruptionBudget": poddisruptionbudget.Strategy,
}

// rules are what the strategies of the other kinds call; those link the whole API server.
var rules = map[string]func(runtime.Object) field.ErrorList{
	"ConfigMap": func(o runtime.Object) field.ErrorList { return validation.ValidateConfigMap(o.(*core.ConfigMap)) },
	"Secret":    func(o runtime.Object) field.ErrorList { return validation.ValidateSecret(o.(*core.Secret)) },
	"Namespace": func(o runtime.Object) field.ErrorList { return validation.ValidateNamespace(o.(*core.Namespace)) },
	"ServiceAccount": func(o runtime.Object) field.ErrorList {
		return validation.ValidateServiceAccount(o.(*core.ServiceAccount))
	},
	"Service": func(o runtime.Object) field.ErrorList {
		s := o.(*core.Service)
		if s.Spec.ClusterIP != "" {
			s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
		}
		return validation.ValidateServiceCreate(s)
	},
	"Job": func(o runtime.Object) field.ErrorList {
		j := o.(*batch.Job)
		selectPods(j)
		return batchvalidation.ValidateJobCreate(j, batchvalidation.JobValidationOptions{
			PodValidationOptions: podapi.GetValidationOptionsFromPodTemplate(&j.Spec.Template, nil), RequirePrefixedLabels: true,
		})
	},
}

// selectPods labels a Job's pods and selects them, as its registry does.
func selectPods(j *batch.Job) {
	if j.Spec.Template.Labels == nil {
		j.Spec.Template.Labels = make(map[string]string)
	}
	for label, value := range map[string]string{
		batch.LegacyJobNameLabel: j.Name, batch.JobNameLabel: j.Name,
		batch.LegacyControllerUidLabel: string(j.UID), batch.ControllerUidLabel: string(j.UID),
	} {
		if _, set := j.Spec.Template.Labels[label]; !set {
			j.Spec.Template.Labels[label] = value
		}
	}
	if j.Spec.Selector == nil {
		j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{batch.ControllerUidLabel: string(j.UID)}}
	}
}

var strict = serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// decode reads an object as a server does: what it does not know is a fault.
func decode(o *unstructured.Unstructured) (runtime.Object, error) {
	text, err := o.MarshalJSON()
	if err != nil {
		return nil, err
	}
	object, _, err := strict.Decode(text, nil, nil)
	return object, err
}

// checkAsServer returns why a server would not create the object.
func checkAsServer(o *unstructured.Unstructured) error {
	if !slices.Contains(served, o.GetAPIVersion()) {
		return fmt.Errorf("no server serves %s as %s, nor is there a definition of it", o.GetKind(), o.GetAPIVersion())
	}
	versioned, err := decode(o)
	if err != nil {
		return err
	}
	legacyscheme.Scheme.Default(versioned)
	gvk := o.GroupVersionKind()
	internal, err := legacyscheme.Scheme.ConvertToVersion(versioned, schema.GroupVersion{Group: gvk.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		return err
	}
	internal.(metav1.Object).SetUID(uid)
	if gvk.Kind != "Namespace" && o.GetNamespace() == "" {
		return errors.New("metadata.namespace: names none: where it goes would be for whoever applies it to say")
	}
	if rule, ok := rules[gvk.Kind]; ok {
		return rule(internal).ToAggregate()
	}
	s, ok := strategies[gvk.Kind]
	if !ok {
		return fmt.Errorf("there is no rule for the kind %s, nor a definition of it", gvk.Kind)
	}
	ctx := request.WithRequestInfo(request.WithNamespace(request.NewContext(), o.GetNamespace()), &request.RequestInfo{
		APIGroup: gvk.Group, APIVersion: gvk.Version, Namespace: o.GetNamespace(), Name: o.GetName(), IsResourceRequest: true, Verb: "create",
	})
	s.PrepareForCreate(ctx, internal)
	if err := s.Validate(ctx, internal).ToAggregate(); err != nil {
		return err
	}
	for _, w := range s.WarningsOnCreate(ctx, internal) {
		return errors.New("a server warns: " + w)
	}
	return nil
}
