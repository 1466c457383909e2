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
