// Package wording is what messages have in common: how they count, quote, escape, hide secrets, guess a name that
// was meant, and say what is wrong with JSON.
package wording

import "fmt"

// Plural returns "1 rank" or "8 ranks".
func Plural(n int, what string) string {
	return fmt.Sprintf("%d %s%s", n, what, Verb(n, "", "s"))
}

// Verb returns the word that agrees with a number.
func Verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
