package publicnet_test

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/publicnet"
)

// A crawler that follows links of strangers keeps off its own network: no name, redirect or
// robots.txt leads it there.
func Example() {
	t, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      publicnet.Transport(nil), // over http.DefaultTransport
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: t}
	for _, link := range []string{"http://169.254.169.254/latest/meta-data/", "http://localhost:6060/"} {
		_, err := client.Get(link)
		fmt.Println(errors.Is(err, publicnet.ErrPrivate))
	}
	// Output:
	// true
	// true
}
