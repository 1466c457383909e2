package servers

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/revisit"
)

// TestSecondRound asks real servers a second and a third time for their files: what is as it was is a
// 304, what was edited or touched is a 200 once, and what was removed a 404.
func TestSecondRound(t *testing.T) {
	for _, s := range loggers[:2] { // Varnish gives what it has kept, for two minutes
		t.Run(s.Name, func(t *testing.T) {
			if missing := s.Missing(); len(missing) > 0 {
				t.Skipf("needs %s; make setup installs servers", strings.Join(missing, ", "))
			}
			r := launchLogger(t, s)
			files, err := filepath.Glob(r.path("site") + "/s000-*.html")
			if err != nil || len(files) < 12 {
				t.Fatal(len(files), err)
			}
			files = files[:12]
			cfg := apart(10 * time.Millisecond)
			polite, err := politeness.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			client := &http.Client{Transport: &revisit.Transport{
				Base: polite, Schedule: revisit.Schedule{Min: time.Second},
			}}
			round := func() (statuses []int) {
				for _, file := range files {
					statuses = append(statuses, statusOf(t, client, r.URL()+filepath.Base(file)))
				}
				time.Sleep(1100 * time.Millisecond)
				return statuses
			}
			for i, status := range round() {
				if status != http.StatusOK {
					t.Errorf("first round, file %d: %d", i, status)
				}
			}
			edit(t, files)
			want := [][]int{
				{200, 200, 404, 304, 304, 304, 304, 304, 304, 304, 304, 304},
				{304, 304, 404, 304, 304, 304, 304, 304, 304, 304, 304, 304},
			}
			for n, statuses := range want {
				got := round()
				for i := range statuses {
					if got[i] != statuses[i] {
						t.Errorf("round %d, file %d: %d, want %d", n+2, i, got[i], statuses[i])
					}
				}
			}
		})
	}
}

// edit changes the first of files, touches the second, and removes the third.
func edit(t *testing.T, files []string) {
	t.Helper()
	if err := os.WriteFile(files[0], []byte("<p>another text"), 0o644); err != nil {
		t.Fatal(err)
	}
	earlier := time.Now().Add(-time.Hour)
	for _, name := range files[:2] {
		if err := os.Chtimes(name, earlier, earlier); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(files[2]); err != nil {
		t.Fatal(err)
	}
}

// statusOf asks for url and reads the answer to its end.
func statusOf(t *testing.T, client *http.Client, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}
