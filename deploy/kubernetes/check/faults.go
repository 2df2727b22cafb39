package main

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// A fault is one that people make, planted in an overlay that has none.
type fault struct {
	what   string
	object string // Kind/name of the object that it is planted in
	path   string // of the value, as of JSON Patch
	value  any    // what is put there; absent removes it
	by     string // who refuses it; "" = nobody, which is said
}

// absent is no value.
type absent struct{}

// Of all nodes or one.
const (
	pod       = "/spec/template/spec"
	container = pod + "/containers/0"
)

// faults are planted one after the other in an overlay of a region.
var faults = []fault{
	// what a server does not know
	{"a key with a typo", "Deployment/carillon-api", container + "/readynessProbe", map[string]any{}, server},
	{"a key one level too high", "StatefulSet/carillon-dispatcher", "/spec/containers", []any{}, server},
	{"a kind of another group", "PodDisruptionBudget/carillon-api", "/apiVersion", "apps/v1", server},
	{"a version that is gone", "PodDisruptionBudget/carillon-api", "/apiVersion", "policy/v1beta1", server},
	{"a number between quotes", "Deployment/carillon-executor", "/spec/progressDeadlineSeconds", "600", server},
	{"true between quotes", "Deployment/carillon-api", pod + "/enableServiceLinks", "false", server},
	{"a number in the environment", "Deployment/carillon-api", container + "/env/-", map[string]any{"name": "A", "value": int64(1)}, server},
	{"a unit that there is not", "Deployment/carillon-api", container + "/resources/limits/memory", "2GB", server},

	// what a server knows and does not take
	{"more asked for than allowed", "Deployment/carillon-api", container + "/resources/requests/memory", "4Gi", server},
	{"a selector that does not match its pods", "Deployment/carillon-api", "/spec/selector/matchLabels/app.kubernetes.io~1component", "web", server},
	{"a label with a space", "Deployment/carillon-api", "/metadata/labels/carillon.dev~1region", "eu west", server},
	{"a name in upper case", "Service/carillon-api", "/metadata/name", "Carillon-API", server},
	{"a port that there cannot be", "Service/carillon-api", "/spec/ports/0/port", int64(70000), server},
	{"two ports of one name", "StatefulSet/carillon-dispatcher", container + "/ports/1/name", "http", server},
	{"a name of a port that is too long", "Deployment/carillon-api", container + "/ports/0/name", "http-of-the-interface", server},
	{"a volume that there is not", "Deployment/carillon-executor", container + "/volumeMounts/0/name", "configuration", server},
	{"a value and where to find it", "Deployment/carillon-api", container + "/env/0/value", "x", server},
	{"a field of the pod that there is not", "Deployment/carillon-api", container + "/env/0/valueFrom/fieldRef/fieldPath", "metadata.nam", server},
	{"a policy in lower case", "Deployment/carillon-api", container + "/imagePullPolicy", "always", server},
	{"no image", "Deployment/carillon-api", container + "/image", absent{}, server},
	{"a job that starts its pods for ever", "Job/carillon-migrate", pod + "/restartPolicy", "Always", server},
	{"a probe in two ways", "Deployment/carillon-api", container + "/livenessProbe/tcpSocket", map[string]any{"port": "http"}, server},
	{"a probe of no kind", "Deployment/carillon-api", container + "/livenessProbe/httpGet", absent{}, server},
	{"a negative grace", "StatefulSet/carillon-dispatcher", pod + "/terminationGracePeriodSeconds", int64(-1), server},
	{"a pause longer than the grace", "Deployment/carillon-api", container + "/lifecycle/preStop/sleep/seconds", int64(300), server},
	{"a budget with two bounds", "PodDisruptionBudget/carillon-api", "/spec/minAvailable", int64(1), server},
	{"a roll-out that cannot move", "Deployment/carillon-api", "/spec/strategy/rollingUpdate/maxSurge", int64(0), server},
	{"spread by no skew", "StatefulSet/carillon-dispatcher", pod + "/topologySpreadConstraints/0/maxSkew", int64(0), server},
	{"a policy of taints with a typo", "StatefulSet/carillon-dispatcher", pod + "/topologySpreadConstraints/0/nodeTaintsPolicy", "Honour", server},
	{"spread twice by one key", "Deployment/carillon-api", pod + "/topologySpreadConstraints/1/topologyKey", "topology.kubernetes.io/zone", server},
	{"a range outside the range", "NetworkPolicy/carillon-executor", "/spec/egress/0/to/0/ipBlock/cidr", "10.0.0.0/9", server},
	{"a direction that there is not", "NetworkPolicy/deny", "/spec/policyTypes/0", "In", server},
	{"disks without a mode", "StatefulSet/nats", "/spec/volumeClaimTemplates/0/spec/accessModes", absent{}, server},
	{"a mode of files beyond 0777", "StatefulSet/nats", pod + "/volumes/1/secret/defaultMode", int64(2000), server},
	{"which way traffic goes, with a typo", "Service/carillon-api", "/spec/trafficDistribution", "SameZone", server},
	{"no namespace", "Service/carillon-api", "/metadata/namespace", absent{}, server},

	// what the pods may not do
	{"root", "Deployment/carillon-api", pod + "/securityContext/runAsUser", int64(0), security},
	{"any user", "Deployment/carillon-executor", pod + "/securityContext/runAsNonRoot", absent{}, security},
	{"no filter of system calls", "StatefulSet/carillon-dispatcher", pod + "/securityContext/seccompProfile", absent{}, security},
	{"capabilities kept", "StatefulSet/nats", container + "/securityContext/capabilities", absent{}, security},
	{"more privileges later", "Job/carillon-migrate", container + "/securityContext/allowPrivilegeEscalation", absent{}, security},
	{"the machine's network", "Deployment/carillon-executor", pod + "/hostNetwork", true, security},
	{"a folder of the machine", "Deployment/carillon-api", pod + "/volumes/-", map[string]any{"name": "h", "hostPath": map[string]any{"path": "/"}}, security},
	{"a namespace without a level", "Namespace/carillon", "/metadata/labels/pod-security.kubernetes.io~1enforce", absent{}, security},

	// custom resources
	{"a number of another name", "ScaledObject/carillon-executor", "/spec/maxReplicas", int64(40), schemas},
	{"no triggers", "ScaledObject/carillon-executor", "/spec/triggers", absent{}, schemas},
	{"a number where a text is due", "ScaledObject/carillon-executor", "/spec/triggers/0/metadata/threshold", int64(1400), schemas},
	{"what happens without an answer, with a typo", "ScaledObject/carillon-executor", "/spec/fallback/behavior", "currentReplicas+", schemas},
	{"a span with a space", "PodMonitor/carillon", "/spec/podMetricsEndpoints/0/interval", "10 s", schemas},
	{"an alert without its condition", "PrometheusRule/carillon", "/spec/groups/0/rules/0/expr", absent{}, schemas},
	{"an alert with a typo", "PrometheusRule/carillon", "/spec/groups/0/rules/0/label", map[string]any{}, schemas},

	{"a data centre without nodes", "K8ssandraCluster/carillon", "/spec/cassandra/datacenters/2/size", int64(0), schemas},
	{"a data centre without a name", "K8ssandraCluster/carillon", "/spec/cassandra/datacenters/0/metadata/name", absent{}, schemas},
	{"a rack of one letter", "K8ssandraCluster/carillon", "/spec/cassandra/datacenters/0/racks/0/name", "a", schemas},
	{"a context with a typo", "K8ssandraCluster/carillon", "/spec/cassandra/datacenters/1/k8scontext", "us", schemas},
	{"replication where the operator does not look", "K8ssandraCluster/carillon", "/spec/cassandra/rebuild", map[string]any{"dcReplication": "x"}, schemas},

	// names that lead nowhere
	{"a secret that nobody makes", "Deployment/carillon-api", pod + "/volumes/1/projected/sources/0/secret/name", "carillon-secret", names},
	{"a key that a secret has not", "StatefulSet/nats", container + "/env/1/valueFrom/secretKeyRef/key", "password", names},
	{"a config map that there is not", "Deployment/carillon-api", container + "/envFrom/0/configMapRef/name", "carillon-eu", names},
	{"an account that there is not", "Deployment/carillon-api", pod + "/serviceAccountName", "carillon-api", names},
	{"a service that there is not", "StatefulSet/carillon-dispatcher", "/spec/serviceName", "gossip", names},
	{"a service that selects nothing", "Service/carillon-api", "/spec/selector/app.kubernetes.io~1component", "web", names},
	{"a service's port that no pod has", "Service/carillon-gossip", "/spec/ports/0/targetPort", "gossip-tcp", names},
	{"a probe's port that no pod has", "StatefulSet/carillon-dispatcher", container + "/readinessProbe/httpGet/port", "web", names},
	{"a budget that protects nothing", "PodDisruptionBudget/nats", "/spec/selector/matchLabels/app.kubernetes.io~1name", "jetstream", names},
	{"a policy of no pods", "NetworkPolicy/carillon-migrate", "/spec/podSelector/matchLabels/app.kubernetes.io~1name", "migrate", names},
	{"a policy's port that no pod has", "NetworkPolicy/nats", "/spec/ingress/0/ports/0/port", "nats", names},
	{"a scaler of nothing", "ScaledObject/carillon-executor", "/spec/scaleTargetRef/name", "executor", names},
	{"a number beside the scaler's", "Deployment/carillon-executor", "/spec/replicas", int64(3), names},
	{"what is scraped is no port", "PodMonitor/carillon", "/spec/podMetricsEndpoints/0/port", "metrics", names},

	// what nothing here can know
	{"an image that there is not", "Deployment/carillon-api", container + "/image", "registry.example/carillon:none", ""},
	{"too little time to drain", "Deployment/carillon-executor", pod + "/terminationGracePeriodSeconds", int64(10), ""},
	{"a query of no metric", "ScaledObject/carillon-executor", "/spec/triggers/0/metadata/query", "sum(none)", ""},
}

