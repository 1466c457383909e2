package revisit_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/revisit"
)

// readFeed prints the feed at url where it is another one than the last time.
func readFeed(client *http.Client, url string) error {
	resp, err := client.Get(url)
	if errors.Is(err, revisit.ErrFresh) {
		return nil // too early: cron may come as often as it likes
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil // 304: nothing is new
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	fmt.Println(string(body))
	return nil
}

// A feed reader. What it remembers outlives its process.
func Example() {
	web := politenesstest.NewWeb() // in place of the network
	feed := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprint(w, "<rss>one post</rss>")
	})
	web.Site("https://example.com").Handle("/feed.xml", feed)
	dir, err := os.MkdirTemp("", "feeds")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	polite, err := politeness.New(politeness.Config{UserAgent: "FeedBot/1.0 (me@example.com)", Base: web})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: &revisit.Transport{
		Base:     polite,
		Schedule: revisit.Schedule{Min: time.Hour},
		Store:    revisit.Dir(dir),
	}}
	for range 3 {
		if err := readFeed(client, "https://example.com/feed.xml"); err != nil {
			fmt.Println(err)
		}
	}
	_, err = client.Get("https://example.com/feed.xml")
	fmt.Println("early:", errors.Is(err, revisit.ErrFresh))
	// Output:
	// <rss>one post</rss>
	// early: true
}

// When a page is due again that a crawler of your own has just fetched.
func ExampleSchedule_Next() {
	schedule := revisit.Schedule{Min: time.Hour}
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	page, change, due := schedule.Next(revisit.Page{}, revisit.Answer{
		Time:   now,
		Status: http.StatusOK,
		Header: http.Header{
			"Etag":          {`"x"`},
			"Date":          {"Sun, 29 Nov 2026 12:00:00 GMT"},
			"Last-Modified": {"Sun, 22 Nov 2026 12:00:00 GMT"},
		},
	})
	fmt.Println(change, "and due in", due.Sub(now).Round(time.Minute))

	header := http.Header{}
	page.Conditions(header, due)
	fmt.Println(header.Get("If-None-Match"), header.Get("If-Modified-Since"))
	// Output:
	// new and due in 12h58m0s
	// "x" Sun, 22 Nov 2026 12:00:00 GMT
}

// TestGuide: the reader of the guide is the one that is run here.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../docs/revisit.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(source), "func readFeed(")
	function, _, ok := strings.Cut(rest, "\n}\n")
	if !ok || !strings.Contains(string(guide), "func readFeed("+function+"\n}\n") {
		t.Error("the guide has another readFeed than the example")
	}
}
