package sweep

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// tryNext is what to measure next of the settings that are to be tried; nothing once they are compared. Each gets one
// start of the default and of what is fastest under the site's own. Then the best get a round of candidates, and meet
// the site's own in turns of fresh starts.
func (s *Sweep) tryNext() (Batch, error) {
	for _, setting := range s.Settings {
		u := s.under(setting)
		for _, key := range s.Keys {
			if b, err := u.first(key); err != nil || len(b.Starts) > 0 {
				return b, err
			}
		}
	}
	meet := append([]*Sweep{s}, s.finalists()...)
	if len(meet) == 1 {
		return Batch{}, nil
	}
	turns := max(fit.MeetingStarts, s.Repetitions)
	var names []string
	for _, u := range meet[1:] {
		names = append(names, u.setting)
	}
	if say := strings.Join(names, "; "); say != s.announced {
		s.announced = say
		s.Say("settings that meet the site's own in turns, in %d fresh starts each: %s", turns, say)
	}
	for turn := -1; turn < turns; turn++ { // the first is the round
		for _, u := range meet {
			for _, key := range s.Keys {
				group, space, err := u.known(key)
				if err != nil {
					return Batch{}, err
				}
				b := u.alone(key, space)
				switch {
				case group == nil || u.whyNotMeasured(key) != "":
					continue
				case len(b.Starts) > 0:
				case turn < 0 && u != s && u.since(key, Measure) == 0:
					b = u.planned(Measure, key, space.Round(group))
				case turn >= 0 && u.since(key, Verify) <= turn:
					b = u.planned(Verify, key, space.Meeting(group))
				}
				if len(b.Starts) > 0 {
					return b, nil
				}
			}
		}
	}
	return Batch{}, nil
}

// first is what the first start of a setting measures of a subject; nothing if it did, or nothing runs under it.
func (s *Sweep) first(key fit.Key) (b Batch, err error) {
	own := s.under("")
	group, space, err := own.known(key)
	if err != nil || group == nil || s.isLeftOut() || own.whyNotMeasured(key) != "" {
		return b, err
	}
	if b = s.alone(key, space); len(b.Starts) > 0 {
		return b, nil
	}
	if tried := s.tried(key); tried >= 0 && !slices.ContainsFunc(space.Sizes, func(size uint64) bool {
		return !slices.Contains(s.journal.batches[tried].Starts[0].Sizes, size)
	}) {
		return b, nil
	}
	space.Failed = append(space.Failed, s.givenUp(key)...)
	return s.planned(Try, key, space.Meeting(group)), nil
}

// isLeftOut reports whether nothing runs under a setting, or under one that has some of its variables, and says why
// once.
func (s *Sweep) isLeftOut() bool {
	for _, setting := range s.Settings {
		u := s.under(setting)
		for _, key := range s.Keys {
			if reason := u.whyNotMeasured(key); reason != "" && hasWords(s.setting, setting) {
				if !u.concluded[key] {
					s.Say("the setting %s is left out, and so are those with all of its variables: %s", setting, reason)
				}
				u.concluded[key] = true
				return true
			}
		}
	}
	return false
}

// hasWords reports whether a setting has all variables of another one.
func hasWords(setting, words string) bool {
	has := strings.Fields(setting)
	return !slices.ContainsFunc(strings.Fields(words), func(w string) bool { return !slices.Contains(has, w) })
}

// ranToEnd reports whether all starts of a batch came to their end.
func (j *journal) ranToEnd(b *Batch) bool {
	for i := range b.Starts {
		if slices.ContainsFunc(j.runsOf(&b.Starts[i]), func(r *Run) bool { return r.reach().died }) {
			return false
		}
	}
	return true
}

// tried is the last batch that tried the setting on a subject first; -1: none.
func (s *Sweep) tried(key fit.Key) (batch int) {
	batch = -1
	for b, of := range s.journal.batches {
		if of.Kind == Try && keyOf(&of.Starts[0]) == (subjectKey{key, s.setting}) && s.journal.ranToEnd(of) {
			batch = b
		}
	}
	return batch
}

