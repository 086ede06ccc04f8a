// Package redact keeps passwords out of messages.
package redact

import "strings"

// URL returns a URL, or a list of some, for people to read: what stands before the last
// @ may be a name and a password, and a password may hold any character.
func URL(text string) string {
	scheme, at := strings.Index(text, "://"), strings.LastIndex(text, "@")
	if scheme < 0 || at < scheme {
		return text
	}
	return text[:scheme] + "://***" + text[at:]
}
