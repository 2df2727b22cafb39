package api

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"carillon.dev/carillon/loadtest/journal"
)

// A feed is the body of one send: the lines of a file that are still to be sent. It knows which
// lines the transport has taken, in which order. Only those can have been accepted.
type feed struct {
	taken atomic.Int64 // bytes, to see progress

	mu    sync.Mutex // guards what follows
	file  *os.File
	sc    *bufio.Scanner
	lines []lineState // as they were before the send, by line − 1
	at    int         // lines read from the file
	rest  []byte      // of the line being taken
	sent  []int32     // the lines taken, by position in this send − 1
	over  bool
}

func newFeed(path string, lines []lineState) (*feed, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open jobs: %w", err)
	}
	sc := bufio.NewScanner(f)
	sc.Buffer(make([]byte, 1<<20), journal.MaxLine)
	// Answers change the import's lines while the transport reads this feed, hence the copy.
	return &feed{file: f, sc: sc, lines: slices.Clone(lines)}, nil
}

// errStopped is returned to a transport that reads on after the send is over.
var errStopped = errors.New("send is over")

// Read gives the transport whole lines, as many as fit, and a line in parts only if it does not fit
// alone.
func (f *feed) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for n < len(p) {
		if len(f.rest) == 0 {
			if err := f.nextLine(); err != nil {
				if n > 0 && errors.Is(err, io.EOF) {
					break
				}
				return n, err
			}
		}
		if n > 0 && len(f.rest) > len(p)-n {
			break
		}
		k := copy(p[n:], f.rest)
		if len(f.sent) == 0 || f.sent[len(f.sent)-1] != int32(f.at) {
			f.sent = append(f.sent, int32(f.at))
		}
		f.rest = f.rest[k:]
		n += k
	}
	f.taken.Add(int64(n))
	return n, nil
}

// nextLine puts the next line that may be sent into rest.
func (f *feed) nextLine() error {
	for {
		if f.over {
			return errStopped
		}
		if !f.sc.Scan() {
			if err := f.sc.Err(); err != nil {
				return fmt.Errorf("read jobs: %w", err)
			}
			return io.EOF
		}
		f.at++
		if f.at > len(f.lines) {
			return fmt.Errorf("read jobs: the file has grown")
		}
		if !f.lines[f.at-1].sendable() {
			continue
		}
		f.rest = append(f.rest[:0], f.sc.Bytes()...)
		f.rest = append(f.rest, '\n')
		return nil
	}
}

// line returns the line of the file that was sent as the n-th, from 1.
func (f *feed) line(n int) (int, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n < 1 || n > len(f.sent) {
		return 0, false
	}
	return int(f.sent[n-1]), true
}

// stop ends the feed and returns the lines that were taken, in order. It may be called again.
func (f *feed) stop() []int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over {
		f.over = true
		_ = f.file.Close() // only read
	}
	return f.sent
}

func hasKey(line []byte) bool {
	var l struct {
		Key string `json:"key"`
	}
	return json.Unmarshal(line, &l) == nil && l.Key != ""
}
