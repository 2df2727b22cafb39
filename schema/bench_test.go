package schema_test

import (
	"fmt"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

var benchDue = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// benchSpec is what most rows say: a call, and nothing unusual.
var benchSpec = schema.Spec{
	Tenant: "acme", Nominal: benchDue, Accepted: benchDue.Add(-time.Hour).UnixMicro(),
	Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://127.0.0.1:9000/hook"}},
}

var benchPayload = []byte(`{"to":"someone@example.com","n":12345}`)

// BenchmarkEntryID makes an id, writes it as text and reads that.
func BenchmarkEntryID(b *testing.B) {
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		id := schema.MakeEntryID(benchDue, 7, i)
		if again, err := schema.ParseEntryID(id.String()); err != nil || again != id {
			b.Fatalf("ParseEntryID(%s) = %s, %v", id, again, err)
		}
	}
}

// BenchmarkNewEntry encodes the text of a row.
func BenchmarkNewEntry(b *testing.B) {
	id := schema.MakeEntryID(benchDue, 7, 42)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := schema.NewEntry(id, benchSpec, benchPayload, benchDue); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoadEntry decodes the text of a row.
func BenchmarkLoadEntry(b *testing.B) {
	e, err := schema.NewEntry(schema.MakeEntryID(benchDue, 7, 42), benchSpec, benchPayload, benchDue)
	if err != nil {
		b.Fatal(err)
	}
	text := e.Text()
	b.ReportAllocs()
	for b.Loop() {
		if e := schema.LoadEntry(e.ID, text, benchPayload, schema.Marks{}); e.Fault != nil {
			b.Fatal(e.Fault)
		}
	}
}

// BenchmarkLoadEntryOfAnotherCall decodes rows each of which calls another URL.
func BenchmarkLoadEntryOfAnotherCall(b *testing.B) {
	var texts [64][]byte
	for i := range texts {
		spec := benchSpec
		spec.Work = &schema.Work{HTTP: &schema.HTTPTarget{URL: fmt.Sprintf("http://127.0.0.1:9000/hook/%d", i)}}
		e, err := schema.NewEntry(schema.MakeEntryID(benchDue, 7, 42), spec, benchPayload, benchDue)
		if err != nil {
			b.Fatal(err)
		}
		texts[i] = e.Text()
	}
	id := schema.MakeEntryID(benchDue, 7, 42)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if e := schema.LoadEntry(id, texts[i%len(texts)], benchPayload, schema.Marks{}); e.Fault != nil {
			b.Fatal(e.Fault)
		}
	}
}
