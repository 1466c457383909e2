package politeness

import (
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/robots"
)

// evidence.Audit decides verdicts again through package robots, which package
// evidence doesn't import: whoever links politeness has both.
func init() {
	evidence.RegisterRobots(func(text []byte, products []string) func(target string) (allowed bool, rule string, line int) {
		rules := robots.Parse(text).Agent(products...)
		return func(target string) (bool, string, int) {
			v := rules.Test(target)
			return v.Allowed, v.Rule, v.Line
		}
	})
}
