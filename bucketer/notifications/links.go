package notifications

import (
	"net/url"

	"carillon.dev/carillon/schema"
)

// LinkTo has messages link to runs in the console below a base URL, such as
// https://carillon.example.com; "": to none. It is called before anything is sent, and is the same
// on every node: the runs of a message follow from its row (invariant 3), and whoever writes them
// writes the same links.
func (r *Rules) LinkTo(base string) { r.base = base }

// link returns where a person sees a run of the message, "" if that is not known.
func (m *message) link(run schema.RunID) string {
	if m.base == "" || run.IsZero() {
		return ""
	}
	return m.base + "/console/#/runs/" + run.String() + "?tenant=" + url.QueryEscape(m.row.Tenant)
}

// links returns where a person sees the examples, in the order of lines; "" for one that has none.
func (m *message) links() []string {
	links := make([]string, len(m.row.Examples))
	for i := range m.row.Examples {
		links[i] = m.link(m.row.Examples[i].Run)
	}
	return links
}

// linkedLines are the lines, each with its link behind it.
func (m *message) linkedLines() []string {
	lines, links := m.lines(), m.links()
	for i := range lines {
		if links[i] != "" {
			lines[i] += " " + links[i]
		}
	}
	return lines
}

// firstLink returns the link of the first example that has one.
func (m *message) firstLink() string {
	for _, link := range m.links() {
		if link != "" {
			return link
		}
	}
	return ""
}
