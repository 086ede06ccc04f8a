// Package policyfile makes versions of the policy from a policy file and a model file: it reads,
// checks and compiles them, and watches them for edits.
//
// A version comes into a process in two ways, and both end in Loader.enter:
//
//	from this node's files    Load, LoadLive   file -> versionOf -> Bundle -> enter -> compile
//	from another rank         Decode                      content of a Bundle -> enter -> compile
//
// A version has two digests. That of its content names the very bytes of its files. That of its meaning
// is equal for two versions that decide alike on this machine, as after an edit of a comment. Ranks compare meanings.
//
// A process has one Loader for its life. The Loader owns what the files held when they were
// read last and the latest versions, so that each file and each version is compiled once for all
// communicators. A Version never changes; whoever uses it keeps it. Watch runs goroutines while
// there is a file to watch, and its stop ends them.
//
// The package knows no communicator and no other rank. A version travels between ranks as a
// Bundle of the files' texts.
package policyfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// A Version is one state of the policy: what it is made from and what it means. Once it is compiled, only from changes.
type Version struct {
	// Faulty: something is wrong with the files, and the version is made of those that can be used.
	Faulty bool

	id      agree.VersionID // the meaning is nothing until it is compiled
	content []byte          // an encoded Bundle
	from    [2]*file        // policy and model that it was read from last; nil: not from files. Guarded by Loader.mu

	compile    func() error        // once; sets what follows
	engine     *policy.Engine      // nil: NCCL decides everything
	logMachine func(telemetry.Log) // logs the machine, and whether the model is for it, once per process
}

// None is the version of a rank without usable files. It leaves everything to NCCL.
var None = func() *Version {
	content := Bundle{}.Encode()
	return &Version{id: agree.VersionID{Content: agree.DigestOf(content), EffectDigest: nothing}, content: content}
}()

// nothing is the effect digest of a version that leaves everything to NCCL.
const nothing = "nothing"

// Engine returns what decides by the version; nil: NCCL decides everything.
func (v *Version) Engine() *policy.Engine { return v.engine }

// EffectDigest is the digest of what the version means on this machine.
func (v *Version) EffectDigest() string { return v.id.EffectDigest }

// ID is how ranks name the version.
func (v *Version) ID() agree.VersionID { return v.id }

// Content is the encoded Bundle of the files that the version is made from.
func (v *Version) Content() []byte { return v.content }

// String names the version's files and its meaning for a message.
func (v *Version) String() string {
	b, err := DecodeBundle(v.content)
	if v.engine == nil || err != nil {
		return "NCCL's default"
	}
	names := []string{b.Policy.Name, b.Model.Name, b.Added.Name}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	return fmt.Sprintf("%s (version %.12s)", strings.Join(names, " with "), v.EffectDigest())
}

// A Loader makes the versions of a process. Any goroutine may call its methods.
type Loader struct {
	// Find finds the machine; FindMachine unless a test sets another one.
	Find func(getenv func(string) string) (*topo.Machine, detect.Source, error)

	getenv   func(string) string
	timeouts *safefile.Timeouts
	judged   func(files string, refused bool)
	machine  machine

	watching sync.Mutex // guards watched
	watched  map[[2]Named]*watchedSet

	mu       sync.Mutex // guards what follows; held while a bundle is made, at most
	files    map[fileKey]*file
	versions []*Version // the latest, see find
}

// NewLoader returns a loader that has read nothing yet. judged is called each time that files were read: refused if
// something was wrong with them.
func NewLoader(getenv func(string) string, t *safefile.Timeouts, judged func(files string, refused bool)) *Loader {
	return &Loader{Find: FindMachine, getenv: getenv, timeouts: t, judged: judged, files: map[fileKey]*file{},
		watched: map[[2]Named]*watchedSet{}}
}

// Load reads the files that the settings name, at a communicator's init. It logs what is wrong
// with them. The error is for files that hang: other ranks may have read them.
func (l *Loader) Load(s Settings, log telemetry.Log) (*Version, error) {
	f := l.loadFiles(s)
	if err := cmp.Or(f[0].hangs(), f[1].hangs()); err != nil {
		return nil, err
	}
	return l.use(f, s, log)
}

// LoadLive reads files during a run.
func (l *Loader) LoadLive(s Settings, log telemetry.Log) (*Version, error) {
	s.live = true
	return l.use(l.loadFiles(s), s, log)
}

