package importer

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestSourceReadsEveryPacking(t *testing.T) {
	plain := "one\r\ntwo\n\nfour"
	var gz, zst bytes.Buffer
	g := gzip.NewWriter(&gz)
	_, err := io.WriteString(g, plain)
	z, zerr := zstd.NewWriter(&zst)
	if zerr != nil {
		t.Fatal(zerr)
	}
	_, werr := io.WriteString(z, plain)
	if err := errors.Join(err, werr, g.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		text string
		want string
		err  error
	}{
		"plain":    {text: plain, want: "one\r|two||four|"},
		"gzip":     {text: gz.String(), want: "one\r|two||four|"},
		"zstd":     {text: zst.String(), want: "one\r|two||four|"},
		"cut gzip": {text: gz.String()[:gz.Len()-9], want: "one\r|two||", err: io.ErrUnexpectedEOF},
		"empty":    {},
		"short":    {text: "ab", want: "ab|"},
		"long":     {text: strings.Repeat("x", 1<<20) + "\nafter\n", want: "(long)|after|"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := openSource("-", strings.NewReader(row.text))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			got := ""
			for {
				text, err := s.next()
				if errors.Is(err, errLongLine) {
					text, err = []byte("(long)"), nil
				}
				if err != nil {
					if want := cmp.Or(row.err, io.EOF); !errors.Is(err, want) {
						t.Errorf("next = %v, want %v at the end", err, want)
					}
					break
				}
				got += string(text) + "|"
			}
			if got != row.want {
				t.Errorf("lines are %q, want %q", got, row.want)
			}
		})
	}
}
