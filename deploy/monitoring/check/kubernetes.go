package check

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// KubernetesRules is the file of the rules for the Prometheus operator, from deploy/monitoring.
var KubernetesRules = filepath.Join("..", "kubernetes", "components", "monitoring", "rules.yaml")

const kubernetesHead = `# Made of deploy/monitoring/rules by make dashboards: change those.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: carillon, namespace: carillon}
spec:
  groups:
`

// PrometheusRule returns the rules of a folder as one object for the Prometheus operator: the
// groups of all files, as they are written there.
func PrometheusRule(dir string) ([]byte, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	out.WriteString(kubernetesHead)
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		_, groups, ok := strings.Cut("\n"+string(text), "\ngroups:\n")
		if !ok {
			return nil, fmt.Errorf("%s has no groups", path)
		}
		for line := range strings.Lines(groups) {
			if strings.TrimSpace(line) != "" {
				out.WriteString("  ")
			}
			out.WriteString(line)
		}
	}
	return []byte(out.String()), nil
}
