package dashboards

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	statpanel "github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/text"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// Sizes on Grafana's grid of 24 columns.
const (
	gridWidth   = 24
	textWidth   = 6
	statHeight  = 5
	panelWidth  = 8
	panelHeight = 8
)

// tag is what the menu of dashboards finds ours by.
const tag = "carillon"

// runbooks is where people read on.
const runbooks = "deploy/monitoring/RUNBOOKS.md"

var source = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}

// Render returns the JSON of a dashboard, to be imported into Grafana.
func (d *Dashboard) Render() ([]byte, error) {
	b := dashboard.NewDashboardBuilder("Carillon: "+d.Title).
		Uid(d.UID).Description(d.About).Tags([]string{tag}).Readonly().
		Time("now-1h", "now").Refresh("30s").Timezone(common.TimeZoneBrowser).
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Link(dashboard.NewDashboardLinkBuilder("Carillon").Type(dashboard.DashboardLinkTypeDashboards).
			Tags([]string{tag}).AsDropdown(true).IncludeVars(true).KeepTime(true)).
		Link(dashboard.NewDashboardLinkBuilder("Console").Type(dashboard.DashboardLinkTypeLink).
			Url("${console}").TargetBlank(true).Tooltip("The runs themselves"))
	for _, v := range d.variables() {
		b.WithVariable(v)
	}
	id := uint32(0)
	next := func() uint32 { id++; return id }
	b.WithPanel(text.NewPanelBuilder().Id(next()).Title("How to read this").Description(d.About).
		Mode(text.TextModeMarkdown).Content(d.Read + "\n\nAlerts and what to do: `" + runbooks + "`.").
		GridPos(dashboard.GridPos{X: 0, Y: 0, W: textWidth, H: statHeight}))
	x, y := uint32(textWidth), uint32(0)
	width := uint32((gridWidth - textWidth) / len(d.Answer))
	for i := range d.Answer {
		p, err := d.Answer[i].builder(next(), dashboard.GridPos{X: x, Y: y, W: width, H: statHeight})
		if err != nil {
			return nil, err
		}
		b.WithPanel(p)
		x += width
	}
	y += statHeight
	for _, s := range d.Sections {
		b.WithRow(dashboard.NewRowBuilder(s.Title).Id(next()).GridPos(dashboard.GridPos{X: 0, Y: y, W: gridWidth, H: 1}))
		y++
		for i := range s.Panels {
			at := uint32(i)
			p, err := s.Panels[i].builder(next(), dashboard.GridPos{
				X: at % 3 * panelWidth, Y: y + at/3*panelHeight, W: panelWidth, H: panelHeight,
			})
			if err != nil {
				return nil, err
			}
			b.WithPanel(p)
		}
		y += uint32(len(s.Panels)+2) / 3 * panelHeight
	}
	built, err := b.Build()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.UID, err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(built); err != nil {
		return nil, fmt.Errorf("%s: %w", d.UID, err)
	}
	return out.Bytes(), nil
}

// variables returns what is chosen at the top: data source, cluster, job of Prometheus, node. A
// label that nothing has is matched by .*, so installations without a cluster label see everything.
func (d *Dashboard) variables() []cog.Builder[dashboard.VariableModel] {
	query := func(name, label, ask string) *dashboard.QueryVariableBuilder {
		return dashboard.NewQueryVariableBuilder(name).Label(label).Datasource(source).
			Query(dashboard.StringOrMap{String: cog.ToPtr(ask)}).
			Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortNaturalAsc)
	}
	all := func(v *dashboard.QueryVariableBuilder) *dashboard.QueryVariableBuilder {
		return v.Multi(true).IncludeAll(true).AllValue(".*").Current(dashboard.VariableOption{
			Text: dashboard.StringOrArrayOfString{String: cog.ToPtr("All")}, Value: dashboard.StringOrArrayOfString{String: cog.ToPtr("$__all")},
		})
	}
	vars := []cog.Builder[dashboard.VariableModel]{
		dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus"),
		all(query("cluster", "Cluster", `label_values(carillon_build_info, cluster)`)),
		all(query("job", "Job", `label_values(carillon_build_info{cluster=~"$cluster"}, job)`)),
		all(query("instance", "Node", `label_values(carillon_build_info{cluster=~"$cluster",job=~"$job"}, instance)`)),
		dashboard.NewTextBoxVariableBuilder("console").Label("Console").DefaultValue(dashboard.StringOrMap{String: cog.ToPtr("http://localhost:8080/console/")}),
	}
	if d.Tenant {
		vars = append(vars, query("tenant", "Tenant", `label_values(carillon_tenant_due_total{`+selector+`}, tenant)`))
	}
	return vars
}

