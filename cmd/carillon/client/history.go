package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
)

func historyCommand() *cobra.Command {
	r := &cli.Remote{}
	cmd := cli.Group(&cobra.Command{
		Use:   "history",
		Short: "Export the runs of a day",
	})
	r.AddFlags(cmd)
	cmd.AddCommand(historyExportCommand(r))
	return cmd
}

func historyExportCommand(r *cli.Remote) *cobra.Command {
	var day, out string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the runs that were due on a day to a file, one a line",
		Long: "Write the runs that were due on a day (UTC) as JSON, one a line in the order of due times, without payloads and outputs, each in the state that it has now. " +
			"Steps of workflow runs are not among them.\n\n" +
			"With --out the lines are appended to that file as they come, and where the export goes on is kept beside it, in a file that ends in .cursor and is gone at the end. " +
			"An export that broke off goes on from there with the same command: no run is written twice, and none is left out. A file that is complete is not written again.\n\n" +
			"Without --out the lines go to standard output.",
		Example: "  carillon history export --day 2026-11-20 --out runs-2026-11-20.ndjson\n  carillon history export --day 2026-11-20 | jq -r .state | sort | uniq -c",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&day, "day", "", "the `day` in UTC, such as 2026-11-20; it must have ended (default: yesterday)")
	cmd.Flags().StringVar(&out, "out", "", "the `file`")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
		day = dayInUTC(day, time.Now())
		if out == "" {
			return exportTo(cmd, client, day, "", func(p *httpapi.HistoryPage) error {
				_, err := cmd.OutOrStdout().Write(p.Lines)
				return err //nolint:wrapcheck // it is wrapped by the caller
			})
		}
		return exportToFile(cmd, client, day, out)
	})
	return cmd
}

// dayInUTC returns the date of yesterday in UTC for "" and "yesterday"; anything else is left as it
// is.
func dayInUTC(day string, now time.Time) string {
	if day == "" || strings.EqualFold(day, "yesterday") {
		return now.UTC().AddDate(0, 0, -1).Format(time.DateOnly)
	}
	return day
}

// exportTo exports a day from a cursor on, and has every part kept.
func exportTo(cmd *cobra.Command, client *httpapi.Client, day, cursor string, keep func(*httpapi.HistoryPage) error) error {
	for {
		page, err := client.History(cmd.Context(), day, cursor)
		if err != nil {
			return fmt.Errorf("export history: %w", err)
		}
		if err := keep(&page); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if cursor = page.NextCursor; cursor == "" {
			return nil
		}
	}
}

// exportMark says how far an export has come: so much of the file is of it, and it goes on there.
type exportMark struct {
	Day    string `json:"day"`
	Size   int64  `json:"size"`
	Cursor string `json:"cursor"`
}

// exportFile is a file that an export is written to, with its mark beside it. The mark is replaced
// after what it says is on disk. So what the file has beyond it was written by an export that broke
// off, and is cut off.
type exportFile struct {
	f    *os.File
	at   string // of the mark
	mark exportMark
}

// openExport opens a file for the export of a day: a new one, or one whose export broke off. done
// says that it is complete.
func openExport(path, day string) (e *exportFile, done bool, err error) {
	e = &exportFile{at: path + ".cursor", mark: exportMark{Day: day}}
	text, err := os.ReadFile(e.at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(path); err == nil {
			return nil, true, nil
		}
		if err := e.save(); err != nil { // before the file is there: without a mark it is complete
			return nil, false, err
		}
	case err != nil:
		return nil, false, fmt.Errorf("read how far the export came: %w", err)
	default:
		if err := json.Unmarshal(text, &e.mark); err != nil || e.mark.Size < 0 {
			return nil, false, fmt.Errorf("%s does not say how far the export came: delete it and %s to begin anew", e.at, path)
		}
		if e.mark.Day != day {
			return nil, false, cli.Usagef("--out: %s is of %s, whose export broke off", path, e.mark.Day)
		}
	}
	if e.f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600); err != nil { // #nosec G304 -- the user names it
		return nil, false, fmt.Errorf("open: %w", err)
	}
	info, err := e.f.Stat()
	if err == nil && info.Size() < e.mark.Size {
		err = fmt.Errorf("%s is shorter than %s says: delete both to begin anew", path, e.at)
	}
	if err == nil {
		err = e.f.Truncate(e.mark.Size)
	}
	if err == nil {
		_, err = e.f.Seek(e.mark.Size, io.SeekStart)
	}
	if err != nil {
		_ = e.f.Close()
		return nil, false, fmt.Errorf("go on: %w", err)
	}
	return e, false, nil
}

// keep appends a part to the file, and notes where the export goes on.
func (e *exportFile) keep(p *httpapi.HistoryPage) error {
	n, err := e.f.Write(p.Lines)
	if err == nil {
		err = e.f.Sync()
	}
	if err != nil {
		return err //nolint:wrapcheck // it is wrapped by the caller
	}
	e.mark.Size, e.mark.Cursor = e.mark.Size+int64(n), p.NextCursor
	if e.mark.Cursor == "" {
		return os.Remove(e.at) //nolint:wrapcheck // it is wrapped by the caller
	}
	return e.save()
}

// save replaces the mark.
func (e *exportFile) save() error {
	text, err := json.Marshal(e.mark)
	if err == nil {
		err = os.WriteFile(e.at+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(e.at+".new", e.at)
	}
	if err != nil {
		return fmt.Errorf("note how far the export came: %w", err)
	}
	return nil
}

func exportToFile(cmd *cobra.Command, client *httpapi.Client, day, out string) (err error) {
	e, done, err := openExport(out, day)
	switch {
	case err != nil:
		return err
	case done:
		cli.Advise(cmd, "%s is there already, and no export of it broke off: it is left as it is.", out)
		return nil
	}
	defer func() { err = errors.Join(err, e.f.Close()) }()
	if e.mark.Cursor != "" {
		cli.Advise(cmd, "The export goes on after %d bytes.", e.mark.Size)
	}
	return exportTo(cmd, client, day, e.mark.Cursor, e.keep)
}
