package browsertest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A View is a page in a window of some size. The page stands in a frame, since a browser has no
// windows that are as narrow as a phone.
type View struct {
	Page    http.Handler
	Target  string // path, query and fragment of the page; "": "/"
	Width   int
	Height  int
	Dark    bool
	Script  string // runs when the page is loaded, and sets root.dataset for Attribute
	Picture string // name of the file for a picture, if pictures are wanted
}

// HTML returns a handler that serves one document.
func HTML(document string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, document)
	})
}

// Check looks at the page at the widths of a desk and of a phone, light and dark. Nothing may stick
// out of the window, and axe-core may have no finding. It returns the page as its scripts have left
// it in each window.
//
// With POLITENESS_PICTURES=1, the light windows are written as PREFIX-WIDTH.png, for the guides. A
// PREFIX without a directory has no picture there. If POLITENESS_PICTURES is the path of a
// directory, all windows are written there, for people who look at the pages.
func Check(t *testing.T, browser string, page http.Handler, prefix string, views ...View) (doms []string) {
	t.Helper()
	for _, v := range views {
		v.Page = page
		for _, dark := range []bool{false, true} {
			v.Dark = dark
			v.Picture = v.picture(prefix)
			doms = append(doms, v.check(t, browser))
		}
	}
	return doms
}

// picture returns the name of the file for a picture of this window, "" if none is wanted.
func (v View) picture(prefix string) string {
	wanted := os.Getenv("POLITENESS_PICTURES")
	name := filepath.Base(prefix)
	switch {
	case wanted == "" || prefix == "":
		return ""
	case wanted != "1":
		scheme := "light"
		if v.Dark {
			scheme = "dark"
		}
		return filepath.Join(wanted, fmt.Sprintf("%s-%d-%s.png", name, v.Width, scheme))
	case v.Dark, name == prefix:
		return ""
	}
	return fmt.Sprintf("%s-%d.png", prefix, v.Width)
}

func (v View) check(t *testing.T, browser string) string {
	t.Helper()
	dom := v.Look(t, browser)
	name := fmt.Sprintf("%d pixels", v.Width)
	if v.Dark {
		name += ", dark"
	}
	if got := Attribute(dom, "width"); got != v.Width {
		t.Errorf("%s: the window is %d wide", name, got)
	}
	if got := Attribute(dom, "dark"); (got == 1) != v.Dark {
		t.Errorf("%s: the window is of the other colour", name)
	}
	if wide := Attribute(dom, "wide"); wide != 0 {
		t.Errorf("%s: the page is %d pixels wider than its window", name, wide)
	}
	for _, finding := range Findings(t, dom) {
		t.Errorf("%s: %s", name, finding)
	}
	return dom
}

// measure notes the sizes of the page, and the findings of axe-core. The page is looked at once its
// own scripts are done.
const measure = `
addEventListener("load", () => setTimeout(async () => {
	const root = parent.document.documentElement;
	root.dataset.width = innerWidth;
	root.dataset.dark = matchMedia("(prefers-color-scheme: dark)").matches ? 1 : 0;
	root.dataset.wide = document.documentElement.scrollWidth - innerWidth;
	{ %s }
	try {
		const found = await axe.run(document, { resultTypes: ["violations"], preload: false });
		root.dataset.axe = JSON.stringify(found.violations.map(v => ({
			id: v.id, help: v.help,
			nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + " " + n.failureSummary.slice(0, 300)),
		})));
	} catch (err) { root.dataset.axe = JSON.stringify([{ id: "error", help: String(err), nodes: [] }]); }
}, 500));`

