package console

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"
)

// BrowserEnv names the program of the browser, if it is not on the PATH under a name of Debian's.
const BrowserEnv = "CONSOLE_BROWSER"

// A Browser is a Chromium without a window. Tests share one: each of their pages is a stranger to the
// others, with cookies and storage of its own.
type Browser struct {
	ctx  context.Context // of chromedp
	stop []func()
	dir  string
}

// FindBrowser returns the program of the browser, and "" if this machine has none.
func FindBrowser() string {
	names := []string{"chromium", "chromium-browser", "google-chrome"}
	if stated := os.Getenv(BrowserEnv); stated != "" {
		names = []string{stated}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// StartBrowser starts a browser. The kernel ends it if this program dies.
func StartBrowser(program string) (*Browser, error) {
	dir, err := os.MkdirTemp("", "carillon-browser-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the browser: %w", err)
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(program), chromedp.UserDataDir(dir),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		// It asks nobody for anything, so what is asked for comes from the page.
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-default-apps", true),
		chromedp.Flag("disable-extensions", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("no-pings", true),
		// Pages that nobody looks at are as quick as others.
		chromedp.Flag("disable-background-timer-throttling", true),
		chromedp.Flag("disable-backgrounding-occluded-windows", true),
		chromedp.Flag("disable-renderer-backgrounding", true),
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("force-color-profile", "srgb"),
		chromedp.Flag("lang", "en-GB"),
		chromedp.WindowSize(1440, 900),
	)
	ctx, stopContext := chromedp.NewContext(allocator)
	b := &Browser{ctx: ctx, stop: []func(){stopContext, stopAllocator}, dir: dir}
	if err := chromedp.Do(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", program, err), b.Close())
	}
	return b, nil
}

// Close ends the browser and removes its folder.
func (b *Browser) Close() error {
	for _, stop := range b.stop {
		stop()
	}
	if err := os.RemoveAll(b.dir); err != nil {
		return fmt.Errorf("remove the folder of the browser: %w", err)
	}
	return nil
}

// leaveOut skips a test, in words that say what is left out. With CI=true it fails instead: there
// nothing may be left out.
func leaveOut(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("nothing may be left out where CI=true: %s", what)
	}
	t.Skipf("LEFT OUT: %s", what)
}
