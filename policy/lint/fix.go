package lint

import (
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// Fix rewrites what can be put right mechanically, until nothing of that is left, and returns the
// findings that it fixed and the new text. All other bytes stay as they are.
func Fix(file string, text []byte, opt Options) (fixed []Finding, after []byte, err error) {
	// A fix may bring to light what another one hid; more often than this a file cannot change for
	// the better.
	const rounds = 10
	for range rounds {
		words := map[policy.Span]string{}
		var gone []policy.Span // rows: what else is wrong in them goes with them
		found := slices.DeleteFunc(Check(file, text, opt), func(f Finding) bool { return !f.Fixable })
		for _, f := range found {
			if f.Rule == duplicate {
				gone = append(gone, f.at)
			}
		}
		for _, f := range found {
			_, twice := words[f.at]
			with := slices.ContainsFunc(gone, func(row policy.Span) bool {
				return row != f.at && row.Start <= f.at.Start && f.at.End <= row.End
			})
			if twice || with {
				continue
			}
			words[f.at] = f.with
			fixed = append(fixed, f)
		}
		if len(words) == 0 {
			return fixed, text, nil
		}
		sheet, err := policy.ReadSheet(text)
		if err != nil {
			return nil, nil, err
		}
		if text, err = sheet.Replace(words); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return fixed, text, nil
}
