package audit_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestVerdictsOnWhatRefusalsTeach: the first refusal of a series makes a learned delay half as long again, and
// each twenty starts make it 2 % shorter, of which the judge grants one from the beginning.
func TestVerdictsOnWhatRefusalsTeach(t *testing.T) {
	const believed = "open, delays kept: what a refusal has taught of the delay is believed, not derived"
	const learned = "policy adaptive=Learned delayMin=2 delayMax=2 ceiling=60\nsite \"\"\n"
	const refused = `
		1    page 1
		3    refused 2 status=429 until=@4.1
		6    cleared 3
	`
	starts := func(n int, from, gap float64) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "\n%.5f page %d", from+float64(i)*gap, 100+i)
		}
		return b.String()
	}
	checkRows(t, learned+refused, []row{
		{"the delay that was learned", `8.94 page 4`, ``},
		{"a shorter one", `8.93999 page 4`, `lines 13 and 17: gap: 2.93999s between two starts, delay in force 2.94s`},
		{"once more", `
			9    refused 4 status=429 until=@10.1
			11.9999 cleared 5
			16.3 page 6
		`, `lines 21 and 25: gap: 4.3001s between two starts, delay in force 4.41s`},
		{"once more, kept", `
			9    refused 4 status=429 until=@10.1
			13.41 cleared 5
			17.82 page 6
		`, ``},
		{"a series teaches once", `
			9    refused 4 status=429 until=@10.1
			13.5 refused 5 status=429 until=@14.6 refusals=2
			17.91 cleared 6
			22.32 page 7
		`, ``},
		{"a server's failure teaches something else", `
			9    refused 4 status=503 retryAfter=1 until=@10.1
			12   page 5
			14.94 page 6
		`, believed},
		{"a person's block teaches nothing", `
			9    block hand=true refusals=1 until=@10
			12   page 5
			14.94 page 6
		`, ``},
		{"nor does a quota", `
			9    refused 4 status=200 refusals=0 until=@14.1 rateLimit="\"p\";r=0;t=5"
			15   page 5
			17.94 page 6
		`, ``},
		{"a refusal that an earlier process was told does, nobody knows what", `
			9    block restored=true status=429 until=@10
			12   page 5
			14.94 page 6
		`, believed},
		{"seventeen starts later it is the same", starts(15, 9, 3) + "\n54 page 5\n56.93999 page 6", `lines 62 and 65: gap: 2.93999s between two starts, delay in force 2.94s`},
		{"eighteen starts later it is 2 % shorter", starts(16, 9, 3) + "\n57 page 5\n59.8812 page 6", ``},
		{"and no shorter than that", starts(16, 9, 3) + "\n57 page 5\n59.88119 page 6", `lines 65 and 68: gap: 2.88119s between two starts, delay in force 2.8812s`},
		{"a minute without a start counts as one", `
			1026 page 4
			1028.8812 page 5
		`, ``},
		{"a long time without one, too, down to the least", `
			1700 page 4
			1702.7 page 5
		`, `lines 17 and 20: gap: 2.7s between two starts, delay in force 2.8812s`},
		{"forgotten, half an hour after the block", `
			1804.11 page 4
			1806.11 page 5
		`, believed},
		{"not before that", `
			1804.09 page 4
			1806.09 page 5
		`, `lines 17 and 20: gap: 2s between two starts, delay in force 2.8812s`},
	})
	checkRows(t, strings.Replace(learned, "ceiling=60", "ceiling=2.5", 1)+refused, []row{
		{"no longer than the ceiling", `8.45 page 4`, ``},
		{"and no shorter", `8.4499 page 4`, `lines 13 and 17: gap: 2.4499s between two starts, delay in force 2.45s`},
	})
	checkRows(t, strings.Replace(learned, "ceiling=60", "ceiling=60 overrides=true", 1)+refused, []row{{"limits of single hosts", `8.94 page 4`, believed}})
	checkRows(t, learned+strings.Replace(refused, "until=@4.1", "until=@4.1 refusals=2", 1), []row{{"the second refusal of a series", `8 page 4`, believed}})
	checkRows(t, strings.Replace(learned, "Learned", "Fixed", 1)+refused, []row{{"a delay that is fixed", `8 page 4`, ``}})
	checkRows(t, "policy by=U\nfile\n"+learned+refused, []row{
		{"what may be a part of a block that a kill has taken", "8 page 4\n9999 closed", believed + "\n" + lostAnswers},
	})
	checkRows(t, learned, []row{{"starts before the answer, which are logged after it", `
		1   page 1
		3   refused 2 status=429 latency=5 duration=5 until=@9
		5.5 page 3
		7.6 page 4
	`, ``}})
	for _, status := range []string{"400", "499"} {
		checkRows(t, "policy statuses=400,408,425,399,499,500 adaptive=Learned delayMin=2 delayMax=2 ceiling=60\nsite \"\"\n"+strings.Replace(refused, "429", status, 1), []row{
			{"status " + status, `8.9 page 4`, `lines 13 and 17: gap: 2.9s between two starts, delay in force 2.94s`},
		})
	}
	for _, status := range []string{"399", "408", "425", "500"} {
		checkRows(t, "policy statuses=400,408,425,399,499,500 adaptive=Learned delayMin=2 delayMax=2 ceiling=60\nsite \"\"\n"+strings.Replace(refused, "429", status, 1), []row{
			{"status " + status, `8 page 4`, believed},
		})
	}
	checkRows(t, learned+refused, []row{
		{"limits of one host that have no ceiling", `
			policy host=a.example slots=2 delayMin=2 adaptive=Learned
			9   page 4
		`, `line 16: contradiction: limits of one host, though the policy says that all hosts have the same`},
	})
	checkRows(t, "policy by=U adaptive=Learned delayMin=2 delayMax=2 ceiling=60\n"+learned+refused, []row{
		{"what one Transport has learned another needn't know", `
			8.94  page 4 by=U
			10.94 page 5 by=U
		`, believed + "\n" + trimLines(noTextOpen)},
		{"nor what two have learned, one after the other", `
			9     refused 4 by=U status=429 until=@10.1
			12    cleared 5 by=U
			14.94 page 6 by=U
		`, believed + "\n" + trimLines(noTextOpen)},
	})
}
