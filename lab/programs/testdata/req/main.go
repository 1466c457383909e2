// A driver of req: it fetches the URLs of standard input side by side, with a timeout of 10 s and
// two retries each.
package main

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/imroc/req/v3"
)

func main() {
	client := req.C().SetTimeout(10 * time.Second).SetCommonRetryCount(2)
	client.GetClient().Transport = politely() // the one line
	var all sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		url := lines.Text()
		all.Add(1)
		go func() {
			defer all.Done()
			resp, err := client.R().Get(url)
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Println(url, resp.StatusCode)
		}()
	}
	all.Wait()
}
