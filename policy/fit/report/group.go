package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit/curves"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// groupData is what the script draws of one group.
type groupData struct {
	Name       string        `json:"name"`
	Coll       string        `json:"coll"`
	Comm       string        `json:"comm"`
	Bus        num           `json:"bus"` // busbw / algbw
	Noise      num           `json:"noise"`
	NoisePairs int           `json:"noisePairs"`
	FitError   num           `json:"fitError"`
	Sizes      []sizeData    `json:"sizes"`
	Curves     []curveData   `json:"curves,omitempty"`
	Left       int           `json:"left,omitempty"` // curves left out to bound the page
	Verdicts   []verdictData `json:"verdicts,omitempty"`
	Coverage   coverage      `json:"coverage"`
	Outliers   []outlierData `json:"outliers,omitempty"`
	Notes      []string      `json:"notes,omitempty"`
}

// sizeData is a decision. Short names: there are many.
type sizeData struct {
	Bytes  uint64 `json:"b"`
	Winner string `json:"w,omitempty"`
	Best   num    `json:"us"`
	NCCL   num    `json:"d"`
	Label  string `json:"dl,omitempty"`
	Row    string `json:"row,omitempty"`
	Why    string `json:"why,omitempty"`
	Gain   num    `json:"g"`
	Reach  num    `json:"r"`
}

type curveData struct {
	Name     string   `json:"n"`
	Family   string   `json:"f"`
	Wins     int      `json:"wins"`
	Behind   num      `json:"behind"`
	Shown    bool     `json:"on,omitempty"` // at first
	Measured [][2]num `json:"m"`            // bytes, us
	Fitted   [][3]num `json:"c"`            // bytes, us, sigma of ln(us)
}

type verdictData struct {
	LeftOut string   `json:"leftOut"`
	Points  [][5]num `json:"p"` // bytes, then time / best of policy, default, log-log, fastest prediction
	Policy  scores   `json:"policy"`
	Plain   scores   `json:"plain"`
	Default scores   `json:"default"`
	LogLog  scores   `json:"loglog"`
	Nearest scores   `json:"nearest"`
	ArgMin  scores   `json:"argmin"`
	Decided int      `json:"decided"`
	Harm    int      `json:"harm"`
	Inside  num      `json:"inside"` // share inside the 90 % interval
}

// scores are mean, low, high, p95 and max of time / best; none without decisions.
type scores []num

func newScores(s fit.Score) scores {
	if s.Decisions == 0 {
		return nil
	}
	return scores{num(s.Mean), num(s.Low), num(s.High), num(s.P95), num(s.Max)}
}

type outlierData struct {
	Config string `json:"n"`
	Bytes  uint64 `json:"b"`
	Micros num    `json:"us"`
}

// num keeps five digits; NaN and infinities are null.
type num float64

func (n num) MarshalJSON() ([]byte, error) {
	if f := float64(n); !math.IsNaN(f) && !math.IsInf(f, 0) {
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return strconv.AppendFloat(nil, f, 'f', -1, 64), nil
		}
		return strconv.AppendFloat(nil, f, 'g', 5, 64), nil
	}
	return []byte("null"), nil
}

// shownAtFirst is how many curves a reader can tell apart.
const shownAtFirst = 8

