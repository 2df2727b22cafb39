package embedded

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestWritesDoNotWaitForTheServer: what is written arrives in order, however late it is read, and a
// writer waits only once the server is mostBehind behind.
func TestWritesDoNotWaitForTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		b := newBehind(near)
		part := bytes.Repeat([]byte("x"), mostBehind/4)
		var wrote int
		go func() {
			for i := range 12 {
				part := bytes.Clone(part)
				part[0] = byte('a' + i)
				if n, err := b.Write(part); err != nil || n != len(part) {
					t.Errorf("Write = %d, %v", n, err)
				}
				wrote++
			}
		}()
		synctest.Wait()
		if wrote != 4 {
			t.Errorf("%d parts of a quarter were written while nobody read, want 4", wrote)
		}
		for i := range 12 {
			got := make([]byte, len(part))
			if _, err := io.ReadFull(far, got); err != nil || got[0] != byte('a'+i) {
				t.Fatalf("part %d begins with %q, %v", i, got[0], err)
			}
		}
		synctest.Wait()
		if wrote != 12 {
			t.Errorf("%d parts were written, want 12", wrote)
		}
		if err := b.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
}

// TestCloseDeliversWhatWasWritten to a server that reads, and does not wait for one that hangs.
func TestCloseDeliversWhatWasWritten(t *testing.T) {
	for name, reads := range map[string]bool{"a server that reads": true, "one that hangs": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				b := newBehind(near)
				if err := b.SetDeadline(time.Now()); err != nil { // there is room
					t.Fatal(err)
				}
				for _, text := range []string{"to the ", "last byte"} {
					if _, err := io.WriteString(b, text); err != nil {
						t.Fatal(err)
					}
				}
				read := make(chan string, 1)
				if reads {
					go func() {
						all, _ := io.ReadAll(far)
						read <- string(all)
					}()
				}
				began := time.Now()
				if err := b.Close(); err != nil {
					t.Errorf("Close = %v", err)
				}
				switch took := time.Since(began); {
				case reads && took != 0, !reads && took != closeWait:
					t.Errorf("Close took %v", took)
				case reads:
					if got := <-read; got != "to the last byte" {
						t.Errorf("the server reads %q", got)
					}
				}
				if _, err := b.Write([]byte("more")); err == nil {
					t.Error("Write after Close succeeds")
				}
				_ = far.Close()
			})
		})
	}
}

// TestWritesWaitUpToTheirDeadline for a server that does not read.
func TestWritesWaitUpToTheirDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		b := newBehind(near)
		if _, err := b.Write(make([]byte, 2*mostBehind)); err != nil { // one may be larger
			t.Fatal(err)
		}
		began := time.Now()
		if err := b.SetWriteDeadline(began.Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if n, err := b.Write([]byte("more")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 5*time.Second {
			t.Errorf("Write = %d, %v after %v, want the deadline's error after 5 s", n, err, time.Since(began))
		}
		if err := errors.Join(b.Close(), far.Close()); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
}

// TestWritesFailOnceTheServerIsGone.
func TestWritesFailOnceTheServerIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		b := newBehind(near)
		if err := far.Close(); err != nil {
			t.Fatal(err)
		}
		_, _ = b.Write([]byte("lost"))
		synctest.Wait()
		if _, err := b.Write([]byte("more")); err == nil {
			t.Error("Write to a server that is gone succeeds")
		}
		if err := b.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
}
