package notifications

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"carillon.dev/carillon/schema"
)

// The longest texts of a message, characters. Names, labels and errors come from tenants and from
// those whom they call.
const (
	maxValue    = 200
	maxErrorSay = 300
	maxName     = 80
	maxText     = 2900 // of a section of Slack, which takes 3000
)

// The states of a message.
const (
	stateFiring   = "firing"
	stateResolved = "resolved"
	stateTest     = "test"
)

// message is what a sink is told.
type message struct {
	row   *schema.NotificationGroup
	rule  *schema.NotificationRule
	state string
	sink  int    // which of the rule's it goes to
	base  string // of links; "": there are none
}

func messageOf(row *schema.NotificationGroup, rule *schema.NotificationRule, test bool) *message {
	m := &message{row: row, rule: rule, state: stateFiring}
	switch {
	case test:
		m.state = stateTest
	case row.Resolved:
		m.state = stateResolved
	}
	return m
}

// say returns a text on one line, without control characters and what turns its direction, at most
// so many characters.
func say(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		return strings.TrimRight(string(runes[:most-1]), " ") + "…"
	}
	return text
}

// title says in one line what the message is about.
func (m *message) title() string {
	what := m.rule.Name
	var of []string
	for _, v := range m.row.Values {
		if v.Value != "" {
			of = append(of, say(v.Value, maxName))
		}
	}
	if len(of) > 0 {
		what += ": " + strings.Join(of, ", ")
	}
	what = say(what, maxValue)
	if n := m.rule.Match.InARow; n > 0 && m.state == stateFiring {
		what += fmt.Sprintf(", at least %d failures in a row", n)
	}
	switch {
	case m.state == stateTest:
		return "Test of " + what
	case m.state == stateResolved:
		return "Resolved " + what
	case m.row.Told == 0:
		return "Still " + what
	}
	return fmt.Sprintf("%d × %s", m.row.Told, what)
}

// summary says how many there were, and since when.
func (m *message) summary() string {
	since := m.row.Since.UTC().Format(time.RFC3339)
	switch {
	case m.state == stateTest:
		return "This is a test: nothing has happened."
	case m.state == stateResolved:
		return fmt.Sprintf("All jobs have succeeded again. There were %d since %s.", m.row.Total, since)
	case m.row.Told == m.row.Total:
		return fmt.Sprintf("%d since %s.", m.row.Total, since)
	}
	return fmt.Sprintf("%d since the last message, %d since %s.", m.row.Told, m.row.Total, since)
}

// lines tell the examples.
func (m *message) lines() (lines []string) {
	if m.state == stateResolved {
		return nil
	}
	for i := range m.row.Examples {
		e := &m.row.Examples[i]
		what := e.Job
		for _, name := range []string{e.Task, e.Step} {
			if what == "" {
				what = name
			}
		}
		line := fmt.Sprintf("%s %s %s run %s", e.At.UTC().Format(time.RFC3339), e.Kind, say(what, maxName), e.Run)
		if e.Error != "" {
			line += ": " + say(e.Error, maxErrorSay)
		}
		lines = append(lines, say(line, 2*maxErrorSay))
	}
	return lines
}

// webhookMessage is the body of a webhook, as Standard Webhooks has it: type, timestamp, data.
type webhookMessage struct {
	Type      string      `json:"type"` // notification.firing, notification.resolved, notification.test
	Timestamp time.Time   `json:"timestamp"`
	Data      webhookData `json:"data"`
}

type webhookData struct {
	Tenant       string            `json:"tenant"`
	Notification string            `json:"notification"`
	Group        string            `json:"group"`
	Labels       map[string]string `json:"labels"` // what is alike in the group
	Number       int64             `json:"number"` // of the message among those of the group
	Count        int64             `json:"count"`  // since the message before
	Total        int64             `json:"total"`  // since the group fires
	Since        time.Time         `json:"since,omitzero"`
	Title        string            `json:"title"`
	Runs         []webhookRun      `json:"runs"` // examples
}

type webhookRun struct {
	schema.NotifiedRun
	URL string `json:"url,omitempty"` // where a person sees it
}

func (m *message) labels() map[string]string {
	labels := make(map[string]string, len(m.row.Values))
	for _, v := range m.row.Values {
		labels[v.Name] = say(v.Value, maxValue)
	}
	return labels
}

func webhookBody(m *message) any {
	runs := make([]webhookRun, len(m.row.Examples))
	for i, e := range m.row.Examples {
		e.Job, e.Task, e.Step, e.Error = say(e.Job, maxName), say(e.Task, maxName), say(e.Step, maxName), say(e.Error, maxErrorSay)
		runs[i] = webhookRun{e, m.link(e.Run)}
	}
	return webhookMessage{
		Type: "notification." + m.state, Timestamp: m.row.At,
		Data: webhookData{
			Tenant: m.row.Tenant, Notification: m.row.Rule, Group: m.row.Name, Labels: m.labels(), Number: m.row.Flush,
			Count: m.row.Told, Total: m.row.Total, Since: m.row.Since, Title: m.title(), Runs: runs,
		},
	}
}

