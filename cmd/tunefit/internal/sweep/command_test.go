package sweep

import (
	"slices"
	"testing"
)

// Runs do not get what would refuse the configurations that they measure.
func TestCleaned(t *testing.T) {
	got := cleaned([]string{"PATH=/bin", "NCCL_TUNER_DETERMINISTIC=1", "NCCL_ALGO=Ring", "NCCL_IB_HCA=mlx5"})
	if !slices.Equal(got, []string{"PATH=/bin", "NCCL_IB_HCA=mlx5"}) {
		t.Error(got)
	}
}
