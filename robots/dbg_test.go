package robots

import (
	"github.com/go-politeness/politeness/internal/robotsgen"
	"testing"
)

func TestDbg(t *testing.T) {
	for _, s := range robotsgen.Shapes {
		b := robotsgen.File(s)
		r := Parse(b).Agent("FooBot")
		t.Log(s.Name, len(b), "text", len(r.text), "rules", len(r.rules), "nodes", len(r.nodes), "fans", len(r.fans), "more", len(r.more), "wilds", len(r.wilds), "starts", len(r.starts))
	}
}
