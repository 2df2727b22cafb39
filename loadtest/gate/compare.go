package gate

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"
)

// The tolerances (see the package comment).
const (
	meetShare   = 50 // one part in so many: 2 %
	meetAllocs  = 1
	betterShare = 20 // one part in so many: 5 %
	timeFactor  = 2.0
)

// Verdict is the result of a comparison.
type Verdict string

// The verdicts. OK and Improved pass.
const (
	OK       Verdict = "ok"
	Improved Verdict = "improved"
	Worse    Verdict = "WORSE"
	Differs  Verdict = "DIFFERS"
	New      Verdict = "NOT COMMITTED"
	Gone     Verdict = "NOT MEASURED"
)

// Passes reports whether v is no fault.
func (v Verdict) Passes() bool { return v == OK || v == Improved }

// Row is one comparison.
type Row struct {
	Name      string
	What      string // allocs, time, statements
	Committed string // as printed; empty if there is none
	Now       string
	Verdict   Verdict
}

// Compare compares now with committed: a row for each figure of either, by name. Cases say which
// benchmarks have several goroutines.
func Compare(cases []Case, committed, now Figures) []Row {
	meets := make(map[string]bool)
	for _, c := range cases {
		meets[c.Name()] = c.Meet
	}
	var rows []Row
	for _, name := range names(committed.Benchmarks, now.Benchmarks) {
		was, had := committed.Benchmarks[name]
		is, has := now.Benchmarks[name]
		rows = append(
			rows,
			row(name, "allocs", strconv.FormatInt(was.Allocs, 10), strconv.FormatInt(is.Allocs, 10), had, has, judgeAllocs(was.Allocs, is.Allocs, meets[name])),
			row(name, "time", fmt.Sprintf("%.4g", was.Ratio), fmt.Sprintf("%.4g", is.Ratio), had, has, judgeTime(was.Ratio, is.Ratio)),
		)
	}
	for _, name := range names(committed.Statements, now.Statements) {
		was, had := committed.Statements[name]
		is, has := now.Statements[name]
		v := OK
		if was != is {
			v = Differs
		}
		rows = append(rows, row(name, "statements", strconv.Itoa(was), strconv.Itoa(is), had, has, v))
	}
	return rows
}

func row(name, what, was, is string, had, has bool, v Verdict) Row {
	switch {
	case !had:
		was, v = "", New
	case !has:
		is, v = "", Gone
	}
	return Row{Name: name, What: what, Committed: was, Now: is, Verdict: v}
}

func judgeAllocs(was, is int64, meet bool) Verdict {
	bound := was
	if meet {
		bound += max(was/meetShare, meetAllocs)
	}
	switch {
	case is > bound:
		return Worse
	case is < was-was/betterShare && (!meet || is < was-meetAllocs):
		return Improved
	}
	return OK
}

func judgeTime(was, is float64) Verdict {
	switch {
	case is > was*timeFactor:
		return Worse
	case is < was/timeFactor:
		return Improved
	}
	return OK
}

// names returns the keys of both, sorted.
func names[V any](a, b map[string]V) []string {
	all := maps.Clone(a)
	if all == nil {
		all = make(map[string]V)
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// Count returns how many rows have a verdict for which `is` holds.
func Count(rows []Row, say func(Verdict) bool) int {
	n := 0
	for _, r := range rows {
		if say(r.Verdict) {
			n++
		}
	}
	return n
}

// Print writes the rows as a table.
func Print(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if _, err := fmt.Fprintln(t, "name\twhat\tcommitted\tnow\tverdict"); err != nil {
		return err
	}
	for _, r := range rows {
		if _, err := fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", r.Name, r.What, r.Committed, r.Now, r.Verdict); err != nil {
			return err
		}
	}
	return t.Flush()
}
