package capacity

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Rows returns plans as a table, one column a plan after the first, which says what a row is. The
// first row is the head.
func Rows(plans []Plan) [][]string {
	var rows [][]string
	add := func(what string, of func(p *Plan) string) {
		row := []string{what}
		for i := range plans {
			row = append(row, of(&plans[i]))
		}
		rows = append(rows, row)
	}
	machines := func(of func(p *Plan) Machines) func(p *Plan) string {
		return func(p *Plan) string {
			m := of(p)
			return fmt.Sprintf("%d (%s busy)", m.Count, quantity(m.Busy, "cores"))
		}
	}

	add("runs a second, of all regions; what follows is of one region unless it says otherwise", func(p *Plan) string { return count(p.Demand.Rate) })
	add("jobs that wait to be due", func(p *Plan) string {
		return fmt.Sprintf("%s over %s", count(p.Demand.Resident), Span(p.Demand.Ahead))
	})
	add("a region must carry", func(p *Plan) string { return count(p.Carried) + " runs/s" })
	add("shards, of all regions", func(p *Plan) string { return fmt.Sprintf("%d (%s runs/s each)", p.Shards, number(p.RunsAShard)) })
	add("a partition (minute, shard)", func(p *Plan) string {
		return fmt.Sprintf("%s rows, %s of 64 MiB", count(p.PartitionRows), binary(p.PartitionBytes))
	})
	add("executors", machines(func(p *Plan) Machines { return p.Executors }))
	add("attempts under way", func(p *Plan) string { return count(p.InFlight) })
	add("slots, with head-room", func(p *Plan) string {
		return fmt.Sprintf("%s (executor.slots: %d)", count(float64(p.Slots)), p.SlotsEach)
	})
	add("memory of an executor's slots", func(p *Plan) string { return binary(p.SlotsMemory) })
	add("dispatchers", machines(func(p *Plan) Machines { return p.Dispatchers }))
	add("bucketers", machines(func(p *Plan) Machines { return p.Bucketers }))
	add("Cassandra nodes", func(p *Plan) string {
		return fmt.Sprintf("%d (%s busy; because of %s)", p.Cassandra.Count, quantity(p.Cassandra.Busy, "cores"), p.NodesFor)
	})
	add("bytes a run, one replica", func(p *Plan) string { return number(p.BytesARun) })
	add("bytes stored, all replicas", func(p *Plan) string { return decimal(p.BytesStore) })
	add("bytes stored, a node", func(p *Plan) string { return decimal(p.BytesANode) })
	add("outcomes in a batch", func(p *Plan) string { return number(p.BatchRows) })
	add("statements a second when idle, of all regions", func(p *Plan) string { return count(p.Idle) })
	add("NATS servers", machines(func(p *Plan) Machines { return p.NATS }))
	add("lanes (nats.lanes)", func(p *Plan) string { return strconv.Itoa(p.Lanes) })
	add("streams on disk: even rate, at most", func(p *Plan) string { return binary(p.StreamBytes) + ", " + binary(p.StreamMost) })
	add("streams, written a second", func(p *Plan) string { return binary(p.StreamWrite) })
	add("readings of streams a second", func(p *Plan) string { return count(p.Readings) })
	add("network: Cassandra", func(p *Plan) string { return bits(p.Network.Cassandra) })
	add("network: NATS", func(p *Plan) string { return bits(p.Network.NATS) })
	add("network: calls", func(p *Plan) string { return bits(p.Network.Calls) })
	add("network: to other regions", func(p *Plan) string { return bits(p.Network.Regions) })
	add("for the runs of other regions: Cassandra, stored, received", func(p *Plan) string {
		if p.Demand.Regions == 1 {
			return "none"
		}
		return quantity(p.Copies.Cassandra, "cores") + ", " + decimal(p.Copies.Bytes) + ", " + bits(p.Copies.Network)
	})
	add("keyed runs a second of one tenant, at most", func(p *Plan) string { return count(p.KeyedRate) })
	add("gives out first", func(p *Plan) string { return limitText(p.FirstLimits(0)[0]) })
	add("ceiling that is nearest", func(p *Plan) string {
		for _, l := range p.Limits {
			if l.Ceiling {
				return limitText(l)
			}
		}
		return "none"
	})
	return rows
}

