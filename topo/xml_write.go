package topo

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Write writes the tree as NCCL writes a topology, two blanks per level. It refuses what a machine may have and NCCL's
// reader would not take: more than MaxChildren children, values longer than MaxText, and text it has no quotes for.
//
// NCCL reads at most 256 elements from NCCL_TOPO_FILE, although it may write more (several hosts); that is not checked.
func (d *Document) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	if err := writeElement(out, d.Root, 0); err != nil {
		return err
	}
	return out.Flush()
}

func writeElement(w *bufio.Writer, e *Element, depth int) error {
	if err := checkWritable(e); err != nil {
		return err
	}
	indent := strings.Repeat("  ", depth)
	fmt.Fprintf(w, "%s<%s", indent, e.Name)
	for _, a := range e.Attrs {
		quote := `"`
		if strings.Contains(a.Value, quote) {
			quote = "'"
		}
		fmt.Fprintf(w, " %s=%s%s%s", a.Name, quote, a.Value, quote)
	}
	if len(e.Children) == 0 {
		fmt.Fprint(w, "/>\n")
		return nil
	}
	fmt.Fprint(w, ">\n")
	for _, c := range e.Children {
		if err := writeElement(w, c, depth+1); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s</%s>\n", indent, e.Name)
	return err
}

func checkWritable(e *Element) error {
	if len(e.Children) > MaxChildren {
		return fmt.Errorf("topology: <%s> has more than %d children", e.Name, MaxChildren)
	}
	for _, a := range e.Attrs {
		if len(a.Value) > MaxText {
			return fmt.Errorf("topology: value of %s of <%s> is longer than %d bytes", a.Name, e.Name, MaxText)
		}
		if strings.Contains(a.Value, `"`) && strings.Contains(a.Value, "'") {
			return fmt.Errorf("topology: value of %s of <%s> holds both kinds of quotes", a.Name, e.Name)
		}
	}
	return nil
}