// builder returns the panel for Grafana.
func (p *Panel) builder(id uint32, place dashboard.GridPos) (cog.Builder[dashboard.Panel], error) {
	switch p.Kind {
	case Stat:
		b := statpanel.NewPanelBuilder().Id(id).Title(p.Title).Description(p.About).Unit(p.Unit).Datasource(source).GridPos(place).
			ColorMode(common.BigValueColorModeBackground).GraphMode(common.BigValueGraphModeNone).TextMode(common.BigValueTextModeValue).
			ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
			Thresholds(thresholds(p.Steps)).NoValue("nothing yet")
		if len(p.Words) > 0 {
			b.Mappings(mappings(p.Words))
		}
		for i := range p.Queries {
			b.WithTarget(p.target(i).Instant())
		}
		return b, nil
	case Heatmap:
		b := heatmap.NewPanelBuilder().Id(id).Title(p.Title).Description(p.About).Datasource(source).GridPos(place).
			Calculate(false).YAxis(heatmap.NewYAxisConfigBuilder().Unit(p.Unit)).
			Color(heatmap.NewHeatmapColorOptionsBuilder().Mode(heatmap.HeatmapColorModeScheme).Scheme("Oranges").Steps(64).Scale(heatmap.HeatmapColorScaleExponential).Exponent(.5)).
			ShowLegend()
		for i := range p.Queries {
			b.WithTarget(p.target(i).Format(prometheus.PromQueryFormatHeatmap).Range())
		}
		return b, nil
	case Lines, Stacked:
		b := timeseries.NewPanelBuilder().Id(id).Title(p.Title).Description(p.About).Unit(p.Unit).Datasource(source).GridPos(place).
			LineWidth(1).FillOpacity(10).ShowPoints(common.VisibilityModeNever).AxisSoftMin(0).
			Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeTable).
				Placement(common.LegendPlacementBottom).Calcs([]string{"lastNotNull", "max"})).
			Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
		if p.Kind == Stacked {
			b.FillOpacity(60).Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal).Group("A"))
		}
		if len(p.Steps) > 0 {
			b.Thresholds(thresholds(p.Steps)).ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))
		}
		for i := range p.Queries {
			b.WithTarget(p.target(i).Range())
		}
		return b, nil
	}
	return nil, fmt.Errorf("%s: there is no kind %d", p.Title, p.Kind)
}

func (p *Panel) target(i int) *prometheus.DataqueryBuilder {
	t := prometheus.NewDataqueryBuilder().RefId(string(rune('A' + i))).Datasource(source).Expr(Expand(p.Queries[i].Expr))
	if legend := p.Queries[i].Legend; legend != "" {
		t.LegendFormat(legend)
	}
	return t
}

// thresholds returns colours by value.
func thresholds(steps []Step) *dashboard.ThresholdsConfigBuilder {
	if len(steps) == 0 {
		steps = []Step{{0, green}}
	}
	all := make([]dashboard.Threshold, len(steps))
	for i, s := range steps {
		all[i] = dashboard.Threshold{Value: cog.ToPtr(s.From), Color: s.Color}
	}
	all[0].Value = nil // from below
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(all)
}

// mappings returns words by value; no series, and a share of nothing, is a word as well.
func mappings(words []Word) []dashboard.ValueMapping {
	all := []dashboard.ValueMapping{{SpecialValueMap: &dashboard.SpecialValueMap{
		Type: dashboard.MappingTypeSpecialValue,
		Options: dashboard.DashboardSpecialValueMapOptions{
			Match: dashboard.SpecialValueMatchNullAndNan, Result: dashboard.ValueMappingResult{Text: cog.ToPtr("nothing yet")},
		},
	}}}
	for i, w := range words {
		all = append(all, dashboard.ValueMapping{RangeMap: &dashboard.RangeMap{
			Type: dashboard.MappingTypeRangeToText,
			Options: dashboard.DashboardRangeMapOptions{From: w.From, To: w.To, Result: dashboard.ValueMappingResult{
				Text: cog.ToPtr(w.Text), Color: cog.ToPtr(w.Color), Index: cog.ToPtr(int32(i + 1)),
			}},
		}})
	}
	return all
}