// since counts the batches of a kind that a subject has since any setting was tried first.
func (s *Sweep) since(key fit.Key, kind Kind) (n int) {
	for _, b := range s.journal.batches {
		_, isAlone := b.Starts[0].Only()
		switch {
		case b.Kind == Try:
			n = 0
		case b.Kind == kind && keyOf(&b.Starts[0]) == subjectKey{key, s.setting} && !isAlone && s.journal.ranToEnd(b):
			n++
		}
	}
	return n
}

// finalists are the settings that meet the site's own, by their first starts alone: the same whenever it is asked.
func (s *Sweep) finalists() (all []*Sweep) {
	first := slices.IndexFunc(s.journal.runs, func(r *Run) bool { return r.kind == Try })
	if first < 0 {
		return nil
	}
	sets := []*fit.Set{s.setOf(func(r *Run) bool { return r.ID <= first })}
	var tried []*Sweep
	for _, setting := range s.Settings {
		if u := s.under(setting); !u.isLeftOut() {
			tried = append(tried, u)
			sets = append(sets, u.setOf(func(r *Run) bool { return r.Batch == u.tried(r.of.Key) }))
		}
	}
	for _, i := range fit.Finalists(sets, s.Job) {
		all = append(all, tried[i-1])
	}
	return all
}

// untaken says which variable of a run's setting NCCL did not take; empty: it took all, as far as its log tells.
func (r *Run) untaken(text []byte) string {
	for name, value := range bench.SettingOf(r.of.Setting) {
		invalid := regexp.MustCompile(`(?mi)^.*\binvalid\b.*\b` + name + `\b.*$`)
		if line := invalid.Find(text); line != nil && value != "" {
			_, says, _ := strings.Cut(string(line), " NCCL WARN ")
			return fmt.Sprintf("NCCL refuses %s=%s: %s", name, value, wording.Line(cmp.Or(says, string(line))))
		}
		if of := r.conditions(); of != nil {
			has, isSet := bench.SettingOf(of.Variables)[name]
			asked, err := strconv.ParseInt(value, 0, 64) // NCCL writes a number in its own way
			same := has == value || err == nil && has == strconv.FormatInt(asked, 10)
			if isSet && !same {
				return fmt.Sprintf("NCCL says that it took %s=%s in place of %[1]s=%[3]s (is it set in nccl.conf?)",
					name, has, value)
			}
		}
	}
	return ""
}

// mostSettings is how many settings a sweep compares, with the site's own.
const mostSettings = 16

// valueOf is what a value of a variable may be: it is a word in files and messages.
var valueOf = regexp.MustCompile(`^[A-Za-z0-9_./:^=+%@~-]*$`)

// settable are the names of variables that may be tried.
var settable = regexp.MustCompile(`^(?:NCCL|RCCL|FI|OFI_NCCL|UCX)_[A-Z0-9_]+$`)

// knownVariables are those that people try most, in lower case: others are tried as they are, with a warning.
var knownVariables = strings.Fields(`
	nccl_algo nccl_buffsize nccl_cga_cluster_size nccl_collnet_enable nccl_cross_nic nccl_cumem_enable
	nccl_ib_adaptive_routing nccl_ib_hca nccl_ib_pci_relaxed_ordering nccl_ib_qps_per_connection nccl_ib_sl
	nccl_ib_split_data_on_qps nccl_ib_tc nccl_ll_buffsize nccl_ll128_buffsize nccl_nchannels_per_net_peer
	nccl_net_gdr_c2c nccl_net_gdr_level nccl_net_gdr_read nccl_net_shared_buffers nccl_nsocks_perthread nccl_nthreads
	nccl_nvls_chunksize nccl_nvls_enable nccl_p2p_disable nccl_p2p_level nccl_p2p_net_chunksize nccl_p2p_nvl_chunksize
	nccl_pxn_disable nccl_shm_disable nccl_socket_nthreads rccl_dda_enable rccl_mscclpp_enable rccl_msccl_enable
	fi_cxi_rdzv_proto fi_cxi_rdzv_threshold fi_efa_use_device_rdma fi_provider ofi_nccl_protocol ofi_nccl_eager_max_size
	ofi_nccl_min_stripe_size ucx_max_rndv_rails ucx_net_devices ucx_rndv_scheme ucx_rndv_thresh ucx_tls`)

