package journal

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"carillon.dev/carillon/loadtest/check"
)

// WriteWatched writes one look at the state of a run, a line.
func WriteWatched(w io.Writer, look check.Watched) error {
	line, err := json.Marshal(look)
	if err != nil {
		return fmt.Errorf("write states: %w", err)
	}
	if _, err := w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write states: %w", err)
	}
	return nil
}

// ReadWatched reads the output of WriteWatched. The file may still grow: half a line at its end is
// left out.
func ReadWatched(r io.Reader) ([]check.Watched, error) {
	var looks []check.Watched
	br := bufio.NewReader(r)
	for number := 1; ; number++ {
		line, err := br.ReadBytes('\n')
		switch {
		case err == io.EOF:
			return looks, nil
		case err != nil:
			return nil, fmt.Errorf("read states: %w", err)
		}
		var look check.Watched
		if err := json.Unmarshal(line, &look); err != nil {
			return nil, fmt.Errorf("read states, line %d: %w", number, err)
		}
		looks = append(looks, look)
	}
}
