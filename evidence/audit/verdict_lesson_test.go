package audit_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestVerdictsOnWhatRefusalsTeach: how long a learned delay is the records say, but the first refusal of a series
// makes it half as long again and a ban twice as long, and each 20 s shorten it by 2 % at most, by 4 % after five
// such steps, and so on. Where the records say less, that is open.
func TestVerdictsOnWhatRefusalsTeach(t *testing.T) {
	const short = "open, delays kept: a delay that is shorter than refusals have taught, as far as they are in the log"
	const learned = "policy adaptive=Learned delayMin=2 delayMax=2 ceiling=60\nsite \"\"\n"
	const refused = `
		1    page 1
		3    refused 2 status=429 until=@4.1
	`
	page := func(at float64, n int, delay float64) string {
		return fmt.Sprintf("\n%.5f page %d delay=%.6f delaySource=learned", at, n, delay)
	}
	cleared := func(delay float64) string {
		return fmt.Sprintf("\n6 cleared 3 delay=%.6f delaySource=learned", delay)
	}
	checkRows(t, learned+refused, []row{
		{"half as long again", cleared(3) + "\n9 page 4", ``},
		{"longer than that", cleared(7) + "\n13 page 4", ``},
		{"not as long", cleared(2.99) + "\n9 page 4", short},
		{"not told of at all", "\n6 cleared 3\n9 page 4", short},
		{"not kept", cleared(3) + "\n8.9 page 4", `lines 13 and 17: gap: 2.9s between two starts, delay in force 3s`},
		{"20 s later it is 2 % shorter", cleared(3) + page(25, 4, 2.94) + "\n28 page 5", ``},
		{"and no shorter than that", cleared(3) + page(25, 4, 2.93) + "\n28 page 5", short},
		{"less than 20 s later", cleared(3) + page(22, 4, 2.99) + "\n28 page 5", short},
		{"the next step is 20 s after that", cleared(3) + page(25, 4, 2.94) + page(46, 5, 2.8812) + "\n49 page 6", ``},
		{"and not sooner", cleared(3) + page(10, 4, 3) + page(24.2, 5, 2.94) + page(28, 6, 2.8812) + "\n32 page 7", short},
		{"wherever one as long was between", cleared(3) + page(10, 4, 3) + page(24.2, 5, 2.94) + "\n28 page 6", ``},
		{"from the sixth step on 4 %", cleared(3) + page(126, 4, 2.6033) + "\n129 page 5", ``},
		{"and no more", cleared(3) + page(126, 4, 2.6032) + "\n129 page 5", short},
		{"what is left of it is the least", cleared(3) + "\n1500 page 4\n1503 page 5", ``},
		{"once more, on top of that", cleared(3) + `
			9    refused 4 delay=3 delaySource=learned status=429 until=@10.1
			13.5 cleared 5 delay=4.5 delaySource=learned
			18   page 6
		`, ``},
		{"once more, and not on top of that", cleared(3) + `
			9    refused 4 delay=3 delaySource=learned status=429 until=@10.1
			13.5 cleared 5 delay=4.4 delaySource=learned
			18   page 6
		`, short},
		{"a series teaches once", cleared(3) + `
			9    refused 4 delay=3 delaySource=learned status=429 until=@10.1
			13.5 refused 5 delay=4.5 delaySource=learned status=429 until=@14.6 refusals=2
			18   cleared 6 delay=4.5 delaySource=learned
			23   page 7
		`, ``},
		{"a random delay that is longer tells nothing", cleared(3) + "\n9 page 4 delay=4 delaySource=random\n13 page 5 delay=3 delaySource=learned\n16 page 6", ``},
		{"another start begins anew", cleared(3) + "\n100 page 4 seq=1\n103 page 5", ``},
	})
	const six = `
		1  page 1 status=403
		3  page 2 status=403
		5  page 3 status=403
		7  page 4 status=403
		9  page 5 status=403
		11 refused 6 status=403 until=@71.1
	`
	checkRows(t, learned+six, []row{
		{"a ban makes it twice as long", "75 cleared 7 delay=4 delaySource=learned\n80 page 8", ``},
		{"and no less", "75 cleared 7 delay=3.76 delaySource=learned\n80 page 8", short},
	})
	const pause = `
		1  refused 1 status=503 until=@2.1
		3  cleared 2
		6  page 3
	`
	checkRows(t, learned, []row{
		{"an answer that may be a page's own trouble teaches nothing for sure", pause, ``},
		{"nor does a maintenance", strings.Replace(pause, "503", "503 retryAfter=1", 1), ``},
		{"nor a quota", strings.Replace(pause, "status=503", `status=200 refusals=0 rateLimit="\"p\";r=0;t=1"`, 1), ``},
		{"nor a person", strings.Replace(pause, "refused 1 status=503 until=@2.1", "block hand=true refusals=1 until=@2.1", 1), ``},
		{"nor what an earlier process was told, for sure", strings.Replace(pause, "refused 1 status=503 until=@2.1", "block restored=true until=@2.1", 1), ``},
		{"the second refusal of a series", strings.Replace(pause, "503", "429 refusals=2", 1), ``},
		{"what was learned without a word", "1 page 1 delay=9 delaySource=learned\n10 page 2 delay=2\n13 page 3", short},
		{"what was learned, and eased", "1 page 1 delay=9 delaySource=learned\n30 page 2 delay=8.6436 delaySource=learned\n40 page 3", ``},
	})
	checkRows(t, strings.Replace(learned, "ceiling=60", "ceiling=2.5", 1)+refused, []row{
		{"no longer than the ceiling", cleared(2.5) + "\n8.5 page 4", ``},
		{"and no shorter", cleared(2.49) + "\n8.5 page 4", short},
	})
	checkRows(t, strings.Replace(learned, "Learned", "Fixed", 1)+refused, []row{{"a delay that is fixed", "6 cleared 3\n8 page 4", ``}})
	checkRows(t, strings.Replace(learned, "Learned", "Fixed", 1)+refused, []row{{"and has been longer", cleared(3) + "\n9 page 4\n12 page 5", ``}})
	checkRows(t, strings.Replace(strings.Split(learned, "\n")[0], "policy ", "policy by=U ", 1)+"\nfile\n"+learned+refused, []row{
		{"beside a log that was cut off", "6 cleared 3\n8 page 4\n9999 closed", short},
	})
	checkRows(t, learned, []row{{"starts before the answer, which are logged after it", `
		1   page 1
		3   refused 2 status=429 latency=5 duration=5 until=@9
		5.5 page 3
		7.6 page 4
		9999 closed
	`, ``}})
	for _, status := range []string{"400", "499", "503"} {
		checkRows(t, "policy statuses=400,499,503 adaptive=Learned delayMin=2 delayMax=2 ceiling=60\nsite \"\"\n"+strings.Replace(refused, "429", status+" kind=refused", 1), []row{
			{"status " + status, "6 cleared 3\n9 page 4", short},
		})
	}
	checkRows(t, "policy by=U adaptive=Learned delayMin=2 delayMax=2 ceiling=60\n"+learned+refused, []row{
		{"what one Transport has learned another needn't know", cleared(3) + `
			8.94  page 4 by=U
			11.94 page 5 by=U
		`, `
			lines 14 and 18: gap: 2.94s between two starts, delay in force 3s
			open, delays kept: a delay that is shorter than refusals have taught, as far as they are in the log
			open, allowed by robots.txt: the verdict can't be decided again
			open, verdicts right: the log doesn't have the text of robots.txt (robotscache.Config.RecordText)
		`},
	})
}
