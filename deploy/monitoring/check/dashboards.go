package check

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Panel is what a file of a dashboard says of a panel.
type Panel struct {
	Title, Description, Type string
	FieldConfig              struct {
		Defaults struct{ Unit string }
	}
	Targets []struct {
		Expr, LegendFormat string
		Datasource         struct{ UID string }
	}
	GridPos struct{ X, Y, W, H int }
	Options struct{ Content string }
}

// Dashboard is a file of a dashboard, as Grafana would import it.
type Dashboard struct {
	File       string `json:"-"`
	UID, Title string
	Panels     []Panel // rows too
	Templating struct {
		List []struct {
			Name  string
			Query any
		}
	}
}

// ReadDashboards reads all dashboards in dir, in the order of their files' names.
func ReadDashboards(dir string) (all []Dashboard, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		d := Dashboard{File: filepath.Base(path)}
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, d)
	}
	return all, nil
}

// Choose returns an expression of a dashboard with values for its variables: those of Grafana, and
// those that are chosen at its top.
func Choose(expr, window, interval, tenant string) string {
	return strings.NewReplacer(
		"$__range", window, "$__rate_interval", interval, "$tenant", tenant,
		"$cluster", ".*", "$job", ".*", "$instance", ".*",
	).Replace(expr)
}

// LeftOut are the metrics that are on no panel, and why. A name that ends in * stands for all with
// that beginning that no panel has.
var LeftOut = map[string]string{
	"go_*":      "of the Go runtime: memory, goroutines and garbage collection are on Ring, the rest is for profiles",
	"process_*": "CPU, memory, files, network and age are on Ring; limits do not change while a process runs",
}
