package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
)

// maxApply bounds the text of one file of jobs, in bytes.
const maxApply = 64 << 20

func jobApplyCommand(r *cli.Remote) *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Create or replace recurring jobs by their names",
		Long: "Create or replace recurring jobs by their names, from files of YAML or JSON with one job for each document, as for POST /v1/jobs.\n" +
			"What is there already and says the same stays as it is: unchanged. A job that is refused does not stop the others.\n" +
			"Up to 16 jobs are put at once, since a change of one takes about half a second; a job that runs after others of the files waits for them.",
		Example: "  carillon job apply -f jobs.yaml\n" +
			"  make-jobs | carillon job apply -f -",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "`file` of jobs, or - for standard input; may be repeated")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
		if len(files) == 0 {
			return cli.Usagef("state --file")
		}
		var jobs []manifest
		for _, name := range files {
			some, err := readManifests("job", name, cmd.InOrStdin())
			if err != nil {
				return err
			}
			jobs = append(jobs, some...)
		}
		return apply(cmd, r, client, jobs)
	})
	return cmd
}

// manifest is a job or a workflow of a file.
type manifest struct {
	file string
	from string // where it stands, for messages
	name string
	text json.RawMessage
	tree *yaml.Node // with the lines of the file; nil: they are not known
}

// readManifests reads the jobs or workflows of a file; "-" is stdin. Each must be an object with a
// name. The API checks the rest.
func readManifests(noun, file string, stdin io.Reader) ([]manifest, error) {
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read %ss: %w", noun, err)
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxApply+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %ss of %s: %w", noun, file, err)
	case len(text) > maxApply:
		return nil, fmt.Errorf("read %ss of %s: it is larger than %d MiB", noun, file, maxApply>>20)
	}
	var found []manifest
	for i, part := range documents(text) {
		m := manifest{file: file, from: fmt.Sprintf("%s %d of %s", noun, i+1, file), text: part.text, tree: part.tree}
		if part.err != nil {
			return nil, fmt.Errorf("read %s: %w", m.from, part.err)
		}
		var named struct{ Name string }
		if err := json.Unmarshal(m.text, &named); err != nil || named.Name == "" {
			return nil, fmt.Errorf("read %s: it has no name: only a %s that has one can be applied", m.from, noun)
		}
		m.name = named.Name
		found = append(found, m)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("there is no %s in %s", noun, file)
	}
	return found, nil
}

// documentPart is one document of a text as JSON, or the error that ends the text.
type documentPart struct {
	text json.RawMessage
	tree *yaml.Node // of YAML
	err  error
}

// documents splits a text of JSON or YAML into documents, and leaves out empty ones. JSON stays as
// it is written.
func documents(text []byte) (parts []documentPart) {
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '{' {
		d := json.NewDecoder(bytes.NewReader(trimmed))
		for {
			var p documentPart
			switch p.err = d.Decode(&p.text); {
			case errors.Is(p.err, io.EOF):
				return parts
			case p.err != nil:
				return append(parts, p)
			}
			parts = append(parts, p)
		}
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var v any
		p := documentPart{tree: new(yaml.Node)}
		if p.err = d.Decode(p.tree); p.err == nil {
			p.err = p.tree.Decode(&v)
		}
		switch {
		case errors.Is(p.err, io.EOF):
			return parts
		case p.err != nil:
			return append(parts, p)
		case v == nil:
			continue
		}
		if p.text, p.err = json.Marshal(v); p.err != nil {
			return append(parts, p)
		}
		parts = append(parts, p)
	}
}

// applyResult is the result of one manifest.
type applyResult struct {
	Name   string           `json:"name"`
	Result string           `json:"result"` // created, applied, unchanged or refused
	Job    *httpapi.Job     `json:"job,omitempty"`
	Error  *httpapi.Problem `json:"error,omitempty"`

	err error // of Error, as it is reported
}

// apply puts the jobs, several at once, and shows the result of each in the order of the files.
func apply(cmd *cobra.Command, r *cli.Remote, client *httpapi.Client, jobs []manifest) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetEscapeHTML(false)
	refused, waits := 0, barriers(jobs)
	progress := newTally(cmd.ErrOrStderr(), len(jobs))
	defer progress.clear()
	err := inOrder(cmd.Context(), len(jobs), func(i int) bool { return waits[i] }, func(ctx context.Context, i int) (applyResult, error) {
		return applyOne(ctx, client, &jobs[i])
	}, func(out applyResult) (err error) {
		progress.clear()
		if out.err != nil {
			cli.Report(cmd.ErrOrStderr(), out.err)
			refused++
		}
		if r.JSON() {
			err = enc.Encode(out)
		} else {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", out.Result, cli.Clean(out.Name))
		}
		if err != nil {
			return fmt.Errorf("write: %w", err)
		}
		progress.count()
		return nil
	})
	if err == nil && refused > 0 {
		err = fmt.Errorf("%d of %d jobs were refused", refused, len(jobs))
	}
	return err
}

// applyOne puts a job. An error means that the other jobs would fail too. A job whose generation is
// the one from before says the same as the manifest.
func applyOne(ctx context.Context, client *httpapi.Client, m *manifest) (applyResult, error) {
	was, err := client.Job(ctx, m.name)
	known := err == nil // else putting it says what is wrong, if anything is
	job, created, err := client.PutJob(ctx, m.name, m.text)
	out := applyResult{Name: m.name, Result: "applied", Job: &job}
	switch {
	case created:
		out.Result = "created"
	case known && was.ID == job.ID && was.Generation == job.Generation:
		out.Result = "unchanged"
	}
	if err == nil {
		return out, nil
	}
	err = fmt.Errorf("apply %s: %w", m.from, err)
	var p *httpapi.Problem
	if !errors.As(err, &p) || !oneJobsFault(p) {
		return out, err
	}
	return applyResult{Name: m.name, Result: "refused", Error: p, err: err}, nil
}

// barriers says which jobs are put only once all before them are: those of a name that was there
// before, and those that run after such a job, or before it.
func barriers(jobs []manifest) []bool {
	waits := make([]bool, len(jobs))
	defined, wanted := make(map[string]bool), make(map[string]bool) // since the last one that waits
	for i := range jobs {
		var says struct{ After struct{ Jobs []string } }
		_ = json.Unmarshal(jobs[i].text, &says) // the API says what is wrong with it
		name, after := jobs[i].name, says.After.Jobs
		if waits[i] = defined[name] || wanted[name] || slices.ContainsFunc(after, func(a string) bool { return defined[a] }); waits[i] {
			clear(defined)
			clear(wanted)
		}
		defined[name] = true
		for _, a := range after {
			wanted[a] = true
		}
	}
	return waits
}
