package lint

import (
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// Fix rewrites what can be put right mechanically, until nothing of that is left,
// and returns the findings that it fixed and the new text. All other bytes stay as
// they are.
func Fix(file string, text []byte, opt Options) (fixed []Finding, after []byte, err error) {
	// A fix may bring to light what another one hid; more often than this a file
	// cannot change for the better.
	const rounds = 10
	for range rounds {
		words := map[policy.Span]string{}
		for _, f := range Check(file, text, opt) {
			if _, twice := words[f.at]; !f.Fixable || twice {
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
