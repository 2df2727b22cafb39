package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// call sends a command of the protocol, and fails the test if it fails.
func call[P, R any](p *Page, what string, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	answer, err := chromedp.Call(ctx, command, params)
	if err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
	return answer
}

// on calls a function of JavaScript with an element as `this`, and returns its value.
func on[T any](ctx context.Context, id cdp.BackendNodeID, function string, args ...any) (T, error) {
	var value T
	element, err := chromedp.Call(ctx, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: id})
	if err != nil {
		return value, fmt.Errorf("find the element again: %w", err)
	}
	arguments := make([]*runtime.CallArgument, len(args))
	for i, arg := range args {
		text, err := json.Marshal(arg)
		if err != nil {
			return value, fmt.Errorf("encode an argument: %w", err)
		}
		arguments[i] = &runtime.CallArgument{Value: text}
	}
	answer, err := chromedp.Call(ctx, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
		FunctionDeclaration: function, ObjectID: element.Object.ObjectID, Arguments: arguments,
		ReturnByValue: new(true), AwaitPromise: new(true), UserGesture: new(true),
	})
	switch {
	case err != nil:
		return value, fmt.Errorf("ask the element: %w", err)
	case answer.ExceptionDetails != nil:
		return value, fmt.Errorf("ask the element: %s", answer.ExceptionDetails.Text)
	case len(answer.Result.Value) == 0:
		return value, nil
	}
	if err := json.Unmarshal(answer.Result.Value, &value); err != nil {
		return value, fmt.Errorf("read what the element said: %w", err)
	}
	return value, nil
}

// textWithin returns what can be read in an element.
func textWithin(ctx context.Context, id cdp.BackendNodeID) (string, error) {
	text, err := on[string](ctx, id, "function () { return this.innerText ?? this.textContent ?? ''; }")
	return plain(text), err
}

// spot is where an element can be clicked, or why it cannot.
type spot struct {
	Why  string
	X, Y float64
}

// spotOf brings an element into view and finds a point of it that nothing else covers, once it stays
// where it is for two frames.
const spotOf = `async function () {
  if (this.disabled || this.getAttribute('aria-disabled') === 'true') { return { Why: 'it is disabled' }; }
  this.scrollIntoView({ block: 'center', inline: 'nearest', behavior: 'instant' });
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const boxOf = () => [...this.getClientRects()].find((r) => r.width > 0 && r.height > 0);
  const before = boxOf();
  if (!before) { return { Why: 'it has no place on the screen' }; }
  await frame();
  await frame();
  const box = boxOf();
  if (!box || Math.abs(box.x - before.x) > 0.5 || Math.abs(box.y - before.y) > 0.5) { return { Why: 'it moves' }; }
  const X = box.x + box.width / 2, Y = box.y + box.height / 2;
  const hit = document.elementFromPoint(X, Y);
  const own = hit && (this.contains(hit) || [...(this.labels ?? [])].some((label) => label.contains(hit)));
  if (!own) {
    return { Why: 'it is covered by ' + (hit ? hit.tagName.toLowerCase() + ' ' + JSON.stringify(hit.innerText.slice(0, 60)) : 'nothing') };
  }
  return { Why: '', X, Y };
}`

// Click clicks what has a role and a name, with the mouse: it must be seen, and nothing may cover it.
func (l Place) Click(role, name string) {
	t := l.page.t
	t.Helper()
	s := sought{role: role, name: name}
	l.page.until("one can click "+l.describe(s), func() (bool, string) {
		it := l.find(s)
		ctx, cancel := context.WithTimeout(l.page.ctx, patience)
		defer cancel()
		at, err := on[spot](ctx, it.id, spotOf)
		switch {
		case err != nil:
			return false, err.Error()
		case at.Why != "":
			return false, at.Why
		}
		if err := chromedp.Do(ctx, chromedp.MouseEvent(chromedp.MouseMoved, at.X, at.Y), chromedp.MouseClickXY(at.X, at.Y)); err != nil {
			return false, err.Error()
		}
		return true, ""
	})
}

// Fill puts a text into the field of a name, in place of what is there. A text is typed; a date, a
// number or a choice of a time is set as a browser's own widget sets it.
func (l Place) Fill(label, text string) {
	t := l.page.t
	t.Helper()
	s := sought{role: field, name: label}
	l.page.until("one can fill in "+l.describe(s), func() (bool, string) {
		it := l.find(s)
		if err := l.page.fill(it.id, text); err != nil {
			return false, err.Error()
		}
		return true, ""
	})
}

const focusAndSelect = `function () {
  if (this.disabled || this.readOnly) { return 'it takes nothing'; }
  this.scrollIntoView({ block: 'center', behavior: 'instant' });
  this.focus();
  if (document.activeElement !== this) { return 'it takes no focus'; }
  if (this instanceof HTMLInputElement && !['text', 'search', 'url', 'password', 'email', 'tel', 'number'].includes(this.type)) { return 'set'; }
  if (this.select) { this.select(); }
  return '';
}`

// setValue sets the value of a field past what a library keeps of it, and says so to the page.
const setValue = `function (value) {
  const proto = this instanceof HTMLTextAreaElement ? HTMLTextAreaElement : this instanceof HTMLSelectElement ? HTMLSelectElement : HTMLInputElement;
  Object.getOwnPropertyDescriptor(proto.prototype, 'value').set.call(this, value);
  this.dispatchEvent(new Event('input', { bubbles: true }));
  this.dispatchEvent(new Event('change', { bubbles: true }));
  return this.value;
}`

