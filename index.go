package politeness

import "net/http"

type indexScan struct{ on bool }

func (trip *trip) scanHeader(resp *http.Response) {}
func (trip *trip) scanChunk(p []byte, err error)  {}

func DirectivesOf(*http.Response) struct{ NoIndex, NoFollow, NoArchive bool } {
	return struct{ NoIndex, NoFollow, NoArchive bool }{}
}
