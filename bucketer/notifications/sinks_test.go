package notifications

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"carillon.dev/carillon/schema"
)

// hostile is what tenants, and those whom they call, may put into names, labels and errors.
const hostile = "a\r\nX-Injected: 1\r\n\r\n<!channel> <https://evil.test|ok> *b* `c` _d_ ~e~ [f](https://evil.test) \u202egnp.exe\x00\x1b[31m & \"quoted\" \\ {{ .g }}"

// largest is a message in which everything is as long as it may be, or longer.
func largest(text string) *message {
	long := strings.Repeat(text, 1+1000/len(text))
	row := &schema.NotificationGroup{
		Tenant: "t", Name: "n/1", Rule: strings.Repeat("n", 63), Flush: 3, Told: 1e9, Total: 1e12,
		Since: time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC), At: time.Date(2026, 11, 27, 10, 5, 0, 0, time.UTC),
	}
	for _, way := range []string{byJob, byTask, byWorkflow, byKind, byError, "label.a/b", "label.a_b", "label.1"} {
		row.Values = append(row.Values, schema.NotificationValue{Name: way, Value: long})
	}
	for range schema.MaxNotifiedRuns {
		row.Examples = append(row.Examples, schema.NotifiedRun{Kind: schema.NotifyFailed, At: row.At, Job: long, Task: long, Step: long, Error: long})
	}
	rule := &schema.NotificationRule{Name: row.Rule, RepeatInterval: schema.Duration(4 * time.Hour), GroupInterval: schema.Duration(5 * time.Minute)}
	return messageOf(row, rule, false)
}

// textsOf returns every text in a JSON document, and every name.
func textsOf(v any) (texts []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v {
			texts = append(texts, textsOf(e)...)
		}
	case map[string]any:
		for name, e := range v {
			texts = append(append(texts, name), textsOf(e)...)
		}
	}
	return texts
}

// sinkOf returns a sink of that name.
func sinkOf(t *testing.T, name string) *schema.NotificationSink {
	t.Helper()
	call := &schema.HTTPTarget{URL: "https://x.test/"}
	for _, s := range []schema.NotificationSink{{Webhook: call}, {Slack: call}, {Teams: call}, {Alertmanager: call}, {PagerDuty: &schema.PagerDutySink{RoutingKeySecret: "pd"}}, {Email: &schema.EmailTarget{To: []string{"a@x.test"}}}} {
		if is, _ := s.Target(); is == name {
			return &s
		}
	}
	t.Fatalf("this test knows no sink %s", name)
	return nil
}

// TestBodiesAreBoundedAndHarmless: whatever names and errors hold, bodies are within the limits of
// the sinks, and nothing in them breaks out of its place.
func TestBodiesAreBoundedAndHarmless(t *testing.T) {
	most := map[string]int{schema.SinkWebhook: schema.MaxPayload, schema.SinkSlack: 16 << 10, schema.SinkTeams: 28 << 10, schema.SinkAlertmanager: schema.MaxPayload, schema.SinkPagerDuty: schema.MaxPayload, schema.SinkEmail: schema.MaxPayload}
	for _, text := range []string{"x", "ü", "𝄞", hostile, "<>&"} {
		for _, sink := range schema.NotificationSinks {
			body, err := bodyFor(sinkOf(t, sink), largest(text))
			if err != nil {
				t.Fatalf("%s: %v", sink, err)
			}
			if len(body) > most[sink] {
				t.Errorf("%s of %.10q has %d bytes, want at most %d", sink, text, len(body), most[sink])
			}
			var v any
			if err := json.Unmarshal(body, &v); err != nil {
				t.Fatalf("%s: %v", sink, err)
			}
			for _, said := range textsOf(v) {
				said = strings.ReplaceAll(said, "\n", "")
				if strings.ContainsAny(said, "\r\x00\x1b\u202e") && !strings.Contains(string(body), `"runs"`) {
					t.Errorf("%s says %q, want no control characters", sink, said)
				}
				if sink == schema.SinkSlack && (strings.Contains(said, "<") || strings.Count(said, "*") > 2 || strings.ContainsAny(said, "`~_")) {
					t.Errorf("slack is told %q, which it takes for a link, a mention or a format", said)
				}
				if sink == schema.SinkSlack && utf8.RuneCountInString(said) > 3000 {
					t.Errorf("a text of slack has %d characters, want at most 3000", utf8.RuneCountInString(said))
				}
			}
		}
	}
}

