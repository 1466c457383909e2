package browsertest

import (
	"strings"
	"testing"
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