// newGroupData gives the curves no more numbers than share and returns how many
// they used. rows are the group's own; m is nil where nothing but the default was measured.
func newGroupData(r *fit.GroupReport, m *model.Group, decisions []decision, rows []fit.Row, share int) (d *groupData, used int, err error) {
	g := r.Group
	d = &groupData{
		Name: g.Key.String(), Coll: g.Coll.String(), Comm: nccl.CommName(g.Nodes, g.Ranks), Bus: num(g.Coll.BusFactor(float64(g.Ranks))), Noise: num(g.Noise), NoisePairs: g.NoisePairs,
		FitError: num(r.FitError), Coverage: newCoverage(g),
	}
	if r.DefaultOnly {
		d.FitError = num(math.NaN())
	}
	for _, s := range decisions {
		o := sizeData{Bytes: s.bytes, Best: num(s.best), NCCL: num(s.byNCCL), Label: s.label, Why: s.why, Gain: num(s.gain), Reach: num(s.reach)}
		if s.winner != nil {
			o.Winner = s.winner.String()
		}
		if s.row != nil {
			o.Row = s.row.String()
		}
		d.Sizes = append(d.Sizes, o)
	}
	for _, f := range groupFindings(r) {
		d.Notes = append(d.Notes, f.Text)
	}
	for _, c := range r.Outliers {
		d.Outliers = append(d.Outliers, outlierData{c.Config.String(), c.Bytes, num(c.Micros)})
	}
	for i := range r.Verdicts {
		d.Verdicts = append(d.Verdicts, newVerdictData(&r.Verdicts[i]))
	}
	if m == nil {
		return d, 0, nil
	}
	all, err := curves.Ranked(m)
	if err != nil {
		return nil, 0, err
	}
	byPolicy := func(c curves.Curve) bool {
		return slices.ContainsFunc(rows, func(row fit.Row) bool { return row.Config == c.Config })
	}
	slices.SortStableFunc(all, func(a, b curves.Curve) int { return cmp.Compare(toInt(byPolicy(b)), toInt(byPolicy(a))) })
	for i, c := range all {
		cost := 2*len(c.Measured) + 3*len(c.Fitted)
		if used+cost > share {
			d.Left = len(all) - i
			break
		}
		used += cost
		d.Curves = append(d.Curves, newCurveData(c, i < shownAtFirst && (c.Wins > 0 || i < shownAtFirst/2)))
	}
	return d, used, nil
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func newCurveData(c curves.Curve, shown bool) curveData {
	d := curveData{Name: c.Config.String(), Family: c.FamilyKey.String(), Wins: c.Wins, Behind: num(c.Behind), Shown: shown, Measured: [][2]num{}, Fitted: [][3]num{}}
	for _, p := range c.Measured {
		d.Measured = append(d.Measured, [2]num{num(p.Bytes), num(p.Micros)})
	}
	for _, p := range c.Fitted {
		d.Fitted = append(d.Fitted, [3]num{num(p.Bytes), num(p.Micros), num(p.Sigma)})
	}
	return d
}

// newVerdictData averages the decisions of each size: with several channel counts
// left out in turn there are several.
func newVerdictData(v *fit.Verdict) verdictData {
	d := verdictData{
		LeftOut: v.LeftOut, Points: [][5]num{}, Policy: newScores(v.Cautious), Plain: newScores(v.Plain), Default: newScores(v.Default),
		LogLog: newScores(v.LogLog), Nearest: newScores(v.Nearest), ArgMin: newScores(v.PlainRows), Decided: v.Decided, Harm: v.Harm, Inside: num(math.NaN()),
	}
	if v.Predicted > 0 {
		d.Inside = num(float64(v.Inside) / float64(v.Predicted))
	}
	for i := 0; i < len(v.BySize); {
		var sum, n [4]float64
		bytes := v.BySize[i].Bytes
		for ; i < len(v.BySize) && v.BySize[i].Bytes == bytes; i++ {
			r := &v.BySize[i]
			for k, x := range [4]float64{r.Cautious, r.Default, r.LogLog, r.Plain} {
				if !math.IsNaN(x) {
					sum[k], n[k] = sum[k]+x, n[k]+1
				}
			}
		}
		p := [5]num{num(bytes)}
		for k := range sum {
			p[k+1] = num(sum[k] / n[k]) // NaN of none
		}
		d.Points = append(d.Points, p)
	}
	return d
}

func byKey(file *model.File) (map[fit.Key]*model.Group, error) {
	m := map[fit.Key]*model.Group{}
	for i := range file.Groups {
		key, err := curves.KeyOf(&file.Groups[i])
		if err != nil {
			return nil, err
		}
		m[key] = &file.Groups[i]
	}
	return m, nil
}

func familiesByWins(file *model.File, wins map[string]int) []string {
	var names []string
	for i := range file.Groups {
		for _, f := range file.Groups[i].Families {
			if name := f.Algo + "/" + f.Proto; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(wins[b], wins[a]), cmp.Compare(a, b)) })
	return names
}
