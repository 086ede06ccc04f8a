package livejobs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
)

// Push puts a file into force in running jobs.
type Push struct {
	Inputs     *cli.Inputs
	Rendezvous string        // "": $NCCL_TUNER_RENDEZVOUS, else the default ones
	To         string        // "": the file that the environment names
	Timeout    time.Duration // longest time to wait; 0: do not wait
	Force      bool          // also what is simulated, or seems misnamed
	JSON       bool
	Installed  func() nccl.Version // release of NCCL on this machine; 0: none
	Stderr     io.Writer           // for warnings
}

// pushOutcome is the result of a push, as push --json prints it.
type pushOutcome struct {
	File     string `json:"file"`
	Written  bool   `json:"written"`  // false: it held this already, or there is an error
	Switched bool   `json:"switched"` // all communicators could be seen, and those that read the file have switched
	// Communicators counts those that read the file and have not ended. NotSwitched lists those of them that do not run
	// on its text yet.
	Communicators int           `json:"communicators"`
	NotSwitched   []notSwitched `json:"not_switched"`
	Others        int           `json:"of_other_files"` // communicators that read other files
	// Unclear lists communicators whose file this machine cannot tell.
	Unclear  []commName `json:"of_unknown_files"`
	Unseen   []string   `json:"not_looked_at"`
	Warnings []string   `json:"warnings"`
	Error    string     `json:"error,omitempty"` // why nothing was written, as a rule
}

// notSwitched is a communicator that does not run on the file's text yet.
type notSwitched struct {
	commName
	Why string `json:"why,omitempty"`
}

// Run checks and writes the file of that name, and waits.
func (f *Push) Run(out io.Writer, name string) error {
	is, _ := f.Inputs.Kind(name) // unknown: of a damaged model, for example
	file := watchedFile{name, is == cli.KindModel ||
		is == "" && strings.EqualFold(filepath.Ext(name), ".json")}
	variable := tuner.EnvConfigFile
	if file.model {
		variable = tuner.EnvModelFile
	}
	to := cmp.Or(f.To, os.Getenv(variable))
	if to == "" {
		return cli.Usagef("which file do the jobs read? Name it with --to, or set %s", variable)
	}
	ctx, stop := cli.Interruptible()
	defer stop()
	told := out
	if f.JSON {
		told = io.Discard
	}
	w := newWaiter(rendezvous(f.Rendezvous), watchedFile{to, file.model}, told)
	w.progress, w.limit = cli.NewProgress(f.Stderr), f.Timeout
	err := f.push(ctx, w, file)
	if f.JSON {
		if err != nil && !errors.Is(err, cli.ErrFailed) && !errors.Is(err, cli.ErrUnseen) {
			w.Error = err.Error()
		}
		w.Switched = len(w.NotSwitched)+len(w.Unclear)+len(w.Unseen) == 0 && w.Error == ""
		err = errors.Join(err, cli.WriteJSON(out, w.pushOutcome))
	}
	return cli.Interrupted(ctx, err)
}

// push replaces the waiter's file by the text of another, and waits. If it cannot see the jobs, it writes nothing.
func (f *Push) push(ctx context.Context, w *waiter, from watchedFile) error {
	text, old, err := f.prepare(ctx, w, from)
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil {
		return fmt.Errorf("%w\nnothing was written to %s", err, w.file.path)
	}
	if old != nil && bytes.Equal(old, text) {
		fmt.Fprintf(w.out, "%s holds this already\n", w.file.path)
		return w.wait(ctx)
	}
	switch err := cli.WriteText(w.file.path, text); {
	case errors.Is(err, fs.ErrPermission):
		return refuse(fmt.Sprintf("push as %s, who owns the folder", ownerOf(filepath.Dir(w.file.path))), "%w", err)
	case err != nil:
		return err
	}
	w.Written = true
	fmt.Fprintf(w.out, "%s written\n", w.file.path)
	return w.wait(ctx)
}

// prepare does all that comes before the file is written. It returns the new text and the old one, nil if there is no
// file yet. An error refuses to write.
func (f *Push) prepare(ctx context.Context, w *waiter, from watchedFile) (text, old []byte, err error) {
	if text, err = from.unpacked(f.Inputs); err != nil {
		return nil, nil, err
	}
	path, old, err := replaceable(w.file.path)
	if err != nil {
		return nil, nil, err
	}
	if err := from.sameKind(w.file.path, old); err != nil {
		return nil, nil, err
	}
	w.file.path, w.File, w.text = path, path, text
	warnings, simulated := f.warnings(from, text)
	w.Warnings = append(w.Warnings, warnings...)
	if len(warnings) > 0 {
		fmt.Fprintln(f.Stderr, cli.Few(warnings, 8, "\n"))
	}
	if simulated && !f.Force {
		return nil, nil, refuse("measure (tunefit sweep), or push it all the same with --force",
			"%s comes from simulated times, which say nothing about a real machine", from.path)
	}
	if err := w.begin(ctx); err != nil {
		return nil, nil, err
	}
	if !f.Force {
		err = cmp.Or(w.wrongFile(old != nil), w.wrongRendezvous(ctx))
	}
	return text, old, err
}

// wrongFile returns an error for a new file that no job reads while jobs read others: a slip of the hand, most likely.
func (w *waiter) wrongFile(isThere bool) error {
	if isThere || len(w.targets) > 0 || len(w.otherFiles) == 0 {
		return nil
	}
	return refuse("name the file that the jobs read with --to; if new jobs will read this one: --force",
		"%s does not exist yet, and no running job reads it; they read %s", w.file.path, few(distinct(w.otherFiles)))
}

