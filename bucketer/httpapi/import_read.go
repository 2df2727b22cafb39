package httpapi

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"carillon.dev/carillon/bucketer/request"
)

// How much of an import is read ahead of being decoded.
const (
	readBuffer  = 64 << 10
	readBuffers = 3
	// maxWindowSize bounds the memory that a zstd stream may ask for.
	maxWindowSize = 8 << 20
)

// block is a piece of the body, decompressed. The last one has an error: io.EOF, or why it is the
// last.
type block struct {
	data []byte
	err  error
}

// read reads the body into blocks until it ends, fails, or done is closed.
func (m *importer) read(body io.Reader, done <-chan struct{}) {
	r, release, err := decompress(deadlineReader{body, m}, m.encoding)
	defer release()
	for {
		var buf []byte
		select {
		case buf = <-m.free:
		case <-done:
			return
		}
		n := 0
		if err == nil {
			n, err = r.Read(buf)
		}
		b := block{data: buf[:n], err: err}
		if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			b.err = readProblem(err)
		}
		select {
		case m.blocks <- b:
		case <-done:
			return
		}
		if err != nil {
			return
		}
	}
}

// readProblem is why the body of an import ends before its end.
func readProblem(err error) *Problem {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return plain(http.StatusRequestTimeout, "Nothing more came for too long. What was answered stands.")
	}
	p := &Problem{
		Type: problemType + "cut", Title: "The import was cut", Status: http.StatusBadRequest,
		Detail: "The body ended before its end. What was answered stands; send the import again: keys make it safe.",
	}
	var bad *encodingError
	if errors.As(err, &bad) {
		p.Detail = "The body is not valid " + bad.encoding + ", or was cut. What was answered stands; send the import again: keys make it safe."
	}
	return p
}

// deadlineReader gives every read of the body its time.
type deadlineReader struct {
	io.Reader
	m *importer
}

func (r deadlineReader) Read(p []byte) (int, error) {
	// recorders of tests have none
	_ = r.m.conn.SetReadDeadline(time.Now().Add(r.m.s.config.ImportIdle))
	return r.Reader.Read(p)
}

// encodingError is an error of a compressed stream.
type encodingError struct {
	encoding string
	err      error
}

func (e *encodingError) Error() string { return fmt.Sprintf("read %s: %v", e.encoding, e.err) }

func (e *encodingError) Unwrap() error { return e.err }

type encodedReader struct {
	io.Reader
	encoding string
}

func (r encodedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF { // the end itself; whatever wraps it is none
		err = &encodingError{r.encoding, err}
	}
	return n, err
}

func knownEncoding(e string) bool {
	switch strings.ToLower(e) {
	case "", "identity", "gzip", "x-gzip", "zstd":
		return true
	}
	return false
}

// decompress returns a reader of what body holds. It takes bounded memory, however much comes out.
// Release is never nil.
func decompress(body io.Reader, encoding string) (r io.Reader, release func(), err error) {
	release = func() {}
	switch e := strings.ToLower(encoding); e {
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(bufio.NewReader(body))
		if err != nil {
			return nil, release, &encodingError{"gzip", err}
		}
		return encodedReader{z, "gzip"}, release, nil
	case "zstd":
		z, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindowSize))
		if err != nil {
			return nil, release, &encodingError{"zstd", err}
		}
		return encodedReader{z, "zstd"}, z.Close, nil
	}
	return body, release, nil
}

// splitter cuts blocks into lines. A line over the limit is skipped to its end and stands for
// itself as tooLong.
type splitter struct {
	buffer []byte // of the block that was fed last
	rest   []byte // what is left of it
	carry  []byte // the start of a line that goes on in the next block …
	used   bool   // … or the line before, if it was carried
	skip   bool   // the line that goes on is too long
	last   bool   // no block comes any more: what is carried is a line

	number  int64  // of the line, from 1
	text    []byte // of the line, until the next call
	tooLong bool
}

// feed takes the next block. The one before must be used up.
func (s *splitter) feed(b []byte) { s.buffer, s.rest = b, b }

// end says that the text has ended with the block that was fed last.
func (s *splitter) end() { s.last = true }

// more reports whether next finds something without another block, or may.
func (s *splitter) more() bool {
	return len(s.rest) > 0 || s.last && (s.skip || len(s.carry) > 0 && !s.used)
}

// release returns the buffer of a block that is used up, or nil.
func (s *splitter) release() []byte {
	b := s.buffer
	s.buffer = nil
	return b[:cap(b)]
}

// next goes to the next whole line. It returns false when it needs another block, or there is none.
func (s *splitter) next() bool {
	if s.used {
		s.carry, s.used = s.carry[:0], false
	}
	s.text, s.tooLong = nil, false
	n := bytes.IndexByte(s.rest, '\n')
	if n < 0 {
		s.take(s.rest)
		s.rest = nil
		return s.last && (s.skip || len(s.carry) > 0) && s.carried()
	}
	piece := s.rest[:n]
	s.rest = s.rest[n+1:]
	if len(s.carry) == 0 && !s.skip && n <= request.MaxLine {
		s.number++
		s.text = piece
		return true
	}
	s.take(piece)
	return s.carried()
}

// take adds a piece to the line that is carried.
func (s *splitter) take(piece []byte) {
	switch {
	case s.skip:
	case len(s.carry)+len(piece) > request.MaxLine:
		s.skip, s.carry = true, s.carry[:0]
	default:
		s.carry = append(s.carry, piece...)
	}
}

// carried makes the line of what is carried.
func (s *splitter) carried() bool {
	s.number++
	s.text, s.tooLong, s.used, s.skip = s.carry, s.skip, true, false
	return true
}
