// A driver of fetchbot: a HEAD and then a GET of each URL of standard input, as in its full
// example.
package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/PuerkitoBio/fetchbot"
)

func main() {
	f := fetchbot.New(fetchbot.HandlerFunc(func(ctx *fetchbot.Context, resp *http.Response, err error) {
		if err != nil {
			fmt.Println(ctx.Cmd.URL(), err)
			return
		}
		fmt.Println(ctx.Cmd.Method(), ctx.Cmd.URL(), resp.StatusCode)
	}))
	f.UserAgent = "LabBot"
	f.CrawlDelay = 0
	f.WorkerIdleTTL = 5 * time.Second
	f.HttpClient = &http.Client{Transport: politely()} // the one line
	queue := f.Start()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if _, err := queue.SendStringGet(lines.Text()); err != nil {
			fmt.Println(err)
		}
	}
	if err := queue.Close(); err != nil {
		fmt.Println(err)
	}
}
