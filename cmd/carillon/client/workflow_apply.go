package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/cmd/carillon/cli"
)

func workflowApplyCommand(r *cli.Remote) *cobra.Command {
	var files []string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Create or replace workflows by their names",
		Long: "Create or replace workflows by their names, from files of YAML or JSON with one workflow for each document, as for PUT /v1/workflows/{name}, and its name.\n" +
			"What is there already and says the same stays as it is. A workflow that is refused does not stop the others: each of its faults is said with its line.\n" +
			"Runs under way keep the definition that they began with.\n\n" +
			"With --dry-run nothing is changed, and the graph of each workflow is drawn.",
		Example: "  carillon workflow apply -f deploy/examples/etl.yaml\n" +
			"  carillon workflow apply -f etl.yaml -f saga.yaml --dry-run",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "`file` of workflows, or - for standard input; may be repeated")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check, draw the graphs, and change nothing")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
		if len(files) == 0 {
			return cli.Usagef("state --file")
		}
		var found []manifest
		for _, name := range files {
			some, err := readManifests("workflow", name, cmd.InOrStdin())
			if err != nil {
				return err
			}
			found = append(found, some...)
		}
		return applyWorkflows(cmd, r, client, found, dryRun)
	})
	return cmd
}

// workflowResult is the result of one manifest.
type workflowResult struct {
	Name     string            `json:"name"`
	Result   string            `json:"result"` // created, applied, would be created, would be applied, or refused
	Workflow *httpapi.Workflow `json:"workflow,omitempty"`
	Error    *httpapi.Problem  `json:"error,omitempty"`
}

// applyWorkflows puts or checks the workflows one by one, and shows the result of each at once.
func applyWorkflows(cmd *cobra.Command, r *cli.Remote, client *httpapi.Client, found []manifest, dryRun bool) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetEscapeHTML(false)
	refused := 0
	for _, m := range found {
		w, created, err := putWorkflow(cmd, client, &m, dryRun)
		out := workflowResult{Name: m.name, Result: "applied", Workflow: &w}
		if created {
			out.Result = "created"
		}
		if dryRun {
			out.Result = "would be " + out.Result
		}
		if err != nil {
			var p *httpapi.Problem
			if !errors.As(err, &p) || !oneJobsFault(p) {
				return fmt.Errorf("apply %s: %w", m.from, err) // the next one would fare no better
			}
			out.Result, out.Workflow, out.Error = "refused", nil, p
			reportFaults(cmd.ErrOrStderr(), &m, p)
			refused++
		}
		if r.JSON() {
			err = enc.Encode(out)
		} else {
			err = writeApplied(cmd.OutOrStdout(), &out, dryRun)
		}
		if err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	if refused > 0 {
		return fmt.Errorf("%d of %d workflows were refused", refused, len(found))
	}
	return nil
}

func putWorkflow(cmd *cobra.Command, client *httpapi.Client, m *manifest, dryRun bool) (w httpapi.Workflow, created bool, err error) {
	if !dryRun {
		return client.PutWorkflow(cmd.Context(), m.name, m.text)
	}
	w, err = client.CheckWorkflow(cmd.Context(), m.name, m.text)
	return w, w.Generation == 0, err
}

// writeApplied shows what became of a workflow, and of one that was only checked its graph.
func writeApplied(out io.Writer, result *workflowResult, dryRun bool) error {
	if _, err := fmt.Fprintf(out, "%s %s\n", result.Result, cli.Clean(result.Name)); err != nil {
		return err
	}
	if !dryRun || result.Workflow == nil {
		return nil
	}
	g, faults := workflow.Compile(&workflow.Definition{Steps: result.Workflow.Steps})
	if len(faults) > 0 { // the node knows what this program does not
		return nil
	}
	for line := range strings.Lines(g.Tree(nil)) {
		if _, err := fmt.Fprintf(out, "  %s\n", cli.Clean(strings.TrimRight(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

// reportFaults says why a workflow was refused, each fault with its place in the file.
func reportFaults(w io.Writer, m *manifest, p *httpapi.Problem) {
	line := fmt.Sprintf("%s (%d)", p.Title, p.Status)
	if p.Detail != "" {
		line += ": " + p.Detail
	}
	_, _ = fmt.Fprintf(w, "carillon: workflow %s of %s: %s\n", cli.Clean(m.name), cli.Clean(m.file), cli.Clean(line))
	for _, f := range p.Errors {
		at, pointer := m.file, f.Location
		if tokens, ok := tokensOf(f.Location); ok {
			if n := lineOf(m.tree, tokens); n > 0 {
				at += ":" + strconv.Itoa(n)
			}
			pointer = pointerOf(tokens)
		}
		text := at + ": "
		if pointer != "" {
			text += pointer + ": "
		}
		text += f.Message
		if f.Value != nil {
			text += fmt.Sprintf(" (got %v)", f.Value)
		}
		_, _ = fmt.Fprintf(w, "  %s\n", cli.Clean(text))
	}
}

// tokensOf takes a location in the body of a request apart, such as body.steps[3].after[0]; false if
// it is none.
func tokensOf(location string) ([]string, bool) {
	rest, ok := strings.CutPrefix(location, "body")
	if !ok || rest != "" && !strings.ContainsAny(rest[:1], ".[/") {
		return nil, false
	}
	return strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune(".[]/", r) }), true
}

// pointerOf returns the JSON pointer (RFC 6901) of tokens.
func pointerOf(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(t))
	}
	return b.String()
}

// lineOf returns the line of the deepest part of a document to which tokens lead, 0 if the lines are
// not known.
func lineOf(n *yaml.Node, tokens []string) int {
	if n == nil {
		return 0
	}
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	line := n.Line
	for _, t := range tokens {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		var next *yaml.Node
		switch n.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == t {
					next, line = n.Content[i+1], n.Content[i].Line
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(t); err == nil && i >= 0 && i < len(n.Content) {
				next = n.Content[i]
				line = next.Line
			}
		}
		if next == nil {
			return line
		}
		n = next
	}
	return line
}
