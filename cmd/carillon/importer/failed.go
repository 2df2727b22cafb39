package importer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"carillon.dev/carillon/bucketer/httpapi"
)

// errorsSuffix follows the name of the file of failed lines in the name of the file of reasons.
const errorsSuffix = ".errors"

// failedLines writes two files: the lines that failed, ready to be mended and imported, and the
// reasons. The first line that fails creates them.
type failedLines struct {
	path     string
	appendTo bool // append to existing files instead of truncating them

	mu     sync.Mutex // guards what follows
	files  []*os.File
	lines  *bufio.Writer
	errors *bufio.Writer
	n      int
}

// failedLine is a line of the file of reasons.
type failedLine struct {
	File    string           `json:"file"`
	Line    int64            `json:"line"`
	Error   *httpapi.Problem `json:"error"`
	LeftOut bool             `json:"left_out,omitempty"` // the line is too long to copy
}

// add writes a line that failed; without text it writes the reason only.
func (f *failedLines) add(file string, number int64, text []byte, p *httpapi.Problem) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.files == nil {
		if err := f.open(); err != nil {
			return err
		}
	}
	why, err := json.Marshal(failedLine{File: file, Line: number, Error: p, LeftOut: text == nil})
	if err != nil {
		return fmt.Errorf("encode why line %d failed: %w", number, err)
	}
	if text != nil {
		_, _ = f.lines.Write(text)
		_ = f.lines.WriteByte('\n') // flush has the error
	}
	_, _ = f.errors.Write(append(why, '\n'))
	f.n++
	return nil
}

func (f *failedLines) open() error {
	mode := os.O_TRUNC
	if f.appendTo {
		mode = os.O_APPEND
	}
	for _, path := range []string{f.path, f.path + errorsSuffix} {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|mode, 0o600)
		if err != nil {
			return fmt.Errorf("keep the lines that failed: %w", err)
		}
		f.files = append(f.files, file)
	}
	f.lines, f.errors = bufio.NewWriter(f.files[0]), bufio.NewWriter(f.files[1])
	return nil
}

// flush writes what is buffered into the files.
func (f *failedLines) flush() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.files) < 2 {
		return nil
	}
	if err := errors.Join(f.lines.Flush(), f.errors.Flush()); err != nil {
		return fmt.Errorf("keep the lines that failed: %w", err)
	}
	return nil
}

// close flushes and closes the files.
func (f *failedLines) close() error {
	err := f.flush()
	for _, file := range f.files {
		err = errors.Join(err, file.Close())
	}
	return err
}
