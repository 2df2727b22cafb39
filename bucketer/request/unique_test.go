package request

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// TestUniqueKeys: jobs are the same by what they name, however they spell it, and by what they run.
func TestUniqueKeys(t *testing.T) {
	key := func(body string) string {
		t.Helper()
		var d Decoder
		job, spec, err := d.Job("t", []byte(body), testNow)
		if err != nil || spec != nil || job.Unique == nil || job.Unique.Key == "" {
			t.Fatalf("%s: %+v, %v; want a one-off job with a unique key", body, job, err)
		}
		return job.Unique.Key
	}
	task := func(by, rest string) string {
		return `{"task":"t","unique":{"by":[` + by + `],"window":"1m"},` + rest + `}`
	}
	const http = `"http":{"url":"http://x.test/"}`
	for name, row := range map[string]struct {
		one, two string
		same     bool
	}{
		"of the default":        {task(`"task","payload"`, `"payload":{"a":1}`), `{"task":"t","payload":{"a":1},"unique":{"window":"1h"}}`, true},
		"spelled otherwise":     {task(`"payload"`, `"payload":{"a":"é","b":2}`), task(`"payload"`, "\"payload\":{ \"b\":2, \"a\":\"\\u00e9\" }"), true},
		"another payload":       {task(`"payload"`, `"payload":1`), task(`"payload"`, `"payload":2`), false},
		"another order":         {task(`"payload/a","payload/b"`, `"payload":{"a":1,"b":2}`), task(`"payload/b","payload/a"`, `"payload":{"a":1,"b":2}`), true},
		"a part of it":          {task(`"payload/a"`, `"payload":{"a":1,"b":2}`), task(`"payload/a"`, `"payload":{"a":1,"b":3}`), true},
		"a part that differs":   {task(`"payload/a"`, `"payload":{"a":1}`), task(`"payload/a"`, `"payload":{"a":2}`), false},
		"deep":                  {task(`"payload/a~1b/1/~0"`, `"payload":{"a/b":[1,{"~":7}]}`), task(`"payload/a~1b/1/~0"`, `"payload":{"a/b":[2,{"~":7}]}`), true},
		"deep, and differs":     {task(`"payload/a~1b/1/~0"`, `"payload":{"a/b":[1,{"~":7}]}`), task(`"payload/a~1b/1/~0"`, `"payload":{"a/b":[1,{"~":8}]}`), false},
		"absent":                {task(`"payload/a"`, `"payload":{}`), task(`"payload/a"`, `"payload":[1]`), true},
		"absent, and null":      {task(`"payload/a"`, `"payload":{}`), task(`"payload/a"`, `"payload":{"a":null}`), false},
		"absent, and a text":    {task(`"payload/a"`, `"payload":{}`), task(`"payload/a"`, `"payload":{"a":""}`), false},
		"two parts, one each":   {task(`"payload/a","payload/b"`, `"payload":{"a":1}`), task(`"payload/a","payload/b"`, `"payload":{"b":1}`), false},
		"other parts":           {task(`"payload/a"`, `"payload":{"a":1}`), task(`"payload/b"`, `"payload":{"b":1}`), false},
		"a label":               {task(`"labels/x/y"`, `"labels":{"x/y":"1","z":"2"}`), task(`"labels/x/y"`, `"labels":{"x/y":"1","z":"3"}`), true},
		"a label that differs":  {task(`"labels/x/y"`, `"labels":{"x/y":"1"}`), task(`"labels/x/y"`, `"labels":{"x/y":"2"}`), false},
		"labels":                {task(`"labels"`, `"labels":{"x":"1","z":"2"}`), task(`"labels"`, `"labels":{"z":"2","x":"1"}`), true},
		"labels that differ":    {task(`"labels"`, `"labels":{"x":"1"}`), task(`"labels"`, `"labels":{"x":"1","z":"2"}`), false},
		"the task alone":        {task(`"task"`, `"payload":1,"priority":"low","schedule":{"at":"2026-11-22T00:00:00Z"}`), task(`"task"`, `"payload":2`), true},
		"another task":          {task(`"payload"`, `"payload":1`), `{"task":"u","payload":1,"unique":{"by":["payload"],"window":"1m"}}`, false},
		"a call":                {`{` + http + `,"unique":{"window":"1m"},"timeout":"1s"}`, `{` + http + `,"unique":{"window":"1m"},"timeout":"2s"}`, true},
		"another call":          {`{` + http + `,"unique":{"window":"1m"}}`, `{"http":{"url":"http://y.test/"},"unique":{"window":"1m"}}`, false},
		"a call and a task":     {`{` + http + `,"unique":{"window":"1m"}}`, `{"task":"t","unique":{"window":"1m"}}`, false},
		"windows do not matter": {`{"task":"t","unique":{"window":"1s"}}`, `{"task":"t","unique":{"window":"744h"}}`, true},
	} {
		if one, two := key(row.one), key(row.two); (one == two) != row.same {
			t.Errorf("%s:\n%s\n%s\nhave the same key: %t, want %t", name, row.one, row.two, one == two, row.same)
		}
	}
}

