// A driver of gofeed and gopher-parse-sitemap: it reads the feed and the sitemap of each site of
// standard input, and fetches the listed URLs concurrently.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"

	"github.com/mmcdole/gofeed"
	sitemap "github.com/oxffaa/gopher-parse-sitemap"
)

func main() {
	http.DefaultClient.Transport = politely() // the one line: both packages use http.DefaultClient
	var all sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		site := lines.Text()
		all.Add(1)
		go func() {
			defer all.Done()
			read(site)
		}()
	}
	all.Wait()
}

func read(site string) {
	parser := gofeed.NewParser()
	parser.Client = http.DefaultClient
	feed, err := parser.ParseURL(site + "/feed.xml")
	if err != nil {
		fmt.Println(err)
		return
	}
	var items sync.WaitGroup
	for _, item := range feed.Items {
		items.Add(1)
		go func() {
			defer items.Done()
			get(item.Link)
		}()
	}
	items.Wait()
	err = sitemap.ParseFromSite(site+"/sitemap.xml", func(e sitemap.Entry) error {
		fmt.Println(e.GetLocation())
		return nil
	})
	fmt.Println(site, err)
	get(site + "/private/a")
}

func get(url string) {
	resp, err := http.Get(url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	fmt.Println(url, resp.StatusCode, err)
}
