package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"carillon.dev/carillon/bucketer/httpapi"
)

// errorsSuffix is what the file of reasons is called after the file of failed lines.
const errorsSuffix = ".errors"

// failures keeps the lines that failed: as they were in one file, ready to be mended and imported, and why in another. The files
// are made with the first line that fails.
type failures struct {
	path string
	keep bool // go on with files that are there, instead of writing them anew

	mu     sync.Mutex // guards what follows
	files  []*os.File
	lines  *bufio.Writer
	errors *bufio.Writer
	n      int
}

// failure is a line of the file of reasons.
type failure struct {
	File  string           `json:"file"`
	Line  int64            `json:"line"`
	Error *httpapi.Problem `json:"error"`
	Left  bool             `json:"left_out,omitempty"` // the line is too long to be copied
}

// add keeps a line; nil text is one that is not copied.
func (f *failures) add(file string, number int64, text []byte, p *httpapi.Problem) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.files == nil {
		if err := f.open(); err != nil {
			return err
		}
	}
	why, err := json.Marshal(failure{File: file, Line: number, Error: p, Left: text == nil})
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

func (f *failures) open() error {
	mode := os.O_TRUNC
	if f.keep {
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

// flush sees to it that what was added is in the files.
func (f *failures) flush() error {
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
func (f *failures) close() error {
	err := f.flush()
	for _, file := range f.files {
		err = errors.Join(err, file.Close())
	}
	return err
}
