package main

import (
	"errors"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// A workload is what makes pods.
type workload struct {
	object   *unstructured.Unstructured
	template *corev1.PodTemplateSpec
	claims   []string // of a StatefulSet: volumes of each pod
}

// workloadOf returns the workload that an object is, with false if it makes no pods.
func workloadOf(o *unstructured.Unstructured) (w workload, ok bool) {
	decoded, err := decode(o)
	if err != nil {
		return w, false
	}
	w.object = o
	switch x := decoded.(type) {
	case *appsv1.Deployment:
		w.template = &x.Spec.Template
	case *appsv1.StatefulSet:
		w.template = &x.Spec.Template
		for _, c := range x.Spec.VolumeClaimTemplates {
			w.claims = append(w.claims, c.Name)
		}
	case *batchv1.Job:
		w.template = &x.Spec.Template
	}
	return w, w.template != nil
}

// levelsOf returns the Pod Security level that each namespace enforces.
func levelsOf(objects []unstructured.Unstructured) map[string]api.Level {
	levels := make(map[string]api.Level)
	for i := range objects {
		o := &objects[i]
		if o.GetKind() != "Namespace" {
			continue
		}
		levels[o.GetName()] = api.LevelPrivileged
		if label, ok := o.GetLabels()[api.EnforceLevelLabel]; ok {
			levels[o.GetName()], _ = api.ParseLevel(label) // of a typo: restricted, as a server takes it
		}
	}
	return levels
}

// checkPods returns why the pods of an object would be refused where they are made.
func (c *checker) checkPods(o *unstructured.Unstructured, levels map[string]api.Level) error {
	w, ok := workloadOf(o)
	if !ok {
		return nil
	}
	level, ok := levels[o.GetNamespace()]
	if !ok {
		return errors.New("its namespace is not among the objects")
	}
	if level != api.LevelRestricted {
		return errors.New("its namespace does not enforce the level restricted")
	}
	result := policy.AggregateCheckResults(c.pods.EvaluatePod(
		api.LevelVersion{Level: level, Version: api.LatestVersion()}, &w.template.ObjectMeta, &w.template.Spec))
	if !result.Allowed {
		return errors.New(strings.TrimSpace(result.ForbiddenDetail()))
	}
	return nil
}
