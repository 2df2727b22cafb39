package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	inline  = regexp.MustCompile("`(?:\\.local/bin/)?carillon ([^`]+)`")
	block   = regexp.MustCompile(`(?m)(?:^    |^    .*(?:\$\(|-- |sudo ))(?:\.local/bin/)?carillon (.+)$`)
	targets = regexp.MustCompile("`make ([a-z][a-z-]+)")
	links   = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
)

// commandsOf returns the command lines of a page that call the program, without its name.
func commandsOf(page string) (lines []string) {
	for _, re := range []*regexp.Regexp{inline, block} {
		for _, found := range re.FindAllStringSubmatch(page, -1) {
			line, _, _ := strings.Cut(found[1], " #")
			line, _, _ = strings.Cut(line, " | ")
			line, _, _ = strings.Cut(line, " < ")
			lines = append(lines, strings.Trim(strings.TrimSpace(line), ")"))
		}
	}
	return lines
}

// words splits a command line where no quotes are around a blank.
func words(line string) (list []string) {
	quoted, word := false, ""
	for _, r := range line + " " {
		switch {
		case r == '\'':
			quoted = !quoted
		case r == ' ' && !quoted:
			if word != "" {
				list = append(list, word)
			}
			word = ""
		default:
			word += string(r)
		}
	}
	return list
}

// parse returns why the program would not take a command line, nil if it would. The name of a command
// alone is right.
func parse(line string) error {
	cmd, rest, err := root().Find(words(line))
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return nil
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// TestCommandsOfPages: each command that a page for operators names is one that the program takes, its
// make targets exist, and so do the files that it links to.
func TestCommandsOfPages(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for name, least := range map[string]int{
		"deploy/OPERATING.md": 25, "deploy/REGIONS.md": 8, "deploy/TARGETS.md": 3, "deploy/monitoring/RUNBOOKS.md": 10, "deploy/monitoring/README.md": 0, "deploy/kubernetes/README.md": 1,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("..", "..", filepath.FromSlash(name))
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := commandsOf(string(text))
			for _, line := range lines {
				if err := parse(line); err != nil {
					t.Errorf("carillon %s: %v", line, err)
				}
			}
			if len(lines) < least {
				t.Errorf("%d commands were found, want at least %d: the page was not understood", len(lines), least)
			}
			for _, found := range targets.FindAllStringSubmatch(string(text), -1) {
				if !strings.Contains(string(makefile), "\n"+found[1]+":") {
					t.Errorf("make %s: there is no such target", found[1])
				}
			}
			for _, found := range links.FindAllStringSubmatch(string(text), -1) {
				if _, err := os.Stat(filepath.Join(filepath.Dir(path), filepath.FromSlash(found[1]))); err != nil {
					t.Errorf("link to %s: %v", found[1], err)
				}
			}
		})
	}
}

// TestParseRefuses: what the test of the pages finds.
func TestParseRefuses(t *testing.T) {
	for _, line := range []string{"clusters", "cluster --shard", "key revoke a b", "region move eu us", "stats top top top", "cursor rewind --since soon"} {
		if parse(line) == nil {
			t.Errorf("carillon %s is taken", line)
		}
	}
	got := commandsOf("`carillon cluster` and\n\n    sudo carillon region list   # shows\n    export K=$(carillon key create a --bootstrap)\n")
	if want := "cluster|region list|key create a --bootstrap"; strings.Join(got, "|") != want {
		t.Errorf("commandsOf = %q, want %s", got, want)
	}
}

// maxHandbook bounds the handbook, words: it is read while something burns.
const maxHandbook = 2000

func TestHandbookIsShort(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "OPERATING.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Fields(string(text))); n > maxHandbook {
		t.Errorf("deploy/OPERATING.md has %d words, more than %d", n, maxHandbook)
	}
}
