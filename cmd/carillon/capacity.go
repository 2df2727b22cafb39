package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/cmd/carillon/capacity"
	"carillon.dev/carillon/cmd/carillon/cli"
)

// maxPlans bounds the rates of one command.
const maxPlans = 16

func capacityCommand() *cobra.Command {
	var q capacityFlags
	cmd := &cobra.Command{
		Use:   "capacity --rate RUNS",
		Short: "Plan machines, disks and shards for a load",
		Long: "Plan machines, disks and shards for a load, from what was measured on one machine, and say what gives out first when it grows.\n" +
			"It asks nobody: the constants and where they come from are shown by --sources.\n\n" +
			"Numbers may end in k, M, G or T, spans in d for days. Several rates, separated by commas, are planned side by side.",
		Example: "  carillon capacity --rate 10000 --duration 200ms --retention 7d --regions 2\n" +
			"  carillon capacity --rate 1k,10k,100k --resident 10M,100M,1G -o markdown\n" +
			"  carillon capacity --sources",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			if q.sources && q.rate == "" {
				return q.show(out, capacity.SourceRows(), capacityDocument{Sources: capacity.Table()})
			}
			demands, err := q.demands()
			if err != nil {
				return cli.Usagef("%w", err)
			}
			doc := capacityDocument{}
			for _, d := range demands {
				p, err := capacity.Make(d)
				if err != nil { // demands finds every fault before
					return cli.Usagef("%w", err)
				}
				doc.Plans = append(doc.Plans, p)
			}
			return q.write(out, doc)
		},
	}
	f := cmd.Flags()
	f.StringVar(&q.rate, "rate", "", "`runs` due a second in all regions together, kept up for hours; or several")
	f.StringVar(&q.duration, "duration", "200ms", "how long a run takes, the mean")
	f.StringVar(&q.kind, "kind", string(capacity.HTTP), "what runs do: http, nats or noop")
	f.StringVar(&q.payload, "payload", "200", "`bytes` of a payload")
	f.StringVar(&q.retention, "retention", "7d", "how long rows stay after their due time")
	f.StringVar(&q.resident, "resident", "10M", "`jobs` stored that are not due yet; one number, or one for each rate")
	f.StringVar(&q.ahead, "ahead", "30d", "the span over which these are spread")
	f.StringVar(&q.regions, "regions", "1", "number of regions; of several, one may be lost")
	f.StringVar(&q.replication, "replication", "3", "copies of each row and message in each region")
	f.StringVar(&q.cores, "cores", "8", "cores of each machine")
	f.StringVar(&q.disk, "disk", "2T", "`bytes` of disk of each Cassandra machine")
	f.BoolVar(&q.sources, "sources", false, "show every constant, what it is worth and where it comes from")
	f.StringVarP(&q.output, "output", "o", "table", "table, markdown or json")
	return cmd
}

// capacityFlags are the flags as text, so that demands can report all their faults together.
type capacityFlags struct {
	rate, duration, kind, payload     string
	retention, resident, ahead        string
	regions, replication, cores, disk string
	sources                           bool
	output                            string
}

// capacityDocument is what -o json prints.
type capacityDocument struct {
	Plans   []capacity.Plan     `json:"plans,omitempty"`
	Sources []capacity.Constant `json:"sources,omitempty"`
}

