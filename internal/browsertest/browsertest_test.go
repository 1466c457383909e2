package browsertest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestAxeFindsObstacles: a page with obstacles has findings, and a page without has none.
func TestAxeFindsObstacles(t *testing.T) {
	browser := Find(t)
	if browser == "" {
		return
	}
	const good = `<!doctype html><html lang="en"><head><title>Good</title><meta name="color-scheme" content="light dark"></head>` +
		`<body><main><h1>Good</h1><p>A text.</p></main></body></html>`
	Check(t, browser, HTML(good), "", View{Width: 1280, Height: 800}, View{Width: 390, Height: 800})

	bad := strings.Replace(good, "<p>A text.</p>", `<p style="color:#999;background:#fff">Grey.</p><input><img src="/x.png">`, 1)
	findings := strings.Join(Findings(t, View{Page: HTML(bad), Width: 1280, Height: 800}.Look(t, browser)), "\n")
	for _, want := range []string{"color-contrast", "image-alt", "label"} {
		if !strings.Contains(findings, want) {
			t.Errorf("axe-core didn't find %s:\n%s", want, findings)
		}
	}
}

// TestTabsFindsTraps: a page without faults has no findings, and each fault is found.
func TestTabsFindsTraps(t *testing.T) {
	browser := Find(t)
	if browser == "" {
		return
	}
	const head = `<!doctype html><html lang="en"><title>Keys</title><button id=a>A</button>`
	const tail = `<a href="/">B</a><div style="height:3000px"></div><details><summary>C</summary></details><input id=d></html>`
	for faulty, want := range map[string]string{
		"":                           "",
		"<button tabindex=1>":        "order of their own",
		"<button style='outline:0'>": "without a mark",
		"<button onkeydown='event.preventDefault()'>": "doesn't get beyond",
		"<button onfocus='this.blur()'>":              "Tab comes to",
		"<button style='position:fixed;left:-9em'>":   "outside of the window",
	} {
		found := strings.Join(Open(t, browser, HTML(head+faulty+tail), "/", 800, 600).Tabs(), "\n")
		if (found == "") != (want == "") || !strings.Contains(found, want) {
			t.Errorf("%q: %q, want %q", faulty, found, want)
		}
	}
}

// TestABrowserThatStopsIsEnded, so that Look can start it once more.
func TestABrowserThatStopsIsEnded(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // the browser is a script
	}
	script := filepath.Join(t.TempDir(), "browser")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho started\nsleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := run(t, 50*time.Millisecond, script, nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, time.Hour, script, nil); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// TestWhatABrowserLeavesBehindIsNotWaitedFor: its helpers still have its output open when it has ended.
func TestWhatABrowserLeavesBehindIsNotWaitedFor(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // the browser is a script
	}
	script := filepath.Join(t.TempDir(), "browser")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nsleep 10 &\necho page\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	dom, err := run(t, time.Hour, script, nil)
	if dom != "page\n" || err != nil {
		t.Errorf("%q, %v", dom, err)
	}
}
