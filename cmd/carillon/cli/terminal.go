package cli

import (
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, _, is := askTerminal(f)
	return is
}

// Rows returns the height of the terminal w, 0 if it is not known.
func Rows(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		_, rows, _ := askTerminal(f)
		return rows
	}
	return 0
}

// Columns returns the width of the terminal w: its own answer, else $COLUMNS, else 80.
func Columns(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if n, _, _ := askTerminal(f); n > 0 {
			return n
		}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return 80
}

// Fit joins as many of the first parts as fit into width columns. If even the first does not fit,
// Fit cuts it. Every rune counts as one column.
func Fit(parts []string, width int) string {
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
		line = strings.TrimSuffix(Head(parts[0], max(width-1, 0)), "…")
		if width > 0 && line != parts[0] {
			line += "…"
		}
	}
	return line
}

// PrintEvery is how often progress is printed where there is no terminal.
const PrintEvery = 5 * time.Second

// barWidth is the length of a progress bar, in characters.
const barWidth = 24

// Bar draws a fraction; a negative one is unknown and gives an empty bar.
func Bar(f float64) string {
	full := int(max(f, 0) * barWidth)
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}
