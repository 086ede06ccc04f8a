package detect

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// Places where a topology is looked for.
const (
	TunerFileVariable = "NCCL_TUNER_TOPO_FILE"
	ncclFileVariable  = "NCCL_TOPO_FILE"
	// virtualFile is where NVIDIA's topology daemon leaves the description of a virtual machine.
	virtualFile = "/var/run/nvidia-topologyd/virtualTopology.xml"
)

// Source says where a topology came from.
type Source struct {
	Variable  string // environment variable that named File; "" for none
	File      string // "" when there was none
	Completed bool   // what the file leaves out was detected
}

func (s Source) String() string {
	text := "detected"
	switch {
	case s.Variable != "":
		text = fmt.Sprintf("%s=%s", s.Variable, s.File)
	case s.File != "":
		text = s.File
	}
	if s.Completed {
		text += ", completed by detection"
	}
	return text
}

// Load finds the topology of the machine whose files are below root ("/" for this one):
//
//  1. NCCL_TUNER_TOPO_FILE, taken as it is; it may describe another machine;
//  2. NCCL_TOPO_FILE;
//  3. the file where virtual machines have it (virtualFile);
//  4. the machine itself.
//
// NCCL completes the files of 2 and 3 by detection, and so does Load on a machine with GPUs. On others it takes them as
// they are. A named file that cannot be used, or that others can write to, is an error. Load tries nothing else then,
// where NCCL would go on without the file. File names are those of the machine, below root.
func Load(getenv func(string) string, root string, nvml NVML) (*topo.Document, Source, error) {
	if file := getenv(TunerFileVariable); file != "" {
		src := Source{Variable: TunerFileVariable, File: file}
		doc, err := readBelow(root, file, getenv)
		if err != nil {
			return nil, src, fmt.Errorf("%s: %w", TunerFileVariable, err)
		}
		return doc, src, nil
	}
	src := Source{Variable: ncclFileVariable, File: getenv(ncclFileVariable)}
	if src.File == "" {
		src = Source{File: virtualFile}
	}
	base, err := readBelow(root, src.File, getenv)
	switch {
	case err == nil:
		doc, err := detect(newSysfs(root), nvml, base)
		if errors.Is(err, ErrNoGPU) {
			return base, src, nil
		}
		src.Completed = true
		return doc, src, err
	case src.Variable != "":
		return nil, src, fmt.Errorf("%s: %w", src.Variable, err)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, src, err
	}
	doc, err := detect(newSysfs(root), nvml, nil)
	return doc, Source{}, err
}

func readBelow(root, file string, getenv func(string) string) (*topo.Document, error) {
	if root != "" && root != "/" {
		file = filepath.Join(root, file)
	}
	f, _, err := safefile.OpenOwned(file, getenv(safefile.TrustVariable) == "1")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return topo.Read(file, f)
}