func TestLabelsOfAlerts(t *testing.T) {
	for name, want := range map[string]string{"job": "job", "label.a/b": "label_a_b", "1": "_1", "ü": "_", "": "_"} {
		if got := labelName(name); got != want {
			t.Errorf("labelName(%q) = %q, want %q", name, got, want)
		}
	}
	m := largest("x")
	m.row.Values = append(m.row.Values, schema.NotificationValue{Name: "alertname", Value: "mine"}, schema.NotificationValue{Name: "tenant", Value: "other"})
	a := alertmanagerBody(m).([]alert)[0]
	if a.Labels["alertname"] != "CarillonNotification" || a.Labels["tenant"] != "t" || !a.EndsAt.Equal(m.row.At.Add(4*time.Hour+5*time.Minute)) {
		t.Errorf("alert = %+v, want its own name and tenant, for as long as nothing is repeated", a)
	}
	m.row.Resolved = true
	if a := alertmanagerBody(messageOf(m.row, m.rule, false)).([]alert)[0]; !a.EndsAt.Equal(m.row.At) {
		t.Errorf("a resolved alert ends at %s, want %s", a.EndsAt, m.row.At)
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true},
		{"a", "ab", false},
		{"a*", "a", true},
		{"a*", "ab", true},
		{"*b", "ab", true},
		{"a*c*e", "abcde", true},
		{"a*c*e", "abcdef", false},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"*", "", true},
		{"**", "x", true},
		{"", "x", false},
		{"[a]", "a", false},
		{".*", "x", false},
		{strings.Repeat("*a", 100) + "b", strings.Repeat("a", 255), false}, // bounded by the product of both
	} {
		if got := glob(c.pattern, c.text); got != c.want {
			t.Errorf("glob(%q, %q) = %v", c.pattern, c.text, got)
		}
	}
}

