package embedded

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"carillon.dev/carillon/schema"
)

// drawRow draws a row with few distinct timestamps, expiries and values, so that ties are common.
func drawRow(t *rapid.T, label string) []byte {
	var row []byte
	for col := column(1); col <= maxColumns; col++ {
		if !rapid.Bool().Draw(t, label+" has") {
			continue
		}
		row = appendCell(row, cell{
			column:    col,
			timestamp: rapid.Int64Range(-1, 1).Draw(t, label+" timestamp"),
			expires:   rapid.Int64Range(0, 2).Draw(t, label+" expires"),
			data:      rapid.SliceOfN(rapid.Byte(), 0, 2).Draw(t, label+" data"),
		})
	}
	return row
}

func merged(t *rapid.T, a, b []byte) []byte {
	t.Helper()
	row, err := mergeRows(nil, a, b)
	if err != nil {
		t.Fatalf("mergeRows(%x, %x) = %v", a, b, err)
	}
	return row
}

// Rows merge to the same row in whichever order, grouping and number they arrive.
func TestMergeIsAMaximum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawRow(t, "a"), drawRow(t, "b"), drawRow(t, "c")
		ab := merged(t, a, b)
		if ba := merged(t, b, a); !bytes.Equal(ab, ba) {
			t.Errorf("a+b = %x, b+a = %x", ab, ba)
		}
		if left, right := merged(t, ab, c), merged(t, a, merged(t, b, c)); !bytes.Equal(left, right) {
			t.Errorf("(a+b)+c = %x, a+(b+c) = %x", left, right)
		}
		if again := merged(t, ab, a); !bytes.Equal(again, ab) {
			t.Errorf("(a+b)+a = %x, a+b = %x", again, ab)
		}
	})
}

func TestWinner(t *testing.T) {
	for _, c := range []struct {
		name          string
		winner, loser cell
	}{
		{"the higher timestamp, though it expires sooner", cell{timestamp: 2, expires: 1}, cell{timestamp: 1, expires: 9}},
		{"of equal timestamps the longer-lived", cell{timestamp: 1, expires: 9}, cell{timestamp: 1, expires: 8}},
		{"of equal timestamps one that expires", cell{timestamp: 1, expires: 1}, cell{timestamp: 1, expires: never}},
		{"of equal lives the greater bytes", cell{data: []byte("b")}, cell{data: []byte("a")}},
	} {
		if c.winner.wins(&c.loser) <= 0 || c.loser.wins(&c.winner) >= 0 || c.winner.wins(&c.winner) != 0 {
			t.Errorf("%s: does not win", c.name)
		}
	}
}

func FuzzParseRow(f *testing.F) {
	f.Add([]byte{})
	f.Add(appendCell(appendCell(nil, cell{column: 1, data: []byte("x")}), cell{column: 4, timestamp: -1}))
	f.Fuzz(func(t *testing.T, row []byte) {
		cs, err := parseRow(row)
		if err != nil {
			return
		}
		again, err := mergeRows(nil, row, nil)
		if err != nil {
			t.Fatalf("mergeRows of a row that parses = %v", err)
		}
		got, err := parseRow(again)
		if err != nil {
			t.Fatalf("parseRow of a merged row = %v", err)
		}
		for i := range cs {
			if cs[i].wins(&got[i]) != 0 || cs[i].column != got[i].column {
				t.Errorf("cell %d = %+v, want %+v", i, got[i], cs[i])
			}
		}
	})
}

// The order of keys is the order of buckets, shards and ids, before the epoch too.
func TestKeysAreInTheOrderOfTheirValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) schema.Partition {
			return schema.Partition{
				Bucket: schema.Bucket(rapid.Int64Range(-3, 3).Draw(t, label+" bucket")),
				Shard:  schema.Shard(rapid.Uint16Range(0, 300).Draw(t, label+" shard")),
			}
		}
		a, b := draw("a"), draw("b")
		want := int(a.Bucket - b.Bucket)
		if want == 0 {
			want = int(a.Shard) - int(b.Shard)
		}
		got := bytes.Compare(appendPartition(nil, tableRuns, a), appendPartition(nil, tableRuns, b))
		if got > 0 != (want > 0) || got < 0 != (want < 0) {
			t.Errorf("keys of %s and %s compare as %d, want as %d", a, b, got, want)
		}
	})
}

func TestPrefixEnd(t *testing.T) {
	for _, c := range []struct{ prefix, want string }{
		{"a", "b"}, {"a\xff", "b"}, {"a\x00", "a\x01"}, {"\xff\xff", ""}, {"", ""},
	} {
		if got := prefixEnd([]byte(c.prefix)); string(got) != c.want {
			t.Errorf("prefixEnd(%q) = %q, want %q", c.prefix, got, c.want)
		}
	}
}
