package drill

import (
	"fmt"
	"io"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
)

// Report is what came of a drill.
type Report struct {
	Home     string    `json:"home"`
	From     string    `json:"from"`
	To       string    `json:"to"`
	Failover bool      `json:"failover"`
	OK       bool      `json:"ok"`
	BeganAt  time.Time `json:"began_at"`
	EndedAt  time.Time `json:"ended_at"`
	Checks   []Check   `json:"checks"`
	Plans    []Plan    `json:"plans"`
	Steps    []Step    `json:"steps"`
	Fault    string    `json:"fault,omitempty"` // why it ended before its end
	State    string    `json:"state"`           // who serves the home now
	Next     string    `json:"next,omitempty"`  // the command that has all as it was; "": it is
}

// Plan is what was said before a change.
type Plan struct {
	To string `json:"to"`
	httpapi.HomePlan
}

// Step is one step, and how long it took.
type Step struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	OK      bool    `json:"ok"`
}

// timed does a step and notes how long it took.
func (r *Report) timed(name string, do func() error) error {
	began := time.Now()
	err := do()
	r.Steps = append(r.Steps, Step{Name: name, Seconds: time.Since(began).Round(10 * time.Millisecond).Seconds(), OK: err == nil})
	return err
}

// Write writes the report for a person.
func (r *Report) Write(w io.Writer) error {
	rows := [][]string{{"STEP", "SECONDS", "DONE"}}
	for _, s := range r.Steps {
		done := "yes"
		if !s.OK {
			done = "NO"
		}
		rows = append(rows, []string{s.Name, fmt.Sprintf("%.1f", s.Seconds), done})
	}
	if len(r.Steps) > 0 {
		if err := cli.Table(w, rows); err != nil {
			return err
		}
	}
	verdict := "the drill is done: all is as it was"
	if !r.OK {
		verdict = "the drill failed"
	}
	text := fmt.Sprintf("%s; %s, after %v\n", verdict, r.State, r.EndedAt.Sub(r.BeganAt).Round(time.Second))
	if r.Next != "" {
		text += "to go on, once both regions are well:\n  " + r.Next + "\n"
	}
	_, err := io.WriteString(w, text)
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
