package bench

import (
	"fmt"
	"strings"
)

// String tells what F saw in a line.
func (x *InFlight) String() string {
	return fmt.Sprintf("in flight at most %s for %g s each, %s succeeded; %s of RSS and %s of heap each; session writes a second %s, alone %s; "+
		"new runs at %d/s p99 %s, alone %s", grouped(int64(x.Peak)), x.Hold, grouped(int64(x.Succeeded)), bytesText(x.RSS), bytesText(x.Heap),
		perSecondText(x.Renewals), perSecondText(x.RenewalsAlone), x.BesideRate, p99Text(x.Lateness), p99Text(x.LatenessAlone))
}

// writeFlights writes a table of what F saw; nothing if it was not measured.
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
