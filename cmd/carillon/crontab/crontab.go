package crontab

import (
	"maps"
	"path"
	"path/filepath"
	"strings"
)

// Form says whether the lines of a crontab name a user.
type Form int

// The forms.
const (
	User   Form = iota // time, command
	System             // time, user, command
)

// FormOf guesses the form of a crontab from its path: System in /etc and in folders named cron.d,
// else User.
func FormOf(file string) Form {
	dir, base := filepath.Split(filepath.ToSlash(file))
	if path.Base(dir) == "cron.d" || base == "crontab" && path.Clean(dir) == "/etc" {
		return System
	}
	return User
}

// Entry is a line that runs a command.
type Entry struct {
	Line     int    // from 1
	Schedule string // the five fields, with one space between them, or an @word
	Timezone string // CRON_TZ, if it was set; else that of the machine
	User     string // of the system's form
	Command  string // the first line of what the line says, for a shell
	Stdin    string // the lines after it: the command's input
	// Environment is what was set above the line, CRON_TZ and MAILTO apart.
	Environment map[string]string
}

// Note is a remark about a line for the user.
type Note struct {
	Line    int
	Message string
	// Refused says that the line cannot become a job.
	Refused bool
}

// Parse reads a crontab. Entries and notes come in the order of lines.
func Parse(text string, form Form) ([]Entry, []Note) {
	p := parser{form: form, environment: map[string]string{}}
	for i, line := range strings.Split(text, "\n") {
		p.line = i + 1
		p.read(strings.TrimSuffix(line, "\r"))
	}
	return p.entries, p.notes
}

type parser struct {
	form        Form
	line        int
	environment map[string]string
	timezone    string
	entries     []Entry
	notes       []Note
}

func (p *parser) note(message string) { p.notes = append(p.notes, Note{p.line, message, false}) }

func (p *parser) refuse(message string) { p.notes = append(p.notes, Note{p.line, message, true}) }

func (p *parser) read(line string) {
	line = strings.TrimLeft(line, " \t")
	switch {
	case line == "" || line[0] == '#':
		return
	case p.setting(line):
		return
	}
	if rest, ok := strings.CutPrefix(line, "-"); ok {
		p.note("the leading '-' turns the log of cron off: it is left out")
		line = rest
	}
	fields := 5
	if line[0] == '@' {
		fields = 1
	}
	var schedule []string
	for range fields {
		var field string
		if field, line = word(line); field != "" {
			schedule = append(schedule, field)
		}
	}
	e := Entry{Line: p.line, Schedule: strings.Join(schedule, " "), Timezone: p.timezone, Environment: maps.Clone(p.environment)}
	if p.form == System {
		e.User, line = word(line)
	}
	e.Command, e.Stdin = split(line)
	switch {
	case e.Schedule == "@reboot":
		p.refuse("@reboot has no time: what is to run when a machine starts is for that machine's service manager")
	case strings.TrimSpace(e.Command) == "" && p.form == System:
		p.refuse("is not a time, a user and a command")
	case strings.TrimSpace(e.Command) == "":
		p.refuse("is not a time and a command")
	default:
		p.entries = append(p.entries, e)
	}
}

// word cuts the first word off a line.
func word(line string) (first, rest string) {
	line = strings.TrimLeft(line, " \t")
	end := strings.IndexAny(line, " \t")
	if end < 0 {
		return line, ""
	}
	return line[:end], strings.TrimLeft(line[end:], " \t")
}

// setting reads a line that sets a variable: NAME = value, with or without quotes. It reports
// whether the line is one.
func (p *parser) setting(line string) bool {
	name, rest := unquote(line, " \t=")
	rest = strings.TrimLeft(rest, " \t")
	value, ok := strings.CutPrefix(rest, "=")
	if !ok || name == "" || strings.ContainsAny(name, "*@/,") {
		return false
	}
	value = strings.TrimSpace(value)
	if text, rest := unquote(value, ""); rest == "" {
		value = text
	}
	switch name {
	case "CRON_TZ":
		p.timezone = value
	case "MAILTO", "MAILFROM":
		p.note(name + " is left out: nothing is mailed, the output of a run stands with it")
	case "RANDOM_DELAY":
		p.note("RANDOM_DELAY is left out: a job's jitter spreads it, by an offset that stays the same")
	default:
		p.environment[name] = value
		p.note(name + " is passed on with every command below it")
	}
	return true
}

// unquote returns the text at the start of s, which ends at its closing quote or, without quotes,
// at one of the characters of end.
func unquote(s, end string) (text, rest string) {
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		if i := strings.IndexByte(s[1:], s[0]); i >= 0 {
			return s[1 : i+1], s[i+2:]
		}
	}
	if i := strings.IndexAny(s, end); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// split splits the text after the time of a line. The command ends at the first %. The input
// follows it, and each further % begins a new line. \% is a literal %.
func split(line string) (command, stdin string) {
	var b strings.Builder
	input := false
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\' && i+1 < len(line) && line[i+1] == '%':
			b.WriteByte('%')
			i++
		case line[i] != '%':
			b.WriteByte(line[i])
		case !input:
			command, input = b.String(), true
			b.Reset()
		default:
			b.WriteByte('\n')
		}
	}
	if !input {
		return strings.TrimRight(b.String(), " \t"), ""
	}
	return strings.TrimRight(command, " \t"), b.String() + "\n"
}

// Program guesses the program that a command runs: the first word that may name one. It serves for
// names that people read. Programs that run another one, such as env, are passed over.
func Program(command string) string {
	wrapped, passed := false, false // by env and the like; the word is a value of an option of these
	for w := range strings.FieldsSeq(command) {
		if passed {
			passed = false
			continue
		}
		w = strings.Trim(w, `"'();{}`)
		base := path.Base(w)
		switch {
		case strings.Contains(w, "=") || strings.ContainsAny(w, "$><|&`*"):
		case w == "test" || w == "command" || w == "cd" || w == "if" || w == "then" || w == "exec" || w == "sleep":
		case base == "env" || base == "nice" || base == "ionice" || base == "nohup" || base == "setsid" || base == "timeout" || base == "chronic":
			wrapped = true
		case wrapped && len(w) == 2 && w[0] == '-' && strings.ContainsAny(w[1:], "skuCcn"): // env -u NAME, timeout -s NAME
			passed = true
		case base[0] >= 'a' && base[0] <= 'z' || base[0] >= 'A' && base[0] <= 'Z':
			return base
		}
	}
	return "command"
}