// demands reads the flags, and reports every fault of them.
func (q *capacityFlags) demands() ([]capacity.Demand, error) {
	var faults []error
	fault := func(flag string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	fault("output", q.checkOutput())
	numbers := func(flag, text string) []float64 {
		var all []float64
		for part := range strings.SplitSeq(text, ",") {
			v, err := quantity(part)
			fault(flag, err)
			all = append(all, v)
		}
		return all
	}
	whole := func(flag, text string) int {
		v, err := quantity(text)
		if err == nil && (v != math.Trunc(v) || math.Abs(v) > math.MaxInt32) {
			err = fmt.Errorf("%q is not a whole number that makes sense", text)
		}
		fault(flag, err)
		return int(v)
	}
	span := func(flag, text string) time.Duration {
		v, err := days(text)
		fault(flag, err)
		return v
	}
	base := capacity.Demand{
		Duration: span("duration", q.duration), Kind: capacity.Kind(q.kind), Payload: whole("payload", q.payload),
		Retention: span("retention", q.retention), Ahead: span("ahead", q.ahead),
		Regions: whole("regions", q.regions), Replication: whole("replication", q.replication), Cores: whole("cores", q.cores),
	}
	base.Disk = numbers("disk", q.disk)[0]
	if strings.Contains(q.disk, ",") {
		fault("disk", fmt.Errorf("%q is not one number", q.disk))
	}
	var rates []float64
	if q.rate == "" {
		fault("rate", errors.New("is needed: runs due a second"))
	} else {
		rates = numbers("rate", q.rate)
	}
	residents := numbers("resident", q.resident)
	if len(rates) > maxPlans {
		fault("rate", fmt.Errorf("%d rates: at most %d are planned side by side", len(rates), maxPlans))
	}
	if len(residents) != 1 && len(residents) != len(rates) {
		fault("resident", fmt.Errorf("%d numbers for %d rates: state one, or one for each", len(residents), len(rates)))
	}
	unread := len(faults) > 0
	if len(rates) == 0 {
		rates = []float64{1} // go on, to report the other faults too
	}
	seen := make(map[string]bool)
	demands := make([]capacity.Demand, len(rates))
	for i, rate := range rates {
		d := base
		d.Rate, d.Resident = rate, residents[min(i, len(residents)-1)]
		demands[i] = d
		for _, err := range flatten(d.Validate()) {
			flag, _, _ := strings.Cut(err.Error(), ":")
			if text := err.Error(); !seen[text] && (!unread || !mentions(faults, flag)) {
				seen[text] = true
				faults = append(faults, errors.New("--"+text))
			}
		}
	}
	return demands, errors.Join(faults...)
}

// mentions reports whether faults has the flag already. The value of a flag that could not be read
// means nothing, so further faults of it are not reported.
func mentions(faults []error, flag string) bool {
	for _, f := range faults {
		if strings.HasPrefix(f.Error(), "--"+flag+": ") {
			return true
		}
	}
	return false
}

// flatten returns the errors that errors.Join has joined.
func flatten(err error) []error {
	var all interface{ Unwrap() []error }
	if errors.As(err, &all) {
		return all.Unwrap()
	}
	return nil
}

func (q *capacityFlags) checkOutput() error {
	switch q.output {
	case "table", "markdown", "json":
		return nil
	}
	return fmt.Errorf("%q is neither table, markdown nor json", q.output)
}

// write shows plans, and the constants if they are asked for.
func (q *capacityFlags) write(out io.Writer, doc capacityDocument) error {
	if q.sources {
		doc.Sources = capacity.Table()
	}
	if q.output == "json" {
		return cli.Document(out, doc)
	}
	parts := []any{capacity.Assumptions(doc.Plans[0].Demand), capacity.Rows(doc.Plans)}
	if len(doc.Plans) == 1 {
		p := &doc.Plans[0]
		parts = append(parts, capacity.Doubled(p), capacity.LimitRows(p))
	}
	if q.sources {
		parts = append(parts, capacity.Machine+"; "+capacity.Day, capacity.SourceRows())
	} else {
		parts = append(parts, "A plan is where to begin measuring: --sources shows what each constant is worth.")
	}
	for i, part := range parts {
		if i > 0 {
			if _, err := fmt.Fprintln(out); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
		if err := q.part(out, part); err != nil {
			return err
		}
	}
	return nil
}

// show writes one table, or doc.
func (q *capacityFlags) show(out io.Writer, rows [][]string, doc capacityDocument) error {
	if err := q.checkOutput(); err != nil {
		return cli.Usagef("--output: %w", err)
	}
	if q.output == "json" {
		return cli.Document(out, doc)
	}
	return q.part(out, rows)
}

// part writes a line or a table.
func (q *capacityFlags) part(out io.Writer, part any) error {
	rows, ok := part.([][]string)
	switch {
	case !ok:
		_, err := fmt.Fprintln(out, part)
		return err
	case q.output == "markdown":
		_, err := io.WriteString(out, capacity.Markdown(rows))
		return err
	}
	return cli.Table(out, rows)
}

// quantity reads a number, which may end in k, M, G or T.
func quantity(text string) (float64, error) {
	digits, scale := strings.TrimSpace(text), 1.0
	for i, unit := range []string{"k", "M", "G", "T"} {
		if rest, ok := strings.CutSuffix(digits, unit); ok {
			digits, scale = rest, math.Pow(1000, float64(i+1))
			break
		}
	}
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is not a number such as 10000, 10k or 1.5M", text)
	}
	return v * scale, nil
}

// days reads a span as Go writes it, or in days.
func days(text string) (time.Duration, error) {
	if number, ok := strings.CutSuffix(strings.TrimSpace(text), "d"); ok {
		v, err := strconv.ParseFloat(number, 64)
		if err == nil && math.Abs(v) < 100_000 {
			return time.Duration(v * 24 * float64(time.Hour)), nil
		}
	} else if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	return 0, fmt.Errorf("%q is not a span such as 200ms, 36h or 7d", text)
}
