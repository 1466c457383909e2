package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestModulesAreReleasedBehindThoseThatTheyRequire(t *testing.T) {
	for name, c := range map[string]struct {
		nested   []string
		requires map[string][]string
		want     []string
		wrong    string
	}{
		"the command behind its queue": {
			nested:   []string{"cmd", "queue"},
			requires: map[string][]string{"cmd": {root, root + "/queue"}, "queue": {root, "example.org/other"}},
			want:     []string{".", "queue", "cmd"},
		},
		"a module that isn't published": {
			nested:   []string{"cmd"},
			requires: map[string][]string{"cmd": {root + "/queue"}},
			wrong:    "isn't published",
		},
		"a circle": {
			nested:   []string{"a", "b"},
			requires: map[string][]string{"a": {root + "/b"}, "b": {root + "/a"}},
			wrong:    "require each other",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &release{tree: t.TempDir()}
			for _, m := range append([]string{"."}, c.nested...) {
				text := "module m\n"
				for _, require := range c.requires[m] {
					text += "require " + require + " v0.0.0\n"
				}
				if err := os.MkdirAll(filepath.Join(r.tree, m), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(r.tree, m, "go.mod"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := r.inOrder(c.nested)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Fatalf("got %v, %v; want an error: %s", got, err, c.wrong)
				}
				return
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %v, %v; want %v", got, err, c.want)
			}
		})
	}
}

// TestTheUsersProgramCompiles with the modules as they are. The go command sees nothing below testdata by
// itself, and the play of a release takes minutes.
func TestTheUsersProgramCompiles(t *testing.T) {
	program, err := filepath.Abs(filepath.Join("testdata", "try", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	vet := exec.CommandContext(t.Context(), "go", "vet", program)
	vet.Dir = filepath.Join("..", "..", "examples", "integrations") // which requires all modules
	vet.Env = append(os.Environ(), "GOWORK=off")
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
