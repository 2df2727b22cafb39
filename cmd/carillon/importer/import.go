package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

// maxParallel bounds the requests under way at once; the server takes 16 imports a node by default.
const maxParallel = 32

// importFlags says how an import is done.
type importFlags struct {
	cli.Remote
	failed       string
	parallel     int
	validateOnly bool
	durability   string
	resend       bool
	silenceLimit time.Duration // how long a node may be silent
}

// Command returns `carillon import`.
func Command() *cobra.Command {
	f := &importFlags{silenceLimit: silenceLimit}
	cmd := &cobra.Command{
		Use:   "import FILE… | -",
		Short: "Create very many jobs, from files of one job a line",
		Long: "Create very many one-off jobs from NDJSON, one a line as for POST /v1/jobs, with an optional \"key\"; plain, gzip or zstd.\n\n" +
			"An import that is cut goes on where it was when it is started again: FILE" + stateSuffix + " remembers which lines were answered.\n" +
			"Lines with a key can be sent twice and make one job. Lines without a key that were sent and never answered are unknown: they\n" +
			"are not sent again unless --resend-unknown says so, and may then run twice. Standard input (-) cannot be resumed.\n\n" +
			"Lines that fail do not stop the others. They go to FILE.failed.ndjson, ready to be mended and imported, and the reasons to\n" +
			"FILE.failed.ndjson" + errorsSuffix + ".",
		Example: "  carillon import jobs.ndjson\n" +
			"  carillon import --api http://a:8080,http://b:8080 monday.ndjson.zst tuesday.ndjson.gz\n" +
			"  make-jobs | carillon import - --failed failed.ndjson",
		Args: cobra.MinimumNArgs(1),
	}
	f.AddFlags(cmd)
	cmd.Flags().StringVar(&f.failed, "failed", "", "keep lines that fail in this `file` (default FILE.failed.ndjson)")
	cmd.Flags().IntVar(&f.parallel, "parallel", 0, "requests at once (default 2 for each node)")
	cmd.Flags().BoolVar(&f.validateOnly, "validate-only", false, "check every line, and create nothing")
	cmd.Flags().StringVar(&f.durability, "durability", "", "when lines that state none are acknowledged, where there are regions: home or everywhere (default as the tenant states)")
	cmd.Flags().BoolVar(&f.resend, "resend-unknown", false, "send lines without a key again that may stand already")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) }
	return cmd
}

