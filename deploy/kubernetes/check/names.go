package main

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// provided are the Secrets that operators make, with their keys: README.md beside this folder.
var provided = map[string][]string{
	"carillon-secrets": {"ring-key", "cursor-key", "secrets-keys", "cassandra-username", "cassandra-password", "nats-password"},
	"carillon-ca":      {"cassandra-ca.crt", "nats-ca.crt"},
	"nats-tls":         {"tls.crt", "tls.key", "ca.crt"},
}

// A graph is the objects by what they are called.
type graph struct {
	objects   map[string]*unstructured.Unstructured // "Kind/namespace/name"
	workloads []workload
}

func (g *graph) has(kind, namespace, name string) bool {
	return g.objects[kind+"/"+namespace+"/"+name] != nil
}

// pods returns the workloads whose pods have all those labels.
func (g *graph) pods(namespace string, selector map[string]string) (found []workload) {
	s := labels.SelectorFromSet(selector)
	for _, w := range g.workloads {
		if w.object.GetNamespace() == namespace && len(selector) > 0 && s.Matches(labels.Set(w.template.Labels)) {
			found = append(found, w)
		}
	}
	return found
}

// checkNames returns the names in objects that lead nowhere, and the selectors that select nothing.
func checkNames(objects []unstructured.Unstructured) (findings []finding) {
	g := &graph{objects: make(map[string]*unstructured.Unstructured)}
	for i := range objects {
		o := &objects[i]
		g.objects[o.GetKind()+"/"+o.GetNamespace()+"/"+o.GetName()] = o
		if w, ok := workloadOf(o); ok {
			g.workloads = append(g.workloads, w)
		}
	}
	for i := range objects {
		o := &objects[i]
		var err error
		switch o.GetKind() {
		case "Service":
			err = g.checkService(o)
		case "PodDisruptionBudget", "PodMonitor":
			err = g.checkSelector(o)
		case "NetworkPolicy":
			err = g.checkPolicy(o)
		case "ScaledObject":
			err = g.checkScaled(o)
		}
		if err != nil {
			findings = append(findings, finding{names, o.GetKind() + "/" + o.GetName(), err.Error()})
		}
	}
	for _, w := range g.workloads {
		if err := g.checkWorkload(w); err != nil {
			findings = append(findings, finding{names, w.object.GetKind() + "/" + w.object.GetName(), err.Error()})
		}
	}
	return findings
}

// checkWorkload looks up what pods refer to.
func (g *graph) checkWorkload(w workload) error {
	var faults []error
	ns, spec := w.object.GetNamespace(), &w.template.Spec
	secret := func(name string, keys ...string) {
		if provided[name] == nil {
			faults = append(faults, fmt.Errorf("nobody makes the Secret %s", name))
			return
		}
		for _, k := range keys {
			if !slices.Contains(provided[name], k) {
				faults = append(faults, fmt.Errorf("the Secret %s has no key %s", name, k))
			}
		}
	}
	config := func(name string) {
		if !g.has("ConfigMap", ns, name) {
			faults = append(faults, fmt.Errorf("there is no ConfigMap %s", name))
		}
	}
	if a := spec.ServiceAccountName; a != "" && !g.has("ServiceAccount", ns, a) {
		faults = append(faults, fmt.Errorf("there is no ServiceAccount %s", a))
	}
	if name, found, _ := unstructured.NestedString(w.object.Object, "spec", "serviceName"); found && !g.has("Service", ns, name) {
		faults = append(faults, fmt.Errorf("there is no Service %s", name))
	}
	for _, v := range spec.Volumes {
		switch {
		case v.ConfigMap != nil:
			config(v.ConfigMap.Name)
		case v.Secret != nil:
			secret(v.Secret.SecretName)
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if s.Secret != nil {
					secret(s.Secret.Name)
				}
			}
		}
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		for _, from := range c.EnvFrom {
			if from.ConfigMapRef != nil {
				config(from.ConfigMapRef.Name)
			}
			if from.SecretRef != nil {
				secret(from.SecretRef.Name)
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				secret(e.ValueFrom.SecretKeyRef.Name, e.ValueFrom.SecretKeyRef.Key)
			}
		}
		for what, p := range map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
			if p != nil && p.HTTPGet != nil && !hasPort(spec, p.HTTPGet.Port) {
				faults = append(faults, fmt.Errorf("the %s probe asks the port %s, which there is not", what, p.HTTPGet.Port.String()))
			}
		}
	}
	return errors.Join(faults...)
}