func (p *Page) fill(id cdp.BackendNodeID, text string) error {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	said, err := on[string](ctx, id, focusAndSelect)
	switch {
	case err != nil:
		return err
	case said == "set":
		is, err := on[string](ctx, id, setValue, text)
		if err == nil && is == "" && text != "" {
			err = fmt.Errorf("it does not take %q", text)
		}
		return err
	case said != "":
		return errors.New(said)
	case text == "":
		return chromedp.Do(ctx, chromedp.KeyEvent(kb.Delete))
	}
	_, err = chromedp.Call(ctx, input.InsertText, input.InsertTextParams{Text: text})
	return err
}

// Choose chooses the option that reads so of the list of a name.
func (l Place) Choose(label, option string) {
	t := l.page.t
	t.Helper()
	s := sought{role: field, name: label}
	l.page.until(fmt.Sprintf("one can choose %q of %s", option, l.describe(s)), func() (bool, string) {
		it := l.find(s)
		ctx, cancel := context.WithTimeout(l.page.ctx, patience)
		defer cancel()
		said, err := on[string](ctx, it.id, `function (wanted) {
      if (!(this instanceof HTMLSelectElement)) { return 'it is no list to choose from'; }
      if (this.disabled) { return 'it is disabled'; }
      const plain = (text) => text.trim().replace(/\s+/g, ' ');
      const option = [...this.options].find((o) => plain(o.label || o.text) === wanted);
      if (!option) { return 'it has ' + [...this.options].map((o) => JSON.stringify(plain(o.label || o.text))).join(', '); }
      this.focus();
      option.selected = true;
      this.dispatchEvent(new Event('input', { bubbles: true }));
      this.dispatchEvent(new Event('change', { bubbles: true }));
      return '';
    }`, option)
		if err != nil {
			return false, err.Error()
		}
		return said == "", said
	})
}

// Value returns what stands in the field of a name.
func (l Place) Value(label string) string {
	l.page.t.Helper()
	it := l.find(sought{role: field, name: label})
	ctx, cancel := context.WithTimeout(l.page.ctx, patience)
	defer cancel()
	value, err := on[string](ctx, it.id, "function () { return this.value ?? this.innerText; }")
	if err != nil {
		l.page.t.Fatalf("read the field %q: %v", label, err)
	}
	return value
}

// Check ticks the box of a name, or not.
func (l Place) Check(label string, ticked bool) {
	l.page.t.Helper()
	it := l.find(sought{role: "checkbox", name: label})
	if (it.is["checked"] == "true") != ticked {
		l.Click("checkbox", label)
	}
}

// Is reports a property of what has a role and a name: Is("button", "failed", "pressed") is "true".
func (l Place) Is(role, name, property string) string {
	l.page.t.Helper()
	return l.find(sought{role: role, name: name}).is[property]
}

// Upload gives files to the field of a name.
func (l Place) Upload(label string, files ...string) {
	t := l.page.t
	t.Helper()
	for _, role := range []string{"button", field} {
		s := sought{role: role, name: label}
		if all, err := l.all(s); err != nil || len(all) == 0 {
			continue
		}
		call(l.page, "give a file", dom.SetFileInputFiles, dom.SetFileInputFilesParams{Files: files, BackendNodeID: l.find(s).id})
		return
	}
	t.Fatalf("there is no field for files of the name %q; buttons are %s", label, l.names("button"))
}

// Download clicks what has a role and a name, and returns the text of the file that it saves.
func (p *Page) Download(role, name string) string {
	p.t.Helper()
	dir := p.t.TempDir()
	_, err := chromedp.CallBrowser(p.ctx, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir, BrowserContextID: chromedp.FromContext(p.ctx).BrowserContextID,
	})
	if err != nil {
		p.t.Fatalf("say where files go: %v", err)
	}
	p.Click(role, name)
	var text []byte
	p.until("a file is saved", func() (bool, string) {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(files) != 1 || strings.HasSuffix(files[0], ".crdownload") {
			return false, fmt.Sprint(files)
		}
		text, err = os.ReadFile(files[0])
		return err == nil && len(text) > 0, files[0]
	})
	return string(text)
}

// Press presses keys, one after the other, separated by spaces: "g j", "Shift+Tab", "Enter". They go
// to what has the focus.
func (p *Page) Press(keys string) {
	p.t.Helper()
	for key := range strings.FieldsSeq(keys) {
		if err := p.press(key); err != nil {
			p.t.Fatalf("press %s: %v", key, err)
		}
	}
}

var namedKeys = map[string]string{
	"Enter": kb.Enter, "Escape": kb.Escape, "Tab": kb.Tab, "Space": " ", "Backspace": kb.Backspace, "Delete": kb.Delete,
	"ArrowUp": kb.ArrowUp, "ArrowDown": kb.ArrowDown, "ArrowLeft": kb.ArrowLeft, "ArrowRight": kb.ArrowRight,
	"Home": kb.Home, "End": kb.End, "PageDown": kb.PageDown,
}

func (p *Page) press(key string) error {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	var options []chromedp.KeyOption
	if rest, ok := strings.CutPrefix(key, "Shift+"); ok {
		key = rest
		options = append(options, chromedp.KeyModifiers(chromedp.ModifierShift))
	}
	if named, ok := namedKeys[key]; ok {
		key = named
	}
	return chromedp.Do(ctx, chromedp.KeyEvent(key, options...))
}

// Focus is what has the focus: its role and its name. Both are "" for the page itself.
func (p *Page) Focus() (role, name string) {
	p.t.Helper()
	it, err := p.focused()
	if err != nil {
		p.t.Fatalf("ask for the focus: %v", err)
	}
	return it.role, it.name
}
