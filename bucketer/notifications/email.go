package notifications

import (
	"fmt"
	"html"
	"strconv"
	"strings"

	"carillon.dev/carillon/schema"
)

// emailBody: the mails of a group, from its first incident until all is well, are a thread.
func emailBody(m *message) any {
	mail := schema.Email{Subject: m.title(), Text: m.text(), HTML: m.html()}
	if m.state != stateTest {
		since := strconv.FormatInt(m.row.Since.UnixMicro(), 10)
		mail.Thread = fmt.Sprintf("group-%016x", schema.HashOf("thread", m.row.Tenant, m.row.Name, since, strconv.Itoa(m.sink)))
		mail.First = m.state == stateFiring && m.row.Told > 0 && m.row.Told == m.row.Total
	}
	return mail
}

// footer says why somebody gets a mail.
func (m *message) footer() string {
	return fmt.Sprintf("You get this by the notification %s of the tenant %s of Carillon.", m.row.Rule, m.row.Tenant)
}

func (m *message) text() string {
	parts := append([]string{m.title(), "", m.summary(), ""}, m.linkedLines()...)
	return strings.Join(append(parts, "", "-- ", m.footer()), "\n") + "\n"
}

// html says the same as text. All that comes from tenants, and from those whom they call, is text
// in it.
func (m *message) html() string {
	var b strings.Builder
	element := func(name, text string) {
		fmt.Fprintf(&b, "<%s>%s</%s>\n", name, html.EscapeString(text), name)
	}
	b.WriteString("<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"></head><body>\n")
	element("h3", m.title())
	element("p", m.summary())
	if lines := m.lines(); len(lines) > 0 {
		b.WriteString("<ul>\n")
		for i, link := range m.links() {
			if link == "" {
				element("li", lines[i])
				continue
			}
			fmt.Fprintf(&b, "<li>%s <a href=\"%s\">open</a></li>\n", html.EscapeString(lines[i]), html.EscapeString(link))
		}
		b.WriteString("</ul>\n")
	}
	element("p", m.footer())
	b.WriteString("</body></html>\n")
	return b.String()
}
