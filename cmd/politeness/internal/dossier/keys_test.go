package dossier_test

import (
	"testing"

	"github.com/go-politeness/politeness/internal/browsertest"
	"github.com/go-politeness/politeness/internal/logtest"
)

// TestOwnersPageByKeyboard: Tab comes to all that folds or scrolls, and Enter and Space fold it.
func TestOwnersPageByKeyboard(t *testing.T) {
	records := logtest.Crawl(3, 60)
	byKeyboard(t, html(t, newDossier(t, logtest.Write(t, records), "example")))
}

// TestAccessPageByKeyboard is TestOwnersPageByKeyboard for the comparison of logs.
func TestAccessPageByKeyboard(t *testing.T) {
	records := logtest.Crawl(2, 20)
	byKeyboard(t, compared(t, records, siteLog(records, "h1.example")[2:]))
}

func byKeyboard(t *testing.T, page string) {
	t.Helper()
	path := browsertest.Find(t)
	if path == "" {
		return
	}
	for _, width := range []int{1280, 390} {
		s := browsertest.Open(t, path, browsertest.HTML(page), "/", width, 900)
		s.CheckTab()
		n := s.Eval(`document.querySelectorAll("summary").length`)
		if n == "0" {
			t.Error("nothing folds")
		}
		// Each is folded and unfolded, by Enter and by Space.
		s.Eval(`[...document.querySelectorAll("summary")].forEach((e, i) => e.id = "fold" + i)`)
		for i := range len(n) + 1 {
			id := "#fold" + string(rune('0'+i))
			if s.Eval(`document.querySelector("`+id+`") === null`) == "true" {
				continue
			}
			open := `document.querySelector("` + id + `").parentNode.open`
			before := s.Eval(open)
			s.Focus(id)
			s.Press("Enter")
			if s.Eval(open) == before {
				t.Errorf("%s: Enter does nothing", id)
			}
			s.Press(" ")
			if s.Eval(open) != before {
				t.Errorf("%s: Space does nothing", id)
			}
		}
	}
}
