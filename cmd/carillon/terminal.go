package main

import (
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// isTerminal reports whether w is one.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, is := askTerminal(f)
	return is
}

// columns returns the width of the terminal w: what it says itself, else COLUMNS, else 80.
func columns(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if n, _ := askTerminal(f); n > 0 {
			return n
		}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return 80
}

// fit joins as many of the parts, from the first on, as have room in width columns. If not even the first has, it is cut. Every rune
// is taken to be one column wide.
func fit(parts []string, width int) string {
	line := ""
	for i, part := range parts {
		longer := part
		if i > 0 {
			longer = line + "  " + part
		}
		if utf8.RuneCountInString(longer) > width {
			break
		}
		line = longer
	}
	if line == "" && len(parts) > 0 {
		line = strings.TrimSuffix(head(parts[0], max(width-1, 0)), "…")
		if width > 0 && line != parts[0] {
			line += "…"
		}
	}
	return line
}