// slackEscapes takes from a text of tenants what Slack would take for a link, a mention or a
// format.
var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "*", "∗", "`", "ˋ", "_", "＿", "~", "∼")

// slackBody: "text" is what a notification shows, the sections are what the channel shows. Slack
// takes 3000 characters in each.
func slackBody(m *message) any {
	type text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	type block struct {
		Type string `json:"type"`
		Text text   `json:"text"`
	}
	title := slackEscapes.Replace(m.title())
	blocks := []block{{"section", text{"mrkdwn", "*" + title + "*\n" + slackEscapes.Replace(m.summary())}}}
	if lines := m.lines(); len(lines) > 0 {
		all := ""
		for i, link := range m.links() {
			line := "• " + slackEscapes.Replace(lines[i])
			if link != "" {
				line += " <" + link + "|open>"
			}
			if len([]rune(all))+len([]rune(line)) < maxText {
				all += line + "\n"
			}
		}
		blocks = append(blocks, block{"section", text{"mrkdwn", strings.TrimSpace(all)}})
	}
	return struct {
		Text   string  `json:"text"`
		Blocks []block `json:"blocks"`
	}{title, blocks}
}

// teamsBody is what the workflow "when a webhook request is received" takes: an adaptive card, at
// most 28 KB. Text runs show what they are given, without formats and links.
func teamsBody(m *message) any {
	type action struct {
		Type string `json:"type"`
		URL  string `json:"url"`
	}
	type inline struct {
		Type   string  `json:"type"`
		Text   string  `json:"text"`
		Weight string  `json:"weight,omitempty"`
		Select *action `json:"selectAction,omitempty"`
	}
	type element struct {
		Type    string   `json:"type"`
		Inlines []inline `json:"inlines"`
	}
	paragraph := func(text, weight string) element {
		return element{"RichTextBlock", []inline{{Type: "TextRun", Text: text, Weight: weight}}}
	}
	elements := []element{paragraph(m.title(), "Bolder"), paragraph(m.summary(), "")}
	links := m.links()
	for i, line := range m.lines() {
		e := paragraph(line, "")
		if links[i] != "" {
			e.Inlines = append(e.Inlines, inline{Type: "TextRun", Text: " open", Select: &action{"Action.OpenUrl", links[i]}})
		}
		elements = append(elements, e)
	}
	type card struct {
		Schema  string    `json:"$schema"`
		Type    string    `json:"type"`
		Version string    `json:"version"`
		Body    []element `json:"body"`
	}
	type attachment struct {
		ContentType string  `json:"contentType"`
		ContentURL  *string `json:"contentUrl"`
		Content     card    `json:"content"`
	}
	return struct {
		Type        string       `json:"type"`
		Attachments []attachment `json:"attachments"`
	}{"message", []attachment{{
		"application/vnd.microsoft.card.adaptive", nil,
		card{"http://adaptivecards.io/schemas/adaptive-card.json", "AdaptiveCard", "1.4", elements},
	}}}
}

// alert is an alert of Alertmanager's API v2.
type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
	Generator   string            `json:"generatorURL,omitempty"` // the first example
}

// alertmanagerBody: one alert a group. It lasts until the message is repeated, and some more.
func alertmanagerBody(m *message) any {
	labels := map[string]string{"alertname": "CarillonNotification", "tenant": m.row.Tenant, "notification": m.row.Rule, "group": m.row.Name}
	for _, v := range m.row.Values {
		// Alertmanager takes a label without a value for none.
		if name := labelName(v.Name); labels[name] == "" {
			labels[name] = say(v.Value, maxValue)
		}
	}
	a := alert{
		Labels: labels, Annotations: map[string]string{"summary": m.title(), "description": strings.Join(append([]string{m.summary()}, m.linkedLines()...), "\n")},
		StartsAt: m.row.Since.UTC(), EndsAt: m.row.At.Add(m.rule.RepeatInterval.Std() + m.rule.GroupInterval.Std()).UTC(),
		Generator: m.firstLink(),
	}
	switch {
	case m.state == stateResolved:
		a.EndsAt = m.row.At
	case m.state == stateTest:
		labels["alertname"], a.EndsAt = "CarillonNotificationTest", m.row.At.Add(time.Minute)
	}
	return []alert{a}
}

// labelName returns the name of a label that Prometheus takes: letters, digits and _.
func labelName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, name)
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}
