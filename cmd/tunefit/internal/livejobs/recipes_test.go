package livejobs_test

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/watch"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

func recipe(name string) string { return filepath.Join(testlib.Root, "configs/recipes", name) }

// site is what the recipes expect of a site: the library, tunefit and a policy in one folder; and a program that
// prints, in one write, what a rank would find.
func site(t *testing.T) (dir, program string) {
	t.Helper()
	testlib.NeedPlugin(t)
	dir = t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "bin/torchrun")
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, "bin"), 0o755), os.Mkdir(filepath.Join(dir, "lib"), 0o755),
		os.Symlink(testlib.Library, filepath.Join(dir, "lib", cli.LibraryName)),
		os.WriteFile(filepath.Join(dir, "bin/tunefit"),
			[]byte("#!/bin/sh\n"+testkit.AsTunefit+"=1 exec "+cli.ShellWord(self)+" \"$@\"\n"), 0o755),
		os.WriteFile(filepath.Join(dir, "policy.csv"), []byte("allreduce,0,inf,ring,simple,-1,-1,-1\n"), 0o644),
		os.WriteFile(program, []byte(`#!/bin/sh
for file in "$NCCL_TUNER_PLUGIN" "$NCCL_TUNER_CONFIG_FILE"; do [ -r "$file" ] || echo "there is no $file"; done
echo "rank of $NCCL_DEBUG $NCCL_TUNER_STRICT $(stat -c %a "$NCCL_TUNER_RENDEZVOUS") runs $*"
`), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SITE", dir)
	return dir, program
}

// A real Slurm runs the batch file: the doctor looks at all nodes, all ranks find what is set, and nothing stays.
func TestRecipeSbatch(t *testing.T) {
	dir, program := site(t)
	testlib.Slurm(t, 4)
	if out, err := exec.Command("sbatch", "--test-only", recipe("train.sbatch"), program).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	log := filepath.Join(dir, "log")
	out, err := exec.Command("sbatch", "--wait", "--output="+log, recipe("train.sbatch"), program, "train.py",
		"two words").CombinedOutput()
	text, _ := os.ReadFile(log)
	said := string(text)
	if err != nil || strings.Count(said, "rank of WARN 1 700 runs train.py two words\n") != 32 {
		t.Errorf("%v: %s%s", err, out, said)
	}
	if !strings.Contains(said, "\n4 nodes agree\n") || !strings.Contains(said, "policy.csv, 1 row; version") {
		t.Errorf("the doctor says\n%s", said)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "live")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	// A rank that fails fails the job.
	if out, err := exec.Command("sbatch", "--wait", "--output="+log, recipe("train.sbatch"),
		"false").CombinedOutput(); err == nil {
		t.Errorf("%s", out)
	}
}

// A real Slurm sets for each task what the packages' prolog prints, but not what the user has set.
func TestTaskProlog(t *testing.T) {
	testlib.Slurm(t, 1)
	share, err := filepath.Abs(filepath.Join(testlib.Root, "configs/packaging/share"))
	if err != nil {
		t.Fatal(err)
	}
	plugin := filepath.Join(filepath.Dir(share), "lib", cli.LibraryName)
	for _, set := range []string{"", "mine"} {
		if set != "" {
			t.Setenv("NCCL_TUNER_PLUGIN", set)
		}
		out, err := exec.Command("srun", "--ntasks=2", "--task-prolog="+filepath.Join(share, "task_prolog.sh"), "sh", "-c",
			"echo NCCL_TUNER_PLUGIN=$NCCL_TUNER_PLUGIN").Output()
		if want := "NCCL_TUNER_PLUGIN=" + cmp.Or(set, plugin) + "\n"; err != nil || string(out) != want+want {
			t.Errorf("%v: %s, want %s twice", err, out, want)
		}
	}
}

