package politeness_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots"
)

// Pages for training: one that is reserved in robots.txt isn't fetched, one whose headers reserve it
// isn't read.
func ExamplePreferencesOf() {
	web := politenesstest.NewWeb()
	web.Site("https://example.com").
		Robots("User-agent: *\nContent-Usage: /essays/ train-ai=n\nContent-Signal: search=yes\n").
		Page("/news", "news").
		Handle("/photo", politenesstest.Status(200, "Tdm-Reservation", "1"))
	t, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
		Purposes:  []robots.Purpose{robots.Train},
		Base:      web, // leave it out for the real web
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: t}
	for _, path := range []string{"/essays/1", "/photo", "/news"} {
		resp, err := client.Get("https://example.com" + path)
		var refused *politeness.Error
		switch {
		case errors.As(err, &refused):
			fmt.Println(path, errors.Is(err, politeness.ErrReserved), refused.Stage, refused.Err)
			continue
		case err != nil:
			fmt.Println(err)
			return
		}
		body, err := io.ReadAll(resp.Body) // its error would be ErrReserved if the page itself said so
		resp.Body.Close()
		fmt.Println(path, string(body), err, politeness.PreferencesOf(resp))
	}
	// Output:
	// /essays/1 true robots reserved by the site: train: Content-Usage, line 2
	// /photo true response reserved by the site: train: tdm-reservation header
	// /news news <nil> search granted (Content-Signal, line 3)
}