func limitText(l Limit) string { return l.What + " at " + times(l.Times) }

// LimitRows returns the limits, in order, as a table.
func LimitRows(p *Plan) [][]string {
	rows := [][]string{{"GIVES OUT AT", "WHAT", "WHAT HELPS"}}
	for _, l := range p.Limits {
		help := l.Lift
		if l.Ceiling {
			help = "a ceiling: " + help
		}
		rows = append(rows, []string{times(l.Times), l.What, help})
	}
	return rows
}

// Doubled says in a sentence what happens when the rate doubles.
func Doubled(p *Plan) string {
	limits := p.FirstLimits(2)
	if limits[0].Times >= 2 {
		return fmt.Sprintf("When the rate doubles everything holds, without head-room; first to give out is %s.", limitText(limits[0]))
	}
	var names []string
	for _, l := range limits {
		names = append(names, limitText(l))
	}
	return "When the rate doubles, these give out, the first one first: " + strings.Join(names, "; ") + "."
}

// lowRates says at which rates runs cost more CPU than planned; loadtest/RESULTS.md has the
// figures.
const lowRates = "CPU a run as at 7,000/s on 16 shards; at lower rates it is more (at 2,000/s carillon 173–182, Cassandra 172–205, NATS 67–72 µs: up to 2.3 times as much), for which the idle half and the spare machines have room"

// Assumptions says for which demands the plans are.
func Assumptions(d Demand) string {
	return fmt.Sprintf("%s runs of %s, one-off, unkeyed, at_least_once, payload %d bytes, kept %s; regions: %d, of which one may be lost; replication %d in each; machines of %d cores, at most half of them busy; "+
		"Cassandra's disks %s, at most half of it full. %s.", d.Kind, d.Duration, d.Payload, Span(d.Retention), d.Regions, d.Replication, d.Cores, decimal(d.Disk), lowRates)
}

// SourceRows returns the constants as a table.
func SourceRows() [][]string {
	rows := [][]string{{"CONSTANT", "VALUE", "UNIT", "WORTH", "SOURCE"}}
	for _, c := range table {
		rows = append(rows, []string{c.Name, strconv.FormatFloat(c.Value, 'f', -1, 64), c.Unit, string(c.Grade), c.Source})
	}
	return rows
}

// Markdown writes a table as Markdown has it.
func Markdown(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return b.String()
}

// Span writes a span in days if it is some, otherwise as Go does.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return strconv.Itoa(int(d/day)) + " d"
	}
	return d.String()
}

// number writes a figure with about three digits.
func number(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func quantity(v float64, unit string) string { return number(v) + " " + unit }

// times writes a multiple.
func times(v float64) string {
	if v >= 1000 {
		return "over 1000 ×"
	}
	return number(v) + " ×"
}

// count writes a number of things, rounded to a whole one, with commas up to ten million.
func count(v float64) string {
	if v >= 1e7 {
		return scaled(v, 1000, []string{"", " k", " M", " G", " T", " P"})
	}
	digits := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func decimal(v float64) string {
	return scaled(v, 1000, []string{" B", " kB", " MB", " GB", " TB", " PB"})
}

func binary(v float64) string {
	return scaled(v, 1024, []string{" B", " KiB", " MiB", " GiB", " TiB", " PiB"})
}

func bits(bytesASecond float64) string {
	return scaled(8*bytesASecond, 1000, []string{" bit/s", " kbit/s", " Mbit/s", " Gbit/s", " Tbit/s", " Pbit/s"})
}

func scaled(v, step float64, units []string) string {
	i := 0
	for v >= step && i < len(units)-1 {
		v, i = v/step, i+1
	}
	text := number(v)
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text + units[i]
}
