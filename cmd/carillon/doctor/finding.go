package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/cmd/carillon/cli"
)

// Severity says how bad a finding is.
type Severity string

// The severities, from good to bad.
const (
	OK      Severity = "ok"      // looked at, and as it should be
	Info    Severity = "info"    // worth knowing
	Warning Severity = "warning" // it costs speed, or will be an error one day
	Error   Severity = "error"   // something does not work, or may be lost
)

// rank orders findings: the worst first.
var rank = map[Severity]int{Error: 0, Warning: 1, Info: 2, OK: 3}

// Finding is one thing that was found.
type Finding struct {
	Severity Severity `json:"severity"`
	Check    string   `json:"check"`           // such as "cassandra.replication"; it stays the same
	What     string   `json:"what"`            // what was seen
	Means    string   `json:"means,omitempty"` // what follows from it
	Do       string   `json:"do,omitempty"`    // what to do about it
}

// Report is the result of a look.
type Report struct {
	Version  string    `json:"version"` // of this program
	At       time.Time `json:"at"`      // by the clock of this machine
	Config   string    `json:"config,omitempty"`
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
	Findings []Finding `json:"findings"` // the worst first
}

// newReport makes a report of findings. Texts have no secrets left that hide knows.
func newReport(f *Facts, findings []Finding, hide hider) Report {
	r := Report{Version: f.Version, At: f.At, Config: f.File, Findings: []Finding{}}
	for _, x := range findings {
		x.What, x.Means, x.Do = hide.text(x.What), hide.text(x.Means), hide.text(x.Do)
		r.Findings = append(r.Findings, x)
		switch x.Severity {
		case Error:
			r.Errors++
		case Warning:
			r.Warnings++
		}
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return rank[a.Severity] - rank[b.Severity] })
	return r
}

// outcome returns nil, or an error with the exit code: 1 if there are warnings, 2 if there are errors.
func (r *Report) outcome() error {
	switch {
	case r.Errors > 0:
		return cli.Exit(2, fmt.Errorf("errors: %d, warnings: %d", r.Errors, r.Warnings))
	case r.Warnings > 0:
		return cli.Exit(1, fmt.Errorf("warnings: %d", r.Warnings))
	}
	return nil
}

// write shows the report to a person. What is well is named in one paragraph at the end.
func (r *Report) write(w io.Writer) error {
	var b strings.Builder
	var well []string
	for _, f := range r.Findings {
		if f.Severity == OK {
			well = append(well, f.Check+": "+f.What)
			continue
		}
		fmt.Fprintf(&b, "%-7s  %s: %s\n", strings.ToUpper(string(f.Severity)), f.Check, cli.Clean(f.What))
		if f.Means != "" {
			fmt.Fprintf(&b, "         means: %s\n", cli.Clean(f.Means))
		}
		if f.Do != "" {
			fmt.Fprintf(&b, "         do:    %s\n", cli.Clean(f.Do))
		}
	}
	if b.Len() > 0 && len(well) > 0 {
		b.WriteString("\n")
	}
	for _, line := range well {
		fmt.Fprintf(&b, "ok       %s\n", cli.Clean(line))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// findings collects findings.
type findings []Finding

func (fs *findings) add(s Severity, check, what, means, do string) {
	*fs = append(*fs, Finding{s, check, what, means, do})
}

func (fs *findings) ok(check, format string, args ...any) {
	fs.add(OK, check, fmt.Sprintf(format, args...), "", "")
}

// bad reports whether there is a finding that is worse than Info of a check that begins so.
func (fs findings) bad(prefix string) bool {
	return slices.ContainsFunc(fs, func(f Finding) bool {
		return strings.HasPrefix(f.Check, prefix) && rank[f.Severity] < rank[Info]
	})
}

// oneLine makes one line of an error.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