// Each node starts torchrun alike; the second finds the folder that the first has made.
func TestRecipeTorchrun(t *testing.T) {
	dir, _ := site(t)
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	for _, name := range []string{"NODES=2", "MASTER=node1", "JOB=run7"} {
		name, value, _ := strings.Cut(name, "=")
		t.Setenv(name, value)
	}
	for range 2 {
		out, err := exec.Command(recipe("torchrun.sh"), "train.py", "two words").CombinedOutput()
		if want := "rank of WARN 1 700 runs --nnodes=2 --nproc-per-node=8 --rdzv-id=run7 --rdzv-backend=c10d " +
			"--rdzv-endpoint=node1:29500 train.py two words\n"; string(out) != want || err != nil {
			t.Errorf("%v: %s, want %s", err, out, want)
		}
	}
	os.Unsetenv("JOB")
	if out, err := exec.Command(recipe("torchrun.sh"), "train.py").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "JOB") {
		t.Errorf("%v: %s", err, out)
	}
}

// Two jobs of the script run on the site's policy. Each has a rendezvous of its own, and status and push find both in
// the folder above.
func TestRecipeTorchrunFollowsPush(t *testing.T) {
	dir, program := site(t)
	// The script ends as torchrun does, here as the rank itself, so that the test can end it.
	if err := os.WriteFile(program,
		[]byte("#!/bin/sh\nwhile [ \"${1#--}\" != \"$1\" ]; do shift; done\nexec \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	policy, live, file := filepath.Join(dir, "policy.csv"), filepath.Join(dir, "live"), testlib.File(t,
		"new.csv", row(2))
	jobs := map[string]*job{}
	for _, name := range []string{"run7", "run8"} {
		jobs[name] = startBy(t, []string{recipe("torchrun.sh")}, 2, policy, "NODES=1", "MASTER=node1", "JOB="+name)
	}
	out, said := tunefit(t, cli.ExitOK, "push", file, "--to", policy, "--rendezvous", live)
	for name, j := range jobs {
		if s := j.status(t, "--rendezvous", live); s == nil || s.Rendezvous != filepath.Join(live, name) ||
			s.Policy != policy || len(s.Changes) == 0 {
			t.Errorf("%s: %+v", name, s)
		}
		if !strings.Contains(out, "\njob "+name+": version ") {
			t.Errorf("%s%s", out, said)
		}
	}
	if !strings.HasSuffix(out, "\n2 communicators run on it\n") {
		t.Errorf("%s%s", out, said)
	}
	// Where the jobs do not meet, nobody can say that none reads the file.
	if out, _ = tunefit(t, cli.ExitOK, "push", file, "--to", policy); !strings.Contains(out,
		"jobs that have NCCL_TUNER_RENDEZVOUS set meet elsewhere and were not looked for") {
		t.Error(out)
	}
}

// What the file of Kubernetes has of its objects. A field that is not here is a mistake, or to be added.
type (
	meta      struct{ Name string }
	configMap struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   meta
		Data       map[string]string
	}
	daemonSet struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   meta
		Spec       struct {
			Selector struct {
				MatchLabels map[string]string `yaml:"matchLabels"`
			}
			Template struct {
				Metadata struct{ Labels map[string]string }
				Spec     podSpec
			}
		}
	}
	service struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   meta
		Spec       struct {
			ClusterIP string `yaml:"clusterIP"`
			Selector  map[string]string
		}
	}
	kubernetesJob struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   meta
		Spec       struct {
			Completions, Parallelism int
			CompletionMode           string `yaml:"completionMode"`
			BackoffLimit             int    `yaml:"backoffLimit"`
			Template                 struct{ Spec podSpec }
		}
	}
	podSpec struct {
		Subdomain      string
		RestartPolicy  string            `yaml:"restartPolicy"`
		NodeSelector   map[string]string `yaml:"nodeSelector"`
		Tolerations    []struct{ Key, Operator string }
		InitContainers []container `yaml:"initContainers"`
		Containers     []container
		Volumes        []volume
	}
	volume struct {
		Name      string
		ConfigMap struct {
			Name        string
			DefaultMode int `yaml:"defaultMode"`
		} `yaml:"configMap"`
		PersistentVolumeClaim struct {
			ClaimName string `yaml:"claimName"`
		} `yaml:"persistentVolumeClaim"`
		EmptyDir *struct{ Medium string }    `yaml:"emptyDir"`
		HostPath struct{ Path, Type string } `yaml:"hostPath"`
	}
	container struct {
		Name, Image   string
		Command, Args []string
		Env           []struct {
			Name, Value string
			ValueFrom   struct {
				FieldRef struct {
					FieldPath string `yaml:"fieldPath"`
				} `yaml:"fieldRef"`
			} `yaml:"valueFrom"`
		}
		Resources    struct{ Limits map[string]int }
		VolumeMounts []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
			ReadOnly  bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
	}
)