// use logs what is wrong with a policy file and a model file, and returns the version of those that can be used.
func (l *Loader) use(f [2]*file, s Settings, log telemetry.Log) (*Version, error) {
	policyOK, modelOK := f[0].check(s, log), f[1].check(s, log)
	l.judged(s.names(), !policyOK || !modelOK)
	if policyOK && modelOK {
		return l.versionOf(f, log)
	}
	usable := f
	if !modelOK {
		usable[1] = nil
	}
	if !policyOK {
		// Rows may restrict the model, so it must not decide without them. The rows of a good policy decide even if the
		// model cannot be used.
		if usable[0] = nil; !f[0].isEmpty() {
			if usable[1] != nil && !s.live {
				log.Infof("%s is not used either", s.Model.Path)
			}
			usable[1] = nil
		}
	}
	v, err := l.versionOf(usable, log)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	faulty := *v // not v itself: other communicators may have the same version from good files
	faulty.Faulty, faulty.from = true, f
	return &faulty, nil
}

// maxVersions bounds how many versions a Loader keeps to share. One is in force, one may be on its way, and some
// communicators may be behind. Whoever uses a version that is dropped here keeps it.
const maxVersions = 4

// find returns the version that is, and makes it the latest; nil if none is. l.mu must be held.
func (l *Loader) find(is func(*Version) bool) *Version {
	i := slices.IndexFunc(l.versions, is)
	if i < 0 {
		return nil
	}
	v := l.versions[i]
	l.versions = append(slices.Delete(l.versions, i, i+1), v)
	return v
}

// versionOf returns the compiled version of a policy file and a model file, of which one may be nil. It makes a bundle
// only if no version is known for the files, because that takes as long as the rest of a communicator's init. The
// files' texts then point into the bundle, so that one copy stays in memory.
func (l *Loader) versionOf(f [2]*file, log telemetry.Log) (*Version, error) {
	if f == ([2]*file{}) {
		return None, nil
	}
	l.mu.Lock()
	v := l.find(func(v *Version) bool { return v.from == f })
	if v == nil {
		var b Bundle
		var rows *policy.Policy
		var costs *model.Model
		if f[0] != nil {
			rows, b.Policy = f[0].policy, Source{f[0].Path, f[0].text}
		}
		if f[1] != nil {
			costs, b.Model = f[1].model, Source{f[1].Path, f[1].text}
		}
		content := b.Encode()
		v = l.enter(content, agree.DigestOf(content), func() (*policy.Policy, *model.Model, error) {
			return rows, costs, nil
		})
		v.from = f
		texts := v.content[len(v.content)-len(b.Policy.Text)-len(b.Model.Text):]
		for _, one := range f {
			if one != nil {
				n := len(one.text)
				one.text, texts = texts[:n], texts[n:]
			}
		}
	}
	l.mu.Unlock()
	return v.ready(log)
}

// Decode returns the compiled version of a content that some rank has put into the store. digest is its agree.DigestOf.
func (l *Loader) Decode(content []byte, digest string, log telemetry.Log) (*Version, error) {
	l.mu.Lock()
	v := l.enter(content, digest, func() (rows *policy.Policy, costs *model.Model, err error) {
		b, err := DecodeBundle(content)
		if err == nil && b.Policy.Name != "" {
			rows, err = policy.ReadCSV(b.Policy.Name, b.Policy.Text)
		}
		if err == nil && b.Added.Name != "" {
			var added *policy.Policy
			if added, err = policy.ReadCSV(b.Added.Name, b.Added.Text); err == nil {
				rows = rows.With(added)
			}
		}
		if err == nil && b.Model.Name != "" {
			costs, err = model.Read(b.Model.Name, b.Model.Text)
		}
		return rows, costs, firstProblem(err)
	})
	l.mu.Unlock()
	return v.ready(log)
}

// enter returns the version with this content, which it adds if it is new. parse is called when the version is
// compiled, once, by the first that needs it. l.mu must be held.
func (l *Loader) enter(content []byte, digest string, parse func() (*policy.Policy, *model.Model, error)) *Version {
	if v := l.find(func(v *Version) bool { return v.id.Content == digest }); v != nil {
		return v
	}
	v := &Version{id: agree.VersionID{Content: digest, EffectDigest: nothing}, content: content}
	v.compile = sync.OnceValue(func() error {
		rows, costs, err := parse()
		if err != nil {
			return err
		}
		var here *topo.Machine
		needsTopology := policy.NeedsTopology(rows, costs)
		if needsTopology {
			if here, err = l.findMachine(); err != nil {
				return err
			}
		}
		e := policy.NewEngine(rows, costs, here)
		if e.Policy != nil || e.Model != nil {
			v.engine, v.id.EffectDigest = e, e.Digest.Full()
		}
		var said, saidLacked sync.Once
		v.logMachine = func(log telemetry.Log) {
			log.Once(&saidLacked, func() { v.logLacked(l.getenv, costs, log) })
			if needsTopology {
				l.logMachine(log)
			}
			if e.Standing == model.AnyMachine {
				return
			}
			emit := log.Infof
			if e.Standing.Abstains() {
				emit = log.Warnf
			}
			log.Once(&said, func() { emit("the model %s %s", costs.Name, e.Standing) })
		}
		return nil
	})
	if len(l.versions) == maxVersions {
		l.versions = slices.Delete(l.versions, 0, 1)
	}
	l.versions = append(l.versions, v)
	return v
}

