package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/monitoring/check"
	"carillon.dev/carillon/deploy/monitoring/check/dashboards"
)

// stub answers as Prometheus does, by the beginning of the query.
func stub(t *testing.T) *judge {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.FormValue("query")
		if strings.Contains(query, "$") {
			t.Errorf("asked %s, with a variable", query)
		}
		for begin, answer := range map[string]string{
			"good":    `{"status":"success","data":{"result":[{"values":[[1,"NaN"],[2,"3"]]},{"values":[[1,"2"],[2,"NaN"]]}]}}`,
			"nan":     `{"status":"success","data":{"result":[{"values":[[1,"NaN"],[2,"NaN"]]}]}}`,
			"nothing": `{"status":"success","data":{"result":[]}}`,
			"wrong":   `{"status":"error","error":"parse error"}`,
		} {
			if strings.HasPrefix(query, begin) {
				_, _ = w.Write([]byte(answer))
			}
		}
	}))
	t.Cleanup(server.Close)
	return &judge{api: server.URL, from: time.Unix(0, 0), to: time.Unix(60, 0), tenant: "a"}
}

// TestWhatHasNoAnswerIsAFault: an error, no series, and only NaN; what may be empty is said to be,
// but never an error.
func TestWhatHasNoAnswerIsAFault(t *testing.T) {
	var excused [2]string // a panel that may be empty
	for _, d := range dashboards.All() {
		for _, p := range d.Panels() {
			if p.Empty == dashboards.ClustersOnly {
				excused = [2]string{"Carillon: " + d.Title, p.Title}
			}
		}
	}
	for name, c := range map[string]struct {
		panel   [2]string
		query   string
		cluster bool
		fault   string
		allowed bool
	}{
		"an answer":                      {[2]string{"d", "p"}, `good{tenant="$tenant"}[$__range]`, false, "", false},
		"an error":                       {[2]string{"d", "p"}, "wrong", false, "error: parse error", false},
		"no series":                      {[2]string{"d", "p"}, "nothing", false, "no series", false},
		"only NaN":                       {[2]string{"d", "p"}, "nan", false, "only NaN", false},
		"may be empty":                   {excused, "nothing", false, "", true},
		"may be empty, not in a cluster": {excused, "nothing", true, "no series", false},
		"may be empty, has an error":     {excused, "wrong", false, "error: parse error", false},
	} {
		t.Run(name, func(t *testing.T) {
			j := stub(t)
			j.cluster = c.cluster
			var d check.Dashboard
			text, err := json.Marshal(map[string]any{"title": c.panel[0], "panels": []any{map[string]any{"title": c.panel[1], "targets": []any{map[string]any{"expr": c.query}}}}})
			if err == nil {
				err = json.Unmarshal(text, &d)
			}
			if err != nil {
				t.Fatal(err)
			}
			all, err := j.all(t.Context(), []check.Dashboard{d})
			if err != nil || len(all) != 1 || all[0].fault != c.fault || (all[0].allowed != "") != c.allowed {
				t.Errorf("all = %+v, %v, want fault %q, allowed %t", all, err, c.fault, c.allowed)
			}
			if fails := verdict(all, nil) != nil; fails != (c.fault != "") {
				t.Errorf("the verdict fails: %t", fails)
			}
			if c.query[0] == 'g' && all[0].last != 3 {
				t.Errorf("the last value is %v, want 3", all[0].last)
			}
		})
	}
	if verdict(nil, nil) == nil {
		t.Error("nothing was asked, and that is no fault")
	}
	if verdict([]answer{{}}, []proof{{what: "x"}}) == nil {
		t.Error("what the load is for was not seen, and that is no fault")
	}
}
