// A driver of colly with the settings of hakrawler -t 100: a separate collector for each line of
// standard input, asynchronous, with colly's timeout of 10 s.
package main

import (
	"bufio"
	"fmt"
	"net/url"
	"os"

	"github.com/gocolly/colly/v2"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		crawl(lines.Text())
	}
}

func crawl(start string) {
	u, err := url.Parse(start)
	if err != nil {
		fmt.Println(err)
		return
	}
	c := colly.NewCollector(
		colly.UserAgent("Mozilla/5.0 (X11; Linux x86_64; rv:78.0) Gecko/20100101 Firefox/78.0"),
		colly.AllowedDomains(u.Hostname()),
		colly.MaxDepth(2),
		colly.Async(true),
	)
	if err := c.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: 100}); err != nil {
		fmt.Println(err)
	}
	c.OnHTML("a[href]", func(e *colly.HTMLElement) {
		fmt.Println(e.Request.AbsoluteURL(e.Attr("href")))
		_ = e.Request.Visit(e.Attr("href"))
	})
	c.WithTransport(politely()) // the one line
	_ = c.Visit(start)
	c.Wait()
}
