package client_test

import (
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/client"
)

// TestUniqueJobs: of the jobs of one unique key the first is created, by request or by import, and
// all are answered with it. A request that is sent again has the same answer.
func TestUniqueJobs(t *testing.T) {
	c := open(t)
	job := func(customer, n int) *client.Job {
		return client.NewJob(client.NATS("work.sync")).Payload(map[string]int{"customer": customer, "n": n}).Unique(10*time.Minute, "payload/customer")
	}
	first, err := c.Jobs.Create(t.Context(), job(7, 1), client.WithIdempotencyKey("first"))
	if err != nil || first.Existing || first.Unique == nil || first.Unique.Window != client.Duration(10*time.Minute) || len(first.Unique.By) != 1 {
		t.Fatalf("Create = %+v, %v; want a new job that says that it is unique", first, err)
	}
	for what, options := range map[string][]client.CreateOption{"another request": nil, "another, with a key": {client.WithIdempotencyKey("second")}, "that one again": {client.WithIdempotencyKey("second")}} {
		there, err := c.Jobs.Create(t.Context(), job(7, 2), options...)
		if err != nil || !there.Existing || there.ID != first.ID || string(there.Payload) != `{"customer":7,"n":1}` {
			t.Errorf("%s: %+v, %v; want the existing %s as it is", what, there, err, first.ID)
		}
	}
	again, err := c.Jobs.Create(t.Context(), job(7, 1), client.WithIdempotencyKey("first"))
	if err != nil || again.Existing || again.ID != first.ID {
		t.Errorf("the first request again = %+v, %v; want the answer that it had", again, err)
	}
	if _, err := c.Jobs.Create(t.Context(), job(7, 3), client.WithIdempotencyKey("first")); !isKind(err, "key-reused") {
		t.Errorf("its key with another body: %v, want key-reused", err)
	}
	imported, err := c.Jobs.Import(t.Context(), []client.Line{{Job: job(7, 4)}, {Job: job(8, 4)}, {Job: job(8, 5).At(time.Now().Add(time.Hour))}})
	if err != nil || len(imported) != 3 || imported[0].ID != first.ID || !imported[0].Existing || imported[1].ID != imported[2].ID || imported[1].Existing == imported[2].Existing {
		t.Errorf("Import = %+v, %v; want %s, and a new job twice", imported, err, first.ID)
	}
	read, err := c.Jobs.Get(t.Context(), first.ID.String())
	if err != nil || read.Existing || read.Unique == nil {
		t.Errorf("Get = %+v, %v; want that it is unique, and not that it was there", read, err)
	}
}