// policy is the Content-Security-Policy in a document, which forbids the script of the test.
var policy = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`)

// Look returns the frame, with the findings and the attributes that Script has set on its root,
// followed by the page as its scripts have left it. It writes the picture as well.
func (v View) Look(t *testing.T, browser string) string {
	t.Helper()
	script := axe(t) + fmt.Sprintf(measure, v.Script)
	copied := `addEventListener("load", () => setTimeout(() => {
		const copy = parent.document.createElement("template");
		copy.innerHTML = document.body.innerHTML;
		parent.document.body.append(copy);
	}, 400));`
	target := v.Target
	if target == "" {
		target = "/"
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		v.Page.ServeHTTP(answer, r)
		w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
		w.WriteHeader(answer.Code)
		document := policy.ReplaceAllString(answer.Body.String(), "")
		scripts := "<script>" + copied + "</script><script>" + script + "</script></body>"
		_, _ = io.WriteString(w, strings.Replace(document, "</body>", scripts, 1))
	})
	mux.HandleFunc("/frame-of-the-test", func(w http.ResponseWriter, _ *http.Request) {
		scheme := "light"
		if v.Dark {
			scheme = "dark"
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, `<!doctype html><html style="color-scheme: %s"><body style="margin:0">`+
			`<iframe src="%s" width="%d" height="%d" style="border:0;color-scheme:%s"></iframe></body></html>`,
			scheme, html.EscapeString(target), v.Width, v.Height, scheme)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	window := fmt.Sprintf("--window-size=%d,%d", v.Width, v.Height)
	dom := Look(t, browser, server.URL+"/frame-of-the-test", "", window, "--virtual-time-budget=10000")
	if v.Picture != "" {
		Look(t, browser, server.URL+"/frame-of-the-test", v.Picture, window, "--virtual-time-budget=5000")
		crop(t, v.Picture, v.Width)
	}
	return dom
}

// Findings returns what axe-core has found in a page that View.Look returned.
func Findings(t *testing.T, dom string) (findings []string) {
	t.Helper()
	m := regexp.MustCompile(`<html[^>]* data-axe="([^"]*)"`).FindStringSubmatch(dom)
	if m == nil {
		t.Fatal("axe-core didn't come to its end")
	}
	var found []struct {
		ID, Help string
		Nodes    []string
	}
	if err := json.Unmarshal([]byte(html.UnescapeString(m[1])), &found); err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		findings = append(findings, fmt.Sprintf("axe-core: %s: %s\n  %s", f.ID, f.Help, strings.Join(f.Nodes, "\n  ")))
	}
	return findings
}

// crop cuts off the part of a picture that is beside the page, and makes the file small: guides
// show it.
func crop(t *testing.T, file string, width int) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	size := image.Rect(0, 0, width, picture.Bounds().Dy())
	small := image.NewPaletted(size, palette(picture, size))
	near := make(map[color.RGBA]uint8) // colours of the palette by those of the picture
	for y := range size.Dy() {
		for x := range size.Dx() {
			c := rgba(picture, x, y)
			index, ok := near[c]
			if !ok {
				index = uint8(small.Palette.Index(c))
				near[c] = index
			}
			small.SetColorIndex(x, y, index)
		}
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&out, small); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func rgba(picture image.Image, x, y int) color.RGBA {
	return color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)
}

// palette returns the most frequent colours of a picture. Of rarer ones that are nearly the same,
// as at the edges of letters, it has one.
func palette(picture image.Image, size image.Rectangle) color.Palette {
	const most = 256
	const frequent = 64 // have a place of their own, such as those of the background
	number := make(map[color.RGBA]int)
	for y := range size.Dy() {
		for x := range size.Dx() {
			number[rgba(picture, x, y)]++
		}
	}
	byNumber := slices.SortedFunc(maps.Keys(number), func(a, b color.RGBA) int {
		return cmp.Or(
			cmp.Compare(number[b], number[a]),
			cmp.Compare(a.R, b.R),
			cmp.Compare(a.G, b.G),
			cmp.Compare(a.B, b.B),
		)
	})
	var colours color.Palette
	taken := make(map[[3]uint8]bool)
	for _, c := range byNumber {
		shade := [3]uint8{c.R >> 4, c.G >> 4, c.B >> 4}
		isFrequent := len(colours) < frequent
		if len(colours) < most && (isFrequent || !taken[shade]) {
			taken[shade] = true
			colours = append(colours, c)
		}
	}
	return colours
}
