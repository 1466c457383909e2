package page

import (
	"fmt"
	"testing"

	"github.com/go-politeness/politeness/internal/browsertest"
)

// TestPageByKeyboard: Tab comes to all that a person can use. What a pointer chooses, the keys choose
// too: a host, a record, a time, and what is folded.
func TestPageByKeyboard(t *testing.T) {
	path := browsertest.Find(t)
	if path == "" {
		return
	}
	_, html, _ := draw(t, sample(t, 3000, spoil))
	for _, width := range []int{1280, 390} {
		s := browsertest.Open(t, path, browsertest.HTML(html), "/#host=shop.nordlicht.example&theme=light", width, 900)
		s.Until(`document.documentElement.dataset.ready > 0`)
		s.CheckTab()
		expect := func(expression, want string) {
			t.Helper()
			if got := s.Eval(expression); got != want {
				t.Errorf("%d pixels: %s is %s, want %s", width, expression, got, want)
			}
		}
		const theme = `document.documentElement.dataset.theme`
		s.Focus("#theme")
		s.Press(" ")
		expect(theme, "dark")
		s.Press("Enter")
		expect(theme, "light")
		const open = `document.querySelector("details").open`
		s.Focus("summary")
		s.Press("Enter")
		expect(open, "true")
		s.Press(" ")
		expect(open, "false")

		const shown = `document.getElementById("window").textContent`
		whole := s.Eval(shown)
		s.Focus("#in")
		s.Press(" ")
		s.Until(fmt.Sprintf(`%s !== %q`, shown, whole))
		s.Focus("#fit")
		s.Press("Enter")
		s.Until(fmt.Sprintf(`%s === %q`, shown, whole))
		s.Focus("#scroll")
		s.Press("+")
		s.Until(fmt.Sprintf(`%s !== %q`, shown, whole))
		s.Press("0")
		s.Until(fmt.Sprintf(`%s === %q`, shown, whole))

		// From one host to the next, also to one that isn't in sight, and back.
		const host = `document.activeElement.title`
		const title = `document.getElementById("detail-title").textContent`
		s.Focus(".row.picked")
		expect(host, "shop.nordlicht.example")
		s.Press("ArrowDown")
		s.Press("Enter")
		second := s.Eval(host)
		expect(title, second)
		s.Press("End")
		s.Press(" ")
		last := s.Eval(host)
		expect(title, last)
		if last == second || last == "" {
			t.Errorf("%d pixels: End comes to %q", width, last)
		}
		s.Press("Home")
		expect(host, "shop.nordlicht.example")

		// From a violation to its record, and from there to the one before.
		s.Focus("#violation-list button")
		s.Press("Enter")
		const record = `document.querySelector("#detail-rows [aria-current]").lastChild.textContent`
		s.Until(record + ` === "383"`)
		s.Focus("#detail-scroll")
		s.Press("ArrowUp")
		before := s.Eval(record)
		s.Press("ArrowDown")
		expect(record, "383")
		s.Press("Home")
		first := s.Eval(record)
		s.Press("End")
		end := s.Eval(record)
		if before == "383" || first == before || end == first {
			t.Errorf("%d pixels: records %s, %s, %s", width, before, first, end)
		}

		s.Focus("#search")
		for _, letter := range "private" {
			s.Press(string(letter))
		}
		s.Until(`document.getElementById("found").textContent.includes("found on")`)
	}
}
