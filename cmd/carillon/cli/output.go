package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
)

// timeFormat is how tables show an instant. It is in UTC, to compare it with the logs of any
// machine.
const timeFormat = "2006-01-02T15:04:05.000Z"

// Table writes rows in columns; the first row is the head.
func Table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if cell = Clean(cell); cell == "" {
				cell = "-"
			}
			if i > 0 {
				cell = "\t" + cell
			}
			if _, err := io.WriteString(t, cell); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
		if _, err := io.WriteString(t, "\n"); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// Document writes v as indented JSON.
func Document(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// Clean makes foreign text safe for one line of a terminal: it escapes control characters and
// characters that change the direction of text.
func Clean(s string) string {
	if !strings.ContainsFunc(s, unsafeRune) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unsafeRune(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func unsafeRune(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// ShowTime shows an instant in UTC, to the ms; the zero time is empty.
func ShowTime(t httpapi.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeFormat)
}

// Advise writes a line for a person to the error output. A closed error output is ignored.
func Advise(cmd *cobra.Command, format string, args ...any) {
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
}

// Head returns the first n runes of s, with an ellipsis if that is not all.
func Head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i] + "…"
		}
		n--
	}
	return s
}

// pageLimit is the most items of one page of the API.
const pageLimit = 500

// PageOf returns the page size for a list of which limit items are shown; 0 means all.
func PageOf(limit int) int {
	if limit <= 0 {
		return pageLimit
	}
	return min(limit+1, pageLimit)
}

// List shows items as a table, or as JSON with one item a line: at most limit of them, all if limit
// is 0. It says on stderr if there are more. The optional columns are left out of a page of the
// table that has nothing in them; where the columns change, the head is written again.
func List[T any](cmd *cobra.Command, r *Remote, act string, items iter.Seq2[T, error], limit int, head []string, row func(*T) []string, optional ...string) error {
	if limit < 0 {
		return Usagef("--limit: %d is negative", limit)
	}
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetEscapeHTML(false)
	table := pagedTable{head: head, optional: optional}
	shown, more := 0, false
	for item, err := range items {
		if err != nil {
			return fmt.Errorf("%s: %w", act, err)
		}
		if len(table.rows) == pageLimit {
			if err := table.write(cmd.OutOrStdout()); err != nil {
				return err
			}
		}
		if more = limit > 0 && shown == limit; more {
			break
		}
		shown++
		if r.JSON() {
			if err := enc.Encode(item); err != nil {
				return fmt.Errorf("write: %w", err)
			}
			continue
		}
		table.rows = append(table.rows, row(&item))
	}
	if !r.JSON() {
		if err := table.write(cmd.OutOrStdout()); err != nil {
			return err
		}
	}
	if more {
		Advise(cmd, "There are more: --limit %d shows only the first.", limit)
	}
	return nil
}

// pagedTable is a table that is written page by page.
type pagedTable struct {
	head, optional []string
	rows           [][]string
	columns        []int // of the page before
}

// write writes the rows that were added since the last time.
func (t *pagedTable) write(w io.Writer) error {
	var columns []int
	for i, name := range t.head {
		if !slices.Contains(t.optional, name) || slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != "" }) {
			columns = append(columns, i)
		}
	}
	page := t.rows
	if !slices.Equal(columns, t.columns) {
		page = append([][]string{t.head}, page...)
	}
	for i, row := range page {
		page[i] = make([]string, 0, len(columns))
		for _, c := range columns {
			page[i] = append(page[i], row[c])
		}
	}
	t.rows, t.columns = nil, columns
	return Table(w, page)
}
