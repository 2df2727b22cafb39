package target

import (
	"testing"

	"carillon.dev/carillon/schema"
)

func TestHealthOf(t *testing.T) {
	for name, c := range map[string]struct {
		res  Result
		want Health
	}{
		"success":          {Result{Outcome: schema.Succeeded, Status: 200}, Healthy},
		"500":              {Result{Outcome: schema.Failed, Status: 500}, Unhealthy},
		"503":              {Result{Outcome: schema.Failed, Status: 503}, Unhealthy},
		"429":              {Result{Outcome: schema.Failed, Status: 429}, Unhealthy},
		"404":              {Result{Outcome: schema.Failed, Status: 404, Final: true}, Healthy},
		"408":              {Result{Outcome: schema.Failed, Status: 408}, Healthy},
		"not reached":      {Result{Outcome: schema.Failed, Error: "connection refused"}, Unhealthy},
		"time-out":         {Result{Outcome: schema.TimedOut}, Unhealthy},
		"broken off":       {Result{Outcome: schema.TimedOut, Status: 200}, Unhealthy},
		"denied":           {Result{Outcome: schema.Failed, Final: true}, UnknownHealth},
		"cancelled":        {Result{Outcome: schema.Cancelled}, UnknownHealth},
		"we were stopped":  {Result{Outcome: schema.Failed, Stopped: true}, UnknownHealth},
		"nothing was done": {Result{}, UnknownHealth},
	} {
		if got := c.res.Health(); got != c.want {
			t.Errorf("%s: health of %+v: got %d, want %d", name, c.res, got, c.want)
		}
	}
}