// plantAll plants each fault in a copy of the objects, and says who refuses it. The error says which
// were not refused by whom they are to be.
func plantAll(c *checker, objects []unstructured.Unstructured) error {
	refused, wrong := 0, 0
	for _, f := range faults {
		planted, err := f.plant(objects)
		if err != nil {
			return fmt.Errorf("%s: %w", f.what, err)
		}
		by, why := "", "nothing refuses it"
		if findings := c.check(planted); len(findings) > 0 {
			by, why = findings[0].by, findings[0].why
			refused++
		}
		verdict := "refused"
		if by == "" {
			verdict = "taken"
		}
		if by != f.by {
			verdict, wrong = "WRONG", wrong+1
			why = fmt.Sprintf("want it refused by %q: %s", f.by, why)
		}
		fmt.Printf("%-8s %-9s %-45s %s\n", verdict, by, f.what, cut(strings.ReplaceAll(why, "\n", " "), 120))
	}
	fmt.Printf("%d faults planted, %d refused\n", len(faults), refused)
	if wrong > 0 {
		return fmt.Errorf("%d planted faults have another verdict than they must have", wrong)
	}
	return nil
}

func cut(text string, most int) string {
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// plant returns a copy of the objects with the fault in it.
func (f fault) plant(objects []unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	copies, found := make([]unstructured.Unstructured, len(objects)), false
	for i, o := range objects {
		copies[i] = *o.DeepCopy()
		if o.GetKind()+"/"+o.GetName() != f.object {
			continue
		}
		found = true
		changed, err := put(copies[i].Object, strings.Split(strings.TrimPrefix(f.path, "/"), "/"), f.value)
		if err != nil {
			return nil, fmt.Errorf("%s%s: %w", f.object, f.path, err)
		}
		copies[i].Object = changed.(map[string]any)
	}
	if !found {
		return nil, fmt.Errorf("there is no %s", f.object)
	}
	return copies, nil
}

// put returns v with value at path.
func put(v any, path []string, value any) (any, error) {
	if len(path) == 0 {
		return runtime.DeepCopyJSONValue(value), nil
	}
	key := strings.NewReplacer("~1", "/", "~0", "~").Replace(path[0])
	switch x := v.(type) {
	case map[string]any:
		if _, gone := value.(absent); gone && len(path) == 1 {
			if _, there := x[key]; !there {
				return nil, fmt.Errorf("there is no %s to remove", key)
			}
			delete(x, key)
			return x, nil
		}
		below, err := put(x[key], path[1:], value)
		if err == nil {
			x[key] = below
		}
		return x, err
	case []any:
		if key == "-" {
			below, err := put(nil, path[1:], value)
			return append(x, below), err
		}
		i, err := strconv.Atoi(key)
		if err != nil || i >= len(x) {
			return nil, fmt.Errorf("there is no %s in a list of %d", key, len(x))
		}
		x[i], err = put(x[i], path[1:], value)
		return x, err
	}
	return nil, fmt.Errorf("there is nothing to put %s into", key)
}
