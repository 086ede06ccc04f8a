// Package plural counts things in messages.
package plural

import "fmt"

// Of returns "1 rank" or "8 ranks".
func Of(n int, what string) string {
	return fmt.Sprintf("%d %s%s", n, what, Verb(n, "", "s"))
}

// Verb returns the word that agrees with a number.
func Verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
