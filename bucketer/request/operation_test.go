package request

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/schema"
)

func TestDecodeOperation(t *testing.T) {
	from := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for name, row := range map[string]struct {
		body string
		want schema.OperationSpec
	}{
		"every job": {`{"action":"pause","filter":{}}`, schema.OperationSpec{Action: "pause"}},
		"some jobs": {
			`{"action":"trigger","filter":{"state":"active","label":"team=a=b","name_prefix":"n-"},"dry_run":true}`,
			schema.OperationSpec{Action: "trigger", DryRun: true, Filter: schema.OperationFilter{State: "active", Label: "team=a=b", NamePrefix: "n-"}},
		},
		"no dry run": {`{"action":"resume","filter":{"state":"paused"},"dry_run":false}`, schema.OperationSpec{Action: "resume", Filter: schema.OperationFilter{State: "paused"}}},
		"runs": {
			`{"action":"cancel","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-12-22T00:00:00Z","state":"pending","task":"t"}}`,
			schema.OperationSpec{Action: "cancel", Filter: schema.OperationFilter{From: from, To: from.Add(31 * 24 * time.Hour), State: "pending", Task: "t"}},
		},
		"failed runs": {
			`{"action":"retry","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z"}}`,
			schema.OperationSpec{Action: "retry", Filter: schema.OperationFilter{From: from, To: from.Add(time.Hour), State: "failed"}},
		},
		"runs in detail": {
			`{"action":"cancel","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","states":["pending","stuck"],"label":"a=b","labels":["c=d=e","f="],"job":"nightly","host":"Api.example.com:8443","late":"5s","key":"k 1"}}`,
			schema.OperationSpec{Action: "cancel", Filter: schema.OperationFilter{
				From: from, To: from.Add(time.Hour), States: []string{"pending", "stuck"}, Label: "a=b", Labels: []string{"c=d=e", "f="}, Job: "nightly", Host: "Api.example.com:8443", Late: "5s", Key: "k 1",
			}},
		},
		"runs of a job that have ended": {
			`{"action":"retry","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","states":["failed","missed"],"job":"01932e5a-7c00-7003-8d2f-5a1b9c3e7f60"}}`,
			schema.OperationSpec{Action: "retry", Filter: schema.OperationFilter{From: from, To: from.Add(time.Hour), States: []string{"failed", "missed"}, Job: "01932e5a-7c00-7003-8d2f-5a1b9c3e7f60"}},
		},
		"dead letters of a job, with labels": {
			`{"action":"replay","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","label":"team=billing","labels":["a=b"],"job":"nightly"}}`,
			schema.OperationSpec{Action: "replay", Filter: schema.OperationFilter{From: from, To: from.Add(time.Hour), Label: "team=billing", Labels: []string{"a=b"}, Job: "nightly"}},
		},
		"dead letters with a text": {
			`{"action":"replay","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","error":"Card declined: 100%","label":"a=b"}}`,
			schema.OperationSpec{Action: "replay", Filter: schema.OperationFilter{From: from, To: from.Add(time.Hour), Error: "Card declined: 100%", Label: "a=b"}},
		},
		"dead letters of one error": {
			`{"action":"discard","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","task":"t","error_pattern":"card <n> is \u0065xpired"}}`,
			schema.OperationSpec{Action: "discard", Filter: schema.OperationFilter{From: from, To: from.Add(time.Hour), Task: "t", ErrorPattern: "card <n> is expired"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := new(Decoder).Operation([]byte(row.body))
			if diff := cmp.Diff(row.want, got); err != nil || diff != "" {
				t.Errorf("Operation(%s) = %v (-want +got):\n%s", row.body, err, diff)
			}
		})
	}
	for name, row := range map[string]struct {
		body string
		want []string
	}{
		"nothing":           {`{}`, []string{"body.action is missing", "body.filter is missing"}},
		"no filter":         {`{"action":"cancel"}`, []string{"body.filter is missing"}},
		"an unknown action": {`{"action":"delete","filter":{}}`, []string{"body.action must be one of cancel, pause"}},
		"replay of all":     {`{"action":"replay","filter":{}}`, []string{"body.filter.from is missing", "body.filter.to is missing"}},
		"discard by state":  {`{"action":"discard","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","state":"failed"}}`, []string{"body.filter.state selects runs, and not dead letters"}},
		"replay of jobs":    {`{"action":"replay","filter":{"label":"a=b","name_prefix":"n"}}`, []string{"body.filter.name_prefix selects jobs", "body.filter.from is missing", "body.filter.to is missing"}},
		"replay of what has no such label": {
			`{"action":"replay","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","label":"team","labels":["=b","a=1","a=2"],"job":"A job"}}`,
			[]string{"body.filter.job is neither an id nor a name", "body.filter.label must be a name", "body.filter.labels[0] must be a name", "body.filter.labels[2] is another value"},
		},
		"the wrong types": {`{"action":1,"filter":[],"dry_run":"yes","x":1}`, []string{"body.action must be a string", "body.dry_run must be true or false", "body.x is not a field", "body.filter must be an object"}},
		"states of runs":  {`{"action":"pause","filter":{"state":"pending"}}`, []string{"body.filter.state must be one of active, paused"}},
		"errors of runs":  {`{"action":"retry","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","error_pattern":"a"}}`, []string{"body.filter.error_pattern selects dead letters"}},
		"no error":        {`{"action":"replay","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","error_pattern":""}}`, []string{"body.filter.error_pattern must not be empty"}},
		"a long error":    {`{"action":"replay","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","error_pattern":"` + strings.Repeat("ä", 121) + `"}}`, []string{"body.filter.error_pattern must be at most 120 characters"}},
		"texts of runs":   {`{"action":"retry","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","error":"a"}}`, []string{"body.filter.error selects dead letters"}},
		"texts of jobs":   {`{"action":"pause","filter":{"error":"a"}}`, []string{"body.filter.error selects dead letters"}},
		"no text":         {`{"action":"discard","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","error":""}}`, []string{"body.filter.error must not be empty"}},
		"a text of lines": {`{"action":"discard","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","error":"a\nb","error_pattern":""}}`, []string{"body.filter.error_pattern must not be empty", "body.filter.error must be a part of one line"}},
		"a long text":     {`{"action":"discard","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","error":"` + strings.Repeat("ä", 257) + `"}}`, []string{"body.filter.error must be at most 256 characters"}},
		"a number":        {`{"action":"discard","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","error":402}}`, []string{"body.filter.error must be a string"}},
		"a bad label":     {`{"action":"pause","filter":{"label":"=a"}}`, []string{"body.filter.label must be a name"}},
		"a long prefix":   {`{"action":"pause","filter":{"name_prefix":"` + strings.Repeat("a", 64) + `"}}`, []string{"body.filter.name_prefix must be at most 63"}},
		"a field of none": {`{"action":"pause","filter":{"jobs":"a"}}`, []string{"body.filter.jobs is not a field"}},
		"retry of jobs":   {`{"action":"retry","filter":{"label":"a=b"}}`, []string{"body.filter.from is missing", "body.filter.to is missing"}},
		"jobs by what runs have": {
			`{"action":"pause","filter":{"states":["pending"],"labels":["a=b"],"job":"a","host":"h","late":"5s","key":"k"}}`,
			[]string{"body.filter.states selects runs: state from", "body.filter.labels selects runs: state from", "body.filter.job selects runs: state from", "body.filter.host selects runs: state from", "body.filter.late selects runs: state from", "body.filter.key selects runs: state from"},
		},
		"dead letters by what runs have": {
			`{"action":"discard","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","label":"a=b","states":["failed"],"labels":["c=d"],"job":"a","host":"h","late":"5s","key":"k"}}`,
			[]string{"body.filter.states selects runs, and not", "body.filter.host selects runs, and not", "body.filter.late selects runs, and not", "body.filter.key selects runs, and not"},
		},
		"faulty words": {
			`{"action":"cancel","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","task":"A B","job":"a b","host":"http://h/","late":"-5s","key":"a\u0000","label":"a","labels":["=b","c=d","c=e"],"states":["pending","failed"]}}`,
			[]string{
				"body.filter.job is neither an id nor a name", "body.filter.task must be 1 to 63", "body.filter.host must be a host", "body.filter.label must be a name", "body.filter.labels[0] must be a name",
				"body.filter.labels[2] is another value", "body.filter.late must not be negative", "body.filter.key must be UTF-8", "body.filter.states[1] must be one of pending",
			},
		},
		"words that are none": {
			`{"action":"cancel","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","task":"","job":"","host":"","late":"","key":"","labels":[],"states":"pending"}}`,
			[]string{
				"body.filter.task must not be empty", "body.filter.job must not be empty", "body.filter.host must not be empty", "body.filter.late must not be empty", "body.filter.key must not be empty",
				"body.filter.labels must not be empty", "body.filter.states must be an array",
			},
		},
		"long words": {
			`{"action":"cancel","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","late":"` + strings.Repeat("1s", 17) + `","key":"` + strings.Repeat("k", 129) + `","labels":[` + strings.Repeat(`"a=b",`, 16) + `"a=b"],"states":[1]}}`,
			[]string{"body.filter.late must be at most 32", "body.filter.labels must be at most 16", "body.filter.states[0] must be a string", "body.filter.key must be at most 128"},
		},
		"state and states": {`{"action":"retry","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","state":"failed","states":["missed"]}}`, []string{"body.filter.states cannot be stated beside state"}},
		"no end":           {`{"action":"cancel","filter":{"from":"2026-11-21T00:00:00Z"}}`, []string{"body.filter.to is missing"}},
		"backwards":        {`{"action":"cancel","filter":{"from":"2026-11-21T01:00:00Z","to":"2026-11-21T01:00:00Z"}}`, []string{"body.filter.to must be after from"}},
		"too long":         {`{"action":"cancel","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-12-22T00:00:01Z"}}`, []string{"body.filter.to must be at most 31 days"}},
		"odd times":        {`{"action":"cancel","filter":{"from":"a","to":5}}`, []string{"body.filter.from must be an RFC 3339", "body.filter.to must be a string"}},
		"pause of runs":    {`{"action":"pause","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z"}}`, []string{"body.filter selects runs"}},
		"task of jobs":     {`{"action":"pause","filter":{"task":"a"}}`, []string{"body.filter.task selects runs"}},
		"what has ended":   {`{"action":"cancel","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","state":"failed"}}`, []string{"body.filter.state must be one of pending"}},
		"what has not":     {`{"action":"retry","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","state":"pending"}}`, []string{"body.filter.state must be one of failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := new(Decoder).Operation([]byte(row.body))
			checkFaults(t, err, row.want)
		})
	}
}