// ready compiles the version, if nobody has yet, and returns it.
func (v *Version) ready(log telemetry.Log) (*Version, error) {
	if err := v.compile(); err != nil {
		return nil, err
	}
	v.logMachine(log)
	return v, nil
}

// logLacked warns of variables that the files were measured under, and that the job does not have.
func (v *Version) logLacked(getenv func(string) string, costs *model.Model, log telemetry.Log) {
	b, _ := DecodeBundle(v.content)
	under := nccl.ReadRemarks(b.Policy.Text).Under
	if costs != nil {
		under = append(under, costs.MeasuredUnder()...)
	}
	if lacked := nccl.LackedVariables(under, getenv); len(lacked) > 0 {
		log.Warnf("%s: measured under %s, and this job does not have it: NCCL chooses otherwise, and nothing is "+
			"known of its times", v, strings.Join(lacked, " "))
	}
}

// firstProblem shortens the problems of another rank's file to one line, for the record by which this rank refuses the
// version. That rank has compiled the file, so a problem here means that the two run different builds.
func firstProblem(err error) error {
	var problems policy.Problems
	if errors.As(err, &problems) && len(problems) > 1 {
		return fmt.Errorf("%v, and %d more", problems[0], len(problems)-1)
	}
	return err
}

// Bundle is a version as ranks pass it on: the texts of its files. A kind of file that the rank cannot use is
// missing. A bundle without files leaves everything to NCCL.
type Bundle struct {
	Policy, Model Source
	// Added has rows that come after the policy's: what NCCL_TUNER_LEARN has learned, or tries.
	Added Source
}

// Source is a file's name, for messages, and its text. An empty name means that there is no file.
type Source struct {
	Name string
	Text []byte
}

// bundleFormat is the first line of an encoded bundle. The second line is a bundleHead in JSON: names and lengths of
// the files. The rest is their texts, one after the other: policy, model, added rows.
const bundleFormat = "nccl-tuner-go bundle 1\n"

type bundleHead struct {
	Policy, Model, Added          string
	PolicyLen, ModelLen, AddedLen int
}

// Encode returns the content of a version; DecodeBundle reads it.
func (b Bundle) Encode() []byte {
	head, err := json.Marshal(bundleHead{b.Policy.Name, b.Model.Name, b.Added.Name,
		len(b.Policy.Text), len(b.Model.Text), len(b.Added.Text)})
	if err != nil {
		panic(err) // strings and numbers only
	}
	return slices.Concat([]byte(bundleFormat), head, []byte("\n"), b.Policy.Text, b.Model.Text, b.Added.Text)
}

var errBundleLength = errors.New("the bundle of policy files is damaged: it does not have the length it says")

// DecodeBundle reads the content of a version.
func DecodeBundle(content []byte) (b Bundle, err error) {
	rest, ok := bytes.CutPrefix(content, []byte(bundleFormat))
	line, files, found := bytes.Cut(rest, []byte("\n"))
	if !ok || !found {
		return b, errors.New("the version is no bundle of policy files; do the ranks run the same build?")
	}
	var head bundleHead
	if err := json.Unmarshal(line, &head); err != nil {
		return b, fmt.Errorf("the bundle of policy files is damaged: %w", wording.JSONError(err))
	}
	of := [3]*Source{&b.Policy, &b.Model, &b.Added}
	names := [3]string{head.Policy, head.Model, head.Added}
	for i, n := range [3]int{head.PolicyLen, head.ModelLen, head.AddedLen} {
		if n < 0 || n > len(files) {
			return Bundle{}, errBundleLength
		}
		*of[i], files = Source{names[i], files[:n]}, files[n:]
	}
	if len(files) > 0 {
		return Bundle{}, errBundleLength
	}
	return b, nil
}

// SameEffect reports whether the files of two versions mean the same on this machine, with the variables that getenv
// knows. On another one a model may mean something else.
func SameEffect(a, b Bundle, getenv func(string) string) bool {
	if bytes.Equal(a.Policy.Text, b.Policy.Text) && bytes.Equal(a.Model.Text, b.Model.Text) {
		return true
	}
	l := NewLoader(getenv, new(safefile.Timeouts), func(string, bool) {})
	var meanings [2]string
	for i, bundle := range []Bundle{a, b} {
		bundle.Added = Source{}
		content := bundle.Encode()
		v, err := l.Decode(content, agree.DigestOf(content), telemetry.Log{})
		if err != nil {
			return false
		}
		meanings[i] = v.EffectDigest()
	}
	return meanings[0] == meanings[1]
}