func hasPort(spec *corev1.PodSpec, port intstr.IntOrString) bool {
	for _, c := range spec.Containers {
		for _, p := range c.Ports {
			if port.Type == intstr.String && p.Name == port.StrVal || port.Type == intstr.Int && p.ContainerPort == port.IntVal {
				return true
			}
		}
	}
	return false
}

// checkPorts returns an error if no port of the pods has one of the names.
func checkPorts(pods []workload, ports ...intstr.IntOrString) error {
	for _, port := range ports {
		if !slices.ContainsFunc(pods, func(w workload) bool { return hasPort(&w.template.Spec, port) }) {
			return fmt.Errorf("the port %s is none of its pods'", port.String())
		}
	}
	return nil
}

func (g *graph) checkService(o *unstructured.Unstructured) error {
	selector, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector")
	pods := g.pods(o.GetNamespace(), selector)
	if len(pods) == 0 {
		return errors.New("spec.selector: selects no pods")
	}
	return checkPorts(pods, portsOf(o.Object, "targetPort", "spec", "ports")...)
}

// portsOf returns the ports that a list below path names by key.
func portsOf(object map[string]any, key string, path ...string) (ports []intstr.IntOrString) {
	list, _, _ := unstructured.NestedSlice(object, path...)
	for _, e := range list {
		m, _ := e.(map[string]any)
		switch p := m[key].(type) {
		case string:
			ports = append(ports, intstr.FromString(p))
		case int64:
			ports = append(ports, intstr.FromInt32(int32(p))) // #nosec G115 -- a port
		}
	}
	return ports
}

// checkSelector checks a budget or a monitor.
func (g *graph) checkSelector(o *unstructured.Unstructured) error {
	selector, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
	pods := g.pods(o.GetNamespace(), selector)
	if len(pods) == 0 {
		return errors.New("spec.selector: selects no pods")
	}
	return checkPorts(pods, portsOf(o.Object, "port", "spec", "podMetricsEndpoints")...)
}

// checkPolicy checks the pods of a policy, the named ports of those that may be reached, and the pods
// of its own namespace that may come or be gone to.
func (g *graph) checkPolicy(o *unstructured.Unstructured) error {
	selector, _, _ := unstructured.NestedStringMap(o.Object, "spec", "podSelector", "matchLabels")
	pods := g.pods(o.GetNamespace(), selector)
	if len(selector) > 0 && len(pods) == 0 {
		return errors.New("spec.podSelector: selects no pods")
	}
	for direction, side := range map[string]string{"ingress": "from", "egress": "to"} {
		list, _, _ := unstructured.NestedSlice(o.Object, "spec", direction)
		for _, e := range list {
			rule, _ := e.(map[string]any)
			if direction == "ingress" {
				if err := checkPorts(pods, portsOf(rule, "port", "ports")...); err != nil {
					return err
				}
			}
			peers, _, _ := unstructured.NestedSlice(rule, side)
			for _, p := range peers {
				peer, _ := p.(map[string]any)
				other, _, _ := unstructured.NestedStringMap(peer, "podSelector", "matchLabels")
				if peer["namespaceSelector"] == nil && len(other) > 0 && len(g.pods(o.GetNamespace(), other)) == 0 {
					return fmt.Errorf("spec.%s: the pods %v are none", direction, other)
				}
			}
		}
	}
	return nil
}

func (g *graph) checkScaled(o *unstructured.Unstructured) error {
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "scaleTargetRef", "kind")
	name, _, _ := unstructured.NestedString(o.Object, "spec", "scaleTargetRef", "name")
	target := g.objects[kind+"/"+o.GetNamespace()+"/"+name]
	if target == nil {
		return fmt.Errorf("spec.scaleTargetRef: there is no %s %s", kind, name)
	}
	if _, found, _ := unstructured.NestedInt64(target.Object, "spec", "replicas"); found {
		return fmt.Errorf("%s %s says how many there are: each apply would undo what the scaler has decided", kind, name)
	}
	return nil
}