// TestUniqueOfAJob: what a job says of being unique, by default and in full.
func TestUniqueOfAJob(t *testing.T) {
	for body, want := range map[string]schema.Unique{
		`{"task":"t","unique":{"window":"10m"}}`:                     {By: []string{"task", "payload"}, Window: schema.Duration(10 * time.Minute)},
		`{"task":"t","unique":{"window":"1s","by":["labels/team"]}}`: {By: []string{"labels/team"}, Window: schema.Duration(time.Second)},
	} {
		var d Decoder
		job, _, err := d.Line("t", []byte(body), testNow)
		if err != nil || job.Unique == nil || !slices.Equal(job.Unique.By, want.By) || job.Unique.Window != want.Window {
			t.Errorf("%s: %+v, %v; want %+v", body, job.Unique, err, want)
		}
	}
	var d Decoder
	if job, _, err := d.Job("t", []byte(`{"task":"t","unique":null}`), testNow); err != nil || job.Unique != nil {
		t.Errorf("null: %+v, %v; want none", job.Unique, err)
	}
}

// TestUniqueFaults: all faults are told at once.
func TestUniqueFaults(t *testing.T) {
	for name, row := range map[string]struct {
		body string
		want []string
	}{
		"no object":    {`{"task":"t","unique":"1m"}`, []string{"body.unique must be an object"}},
		"no window":    {`{"task":"t","unique":{}}`, []string{"body.unique.window is missing"}},
		"too short":    {`{"task":"t","unique":{"window":"999ms"}}`, []string{"body.unique.window must be from 1s to 744h"}},
		"too long":     {`{"task":"t","unique":{"window":"745h"}}`, []string{"body.unique.window must be from 1s to 744h"}},
		"by nothing":   {`{"task":"t","unique":{"window":"1m","by":[]}}`, []string{"body.unique.by must name a part"}},
		"by no list":   {`{"task":"t","unique":{"window":"1m","by":"payload"}}`, []string{"body.unique.by must be a list"}},
		"by too much":  {`{"task":"t","unique":{"window":"1m","by":[` + numbered(17, `"payload/%d"`) + `]}}`, []string{"body.unique.by must be at most 16 parts"}},
		"of many runs": {`{"unique":{"window":"1m"},` + everyMinute + `}`, []string{"body.unique belongs to a one-off job"}},
		"after others": {`{"task":"t","after":{"jobs":["a"]},"unique":{"window":"1m"}}`, []string{"body.unique belongs to a one-off job"}},
		"triggered":    {`{"task":"t","name":"n","unique":{"window":"1m"}}`, []string{"body.unique belongs to a one-off job"}},
		"several faults": {
			`{"task":"t","unique":{"window":1,"x":2,"by":["args","payload/~2",7,"labels/ü","task","task","payload/` + strings.Repeat("x", 256) + `","payloads",null]}}`,
			[]string{
				"body.unique.window must be a string", "body.unique.x is not a field of unique", "body.unique.by[0] must be task, payload", "body.unique.by[1] must be a JSON pointer", "body.unique.by[2] must be a string",
				"body.unique.by[3] must have the name of a label", "body.unique.by[5] is there twice", "body.unique.by[6] must be at most 256 bytes", "body.unique.by[7] must be task", "body.unique.by[8] must be a string",
			},
		},
	} {
		var d Decoder
		_, _, err := d.Job("t", []byte(row.body), testNow)
		var faults bucketer.Faults
		if !errors.As(err, &faults) || len(faults) != len(row.want) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
			continue
		}
		for i, want := range row.want {
			if got := faults[i].Location + " " + faults[i].Message; !strings.HasPrefix(got, want) {
				t.Errorf("%s: fault %d is %q, want %q", name, i, got, want)
			}
		}
	}
	var d Decoder
	current := bucketer.Job{Tenant: "t", Task: "t"}
	_, err := d.Patch(current, []byte(`{"unique":{"window":"1m"},"region":"eu","durability":"everywhere"}`), testNow)
	var faults bucketer.Faults
	if !errors.As(err, &faults) || len(faults) != 3 {
		t.Errorf("a patch of unique, region and durability: %v, want three faults", err)
	}
}
