package queue_test

import (
	"math/rand/v2"
	"testing"

	"carillon.dev/carillon/dispatcher/queue"
)

// TestSubjectsOfEventsAreTheirs: no two pairs of tenant and event share a subject, whatever dots and
// dashes they hold, and the subject says which pair it is.
func TestSubjectsOfEventsAreTheirs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2)) // #nosec G404 -- a test
	draw := func() string {
		const first, then = "ab", "ab.-_"
		name := string(first[rng.IntN(len(first))])
		for range rng.IntN(5) {
			name += string(then[rng.IntN(len(then))])
		}
		return name
	}
	owner := make(map[string][2]string)
	for range 100_000 {
		tenant, name := draw(), draw()
		subject := queue.DefaultNames.Event(tenant, name)
		if subject == "" {
			continue
		}
		if other, ok := owner[subject]; ok && other != [2]string{tenant, name} {
			t.Fatalf("%s is the subject of %v and of %s %s", subject, other, tenant, name)
		}
		owner[subject] = [2]string{tenant, name}
		if gotTenant, gotName, ok := queue.DefaultNames.ParseEvent(subject); !ok || gotTenant != tenant || gotName != name {
			t.Fatalf("ParseEvent(%s) = %s, %s, %v; want %s, %s", subject, gotTenant, gotName, ok, tenant, name)
		}
	}
	if got := queue.DefaultNames.Event("acme.eu", "file.uploaded"); got != "carillon.event.acme:eu.file.uploaded" {
		t.Errorf("Event = %s", got)
	}
	for _, subject := range []string{"", "carillon.event.", "carillon.event.t", "carillon.event.t.", "other.event.t.n", "carillon.run.0.normal"} {
		if tenant, name, ok := queue.DefaultNames.ParseEvent(subject); ok {
			t.Errorf("ParseEvent(%q) = %q, %q", subject, tenant, name)
		}
	}
}
