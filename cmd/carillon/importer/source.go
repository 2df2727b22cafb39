package importer

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
	// blockLines and blockBytes bound one request, and so its memory. The server works in batches
	// of up to bucketer.MaxChunk lines; four of them keep it busy.
	blockLines = 4 * bucketer.MaxChunk
	blockBytes = 8 << 20
	// arenaBytes is the size of the chunks of memory that lines are copied into.
	arenaBytes = 1 << 20
	// fingerprintBytes is how much of a file's start and of its end goes into its fingerprint.
	fingerprintBytes = 64 << 10
)

// source is the file or standard input to import, plain or compressed.
type source struct {
	name    string
	file    *os.File // nil for standard input
	size    int64    // of the file on disk, bytes; 0 = unknown
	read    atomic.Int64
	text    *bufio.Reader
	release func()
}

// openSource opens the file name; "-" is stdin. The first bytes tell the compression.
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
	first, _ := packed.Peek(4) // fewer bytes are not compressed; an error comes again
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

// Close closes the file. Standard input stays open.
func (s *source) Close() error {
	s.release()
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// resumable reports whether the source can be read again.
func (s *source) resumable() bool { return s.size > 0 }

// fingerprint returns a hash of size, start and end of the file. It tells the file from another one
// of the same name.
func (s *source) fingerprint() (string, error) {
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, s.size) // never fails
	for _, at := range []int64{0, max(s.size-fingerprintBytes, 0)} {
		if _, err := io.Copy(sum, io.NewSectionReader(s.file, at, fingerprintBytes)); err != nil {
			return "", fmt.Errorf("read %s: %w", s.name, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

// errLongLine says that a line is longer than the API accepts.
var errLongLine = errors.New("the line is too long")

// next returns the next line without its newline; the slice is valid until the next call. The error
// is io.EOF at the end. A line in which a compressed text is cut off is not returned.
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

// idle reports whether the next read may have to wait for the writer of a pipe.
func (s *source) idle() bool { return s.text.Buffered() == 0 && s.size == 0 }

// counting counts the bytes read.
type counting struct {
	io.Reader
	n *atomic.Int64
}

func (c counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// lineState says how far a line is.
type lineState uint8

const (
	pending lineState = iota // not written, or written and safe to send again
	answered
	unknown // sent without a key and not answered: the job may exist
)

// line is a line of the source.
type line struct {
	number int64 // from 1
	text   []byte
	state  lineState

	created, failed bool             // of an answered line
	saved           bool             // its answer is in the state file
	uncertain       bool             // it was sent, and its job may exist
	lastRefusal     *httpapi.Problem // the last answer that allows another try, if any
}

// keyed reports whether a line has an idempotency key, so that it can be sent again safely.
func (l *line) keyed() bool {
	var job struct {
		Key string `json:"key"`
	}
	return json.Unmarshal(l.text, &job) == nil && job.Key != ""
}

// block holds the lines of one request.
type block struct {
	lines []line
	bytes int
	arena []byte
}

func (b *block) add(number int64, text []byte) {
	if cap(b.arena)-len(b.arena) < len(text) {
		b.arena = make([]byte, 0, max(arenaBytes, len(text)))
	}
	at := len(b.arena)
	b.arena = append(b.arena, text...)
	b.lines = append(b.lines, line{number: number, text: b.arena[at:len(b.arena):len(b.arena)]})
	b.bytes += len(text)
}

func (b *block) full() bool { return len(b.lines) >= blockLines || b.bytes >= blockBytes }
