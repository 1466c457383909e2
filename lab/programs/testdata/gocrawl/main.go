// A driver of gocrawl: it follows all links below the URLs of standard input.
package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/PuerkitoBio/gocrawl"
	"github.com/PuerkitoBio/goquery"
)

type extender struct{ gocrawl.DefaultExtender }

func (*extender) Visit(ctx *gocrawl.URLContext, _ *http.Response, _ *goquery.Document) (interface{}, bool) {
	fmt.Println(ctx.URL())
	return nil, true
}

func (*extender) Error(err *gocrawl.CrawlError) { fmt.Println(err) }

func main() {
	var urls []string
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		urls = append(urls, lines.Text()+"/")
	}
	gocrawl.HttpClient.Transport = politely() // the one line
	opts := gocrawl.NewOptions(&extender{})
	opts.RobotUserAgent = "LabBot"
	opts.CrawlDelay = 10 * time.Millisecond
	opts.SameHostOnly = true
	opts.LogFlags = gocrawl.LogError
	opts.WorkerIdleTTL = time.Second
	if err := gocrawl.NewCrawlerWithOptions(opts).Run(urls); err != nil {
		fmt.Println(err)
	}
}
