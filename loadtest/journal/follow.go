package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"carillon.dev/carillon/loadtest/check"
)

// A Follower reads a sink's record while it grows. It keeps nothing that it has read: ReadSeen
// would need too much memory for loads of many hours.
type Follower struct {
	f    *os.File
	rest []byte // the begin of a line whose end is not written yet
}

// Follow opens a record.
func Follow(path string) (*Follower, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("follow what the sink saw: %w", err)
	}
	return &Follower{f: f}, nil
}

// Close closes the record.
func (f *Follower) Close() error { return f.f.Close() }

// Next visits the arrivals recorded since the last call. It leaves out ends that were recorded
// later than their arrivals.
func (f *Follower) Next(visit func(s *check.Sighting)) error {
	buf := make([]byte, 256<<10)
	for {
		n, err := f.f.Read(buf)
		f.rest = append(f.rest, buf[:n]...)
		for {
			end := bytes.IndexByte(f.rest, '\n')
			if end < 0 {
				break
			}
			if err := follow(f.rest[:end], visit); err != nil {
				return err
			}
			f.rest = f.rest[end+1:]
		}
		f.rest = bytes.Clone(f.rest) // what was read is let go
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("follow what the sink saw: %w", err)
		}
	}
}

func follow(line []byte, visit func(s *check.Sighting)) error {
	var l seenLine
	if err := json.Unmarshal(line, &l); err != nil {
		return fmt.Errorf("follow what the sink saw: %w", err)
	}
	if l.Run == nil {
		return nil
	}
	var one seenReader
	one.open = map[int64]int{}
	one.arrival(&l)
	visit(&one.seen[0])
	return nil
}