// readKubernetes reads a file as Kubernetes would, which refuses unknown fields and values of other kinds.
func readKubernetes(t *testing.T, file string, objects ...any) {
	t.Helper()
	text, err := os.ReadFile(recipe(file))
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	for _, object := range objects {
		if err := d.Decode(object); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		t.Fatalf("more than %d objects: %v", len(objects), err)
	}
}

// copiesTo returns the volume that a pod's first container copies the library to: by the release's image, whose
// argument is the folder to copy to.
func (p podSpec) copiesTo(t *testing.T) volume {
	t.Helper()
	c := p.InitContainers[0]
	if c.Image != "registry.example/nccl-tuner-go:"+tuner.Release || len(c.Command) != 0 ||
		!slices.Equal(c.Args, []string{c.VolumeMounts[0].MountPath}) {
		t.Errorf("%+v", c)
	}
	i := slices.IndexFunc(p.Volumes, func(v volume) bool { return v.Name == c.VolumeMounts[0].Name })
	if i < 0 {
		t.Fatalf("there is no volume %s", c.VolumeMounts[0].Name)
	}
	return p.Volumes[i]
}

func TestRecipeKubernetesDaemonSet(t *testing.T) {
	var set daemonSet
	readKubernetes(t, "kubernetes-daemonset.yaml", &set)
	pod := set.Spec.Template
	if set.Kind != "DaemonSet" || set.APIVersion != "apps/v1" || set.Spec.Selector.MatchLabels["name"] == "" ||
		!maps.Equal(set.Spec.Selector.MatchLabels, pod.Metadata.Labels) || len(pod.Spec.Containers) != 1 {
		t.Errorf("%+v", set)
	}
	if v := pod.Spec.copiesTo(t); v.HostPath.Path != "/var/lib/nccl-tuner-go" ||
		v.HostPath.Type != "DirectoryOrCreate" {
		t.Errorf("%+v", v)
	}
}

