// A driver of miniflux's fetcher, which makes a transport for each request: it reads the URLs of
// standard input side by side, as miniflux's workers do.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"sync"

	"miniflux.app/v2/internal/reader/fetcher"
)

func main() {
	var all sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		url := lines.Text()
		all.Add(1)
		go func() {
			defer all.Done()
			resp, err := fetcher.NewRequestBuilder().ExecuteRequest(url)
			if err != nil {
				fmt.Println(err)
				return
			}
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, resp.Body)
			fmt.Println(url, resp.StatusCode, err)
		}()
	}
	all.Wait()
}
