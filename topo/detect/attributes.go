package detect

import (
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// attributes are what NCCL writes on the <net> of the port, after its name, when it is the dev-th of its plugin.
func attributes(n *topo.NIC, dev int) []topo.Attr {
	gdr := "0"
	if n.PtrSupport.GDR() {
		gdr = "1"
	}
	return topo.Attrs(
		"dev", fmt.Sprint(dev),
		"latency", fmt.Sprintf("%g", float64(n.Latency)),
		"speed", fmt.Sprint(n.Mbps),
		"port", fmt.Sprint(n.Port),
		"guid", fmt.Sprintf("%#x", n.GUID),
		"maxconn", fmt.Sprint(n.MaxComms),
		"gdr", gdr,
		"net", "1",
	)
}
