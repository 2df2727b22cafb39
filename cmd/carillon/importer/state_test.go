package importer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLineSetIsASet(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var s lineSet
		model := map[int64]bool{}
		for range 40 {
			a := 1 + r.Int64N(60)
			x := span{a, a + r.Int64N(12) - 1} // also empty
			in := r.IntN(3) > 0
			if in {
				s.add(x)
			} else {
				s.remove(x)
			}
			for n := x[0]; n <= x[1]; n++ {
				model[n] = in
			}
			for n := int64(0); n < 80; n++ {
				if s.has(n) != model[n] {
					t.Fatalf("after %v of %v: has(%d) = %t, want %t; %v", in, x, n, s.has(n), model[n], s)
				}
			}
			for i := 1; i < len(s); i++ {
				if s[i-1][1]+1 >= s[i][0] {
					t.Fatalf("spans overlap or touch: %v", s)
				}
			}
		}
	}
}

func TestStateIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	head := stateHead{Version: 1, Fingerprint: "p", Tenant: "acme"}
	s, err := openState(path, head)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openState(path, head); err == nil || !strings.Contains(err.Error(), "under way") {
		t.Errorf("openState twice = %v, want that an import is under way", err)
	}
	for _, r := range []record{
		{Sent: lineSet{{1, 100}}},
		{Answered: lineSet{{1, 40}, {42, 50}}, tally: tally{Created: 47, Failed: 2}},
		{Unsent: lineSet{{91, 100}}},
		{},
	} {
		if err := s.save(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.close(false); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	torn := append(bytes.Clone(whole), `{"answered":[[1,10`...)
	if err := os.WriteFile(path, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = openState(path, head); err != nil {
		t.Fatalf("openState of a torn file = %v", err)
	}
	if diff := cmp.Diff(lineSet{{1, 40}, {42, 50}}, s.answered); diff != "" || !s.resumed {
		t.Errorf("answered (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(lineSet{{41, 41}, {51, 90}}, s.sent); diff != "" {
		t.Errorf("sent and not answered (-want +got):\n%s", diff)
	}
	if want := (tally{Created: 47, Failed: 2}); s.earlier != want {
		t.Errorf("before = %+v, want %+v", s.earlier, want)
	}
	if err := s.close(false); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(path); err != nil || !bytes.Equal(again, whole) {
		t.Errorf("the torn line is still there: %q, %v", again, err)
	}
	for name, other := range map[string]stateHead{
		"another file":   {Version: 1, Fingerprint: "q", Tenant: "acme"},
		"another tenant": {Version: 1, Fingerprint: "p", Tenant: "other"},
		"newer":          {Version: 2, Fingerprint: "p", Tenant: "acme"},
	} {
		if s, err := openState(path, other); err == nil {
			t.Errorf("openState of %s succeeds, want an error", name)
			_ = s.close(false)
		}
	}
}

func TestLineReaderSendsEachLineOnce(t *testing.T) {
	lines := []*line{{text: []byte("one")}, {text: []byte("2")}, {text: []byte("three")}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for size := 1; size < 15; size++ {
		r := &lineReader{lines: lines, stop: ctx, moved: func() {}}
		got, err := io.ReadAll(iotest.OneByteReader(bufferOf(r, size)))
		if string(got) != "one\n2\nthree\n" || err != nil {
			t.Errorf("read by %d bytes: %q, %v", size, got, err)
		}
		if n := r.withdraw(); n != 3 {
			t.Errorf("withdraw = %d, want 3", n)
		}
		if n, err := r.Read(make([]byte, 8)); n != 0 || err == nil || errors.Is(err, io.EOF) {
			t.Errorf("Read after withdraw = %d, %v, want an error", n, err)
		}
	}
	r := &lineReader{lines: lines, stop: ctx, moved: func() {}}
	begun := make([]byte, 5)
	if _, err := io.ReadFull(r, begun); err != nil {
		t.Fatal(err)
	}
	stop()
	rest, err := io.ReadAll(r)
	if got := string(begun) + string(rest); got != "one\n2\n" || err != nil || r.withdraw() != 2 {
		t.Errorf("stopped in the second line: %q, %v, want that line whole and no other", got, err)
	}
}

// bufferOf reads r by so many bytes.
func bufferOf(r io.Reader, size int) io.Reader {
	pr, pw := io.Pipe()
	go func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{pw}, struct{ io.Reader }{r}, make([]byte, size))
		_ = pw.CloseWithError(err) // always nil
	}()
	return pr
}

func TestProgressInWords(t *testing.T) {
	p := &progress{earlier: 100}
	p.linesRead.Store(400)
	p.count(tally{Created: 150, Failed: 50})
	// Half of the file is read; of the 400 lines in it 300 are done: 37.5 %, and 500 lines to go at
	// 20/s.
	if got, want := p.line(10*time.Second, 500, 1000), " 38%, 300 lines, 20/s, 50 failed, 25s left"; got != want {
		t.Errorf("line = %q, want %q", got, want)
	}
	if got, want := p.line(10*time.Second, 500, 0), "300 lines, 20/s, 50 failed"; got != want {
		t.Errorf("line of standard input = %q, want %q", got, want)
	}
}
