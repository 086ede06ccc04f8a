package report

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

//go:embed assets
var assets embed.FS

// asset is the text of a file.
func asset(name string) string {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it was built without
	}
	return string(text)
}

// The page's script, in the order in which it runs.
var scripts = []string{"format.js", "grid.js", "map.js", "chart.js", "curves.js", "page.js"}

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"percent": percent, "signed": signed, "share": share, "gbps": gbps,
	"headline": JobHeadline, "coverage": JobCoverage, "jobSpan": jobSpan, "jobTone": jobTone, "gainOf": gainOf,
	"duration": profile.Duration, "settingLines": SettingLines, "aboutSettings": AboutSettings,
	"bar": func(p fit.WorthSum) float64 {
		if p.Once {
			return 0
		}
		return Span{Saved: 1 - p.Policy/p.Default}.Bar()
	},
	"minus1": func(v float64) float64 { return 1 - v }, "over1": func(v float64) float64 { return v - 1 },
}).Parse(asset("page.html")))

// Write writes the page.
func Write(w io.Writer, in Input) error {
	p := newPage(in)
	// Marshal writes <, > and & as escapes: no name in the data ends the script.
	data, err := json.Marshal(&p.data)
	if err != nil {
		return err
	}
	script := "/* uPlot:\n" + strings.ReplaceAll(asset("uplot/LICENSE"), "*/", "* /") + "*/\n" +
		asset("uplot/uPlot.iife.min.js") +
		"\n(function () {\n\"use strict\";\n"
	for _, name := range scripts {
		script += asset(name) + "\n"
	}
	script += "})();"
	var out bytes.Buffer
	err = pageTemplate.Execute(&out, struct {
		*page
		Security     template.HTML
		Style        template.CSS
		Script, Data template.JS
	}{p, template.HTML(contentPolicy(script)), template.CSS(asset("uplot/uPlot.min.css") + asset("page.css")),
		template.JS(script), template.JS(data)})
	if err != nil {
		return err
	}
	_, err = out.WriteTo(w)
	return err
}

// contentPolicy allows the page its own script and nothing else: no request can
// leave it, and no text of the data can become code.
func contentPolicy(script string) string {
	sum := sha256.Sum256([]byte(script))
	return fmt.Sprintf(
		`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; `+
			`img-src data:; script-src 'sha256-%s'">`,
		base64.StdEncoding.EncodeToString(sum[:]))
}

func policyText(in Input) string {
	var b strings.Builder
	if err := fit.WritePolicy(&b, in.Rows, &in.File.Provenance); err != nil {
		panic(err) // a Builder takes everything
	}
	return b.String()
}

// percent writes a share; a dash where it is not known.
func percent(share float64) string {
	if math.IsNaN(share) || math.IsInf(share, 0) {
		return "–"
	}
	if text := fmt.Sprintf("%.1f %%", 100*share); text != "-0.0 %" {
		return text
	}
	return "0.0 %"
}

// signed is percent with a plus for what is gained.
func signed(share float64) string {
	if text := percent(share); share > 0 && text != "0.0 %" {
		return "+" + text
	}
	return percent(share)
}

// gbps writes a bandwidth; a dash where it is not known.
func gbps(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
