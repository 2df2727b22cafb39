package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// String returns a result in a few lines.
func (r *Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s", r.Protocol, r.System, r.Variant)
	fmt.Fprintf(&b, ": n %d", r.N)
	if r.Rate > 0 {
		fmt.Fprintf(&b, " at %.0f/s", r.Rate)
	}
	if r.Jobs > 0 && r.Variant != mendVariant {
		fmt.Fprintf(&b, ", of %d recurring jobs", r.Jobs)
	}
	if r.Resident > 0 {
		fmt.Fprintf(&b, ", %d rows resident", r.Resident)
	}
	if r.Killed != nil {
		fmt.Fprintf(&b, ", kill -9 %s after %.1f s", r.Killed.Member, r.Killed.After)
	}
	if r.RunsPerS > 0 {
		if r.Protocol == "W" {
			fmt.Fprintf(&b, ", %.0f steps/s", r.RunsPerS)
		} else {
			fmt.Fprintf(&b, ", %.0f runs/s (peak %.0f", r.RunsPerS, r.Peak)
			if r.Pause > 0 {
				fmt.Fprintf(&b, ", nothing began for %.1f s", r.Pause)
			}
			b.WriteString(")")
		}
	}
	if r.Load != nil {
		what := "import %.0f lines/s"
		if r.Jobs > 0 && !strings.HasSuffix(r.Variant, hourVariant) {
			what = "creation %.0f jobs/s"
		}
		fmt.Fprintf(&b, ", "+what, r.Load.PerS)
	}
	if r.Settled != nil {
		fmt.Fprintf(&b, ", resident rows at %.0f/s", r.Settled.PerS)
	}
	if r.LastStart > 0 {
		fmt.Fprintf(&b, ", last start after %.2f s", r.LastStart)
	}
	if r.RunsPerS > 0 {
		fmt.Fprintf(&b, ", missed %d, early %d, doubled %d", r.Missed, r.Early, r.Doubled)
		if r.Unexpected > 0 {
			fmt.Fprintf(&b, ", unexpected %d", r.Unexpected)
		}
		if slices.Contains(asked, r.Protocol) {
			fmt.Fprintf(&b, "; by the API without an end %d, duplicate outcomes %d", r.Unended, r.DuplicateOutcomes)
		}
	}
	if l := r.Lateness; l != nil {
		what := "lateness"
		if r.Protocol == "W" && r.Variant != followersPart {
			what = "gap"
		}
		fmt.Fprintf(&b, "\n    "+what+" ms p50 %.1f  p99 %.1f  p99.9 %.1f  max %.1f (%s)", l.P50, l.P99, l.P999, l.Max, l.From)
	}
	if len(r.Pages) > 0 { // nothing else was measured
		for i := range r.Pages {
			b.WriteString("\n    " + r.Pages[i].String())
		}
		return r.conditions(&b)
	}
	b.WriteString("\n    cpu µs each:")
	for _, kind := range slices.Sorted(maps.Keys(r.CPU)) {
		fmt.Fprintf(&b, " %s %.0f", kind, r.CPU[kind])
		var each []string
		for _, member := range slices.Sorted(maps.Keys(r.CPUOf)) {
			if kindOf(member) == kind {
				each = append(each, fmt.Sprintf("%s %.0f", member, r.CPUOf[member]))
			}
		}
		if len(each) > 1 {
			b.WriteString(" (" + strings.Join(each, ", ") + ")")
		}
	}
	if r.AgainstOneOff > 0 {
		fmt.Fprintf(&b, " (without sink and load %.2f × a one-off run's, whose import is not in it)", r.AgainstOneOff)
	}
	fmt.Fprintf(&b, "; allocations each %.0f, %.0f bytes", r.Allocs, r.Bytes)
	if m, ok := nodesOf(r); ok {
		fmt.Fprintf(&b, "\n    memory MiB at rest, at the end: heap %s, %s; RSS", amount(m.Before.Heap/mebibyte, ""), amount(m.After.Heap/mebibyte, ""))
		for _, kind := range slices.Sorted(maps.Keys(r.Memory)) {
			m := r.Memory[kind]
			fmt.Fprintf(&b, " %s %s, %s;", kind, amount(m.Before.RSS/mebibyte, ""), amount(m.After.RSS/mebibyte, ""))
		}
	}
	if f := r.Flight; f != nil {
		b.WriteString("\n    " + f.String())
	}
	if h := r.Harm; h != nil {
		b.WriteString("\n    " + h.String())
	}
	if c := r.Consoles; c != nil {
		b.WriteString("\n    " + c.String())
	}
	if m := r.Mend; m != nil {
		b.WriteString("\n    " + m.String())
	}
	if c := r.Regions; c != nil {
		b.WriteString("\n    " + c.String())
	}
	if s := r.Scans; s != nil {
		fmt.Fprintf(&b, "\n    scans %d, mean %s ms, p99 at most %s ms", s.Count, amount(s.Mean, ""), amount(s.P99, ""))
	}
	return r.conditions(&b)
}

// conditions ends the text of a result: the settings and the notes.
func (r *Result) conditions(b *strings.Builder) string {
	fmt.Fprintf(b, "\n    nodes %s; %d shards; %s", r.Settings.Nodes, r.Settings.Shards, r.Settings.Durability)
	for _, note := range r.Notes {
		b.WriteString("\n    note: " + note)
	}
	return b.String()
}

// String returns the figures of F in a line.
func (x *InFlight) String() string {
	return fmt.Sprintf("in flight at most %s for %g s each, %s succeeded; %s of RSS and %s of heap each; session writes a second %s, alone %s; "+
		"new runs at %d/s p99 %s, alone %s", grouped(int64(x.Peak)), x.Hold, grouped(int64(x.Succeeded)), bytesText(x.RSS), bytesText(x.Heap),
		perSecondText(x.Renewals), perSecondText(x.RenewalsAlone), x.BesideRate, p99Text(x.Lateness), p99Text(x.LatenessAlone))
}

// writeFlights writes a table of F; nothing if it was not measured.
func writeFlights(b *strings.Builder, all []*Result) {
	head := "\n| F: runs in flight on one executor | asked, most at once, succeeded | memory of each: RSS, heap | session writes a second: alone, with them | " +
		"p99 of new runs: alone, with them |\n|---|---|---|---|---|\n"
	for _, r := range all {
		x := r.Flight
		if x == nil {
			continue
		}
		b.WriteString(head)
		head = ""
		fmt.Fprintf(b, "| %s %s, held %g s, round %d | %s, %s, %s | %s, %s | %s, %s | %s, %s |\n", r.System, r.Variant, x.Hold, r.Round,
			grouped(int64(r.N)), grouped(int64(x.Peak)), grouped(int64(x.Succeeded)), bytesText(x.RSS), bytesText(x.Heap),
			perSecondText(x.RenewalsAlone), perSecondText(x.Renewals), p99Text(x.LatenessAlone), p99Text(x.Lateness))
	}
}

// bytesText writes an amount of memory as people do.
func bytesText(bytes float64) string {
	if bytes < 10<<10 {
		return amount(bytes, "B")
	}
	return amount(bytes/1024, "KiB")
}

func perSecondText(x float64) string {
	if x < 0 {
		return "not told"
	}
	return amount(x, "")
}

func p99Text(l *Lateness) string {
	if l == nil {
		return "not measured"
	}
	return amount(l.P99, "ms")
}
