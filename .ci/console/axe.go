package console

import (
	_ "embed" // axe-core
	"fmt"
	"strings"
)

// axeCore is axe-core 4.14.1 by Deque Systems, Mozilla Public License 2.0 (axe/LICENSE), unchanged.
//
//go:embed axe/axe.min.js
var axeCore string

// axeTags are the rules that are checked: WCAG 2.2, levels A and AA.
const axeTags = `['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']`

// violation is a rule that axe found broken.
type violation struct {
	ID    string
	Help  string
	Nodes []struct {
		HTML    string
		Target  string
		Summary string
	}
}

// Axe checks the page as it is by the rules of WCAG 2.2 AA, in light and in dark, and reports each
// violation as a failure of the test. The theme is as it was afterwards.
func (p *Page) Axe(what string) {
	p.t.Helper()
	was := p.dark
	p.AxeInTheme(what)
	p.Theme(!was)
	p.AxeInTheme(what)
	p.Theme(was)
}

// shownNodes bounds the places that are told of one rule.
const shownNodes = 2

// AxeInTheme is Axe in the theme that the page has.
func (p *Page) AxeInTheme(what string) {
	p.t.Helper()
	theme := "light"
	if p.dark {
		theme = "dark"
	}
	for _, v := range p.violations() {
		for i, node := range v.Nodes {
			if i == shownNodes {
				p.t.Errorf("%s, %s: axe finds %s at %d more", what, theme, v.ID, len(v.Nodes)-i)
				break
			}
			p.t.Errorf("%s, %s: axe finds %s (%s) at %s: %.300s\n%s", what, theme, v.ID, v.Help, node.Target, node.HTML, node.Summary)
		}
	}
}

// violations runs axe. What belongs to axe alone is not in the page: it is put there each time.
func (p *Page) violations() []violation {
	p.t.Helper()
	if !evaluate[bool](p, "typeof globalThis.axe === 'object'") {
		evaluate[bool](p, axeCore+"\n;true")
	}
	return evaluate[[]violation](p, fmt.Sprintf(`(async () => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    await frame();
    await frame(); // the theme is drawn
    const found = await axe.run(document, { runOnly: { type: 'tag', values: %s }, resultTypes: ['violations'] });
    return found.violations.map((v) => ({
      ID: v.id, Help: v.help,
      Nodes: v.nodes.map((n) => ({ HTML: n.html, Target: n.target.flat().join(' '), Summary: n.failureSummary ?? '' })),
    }));
  })()`, axeTags))
}

// Fits checks that nothing of the page is wider than the screen, so that nobody must scroll sideways:
// only parts that scroll by themselves, such as wide tables, may be. It reports what is too wide.
func (p *Page) Fits(what string) {
	p.t.Helper()
	wide := evaluate[[]string](p, `(() => {
    const screen = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= screen) { return []; }
    const scrolls = (e) => {
      for (let at = e; at && at !== document.documentElement; at = at.parentElement) {
        if (at !== document.body && /auto|scroll|hidden|clip/.test(getComputedStyle(at).overflowX)) { return true; }
      }
      return false;
    };
    const named = (e) => e.tagName.toLowerCase() + ' ' + JSON.stringify((e.getAttribute('aria-label') ?? e.innerText ?? '').slice(0, 60));
    const found = [...document.body.querySelectorAll('*')]
      .filter((e) => e.checkVisibility() && !scrolls(e.parentElement) && e.getBoundingClientRect().right > screen + 0.5)
      .map((e) => named(e) + ' ends at ' + Math.round(e.getBoundingClientRect().right));
    return ['the page is ' + document.documentElement.scrollWidth + ' wide on a screen of ' + screen, ...found.slice(0, 5)];
  })()`)
	if len(wide) > 0 {
		p.t.Errorf("%s: %s", what, strings.Join(wide, "; "))
	}
}
