package dashboards

import "strings"

// Dashboard is one of the dashboards.
type Dashboard struct {
	UID, Title string
	About      string // one sentence
	Read       string // Markdown: how to read the answer
	Answer     []Panel
	Sections   []Section
	Tenant     bool // it is of one tenant, which is chosen
}

// Section is a row of a dashboard.
type Section struct {
	Title  string
	Panels []Panel
}

// Kind says how a panel shows what it asks.
type Kind int

// The kinds.
const (
	Lines   Kind = iota // a line for each series
	Stacked             // areas that add up
	Stat                // the last value, large
	Heatmap             // of the classes of a histogram
)

// Panel is a panel.
type Panel struct {
	Kind    Kind
	Title   string
	About   string // what is seen, and what is good
	Unit    string // of Grafana
	Queries []Query
	Steps   []Step // colours, from below; none: green always
	Words   []Word // what is said instead of a number
	Empty   string // why it may have no series; "": it has some whenever Carillon runs
}

// Query is an expression in its short form, and what its series are called.
type Query struct{ Expr, Legend string }

// Step is from which value on a colour is shown. That of the first step is 0, and means: from
// below.
type Step struct {
	From  float64
	Color string
}

// Word is what is said of values from From up to To; nil: without a bound.
type Word struct {
	From, To    *float64
	Text, Color string
}

// selector and recordedSelector are what {$} and {#} stand for.
const (
	selector         = `cluster=~"$cluster",job=~"$job",instance=~"$instance"`
	recordedSelector = `cluster=~"$cluster"`
)

var expander = strings.NewReplacer("{$", "{"+selector, "{#", "{"+recordedSelector)

// Expand returns an expression as Grafana gets it.
func Expand(expr string) string { return expander.Replace(expr) }

// All returns all dashboards, in the order of their menu.
func All() []Dashboard {
	return []Dashboard{onTime(), throughput(), dispatch(), storeAndBus(), api(), ring(), deadLetters(), tenant()}
}

// Panels returns the panels of a dashboard, those of the answer first.
func (d *Dashboard) Panels() []Panel {
	all := append([]Panel(nil), d.Answer...)
	for _, s := range d.Sections {
		all = append(all, s.Panels...)
	}
	return all
}

// Short forms for what is written often.

func q(expr, legend string) Query { return Query{expr, legend} }

func lines(title, unit, about string, queries ...Query) Panel {
	return Panel{Kind: Lines, Title: title, Unit: unit, About: about, Queries: queries}
}

func stacked(title, unit, about string, queries ...Query) Panel {
	return Panel{Kind: Stacked, Title: title, Unit: unit, About: about, Queries: queries}
}

func stat(title, unit, about, expr string, steps ...Step) Panel {
	return Panel{Kind: Stat, Title: title, Unit: unit, About: about, Queries: []Query{{expr, ""}}, Steps: steps}
}

// word is a stat that says a word.
func word(title, about, expr string, words ...Word) Panel {
	return Panel{Kind: Stat, Title: title, Unit: "none", About: about, Queries: []Query{{expr, ""}}, Words: words}
}

// emptyIf says why a panel may be empty.
func (p Panel) emptyIf(why string) Panel {
	p.Empty = why
	return p
}

// heat returns a panel of a histogram's classes.
func heat(title, unit, about, expr string) Panel {
	return Panel{Kind: Heatmap, Title: title, Unit: unit, About: about, Queries: []Query{{expr, "{{le}}"}}}
}

func at(v float64) *float64 { return &v }

// The colours.
const (
	green  = "green"
	yellow = "yellow"
	red    = "red"
)

// badFrom is green, and red from v on; worseFrom has yellow between.
func badFrom(v float64) []Step { return []Step{{0, green}, {v, red}} }

func worseFrom(warn, bad float64) []Step { return []Step{{0, green}, {warn, yellow}, {bad, red}} }

// goodFrom is red, and green from v on, with yellow between.
func goodFrom(warn, good float64) []Step { return []Step{{0, red}, {warn, yellow}, {good, green}} }

// quantile asks for a quantile of a histogram by the labels given, of which the legend is made.
func quantile(rank, metric, by string) string {
	if by != "" {
		by = ", " + by
	}
	return "histogram_quantile(" + rank + ", sum by (le" + by + ") (rate(" + metric + "_bucket{$}[$__rate_interval])))"
}

// rate asks for how much a counter grows a second, by the labels given.
func rate(metric, by string) string {
	if by != "" {
		by = " by (" + by + ")"
	}
	return "sum" + by + " (rate(" + metric + "[$__rate_interval]))"
}

// grown asks for how much a counter grew in the time that is shown.
func grown(metric string) string { return "sum(increase(" + metric + "[$__range]))" }
