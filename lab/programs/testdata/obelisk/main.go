// A driver of obelisk: it archives the pages of its arguments, and prints how many bytes came of
// each and how many images.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-shiori/obelisk"
)

func main() {
	var all sync.WaitGroup
	for _, url := range os.Args[1:] {
		all.Add(1)
		go func() {
			defer all.Done()
			archiver := obelisk.Archiver{
				SkipResourceURLError:  true,
				MaxRetries:            3,
				MaxConcurrentDownload: 10,
				RequestTimeout:        60 * time.Second,
				Transport:             politely(), // the one line
			}
			archiver.Validate()
			page, _, err := archiver.Archive(context.Background(), obelisk.Request{URL: url})
			fmt.Println(url, len(page), "bytes,", strings.Count(string(page), "data:image"), "images,", err)
		}()
	}
	all.Wait()
}