// CheckSetting says why a variable cannot be tried with a value; nil: it can.
func CheckSetting(name, value string) error {
	why := ""
	switch {
	case !settable.MatchString(name):
		why = "not a variable that a sweep tries (allowed: NCCL_*, RCCL_*, FI_*, OFI_NCCL_*, UCX_*)"
	case strings.HasPrefix(name, "NCCL_DEBUG"):
		why = "it would hide what ran: the sweep reads NCCL's log (allowed: other variables)"
	case strings.HasPrefix(name, "NCCL_TUNER_"):
		why = "the sweep sets it, to choose what is measured (allowed: other variables)"
	case strings.HasSuffix(name, "_NCHANNELS") && slices.Contains(decisive, name), strings.HasSuffix(name, "_CTAS"):
		why = "it decides the channels instead of a tuner (allowed: --channels; or set it for the sweep and all jobs)"
	case slices.Contains(decisive, name):
		why = "it decides instead of a tuner (allowed: --algos, --protos)"
	case !bench.StaysWithTimes(name):
		why = "it changes no time (allowed: variables that do)"
	case !valueOf.MatchString(value):
		return fmt.Errorf("%s: value %s (allowed: letters, digits and ._/:^=+%%@~-; commas separate values)", name,
			wording.Quote(value))
	default:
		return nil
	}
	return fmt.Errorf("%s: %s", name, why)
}

// ParseSettings returns the combinations of values besides the site's own setting, which the environment has. A word is
// NAME=VALUE, or another value of the name before it. Warnings are about names that may be mistyped.
func ParseSettings(given []string) (settings, warnings []string, err error) {
	var names []string
	values := map[string][]string{}
	for _, word := range given {
		name, value, begins := strings.Cut(word, "=")
		switch {
		case begins && values[name] != nil:
			return nil, nil, fmt.Errorf("%s is named twice (needed: all of its values in one)", name)
		case begins:
			names = append(names, name)
		case len(names) == 0:
			return nil, nil, fmt.Errorf("%s: no variable (needed: NAME=VALUE,VALUE)", wording.Quote(word))
		default:
			name, value = names[len(names)-1], word
		}
		if err := CheckSetting(name, value); err != nil {
			return nil, nil, err
		}
		if value == "0" && strings.HasSuffix(name, "_DISABLE") { // as if it were unset
			value = ""
		}
		if begins && !slices.Contains(knownVariables, strings.ToLower(name)) {
			warning := name + " is no variable that tunefit knows, and is tried as it is"
			if meant := wording.Nearest(name, knownVariables); meant != "" {
				warning += " (did you mean " + strings.ToUpper(meant) + "?)"
			}
			warnings = append(warnings, warning)
		}
		values[name] = append(values[name], value)
	}
	slices.Sort(names)
	settings = []string{""}
	for _, name := range names {
		var more []string
		for _, before := range settings {
			for _, value := range values[name] {
				word := ""
				if value != os.Getenv(name) {
					word = name + "=" + value
				}
				if with := strings.TrimSpace(before + " " + word); !slices.Contains(more, with) {
					more = append(more, with)
				}
			}
		}
		settings = more
	}
	settings = slices.DeleteFunc(settings, func(s string) bool { return s == "" })
	if n := 1 + len(settings); n > mostSettings {
		return nil, nil, fmt.Errorf("%s: %d combinations, with the site's own setting (allowed: %d; try one variable "+
			"at a time, set its best value in the environment, then try the next)", strings.Join(names, ", "), n,
			mostSettings)
	}
	return settings, warnings, nil
}
