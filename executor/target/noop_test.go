package target

import (
	"testing"

	"carillon.dev/carillon/schema"
)

func TestNoopSucceedsWhateverTheWork(t *testing.T) {
	targets := Set{HTTP: Noop{}, NATS: Noop{}, Script: Noop{}}
	rows := []struct {
		name string
		work schema.Work
	}{
		{"http", schema.Work{HTTP: &schema.HTTPTarget{URL: "http://127.0.0.1:1/"}}},
		{"nats", schema.Work{NATS: &schema.NATSTarget{Subject: "nobody"}}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got := targets.For(row.work).Run(t.Context(), Call{Work: row.work})
			if got.Outcome != schema.Succeeded || got.Error != "" || string(got.Output) != "noop" {
				t.Errorf("Run = %+v, want succeeded with the output noop", got)
			}
		})
	}
}
