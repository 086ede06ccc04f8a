//go:build !cgo || !linux

package detect

import "errors"

// NVMLLibrary needs cgo to load the driver's library; this build has none.
type NVMLLibrary struct {
	Path string
}

// Devices always fails.
func (NVMLLibrary) Devices() ([]NVMLDevice, error) {
	return nil, errors.New("this program was built without cgo and cannot load libnvidia-ml.so.1")
}
