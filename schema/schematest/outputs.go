package schematest

import (
	"bytes"
	"fmt"
	"slices"

	"carillon.dev/carillon/schema"
)

// part makes a part of an execution.
func part(attempt int, fence schema.Fence, number int, data string) schema.Part {
	return schema.Part{PartKey: schema.PartKey{Attempt: attempt, Fence: fence, Number: number}, Data: []byte(data)}
}

func (b *bench) putPart(run schema.RunID, kind schema.PartKind, p schema.Part) {
	b.must(b.store.PutPart(b.ctx, run, kind, p, b.now.UnixMicro(), b.later()), "PutPart")
}

func (b *bench) wantParts(run schema.RunID, kind schema.PartKind, after schema.PartKey, limit int, want ...schema.Part) {
	got, err := b.store.Parts(b.ctx, run, kind, after, limit)
	b.must(err, "Parts")
	if !slices.EqualFunc(got, want, func(g, w schema.Part) bool { return g.PartKey == w.PartKey && bytes.Equal(g.Data, w.Data) }) {
		b.Errorf("Parts after %+v, at most %d = %v, want %v", after, limit, got, want)
	}
}

var outputRules = []rule{
	{"parts come in order of attempt, fence and number", func(b *bench) {
		p := b.partition()
		run, other := b.id(p, 0), b.id(p, 1)
		all := []schema.Part{
			part(1, 5, 1, "a"), part(1, 5, 2, "\x00\xff"), part(1, 1<<50, 1, "b"), part(1, 1<<50, 10, "c"), part(2, 3, 9, "d"), part(10, 1, 1, "e"),
		}
		for i := range all {
			b.putPart(run, schema.OutputPart, all[(i*5+3)%len(all)]) // not in order
		}
		b.putPart(run, schema.OutputPart, all[0])
		b.putPart(run, schema.ReportPart, part(1, 5, 1, "a report"))
		b.putPart(other, schema.OutputPart, part(1, 5, 3, "not mine"))
		b.wantParts(run, schema.OutputPart, schema.PartKey{}, 100, all...)
		b.wantParts(run, schema.OutputPart, schema.PartKey{}, 2, all[:2]...)
		for i, p := range all {
			b.wantParts(run, schema.OutputPart, p.PartKey, 2, all[i+1:min(i+3, len(all))]...)
		}
		b.wantParts(run, schema.OutputPart, schema.PartKey{Attempt: 1, Fence: 6}, 2, all[2:4]...)
		b.wantParts(run, schema.ReportPart, schema.PartKey{}, 100, part(1, 5, 1, "a report"))
	}},
	{"the last part is that of one execution", func(b *bench) {
		run := b.id(b.partition(), 0)
		for _, p := range []schema.Part{part(1, 5, 1, "a"), part(1, 5, 12, "b"), part(1, 5, 2, "c"), part(1, 6, 1, "d"), part(2, 1, 1, "e")} {
			b.putPart(run, schema.ReportPart, p)
		}
		b.putPart(run, schema.OutputPart, part(1, 5, 13, "no report"))
		for _, want := range []schema.Part{part(1, 5, 12, "b"), part(1, 6, 1, "d"), part(2, 1, 1, "e")} {
			got, err := b.store.LastPart(b.ctx, run, schema.ReportPart, schema.PartKey{Attempt: want.Attempt, Fence: want.Fence})
			b.must(err, "LastPart")
			if got.PartKey != want.PartKey || !bytes.Equal(got.Data, want.Data) {
				b.Errorf("LastPart = %v, want %v", got, want)
			}
		}
		for _, none := range []schema.PartKey{{Attempt: 1, Fence: 4}, {Attempt: 1, Fence: 7}, {Attempt: 3, Fence: 5}} {
			_, err := b.store.LastPart(b.ctx, run, schema.ReportPart, none)
			b.wantErr(err, schema.ErrNotFound, "LastPart of %+v, of which there are none", none)
		}
	}},
	{"a part may have PartSize bytes, and the later write wins", func(b *bench) {
		run := b.id(b.partition(), 0)
		large := part(1, 1, 1, string(bytes.Repeat([]byte("x"), schema.PartSize)))
		b.putPart(run, schema.OutputPart, large)
		b.must(b.store.PutPart(b.ctx, run, schema.OutputPart, part(1, 1, 1, "older"), b.now.UnixMicro()-1, b.later()), "PutPart")
		b.wantParts(run, schema.OutputPart, schema.PartKey{}, 9, large)
	}},
	{"of none there are none", func(b *bench) {
		b.wantParts(b.id(b.partition(), 0), schema.OutputPart, schema.PartKey{}, 9)
	}},
	{"parts expire", func(b *bench) {
		run := b.id(b.partition(), 0)
		b.must(b.store.PutPart(b.ctx, run, schema.OutputPart, part(1, 1, 1, "x"), b.now.UnixMicro(), b.soon()), "PutPart")
		b.eventually("a part expires", func() bool {
			got, err := b.store.Parts(b.ctx, run, schema.OutputPart, schema.PartKey{}, 9)
			b.must(err, "Parts")
			_, err = b.store.LastPart(b.ctx, run, schema.OutputPart, schema.PartKey{Attempt: 1, Fence: 1})
			return len(got) == 0 && err != nil
		})
	}},
	{"reports come back as they went", func(b *bench) {
		run := b.id(b.partition(), 0)
		want := schema.Report{
			Lines: []schema.Line{{At: b.now.UTC(), Text: "grün <&> \u2028"}}, Dropped: 3,
			Progress: &schema.RunProgress{Done: 1, Total: 2, Text: "half", At: b.now.UTC()},
		}
		text, err := schema.EncodeReport(&want)
		b.must(err, "EncodeReport")
		b.putPart(run, schema.ReportPart, part(1, 1, 1, string(text)))
		p, err := b.store.LastPart(b.ctx, run, schema.ReportPart, schema.PartKey{Attempt: 1, Fence: 1})
		b.must(err, "LastPart")
		got, err := schema.DecodeReport(p.Data)
		b.must(err, "DecodeReport")
		if fmt.Sprint(got.Lines, got.Dropped, *got.Progress) != fmt.Sprint(want.Lines, want.Dropped, *want.Progress) {
			b.Errorf("report = %+v, want %+v", *got, want)
		}
	}},
}
