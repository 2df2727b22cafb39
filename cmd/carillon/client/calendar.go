package client

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/cli"
)

func calendarCommand() *cobra.Command {
	r := &cli.Remote{}
	cmd := cli.Group(&cobra.Command{
		Use:   "calendar",
		Short: "Keep dates, such as holidays, on which schedules are not due, or due on a day nearby",
		Long: "Keep dates, such as holidays. A schedule names a calendar (carillon job create --calendar NAME --on-date next_day) and says what it does on its dates.\n" +
			"Where a calendar changes, the jobs that use it change with it.",
	})
	r.AddFlags(cmd)
	cmd.AddCommand(calendarListCommand(r), calendarGetCommand(r), calendarSetCommand(r), calendarDeleteCommand(r))
	return cmd
}

func calendarListCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the calendars of the tenant",
		Args:  cobra.NoArgs,
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
			all, err := cli.All(client.Calendars(cmd.Context()))
			if err != nil {
				return fmt.Errorf("list calendars: %w", err)
			}
			if r.JSON() {
				return cli.Document(cmd.OutOrStdout(), all)
			}
			rows := [][]string{{"NAME", "DATES", "FIRST", "LAST", "CHANGED", "DESCRIPTION"}}
			for i := range all {
				c, first, last := &all[i], "", ""
				if n := len(c.Dates); n > 0 {
					first, last = c.Dates[0], c.Dates[n-1]
				}
				if c.Fault != "" {
					c.Description = c.Fault
				}
				rows = append(rows, []string{c.Name, fmt.Sprint(len(c.Dates)), first, last, cli.ShowTime(c.UpdatedAt), c.Description})
			}
			return cli.Table(cmd.OutOrStdout(), rows)
		}),
	}
}

func calendarGetCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "get NAME",
		Short: "Show the dates of a calendar",
		Args:  cobra.ExactArgs(1),
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
			c, err := client.Calendar(cmd.Context(), args[0])
			if err != nil {
				return fmt.Errorf("read calendar: %w", err)
			}
			return r.Show(cmd, c, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s\n", strings.Join(c.Dates, "\n"))
				return err
			})
		}),
	}
}

func calendarSetCommand(r *cli.Remote) *cobra.Command {
	var c request.CalendarRequest
	var file string
	cmd := &cobra.Command{
		Use:   "set NAME (--date DATE … | --icalendar FILE)",
		Short: "Create a calendar, or replace its dates",
		Long: "Create a calendar, or replace its dates. The jobs that use it change with it: 2 s after the answer nothing starts by the dates before.\n\n" +
			"Of an iCalendar the all-day events count. Those that repeat each year (RRULE:FREQ=YEARLY) become their dates from last year to five years from now:\n" +
			"set the calendar again before the last of them, which the answer names. Events that repeat otherwise are refused.",
		Example: "  carillon calendar set holidays-de --date 2026-12-25 --date 2026-12-26\n" +
			"  carillon calendar set holidays-de --icalendar holidays.ics",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringArrayVar(&c.Dates, "date", nil, "a `date` such as 2026-12-25; may be repeated")
	cmd.Flags().StringVar(&file, "icalendar", "", "`file` with an iCalendar, or - for standard input")
	cmd.Flags().StringVar(&c.Description, "description", "", "what it is for")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		given := cmd.Flags().Changed
		if given("date") == given("icalendar") {
			return cli.Usagef("state --date or --icalendar")
		}
		if given("icalendar") {
			text, err := readICalendar(file, cmd.InOrStdin())
			if err != nil {
				return err
			}
			c.ICalendar = string(text)
		}
		is, err := client.PutCalendar(cmd.Context(), args[0], c)
		if err != nil {
			return fmt.Errorf("set calendar: %w", err)
		}
		return r.Show(cmd, is, func(w io.Writer) error {
			jobs := 0
			if is.Jobs != nil {
				jobs = *is.Jobs
			}
			last := ""
			if n := len(is.Dates); n > 0 {
				last = ", the last is " + is.Dates[n-1]
			}
			_, err := fmt.Fprintf(w, "%s: %d dates, used by %d jobs%s\n", is.Name, len(is.Dates), jobs, last)
			if err == nil && is.OpenJobs > 0 {
				_, err = fmt.Fprintf(w, "%d of them follow within minutes\n", is.OpenJobs)
			}
			return err
		})
	})
	return cmd
}

// readICalendar reads a file, or standard input, up to what the API takes and one byte more.
func readICalendar(file string, in io.Reader) ([]byte, error) {
	if file != "-" {
		f, err := os.Open(file) // #nosec G304 -- the caller names it
		if err != nil {
			return nil, fmt.Errorf("--icalendar: %w", err)
		}
		defer f.Close() //nolint:errcheck // it was only read
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, request.MaxBody+1))
	if err != nil {
		return nil, fmt.Errorf("--icalendar: %w", err)
	}
	return text, nil
}

func calendarDeleteCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a calendar that no job uses",
		Args:  cobra.ExactArgs(1),
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
			if err := client.DeleteCalendar(cmd.Context(), args[0]); err != nil {
				return fmt.Errorf("delete calendar: %w", err)
			}
			return nil
		}),
	}
}
