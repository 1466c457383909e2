// A driver of geziyor: it follows all links of the pages of standard input.
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/PuerkitoBio/goquery"
	"github.com/geziyor/geziyor"
	"github.com/geziyor/geziyor/client"
)

func main() {
	var urls []string
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		urls = append(urls, lines.Text())
	}
	g := geziyor.NewGeziyor(&geziyor.Options{
		StartURLs: urls,
		ParseFunc: func(g *geziyor.Geziyor, r *client.Response) {
			fmt.Println(r.Request.URL)
			if r.HTMLDoc == nil {
				return
			}
			r.HTMLDoc.Find("a[href]").Each(func(_ int, link *goquery.Selection) {
				href, _ := link.Attr("href")
				g.Get(r.JoinURL(href), func(_ *geziyor.Geziyor, r *client.Response) { fmt.Println(r.Request.URL, r.StatusCode) })
			})
		},
	})
	g.Client.Transport = politely() // the one line
	g.Start()
}
