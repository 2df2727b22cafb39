package console

import (
	"context"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// A Place is a part of a page in which is looked: the whole, or what In names.
type Place struct {
	page *Page
	path []sought // from the outside to the inside
}

// sought is what is looked for.
type sought struct {
	role string
	// name is the accessible name, as a screen reader says it. One that ends with … stands for every
	// name that begins so, and "" for any.
	name string
}

func (s sought) String() string {
	if s.name == "" {
		return "a " + s.role
	}
	return fmt.Sprintf("the %s %q", s.role, s.name)
}

// fits reports whether an accessible name is the one that is sought.
func (s sought) fits(name string) bool {
	name = plain(name)
	if begin, ok := strings.CutSuffix(s.name, "…"); ok {
		return strings.HasPrefix(name, begin)
	}
	return s.name == "" || name == s.name
}

// plain returns a text as a person reads it: space is space.
func plain(text string) string { return strings.Join(strings.Fields(text), " ") }

// In returns the part of the place that has a role and a name, such as the region "Attempts". It is
// looked up anew with each act, so it may come later. Of several it is the first.
func (l Place) In(role, name string) Place {
	path := append(append([]sought{}, l.path...), sought{role, name})
	return Place{l.page, path}
}

// InRow returns the row of a table that contains a text.
func (l Place) InRow(text string) Place { return l.In(rowWith, text) }

// Roles that stand for several, or for what is no role alone.
const (
	rowWith = "row with the text"
	field   = "field"
)

// rolesOf returns the roles of the accessibility tree that a role of a test stands for.
func rolesOf(role string) []string {
	switch role {
	case rowWith:
		return []string{"row"}
	case field:
		return []string{
			"textbox", "searchbox", "combobox", "spinbutton", "listbox", "slider", "Date", "DateTime", "InputTime", "ColorWell",
		}
	case "summary":
		return []string{"DisclosureTriangle"}
	}
	return []string{role}
}

// a found element.
type found struct {
	id    cdp.BackendNodeID
	role  string
	name  string
	value string
	is    map[string]string // properties: disabled, pressed, selected, expanded, checked, invalid …
}

// look returns what there is of s within the element `inside`, 0 for the whole page, in the order of
// the page. What screen readers do not know of is not there.
func (p *Page) look(s sought, inside cdp.BackendNodeID) ([]found, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	var all []found
	for _, role := range rolesOf(s.role) {
		params := accessibility.QueryAXTreeParams{Role: role, BackendNodeID: inside}
		if inside == 0 {
			document, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{Expression: "document"})
			if err != nil {
				return nil, fmt.Errorf("find the document: %w", err)
			}
			params.ObjectID = document.Result.ObjectID
		}
		answer, err := chromedp.Call(ctx, accessibility.QueryAXTree, params)
		if err != nil {
			return nil, fmt.Errorf("look for a %s: %w", role, err)
		}
		for _, node := range answer.Nodes {
			if node.Ignored || node.BackendDOMNodeID == 0 || node.BackendDOMNodeID == inside {
				continue
			}
			f := found{id: node.BackendDOMNodeID, role: role, name: plain(textOf(node.Name)), value: textOf(node.Value), is: map[string]string{}}
			for _, property := range node.Properties {
				f.is[string(property.Name)] = textOf(property.Value)
			}
			if s.role == rowWith {
				text, err := textWithin(ctx, f.id)
				if err != nil || !strings.Contains(text, s.name) {
					continue
				}
			} else if !s.fits(f.name) {
				continue
			}
			all = append(all, f)
		}
	}
	return all, nil
}

// textOf returns a value of the accessibility tree as text.
func textOf(v *accessibility.Value) string {
	if v == nil || len(v.Value) == 0 {
		return ""
	}
	return strings.Trim(unquoted(string(v.Value)), "\n")
}

// all returns what there is of a role and a name in the place.
func (l Place) all(s sought) ([]found, error) {
	inside, err := l.inside()
	if err != nil {
		return nil, err
	}
	return l.page.look(s, inside)
}

// inside returns the element that the place is, 0 for the whole page.
func (l Place) inside() (cdp.BackendNodeID, error) {
	var inside cdp.BackendNodeID
	for _, s := range l.path {
		within, err := l.page.look(s, inside)
		if err != nil {
			return 0, err
		}
		if len(within) == 0 {
			return 0, fmt.Errorf("there is not %s", s)
		}
		inside = within[0].id
	}
	return inside, nil
}

