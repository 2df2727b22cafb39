package measure

import (
	"fmt"
	"time"
)

// A Result is one measurement: a line of JSON. The fields that `carillon-load bench` has too have the same names and meaning.
type Result struct {
	Protocol string  `json:"protocol"` // "A", "B", "C" or "W"
	System   string  `json:"system"`
	Variant  string  `json:"variant"` // the target; of W the part
	Round    int     `json:"round"`   // counted from 1
	N        int     `json:"n"`       // runs; of W steps
	Rate     float64 `json:"rate"`    // due a second; 0 = all at one instant, or ready
	Span     float64 `json:"span_s"`  // over which they fall due

	Settings Settings `json:"settings"`

	// Lateness of W is the gap from the answer to a step to the call of the next one.
	Lateness *Lateness `json:"lateness_ms,omitempty"`
	Missed   int       `json:"missed"`
	Early    int       `json:"early"`
	Doubled  int       `json:"doubled"`
	// RunsPerS is n by the time from the first start to, in A, the last outcome in the store; in B and C, from the first
	// due instant to the last start; in W steps, from the first request to the last call.
	RunsPerS  float64 `json:"runs_per_s"`
	LastStart float64 `json:"last_start_s,omitempty"` // in seconds after the first due instant

	CPU map[string]float64 `json:"cpu_us_per_run"` // by kind of process

	// What follows only peers have.

	Handler     *Lateness `json:"handler_lateness_ms,omitempty"` // by the start of the handler, where Lateness is the sink's
	EarliestMS  float64   `json:"earliest_ms,omitempty"`         // how early the most early run was
	HandledPerS float64   `json:"handled_per_s,omitempty"`       // A: n by the time from the start of the consumers to the end of the last handler
	SettledS    float64   `json:"settled_s,omitempty"`           // B and C: when the store held no unfinished run, in seconds after the first due instant
	Load        Load      `json:"import"`
	Notes       []string  `json:"notes,omitempty"`
	Error       string    `json:"error,omitempty"` // why there are no figures

	Began   time.Time `json:"began"`
	Commit  string    `json:"commit"`
	Machine string    `json:"machine"`
	Command string    `json:"command"`
}

// A Load is how the jobs of a Result were inserted.
type Load struct {
	Seconds float64            `json:"seconds"`
	PerS    float64            `json:"per_s"`
	CPU     map[string]float64 `json:"cpu_us_per_job"`
}

// Faults says which promises a result breaks; one that does is no figure of speed.
func (r *Result) Faults() []string {
	var faults []string
	if r.Error != "" {
		faults = append(faults, r.Error)
	}
	for _, f := range []struct {
		count int
		what  string
	}{{r.Missed, "missed"}, {r.Early, "early"}} {
		if f.count != 0 {
			faults = append(faults, fmt.Sprintf("%s %d", f.what, f.count))
		}
	}
	return faults
}

func (r *Result) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}
