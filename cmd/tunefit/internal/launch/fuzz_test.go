package launch

import (
	"slices"
	"strings"
	"testing"
)

// A template that is accepted is not changed beside its fields.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{"mpirun -np {ranks} {command}", "ssh {hosts} '{env} {command}' \"x\"",
		"${x} {ranks}{command", `\{ranks} {command} "{hosts}`, "{nodes} {command} {x}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parts, err := parseTemplate(text, true)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "launcher ") {
				t.Errorf("the error names no launcher: %v", err)
			}
			return
		}
		var again strings.Builder
		for i, p := range parts {
			again.WriteString(p.text)
			if p.field != "" {
				again.WriteString("{" + p.field + "}")
			} else if i < len(parts)-1 {
				t.Errorf("%q: a part without a field before the last: %+v", text, parts)
			}
		}
		if again.String() != text {
			t.Errorf("%q comes back as %q", text, again.String())
		}
	})
}

// Nodes that a failed run's output blames are words of it, each named once.
func FuzzNamed(f *testing.F) {
	f.Add([]byte("srun: error: Node failure on gpu[08-11]\n"))
	f.Add([]byte("n1:12:13 [0] misc.cc:3 NCCL WARN Cuda failure 'x'\nn1: Test CUDA failure\n"))
	f.Add([]byte("n1:1:1 [0] NCCL WARN socket: remote peer n2<40000>\n"))
	f.Add([]byte("mpirun noticed that process rank 3 with PID 4 on node n3 exited on signal 9\nssh: connect to host [: port"))
	f.Fuzz(func(t *testing.T, log []byte) {
		nodes := Named(log)
		for i, node := range nodes {
			if strings.ContainsAny(node, " \n") || slices.Contains(nodes[:i], node) {
				t.Errorf("%q blames %q", log, nodes)
			}
		}
	})
}