// wrongRendezvous returns an error if there is no such rendezvous, but one beside it where a job reads the file.
func (w *waiter) wrongRendezvous(ctx context.Context) error {
	above := aboveRendezvous(w.name)
	if above == "" || w.met > 0 || !w.mayCome && !tuner.IsEtcd(w.name) {
		return nil
	}
	beside := newWaiter(above, w.file, io.Discard)
	if err := beside.begin(ctx); err != nil {
		return ctx.Err() // nobody named the one above
	}
	var meet []string
	for _, t := range beside.targets {
		meet = append(meet, t.Rendezvous)
	}
	for _, c := range beside.Unclear {
		meet = append(meet, c.Rendezvous)
	}
	if len(meet) == 0 {
		return nil
	}
	return refuse("name their rendezvous, or one above, with --rendezvous; if other jobs will meet there: --force",
		"there is no rendezvous %s, and jobs that %s this file meet beside it: %s",
		wording.HideSecrets(w.name), wording.Verb(len(beside.targets), "read", "may read"), few(distinct(meet)))
}

// aboveRendezvous is the folder, or the prefix in etcd, above a rendezvous; "": there is none.
func aboveRendezvous(name string) string {
	if !tuner.IsEtcd(name) {
		if name == "" {
			return ""
		}
		return filepath.Dir(filepath.Clean(name))
	}
	scheme, path, _ := strings.Cut(strings.TrimRight(name, "/"), "://")
	above := path[:max(strings.LastIndex(path, "/"), 0)]
	if !strings.Contains(above, "/") { // only the host is left
		return ""
	}
	return scheme + "://" + above
}

// ownerOf names the user to whom a file belongs.
func ownerOf(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return "the user"
	}
	id := fmt.Sprint(info.Sys().(*syscall.Stat_t).Uid)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "user " + id
}

// sameKind refuses to replace a policy by a model or a model by a policy, since the jobs would lose what they had.
func (f watchedFile) sameKind(to string, old []byte) error {
	switch {
	case !f.model && cli.Sniff(old).Kind == cli.KindModel:
		return fmt.Errorf("%s is a policy and %s a model, which stays as it is", f.path, to)
	case f.model:
		if p, err := policy.ReadCSV(to, old); err == nil && len(p.Rules) > 0 {
			return fmt.Errorf("%s is a model and %s a policy, which stays as it is", f.path, to)
		}
	}
	return nil
}

// behindLinks follows all links to an absolute path; the file itself need not exist.
func behindLinks(name string) (path string, exists bool, err error) {
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		dir, err := filepath.EvalSymlinks(filepath.Dir(name))
		return filepath.Join(dir, filepath.Base(name)), false, err
	}
	path, err = filepath.EvalSymlinks(name)
	return path, true, err
}

// replaceable returns the file that writing to name has to replace, behind all links,
// and what it holds now; old is nil if there is none yet.
func replaceable(name string) (path string, old []byte, err error) {
	if path, err = filepath.Abs(name); err != nil {
		return "", nil, err
	}
	folder := filepath.Dir(path)
	path, exists, err := behindLinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !exists:
		return "", nil, fmt.Errorf("%s: there is no folder %s", name, folder)
	case err != nil:
		return "", nil, err
	case strings.Contains(path, string(filepath.Separator)+".."):
		return "", nil,
			refuse("change what the volume is filled from (kubectl edit configmap); the jobs follow once the "+
				"kubelets have brought it to all nodes, and tunefit status --watch shows it", "%s is in a volume "+
				"that Kubernetes fills: it would undo the change, and other pods have copies of their own", name)
	case !exists:
		return path, nil, nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", nil, err
	case info.IsDir():
		return "", nil, fmt.Errorf("%s is a directory (needed: the file that the job reads)", name)
	case !info.Mode().IsRegular():
		return "", nil, fmt.Errorf("%s is not a regular file (%s), and the job reads nothing else", name,
			info.Mode().Type())
	}
	if old, err = safefile.Read(path, policyfile.MaxFileBytes); old == nil {
		old = []byte{}
	}
	return path, old, err
}

// watchedFile is a file that running ranks read again when it changes.
type watchedFile struct {
	path  string
	model bool
}

// read returns the file's text as ranks read it, and all that is wrong with it. Ranks read no compressed file.
func (f watchedFile) read() (text []byte, err error) {
	if text, err = f.unpacked(new(cli.Inputs)); err != nil {
		return nil, err
	}
	if as, err := cli.ReadRegular(f.path); err != nil || !bytes.Equal(as, text) {
		return nil, fmt.Errorf("%s is compressed, which the library does not read", f.path)
	}
	return text, nil
}

// unpacked is like read, and unpacks a compressed file: push writes its text elsewhere.
func (f watchedFile) unpacked(in *cli.Inputs) (text []byte, err error) {
	if f.model {
		_, text, err = ask.ReadModel(in, f.path)
	} else {
		_, text, err = ask.ReadPolicy(in, f.path)
	}
	if err == nil && len(text) > policyfile.MaxLiveBytes {
		err = fmt.Errorf("%s is larger than the %s that a running job takes up", f.path,
			nccl.FormatBytes(policyfile.MaxLiveBytes))
	}
	return text, err
}