// Find waits until there is one of a role and a name that is not disabled, and returns it. Several
// with the same name are a fault: who hears them cannot tell them apart.
func (l Place) find(s sought) found {
	t := l.page.t
	t.Helper()
	var it found
	l.page.until("there is "+l.describe(s), func() (bool, string) {
		all, err := l.all(s)
		switch {
		case err != nil:
			return false, err.Error()
		case len(all) == 0:
			return false, "none; of that role there are " + l.names(s.role)
		case len(all) > 1:
			return false, fmt.Sprintf("%d of it", len(all))
		}
		it = all[0]
		return true, ""
	})
	return it
}

func (l Place) describe(s sought) string {
	words := s.String()
	for i := len(l.path) - 1; i >= 0; i-- {
		words += " in " + l.path[i].String()
	}
	return words
}

// names lists the names of what has a role, for failures.
func (l Place) names(role string) string {
	all, err := l.all(sought{role: role})
	if err != nil || len(all) == 0 {
		return "none"
	}
	const most = 40
	names := make([]string, 0, most)
	for _, f := range all {
		if len(names) == most {
			names = append(names, "…")
			break
		}
		names = append(names, fmt.Sprintf("%q", f.name))
	}
	return strings.Join(names, ", ")
}

// Has reports whether there is something of a role and a name now.
func (l Place) Has(role, name string) bool {
	l.page.t.Helper()
	all, err := l.all(sought{role: role, name: name})
	return err == nil && len(all) > 0
}

// Count returns how many there are of a role and a name now; 0 if the place is not there.
func (l Place) Count(role, name string) int {
	l.page.t.Helper()
	all, err := l.all(sought{role: role, name: name})
	if err != nil {
		return 0
	}
	return len(all)
}

// Await waits until there is something of a role and a name.
func (l Place) Await(role, name string) {
	l.page.t.Helper()
	l.page.until("there is "+l.describe(sought{role: role, name: name}), func() (bool, string) {
		return l.Has(role, name), "none; of that role there are " + l.names(role)
	})
}

// Gone waits until there is nothing of a role and a name.
func (l Place) Gone(role, name string) {
	l.page.t.Helper()
	l.page.until("there is no more "+l.describe(sought{role: role, name: name}), func() (bool, string) {
		return !l.Has(role, name), "it"
	})
}

// Text returns what can be read in the place now; "" if it is not there.
func (l Place) Text() string {
	l.page.t.Helper()
	text, err := l.text()
	if err != nil {
		return ""
	}
	return text
}

func (l Place) text() (string, error) {
	if len(l.path) == 0 {
		text, err := try[string](l.page, "document.body ? document.body.innerText : ''")
		return plain(text), err
	}
	inside, err := l.inside()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(l.page.ctx, patience)
	defer cancel()
	return textWithin(ctx, inside)
}

// See waits until a text can be read in the place. Space is space.
func (l Place) See(text string) {
	l.page.t.Helper()
	l.page.until(fmt.Sprintf("%q can be read%s", text, l.where()), func() (bool, string) {
		there, err := l.text()
		if err != nil {
			return false, err.Error()
		}
		return strings.Contains(there, plain(text)), cut(there)
	})
}

// SeeAny waits until one of several texts can be read, and returns it.
func (l Place) SeeAny(texts ...string) string {
	l.page.t.Helper()
	seen := ""
	l.page.until(fmt.Sprintf("one of %q can be read%s", texts, l.where()), func() (bool, string) {
		there, err := l.text()
		if err != nil {
			return false, err.Error()
		}
		for _, text := range texts {
			if strings.Contains(there, plain(text)) {
				seen = text
				return true, ""
			}
		}
		return false, cut(there)
	})
	return seen
}

// SeeNoMore waits until a text cannot be read in the place.
func (l Place) SeeNoMore(text string) {
	l.page.t.Helper()
	l.page.until(fmt.Sprintf("%q cannot be read%s", text, l.where()), func() (bool, string) {
		there := l.Text()
		return !strings.Contains(there, plain(text)), cut(there)
	})
}

// Reads reports whether a text can be read in the place now.
func (l Place) Reads(text string) bool {
	l.page.t.Helper()
	return strings.Contains(l.Text(), plain(text))
}

func (l Place) where() string {
	words := ""
	for i := len(l.path) - 1; i >= 0; i-- {
		words += " in " + l.path[i].String()
	}
	return words
}

func cut(text string) string {
	const most = 2000
	if len(text) > most {
		return text[:most] + " …"
	}
	return text
}
