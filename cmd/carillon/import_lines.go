package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
)

const (
	// blockLines and blockBytes bound what is sent by one request, and so what is in memory for it. The server makes
	// batches of up to bucketer.MaxChunk lines: a few of them keep it busy.
	blockLines = 4 * bucketer.MaxChunk
	blockBytes = 8 << 20
	// arenaBytes is how much memory lines are copied into at once.
	arenaBytes = 1 << 20
	// printBytes is how much of the start and of the end of a file its fingerprint looks at.
	printBytes = 64 << 10
)

// source is what is imported: a file or standard input, plain or compressed.
type source struct {
	name    string
	file    *os.File // nil for standard input
	size    int64    // of the file as it lies there, bytes; 0 = not known
	read    atomic.Int64
	text    *bufio.Reader
	release func()
}

// openSource opens what name says; "-" is stdin. Its first bytes tell how it is compressed.
func openSource(name string, stdin io.Reader) (_ *source, err error) {
	s := &source{name: name, release: func() {}}
	raw := stdin
	if name != "-" {
		if s.file, err = os.Open(name); err != nil {
			return nil, err
		}
		info, err := s.file.Stat()
		if err == nil && info.IsDir() {
			err = fmt.Errorf("%s is a folder", name)
		}
		if err != nil {
			return nil, errors.Join(err, s.file.Close())
		}
		if info.Mode().IsRegular() {
			s.size = info.Size()
		}
		raw = s.file
	}
	packed := bufio.NewReaderSize(counting{raw, &s.read}, 256<<10)
	first, _ := packed.Peek(4) // fewer are no compressed text; an error comes again
	var plain io.Reader = packed
	switch {
	case bytes.HasPrefix(first, []byte{0x1f, 0x8b}):
		plain, err = gzip.NewReader(packed)
	case bytes.Equal(first, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		var z *zstd.Decoder
		if z, err = zstd.NewReader(packed, zstd.WithDecoderConcurrency(1)); err == nil {
			plain, s.release = z, z.Close
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", name, err), s.Close())
	}
	s.text = bufio.NewReaderSize(plain, request.MaxLine+1)
	return s, nil
}

// Close lets go of the file. Standard input stays open.
func (s *source) Close() error {
	s.release()
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// resumable reports whether the source will be the same when it is read again.
func (s *source) resumable() bool { return s.size > 0 }

// fingerprint returns what tells a file from another under its name: its size, start and end.
func (s *source) fingerprint() (string, error) {
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, s.size) // a hash takes everything
	for _, at := range []int64{0, max(s.size-printBytes, 0)} {
		if _, err := io.Copy(sum, io.NewSectionReader(s.file, at, printBytes)); err != nil {
			return "", fmt.Errorf("read %s: %w", s.name, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

// errLongLine: the line is longer than the API takes.
var errLongLine = errors.New("the line is too long")

// next returns the next line without its end, until the call after. At the end of the text it is io.EOF. A line that a
// compressed text breaks off in is none.
func (s *source) next() ([]byte, error) {
	text, err := s.text.ReadSlice('\n')
	long := errors.Is(err, bufio.ErrBufferFull)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = s.text.ReadSlice('\n')
	}
	switch {
	case err != nil && (err != io.EOF || len(text) == 0):
		return nil, err
	case long:
		return nil, errLongLine
	}
	return bytes.TrimSuffix(text, []byte("\n")), nil
}

// idle reports that reading on may have to wait for whoever writes.
func (s *source) idle() bool { return s.text.Buffered() == 0 && s.size == 0 }

// counting counts the bytes that are read.
type counting struct {
	io.Reader
	n *atomic.Int64
}

func (c counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// fate is what is known of a line.
type fate uint8

const (
	pending fate = iota // not written, or written and safe to send again
	answered
	unknown // sent without a key and not answered: it may stand
)

// item is a line of the source.
type item struct {
	number int64 // from 1
	text   []byte
	fate   fate

	created, failed bool             // of an answered line
	noted           bool             // its answer stands in the state file
	doubted         bool             // it was sent once and may stand
	refusal         *httpapi.Problem // the last answer that was not for good, if any
}

// keyed reports whether a line has an idempotency key, so that sending it again makes nothing new.
func (l *item) keyed() bool {
	var job struct {
		Key string `json:"key"`
	}
	return json.Unmarshal(l.text, &job) == nil && job.Key != ""
}

// block is the lines that are sent by one request.
type block struct {
	lines []item
	bytes int
	arena []byte
}

func (b *block) add(number int64, text []byte) {
	if cap(b.arena)-len(b.arena) < len(text) {
		b.arena = make([]byte, 0, max(arenaBytes, len(text)))
	}
	at := len(b.arena)
	b.arena = append(b.arena, text...)
	b.lines = append(b.lines, item{number: number, text: b.arena[at:len(b.arena):len(b.arena)]})
	b.bytes += len(text)
}

func (b *block) full() bool { return len(b.lines) >= blockLines || b.bytes >= blockBytes }
