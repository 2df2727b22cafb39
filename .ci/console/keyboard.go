package console

import (
	"context"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// maxStops bounds how often Walk presses Tab.
const maxStops = 600

// maxParts bounds the parts of one field that Tab leads through: a date with a time has seven.
const maxParts = 10

// focused returns what has the focus; the zero value is the page itself.
func (p *Page) focused() (found, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	active, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{
		Expression: "document.activeElement === document.body ? null : document.activeElement",
	})
	if err != nil || active.Result.ObjectID == "" {
		return found{}, err
	}
	node, err := chromedp.Call(ctx, dom.DescribeNode, dom.DescribeNodeParams{ObjectID: active.Result.ObjectID})
	if err != nil {
		return found{}, err
	}
	tree, err := chromedp.Call(ctx, accessibility.GetPartialAXTree, accessibility.GetPartialAXTreeParams{
		BackendNodeID: node.Node.BackendNodeID, FetchRelatives: new(false),
	})
	if err != nil || len(tree.Nodes) == 0 {
		return found{}, err
	}
	of := tree.Nodes[0]
	return found{id: node.Node.BackendNodeID, role: textOf(of.Role), name: plain(textOf(of.Name)), value: textOf(of.Value)}, nil
}

// A stop is where Tab leads.
type stop struct {
	Number  int // of the element, by the order of markStops; -1: none of them
	Words   string
	Outline bool // it looks otherwise than without the focus
	Covered string
}

// markStops numbers everything that a person must be able to reach with Tab, and returns what it is.
// Of a group that is walked with arrows (tabs, radio buttons) it is the one that Tab leads to.
const markStops = `(() => {
  const usable = (e) => e.tabIndex >= 0 && !e.disabled && e.checkVisibility({ visibilityProperty: true }) && !e.closest('[inert]') && e.getClientRects().length > 0;
  const all = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex], [contenteditable]')].filter(usable)
    .filter((e) => !(e instanceof HTMLInputElement && e.type === 'radio' && !e.checked && document.querySelector('input[type=radio][name="' + CSS.escape(e.name) + '"]:checked')));
  globalThis.carillonStops = all;
  globalThis.carillonLooks = all.map((e) => globalThis.carillonLook(e));
  return all.map((e) => globalThis.carillonWords(e));
})()`

// wordsOfStop is what an element is called in failures.
const wordsOfStop = `globalThis.carillonWords = (e) => e.tagName.toLowerCase() + ' ' +
  JSON.stringify((e.getAttribute('aria-label') || e.labels?.[0]?.innerText || e.innerText || e.title || '').trim().slice(0, 60)); true`

// lookOfStop is how an element looks, as far as a focus can change it: itself and those around it, which
// may draw its frame.
const lookOfStop = `globalThis.carillonLook = (e) => {
  const parts = ['outlineStyle', 'outlineWidth', 'outlineColor', 'boxShadow', 'borderTopColor', 'borderTopWidth', 'backgroundColor', 'textDecorationLine', 'color'];
  const look = [];
  for (let at = e, i = 0; at && i < 3; at = at.parentElement, i++) {
    const style = getComputedStyle(at);
    look.push(parts.map((part) => style[part]).join('|'));
  }
  return look.join('\n');
}; true`

// thisStop tells where the focus is.
const thisStop = `(() => {
  const e = document.activeElement;
  if (!e || e === document.body || e === document.documentElement) { return { Number: -1, Words: '', Outline: true, Covered: '' }; }
  const Number = globalThis.carillonStops.indexOf(e);
  const Words = globalThis.carillonWords(e);
  const Outline = Number < 0 || globalThis.carillonLook(e) !== globalThis.carillonLooks[Number];
  let Covered = '';
  const box = e.getBoundingClientRect();
  const x = Math.min(Math.max(box.x + Math.min(box.width, innerWidth) / 2, 1), innerWidth - 1);
  const y = box.y + box.height / 2;
  if (box.bottom <= 0 || box.top >= innerHeight || box.right <= 0 || box.left >= innerWidth) {
    Covered = 'it is not on the screen';
  } else if (y > 0 && y < innerHeight) {
    const hit = document.elementFromPoint(x, y);
    const own = hit && (e.contains(hit) || hit.contains(e) || [...(e.labels ?? [])].some((label) => label.contains(hit)));
    if (!own) { Covered = 'it is behind ' + (hit ? hit.tagName.toLowerCase() + ' ' + JSON.stringify((hit.innerText ?? '').slice(0, 40)) : 'something'); }
  }
  return { Number, Words, Outline, Covered };
})()`

// fromTheBeginning has the next Tab lead to the first stop: what had the focus is where it goes on.
const fromTheBeginning = `(() => {
  document.body.tabIndex = -1;
  document.body.focus();
  document.body.removeAttribute('tabindex');
  scrollTo(0, 0);
  return true;
})()`

// Walk goes through the page with Tab alone, and reports as failures what cannot be reached, where the
// focus cannot be seen, and where it stays. It returns how many stops there were.
func (p *Page) Walk(what string) int {
	p.t.Helper()
	evaluate[bool](p, lookOfStop)
	evaluate[bool](p, wordsOfStop)
	evaluate[bool](p, fromTheBeginning)
	all := evaluate[[]string](p, markStops)
	reached := make(map[int]bool)
	var faults []string
	stops := 0
	for last, stays := -1, 0; stops < maxStops; stops++ {
		p.Press("Tab")
		at := evaluate[stop](p, thisStop)
		if at.Words == "" { // the end of the page
			break
		}
		if at.Number >= 0 && at.Number == last {
			if stays++; stays > maxParts {
				faults = append(faults, at.Words+" does not let the focus go")
				break
			}
			continue
		}
		if at.Number >= 0 && reached[at.Number] {
			break // round again: in a dialogue, say
		}
		reached[at.Number] = true
		last, stays = at.Number, 0
		if !at.Outline {
			faults = append(faults, at.Words+" looks the same with the focus")
		}
		if at.Covered != "" {
			faults = append(faults, at.Words+" has the focus, and "+at.Covered)
		}
	}
	if stops == maxStops {
		faults = append(faults, fmt.Sprintf("no end after %d stops", stops))
	}
	left := 0
	for i, words := range all {
		// What has left the page since then needs no way to it.
		if reached[i] || !evaluate[bool](p, fmt.Sprintf("globalThis.carillonStops[%d].isConnected && globalThis.carillonStops[%d].checkVisibility()", i, i)) {
			continue
		}
		if left++; left <= 5 {
			faults = append(faults, "Tab does not lead to "+words)
		}
	}
	if len(faults) > 0 {
		p.t.Errorf("%s, with the keyboard alone (%d stops, %d of %d reached):\n  %s", what, stops, len(all)-left, len(all), strings.Join(faults, "\n  "))
	}
	return stops
}
