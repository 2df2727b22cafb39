package request_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

func TestNotification(t *testing.T) {
	var d request.Decoder
	r, err := d.Notification("t", "n", []byte(`{"on":["failed","recovered"],"match":{"job":"a*","labels":{"team":"b"}},"group_by":["label.team"],
		"sinks":[{"slack":{"url":"https://x.test/a"}},{"webhook":{"url":"https://x.test/b","signing_key":"k","auth":{"bearer":{"secret":"s"}}}}],
		"mute_time_intervals":[{"weekdays":["sunday"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if r.Tenant != "t" || r.Name != "n" || len(r.On) != 2 || r.Match.Job != "a*" || r.GroupBy[0] != "label.team" || len(r.Sinks) != 2 || r.Sinks[1].Webhook.Auth.Bearer.Secret != "s" ||
		r.GroupWait.Std() != 30*time.Second || r.GroupInterval.Std() != 5*time.Minute || r.RepeatInterval.Std() != 4*time.Hour || !r.SendResolved || len(r.Mute) != 1 {
		t.Errorf("rule = %+v", r)
	}
	r, err = d.Notification("t", "n", []byte(`{"on":["dead"],"sinks":[{"pagerduty":{"routing_key_secret":"pd"}},
		{"pagerduty":{"routing_key_secret":"pd","url":"https://events.eu.pagerduty.com/v2/enqueue","severity":"critical","links":[{"href":"https://x.test/runbook","text":"Runbook"}]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if one, two := r.Sinks[0].PagerDuty, r.Sinks[1].PagerDuty; one.RoutingKeySecret != "pd" || one.InForce().URL != schema.DefaultPagerDutyURL || one.InForce().Severity != "error" ||
		two.Severity != "critical" || two.Links[0] != (schema.PagerDutyLink{Href: "https://x.test/runbook", Text: "Runbook"}) {
		t.Errorf("sinks = %+v, %+v", one, two)
	}
	r, err = d.Notification("t", "n", []byte(`{"match":{"in_a_row":3},"on":["failed","dead","recovered"],"sinks":[{"webhook":{"url":"https://x.test/"}}]}`))
	if err != nil || r.Match.InARow != 3 {
		t.Errorf("a rule for three failures in a row = %+v, %v", r.Match, err)
	}
	r, err = d.Notification("t", "n", []byte(`{"match":{"late_by":"5m"},"on":["failed","late"],"sinks":[{"webhook":{"url":"https://x.test/"}}]}`))
	if err != nil || r.Match.LateBy != schema.Duration(5*time.Minute) {
		t.Errorf("a rule for runs that are five minutes late = %+v, %v", r.Match, err)
	}
	r, err = d.Notification("t", "n", []byte(`{"on":["dead"],"sinks":[{"slack":{"url_secret":"slack"}},{"webhook":{"url_secret":"hook","auth":{"mtls":{"certificate_secret":"c","key_secret":"k"}}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if one, two := r.Sinks[0].Slack, r.Sinks[1].Webhook; one.URLSecret != "slack" || one.URL != "" || two.URLSecret != "hook" || two.Auth.MTLS.KeySecret != "k" {
		t.Errorf("sinks with URLs in secrets = %+v, %+v", one, two)
	}
	r, err = d.Notification("t", "n", []byte(`{"on":["dead"],"sinks":[{"teams":{"url":"https://x.test/a"}}],"group_by":[],"send_resolved":false,"group_wait":"0s"}`))
	if err != nil || len(r.GroupBy) != 0 || r.SendResolved || r.GroupWait != 0 {
		t.Errorf("rule = %+v, %v", r, err)
	}
}

// TestFaultsOfANotification: every fault is named, at its place.
func TestFaultsOfANotification(t *testing.T) {
	const sinks = `"sinks":[{"webhook":{"url":"https://x.test/"}}]`
	for name, c := range map[string]struct {
		body string
		want []string // locations
	}{
		"nothing":              {`{}`, []string{"body.on", "body.sinks"}},
		"empty":                {`{"on":[],"sinks":[]}`, []string{"body.on", "body.sinks"}},
		"no kind":              {`{"on":["broken","failed","failed"],` + sinks + `}`, []string{"body.on[0]", "body.on[2]"}},
		"no field":             {`{"on":["failed"],"regex":".*",` + sinks + `}`, []string{"body.regex"}},
		"no sink":              {`{"on":["failed"],"sinks":[{"pigeon":{}},{}]}`, []string{"body.sinks[0].pigeon", "body.sinks[1]"}},
		"two sinks in one":     {`{"on":["failed"],"sinks":[{"slack":{"url":"https://x.test/"},"teams":{"url":"https://x.test/"}}]}`, []string{"body.sinks[0]"}},
		"no URL":               {`{"on":["failed"],"sinks":[{"slack":{}},{"slack":{"url":"ftp://x"}}]}`, []string{"body.sinks[0].slack.url", "body.sinks[1].slack.url"}},
		"a URL in a secret":    {`{"on":["failed"],"sinks":[{"slack":{"url_secret":"s","url":"https://x.test/"}},{"teams":{"url_secret":"https://x.test/s3cret"}},{"webhook":{"url_secret":1}}]}`, []string{"body.sinks[0].slack.url_secret", "body.sinks[1].teams.url_secret", "body.sinks[2].webhook.url_secret"}},
		"a method and a body":  {`{"on":["failed"],"sinks":[{"slack":{"url":"https://x.test/","method":"GET","body":"none"}}]}`, []string{"body.sinks[0].slack.method", "body.sinks[0].slack.body"}},
		"a header with a line": {`{"on":["failed"],"sinks":[{"webhook":{"url":"https://x.test/","headers":{"x":"a\r\nb"}}}]}`, []string{"body.sinks[0].webhook.headers.x"}},
		"pagerduty": {`{"on":["failed"],"sinks":[{"pagerduty":{}},{"pagerduty":{"routing_key_secret":"K","routing_key":"s3cret","severity":"high","url":"http://u:p@x.test/","links":[{"href":"javascript:alert(1)"},{"text":"x"},1]}}]}`, []string{
			"body.sinks[0].pagerduty.routing_key_secret", "body.sinks[1].pagerduty.routing_key_secret", "body.sinks[1].pagerduty.routing_key", "body.sinks[1].pagerduty.severity",
			"body.sinks[1].pagerduty.url", "body.sinks[1].pagerduty.links[0].href", "body.sinks[1].pagerduty.links[1].href", "body.sinks[1].pagerduty.links[2]",
		}},
		"email": {`{"on":["failed"],"sinks":[{"email":{}},{"email":{"to":[],"from":"a@x.test"}},{"email":{"to":["a","a@x.test\r\nBcc: b@x.test","ä@x.test",1,"a@b c"],"server":{}}},
			{"email":{"to":["a@x.test"],"from":"A <a@x.test>","server":{"host":"a b","port":0,"tls":"ssl","username":"u","password":"s3cret"}}},{"email":{"to":["a@x.test"],"from":"a@x.test","server":{"host":"x.test","tls":"none","username":"u","password_secret":"p"}}}]}`, []string{
			"body.sinks[0].email.to", "body.sinks[0].email.server", "body.sinks[1].email.to", "body.sinks[1].email.from",
			"body.sinks[2].email.to[0]", "body.sinks[2].email.to[1]", "body.sinks[2].email.to[2]", "body.sinks[2].email.to[3]", "body.sinks[2].email.to[4]", "body.sinks[2].email.from", "body.sinks[2].email.server.host",
			"body.sinks[3].email.server.host", "body.sinks[3].email.server.port", "body.sinks[3].email.server.tls", "body.sinks[3].email.server.password", "body.sinks[3].email.server",
			"body.sinks[4].email.server.tls",
		}},
		"too many sinks":                   {`{"on":["failed"],"sinks":[` + strings.Repeat(`{"webhook":{"url":"https://x.test/"}},`, 5) + `{"webhook":{"url":"https://x.test/"}}]}`, []string{"body.sinks"}},
		"match":                            {`{"on":["failed"],"match":{"job":"","host":"x","labels":{"a b":"c"}},` + sinks + `}`, []string{"body.match.job", "body.match.host", "body.match.labels.a b"}},
		"in a row":                         {`{"match":{"in_a_row":1},"on":["failed"],` + sinks + `}`, []string{"body.match.in_a_row"}},
		"in a row, no number":              {`{"match":{"in_a_row":"3"},"on":["failed"],` + sinks + `}`, []string{"body.match.in_a_row"}},
		"too many in a row":                {`{"match":{"in_a_row":101},"on":["failed"],` + sinks + `}`, []string{"body.match.in_a_row"}},
		"missed in a row":                  {`{"match":{"in_a_row":2},"on":["failed","missed"],` + sinks + `}`, []string{"body.match.in_a_row"}},
		"late by":                          {`{"match":{"late_by":"999ms"},"on":["late"],` + sinks + `}`, []string{"body.match.late_by"}},
		"late by too much":                 {`{"match":{"late_by":"24h1s"},"on":["late"],` + sinks + `}`, []string{"body.match.late_by"}},
		"late by too little, and not late": {`{"match":{"late_by":"999ms"},"on":["failed"],` + sinks + `}`, []string{"body.match.late_by", "body.match.late_by"}},
		"in a row too few, and not failed": {`{"match":{"in_a_row":1},"on":["late"],` + sinks + `}`, []string{"body.match.in_a_row", "body.match.in_a_row"}},
		"late by, and not late":            {`{"match":{"late_by":"1m"},"on":["failed","missed"],` + sinks + `}`, []string{"body.match.late_by"}},
		"group by":                         {`{"on":["failed"],"group_by":["host","label.","label.a b"],` + sinks + `}`, []string{"body.group_by[0]", "body.group_by[1]", "body.group_by[2]"}},
		"times":                            {`{"on":["failed"],"group_wait":"-1s","group_interval":"1s","repeat_interval":"1000h","send_resolved":"no",` + sinks + `}`, []string{"body.group_wait", "body.group_interval", "body.repeat_interval", "body.send_resolved"}},
		"mute":                             {`{"on":["failed"],"mute_time_intervals":[{},{"weekdays":["x"]},{"at":"now"},{"times":[{"start_time":"1"}]}],` + sinks + `}`, []string{"body.mute_time_intervals[0]", "body.mute_time_intervals[1].weekdays", "body.mute_time_intervals[2].at", "body.mute_time_intervals[3].times"}},
		"not what it should be":            {`{"on":"failed","match":[],"sinks":{},"group_by":"job","mute_time_intervals":1}`, []string{"body.on", "body.match", "body.sinks", "body.group_by", "body.mute_time_intervals"}},
	} {
		t.Run(name, func(t *testing.T) {
			var d request.Decoder
			_, err := d.Notification("t", "n", []byte(c.body))
			var faults bucketer.Faults
			if !errors.As(err, &faults) {
				t.Fatalf("err = %v, want faults", err)
			}
			var got []string
			for _, f := range faults {
				got = append(got, f.Location)
			}
			if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(c.want))) {
				t.Errorf("faults = %v, want at %v", faults, c.want)
			}
		})
	}
	var d request.Decoder
	if _, err := d.Notification("t", "No", []byte(`{"on":["failed"],`+sinks+`}`)); err == nil || !strings.Contains(err.Error(), "path.name") {
		t.Errorf("a bad name: %v", err)
	}
	if _, err := d.Task("t", "n", []byte(`{"http":{"url_secret":"s"}}`)); err == nil || !strings.Contains(err.Error(), "body.http.url_secret") || !strings.Contains(err.Error(), "body.http.url is missing") {
		t.Errorf("a task whose URL is in a secret: %v, want both faults", err)
	}
	if schema.MaxNotificationSinks != 5 {
		t.Error("this test knows of 5 sinks")
	}
}

func TestNotificationByMail(t *testing.T) {
	d := request.Decoder{Rules: request.Rules{MailServer: true}}
	r, err := d.Notification("t", "n", []byte(`{"on":["failed"],"sinks":[{"email":{"to":["a@x.test","B <b@x.test>"]}},
		{"email":{"to":["a@x.test"],"from":"Carillon <c@x.test>","server":{"host":"smtp.x.test","username":"u","password_secret":"p","ca_secret":"ca"}}},
		{"email":{"to":["a@x.test"],"from":"c@x.test","server":{"host":"::1","tls":"implicit"}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if e := r.Sinks[0].Email; len(e.To) != 2 || e.Server != nil {
		t.Errorf("by the operator's server: %+v", e)
	}
	if e := r.Sinks[1].Email.Server.InForce(); e.Port != 587 || e.TLS != schema.StartTLS || e.PasswordSecret != "p" || e.CASecret != "ca" {
		t.Errorf("by another: %+v", e)
	}
	if e := r.Sinks[2].Email.Server.InForce(); e.Port != 465 {
		t.Errorf("by TLS from the first byte on: %+v", e)
	}
	_, work := r.Sinks[1].Target()
	if got := work.Secrets(); len(got) != 2 || got[0] != "p" || got[1] != "ca" {
		t.Errorf("secrets = %q", got)
	}
}
