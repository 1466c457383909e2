// A driver of failsafe-go: its retries are around the transport, and four workers fetch the URLs of
// standard input.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
)

func main() {
	retries := failsafehttp.NewRetryPolicyBuilder().Build()
	client := &http.Client{Transport: failsafehttp.NewRoundTripper(politely(), retries)} // the one line
	urls := make(chan string)
	var workers sync.WaitGroup
	for range 4 {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for url := range urls {
				get(client, url)
			}
		}()
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		urls <- lines.Text()
	}
	close(urls)
	workers.Wait()
}

func get(client *http.Client, url string) {
	resp, err := client.Get(url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	fmt.Println(url, resp.StatusCode, err)
}
