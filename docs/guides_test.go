package docs

import (
	"iter"
	"os"
	"path/filepath"
	"testing"
)

// guides yields the names and the texts of the guides here, and of README.md.
func guides(t *testing.T) iter.Seq2[string, string] {
	t.Helper()
	names, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Fatal("no guides here")
	}
	names = append(names, filepath.Join("..", "README.md"))
	return func(yield func(name, text string) bool) {
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !yield(name, string(text)) {
				return
			}
		}
	}
}
