package alerts

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Fired is an alert that fired.
type Fired struct {
	Alert    string
	Severity string    // page or ticket
	First    time.Time // when it first did
	For      time.Duration
}

// Judge says in words what fired that must not, and what did not that must; nothing if all is as
// the row states.
func (r Row) Judge(fired []Fired) (faults []string) {
	seen := make(map[string]bool)
	for _, f := range fired {
		_, must := r.Must[f.Alert]
		_, may := r.May[f.Alert]
		if !must && !may && !seen[f.Alert] {
			faults = append(faults, fmt.Sprintf("the alert %s fired, which %q does not allow", f.Alert, r.Scenario))
		}
		seen[f.Alert] = true
	}
	for _, alert := range slices.Sorted(maps.Keys(r.Must)) {
		if !seen[alert] {
			faults = append(faults, fmt.Sprintf("the alert %s did not fire: %s", alert, r.Must[alert]))
		}
	}
	return faults
}

// Expects says how the row names an alert: "must", "may" or "must not".
func (r Row) Expects(alert string) string {
	if _, ok := r.Must[alert]; ok {
		return "must"
	}
	if _, ok := r.May[alert]; ok {
		return "may"
	}
	return "must not"
}
