// Package plural counts things for a message.
package plural

import "fmt"

// Count returns "1 rank" or "8 ranks".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