func TestMute(t *testing.T) {
	at := func(text string) time.Time {
		v, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	const friday = "2026-11-27T22:30:00Z"
	for name, c := range map[string]struct {
		mute schema.MuteTimeInterval
		at   string
		want bool
	}{
		"in the times":          {schema.MuteTimeInterval{Times: []schema.MuteTimes{{StartTime: "22:00", EndTime: "24:00"}}}, friday, true},
		"the end is not in it":  {schema.MuteTimeInterval{Times: []schema.MuteTimes{{StartTime: "22:00", EndTime: "22:30"}}}, friday, false},
		"in a zone":             {schema.MuteTimeInterval{Times: []schema.MuteTimes{{StartTime: "23:00", EndTime: "24:00"}}, Location: "Europe/Berlin"}, friday, true},
		"weekdays":              {schema.MuteTimeInterval{Weekdays: []string{"monday:friday"}}, friday, true},
		"weekdays, others":      {schema.MuteTimeInterval{Weekdays: []string{"saturday", "sunday"}}, friday, false},
		"weekdays in a zone":    {schema.MuteTimeInterval{Weekdays: []string{"saturday"}, Location: "Asia/Tokyo"}, friday, true},
		"the end of the month":  {schema.MuteTimeInterval{DaysOfMonth: []string{"-4:-1"}}, friday, true},
		"its last three days":   {schema.MuteTimeInterval{DaysOfMonth: []string{"-3:-1"}}, friday, false},
		"from a day to its end": {schema.MuteTimeInterval{DaysOfMonth: []string{"20:-1"}}, friday, true},
		"months":                {schema.MuteTimeInterval{Months: []string{"october:12"}}, friday, true},
		"years":                 {schema.MuteTimeInterval{Years: []string{"2027:2028"}}, friday, false},
		"all must fit":          {schema.MuteTimeInterval{Months: []string{"november"}, Weekdays: []string{"sunday"}}, friday, false},
	} {
		if field, fault := MuteFault(&c.mute); fault != "" {
			t.Errorf("%s: %s %s", name, field, fault)
		}
		if got := isMute(&schema.NotificationRule{Mute: []schema.MuteTimeInterval{c.mute}}, at(c.at)); got != c.want {
			t.Errorf("%s: mute = %v, want %v", name, got, c.want)
		}
	}
	for name, c := range map[string]struct {
		mute schema.MuteTimeInterval
		want string
	}{
		"no time":            {schema.MuteTimeInterval{Times: []schema.MuteTimes{{StartTime: "9:00", EndTime: "10:00"}}}, "times"},
		"after the day":      {schema.MuteTimeInterval{Times: []schema.MuteTimes{{StartTime: "09:00", EndTime: "24:01"}}}, "times"},
		"beyond midnight":    {schema.MuteTimeInterval{Times: []schema.MuteTimes{{StartTime: "22:00", EndTime: "06:00"}}}, "times"},
		"no weekday":         {schema.MuteTimeInterval{Weekdays: []string{"mon"}}, "weekdays"},
		"weekdays backwards": {schema.MuteTimeInterval{Weekdays: []string{"friday:monday"}}, "weekdays"},
		"no day":             {schema.MuteTimeInterval{DaysOfMonth: []string{"0"}}, "days_of_month"},
		"days backwards":     {schema.MuteTimeInterval{DaysOfMonth: []string{"-1:1"}}, "days_of_month"},
		"no month":           {schema.MuteTimeInterval{Months: []string{"13"}}, "months"},
		"no year":            {schema.MuteTimeInterval{Years: []string{"26"}}, "years"},
		"no zone":            {schema.MuteTimeInterval{Location: "Mars/North"}, "location"},
		"the node's zone":    {schema.MuteTimeInterval{Location: "Local"}, "location"},
	} {
		if field, fault := MuteFault(&c.mute); field != c.want || fault == "" {
			t.Errorf("%s: fault of %q: %q, want one of %s", name, field, fault, c.want)
		}
	}
}

// TestEmailBody: what tenants, and those whom they call, say is text in the HTML of a mail, and a
// subject is a line.
func TestEmailBody(t *testing.T) {
	m := largest(hostile)
	mail := emailBody(m).(schema.Email)
	if strings.ContainsAny(mail.Subject, "\r\n\x00\x1b") || mail.Subject == "" || utf8.RuneCountInString(mail.Subject) > 300 {
		t.Errorf("subject = %q", mail.Subject)
	}
	for _, tag := range strings.Split(mail.HTML, "<")[1:] {
		name, _, _ := strings.Cut(tag, ">")
		switch strings.TrimPrefix(name, "/") {
		case "!DOCTYPE html", "html", "head", `meta charset="utf-8"`, "body", "h3", "p", "ul", "li":
		default:
			t.Errorf("the HTML has a tag %q", name)
		}
	}
	for _, text := range []string{mail.Text, mail.HTML} {
		if strings.ContainsAny(text, "\r\x00\x1b\u202e") || !strings.Contains(text, "evil.test") {
			t.Errorf("a mail says %q", text)
		}
	}
}

// TestLinks: messages link to the runs that they tell of, in every sink, if there is a public URL
// of the console, and stay within the limits of the sinks.
func TestLinks(t *testing.T) {
	run := schema.MakeEntryID(time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC), 1, 7)
	link := "https://c.example.com/x/console/#/runs/" + run.String() + "?tenant=t"
	for _, sink := range schema.NotificationSinks {
		m := largest("ü")
		for i := range m.row.Examples {
			m.row.Examples[i].Run = run
		}
		plain, err := bodyFor(sinkOf(t, sink), m)
		if err != nil || strings.Contains(string(plain), "http") && strings.Contains(string(plain), "/console/") {
			t.Errorf("%s without a public URL: %v, %s", sink, err, plain)
		}
		m.base = "https://c.example.com/x"
		body, err := bodyFor(sinkOf(t, sink), m)
		if err != nil {
			t.Fatalf("%s: %v", sink, err)
		}
		var v any
		if err := json.Unmarshal(body, &v); err != nil {
			t.Fatalf("%s: %v", sink, err)
		}
		all := strings.Join(textsOf(v), "\n")
		if n := strings.Count(all, link); n == 0 {
			t.Errorf("%s does not link to %s:\n%s", sink, link, all)
		}
		if sink == schema.SinkTeams && len(body) > 28<<10 {
			t.Errorf("%s with links has %d bytes", sink, len(body))
		}
		m.row.Examples[0].Run = schema.RunID{} // a test has no run
		if body, err = bodyFor(sinkOf(t, sink), m); err != nil || strings.Contains(string(body), "/runs/00000000") {
			t.Errorf("%s links to no run: %v", sink, err)
		}
	}
	m := largest("x")
	m.base, m.row.Examples = "https://c.example.com", []schema.NotifiedRun{{Kind: schema.NotifyFailed, Run: run, Job: `a"><script>`, Error: "<x>"}}
	if said := m.html(); !strings.Contains(said, `<a href="https://c.example.com/console/#/runs/`+run.String()+`?tenant=t">open</a></li>`) || strings.Contains(said, "<script") {
		t.Errorf("the mail is %s, want its link, and texts as texts", said)
	}
	for _, b := range slackSections(t, m) {
		if strings.Count(b, "<") > 1 || strings.Contains(b, "<x>") {
			t.Errorf("slack is told %q, want one link and no other", b)
		}
	}
	a := alertmanagerBody(m).([]alert)[0]
	if a.Generator != m.link(run) || !strings.Contains(a.Annotations["description"], m.link(run)) {
		t.Errorf("the alert is %+v, want its link", a)
	}
}

// slackSections returns the texts of a message to Slack.
func slackSections(t *testing.T, m *message) (texts []string) {
	t.Helper()
	text, err := json.Marshal(slackBody(m))
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Blocks []struct{ Text struct{ Text string } }
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	for _, b := range v.Blocks {
		texts = append(texts, b.Text.Text)
	}
	return texts
}
