package bench

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// simulatedPrefix begins the source of every sample that was made up.
const simulatedPrefix = "simulated:"

// WriteTidy writes the samples of any number of files as one sweep CSV, which Read gives back unchanged. What
// is not known is left empty, the time of what failed, too; the columns of Setup are left out where nothing is known of it.
func WriteTidy(w io.Writer, files ...[]Sample) error {
	out := bufio.NewWriterSize(w, 256<<10)
	columns := sweepColumns
	for _, samples := range files {
		for i := range samples {
			switch setup := samples[i].Setup; {
			case setup == nil:
			case setup.MinChannels != "" || setup.MinCTAs != "":
				columns = floorColumns
			default:
				columns = max(columns, setupColumns)
			}
		}
	}
	fmt.Fprintln(out, strings.Join(columnNames[:columns], ","))
	var line []byte
	for _, samples := range files {
		for i := range samples {
			line = samples[i].appendTidy(line[:0], columns)
			if _, err := out.Write(line); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}

func (s *Sample) appendTidy(b []byte, columns int) []byte {
	b = append(b, nccl.Colls.Apart[s.Coll]...)
	b = append(b, ',')
	b = strconv.AppendUint(b, s.Bytes, 10)
	b = append(b, ',')
	b = appendField(b, s.DType)
	b = append(b, ',')
	b = appendField(b, s.RedOp)
	b = append(b, ',')
	if s.Algo != Unknown {
		b = append(b, s.Algo.String()...)
	}
	b = append(b, ',')
	if s.Proto != Unknown {
		b = append(b, s.Proto.String()...)
	}
	for _, n := range []int{s.Channels, s.Nodes, s.Ranks} {
		b = append(b, ',')
		if n != 0 {
			b = strconv.AppendInt(b, int64(n), 10)
		}
	}
	if s.InPlace {
		b = append(b, ",1,"...)
	} else {
		b = append(b, ",0,"...)
	}
	switch s.Selection {
	case SelectionDefault:
		b = append(b, "default"...)
	case SelectionForced:
		b = append(b, "forced"...)
	case SelectionOwnChannels:
		b = append(b, "own_channels"...)
	}
	b = append(b, ',')
	if s.Micros != 0 { // else it failed
		b = strconv.AppendFloat(b, s.Micros, 'f', -1, 64)
	}
	for _, v := range []float64{s.AlgBW, s.BusBW} {
		b = append(b, ',')
		if v != 0 {
			b = strconv.AppendFloat(b, v, 'f', -1, 64)
		}
	}
	b = append(b, ',')
	source := s.Source
	if s.Simulated && !strings.HasPrefix(source, simulatedPrefix) {
		source = simulatedPrefix + source
	}
	b = appendField(b, source)
	for c := column(sweepColumns); c < column(columns); c++ {
		b = append(b, ',')
		if s.Setup != nil {
			b = appendField(b, *s.Setup.column(c))
		}
	}
	return append(b, '\n')
}

// appendField quotes a field where CSV needs it.
func appendField(b []byte, s string) []byte {
	if !strings.ContainsAny(s, ",\"\r\n") && !strings.HasPrefix(s, " ") && !strings.HasPrefix(s, "#") {
		return append(b, s...)
	}
	b = append(b, '"')
	b = append(b, strings.ReplaceAll(s, `"`, `""`)...)
	return append(b, '"')
}