// run imports the files one after the other. Lines that fail do not stop it; an error does.
func (f *importFlags) run(cmd *cobra.Command, files []string) error {
	if err := f.Validate(); err != nil {
		return err
	}
	nodes, err := f.clients()
	if err != nil {
		return err
	}
	defer func() {
		for _, c := range nodes {
			c.Close()
		}
	}()
	if f.parallel == 0 {
		f.parallel = 2 * len(nodes)
	}
	if f.parallel < 1 {
		return cli.Usagef("--parallel: %d is not at least 1", f.parallel)
	}
	f.parallel = min(f.parallel, maxParallel)
	var bad int64
	for i, name := range files {
		sum, err := f.file(cmd, nodes, name, i > 0)
		if sum != nil {
			if werr := sum.write(cmd.OutOrStdout(), f); werr != nil {
				return werr
			}
			bad += sum.Failed + sum.Unknown
		}
		if err != nil {
			return fmt.Errorf("import %s: %w", name, err)
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d lines failed or are unknown", bad)
	}
	return nil
}

// clients returns a client for each node. They retry nothing, because only the sender knows which
// lines may be sent twice.
func (f *importFlags) clients() (nodes []*httpapi.Client, err error) {
	for _, url := range f.Nodes() {
		c := f.ClientConfig(url)
		c.Retries = -1
		client, err := httpapi.NewClient(c)
		if err != nil {
			return nil, cli.Usagef("%w", err)
		}
		nodes = append(nodes, client)
	}
	return nodes, nil
}

// summary counts the lines of a file by result, those of earlier imports included.
type summary struct {
	File string `json:"file"`
	tally
	Unknown    int64   `json:"unknown,omitempty"`
	Incomplete bool    `json:"incomplete,omitempty"` // some lines were not sent
	Seconds    float64 `json:"seconds"`              // of this import …
	Rate       int64   `json:"rate"`                 // … and its answered lines a second
	FailedFile string  `json:"failed_lines,omitempty"`
}

func (s *summary) write(w io.Writer, f *importFlags) error {
	if f.JSON() {
		return cli.Document(w, s)
	}
	made := fmt.Sprintf("%d created, %d existing", s.Created, s.Existing)
	if f.validateOnly {
		made = fmt.Sprintf("%d valid", s.Existing)
	}
	text := fmt.Sprintf("%s: %s, %d failed, %d unknown (%.1f s, %d lines/s)\n", s.File, made, s.Failed, s.Unknown, s.Seconds, s.Rate)
	if s.FailedFile != "" {
		text += fmt.Sprintf("  lines that failed: %s, and why: %s\n", s.FailedFile, s.FailedFile+errorsSuffix)
	}
	if s.Unknown > 0 {
		text += "  unknown lines have no key, were sent and never answered: they may stand\n"
		if s.File != "-" {
			text += "  look for them with carillon run list, or send them again with --resend-unknown\n"
		}
	}
	if s.Incomplete && s.File == "-" {
		text += "  standard input cannot be resumed\n"
	} else if s.Incomplete {
		text += "  not every line was sent: start the same import again to go on\n"
	}
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// file imports one file. The summary is nil if the import did not begin.
func (f *importFlags) file(cmd *cobra.Command, nodes []*httpapi.Client, name string, further bool) (sum *summary, err error) {
	src, err := openSource(name, cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	var state *importState
	if src.resumable() && !f.validateOnly {
		known, err := src.fingerprint()
		if err != nil {
			return nil, err
		}
		if state, err = openState(name+stateSuffix, stateHead{Version: 1, Fingerprint: known, Tenant: f.ClientConfig().Tenant}); err != nil {
			return nil, err
		}
	}
	kept := &failedLines{path: f.failedFile(name), appendTo: state != nil && state.resumed || further && f.failed != ""}
	p := &progress{start: time.Now()}
	s := &sender{
		file: name, nodes: nodes, options: httpapi.ImportOptions{ValidateOnly: f.validateOnly, Durability: schema.Durability(f.durability)}, resend: f.resend,
		state: state, failed: kept, progress: p, pause: pauseFor, silenceLimit: f.silenceLimit,
	}
	total := tally{}
	if state != nil {
		p.earlier, total = state.earlier.total(), state.earlier
		if state.resumed {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s: going on after %d answered lines\n", name, p.earlier)
		}
	}
	err = f.send(cmd, s, src)
	total.add(p.done())
	sum = &summary{File: name, tally: total, Unknown: p.unknown.Load(), Incomplete: err != nil}
	took, answers := time.Since(p.start), p.done()
	sum.Seconds, sum.Rate = took.Seconds(), rate(answers.total(), took)
	if total.Failed > 0 {
		sum.FailedFile = kept.path
	}
	return sum, errors.Join(err, kept.close(), state.close(err == nil && sum.Unknown == 0))
}

func (f *importFlags) failedFile(name string) string {
	switch {
	case f.failed != "":
		return f.failed
	case name == "-":
		return "stdin.failed.ndjson"
	}
	return name + ".failed.ndjson"
}

func pauseFor(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// errStopped says that the import was told to stop.
var errStopped = errors.New("stopped")

// send hands the lines of src to workers until all are answered or an error ends the import. When
// it is told to stop, it sends nothing more and waits for the answers to what was sent.
func (f *importFlags) send(cmd *cobra.Command, s *sender, src *source) error {
	ctx := cmd.Context()
	s.stopping, s.abort = context.WithCancelCause(ctx)
	defer s.abort(nil)
	var forget context.CancelFunc
	s.sending, forget = context.WithCancel(context.WithoutCancel(ctx))
	defer forget()
	unwatch := context.AfterFunc(s.stopping, func() {
		patience := time.AfterFunc(lastAnswersLimit, forget)
		context.AfterFunc(s.sending, func() { patience.Stop() })
	})
	defer unwatch()

	shown, hide := context.WithCancel(context.WithoutCancel(ctx))
	var screen, workers sync.WaitGroup
	screen.Go(func() { s.progress.show(shown, cmd.ErrOrStderr(), src) })
	blocks := make(chan *block)
	for w := range f.parallel {
		workers.Go(func() {
			for {
				select {
				case <-s.stopping.Done():
					return
				case b, ok := <-blocks:
					if !ok {
						return
					}
					s.send(w, b)
				}
			}
		})
	}
	dealt := make(chan error, 1)
	go func() {
		defer close(blocks)
		dealt <- s.readBlocks(src, blocks)
	}()
	err := errStopped
	select {
	case err = <-dealt:
	case <-s.stopping.Done():
		if src.file != nil {
			err = <-dealt
		} // else it may wait for standard input: it ends with the process
	}
	workers.Wait()
	hide()
	screen.Wait()
	switch cause := context.Cause(s.stopping); {
	case err == nil && s.unsettled.Load() == 0:
		return nil
	case ctx.Err() != nil:
		return errStopped
	case cause != nil:
		return cause
	}
	return err
}

// readBlocks reads src into blocks until its end or until stopping ends. It returns nil if it
// handed all lines to workers.
func (s *sender) readBlocks(src *source, blocks chan<- *block) error {
	b := &block{}
	hand := func() error {
		if len(b.lines) == 0 {
			return nil
		}
		select {
		case blocks <- b:
			b = &block{}
			return nil
		case <-s.stopping.Done():
			return errStopped
		}
	}
	for number := int64(1); ; number++ {
		// the next read may block: send what there is, if a worker is free
		if len(b.lines) > 0 && src.idle() {
			select {
			case blocks <- b:
				b = &block{}
			default:
			}
		}
		text, err := src.next()
		if s.stopping.Err() != nil {
			return errStopped
		}
		switch {
		case errors.Is(err, errLongLine):
			if err := s.failLongLine(number); err != nil {
				return err
			}
			continue
		case errors.Is(err, io.EOF):
			return hand()
		case err != nil:
			return errors.Join(fmt.Errorf("read: %w", err), hand())
		}
		if s.takeLine(b, number, text); b.full() {
			if err := hand(); err != nil {
				return err
			}
		}
	}
}

// takeLine adds a line to a block, unless an earlier import settled it.
func (s *sender) takeLine(b *block, number int64, text []byte) {
	if blank(text) {
		return
	}
	s.progress.linesRead.Add(1)
	if s.state != nil {
		if s.state.answered.has(number) {
			return
		}
		if l := (line{text: text}); s.state.sent.has(number) && !s.resend && !l.keyed() {
			s.progress.countUnknown()
			return
		}
	}
	b.add(number, text)
}

// failLongLine records that a line is longer than the API accepts.
func (s *sender) failLongLine(number int64) error {
	s.progress.linesRead.Add(1)
	if s.state != nil && s.state.answered.has(number) {
		return nil
	}
	s.progress.count(tally{Failed: 1})
	err := s.failed.add(s.file, number, nil, &httpapi.Problem{
		Title: "The line is too large", Status: 413, Detail: fmt.Sprintf("A line of an import is at most %d KiB.", request.MaxLine>>10),
	})
	if err != nil {
		return err
	}
	if err := s.failed.flush(); err != nil {
		return err
	}
	return s.state.save(record{Answered: lineSet{{number, number}}, tally: tally{Failed: 1}})
}

func blank(text []byte) bool {
	for _, c := range text {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}