// The pod's environment leads to what is mounted; its command runs, with the mounts in a folder of the test's.
func TestRecipeKubernetes(t *testing.T) {
	dir, _ := site(t)
	var policies configMap
	var names service
	var job kubernetesJob
	readKubernetes(t, "kubernetes.yaml", &policies, &names, &job)
	if policies.Kind != "ConfigMap" || policies.APIVersion != "v1" || names.Kind != "Service" ||
		names.APIVersion != "v1" || job.Kind != "Job" || job.APIVersion != "batch/v1" {
		t.Errorf("%s %s %s", policies.Kind, names.Kind, job.Kind)
	}
	pod := job.Spec.Template.Spec
	if names.Metadata.Name != pod.Subdomain || names.Spec.ClusterIP != "None" ||
		names.Spec.Selector["job-name"] != job.Metadata.Name || job.Spec.CompletionMode != "Indexed" ||
		job.Spec.Completions != job.Spec.Parallelism || pod.RestartPolicy != "Never" {
		t.Errorf("%+v, %+v", names, job.Spec)
	}
	c := pod.Containers[0]
	root := filepath.Join(dir, "root")
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v volume) bool { return v.Name == m.Name })
		if i < 0 {
			t.Fatalf("no volume %s", m.Name)
		}
		if err := os.MkdirAll(root+m.MountPath, 0o755); err != nil {
			t.Fatal(err)
		}
		if v := pod.Volumes[i]; v.ConfigMap.Name != "" {
			if v.ConfigMap.Name != policies.Metadata.Name || v.ConfigMap.DefaultMode != 0o444 {
				t.Errorf("%+v", v)
			}
			for file, text := range policies.Data {
				if err := os.WriteFile(filepath.Join(root+m.MountPath, file), []byte(text), 0o444); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	env := []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "JOB_COMPLETION_INDEX=3"}
	values := map[string]string{}
	for _, v := range c.Env {
		value := v.Value
		switch {
		case v.ValueFrom.FieldRef.FieldPath == "metadata.labels['controller-uid']":
			value = "0f3a"
		case strings.HasPrefix(value, "/"):
			value = root + value
		}
		for name, earlier := range values { // as Kubernetes does, with variables that are named before
			value = strings.ReplaceAll(value, "$("+name+")", earlier)
		}
		values[v.Name] = value
		env = append(env, v.Name+"="+value)
	}
	library := strings.TrimPrefix(values["NCCL_TUNER_PLUGIN"], root) // in the folder that the init container fills
	if v, m := pod.copiesTo(t), c.VolumeMounts[0]; v.EmptyDir == nil || m.Name != v.Name ||
		library != m.MountPath+"/lib/"+cli.LibraryName {
		t.Errorf("%+v, %+v, %s", v, m, library)
	}
	for _, err := range []error{os.MkdirAll(root+filepath.Dir(library), 0o755),
		os.Symlink(testlib.Library, root+library)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // pods
		cmd := exec.Command(c.Command[0], append(c.Command[1:], c.Args...)...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if want := "rank of WARN 1 700 runs --nnodes=4 --nproc-per-node=8 --node-rank=3 --master-addr=train-0.train " +
			"train.py\n"; string(out) != want || err != nil {
			t.Errorf("%v: %s, want %s", err, out, want)
		}
	}
	if values["NCCL_TUNER_RENDEZVOUS"] != root+"/live/0f3a" || c.Resources.Limits["nvidia.com/gpu"] != 8 {
		t.Errorf("%v", values)
	}
	tunefit(t, cli.ExitOK, "check", values["NCCL_TUNER_CONFIG_FILE"])
	t.Run("follows the ConfigMap", func(t *testing.T) {
		mustFollow(t, policies.Data["policy.csv"], filepath.Base(values["NCCL_TUNER_CONFIG_FILE"]))
	})
}

// mustFollow mounts a ConfigMap as a kubelet does, and changes it: ..data is turned to another folder.
func mustFollow(t *testing.T, text, name string) {
	t.Helper()
	dir := t.TempDir()
	publish := func(version, text string) {
		link := filepath.Join(dir, "..data_tmp")
		for _, err := range []error{
			os.Mkdir(filepath.Join(dir, version), 0o755),
			os.WriteFile(filepath.Join(dir, version, name), []byte(text), 0o444),
			os.Symlink(version, link), os.Rename(link, filepath.Join(dir, "..data")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	publish("..2026_1", text)
	path := filepath.Join(dir, name)
	if err := os.Symlink("..data/"+name, path); err != nil {
		t.Fatal(err)
	}
	// What push writes there, the kubelet would undo.
	if _, said := tunefit(t, cli.ExitFailed, "push", testlib.File(t, "new.csv", row(2)), "--to",
		path); !strings.Contains(said, "kubectl edit configmap") {
		t.Error(said)
	}
	w := watch.New(watch.Config{Poll: time.Second, Debounce: 10 * time.Millisecond, Max: time.Second})
	defer w.Close()
	changed := make(chan bool, 100)
	stop := w.Add(path, func() { changed <- true })
	defer stop()
	publish("..2026_2", text+"allgather,0,inf,ring,simple,,\n")
	if err := os.RemoveAll(filepath.Join(dir, "..2026_1")); err != nil {
		t.Fatal(err)
	}
	for limit := time.After(10 * time.Minute); ; {
		select {
		case <-changed:
			if now, err := os.ReadFile(path); err == nil && strings.Contains(string(now), "allgather") {
				return
			}
		case <-limit:
			t.Fatal("the change is not seen")
		}
	}
}
