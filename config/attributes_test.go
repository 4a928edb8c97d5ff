package config

import (
	"fmt"
	"testing"
)

// TestAttributes: values of attributes and how they are shown.
func TestAttributes(t *testing.T) {
	for _, tt := range []struct{ text, want, shown string }{
		{`nice = -20`, "-20", "-20"},
		{`ionice = "idle"`, "{idle 0}", `"idle"`},
		{`ionice = "best-effort"`, "{best-effort 4}", `"best-effort:4"`},
		{`ionice = "realtime:0"`, "{realtime 0}", `"realtime:0"`},
		{`cpu_affinity = "8,0-2, 1,2-3"`, "[0 1 2 3 8]", `"0-3,8"`},
		{`cpu_affinity = "8191"`, "[8191]", `"8191"`},
		{`scheduling = "other"`, "{other 0}", `"other"`},
		{`scheduling = "rr:99"`, "{rr 99}", `"rr:99"`},
		{`oom_score_adj = -1000`, "-1000", "-1000"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			var name string
			fmt.Sscan(tt.text, &name)
			a := program(t, "[program.web]\ncommand = 'x'\n"+tt.text).Attributes
			got := map[string]any{"cpu_affinity": a.CPUAffinity}
			if a.Nice != nil {
				got["nice"] = *a.Nice
			}
			if a.IONice != nil {
				got["ionice"] = *a.IONice
			}
			if a.Scheduling != nil {
				got["scheduling"] = *a.Scheduling
			}
			if a.OOMScoreAdj != nil {
				got["oom_score_adj"] = *a.OOMScoreAdj
			}
			p := program(t, "[program.web]\ncommand = 'x'\n"+tt.text)
			if shown := findKey("program", name).shown(p.builder()); fmt.Sprint(got[name]) != tt.want || shown != tt.shown {
				t.Errorf("it is %v, shown as %s; want %s, %s", got[name], shown, tt.want, tt.shown)
			}
		})
	}
}
